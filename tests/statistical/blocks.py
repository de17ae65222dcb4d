"""Simulations in blocks of samples, which processes share, and the tables that they write.

Every block has a seed of its own, so the numbers do not depend on how many processes there are.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

BLOCK = 50
"""Samples of a block: short enough that no process waits for another at the end."""


def jobs_of_command_line(about: str) -> int:
    """Return the number of processes that the command line asks for."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args().jobs


def tables_and_jobs(about: str) -> tuple[list[str], int]:
    """Return which tables the command line names, and on how many processes to make them."""
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("tables", nargs="*", help="those to make anew (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    return options.tables, options.jobs


@contextmanager
def processes(jobs: int):
    """Yield `map` on processes for the cells of a table, and on threads for whole tables."""
    with ProcessPoolExecutor(jobs, initializer=one_thread) as pool, ThreadPoolExecutor() as tables:
        yield pool.map, tables.map


def one_thread() -> None:
    """Keep linear algebra from starting threads in every process."""
    threadpool_limits(1)


def simulate(
    share: Callable[..., Iterable[float]],
    cells: Sequence[tuple],
    runs: int | Sequence[int],
    jobs: int,
) -> list[np.ndarray]:
    """Return the mean of ``share(*cell, runs=, seed=)`` over the samples of each cell."""
    each = [runs] * len(cells) if isinstance(runs, int) else runs
    blocks = [
        (i, min(BLOCK, n - start), start // BLOCK)
        for i, n in enumerate(each)
        for start in range(0, n, BLOCK)
    ]
    sums: list[np.ndarray] = [np.zeros(1) for _ in cells]
    with ProcessPoolExecutor(jobs, initializer=one_thread) as pool:
        pending = [pool.submit(share, *cells[i], runs=n, seed=seed) for i, n, seed in blocks]
        for done, ((i, n, _), block) in enumerate(zip(blocks, pending, strict=True), 1):
            sums[i] = sums[i] + n * np.asarray(block.result(), float)
            if done % 100 == 0 or done == len(blocks):
                print(f"{done:,} of {len(blocks):,} blocks", file=sys.stderr, flush=True)
    return [total / n for total, n in zip(sums, each, strict=True)]


def standard_error(share: float, samples: int) -> str:
    """Return the standard error of a simulated share, in points."""
    return f"{100 * (share * (1 - share) / samples) ** 0.5:.1f} points"


def samples_of(page: str, start: str, end: str) -> list[int]:
    """Return the numbers of samples a cell that stand between two markers of a page."""
    said = re.findall(r"([\d,]+) (?:samples a cell|of bounds)", page.split(start)[1].split(end)[0])
    return [int(number.replace(",", "")) for number in said]


def write_between(page: Path, start: str, end: str, lines: Iterable[str]) -> None:
    """Replace what stands between two markers of a page."""
    text = page.read_text(encoding="utf-8")
    body = "\n".join(lines)
    head, tail = text.split(start)[0], text.split(end)[1]
    page.write_text(f"{head}{start}\n{body}\n{end}{tail}", encoding="utf-8")
