"""Time counting tensors on their device against torchmetrics and against reading them once.

    python benchmarks/tensors.py --rows 10_000_000 100_000_000

Needs PyTorch; torchmetrics is compared where it is installed. Every line is called until the
device is done, once to warm up and then for a second, and the best time counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import calibrant


def best(run: Callable[[], Any], device: str) -> float:
    run()
    times: list[float] = []
    while sum(times) < 1 or len(times) < 3:
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(run: Callable[[], Any], device: str) -> str:
    if device != "cuda":
        return ""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    return f"{(torch.cuda.max_memory_allocated() - before) / 1e6:,.0f}"


def lines(n: int, device: str) -> dict[str, Callable[[], Any]]:
    torch.manual_seed(0)
    p = torch.rand(n, device=device)
    y = (torch.rand(n, device=device) < p**1.2).long()
    width, mass = calibrant.EqualWidth(15), calibrant.EqualMass(100)
    made: dict[str, Callable[[], Any]] = {
        "calibrant, 15 equal-width bins": lambda: (
            calibrant.calibration_error(y, p, bins=width, norm="l1", debias=False).value
        ),
        "calibrant, 100 uniform-mass bins": lambda: (
            calibrant.calibration_error(y, p, bins=mass).value
        ),
        "read both tensors (sum)": lambda: float(p.sum()) + int(y.sum()),
        "copy both to the host": lambda: float(p.cpu()[0]) + int(y.cpu()[0]),
    }
    try:
        from torchmetrics.functional.classification import binary_calibration_error
    except ImportError:
        return made
    made["torchmetrics, 15 equal-width bins"] = lambda: float(
        binary_calibration_error(p, y, n_bins=15, norm="l1")
    )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    for n in parser.parse_args().rows:
        print(f"\n| {n:,} float32 rows, {name} | seconds | ratio | extra MB | value |")
        print("|---|--:|--:|--:|--:|")
        first = None
        for label, run in lines(n, device).items():
            seconds = best(run, device)
            first = first or seconds
            print(
                f"| {label} | {seconds:.3g} | {seconds / first:.3g} | {peak(run, device)} | "
                f"{run():.6f} |"
            )


if __name__ == "__main__":
    main()
