"""Time measuring with calibrant and with its peers in one run, with values and memory compared.

    python benchmarks/measure.py --peers PEERS/bin/python --rows 10000 100000 1000000 10000000

Every line is a fresh process, so its peak of memory is its own. Peers run in an environment of
theirs, made outside this repository:

    python -m venv PEERS
    PEERS/bin/pip install relplot torchmetrics netcal scikit-learn uncertainty-calibration pycalib

Times are the best of --repeats after one call to warm up; the ratio is a line's time over that of
the first line of its group, so above 1 the first line is faster. Peers that resample are run with
100 resamples, which is what they offer, and their time is multiplied by 10.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[], Any]


def binary(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.random(n)
    return (rng.random(n) < p**1.2).astype(np.int64), p


def table(n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    probs = rng.random((n, k), dtype=np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    return rng.integers(k, size=n), probs


def ours(y: Any, p: Any, bins: Any, **options: Any) -> Run:
    import calibrant

    return lambda: calibrant.calibration_error(y, p, bins=bins, **options).value


def width(n: int) -> Any:
    import calibrant

    return calibrant.EqualWidth(n)


def equal_width(n: int, k: int) -> Run:
    return ours(*binary(n), width(15), norm="l1", debias=False)


def read_twice(n: int, k: int) -> Run:
    y, p = binary(n)
    return lambda: float(y.sum() + p.sum()) * 0


def relplot(n: int, k: int) -> Run:
    from relplot.metrics import binnedECE

    y, p = binary(n)
    return lambda: binnedECE(p, y, nbins=15)


def torchmetrics(n: int, k: int) -> Run:
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    y, p = map(torch.from_numpy, binary(n))
    return lambda: float(binary_calibration_error(p, y, n_bins=15, norm="l1"))


def netcal(n: int, k: int) -> Run:
    from netcal.metrics import ECE

    y, p = binary(n)
    return lambda: float(ECE(15).measure(p, y))


def sklearn(n: int, k: int) -> Run:
    from sklearn.calibration import calibration_curve

    y, p = binary(n)
    return lambda: float(np.abs(np.subtract(*calibration_curve(y, p, n_bins=15))).mean())


def equal_mass(n: int, k: int) -> Run:
    return ours(*binary(n), k, norm="l1", debias=False)


def sort(n: int, k: int) -> Run:
    p = binary(n)[1]
    return lambda: float(np.sort(p)[0]) * 0


def marginal(n: int, k: int) -> Run:
    return ours(*table(n, k), width(15), kind="marginal", norm="l1", debias=False)


def pycalib(n: int, k: int) -> Run:
    from pycalib.metrics import classwise_ECE

    y, p = table(n, k)
    return lambda: float(classwise_ECE(y, p, bins=15))


def marginal_mass(n: int, k: int) -> Run:
    return ours(*table(n, k), 15, kind="marginal")


def uncertainty_calibration(n: int, k: int) -> Run:
    from calibration import lower_bound_scaling_ce

    y, p = table(n, k)
    return lambda: float(lower_bound_scaling_ce(p, y, p=2, debias=True, mode="marginal"))


def binned(n: int) -> tuple[Any, Any]:
    y, p = binary(n)
    return y, np.round(p, 1)


def bootstrap(n: int, k: int) -> Run:
    import calibrant

    y, p = binned(n)

    def run() -> float:
        result = calibrant.calibration_error(y, p, bins=calibrant.Distinct())
        interval = result.confidence_interval(method="percentile", n_resamples=1000, rng=0)
        return float(interval.high)

    return run


def bootstrap_peer(n: int, k: int) -> Run:
    from calibration import get_calibration_error_uncertainties

    y, p = binned(n)
    return lambda: float(get_calibration_error_uncertainties(p, y, alpha=5.0)[2])


CASES: dict[str, tuple[Callable[[int, int], Run], bool, float]] = {
    "calibrant, numba": (equal_width, False, 1),
    "calibrant, NumPy": (equal_width, False, 1),
    "read both arrays (np.sum)": (read_twice, False, 1),
    "relplot": (relplot, True, 1),
    "torchmetrics": (torchmetrics, True, 1),
    "netcal": (netcal, True, 1),
    "scikit-learn calibration_curve": (sklearn, True, 1),
    "calibrant, uniform mass": (equal_mass, False, 1),
    "np.sort of the predictions": (sort, False, 1),
    "calibrant, marginal": (marginal, False, 1),
    "pycalib classwise_ECE": (pycalib, True, 1),
    "calibrant, marginal uniform mass, debiased": (marginal_mass, False, 1),
    "uncertainty-calibration": (uncertainty_calibration, True, 1),
    "calibrant, 1,000 resamples": (bootstrap, False, 1),
    "uncertainty-calibration, 1,000 resamples": (bootstrap_peer, True, 10),
}
NAMES = list(CASES)


def groups(
    rows: list[int], classes: list[int], n_bins: list[int]
) -> list[tuple[str, Any, int, int]]:
    """Return (title, names, n, k) of every group of lines."""
    found: list[tuple[str, Any, int, int]] = []
    found += [(f"15 equal-width bins, {n:,} rows", NAMES[:7], n, 15) for n in rows]
    found += [
        (f"{b:,} uniform-mass bins, {max(rows):,} rows", NAMES[7:9], max(rows), b) for b in n_bins
    ]
    for k in classes:
        found.append((f"15 equal-width bins, 50,000 x {k:,} float32", NAMES[9:11], 50_000, k))
        found.append((f"15 uniform-mass bins, 50,000 x {k:,} float32", NAMES[11:13], 50_000, k))
    found.append(("bootstrap of a binned model, 100,000 rows", NAMES[13:], 100_000, 0))
    return found


def memory() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_of(run: Run) -> float:
    """Return by how many MB the process grows at most while it runs."""
    base, most, done = memory(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.002):
            most = max(most, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    return max(0.0, most - base)


def measure(name: str, n: int, k: int, repeats: int) -> dict[str, float]:
    """Time one line in this process."""
    make, _, factor = CASES[name]
    warnings.simplefilter("ignore")
    run, seconds = make(n, k), []
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    for _ in range(repeats if first < 20 else 1):
        start = time.perf_counter()
        value = run()
        seconds.append(time.perf_counter() - start)
    peak = peak_of(run) if first < 20 else float("nan")
    return {"seconds": min(seconds) * factor, "value": value, "peak": peak}


def in_own_process(name: str, n: int, k: int, args: argparse.Namespace) -> dict[str, float] | str:
    python = args.peers if CASES[name][1] else sys.executable
    engine = "numpy" if name.endswith("NumPy") else "numba"
    command = [python, __file__, "--line", name, str(n), str(k), "--repeats", str(args.repeats)]
    environment = os.environ | {"CALIBRANT_ENGINE": engine}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=args.limit, env=environment
        )
    except subprocess.TimeoutExpired:
        return f"over {args.limit} s"
    if done.returncode:
        return "failed: " + (done.stderr.strip().splitlines() or ["killed"])[-1][:60]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def import_seconds(package: str) -> float:
    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {package}"], check=True)
        return time.perf_counter() - start

    return min(once() for _ in range(7))


def machine() -> str:
    with open("/proc/cpuinfo") as file:
        lines = [line for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        total = int(file.readline().split()[1]) / 2**20
    name = lines[0].split(":")[1].strip() if lines else platform.machine()
    return f"{name}, {os.cpu_count()} cores, {total:.0f} GiB, load {os.getloadavg()[0]:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--bins", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--limit", type=int, default=240, help="seconds for one line")
    parser.add_argument("--only", default="", help="groups whose title has this text")
    parser.add_argument("--line", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.line:
        name, n, k = args.line
        print(json.dumps(measure(name, int(n), int(k), args.repeats)))
        return
    print(f"{datetime.date.today()}; {machine()}; best of {args.repeats}\n")
    for title, names, n, k in groups(args.rows, args.classes, args.bins):
        if args.only not in title:
            continue
        print(f"| {title} | seconds | ratio | value | extra MB |\n|---|--:|--:|--:|--:|")
        first = None
        for name in names:
            found = in_own_process(name, n, k, args)
            if isinstance(found, str):
                print(f"| {name} | {found} | | | |", flush=True)
                continue
            first = first or found["seconds"]
            value = f"{found['value']:.6f}" if found["value"] else ""
            numbers = f"{found['seconds']:.4g} | {found['seconds'] / first:.3g} | {value}"
            print(f"| {name} | {numbers} | {found['peak']:.1f} |", flush=True)
        print()
    seconds = {name: import_seconds(name) for name in ("calibrant", "numpy")}
    print("\n".join(f"a process that imports {k}: {1000 * v:.0f} ms" for k, v in seconds.items()))


if __name__ == "__main__":
    main()
