"""Add documents of this version that are not kept yet; never change one that is.

``PYTHONPATH=src python tests/golden/make_golden.py``. A document that no longer gives the numbers
beside it is a broken promise: change the code that reads it, not the file. (Until its version is
released nobody holds such a document, and it may be deleted and made anew.)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from documents import DOCUMENTS, numbers

import calibrant

FOLDER = Path(__file__).parent / "documents"


def main() -> None:
    kept = {path.stem for path in FOLDER.glob("*/*.json")}
    folder = FOLDER / calibrant.__version__
    for name, make in DOCUMENTS.items():
        if name in kept:
            continue
        document = json.loads(make())
        expected = json.loads(json.dumps(numbers(document)))
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{name}.json", "x", encoding="utf-8") as stream:
            json.dump({"document": document, "expected": expected}, stream, separators=(",", ":"))
            stream.write("\n")
        print(f"added {folder.name}/{name}")


if __name__ == "__main__":
    sys.exit(main())
