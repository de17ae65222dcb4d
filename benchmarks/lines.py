"""What the benchmarks share: machine, peers' Python, time and memory of a call, the page."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A result, seconds, seconds of all threads, and by how many MB the process grew at most."""

    result: Any
    seconds: float
    cpu: float
    peak: float


def call(work: Callable[[], Any]) -> Call:
    """Call it, and look at the clock and, every few milliseconds, at the size of the process."""
    base, most, done = memory(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.005):
            most = max(most, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, cpu = time.perf_counter(), time.process_time()
    result = work()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    done.set()
    watcher.join()
    return Call(result, seconds, cpu, max(0.0, most - base))


def peers_python(peers: str) -> tuple[str, dict[str, str]]:
    """Return the Python of the peers and its variables, where `peers` may be a folder of packages.

    A folder serves where no second environment can be made; only the peers' lines see it.
    """
    if not os.path.isdir(peers):
        return peers, {}
    paths = [os.environ.get("PYTHONPATH"), os.path.abspath(peers)]
    return sys.executable, {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def memory() -> float:
    """Return the size of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def machine() -> str:
    """Name the processor, its cores and how busy they are."""
    with open("/proc/cpuinfo") as file:
        lines = [line for line in file if line.startswith("model name")]
    name = lines[0].split(":")[1].strip() if lines else platform.machine()
    return f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def write(page: Path, what: str, text: str) -> None:
    """Put the text between the two marks of a page that have this name."""
    begin, end = (f"<!-- {what}: {place} -->" for place in ("begin", "end"))
    before, rest = page.read_text().split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
