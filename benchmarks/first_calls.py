"""Time the first calls of fresh processes, which is what a short script waits for.

    python benchmarks/first_calls.py

Every time is the best of several processes; rows are made, and NumPy is imported, before the clock
starts. `measure.py` writes the table into the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

PROCESSES = 7
ROWS = """
import json, time
import numpy as np
rng = np.random.default_rng(0)
p = rng.random(1_000_000)
y = (rng.random(p.size) < p**1.2).astype(np.int64)
import calibrant
def clock(work):
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu
"""
ERROR = "calibrant.calibration_error(y, p)"
FIT = "calibrant.PlattScaling().fit(p, y)"
CASES = {
    "first `calibration_error`, 1e6 rows": (
        "calibrant.calibration_error",
        ERROR,
        20,
    ),
    "the same with `from calibrant import calibration_error`": ("", ERROR, None),
    "a later `calibration_error`": (ERROR, ERROR, None),
    "first fit of `PlattScaling`, 1e6 rows": (
        "import sklearn.base, scipy.optimize; calibrant.PlattScaling",
        FIT,
        300,
    ),
    "a later fit": (FIT, FIT, None),
}
"""What is done before the clock starts, what is timed, and the target in milliseconds."""


def milliseconds(before: str, timed: str) -> tuple[float, float]:
    """Return elapsed and processor time of the best of several fresh processes."""
    code = f"{ROWS}{before}\nprint(json.dumps(clock(lambda: {timed})))"

    def once() -> tuple[float, float]:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        wall, cpu = json.loads(done.stdout)
        return 1000 * wall, 1000 * cpu

    return min(once() for _ in range(PROCESSES))


def table() -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| in a fresh process | ms | CPU, ms | target | |"
    yield "|---|--:|--:|--:|---|"
    for name, (before, timed, target) in CASES.items():
        wall, cpu = milliseconds(before, timed)
        wanted = f"{target} ms" if target else ""
        met = "" if target is None else "met" if wall <= target else "**not met**"
        yield f"| {name} | {wall:.3g} | {cpu:.3g} | {wanted} | {met} |"


if __name__ == "__main__":
    print("\n".join(table()))
