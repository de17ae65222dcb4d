"""Work on many rows in pieces, from all cores.

NumPy's loops and compiled ones hold no lock of the interpreter, so plain threads run them side
by side. The size of a piece does not depend on the number of threads, and results come in the
order of the pieces: what is computed is the same on any number of cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

VARIABLE = "NUMBA_NUM_THREADS"
PIECES_FOR_A_THREAD = 4
"""Fewer do not repay starting one."""

T = TypeVar("T")


def cores() -> int:
    """Return NUMBA_NUM_THREADS, or the number of cores that this process may use."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_pieces(n: int, size: int, work: Callable[[slice], T]) -> list[T]:
    """Return what `work` makes of each piece of `size` of n rows, in their order.

    Examples
    --------
    >>> in_pieces(5, 2, lambda part: sum(range(5)[part]))
    [1, 5, 4]
    """
    parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    threads = min(cores(), len(parts) // PIECES_FOR_A_THREAD)
    if threads <= 1:
        return [work(part) for part in parts]

    def share(first: int) -> list[T]:
        return [work(part) for part in parts[first::threads]]

    with ThreadPoolExecutor(threads) as pool:
        shares = list(pool.map(share, range(threads)))
    return [shares[i % threads][i // threads] for i in range(len(parts))]
