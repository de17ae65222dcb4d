"""Time the fits of calibrant and of its peers, with their final losses and peaks of memory.

    python benchmarks/fit.py --peers PEERS/bin/python --write docs/performance.md

Every line is a fresh process. Peers run in an environment of theirs, made outside this repository:

    python -m venv PEERS
    PEERS/bin/pip install scikit-learn netcal probmetrics betacal venn-abers uncertainty-calibration

or in a folder of packages, as `measure.py` tells (probmetrics needs numba there too, 150 MB).

Times are the best of a few calls, after one on 1,000 rows to warm up, and of --rounds processes
that take turns; "CPU" is the time of all threads in the best call. The ratio is a line's time over
that of the first line of its table, so above 1 calibrant is faster. The loss is measured on the
fitting rows: the mean log loss, or the Brier score for isotonic regression and scaling-binning;
Venn-Abers fits and answers 1,000 queries, and has the loss of those. A peer that answers in single
precision can be below the minimum by rounding, some 1e-10. A line over --limit seconds is listed
so, and its larger problems are left out. All takes about ten minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from lines import Call, call, machine, peers_python, write

Apply = Callable[[Any], Any]
Fit = Callable[[Any, Any], Apply]

QUERIES = 1000
TRUSTED_LOSS = 1e-6


def ours(name: str, *wrappers: str, **options: Any) -> Fit:
    """Fit a recalibrator by name, inside others; its options belong to the innermost."""

    def fit(p: Any, y: Any) -> Apply:
        from calibrant import recalibrators

        made = getattr(recalibrators, name)(**options)
        for wrapper in wrappers:
            made = getattr(recalibrators, wrapper)(made)
        return made.fit(p, y).predict_proba

    return fit


def with_queries(fit: Fit) -> Fit:
    """Fit and answer a few queries, for peers that do the work of fitting when asked."""

    def both(p: Any, y: Any) -> Apply:
        apply = fit(p, y)
        apply(p[:QUERIES])
        return apply

    return both


def logit(p: Any) -> Any:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return np.log(p / (1 - p))


def two(p: Any) -> Any:
    return np.column_stack((1 - p, p))


def softmax(rows: Any) -> Any:
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def sklearn_platt(p: Any, y: Any) -> Apply:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=np.inf).fit(logit(p)[:, None], y)
    return lambda q: model.predict_proba(logit(q)[:, None])[:, 1]


def sklearn_isotonic(p: Any, y: Any) -> Apply:
    from sklearn.isotonic import IsotonicRegression

    return IsotonicRegression(out_of_bounds="clip").fit(p, y).predict


def sklearn_temperature(z: Any, y: Any) -> Apply:
    from sklearn.calibration import _TemperatureScaling

    return _TemperatureScaling().fit(z, y).predict


def netcal(module: str, name: str, before: Callable[[Any], Any] = np.asarray) -> Fit:
    def fit(p: Any, y: Any) -> Apply:
        from importlib import import_module

        model = getattr(import_module(f"netcal.{module}"), name)()
        model.fit(before(p), y)
        return lambda q: model.transform(before(q)).reshape(q.shape)

    return fit


def probmetrics(kind: str) -> Fit:
    def fit(p: Any, y: Any) -> Apply:
        from probmetrics.calibrators import get_calibrator

        model = get_calibrator(kind)
        model.fit(two(p), y)
        return lambda q: model.predict_proba(two(q))[:, 1]

    return fit


def probmetrics_rows(kind: str) -> Fit:
    def fit(z: Any, y: Any) -> Apply:
        import torch
        from probmetrics.calibrators import get_calibrator
        from probmetrics.distributions import CategoricalLogits

        def logits(rows: Any) -> Any:
            return CategoricalLogits(torch.as_tensor(rows))

        model = get_calibrator(kind)
        model.fit_torch(logits(z), torch.as_tensor(y))
        return lambda q: model.predict_proba_torch(logits(q)).get_probs().numpy()

    return fit


def betacal(p: Any, y: Any) -> Apply:
    from betacal import BetaCalibration

    return BetaCalibration("abm").fit(p[:, None], y).predict


def venn_abers(p: Any, y: Any) -> Apply:
    from venn_abers import VennAbers

    model = VennAbers()
    model.fit(two(p), y)
    return lambda q: model.predict_proba(two(q))[0][:, 1]


def uncertainty_platt(p: Any, y: Any) -> Apply:
    from calibration.utils import get_platt_scaler

    return get_platt_scaler(p, y)


def uncertainty_marginal(p: Any, y: Any) -> Apply:
    from calibration.calibrators import PlattBinnerMarginalCalibrator

    model = PlattBinnerMarginalCalibrator(len(y), 10)
    model.train_calibration(p, y)
    return lambda q: np.asarray(model.calibrate(q))


def binary_rows(n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.beta(1.2, 0.8, size=n)
    return p, (rng.uniform(size=n) < p**1.3).astype(np.int64)


def logit_rows(n: int, k: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, k)) * 2
    return z, (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)


def confident_rows(n: int, k: int) -> tuple[Any, Any]:
    """Return logits as of an overconfident network, whose classes are each off in their own way."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, k))
    z[np.arange(n), rng.integers(0, k, n)] += 6.0
    y = (2 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
    return 3 * z * (1 + 0.3 * rng.normal(size=k)) + 0.5 * rng.normal(size=k), y


def class_rows(n: int, k: int) -> tuple[Any, Any]:
    z, y = logit_rows(n, k)
    return softmax(z), y


def log_loss(q: Any, y: Any) -> float:
    q = np.asarray(q, np.float64)
    own = np.abs(y + q - 1) if q.ndim == 1 else q[np.arange(len(y)), y]
    return float(-np.log(np.maximum(own, 1e-12)).mean())


def brier(q: Any, y: Any) -> float:
    happened = y if q.ndim == 1 else np.eye(q.shape[1])[y]
    return float(((np.asarray(q, np.float64) - happened) ** 2).mean())


class Case(NamedTuple):
    """One kind of fit: its rows, its loss, calibrant's way to do it, and the peers'."""

    rows: Callable[[int, int], tuple[Any, Any]]
    loss: Callable[[Any, Any], float]
    own: Fit
    peers: dict[str, Fit]


CASES = {
    "Platt": Case(binary_rows, log_loss, ours("PlattScaling"), {
        "scikit-learn": sklearn_platt,
        "probmetrics": probmetrics("affine-scaling"),
        "uncertainty-calibration": uncertainty_platt,
        "netcal": netcal("scaling", "LogisticCalibration"),
    }),
    "beta": Case(binary_rows, log_loss, ours("BetaScaling"), {
        "betacal": betacal,
        "probmetrics": probmetrics("beta"),
        "netcal": netcal("scaling", "BetaCalibration"),
    }),
    "isotonic": Case(binary_rows, brier, ours("IsotonicCalibration"), {
        "scikit-learn": sklearn_isotonic,
        "netcal": netcal("binning", "IsotonicRegression"),
    }),
    "Venn-Abers": Case(binary_rows, log_loss, with_queries(ours("VennAbers")), {
        "venn-abers": with_queries(venn_abers),
        "probmetrics": with_queries(probmetrics("ivap")),
    }),
    "temperature": Case(logit_rows, log_loss, ours("TemperatureScaling", input="logits"), {
        "scikit-learn": sklearn_temperature,
        "probmetrics": probmetrics_rows("ts-mix"),
        "netcal": netcal("scaling", "TemperatureScaling", softmax),
    }),
    "vector": Case(logit_rows, log_loss, ours("VectorScaling", input="logits"), {
        "probmetrics": probmetrics_rows("svs"),
    }),
    "matrix": Case(confident_rows, log_loss, ours("MatrixScaling", input="logits"), {
        "probmetrics": probmetrics_rows("sms"),
    }),
    "histogram binning": Case(binary_rows, brier, ours("HistogramBinning"), {}),
    "scaling-binning of one event": Case(binary_rows, brier, ours("ScalingBinning"), {}),
    "scaling-binning": Case(
        class_rows, brier, ours("ScalingBinning", "OneVsRest", bins=10),
        {"uncertainty-calibration": uncertainty_marginal},
    ),
}  # fmt: skip
OURS = {"calibrant, compiled": "compiled", "calibrant, NumPy": "numpy"}


def measure(case: str, name: str, n: int, k: int, args: argparse.Namespace) -> dict[str, float]:
    """Time one line in this process, which the alarm ends when a fit takes too long."""
    warnings.simplefilter("ignore")
    rows, loss, own, peers = CASES[case]
    fit = own if name in OURS else peers[name]
    p, y = rows(n, k)
    fit(p[:1000], y[:1000])
    calls: list[Call] = []
    while len(calls) < args.repeats and sum(made.seconds for made in calls) < 6:
        signal.alarm(args.limit)
        calls.append(call(lambda: fit(p, y)))
        signal.alarm(0)
    best = min(calls, key=lambda made: made.seconds)
    asked = slice(QUERIES if case == "Venn-Abers" else None)
    value = loss(best.result(p[asked]), y[asked])
    peak = max(made.peak for made in calls)
    return {"seconds": best.seconds, "cpu": best.cpu, "loss": value, "peak": peak}


Found = dict[str, float] | str


def in_own_process(case: str, name: str, n: int, k: int, args: argparse.Namespace) -> Found:
    python, paths = (sys.executable, {}) if name in OURS else peers_python(args.peers)
    line = [case, name, str(n), str(k)]
    options = ["--repeats", str(args.repeats), "--limit", str(args.limit)]
    command = [python, __file__, "--line", *line, *options]
    environment = os.environ | {"CALIBRANT_ENGINE": OURS.get(name, "")} | paths
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == -signal.SIGALRM:
        return f"over {args.limit}"
    if done.returncode:
        return "failed: " + (done.stderr.strip().splitlines() or ["killed"])[-1][:60]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def best_of(old: Found | None, new: Found) -> Found:
    if isinstance(old, dict) and isinstance(new, dict):
        return min(old, new, key=lambda found: found["seconds"])
    return new


def measured(case: str, n: int, k: int, args: argparse.Namespace, slow: set[Any]) -> dict[str, Any]:
    """Return what was found for each line of a table; rounds of processes take turns."""
    found: dict[str, Any] = {}
    for turn in range(args.rounds):
        for name in (*OURS, *CASES[case].peers):
            quick = isinstance(found.get(name), dict) and found[name]["seconds"] < 2
            if (case, name) in slow:
                found[name] = f"over {args.limit}, with fewer rows"
            elif turn == 0 or quick:
                found[name] = best_of(found.get(name), in_own_process(case, name, n, k, args))
    slow |= {(case, name) for name in found if str(found[name]).startswith("over")}
    return found


def table(title: str, found: dict[str, Any]) -> str:
    first = found[next(iter(OURS))]
    lines = [
        f"| {title} | seconds | CPU | ratio | loss | above calibrant's | extra MB |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, values in found.items():
        if isinstance(values, str):
            lines.append(f"| {name} | {values} | | | | | |")
            continue
        times = f"{values['seconds']:.4g} | {values['cpu']:.4g}"
        losses = f"{values['loss']:.8f} | {values['loss'] - first['loss']:.1e}"
        ratio = values["seconds"] / first["seconds"]
        lines.append(f"| {name} | {times} | {ratio:.3g} | {losses} | {values['peak']:.0f} |")
    return "\n".join(lines)


def verdict(title: str, found: dict[str, Any]) -> str:
    """Compare with the fastest peer whose loss can be trusted, and with all losses."""
    own = found[next(iter(OURS))]
    peers = [x for name, x in found.items() if name not in OURS and isinstance(x, dict)]
    right = [x for x in peers if x["loss"] <= own["loss"] + TRUSTED_LOSS] or peers
    if not right:
        return f"| {title} | | no peer finished |"
    ratio = min(x["seconds"] for x in right) / own["seconds"]
    excess = own["loss"] - min(x["loss"] for x in peers)
    return f"| {title} | {ratio:.1f} | {excess:+.1e} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", default=sys.executable, help="their Python, or a folder of them for this one"
    )
    rows = [100_000, 1_000_000, 10_000_000]
    parser.add_argument("--rows", type=int, nargs="*", default=rows)
    parser.add_argument("--shape", type=int, nargs=2, default=[50_000, 1_000])
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=int, default=120, help="seconds for one fit")
    parser.add_argument("--write", type=Path, help="the page whose tables of fits to replace")
    parser.add_argument("--line", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.line:
        case, name, n, k = args.line
        print(json.dumps(measure(case, name, int(n), int(k), args)))
        return
    about = f"Measured on {datetime.date.today()}; {machine()}; best of {args.repeats} calls"
    about += f" in {args.rounds} rounds."
    shapes = {"temperature": [tuple(args.shape)], "vector": [tuple(args.shape)]}
    shapes |= {"matrix": [(5_000, 100), (5_000, 10)], "scaling-binning": [(10_000, 10)]}
    tables, slow = [], set[Any]()
    summary = ["| fit | fastest peer over calibrant | loss above the lowest of the peers |"]
    summary.append("|---|--:|--:|")
    for case in args.only:
        for n, k in shapes.get(case, [(n, 1) for n in args.rows]):
            title = f"{case}, {n:,} rows" if k == 1 else f"{case}, {n:,} x {k:,}"
            found = measured(case, n, k, args, slow)
            tables.append(table(title, found))
            print(tables[-1], "\n", flush=True)
            if CASES[case].peers:
                summary.append(verdict(title, found))
    text = "\n\n".join([about, "\n".join(summary), *tables])
    print(about, *summary, sep="\n")
    if args.write:
        write(args.write, "fitted", text)


if __name__ == "__main__":
    main()
