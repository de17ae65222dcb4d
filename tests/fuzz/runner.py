"""Runs numbered cases in a child process, which is replaced when one of them ends it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
CATEGORIES = {
    "damaged_files": 1,
    "mutated_documents": 1,
    "hostile_arrays": 1,
    "hostile_names": 0.3,
    "kills": 0.05,
}
"""The share of the cases asked for: names are fewer than numbers, and kills take a second."""
HANG = 180
"""Seconds without an answer that mean a hang: a case takes a few hundredths of one."""


def cases_of(category: str, asked: int) -> int:
    """Return how many cases of a category are tried."""
    return max(1, round(CATEGORIES[category] * asked))


CASES_OF_A_CHILD = 1000
"""Allocators keep address space of files that asked for gigabytes, and a child's is limited."""


@dataclass
class Report:
    """What came of the cases of one category."""

    category: str
    answers: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{count:,} {answer}" for answer, count in sorted(self.answers.items())]
        return f"{self.category}: {', '.join(parts)}"


def run_cases(category: str, numbers: Iterable[int], folder: Path) -> Report:
    """Run cases and report; the folder of a case that failed is kept in `folder`."""
    report, child = Report(category), None
    folder.mkdir(parents=True, exist_ok=True)
    for i, number in enumerate(numbers):
        if child is not None and i % CASES_OF_A_CHILD == 0:
            _end(child)
            child = None
        if child is None:
            child = _start(category, folder)
        answer, failure = _ask(child, number)
        if child.poll() is not None:
            child = None
        report.answers[answer] += 1
        if failure is not None:
            again = f"python tests/fuzz/child.py {category} {number} FOLDER"
            report.failures.append(f"{category} case {number} ({again}):\n{failure}")
            _keep(folder, f"{category}-{number}")
    if child is not None:
        _end(child)
    return report


def _start(category: str, folder: Path) -> subprocess.Popen:
    env = os.environ | {"FUZZ_FOLDER": str(folder), "CALIBRANT_NUM_THREADS": "2"}
    if paths := os.environ.get("PYTHONPATH"):  # the child works in a folder of its own
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    with open(folder / "child.txt", "wb") as said:
        child = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(HERE / "child.py"), category],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=env,
        )
    if child.stdout.readline() != b"ready\n":
        _end(child)
        raise RuntimeError((folder / "child.txt").read_text()[-3000:])
    return child


def _ask(child: subprocess.Popen, number: int) -> tuple[str, str | None]:
    """Send a case and wait for what came of it."""
    try:
        child.stdin.write(f"{number}\n".encode())
        child.stdin.flush()
        ready, _, _ = select.select([child.stdout], [], [], HANG)
    except BrokenPipeError:
        ready = [child.stdout]
    if not ready:
        child.kill()
        _end(child)
        return "hung", f"no answer in {HANG} s"
    line = child.stdout.readline()
    if not line:
        _end(child)
        return "crashed", f"the process ended with {child.returncode}"
    _, answer, failure = json.loads(line)
    return answer, failure


def _end(child: subprocess.Popen) -> None:
    child.stdin.close()
    child.stdout.close()
    child.wait()


def _keep(folder: Path, name: str) -> None:
    if (folder / "case").is_dir() and not (folder / name).exists():
        (folder / "case").rename(folder / name)
