"""Time every line of `measure.py` and `fit.py` that is calibrant's in two versions of it, in turn.

    python benchmarks/versions.py BEFORE/bin/python

BEFORE is an environment with another version, such as the last one whose loops were compiled by
numba: a clone at b632bfa, installed with ``pip install CLONE numba``.

Every line is a fresh process, and the versions take turns in --rounds of them; the best call
counts. A process first frees an array of 24 MB, as one that has read a file would have: until then
the allocator returns memory after every call, and fetching it again takes a third of a fit of
100,000 rows. A ratio below 1 means that this version is faster. All takes some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import fit
import numpy as np
from lines import machine
from measure_cases import CASES, groups

Run = Callable[[], Any]
FEWEST, MOST, SECONDS = 4, 300, 1.5
"""Calls of a line in one process, and for how long it is repeated."""


def measure_lines() -> dict[str, Run]:
    """Return what makes the call of each line of `measure.py`."""
    chosen = groups([10**e for e in range(4, 9)], [2, 10, 100, 1000], [10, 100, 1000])
    return {
        group.title: lambda group=group: CASES[group.names[0]].make(group.n, group.k)
        for group in chosen
    }


def fit_lines() -> dict[str, Run]:
    """Return what makes the call of each line of `fit.py`."""
    shapes = {"temperature": [(50_000, 1_000)], "vector": [(50_000, 1_000)]}
    shapes |= {"matrix": [(5_000, 100)], "scaling-binning": [(10_000, 10)]}

    def make(case: fit.Case, n: int, k: int) -> Run:
        p, y = case.rows(n, k)
        case.own(p[:1000], y[:1000])
        return lambda: case.own(p, y)

    return {
        f"{name}, {n:,} rows" if k == 1 else f"{name}, {n:,} x {k:,}": (
            lambda case=case, n=n, k=k: make(case, n, k)
        )
        for name, case in fit.CASES.items()
        for n, k in shapes.get(name, [(10**e, 1) for e in (5, 6, 7)])
    }


LINES = measure_lines() | fit_lines()


def best(title: str) -> float:
    """Return the least seconds of a call in this process."""
    warnings.simplefilter("ignore")
    run = LINES[title]()
    np.ones(3_000_000)
    run()
    calls: list[float] = []
    while len(calls) < FEWEST or (sum(calls) < SECONDS and len(calls) < MOST):
        start = time.perf_counter()
        run()
        calls.append(time.perf_counter() - start)
    return min(calls)


def in_own_process(python: str, title: str) -> float:
    command = [python, __file__, python, "--line", title]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="the Python of the other version")
    parser.add_argument("--only", default="", help="lines whose title has this text")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--line", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.line:
        print(json.dumps(best(args.line)))
        return
    print(f"{machine()}, best of {args.rounds} processes\n")
    print("| | before, ms | now, ms | ratio |\n|---|--:|--:|--:|")
    for title in LINES:
        if args.only not in title:
            continue
        turns = [
            [in_own_process(python, title) for python in (args.before, sys.executable)]
            for _ in range(args.rounds)
        ]
        before, now = (1000 * min(times) for times in zip(*turns, strict=True))
        print(f"| {title} | {before:,.3g} | {now:,.3g} | {now / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
