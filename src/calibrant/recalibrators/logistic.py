"""Logistic families: maps ``sigma(coef . features(x) + intercept)`` of one score, and their fit.

A fit is never worse on its own rows than leaving the scores alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy.special import logit

from calibrant._threads import in_pieces
from calibrant._types import FloatArray
from calibrant.problem import Input
from calibrant.recalibrators.formulas import (
    NUMPY,
    Operations,
    Smoothing,
    best_share,
    both_sides,
    linear,
    log_odds,
    may_keep,
)
from calibrant.recalibrators.optimise import fit_logistic, fit_shift
from calibrant.recalibrators.scores import (
    PIECE_ROWS,
    FitResult,
    Loss,
    Scores,
    identity_loss,
    mean_loss,
)

Share: TypeAlias = float | None
"""How much of the even distribution is mixed in; None takes scores for log-odds as they are."""

Solved: TypeAlias = tuple[FloatArray, int, float | None, tuple[str, ...]]
"""Coefficients, iterations, the loss where it is known, and flags."""

SMOOTHING_ROWS = 1 << 12
"""So many rows, at equal steps through all, decide how much is mixed in; few distinct scores, as of
votes, are added up first and all used."""

ALL = slice(None)

FARTHEST_LOGIT = 1e75
"""Logits beyond count as this one where they are squared: an infinite square times a coefficient of
0 is not a number, and finite answers are 0 and 1 long before."""


@dataclass(frozen=True, eq=False)
class Family:
    """The features of a score, the coefficients that change nothing, and how to fit others."""

    features: Callable[[Operations, Any, Share], tuple[Any, ...]]
    identity: tuple[float, ...]
    is_increasing: Callable[[FloatArray, float, float], bool]
    solve: Callable[[Family, Scores, Share, Loss], Solved]

    def formula(self, ops: Operations, x: Any, coef: Any, share: Share) -> Any:
        """Return the map of x with these coefficients, the intercept last."""
        return ops.sigmoid(linear(coef, self.features(ops, x, share)))

    def matrix(self, values: FloatArray, share: Share) -> FloatArray:
        """Return the features (k, n) of many scores, from all cores."""
        out = np.empty((len(self.identity) - 1, values.size))

        def write(part: slice) -> None:
            out[:, part] = self.features(NUMPY, values[part], share)

        in_pieces(values.size, PIECE_ROWS, write)
        return out

    def loss_of(self, coef: FloatArray, scores: Scores, share: Share, loss: Loss) -> float:
        """Return the mean loss of the map with these coefficients."""
        return mean_loss(linear(coef, self.features(NUMPY, scores.values, share)), scores, loss)


def fit_family(
    family: Family,
    scores: Scores,
    *,
    smoothing: Smoothing,
    loss: Loss = "log",
    kind: Input = "probabilities",
    on_probabilities: bool = False,
) -> tuple[FloatArray, float, FitResult]:
    """Return the coefficients, the share of smoothing that they belong to, and how the fit went."""
    scores = scores.compressed()

    def loss_with(share: float, sample: Scores) -> float:
        return fit_logistic(family.matrix(sample.values, share), sample, loss).loss

    as_they_are = kind == "logits" or on_probabilities
    mixed = 0.0 if as_they_are else share_to_mix(scores, smoothing, SMOOTHING_ROWS, loss_with)
    share = None if as_they_are else mixed
    ends = np.array([scores.values.min(), scores.values.max()])
    low, high = (float(end) for end in base(NUMPY, ends, share))
    flags = _degenerate(scores, low, high)
    if flags:
        shift = fit_shift(base(NUMPY, scores.values, share), scores)
        solved: Solved = np.array([*family.identity[:-1], shift]), 0, None, flags
    else:
        solved = family.solve(family, scores, share, loss)
    coef, iterations, after, flags = solved
    after = family.loss_of(coef, scores, share, loss) if after is None else after
    of_logits = kind == "logits"
    before = mean_loss(scores.values, scores, loss) if of_logits else identity_loss(scores, loss)
    # A squared error is bounded: exact zeros that are wrong next time lose no more than 1.
    may_stay = loss == "squared" or may_keep(scores.values, smoothing, kind)
    if not after <= before and may_stay:
        coef, after, mixed = np.array(family.identity), before, 0.0
        flags = (*flags, "kept identity")
    if not family.is_increasing(coef, low, high):
        flags = (*flags, "not increasing")
    result = FitResult("not converged" not in flags, iterations, after, before, flags)
    return coef, mixed, result


def base(ops: Operations, x: Any, share: Share) -> Any:
    """Return the variable of a map: log-odds, or the scores as they are."""
    return ops.factor(x) if share is None else log_odds(ops, x, share)


def share_to_mix(
    scores: Scores, smoothing: Smoothing, n_rows: int, loss: Callable[[float, Scores], float]
) -> float:
    """Return the share to mix in: as declared, or the best for about `n_rows` of the rows."""
    if smoothing != "auto":
        return float(smoothing)
    if scores.values.min() > 0 and scores.values.max() < 1:
        return 0.0
    sample = scores.thinned(n_rows).with_pseudo_rows(1)
    return best_share(np.minimum(scores.values, 1 - scores.values), 2, lambda s: loss(s, sample))


def _degenerate(scores: Scores, low: float, high: float) -> tuple[str, ...]:
    """Name why the slope is undetermined: then only a shift of the log-odds is fitted."""
    n1 = float(scores.events.sum())
    short = n1 < scores.total if scores.weights is None else (scores.events < scores.weights).any()
    constant = high - low <= 1e-13 * max(abs(low), abs(high))
    return (() if n1 > 0 and short else ("one class",)) + (("constant scores",) if constant else ())


def solve(
    family: Family, scores: Scores, share: Share, loss: Loss, features: slice = ALL
) -> Solved:
    """Maximise the likelihood, of Platt's targets where the rows are separable."""

    def design() -> FloatArray:  # made anew for each fit, which overwrites it
        return family.matrix(scores.values, share)[features]

    if not scores.is_separated:
        solution = fit_logistic(design(), scores, loss)
        if not solution.is_separable:
            return solution.theta, solution.iterations, solution.loss, ()
    solution = fit_logistic(design(), scores.with_platt_targets())
    flags = ("separable",) if solution.converged else ("separable", "not converged")
    return solution.theta, solution.iterations, None, flags


def _solve_with_one_slope(family: Family, scores: Scores, share: Share, loss: Loss) -> Solved:
    (slope, shift), iterations, after, flags = solve(PLATT, scores, share, loss)
    slope = max(slope, 0.0)
    return np.array([slope, slope, shift]), iterations, after if slope else None, flags


def _solve_beta(family: Family, scores: Scores, share: Share, loss: Loss) -> Solved:
    """Fit with both slopes; without one of them where that would be negative."""
    coef, iterations, after, flags = solve(family, scores, share, loss)
    if min(coef[0], coef[1]) >= 0:
        return coef, iterations, after, flags
    options = [_with_one_feature(family, j, scores, share) for j in (1, 0)]
    coef, iterations, after = min(options, key=lambda option: option[2])
    return coef, iterations, after, (*flags, "term dropped")


def _with_one_feature(
    family: Family, j: int, scores: Scores, share: Share
) -> tuple[FloatArray, int, float]:
    """Fit with the other coefficient at 0; both at 0 where this one would be negative too."""
    (slope, shift), iterations, *_ = solve(family, scores, share, "log", slice(j, j + 1))
    smooth = scores.with_platt_targets()
    coef = np.array([0.0, 0.0, shift if slope > 0 else logit(smooth.event_rate)])
    coef[j] = max(slope, 0.0)
    return coef, iterations, family.loss_of(coef, scores, share, "log")


def _odds_and_square(ops: Operations, x: Any, share: Share) -> tuple[Any, Any]:
    odds = base(ops, x, share)
    if share is None:
        odds = ops.clip(odds, -FARTHEST_LOGIT, FARTHEST_LOGIT)
    return odds, odds * odds


def _logs_of_both_sides(ops: Operations, x: Any, share: Share) -> tuple[Any, Any]:
    happens, fails = both_sides(ops, x, share or 0.0)
    return ops.log(happens), -(ops.log(fails) if share else ops.log_complement(happens))


def _rises_at_both_ends(coef: FloatArray, low: float, high: float) -> bool:
    a, q, _ = coef
    return bool(min(a + 2 * q * low, a + 2 * q * high) > 0)


PLATT = Family(
    features=lambda ops, x, share: (base(ops, x, share),),
    identity=(1.0, 0.0),
    is_increasing=lambda coef, low, high: bool(coef[0] > 0),
    solve=solve,
)
QUADRATIC = Family(_odds_and_square, (1.0, 0.0, 0.0), _rises_at_both_ends, solve)
BETA = Family(
    features=_logs_of_both_sides,
    identity=(1.0, 1.0, 0.0),
    is_increasing=lambda coef, low, high: bool(coef[0] > 0 or coef[1] > 0),
    solve=_solve_beta,
)
BETA_WITH_ONE_SLOPE = replace(BETA, solve=_solve_with_one_slope)
