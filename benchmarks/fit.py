"""Time the fits of calibrant and of its peers, side by side in one run, with their final losses.

Run it with a Python that has the peers, and calibrant on the path:

    pip install scikit-learn netcal probmetrics betacal venn-abers uncertainty-calibration
    PYTHONPATH=src python benchmarks/fit.py --rows 100000 1000000 10000000

A peer that is missing, fails, or takes longer than --limit seconds is listed as such. Times are
the best of --repeats; the ratio is the peer's time over calibrant's, so above 1 calibrant is
faster. The loss is the mean log loss on the fitting rows (for scaling-binning the Brier score).
"""

from __future__ import annotations

import argparse
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.recalibrators import (
    BetaScaling,
    IsotonicCalibration,
    OneVsRest,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
)

Fit = Callable[[Any, Any], Callable[[Any], Any]]


def ours(recalibrator: Any) -> Fit:
    return lambda p, y: recalibrator.fit(p, y).predict_proba


def logit(p: Any) -> Any:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.log(p / (1 - p))


def two(p: Any) -> Any:
    return np.column_stack((1 - p, p))


def sklearn_platt(p: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf).fit(logit(p)[:, None], y)
    return lambda q: model.predict_proba(logit(q)[:, None])[:, 1]


def netcal_platt(p: Any, y: Any) -> Any:
    from netcal.scaling import LogisticCalibration

    model = LogisticCalibration()
    model.fit(p, y)
    return lambda q: model.transform(q).ravel()


def probmetrics_binary(kind: str) -> Fit:
    def fit(p: Any, y: Any) -> Any:
        from probmetrics.calibrators import get_calibrator

        model = get_calibrator(kind)
        model.fit(two(p), y)
        if kind == "ivap":
            model.predict_proba(two(p[:1000]))
        return lambda q: model.predict_proba(two(q))[:, 1]

    return fit


def uncertainty_platt(p: Any, y: Any) -> Any:
    from calibration.utils import get_platt_scaler

    return get_platt_scaler(p, y)


def betacal_beta(p: Any, y: Any) -> Any:
    from betacal import BetaCalibration

    return BetaCalibration("abm").fit(p[:, None], y).predict


def netcal_beta(p: Any, y: Any) -> Any:
    from netcal.scaling import BetaCalibration

    model = BetaCalibration()
    model.fit(p, y)
    return lambda q: model.transform(q).ravel()


def sklearn_isotonic(p: Any, y: Any) -> Any:
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(p, y).predict


def netcal_isotonic(p: Any, y: Any) -> Any:
    from netcal.binning import IsotonicRegression

    model = IsotonicRegression()
    model.fit(p, y)
    return lambda q: model.transform(q).ravel()


def venn_abers(p: Any, y: Any) -> Any:
    from venn_abers import VennAbers as Peer

    model = Peer()
    model.fit(two(p), y)
    model.predict_proba(two(p[:1000]))
    return lambda q: model.predict_proba(two(q))[0][:, 1]


def our_venn_abers(p: Any, y: Any) -> Any:
    model = VennAbers().fit(p, y)
    model.predict_proba(p[:1000])
    return model.predict_proba


def sklearn_temperature(z: Any, y: Any) -> Any:
    from sklearn.calibration import _TemperatureScaling

    model = _TemperatureScaling().fit(z, y)
    return model.predict


def probmetrics_rows(kind: str) -> Fit:
    def fit(z: Any, y: Any) -> Any:
        import torch
        from probmetrics.calibrators import get_calibrator
        from probmetrics.distributions import CategoricalLogits

        model = get_calibrator(kind)
        model.fit_torch(CategoricalLogits(torch.as_tensor(z)), torch.as_tensor(y))
        return lambda q: (
            model.predict_proba_torch(CategoricalLogits(torch.as_tensor(q))).get_probs().numpy()
        )

    return fit


def netcal_temperature(z: Any, y: Any) -> Any:
    from netcal.scaling import TemperatureScaling as Peer

    def softmax(rows: Any) -> Any:
        e = np.exp(rows - rows.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    model = Peer()
    model.fit(softmax(z), y)
    return lambda q: model.transform(softmax(q))


def uncertainty_marginal(p: Any, y: Any) -> Any:
    from calibration.calibrators import PlattBinnerMarginalCalibrator

    model = PlattBinnerMarginalCalibrator(len(y), 10)
    model.train_calibration(p, y)
    return lambda q: np.asarray(model.calibrate(q))


def binary_rows(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.beta(1.2, 0.8, size=n)
    return p, (rng.uniform(size=n) < p**1.3).astype(np.int64)


def class_rows(n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, k)) * 2
    return z, (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)


def log_loss(q: Any, y: Any) -> float:
    q = np.clip(np.asarray(q, np.float64), 1e-12, 1)
    own = np.abs(y + q - 1) if q.ndim == 1 else q[np.arange(len(y)), y]
    return float(-np.log(np.maximum(own, 1e-12)).mean())


def brier(q: Any, y: Any) -> float:
    return float(((np.asarray(q) - np.eye(q.shape[1])[y]) ** 2).mean())


def cases(rows: list[int], shape: tuple[int, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for n in rows:
        data = lambda n=n: binary_rows(n)  # noqa: E731
        found[f"Platt, n = {n:,}"] = (data, log_loss, {
            "calibrant": ours(PlattScaling()),
            "scikit-learn": sklearn_platt,
            "probmetrics": probmetrics_binary("affine-scaling"),
            "uncertainty-calibration": uncertainty_platt,
            "netcal": netcal_platt,
        })  # fmt: skip
        found[f"beta, n = {n:,}"] = (data, log_loss, {
            "calibrant": ours(BetaScaling()),
            "betacal": betacal_beta,
            "probmetrics": probmetrics_binary("beta"),
            "netcal": netcal_beta,
        })  # fmt: skip
        found[f"isotonic, n = {n:,}"] = (data, log_loss, {
            "calibrant": ours(IsotonicCalibration()),
            "scikit-learn": sklearn_isotonic,
            "netcal": netcal_isotonic,
        })  # fmt: skip
        found[f"Venn-Abers, n = {n:,}, 1,000 queries"] = (data, log_loss, {
            "calibrant": our_venn_abers,
            "venn-abers": venn_abers,
            "probmetrics": probmetrics_binary("ivap"),
        })  # fmt: skip
    data = lambda: class_rows(*shape)  # noqa: E731
    found[f"temperature, {shape[0]:,} x {shape[1]:,} logits"] = (data, log_loss, {
        "calibrant": ours(TemperatureScaling(input="logits")),
        "scikit-learn": sklearn_temperature,
        "probmetrics": probmetrics_rows("ts-mix"),
        "netcal": netcal_temperature,
    })  # fmt: skip
    found[f"vector, {shape[0]:,} x {shape[1]:,} logits"] = (data, log_loss, {
        "calibrant": ours(VectorScaling(input="logits")),
        "probmetrics": probmetrics_rows("svs"),
    })  # fmt: skip
    found["scaling-binning, marginal, 10,000 x 10"] = (lambda: marginal_rows(), brier, {
        "calibrant": ours(OneVsRest(ScalingBinning(n_bins=10))),
        "uncertainty-calibration": uncertainty_marginal,
    })  # fmt: skip
    return found


def marginal_rows() -> tuple[Any, Any]:
    z, y = class_rows(10_000, 10)
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True), y


class TooSlowError(Exception):
    pass


def _alarm(*_: Any) -> None:
    raise TooSlowError


def timed(fit: Fit, p: Any, y: Any, repeats: int, limit: int) -> tuple[float, Any]:
    """Return the best time of a fit and what it fitted."""
    best, fitted = np.inf, None
    for _ in range(repeats):
        signal.alarm(limit)
        start = time.perf_counter()
        fitted = fit(p, y)
        best = min(best, time.perf_counter() - start)
        signal.alarm(0)
        if best > 10:
            break
    return best, fitted


def line(name: str, fit: Fit, p: Any, y: Any, loss: Any, own: float, options: Any) -> float:
    try:
        seconds, apply = timed(fit, p, y, options.repeats, options.limit)
        few = slice(None, 1000 if options.few else None)
        signal.alarm(options.limit)
        value = loss(apply(p[few]), y[few])
        ratio = f"{seconds / own:.1f}" if np.isfinite(own) else "1.0"
        print(f"| {name} | {seconds:.3f} | {ratio} | {value:.6f} |", flush=True)
        return seconds
    except TooSlowError:
        print(f"| {name} | over {options.limit} | over {options.limit / own:.0f} | |", flush=True)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:60]
        print(f"| {name} | failed: {reason} | | |", flush=True)
    finally:
        signal.alarm(0)
    return np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--shape", type=int, nargs=2, default=[50_000, 1_000])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=int, default=120, help="seconds for one fit")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _alarm)
    for case, (data, loss, fits) in cases(options.rows, tuple(options.shape)).items():
        if options.only not in case:
            continue
        options.few = "Abers" in case
        p, y = data()
        print(f"\n**{case}**\n\n| library | seconds | ratio | loss |\n|---|---|---|---|")
        own = np.inf
        for name, fit in fits.items():
            seconds = line(name, fit, p, y, loss, own, options)
            own = seconds if name == "calibrant" else own


if __name__ == "__main__":
    main()
