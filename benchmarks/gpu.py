"""Time calibrant and torchmetrics on one GPU in one run, and write the page about it.

    python benchmarks/gpu.py --write docs/performance-gpu.md

Needs PyTorch with a CUDA device; torchmetrics is compared where it is installed. Device times are
medians of CUDA events, whole calls are medians of the host's clock with the device done, each after
two calls to warm up. Extra memory is the peak of PyTorch's allocator less what was there before.
A whole run takes about two minutes, and 40 GB of device memory.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import calibrant
from calibrant.engines.exact_sums import ExactSums
from calibrant.engines.tensors import Tensors
from calibrant.engines.torch import near_quantiles
from calibrant.problem import read_problem

Run = Callable[[], Any]
DEVICE = "cuda"
LINES: list[str] = []


def device_ms(run: Run, calls: int = 15) -> float:
    """Return the median time of a call, of five between two events: the host runs ahead."""
    times = []
    for _ in range(calls + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(5):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 5)
    return statistics.median(times[2:])


def call_ms(run: Run, calls: int = 15) -> float:
    """Return the median time until a call has returned and the device is done."""
    times = []
    for _ in range(calls + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def extra_mb(run: Run) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def line(what: str, ms: float, run: Run, target: str = "", value: str = "") -> None:
    LINES.append(f"| {what} | {ms:,.3g} | {extra_mb(run):,.0f} | {target} | {value} |")
    print(LINES[-1], flush=True)


def table(title: str) -> None:
    LINES.extend(
        ["", f"## {title}", "", "| | ms | extra MB | target | value |", "|---|--:|--:|---|--:|"]
    )
    print(title, flush=True)


def ece(y: Any, x: Any, **given: Any) -> float:
    return float(calibrant.calibration_error(y, x, norm="l1", debias=False, **given).value)


def adder(
    kind: str, n_classes: int, labels: Any, x: Any, are_logits: bool = True
) -> tuple[Run, Any]:
    problem = read_problem(kind, n_classes)
    sums = ExactSums(
        problem, (calibrant.EqualWidth(15).bins,) * problem.n_groups, are_logits=are_logits
    )
    state = sums.zeros(DEVICE)
    return lambda: sums.add(state, labels, x), (sums, state)


def torchmetrics_of(name: str) -> Any:
    try:
        from torchmetrics.functional import classification
    except ImportError:
        return None
    return getattr(classification, name)


def top_label(n: int, k: int, dtype: Any, kernel: str, whole: str) -> None:
    table(
        f"Top label, {n:,} x {k:,} logits in {str(dtype).removeprefix('torch.')}, 15 equal widths"
    )
    torch.manual_seed(0)
    x = (3 * torch.randn(n, k, device=DEVICE)).to(dtype)
    y = torch.where(
        torch.rand(n, device=DEVICE) < 0.7, x.argmax(1), torch.randint(k, (n,), device=DEVICE)
    )
    run, _ = adder("top-label", k, y, x)
    line("sums and checks on the device", device_ms(run), run, kernel)
    run = lambda: ece(y, x, input="logits", bins="width:15")  # noqa: E731
    line("`calibration_error`, whole call", call_ms(run), run, whole, f"{run():.9f}")
    few = slice(0, 512)
    exact = calibrant.tabulate(
        y[few].cpu().numpy(), x[few].float().cpu().numpy(), input="logits", bins="width:15"
    )
    found = calibrant.tabulate(y[few], x[few], input="logits", bins="width:15")
    assert np.array_equal(found.count, exact.count)
    worst = np.nanmax(np.abs(found.sum_p - exact.sum_p) / exact.sum_p)
    LINES.append(f"| *sums of p against float64 on the host, relative* | | | 1e-12 | {worst:.1e} |")
    peer = torchmetrics_of("multiclass_calibration_error")
    if peer is not None:
        run = lambda: peer(x, y, num_classes=k, n_bins=15, norm="l1")  # noqa: E731
        line("torchmetrics, whole call", call_ms(run, 5), run, "", f"{float(run()):.9f}")
    run = lambda: x.amax()  # noqa: E731
    line("reading them once (amax)", device_ms(run), run)


def marginal(n: int = 50_000, k: int = 1000) -> None:
    table(f"Marginal and multi-label, {n:,} x {k:,} float32 logits, 15 bins for each class")
    torch.manual_seed(0)
    x = 3 * torch.randn(n, k, device=DEVICE)
    y = torch.where(
        torch.rand(n, device=DEVICE) < 0.7, x.argmax(1), torch.randint(k, (n,), device=DEVICE)
    )
    run, _ = adder("marginal", k, y, x)
    line("equal width, sums and checks on the device", device_ms(run), run, "1 ms")
    tensors = Tensors(read_problem("marginal", k), y, x, None, True)
    run = lambda: near_quantiles(tensors, 15)  # noqa: E731
    line(
        "uniform mass, quantiles", call_ms(run, 41), run, f"6 ms, {0.05 * 4 * n * k / 1e6:,.0f} MB"
    )
    for bins, target in (("width:15", "5 ms"), ("mass:15", "15 ms")):
        run = lambda: ece(y, x, kind="marginal", input="logits", bins=bins)  # noqa: B023, E731
        what = f"`calibration_error`, `{bins}`, whole call"
        line(what, call_ms(run, 41), run, target, f"{run():.9f}")
    events = x.sigmoid() > torch.rand_like(x)
    for bins in ("width:15", "mass:15"):
        run = lambda: ece(events, x, kind="multi-label", input="logits", bins=bins)  # noqa: B023, E731
        what = f"`calibration_error` of 1,000 labels a row, `{bins}`, whole call"
        line(what, call_ms(run, 41), run, "", f"{run():.9f}")


def columns(n: int) -> None:
    table(f"{n:,} float32 probabilities, uint8 labels")
    torch.manual_seed(0)
    p = torch.rand(n, device=DEVICE)
    y = (torch.rand(n, device=DEVICE) < p**1.2).to(torch.uint8)
    for n_bins in (15, 100, 1000):
        sums = ExactSums(read_problem("binary"), (calibrant.EqualWidth(n_bins).bins,))
        state = sums.zeros(DEVICE)
        run = lambda: sums.add(state, y, p)  # noqa: B023, E731
        target = "5 ms" if n == 10**9 and n_bins <= 100 else ""
        line(
            f"{n_bins:,} equal-width bins, sums and checks on the device",
            device_ms(run, 7),
            run,
            target,
        )
    run = lambda: ece(y, p, bins="width:15")  # noqa: E731
    line("`calibration_error`, `width:15`, whole call", call_ms(run, 7), run, "", f"{run():.9f}")
    for n_bins in (15, 100):
        tensors = Tensors(read_problem("binary"), y, p)
        run = lambda: near_quantiles(tensors, n_bins)  # noqa: B023, E731
        target = f"below sort, {0.05 * 5 * n / 1e6:,.0f} MB"
        line(f"{n_bins} uniform-mass edges", call_ms(run, 5), run, target)
    run = lambda: p.sort()  # noqa: E731
    line("`torch.sort`", call_ms(run, 3), run)
    run = lambda: p.sum()  # noqa: E731
    line("reading the probabilities once (sum)", device_ms(run), run)
    peer = torchmetrics_of("binary_calibration_error")
    if peer is not None:
        run = lambda: peer(p, y, n_bins=15, norm="l1")  # noqa: E731
        line("torchmetrics, 15 bins, whole call", call_ms(run, 3), run, "", f"{float(run()):.9f}")


def updates() -> None:
    table("One update with 256 x 1,000 float32 logits: time of the host, without synchronisation")
    x, y = torch.randn(256, 1000, device=DEVICE), torch.randint(1000, (256,), device=DEVICE)
    for kind in ("top-label", "marginal"):
        run, _ = adder(kind, 1000, y, x)
        run()
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        times = []
        for _ in range(300):
            start = time.perf_counter()
            run()
            times.append(1e3 * (time.perf_counter() - start))
        torch.cuda.set_sync_debug_mode("default")
        line(kind, statistics.median(times), run, "0.06 ms" if kind == "top-label" else "")


def fits(n: int = 50_000, k: int = 1000) -> None:
    table(f"Fits from device tensors, {n:,} x {k:,} float32 logits, or one column of probabilities")
    torch.manual_seed(0)
    x = 2 * torch.randn(n, k, device=DEVICE)
    noise = -torch.log(-torch.log(torch.rand(n, k, device=DEVICE)))
    y = (0.5 * x + noise).argmax(1)
    scaling = calibrant.TemperatureScaling(input="logits")
    run = lambda: scaling.fit(x, y)  # noqa: E731
    ms = call_ms(run, 7)
    host = calibrant.TemperatureScaling(input="logits").fit(
        x[:5000].cpu().numpy(), y[:5000].cpu().numpy()
    )
    here = calibrant.TemperatureScaling(input="logits").fit(x[:5000], y[:5000])
    apart = f"T to {abs(host.temperature_ / here.temperature_ - 1):.0e} of the host's"
    line("`TemperatureScaling`", ms, run, "15 ms", apart)
    run = lambda: calibrant.VectorScaling(input="logits").fit(x, y)  # noqa: E731
    line("`VectorScaling`", call_ms(run, 2), run)
    p = torch.rand(10_000_000, device=DEVICE)
    event = (torch.rand_like(p) < p**1.3).long()
    for recalibrator in (
        calibrant.PlattScaling(),
        calibrant.BetaScaling(),
        calibrant.HistogramBinning(),
        calibrant.ScalingBinning(),
    ):
        run = lambda: recalibrator.fit(p, event)  # noqa: B023, E731
        line(f"`{type(recalibrator).__name__}`, 10,000,000 rows", call_ms(run, 3), run)


def write(path: Path) -> None:
    import scipy

    versions = {"PyTorch": torch, "NumPy": np, "SciPy": scipy}
    about = f"{datetime.date.today():%B %Y}, {torch.cuda.get_device_name()}, "
    about += f"Python {platform.python_version()}, "
    about += ", ".join(f"{name} {package.__version__}" for name, package in versions.items())
    try:
        import torchmetrics

        about += f", torchmetrics {torchmetrics.__version__}"
    except ImportError:
        pass
    text = path.read_text() if path.exists() else "# Speed on a GPU\n\n<!-- times -->\n"
    head = text.split("<!-- times -->")[0]
    path.write_text(f"{head}<!-- times -->\n\n{about}.\n" + "\n".join(LINES) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--small", action="store_true", help="a hundredth of the rows, as a trial")
    arguments = parser.parse_args()
    part = 100 if arguments.small else 1
    warnings.simplefilter("ignore")  # that the debug mode of synchronisation is a prototype
    top_label(8192 // part, 128_256, torch.bfloat16, "0.9 ms", "3 ms")
    top_label(50_000 // part, 1000, torch.float32, "0.3 ms", "2 ms")
    marginal(50_000 // part)
    updates()
    fits(50_000 // part)
    for n in (10**8, 10**9):
        torch.cuda.empty_cache()
        columns(n // part)
    if arguments.write:
        write(arguments.write)


if __name__ == "__main__":
    main()
