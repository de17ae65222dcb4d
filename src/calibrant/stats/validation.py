"""Validation of predicted risks: the table that reports of prediction models ask for.

Steyerberg et al. (2010) and Van Calster et al. (2016, 2019) say which numbers, and TRIPOD (Collins
et al., 2015; 2024) that each comes with an interval. What each estimates:

====================  ===========================================================================
O/E                   events over the sum of predictions: 1 if as many happen as were predicted
in the large          a of ``logit P(Y = 1) = a + logit p``: the mean shift on the log-odds scale
intercept, slope      a, b of ``logit P(Y = 1) = a + b logit p`` (Cox, 1958); b < 1: too extreme
ICI, E50, E90, Emax   mean, median, 90th percentile, largest |loess curve - prediction| (Austin and
                      Steyerberg, 2019), see `calibrant.stats.smoothing`
C                     the share of pairs in which the event had the higher prediction (AUC)
Brier, scaled         mean (y - p)^2; 1 - Brier / (that of the event rate)
log loss              mean -log of the probability given to what happened
smooth ECE            see `calibrant.stats.smoothing`
l2 error              the debiased error in bins, as `calibrant.calibration_error` gives it
====================  ===========================================================================

Every interval but those of curves and of the l2 error is built on influences, the part of each row
in the estimate: their squares, summed over clusters, are its variance, weights included. So one
formula serves independent, weighted and clustered rows.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calibrant._scipy import optimize, special
from calibrant._types import FloatArray
from calibrant.stats.logistic import LogisticModel
from calibrant.stats.results import CalibrationErrorResult
from calibrant.stats.samples import Sample
from calibrant.stats.smoothing import (
    Pooled,
    functional_limits,
    loess_curve,
    noise_draws,
    smooth_ece,
    smooth_ece_limits,
)
from calibrant.stats.validation_results import Measure, Validation

FEW_EVENTS = 20
"""Events or non-events below which logistic fits have Firth's correction, valid on either side:
with more, estimates are those that R and others print, by maximum likelihood."""
EQUAL_WEIGHTS = 1e-9
"""Weights of mean 1 that differ by less are equal, but for rounding."""
FEW_RANKED = 10
"""Events or non-events below which DeLong's variance is not trusted; it is 0 where ranks agree."""
FEW_WEIGHTED = 10
"""Units by Kish's formula below which variances of weighted rows are guesses."""
FEW_FOR_CURVES = 50
"""Events or non-events below which the noise of curves is too far from normal for their level."""
SPREAD = ("mean_prediction", "brier", "log_loss", "smooth_ece")
"""The measures whose interval is a multiple of the spread of rows, and of nothing else."""


def validation(
    sample: Sample, error: CalibrationErrorResult, kind: str, confidence_level: float
) -> Validation:
    """Return the table of a sample; `error` is its l2 error in bins."""
    notes: list[str] = []
    measures = [
        *_counts(sample, confidence_level),
        *_logistic(sample, confidence_level, notes),
        *_curve(sample, confidence_level),
        *_scores(sample, confidence_level, notes),
        *_errors(sample, error, confidence_level),
    ]
    if np.array_equal(sample.y, sample.p):
        measures = _never_wrong(sample, measures, confidence_level)
        notes.append("no prediction was wrong: limits of scores allow for errors not seen yet")
    elif any(m.name == "c_statistic" and m.value == 1 for m in measures):
        notes.append("C is 1: limits of scores do not allow for errors of a kind not seen yet")
    if len(sample) == 1:  # the influence of the only row is 0, which no interval of length 0 means
        nan = math.nan
        measures = [replace(m, low=nan, high=nan) if m.name in SPREAD else m for m in measures]
        notes.append("one row has no spread: means, scores and smooth ECE have no interval")
    if sample.kish_n < min(FEW_WEIGHTED, 0.9 * sample.n_clusters):
        notes.append(
            f"weights leave about {sample.kish_n:.0f} of {sample.n_clusters:,} "
            f"{'rows' if sample.cluster is None else 'clusters'}: intervals may be too short"
        )
    if sample.fewest < FEW_FOR_CURVES:
        notes.append(
            f"{_rarer(sample)}: fewer than the {FEW_FOR_CURVES} from which intervals of ICI, E50, "
            "E90, Emax, scores and smooth ECE keep their level"
        )
    if sample.cluster is not None and np.ptp(sample.weight) > EQUAL_WEIGHTS:
        notes.append(
            "rows of clusters have weights: 95% intervals held the truth for 91% to 96% of "
            "simulated samples of 200 clusters"
        )
    n_clusters = None if sample.cluster is None else sample.n_clusters
    return Validation(tuple(measures), kind, confidence_level, n_clusters, tuple(notes))


def core_measures(sample: Sample, confidence_level: float) -> dict[str, Measure]:
    """Return counts, O/E, slope, C and scores by name: all of a validation but its curves."""
    level = confidence_level
    parts = _counts(sample, level), _logistic(sample, level, []), _scores(sample, level, [])
    return {measure.name: measure for part in parts for measure in part}


def _counts(sample: Sample, level: float) -> list[Measure]:
    n, y, p = len(sample), sample.y, sample.p
    predicted, rate = sample.mean(p), sample.mean(y)
    reach = sample.quantile(level) * sample.variance(p - predicted) ** 0.5
    ends = max(predicted - reach, 0.0), min(predicted + reach, 1.0)
    measures = [
        Measure("n", "rows", float(n)),
        Measure("events", "events", float(sample.events)),
        Measure("mean_prediction", "mean prediction", predicted, *ends),
        Measure("observed_rate", "observed rate", rate, *sample.rate_limits(level)),
    ]
    if predicted == 0:
        return [*measures, Measure("oe_ratio", "O/E", math.nan, ideal=1.0)]
    # the ratio of predictions below 1e-308 overflows, their shares of the mean do not
    low, high = _sum_limits(sample, y - rate * (p / predicted), level)
    ratio, low, high = (value / predicted for value in (rate, low, high))
    return [*measures, Measure("oe_ratio", "O/E", ratio, low, high, 1.0)]


def _sum_limits(sample: Sample, influence: FloatArray, level: float) -> tuple[float, float]:
    """Return limits of the event rate from the variance of these influences.

    Gamma limits of Fay and Feuer (1997): the exact ones of a Poisson count if there are no weights,
    never of length 0, and normal ones in the limit of many events.
    """
    tail = (1 - level) / 2
    total, n = float(sample.weight @ sample.y), len(sample)
    variance = sample.variance(influence) * n**2
    # how much one more event adds: as much as a unit that has any, on average
    sums = sample.sums(sample.y)
    largest = float(sample.sums(np.ones(n)).max() if total == 0 else sums[sums > 0].mean())
    raised, spread = total + largest, variance + largest**2
    high = spread / raised * float(special.gammainccinv(raised**2 / spread, tail))
    low = max(2 * total - high, 0.0)  # where predictions of 0 and 1 were all right
    if total > 0 and variance > 0:
        low = variance / total * float(special.gammaincinv(total**2 / variance, tail))
    return low / n, high / n


def _logistic(sample: Sample, level: float, notes: list[str]) -> list[Measure]:
    certain = (sample.p == 0) | (sample.p == 1)
    if certain.any():
        notes.append(
            f"{_certain_rows(int(certain.sum()), 'have', 'has')} no logit: left out of "
            "calibration in the large, intercept and slope"
        )
        if certain.all():
            return _undefined(*IN_THE_LARGE, *COX)
        sample = sample.take(~certain)
    x = special.logit(sample.p)
    reason = _why_firth(sample, x)
    if reason:
        notes.append(f"Firth's correction in logistic fits: {reason}")
    ones = np.ones_like(x)
    measures = _fitted(sample, ones[None], x, level, bool(reason), IN_THE_LARGE)
    if np.ptp(x) == 0:
        notes.append("all predictions are equal: intercept and slope are not defined")
        return [*measures, *_undefined(*COX)]
    design, no_offset = np.stack([ones, x]), np.zeros_like(x)
    return [*measures, *_fitted(sample, design, no_offset, level, bool(reason), COX)]


def _undefined(*named: tuple[str, str, float]) -> list[Measure]:
    return [Measure(name, label, math.nan, ideal=ideal) for name, label, ideal in named]


IN_THE_LARGE = (("in_the_large", "calibration in the large", 0.0),)
COX = (("intercept", "calibration intercept", 0.0), ("slope", "calibration slope", 1.0))


def _why_firth(sample: Sample, x: FloatArray) -> str:
    """Return why maximum likelihood will not do, or an empty text."""
    hits, misses = x[sample.y == 1], x[sample.y == 0]
    if hits.size == 0 or misses.size == 0:
        return "there are no events" if hits.size == 0 else "there are no non-events"
    if np.ptp(x) > 0 and (misses.max() <= hits.min() or hits.max() <= misses.min()):
        return "a threshold separates events from non-events"
    if sample.fewest < FEW_EVENTS:
        return f"only {_rarer(sample)}"
    return ""


def _rarer(sample: Sample) -> str:
    outcome = "event" if sample.events == sample.fewest else "non-event"
    return f"{sample.fewest} {outcome}{'s' * (sample.fewest != 1)}"


def _fitted(
    sample: Sample,
    design: FloatArray,
    offset: FloatArray,
    level: float,
    penalised: bool,
    named: tuple[tuple[str, str, float], ...],
) -> list[Measure]:
    """Fit a logistic model; its intervals are Wald's with robust variances, or Firth's profile."""
    # predictors of mean 0 and spread 1 keep the information far from singular
    centre, scale = (design[-1].mean(), design[-1].std()) if len(design) > 1 else (0.0, 1.0)
    scaled = np.stack([design[0], (design[-1] - centre) / scale]) if len(design) > 1 else design
    shift = float(offset.mean())  # and so do offsets of mean 0: the intercept takes up the rest
    offset = offset - shift
    back = np.array([[1.0, -centre / scale], [0.0, 1 / scale]]) if len(design) > 1 else np.eye(1)
    share = sample.effective_n / len(sample) if penalised else 1.0
    model = LogisticModel(scaled, sample.y, sample.weight * share, offset, penalised)
    theta = model.fit()
    best = back @ theta
    if penalised:
        plain = LogisticModel(design, sample.y, sample.weight * share, offset, True)
        limits = [plain.profile_limits(best, i, level) for i in range(len(design))]
    else:
        bread = np.linalg.pinv(model.information(theta), hermitian=True) * len(sample)
        # HC3: a row's residual without its own pull on the fit
        residual = (sample.y - model.rate(theta)) / (1 - model.leverage(theta)).clip(1e-3)
        errors = [sample.variance(term) ** 0.5 for term in back @ bread @ (scaled * residual)]
        reach = sample.quantile(level) * np.array(errors)
        limits = list(zip(best - reach, best + reach, strict=True))
    best[0] -= shift
    limits[0] = limits[0][0] - shift, limits[0][1] - shift
    return [
        Measure(name, label, float(value), float(low), float(high), ideal)
        for (name, label, ideal), value, (low, high) in zip(named, best, limits, strict=True)
    ]


def _curve(sample: Sample, level: float) -> list[Measure]:
    pooled = Pooled.of(sample)
    curve = loess_curve(sample, pooled)
    smooth = np.clip(np.interp(pooled.x, curve.x, curve.rate), 0.0, 1.0)
    gap = np.abs(smooth - pooled.x)[pooled.place]
    order = np.argsort(gap)
    weight = sample.weight[order]
    # of rows that count alike the quantiles that R and NumPy give
    reached = (np.cumsum(weight) - weight) / max(len(sample) - weight[-1], 1e-300)
    quantiles = np.interp([0.5, 0.9], reached, gap[order])
    values = [sample.mean(gap), *map(float, quantiles), float(gap.max())]
    noise = noise_draws(curve.covariance)
    limits = functional_limits(curve.gap, noise, lambda gap: _gaps(gap, curve.share), level)
    # where chance lowers a rate, it lowers the variance too, and noise may lower a median as well:
    # E50 of 183 events at 3% covered 92.9%, and with the variance at the upper rate 94.7%
    upper = functional_limits(
        curve.gap, noise * curve.raised(level), lambda gap: _gaps(gap, curve.share)[..., 1:2], level
    )
    limits[1][1] = max(limits[1][1], upper[1][0])
    return [
        Measure(label.lower(), label, value, min(float(low), value), max(float(high), value), floor)
        for label, value, low, high, floor in zip(CURVE, values, *limits, strict=True)
    ]


CURVE = ("ICI", "E50", "E90", "Emax")


def _gaps(gap: FloatArray, share: FloatArray) -> FloatArray:
    """Return mean, median and 90th percentile of the inner points, and the largest of all."""
    inner = gap[..., 1:-1]
    order = np.argsort(inner, axis=-1)
    reached = np.cumsum(share[order], axis=-1)
    places = [np.argmax(reached >= q - 1e-9, axis=-1, keepdims=True) for q in (0.5, 0.9)]
    parts = [np.take_along_axis(np.take_along_axis(inner, order, -1), at, -1) for at in places]
    ends = (inner @ share)[..., None], gap.max(axis=-1, keepdims=True)
    return np.concatenate([ends[0], *parts, ends[1]], axis=-1)


def _scores(sample: Sample, level: float, notes: list[str]) -> list[Measure]:
    y, p = sample.y, sample.p
    squares = (y - p) ** 2
    with np.errstate(divide="ignore"):
        logs = -np.log(np.where(y == 1, p, 1 - p))
    brier, rate, log_loss = (sample.mean(values) for values in (squares, y, logs))
    discrimination = scaled = (math.nan, math.nan, math.nan)
    if sample.fewest == 0:
        notes.append("all rows have one outcome: C and scaled Brier are not defined")
    else:
        area, influence = c_statistic(sample)
        discrimination = area, *c_limits(sample, area, influence, level)[:2]
        variance = rate * (1 - rate)
        relative = (squares - brier) - brier / variance * (1 - 2 * rate) * (y - rate)
        part = _positive(sample, "", "", brier / variance, relative / variance, level)
        scaled = 1 - part.value, 1 - part.high, 1 - part.low
    measures = [
        Measure("c_statistic", "C (AUC)", *discrimination),
        _positive(sample, "brier", "Brier", brier, squares - brier, level, 1.0),
        Measure("scaled_brier", "scaled Brier", *scaled),
    ]
    if math.isinf(log_loss):
        wrong = _certain_rows(int(np.isinf(logs).sum()), "were", "was")
        notes.append(f"log loss is infinite: {wrong} wrong")
        return [*measures, Measure("log_loss", "log loss", math.inf, 0.0, math.inf)]
    return [*measures, _positive(sample, "log_loss", "log loss", log_loss, logs - log_loss, level)]


def c_statistic(sample: Sample) -> tuple[float, FloatArray]:
    """Return the share of pairs in which the event has the higher prediction, and influences.

    Ties count half. The influences are the placements of DeLong, DeLong and Clarke-Pearson (1988);
    summed over clusters they give the variance of Obuchowski (1997).

    >>> sample = Sample.of(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.1, 0.4, 0.35, 0.8]))
    >>> c_statistic(sample)[0]
    0.75
    """
    y, weight = sample.y, sample.weight
    _, place = np.unique(sample.p, return_inverse=True)
    events = np.bincount(place, weight * y)
    misses = np.bincount(place, weight * (1 - y))
    below = (np.cumsum(misses) - misses / 2) / misses.sum()
    above = 1 - (np.cumsum(events) - events / 2) / events.sum()
    area = float(events @ below) / events.sum()
    share = sample.mean(y)
    influence = np.where(y == 1, (below[place] - area) / share, (above[place] - area) / (1 - share))
    return float(area), influence


def c_limits(
    sample: Sample, area: float, influence: FloatArray, confidence_level: float
) -> tuple[float, float, str]:
    """Return the interval of C and its name.

    DeLong's on the log-odds scale; with few events, or where C is 0 or 1, Newcombe's (2006), which
    inverts a score test with the variance of Hanley and McNeil (1982) and never has length 0.
    """
    error = sample.variance(influence) ** 0.5
    if sample.fewest >= FEW_RANKED and 0 < area < 1 and error > 0:
        reach = sample.quantile(confidence_level) * error / (area * (1 - area))
        centre = float(special.logit(area))
        return float(special.expit(centre - reach)), float(special.expit(centre + reach)), "DeLong"
    z = sample.quantile(confidence_level)
    shrink = sample.effective_n / len(sample)
    m = max(sample.events * shrink, 1.0)
    n = max((len(sample) - sample.events) * shrink, 1.0)
    mean = (m + n) / 2 - 1

    def excess(a: float) -> float:
        variance = a * (1 - a) * (1 + mean * (1 - a) / (2 - a) + mean * a / (1 + a)) / (m * n)
        return (area - a) ** 2 - z**2 * variance

    # Where C is 0 or 1 the excess has a trivial root at a = C: brackets stop short of it.
    low = 0.0 if area <= 0 else float(optimize.brentq(excess, 0.0, min(area, 1 - 1e-12)))
    high = 1.0 if area >= 1 else float(optimize.brentq(excess, max(area, 1e-12), 1.0))
    return low, high, "Newcombe"


def _certain_rows(n: int, verb: str, singular: str) -> str:
    return f"{n:,} row{'s' * (n != 1)} predicted with 0 or 1 {singular if n == 1 else verb}"


def _never_wrong(sample: Sample, measures: list[Measure], level: float) -> list[Measure]:
    """Give the scores of predictions that are all 0 or 1, and right, the end that they lack."""
    units, rate = min(sample.effective_n, float(sample.n_clusters)), sample.mean(sample.y)
    # the largest rate, by the binomial law, of what happened to none of the rows
    worst = -math.expm1(math.log((1 - level) / 2) / units)
    ends = {"brier": worst, "smooth_ece": worst, "log_loss": math.inf}
    scaled = 1 - worst / (rate * (1 - rate)) if sample.fewest else math.nan
    return [
        replace(m, high=max(ends[m.name], m.high)) if m.name in ends
        else replace(m, low=scaled) if m.name == "scaled_brier"
        else m
        for m in measures
    ]  # fmt: skip


def _positive(
    sample: Sample,
    name: str,
    label: str,
    value: float,
    influence: FloatArray,
    level: float,
    most: float = math.inf,
) -> Measure:
    """Return a positive mean with its interval on the log scale, which allows for its skewness.

    `most` is the largest value that the mean can have.
    """
    error = sample.variance(influence) ** 0.5
    if value <= 0:
        return Measure(name, label, value, 0.0, error)
    factor = math.exp(min(sample.quantile(level) * error / value, 700.0))
    return Measure(name, label, value, value / factor, min(value * factor, most))


def _errors(sample: Sample, error: CalibrationErrorResult, level: float) -> list[Measure]:
    smooth = smooth_ece(sample)
    ends = smooth_ece_limits(sample, smooth, level)
    interval = error._interval(level)
    return [
        Measure("smooth_ece", "smooth ECE", smooth.value, *ends),
        Measure("l2_error", "l2 error, debiased", error.value, interval.low, interval.high, 0.0),
        Measure("noise_floor", "noise floor of l2", error.noise_floor),
    ]
