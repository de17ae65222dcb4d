"""Files that once crashed calibrant or were accepted in silence, replayed through every command."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import damaged_files
import mutated_documents

HERE = Path(__file__).parent / "fixtures"
FIXTURES = sorted(path for path in HERE.rglob("*") if path.is_file())
DOCUMENTS = {"tables": "table", "certificates": "certificate", "recalibrators": "recalibrator"}


def prepare() -> None:
    damaged_files.prepare()


def run(number: int, folder: Path) -> str:
    path = FIXTURES[number]
    group, rng = path.parent.name, random.Random(0)
    (folder / "fixture.txt").write_text(str(path))
    if group in DOCUMENTS:
        shutil.copy(path, "in.json")
        return mutated_documents.CHECKS[DOCUMENTS[group]]("in.json", False, rng)
    name = "in" + "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:])
    shutil.copy(path, name)
    for check in dict.fromkeys(damaged_files.CHECKS):
        check(name, group, False, rng)
    return "replayed"
