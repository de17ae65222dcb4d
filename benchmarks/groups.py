"""Time counting arrays group by group against counting the same rows as one.

    python benchmarks/groups.py --rows 10_000_000 --groups 1000 --repeats 15

Runs take turns, and the best of each counts. Where bins are given, counting reads predictions and
labels at the speed of memory (9 bytes a row), and a column of 64-bit groups alone has 8 more.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import calibrant

N_BINS = 15
BINS = {"uniform mass": calibrant.EqualMass(N_BINS), "equal width": calibrant.EqualWidth(N_BINS)}


def runs(n: int, n_groups: int) -> dict[tuple[str, str], Callable[[], Any]]:
    """Return what is timed, by bins and column of groups."""
    rng = np.random.default_rng(0)
    p = rng.random(n)
    y = rng.random(n) < p**1.2
    group = rng.integers(0, n_groups, n)
    columns = {
        "none": None,
        "64-bit integers": group,
        "32-bit integers": group.astype(np.int32),
        "16-bit integers": group.astype(np.int16),
    }
    return {
        (rule, name): lambda bins=bins, by=by: calibrant.tabulate(y, p, bins=bins, by=by)
        for rule, bins in BINS.items()
        for name, by in columns.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    timed, best = runs(options.rows, options.groups), {}
    for _ in range(options.repeats):
        for key, run in timed.items():
            start = time.perf_counter()
            run()
            best[key] = min(best.get(key, np.inf), time.perf_counter() - start)
    today = datetime.datetime.now(datetime.UTC).date()
    print(
        f"{options.rows:,} rows, {options.groups:,} groups, {N_BINS} bins, best of "
        f"{options.repeats}, {os.cpu_count()} cores, {platform.machine()}, {today}\n"
    )
    print("| bins | groups | milliseconds | ratio to none |")
    print("|---|---|---|---|")
    for (rule, name), seconds in best.items():
        print(f"| {rule} | {name} | {seconds * 1e3:.1f} | {seconds / best[rule, 'none']:.2f} |")


if __name__ == "__main__":
    main()
