"""What a table proves: the bounds of a certificate, chosen by norm, target and kind of model.

**All outputs known.** The population's squared error is then bounded by that of the sample, too.
With masses p_j, shares N_j / n of the rows and errors e_j,

    t^2 = sum p_j e_j^2 <= max_j (p_j n / N_j)  sum (N_j / n) e_j^2.

The last sum is the squared error of the sample, t_N^2, which has a bound of its own given any
counts; and p_j <= U_j for all outputs at once, by Clopper-Pearson limits. Both hold with
probability 1 - delta if their error probabilities add up to delta. Every output must have rows:
one without rows may be off by 1.

Exact tails of the population's error (`calibrant.stats.tail_bounds`) are tighter where outputs are
many or labels vary; this bound is where rows are few and labels hardly vary, because the sample's
tests may be tuned to the counts. Which of the two is taken is decided by what both give a
calibrated model with equal counts, before any row is seen, so that one has the whole error
probability.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from calibrant._types import FloatArray
from calibrant.stats.bounds import (
    ETA,
    lower_bound,
    smallest_error,
    upper_bound,
    upper_bound_of_classes,
)
from calibrant.stats.bounds_l1 import lower_bound_l1, upper_bound_l1
from calibrant.stats.bounds_max import (
    lower_bound_max,
    lower_bounds_of_bins,
    spent_on_unseen,
    upper_bound_max,
    upper_bounds_of_bins,
)
from calibrant.stats.estimators import cells_of, raw_error
from calibrant.stats.intervals import clopper_pearson
from calibrant.stats.questions import Evidence, Question, Setting, evidence_of, occupied
from calibrant.stats.refutation import lower_bound_of_table
from calibrant.stats.tail_bounds import sharp_lower_bound, sharp_upper_bound
from calibrant.stats.tail_tuning import Absolute, Squared, needs_masses
from calibrant.table import BinTable

MASS_SHARE = 0.1
"""Of the error probability, spent on the limits of the masses; 0.2 costs 2% of the bound."""
LEARNING_SHARE = 0.05
"""The same where masses only tell how far a bin can be off. Both affect tightness, not validity."""
_MOST_OUTPUTS = 40
"""For more, exact tails of the population's error are tighter: by 40% with 50 outputs."""
_FEW_CLASSES = 4
"""Classes that are bounded one by one, by exact tails at a share of the error probability each:
for 3 that is 30% tighter than Hoelder's inequality, for 10 it is 20% looser."""
LIMITS = "Clopper-Pearson limits"
_FEW_LEVELS = 9
"""Levels of quantiles that are bounded one by one. If all are calibrated, the largest error has the
lower bound from 6 levels on; if they are off, it is above the mean by as much as they differ.
Affects tightness, not validity."""
_FALSE_ALARM = 0.05
"""Honest labels are said to agree too well at most this often; as Markov's inequality is not sharp,
in 0.8% to 1.5% of calibrated samples of 3 to 100 bins."""
_FALLBACK_SHARE = 0.1
"""Of the rest, spent on the bound without masses, in case that a mass is too small to be of use;
where none is, that costs 1% to 2% of the bound. Affects tightness, not validity."""


def bounds_of(table: BinTable, question: Question, floor: float = 0.0) -> tuple[float, float, str]:
    """Return an upper bound, a lower bound, and the theorem they rest on.

    An upper bound that is not above the floor may be returned too low.
    """
    power, target = question.power, question.target
    weights, delta = question.weights, question.delta
    if not table.is_binned_model:
        if math.isinf(power):  # in both senses: the largest error is that of some row, or larger
            power, target = 2.0, "sample"
        return 1.0, *lower_bound_of_table(table, weights, power, target, delta)
    evidence = evidence_of(table, weights, question.levels)
    if math.isinf(power):
        unseen, _ = unseen_of(table, question)
        upper = upper_bound_max(evidence, delta - unseen)
        return upper, lower_bound_max(evidence, delta), LIMITS
    several = question.n_classes > 1
    if target == "sample" and several:
        one_label = not table.problem.has_event_columns
        return _bounds_of_classes(evidence, weights, power, delta, one_label)
    if table.problem.kind == "quantile" and several:
        return *_bounds_of_levels(evidence, power, delta), LIMITS
    name = "absolute" if power == 1 else "squared"
    method = f"{'exponential moments' if several else 'exact tails'} of the {name} error"
    if power == 1:
        setting = Setting(target, delta)
        if several:
            return upper_bound_l1(evidence, setting), lower_bound_l1(evidence, setting), method
        upper = sharp_upper_bound(evidence, setting, Absolute, floor=floor)
        return upper, sharp_lower_bound(evidence, setting, Absolute), method
    if target == "sample":
        question = replace(question, min_bin_mass=None)
    elif question.min_bin_mass is None and needs_masses(evidence, delta):
        question = replace(question, min_bin_mass="learned")
    setting, others = settings_of(table, question)
    if several:
        lower, n_classes = lower_bound(evidence, setting), question.n_classes
        if n_classes <= _FEW_CLASSES:  # known before the rows
            upper = _upper_bound_class_by_class(table, weights, Setting(target, delta / n_classes))
            return upper, lower, "exact tails of the squared error, class by class"
        return min(upper_bound(evidence, other) for other in others), lower, method
    lower = sharp_lower_bound(evidence, Setting(target, delta), Squared)
    levels = question.levels if question.min_bin_mass == "learned" else None
    if levels is None or not prefers_sample(table.n, tuple(levels.tolist()), delta):
        uppers = (sharp_upper_bound(evidence, other, Squared, floor=floor) for other in others)
        return min(uppers), lower, method
    # as is known before the rows, the error of the sample is the better way to the population's
    upper = bound_by_sample(evidence, levels.size, (1 - _FALLBACK_SHARE) * delta)
    return min(upper, sharp_upper_bound(evidence, others[-1], Squared)), lower, method


def _bounds_of_levels(evidence: Evidence, power: float, delta: float) -> tuple[float, float]:
    """Return the bounds of the l1 or l2 error of levels of quantiles, of mass 1 each.

    Every level is off by its own lower bound at least, all at once; and likewise from above. Of
    many levels the upper bound is that of the largest error, which no norm exceeds and which
    needs no correction for many. Which of the two depends on the number of levels alone.
    """

    def norm(off: FloatArray) -> float:
        return float((evidence.weight @ off**power) ** (1 / power))

    n_levels = evidence.weight.size
    few = n_levels <= _FEW_LEVELS
    upper = upper_bounds_of_bins(evidence, delta / n_levels if few else delta)
    return norm(upper) if few else float(upper.max()), norm(lower_bounds_of_bins(evidence, delta))


def _upper_bound_class_by_class(table: BinTable, weights: FloatArray, setting: Setting) -> float:
    """Return the bound that holds if those of all classes hold."""
    squares = []
    for k in np.flatnonzero(weights):
        alone = evidence_of(table, np.where(np.arange(weights.size) == k, 1.0, 0.0))
        squares.append(weights[k] * sharp_upper_bound(alone, setting, Squared) ** 2)
    return math.sqrt(sum(squares))


def _bounds_of_classes(
    evidence: Evidence, weights: FloatArray, power: float, delta: float, one_label: bool
) -> tuple[float, float, str]:
    """Return the bounds of several classes on the inputs of these rows.

    Given the inputs, rows of a bin have different event rates.
    """
    mixed, setting = replace(evidence, is_mixed=True), Setting("sample", delta)
    lower = (lower_bound_l1 if power == 1 else lower_bound)(mixed, setting)
    upper = upper_bound_of_classes(evidence, weights, power, delta, one_label)
    name = "one-hot labels" if one_label else "the events of a row"
    return upper, lower, f"concentration of {name}"


def bound_by_sample(
    evidence: Evidence, n_outputs: int, delta: float, observed: float | None = None
) -> float:
    """Return a bound of the population's error that holds with probability 1 - delta.

    It is 1 unless each of all `n_outputs` has rows; `observed` is that of `sharp_upper_bound`.
    """
    if evidence.s.size < n_outputs:
        return 1.0
    rows = np.full(n_outputs, evidence.n)
    most = clopper_pearson(evidence.size, rows, 2 * MASS_SHARE * delta / n_outputs)[1]
    setting = Setting("sample", (1 - MASS_SHARE) * delta)
    bound = sharp_upper_bound(evidence, setting, Squared, observed)
    return min(bound * math.sqrt(float(np.max(most / evidence.mass))), 1.0)


def least_masses(size: FloatArray, n: int, n_outputs: int, delta: float) -> FloatArray:
    """Return lower bounds of the masses that hold for all at once, with probability 1 - delta."""
    return clopper_pearson(size, np.full(size.shape, n), 2 * delta / n_outputs)[0]


@lru_cache(maxsize=256)
def prefers_sample(n: int, levels: tuple[float, ...], delta: float) -> bool:
    """Whether the sample's bound is tighter for a calibrated model with these outputs."""
    s = np.array(levels)
    if s.size > _MOST_OUTPUTS or n < s.size:
        return False
    size = np.full(s.size, float(n // s.size))
    planned = Evidence(n, size, s, s, np.ones(s.size), s.size, s)
    usual = (1 - ETA) * float(np.sum(s * (1 - s))) / n
    masses = least_masses(size, n, s.size, LEARNING_SHARE * delta)
    setting = Setting("population", (1 - LEARNING_SHARE) * delta, masses, 0.5 / s.size)
    by_masses = sharp_upper_bound(planned, setting, Squared, usual)
    return bound_by_sample(planned, s.size, delta, usual) < by_masses


def unseen_of(table: BinTable, question: Question) -> tuple[float, str | None]:
    """Return the delta that a maximum spends on outputs without rows, and which it leaves out."""
    if table.problem.kind == "quantile":  # every row has every level
        return 0.0, None
    mass = question.min_bin_mass
    declared = mass if question.target == "population" and mass != "learned" else None
    return spent_on_unseen(table.n, question.delta, question.n_classes > 1, declared)


def settings_of(table: BinTable, question: Question) -> tuple[Setting, list[Setting]]:
    """Return the setting of the lower bound, and those whose least upper bound is the upper one.

    Learned masses are Clopper-Pearson limits of all bins at once. They tell how far a bin can be
    off, and nothing else: tests that were tuned by them would depend on the counts, over which
    their proof averages. The number of outputs may tune them, since the caller asserts that
    the table has them all. Where a learned mass is far below the average, such tests may prove
    nothing; a bound that makes no use of masses has a part of the error probability.
    """
    delta, target, levels = question.delta, question.target, question.levels
    min_bin_mass = question.min_bin_mass
    if min_bin_mass is None or target == "sample":
        return (setting := Setting(target, delta)), [setting]
    if min_bin_mass != "learned":
        return (setting := Setting(target, delta, float(min_bin_mass))), [setting]
    n_outputs = sum(map(len, table.bins)) if levels is None else len(levels)
    masses = least_masses(table.count, table.n, n_outputs, LEARNING_SHARE * delta)
    # bins shared with other groups hold none of the levels that were declared for this one
    real = np.array([[j < len(b) for j in range(table.count.shape[1])] for b in table.bins])
    real &= (table.count > 0) | (levels is None)
    unseen = levels is not None and int((table.count > 0).sum()) < n_outputs
    least = 0.0 if unseen else float(masses[real].min())
    # uniform-mass bins are that balanced
    nominal = 0.5 / (max(map(len, table.bins)) if levels is None else n_outputs)
    remaining = (1 - LEARNING_SHARE) * delta
    # 0: an output was never seen
    seen = masses[occupied(table, question.weights)] if least > 0 else 0.0
    tuned = Setting(target, (1 - _FALLBACK_SHARE) * remaining, seen, nominal)
    free = Setting(target, _FALLBACK_SHARE * remaining)
    return Setting(target, remaining, least, nominal), [tuned, free]


def agrees_too_well(table: BinTable, question: Question) -> bool:
    """Tell whether labels agree with predictions better than independent draws do, at any rates.

    The upper bound of the squared error then rejects every error, 0 included. That is a property
    of the rows, whatever norm was asked for. It is tested with the error probability of the
    certificate, so that of many groups, or draws, any is called that as rarely as one.
    """
    weights = question.weights
    if not table.is_binned_model or raw_error(cells_of(table), weights, 2.0, debiased=True) >= 0:
        return False
    delta = min(question.delta, _FALSE_ALARM / (question.draws or 1))
    bound = upper_bound(evidence_of(table, weights), Setting(question.target, delta))
    return bound <= smallest_error(table.n)
