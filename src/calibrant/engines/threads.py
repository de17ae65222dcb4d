"""Running compiled loops side by side, and reading what they report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numba
import numpy as np

from calibrant._types import AnyArray
from calibrant.engines.kernels import BAD_LABEL, BAD_PROBABILITY
from calibrant.problem import Rows

SEGMENT_ROWS = 1 << 18

T = TypeVar("T")


def threads() -> int:
    """Return how many threads to use: NUMBA_NUM_THREADS, or all cores."""
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


def run(jobs: Sequence[Callable[[], T]]) -> Iterator[T]:
    """Yield what the jobs return, in their order, from as many threads as there are cores."""
    n_threads = min(threads(), len(jobs))
    if n_threads == 1:
        yield from (job() for job in jobs)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        waiting = deque(pool.submit(job) for job in jobs)
        while waiting:
            yield waiting.popleft().result()


def refuse(rows: Rows, status: int) -> None:
    """Raise the exception that belongs to a loop's status, unless it is fine."""
    if status == BAD_LABEL:
        rows.explain_labels()
    if status == BAD_PROBABILITY:
        rows.explain_probabilities()


def segments(n: int, size: int = SEGMENT_ROWS) -> Iterator[slice]:
    """Cut n rows into slices of this size."""
    return (slice(i, i + size) for i in range(0, n, size))


def native(values: AnyArray) -> AnyArray:
    """Return values in a type that the compiled loops read, each exactly as it was."""
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)
