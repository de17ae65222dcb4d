"""Simulate the intervals of `calibrant.validate`, for docs/coverage.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_validation_tables.py`` from the root of the
repository. It takes some twenty minutes on two cores and replaces what stands between its two
markers of the page.

A model predicts p and events have the rate q(p). The truth of each measure is the measure of a very
large sample whose events are replaced by their rates. The curve behind ICI and its companions is
smoothed, and so is the truth: the same loess weights, applied to the true rates at the sample's own
predictions.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from blocks import jobs_of_command_line, simulate, standard_error, write_between
from scipy import special

import calibrant as cb
from calibrant.stats import smoothing
from calibrant.stats.logistic import LogisticModel
from calibrant.stats.samples import Sample
from calibrant.stats.smoothing import Pooled, loess_weights, smooth_ece
from calibrant.stats.validation import c_statistic

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- validation: start -->", "<!-- validation: end -->"
LARGE = 200_000
RUNS = 2_000
NAMES = (
    "mean_prediction", "observed_rate", "oe_ratio", "in_the_large", "intercept", "slope",
    "ici", "e50", "e90", "emax", "c_statistic", "brier", "scaled_brier", "log_loss", "smooth_ece",
)  # fmt: skip

MODELS = {
    "calibrated": lambda p: p,
    "too extreme": lambda p: special.expit(0.7 * special.logit(p) - 0.2),
    "too high": lambda p: p**1.4,
}
RISKS = {"25%": (1.0, 3.0), "3%": (1.0, 32.0)}
OUTPUTS = {"5 outputs": 5, "2 outputs": 2}
"""Models whose predictions of 25% are put in the middles of as many bins of one width."""
SETTINGS = (
    ("25%", 60), ("25%", 300), ("25%", 2000), ("3%", 300), ("3%", 3000),
    ("5 outputs", 300), ("5 outputs", 2000), ("2 outputs", 1000),
)  # fmt: skip
CLUSTERS = (1000, 5, 0.5)
"""Rows, rows a cluster, and the correlation of the events' normal scores inside them."""


def draw_risks(rng, risk, n):
    """Return predictions of a beta distribution, all of them or the middles of their bins."""
    p = rng.beta(*RISKS.get(risk, RISKS["25%"]), size=n).clip(1e-9, 1 - 1e-9)
    outputs = OUTPUTS.get(risk)
    return (np.floor(p * outputs) + 0.5) / outputs if outputs else p


def mean_risk(risk):
    """Return the mean of all predictions."""
    if risk in RISKS:
        return RISKS[risk][0] / sum(RISKS[risk])
    edges = np.linspace(0, 1, OUTPUTS[risk] + 1)
    mass = np.diff(special.betainc(*RISKS["25%"], edges))
    return float(mass @ (edges[1:] + edges[:-1]) / 2)


@cache
def truths(model, risk):
    """Return the true measures of a model."""
    p = draw_risks(np.random.default_rng(1), risk, LARGE)
    q = MODELS[model](p)
    sample = Sample.of(q, p)
    x, one, zero = special.logit(p), np.ones(LARGE), np.zeros(LARGE)
    count = np.ones(LARGE)
    shift = LogisticModel(one[None], q, count, x).fit()[0]
    intercept, slope = LogisticModel(np.stack([one, x]), q, count, zero).fit()
    brier = float(np.mean(q * (1 - p) ** 2 + (1 - q) * p**2))
    rate = float(q.mean())
    return {
        "mean_prediction": mean_risk(risk),
        "observed_rate": rate,
        "oe_ratio": rate / p.mean(),
        "in_the_large": shift,
        "intercept": intercept,
        "slope": slope,
        "c_statistic": c_statistic(sample)[0],
        "brier": brier,
        "scaled_brier": 1 - brier / (rate * (1 - rate)),
        "log_loss": float(np.mean(special.entr(q) + special.kl_div(q, p) + special.entr(1 - q)
                                  + special.kl_div(1 - q, 1 - p))),
        "smooth_ece": smooth_ece(sample).value if model != "calibrated" else 0.0,
    }  # fmt: skip


_last: dict = {}


def _remembered(pooled, at):
    """Return loess weights; a validation and its truth ask for the same, which take most time."""
    key = pooled.x.tobytes(), pooled.weight.tobytes(), at.tobytes()
    if _last.get("key") != key:
        _last.update(key=key, weights=loess_weights(pooled, at))
    return _last["weights"]


smoothing.loess_weights = _remembered


def smooth_truths(model, y, p, sample_weight=None, cluster=None):
    """Return ICI and its companions of the true rates, smoothed as the sample is."""
    pooled = Pooled.of(Sample.of(y, p, sample_weight, cluster))
    at = pooled.x[np.concatenate([[0], pooled.quantiles(256), [-1]])]
    rate = _remembered(pooled, at) @ MODELS[model](pooled.x)
    gap = np.abs(np.interp(p, at, rate) - p)
    return {
        "ici": gap.mean(), "e50": np.median(gap), "e90": np.quantile(gap, 0.9), "emax": gap.max()
    }  # fmt: skip


WAYS = ("weights", "clusters", "weights and clusters")


def draw(rng, model, risk, n, how):
    """Return events, predictions, and what else `validate` is given."""
    if how == "weights":  # of rows that a survey took with unequal chances
        p = draw_risks(rng, risk, n)
        return rng.uniform(size=n) < MODELS[model](p), p, {"sample_weight": rng.gamma(4.0, size=n)}
    if how in ("clusters", "weights and clusters"):
        rows, size, correlation = CLUSTERS
        p = np.repeat(draw_risks(rng, risk, rows // size), size)
        shared = np.repeat(rng.normal(size=rows // size), size)
        score = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * rng.normal(size=rows)
        cluster = np.repeat(np.arange(rows // size), size)
        given = {"cluster": cluster}
        if how != "clusters":  # a survey took clusters, and rows in them, with unequal chances
            own = np.repeat(rng.gamma(4.0, size=rows // size), size)
            given["sample_weight"] = own * rng.gamma(8.0, size=rows)
        return special.ndtr(score) < MODELS[model](p), p, given
    p = draw_risks(rng, risk, n)
    return rng.uniform(size=n) < MODELS[model](p), p, {}


def coverage(model, risk, n, how="", runs=1, seed=0):
    """Return the shares of samples whose intervals hold the truth, and the share with a note."""
    rng = np.random.default_rng(
        [list(MODELS).index(model), [*RISKS, *OUTPUTS].index(risk), n, seed]
    )
    known = truths(model, risk)
    held = []
    for _ in range(runs):
        y, p, given = draw(rng, model, risk, n, how)
        table = cb.validate(y, p, **given)
        true = known | smooth_truths(model, y.astype(float), p, **given)
        row = []
        for name in NAMES:
            m = table[name]
            tiny = 1e-9 + 1e-3 * (name == "smooth_ece")  # the least width of its kernel
            row.append(not m.low - tiny > true[name] and not m.high + tiny < true[name])
        held.append([*row, any("keep their level" in note for note in table.notes)])
    return np.mean(held, axis=0)


def main() -> None:
    """Simulate, and write the page."""
    cells = [(model, risk, n, "") for risk, n in SETTINGS for model in MODELS]
    cells += [(model, "25%", CLUSTERS[0], how) for how in WAYS for model in MODELS]
    heads = [*(name.replace("_", " ") for name in NAMES), "noted"]
    lines = [
        f"{RUNS:,} samples a cell (standard error {standard_error(0.95, RUNS)} at 0.95).",
        "",
        "| | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 1) + "|",
    ]
    shares = simulate(coverage, cells, RUNS, jobs_of_command_line(__doc__))
    for (model, risk, n, how), (*held, noted) in zip(cells, shares, strict=True):
        events = n * truths(model, risk)["observed_rate"]
        more = f", {how}" * bool(how) + f", {risk}" * (risk in OUTPUTS)
        about = f"{model}, {n:,} rows, {events:.0f} events{more}"
        lines.append(f"| {about} | {' | '.join(f'{x:.3f}' for x in held)} | {noted:.2f} |")
    write_between(PAGE, START, END, lines)


if __name__ == "__main__":
    main()
