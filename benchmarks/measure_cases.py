"""What `measure.py` times: each case makes its data and returns the call to time.

Peers are imported inside their case, for each line runs in a process of its own: ours with the
Python that runs the benchmark, a peer's with the Python of the peers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A call to time: `make(n, k)` returns it; its time is multiplied by `factor`."""

    make: Callable[[int, int], Run]
    is_peer: bool = False
    factor: float = 1


@dataclass(frozen=True)
class Group:
    """Lines of one table: the cases of these names, with n rows and k classes or bins."""

    key: str
    title: str
    names: tuple[str, ...]
    n: int
    k: int


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
    return ours(*binary(n), width(k), norm="l1", debias=False)


def read_twice(n: int, k: int) -> Run:
    y, p = binary(n)
    return lambda: float(y.sum() + p.sum()) * 0


def relplot(n: int, k: int) -> Run:
    from relplot.metrics import binnedECE

    y, p = binary(n)
    return lambda: binnedECE(p, y, nbins=k)


def torchmetrics(n: int, k: int) -> Run:
    import torch
    from torchmetrics.functional.classification import binary_calibration_error

    y, p = map(torch.from_numpy, binary(n))
    return lambda: float(binary_calibration_error(p, y, n_bins=k, norm="l1"))


def netcal(n: int, k: int) -> Run:
    from netcal.metrics import ECE

    y, p = binary(n)
    return lambda: float(ECE(k).measure(p, y))


def sklearn(n: int, k: int) -> Run:
    from sklearn.calibration import calibration_curve

    y, p = binary(n)
    return lambda: float(np.abs(np.subtract(*calibration_curve(y, p, n_bins=k))).mean())


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
    if k == 2:  # it fails on two classes unless they are columns
        y = np.eye(2, dtype=np.int64)[y]
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


COMPILED, NUMPY, READ = "calibrant, compiled", "calibrant, NumPy", "read both arrays (np.sum)"
RELPLOT, TORCHMETRICS, NETCAL = "relplot", "torchmetrics", "netcal"
SKLEARN = "scikit-learn calibration_curve"
MASS, SORT = "calibrant, uniform mass", "np.sort of the predictions"
MARGINAL, PYCALIB = "calibrant, marginal", "pycalib classwise_ECE"
MARGINAL_MASS = "calibrant, marginal, uniform mass, debiased"
UNCERTAINTY = "uncertainty-calibration"
RESAMPLES, UNCERTAINTY_RESAMPLES = (
    "calibrant, 1,000 resamples",
    "uncertainty-calibration, 1,000 resamples",
)

CASES: dict[str, Case] = {
    COMPILED: Case(equal_width),
    NUMPY: Case(equal_width),
    READ: Case(read_twice),
    RELPLOT: Case(relplot, is_peer=True),
    TORCHMETRICS: Case(torchmetrics, is_peer=True),
    NETCAL: Case(netcal, is_peer=True),
    SKLEARN: Case(sklearn, is_peer=True),
    MASS: Case(equal_mass),
    SORT: Case(sort),
    MARGINAL: Case(marginal),
    PYCALIB: Case(pycalib, is_peer=True),
    MARGINAL_MASS: Case(marginal_mass),
    UNCERTAINTY: Case(uncertainty_calibration, is_peer=True),
    RESAMPLES: Case(bootstrap),
    UNCERTAINTY_RESAMPLES: Case(bootstrap_peer, is_peer=True, factor=10),
}


def groups(rows: list[int], classes: list[int], n_bins: list[int]) -> list[Group]:
    """Return the groups in their order: growth with rows, with bins, with classes; resampling."""
    one_column = (COMPILED, NUMPY, READ, RELPLOT, TORCHMETRICS, NETCAL, SKLEARN)
    found = [
        Group(f"width {n}", f"15 equal-width bins, {n:,} rows", one_column, n, 15) for n in rows
    ]
    n = min(max(rows), 10_000_000)
    for b in n_bins:
        found += [
            Group(
                f"width of {b}", f"{b:,} equal-width bins, {n:,} rows", (COMPILED, RELPLOT), n, b
            ),
            Group(f"mass of {b}", f"{b:,} uniform-mass bins, {n:,} rows", (MASS, SORT), n, b),
        ]
    if max(rows) > n:
        title = f"100 uniform-mass bins, {max(rows):,} rows"
        found.append(Group(f"mass {max(rows)}", title, (MASS, SORT), max(rows), 100))
    for k in classes:
        title = f"15 equal-width bins, 50,000 x {k:,} float32"
        found.append(Group(f"marginal {k}", title, (MARGINAL, PYCALIB), 50_000, k))
    for k in classes:
        title = f"15 uniform-mass bins, 50,000 x {k:,} float32"
        names = (MARGINAL_MASS, UNCERTAINTY)
        found.append(Group(f"marginal mass {k}", title, names, 50_000, k))
    title = "bootstrap of a binned model, 100,000 rows"
    found.append(Group("bootstrap", title, (RESAMPLES, UNCERTAINTY_RESAMPLES), 100_000, 0))
    return found
