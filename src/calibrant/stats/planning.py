"""Planning: how many rows certify an error, before any label is bought.

Plans imagine a binned model with outputs spread evenly over [0, 1], all equally
likely, whose squared error estimate varies as the theory says, and ask the certificate itself.
Models with outputs near 0 or 1 have less label noise and need fewer rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant._bins_argument import auto_n_bins
from calibrant._options import check_flag, is_among, is_real
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.bounds import ETA, upper_bound
from calibrant.stats.bounds_max import bound_max_with_power, spent_on_unseen
from calibrant.stats.intervals import check_level
from calibrant.stats.proofs import bound_by_sample, bounds_of, prefers_sample
from calibrant.stats.questions import (
    Evidence,
    Question,
    Setting,
    checked_levels,
    error_probability,
)
from calibrant.stats.sample_sizes import MOST_ROWS, check_bins, is_count
from calibrant.stats.tail_bounds import sharp_upper_bound
from calibrant.stats.tail_tuning import Plan, Squared, needs_masses
from calibrant.table import BinTable

_PATIENCE = 20
"""Steps of a search for rows, which takes about 4, before it doubles or halves: excess may not fall
as expected."""
_PRECISION, _COARSE_PRECISION = 250, 50
"""Plans are for the least number of rows within a part in so many: power is known to less, and to
still less where it is simulated."""
_BEYOND = 0.0015
"""How much farther than expected the search steps, so that the next step is on the other side."""
_LEAST_POWER = 0.001
"""A plan that fails 999 times in 1,000 is useless; far below, bounds cannot be computed."""
_LEFT_BY_LEARNING = 0.85
"""Of the error probability, where certificates learn the masses first."""
_MOST_OUTPUTS = 128
"""Plans for more outputs than these use so many, each in place of several."""
_FEW_EVENTS = 10.0
"""Expected events, or rows without one if these are rarer, up to which plans of declared levels are
simulated: T takes few values then. With 3 events the gamma law gave a power of 0.76 for 0.9, with
none one of 0; from 7 on it was within 0.03."""
_TABLES = 4096
"""Tables that are drawn: their power is known to half a percent."""
_MOST_BOUNDS, _LEAST_BOUNDS, _BOUNDED_OUTPUTS = 64, 16, 640
"""Tables that are bounded, in time about proportional to their outputs: a second or two a step."""


def samples_to_certify(
    max_error: float,
    n_bins: int | None = None,
    *,
    levels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    power: float = 0.9,
    true_error: float = 0.0,
    norm: str = "l2",
    balanced: bool = False,
    looks: int = 1,
) -> int:
    """Return how many rows certify an error of at most `max_error`, with the given power.

    Parameters
    ----------
    max_error : float
        The tolerance to be certified.
    n_bins : int, optional
        How many distinct outputs the model has, if `levels` are not known.
    levels : array-like, optional
        All outputs that the model can give, equally likely, to be passed to `certify` as well:
        outputs near 0 and 1 have little label noise and need fewer rows.
    confidence_level : float
        Of the certificate.
    power : float
        The probability that the certificate is obtained, 0.001 or more.
    true_error : float
        The model's true error; 0 for a calibrated one.
    norm : {"l2", "l1", "max"}
        An l2 certificate is also one for l1, so the same number serves both. For the maximum every
        output is imagined to be off by `true_error`, and must have rows enough of its own.
    balanced : bool
        Whether it will be known that every output has probability at least 1 / (2 n_bins)
        (``min_bin_mass``), as for uniform-mass bins.
    looks : int
        That of `certify`: how often the rows will be certified as they grow. The power is that of
        one look.

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value.

    See Also
    --------
    smallest_certifiable_error : the other way round.
    calibrant.certify : what is planned here.

    Notes
    -----
    A plan imagines a model whose outputs are spread evenly over [0, 1], or are `levels`, all
    equally likely, and asks the certificate itself at the error estimates that it would show.
    Of `levels` next to 0 and 1, where few events are expected in all, the error takes few values
    and the rows of every output count: there tables are drawn, always the same ones, and certified,
    which takes seconds. The power then rises by steps, and may fall a little between them, so some
    rows more are no certain gain; it is known to about 0.02, and a `power` above 0.98 may be
    missed by as much.

    Examples
    --------
    >>> samples_to_certify(0.05, n_bins=10)
    2062
    >>> samples_to_certify(0.05, levels=[0.01, 0.02, 0.04, 0.08, 0.16])
    1231
    >>> samples_to_certify(0.05, n_bins=10, looks=2)
    2354
    >>> samples_to_certify(0.1, n_bins=10, norm="max")
    3749
    """
    plan = _Plan.of(n_bins, levels, confidence_level, power, norm, balanced, looks)
    are_real = is_real(true_error) and is_real(max_error)
    if not (are_real and 0 <= true_error < max_error < 1):
        raise InvalidArgumentError(
            "A certificate needs 0 <= true_error < max_error < 1; got "
            f"true_error={true_error!r} and max_error={max_error!r}. A model with true error 0.05 "
            "cannot be certified at 0.02: ask for a larger max_error."
        )
    plan.check_true_error(true_error)

    def excess(n: int) -> float:
        bound = _bound_with_power(n, plan, true_error)
        return (bound - true_error) / (max_error - true_error)

    # a calibrated model is bounded by about this; for a power of 0.9 half as much again is needed
    usual = Squared.usual(Plan(1000, plan.outputs.size, plan.delta, levels=plan.outputs))
    if norm == "max":
        usual *= math.sqrt(plan.outputs.size)
    # capped, because the square of 1e300 is not a float
    ratio = min(1.5 * usual / (max_error - true_error), math.sqrt(MOST_ROWS))
    guess = 1000 * ratio**2
    few = plan.expects_few_events(guess, true_error)
    return _least_rows(excess, guess, _COARSE_PRECISION if few else _PRECISION)


def smallest_certifiable_error(
    n: int,
    n_bins: int | None = None,
    *,
    levels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    power: float = 0.9,
    true_error: float = 0.0,
    norm: str = "l2",
    balanced: bool = False,
    looks: int = 1,
) -> float:
    """Return the smallest tolerance that n rows certify with the given power.

    Parameters
    ----------
    n : int
        The number of rows.
    n_bins, levels, confidence_level, power, true_error, norm, balanced, looks
        As in `samples_to_certify`.

    Returns
    -------
    float
        The tolerance.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value.

    See Also
    --------
    samples_to_certify : the other way round.

    Notes
    -----
    The value that the upper bound of n rows is below with probability `power`, for the
    model that `samples_to_certify` imagines.

    Examples
    --------
    >>> round(smallest_certifiable_error(10_000, n_bins=10), 3)
    0.023
    """
    plan = _Plan.of(n_bins, levels, confidence_level, power, norm, balanced, looks)
    if not (is_count(n) and is_real(true_error) and 0 <= true_error < 1):
        raise InvalidArgumentError(
            "n must be at least 1 and at most 1e15, and true_error in [0, 1); got "
            f"{n!r:.60} and {true_error!r:.60}."
        )
    plan.check_true_error(true_error)
    return _bound_with_power(n, plan, true_error)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A binned model as it is planned for: its outputs, and whether they will be declared."""

    outputs: FloatArray
    declared: bool
    delta: float
    power: float
    balanced: bool
    norm: str

    @classmethod
    def of(
        cls,
        n_bins: int | None,
        levels: ArrayLike | None,
        confidence_level: float,
        power: float,
        norm: str,
        balanced: bool,
        looks: int,
    ) -> _Plan:
        """Check the arguments of a plan."""
        check_level(confidence_level)
        if not (is_real(power) and _LEAST_POWER <= power <= 1 - 1e-15):
            raise InvalidArgumentError(
                f"power must lie between {_LEAST_POWER:g} and 1, and not at 1; got {power!r:.60}. "
                "Write 0.9 for a certificate that is obtained nine times in ten."
            )
        if not is_among(norm, ("l1", "l2", "max")):
            raise InvalidArgumentError(f'Plans exist for norm="l2", "l1" and "max"; got {norm!r}.')
        check_flag("balanced", balanced)
        delta = error_probability(confidence_level, looks)
        if levels is not None and n_bins is None:
            return cls(checked_levels(levels), True, delta, power, balanced, norm)
        if n_bins is None or levels is not None:
            raise InvalidArgumentError(
                "A plan needs n_bins, the number of outputs, or levels, the outputs themselves; "
                f"got {'neither' if n_bins is None else 'both'}."
            )
        check_bins(n_bins)
        return cls((np.arange(n_bins) + 0.5) / n_bins, False, delta, power, balanced, norm)

    def check_true_error(self, true_error: float) -> None:
        """Refuse an error that no model with these outputs can have."""
        reach = np.maximum(self.outputs, 1 - self.outputs)
        largest = float(reach.max() if self.norm == "max" else np.sqrt(np.mean(reach**2)))
        if true_error > largest:
            raise InvalidArgumentError(
                "true_error must be one that a model with these outputs can have, at most "
                f"{largest:.4g}; got {true_error!r}. An output s is off by s or 1 - s at most."
            )

    def expects_few_events(self, n: float, true_error: float) -> bool:
        """Whether n rows are expected to have few events, or few non-events, at known outputs."""
        rare = float(np.mean(np.minimum(self.outputs, 1 - self.outputs))) + true_error
        return self.declared and self.outputs.size <= _MOST_OUTPUTS and n * rare < _FEW_EVENTS


def _bound_with_power(n: int, plan: _Plan, true_error: float) -> float:
    """Return the bound that the `power` quantile of the squared estimate would give."""
    s = plan.outputs
    if plan.norm == "max":
        declared = 0.5 / s.size if plan.balanced else None
        unseen, _ = spent_on_unseen(n, plan.delta, False, declared)
        return bound_max_with_power(n, s, plan.delta - unseen, plan.power, true_error)
    if plan.expects_few_events(n, true_error):
        return _simulated_bound(n, plan, true_error)
    quantile = _quantile(n, np.maximum(s * (1 - s), 1e-9), true_error, plan.power)
    n_bins, n_shown = s.size, min(s.size, _MOST_OUTPUTS)
    if n_shown < n_bins:
        s = np.quantile(s, (np.arange(n_shown) + 0.5) / n_shown)
    multiple = n_bins / n_shown  # how many outputs one stands for
    size = np.full(n_shown, float(max(n // n_bins, 1)))
    evidence = Evidence(
        n=n, size=size, rate=s, s=s, weight=np.full(n_shown, multiple),
        n_planned=n_bins if plan.declared else auto_n_bins(n),
        levels=plan.outputs if plan.declared else None,
    )  # fmt: skip
    mass, delta = 0.5 / n_bins if plan.balanced else 0.0, plan.delta
    if not plan.balanced and needs_masses(evidence, delta):
        if prefers_sample(n, tuple(s.tolist()), delta):
            return bound_by_sample(evidence, n_bins, _LEFT_BY_LEARNING * delta, quantile)
        mass, delta = 0.5 / n_bins, _LEFT_BY_LEARNING * delta
    if multiple == 1:
        setting = Setting("population", delta, mass)
        return sharp_upper_bound(evidence, setting, Squared, quantile)
    # `Setting` takes the least mass times the weight.
    return upper_bound(evidence, Setting("population", delta, mass / multiple), quantile)


def _simulated_bound(n: int, plan: _Plan, true_error: float) -> float:
    """Return the `power` quantile of the bounds of simulated tables, seeded: the same each time.

    Of more different tables than can be bounded, those at even ranks of T are.
    """
    s, rng = plan.outputs, np.random.default_rng(0)
    rate = np.clip(s + np.where(s <= 0.5, true_error, -true_error), 0.0, 1.0)
    size = rng.multinomial(n, np.full(s.size, 1 / s.size), size=_TABLES)
    drawn = np.stack([size, rng.binomial(size, rate)], axis=1)
    tables, times = np.unique(drawn, axis=0, return_counts=True)
    size, events = tables[:, 0], tables[:, 1]
    off = (events - size * s) ** 2 / np.maximum(size, 1)
    order = np.argsort(off.sum(axis=1), kind="stable")
    tables, times = tables[order], times[order]
    most = int(np.clip(_BOUNDED_OUTPUTS // s.size, _LEAST_BOUNDS, _MOST_BOUNDS))
    if len(tables) > most:
        ranks = (np.arange(most) + 0.5) / most * _TABLES
        tables, times = tables[np.searchsorted(np.cumsum(times), ranks)], np.ones(most, np.intp)
    bounds = np.array([_bound_of(BinTable.from_counts(s, *table), plan) for table in tables])
    order = np.argsort(bounds)
    share = np.cumsum(times[order]) / times.sum()
    return float(bounds[order[np.argmax(share > plan.power - 1e-9)]])


def _bound_of(table: BinTable, plan: _Plan) -> float:
    options: dict[str, Any] = {"confidence_level": 1 - plan.delta, "levels": plan.outputs}
    if plan.balanced:
        options["min_bin_mass"] = 0.5 / plan.outputs.size
    return bounds_of(table, Question.of(table, **options))[0]


def _quantile(
    n: int, v: np.ndarray[tuple[int], np.dtype[np.float64]], t: float, power: float
) -> float:
    """Return a quantile of T: a gamma law of its mean, variance and third moment."""
    variance = 2 * float(np.sum(v**2)) / n**2 + 4 * float(v.max()) * t**2 / n
    third = 8 * float(np.sum(v**3)) / n**3 + 24 * float(v.max()) ** 2 * t**2 / n**2
    shape = 4 * variance**3 / third**2
    law = (float(special.gammaincinv(shape, power)) - shape) / math.sqrt(shape)
    return t**2 + (1 - ETA) * float(v.sum()) / n + law * math.sqrt(variance)


def _least_rows(excess: Callable[[int], float], guess: float, precision: int) -> int:
    """Return about the least n whose excess is at most 1, if excess falls about as 1 / sqrt(n)."""
    low, high, ratios, steps = 0, 0, {0: math.inf}, 0
    n = int(min(max(guess, 1.0), MOST_ROWS))
    while not high or high - low > max(1, low // precision):
        ratio, steps = excess(n), steps + 1
        ratios[n] = ratio
        low, high = (low, n) if ratio <= 1 else (n, high)
        if ratio <= 1 < ratio * (1 + 0.5 / precision):
            break
        # A ratio can be infinite for the tiniest of tolerances, and its square more often.
        aim = min(n * ratio * ratio * (1 + math.copysign(_BEYOND, ratio - 1)), 2.0 * MOST_ROWS)
        if high and low and ratios[low] < math.inf:
            # of an excess a little below 1, on a line in the logarithms of both
            drop = math.log(ratios[low] / max(ratios[high], 1e-9))
            share = (math.log(ratios[low]) + 0.25 / precision) / drop if drop > 0 else 0.5
            aim = float(low * (high / low) ** share)
        if high:
            n = int(aim) if steps < _PATIENCE and low < aim < high else (low + high) // 2
            n = min(max(n, low + 1), high - 1)
        else:
            n = max(int(aim), 2 * n if ratio > 1.5 or steps >= _PATIENCE else n + 1)
        if n > MOST_ROWS:
            raise InvalidArgumentError(
                "More than 1e15 rows would be needed. Ask for a larger max_error, or a larger "
                "distance between true_error and max_error."
            )
    return high
