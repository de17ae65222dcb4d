"""The numbers of docs/reliability.md: `python tests/fuzz/run.py --cases 10000`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from runner import CATEGORIES, Report, cases_of, run_cases


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--cases", type=int, default=1000, help="of each category; of names and kills fewer"
    )
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CATEGORIES, default=CATEGORIES)
    parser.add_argument("--folder", help="where the files of failures are kept")
    args = parser.parse_args()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="fuzz-"))
    failures = []
    for category in args.only:
        started = time.monotonic()
        numbers = range(args.first, args.first + cases_of(category, args.cases))
        report = run_shared(category, numbers, folder, args.jobs)
        seconds = time.monotonic() - started
        print(f"{report}; {len(report.failures)} failures, {seconds:.0f} s", flush=True)
        failures += report.failures
    for failure in failures:
        print(f"\n{failure}")
    return 1 if failures else 0


def run_shared(category: str, numbers: range, folder: Path, jobs: int) -> Report:
    """Run cases in several children, each with every so-many-th of them."""
    total = Report(category)
    with ThreadPoolExecutor(jobs) as pool:
        parts = [
            pool.submit(run_cases, category, numbers[i::jobs], folder / f"{category}-part-{i}")
            for i in range(jobs)
        ]
    for part in parts:
        total.answers += part.result().answers
        total.failures += part.result().failures
    return total


if __name__ == "__main__":
    sys.exit(main())
