"""Work on many rows in pieces, from all cores.

NumPy's loops and compiled ones hold no lock of the interpreter, so plain threads run them side
by side. The size of a piece does not depend on the number of threads, and results come in the
order of the pieces: what is computed is the same on any number of cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock, Thread
from typing import Any, TypeVar

VARIABLE = "CALIBRANT_NUM_THREADS"
PIECES_FOR_A_THREAD = 4
"""Starting a thread costs more than it saves on fewer small pieces."""

T = TypeVar("T")


def cores() -> int:
    """Return CALIBRANT_NUM_THREADS, or the number of cores that this process may use."""
    limit = os.environ.get(VARIABLE, "")
    if limit.isdecimal() and int(limit) > 0:
        return int(limit)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(jobs: Sequence[Callable[[], T]], threads: int | None = None) -> Iterator[T]:
    """Run jobs on as many threads as cores, and yield their results in order.

    The calling thread does its share. When a job fails no other is begun, and the failure of the
    first job that failed is raised in its place.

    Examples
    --------
    >>> list(run([lambda: "a", lambda: "b"], threads=2))
    ['a', 'b']
    """
    if threads is None:
        threads = cores() if len(jobs) > 1 else 1
    threads = min(threads, len(jobs))
    if threads <= 1:
        for job in jobs:
            yield job()
        return
    results: dict[int, tuple[bool, Any]] = {}
    waiting, lock = iter(range(len(jobs))), Lock()

    def take() -> int | None:
        with lock:
            return next(waiting, None)

    def stop() -> None:
        nonlocal waiting
        with lock:
            waiting = iter(())

    def work(i: int) -> None:
        try:
            results[i] = (True, jobs[i]())
        except Exception as error:  # raised again where the results are taken
            results[i] = (False, error)
            stop()

    def work_on() -> None:
        while (i := take()) is not None:
            work(i)

    others = [Thread(target=work_on, daemon=True) for _ in range(threads - 1)]
    for thread in others:
        thread.start()
    try:
        ready = 0
        while (i := take()) is not None:
            work(i)
            while ready in results:
                yield _result(*results.pop(ready))
                ready += 1
        for thread in others:
            thread.join()
        for i in range(ready, len(jobs)):
            yield _result(*results.pop(i))
    finally:
        stop()
        for thread in others:
            thread.join()


def _result(fine: bool, result: Any) -> Any:
    if not fine:
        raise result
    return result


def in_pieces(n: int, size: int, work: Callable[[slice], T]) -> list[T]:
    """Return what `work` makes of each piece of `size` of n rows, in their order.

    Examples
    --------
    >>> in_pieces(5, 2, lambda part: sum(range(5)[part]))
    [1, 5, 4]
    """
    parts = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    threads = min(cores(), len(parts) // PIECES_FOR_A_THREAD)
    return list(run([partial(work, part) for part in parts], threads))
