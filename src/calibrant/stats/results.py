"""The calibration error of a table, and its result, which answers further questions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from calibrant._influences import InfluenceSums
from calibrant._json import plain
from calibrant._options import check_word, generator
from calibrant._results import NumberResult
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, NoSuchEstimatorError, UnresolvedWarning
from calibrant.problem import Label
from calibrant.stats.clusters import ClusterSums
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    Target,
    cells_of,
    class_weights,
    error_from_raw,
    error_of,
    is_debiased,
    noise_floor,
    norm_name,
    null_variance,
    power_of,
    raw_error,
)
from calibrant.stats.influences import RowSource, notes_of, read_influences, variance_of
from calibrant.stats.intervals import (
    ConfidenceInterval,
    Limits,
    bootstrap_interval,
    bootstrap_values,
    box_interval,
    check_level,
    normal_interval,
    score_interval,
)
from calibrant.table import BinTable, describe_bins

Method: TypeAlias = Literal["auto", "score", "normal", "box", "percentile", "basic"]

UNRESOLVED_LIMIT = 0.05
"""The share of rows alone in their bin that raises no warning: they have no pairs, so they
tell nothing of the error, whose square they change by at most their share. Beyond it there is a
warning, and outputs count as continuous. Affects tightness only, never validity."""
FEW_CLUSTERS = 10
"""In a bin: with 6 the interval of clusters covered 89% in the worst of its simulations."""
MEAN_ROOT = 0.4111
"""The mean of sqrt(max(Z, 0)) for a standard normal Z."""


def calibration_error(
    table: BinTable,
    *,
    norm: Norm = "l2",
    debias: bool | None = None,
    class_weight: ClassWeight = None,
    source: RowSource | None = None,
    clusters: ClusterSums | None = None,
) -> CalibrationErrorResult:
    """Measure the calibration error of a table.

    The parameters are those of `calibrant.calibration_error`; `source` is
    where the rows of the table are, for intervals that the table alone cannot give; `clusters`
    are the sums of rows that depend on each other.
    """
    power = power_of(norm)
    debiased = is_debiased(power, debias)
    if not (clusters is None or isinstance(clusters, ClusterSums)):
        raise InvalidArgumentError(
            "clusters must be the sums of clusters of the same rows, which "
            f"calibrant.calibration_error(..., cluster=) makes; got {clusters!r:.60}."
        )
    if clusters is not None and not (debiased and power == 2):
        raise NoSuchEstimatorError(
            f"Clusters are allowed for in the debiased l2 error; this is the "
            f"{'' if debiased else 'plug-in '}{norm_name(power)} error. Leave out norm= and "
            "debias=, or draw one row of each cluster."
        )
    weights = class_weights(class_weight, table.problem)
    cells = cells_of(table)
    if power == 2:
        squared = raw_error(cells, weights, power, debiased)
        squared = squared if clusters is None else np.asarray(clusters.squared)
        value, unclipped = float(error_from_raw(squared, power)), float(squared)
    else:
        value, unclipped = float(error_of(cells, weights, power, debiased)), None
    return CalibrationErrorResult(
        value, unclipped, power, debiased, table, weights, source, clusters
    )


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationErrorResult(NumberResult):
    """A calibration error, with what is needed to read it honestly.

    It reads as its value: ``float(result)``, ``round(result, 3)``, ``f"{result:.3f}"`` and
    ``result < 0.05`` do what they do for the number. Two results of the same norm compare by
    their values too; those of different norms are never equal and cannot be ordered.

    What is not needed for the value is computed when it is first read, from the table.

    A pickle holds everything but the rows: bootstrap intervals that resample them are refused
    after it, all others are the same. (The interval of a marginal error reads the rows once more,
    when it is first asked for or when the result is pickled.)

    Attributes
    ----------
    value : float
        The error; ``float(result)`` gives it too.
    squared : float or None
        The estimate of the squared l2 error before clipping: unbiased, so it may be negative.
    is_debiased : bool
        Whether the bias of the plug-in estimate was removed.
    table : BinTable
        The sums from which all of this was computed.
    power, class_weights, source, clusters
        What the above is computed from: p of the norm, the weights of classes, where the rows are,
        and sums of clusters.
    """

    _left_behind: ClassVar = ("source",)

    value: float
    squared: float | None
    power: float
    is_debiased: bool
    table: BinTable
    class_weights: FloatArray
    source: RowSource | None = None
    clusters: ClusterSums | None = None

    @property
    def n_clusters(self) -> int | None:
        """The number of clusters, where rows come in such, else None."""
        return None if self.clusters is None else self.clusters.n_clusters

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.table.n

    @property
    def norm(self) -> str:
        """The name of the norm: "l1", "l2", "max" or "l" and a number."""
        return norm_name(self.power)

    def _measure(self) -> str:
        return self.norm

    @cached_property
    def is_lower_bound(self) -> bool:
        """Whether the number only bounds the error from below.

        It does where bins mix different predictions (Proposition 3.2), or where a debiased
        estimate had rows alone in their bin.
        """
        alone = self.is_debiased and self.power == 2 and self.unresolved_mass > 0
        return alone or not self.table.is_binned_model

    @cached_property
    def unresolved_mass(self) -> float:
        """The share of rows in bins of fewer than two, where error and chance look the same."""
        return float(cells_of(self.table).unresolved_mass @ self.class_weights)

    @cached_property
    def per_class(self) -> dict[Label, float] | None:
        """The error of each class of a marginal problem, else None."""
        if not self.table.problem.is_marginal:
            return None
        cells = cells_of(self.table).one_class_each
        values = error_of(cells, np.ones(1), self.power, self.is_debiased).tolist()
        return dict(zip(self.table.problem.group_names, values, strict=True))

    @cached_property
    def noise_floor(self) -> float:
        """The average score of a perfectly calibrated model with these predictions."""
        if self.clusters is not None:
            return min(MEAN_ROOT * math.sqrt(math.sqrt(self._null_variance())), 1.0)
        cells, kind = cells_of(self.table), self.table.problem.kind
        return noise_floor(cells, self.class_weights, self.power, self.is_debiased, kind)

    def __getstate__(self) -> dict[str, Any]:
        self.settle()
        return super().__getstate__()

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        method: Method = "auto",
        rng: np.random.Generator | int | None = None,
        *,
        n_resamples: int = 1000,
        target: Target = "population",
    ) -> ConfidenceInterval:
        """Return an interval for the calibration error in these bins.

        Parameters
        ----------
        confidence_level : float
            A fraction, such as 0.95.
        method : {"auto", "score", "normal", "box", "percentile", "basic"}
            "auto" is "score" for l2, "normal" for l1 and "box" for other norms; see
            `calibrant.stats.intervals`. The bootstrap methods "percentile" and "basic" are
            there to compare with published numbers: they do not cover near calibration.
        rng : numpy Generator or int, optional
            Source of the bootstrap's random numbers.
        n_resamples : int
            How many tables the bootstrap draws.
        target : {"population", "sample"}
            The error under the true bin masses, or under those of this sample ("score" and "box";
            the largest error has no masses).

        Returns
        -------
        ConfidenceInterval
            It holds the estimate. A plug-in estimate of the l2 error (``debias=False``) lies too
            high by what chance adds, and can lie above every error that the rows leave plausible.
            The interval is about the true error; it is then extended to reach the estimate,
            which keeps its coverage, and ``str(result)`` says so. Bootstrap limits are left as
            published: they need not hold the estimate. Its ``notes`` say where the condition
            fails under which the closed forms were found to cover (ten rows a bin, and ten rows
            that carry the spread; docs/coverage.md), and where classes had to be taken as
            dependent as can be, because only a table was there.
        """
        if self.unresolved_mass > UNRESOLVED_LIMIT:
            warnings.warn(
                f"{self.unresolved_mass:.0%} of the rows sit alone in their bin, where error and "
                "chance cannot be told apart: the interval does not speak for them. Use fewer "
                "bins or more rows.",
                UnresolvedWarning,
                stacklevel=2,
            )
        return self._interval(confidence_level, method, rng, n_resamples, target)

    def _interval(
        self,
        confidence_level: float = 0.95,
        method: Method = "auto",
        rng: np.random.Generator | int | None = None,
        n_resamples: int = 1000,
        target: Target = "population",
    ) -> ConfidenceInterval:
        """Return the interval without a warning, for text that says the same."""
        check_level(confidence_level)
        check_word("method", method, get_args(Method))
        check_word("target", target, get_args(Target))
        default: Method = "score" if self.power == 2 else "normal" if self.power == 1 else "box"
        method = default if method == "auto" else method
        if self.clusters is not None and method != "score":
            raise NoSuchEstimatorError(
                f'method="{method}" takes rows as independent; these come in clusters. Use '
                'method="auto".'
            )
        if method in ("score", "normal") and method != default:
            raise NoSuchEstimatorError(
                f'method="{method}" exists for norm="{"l2" if method == "score" else "l1"}"; this '
                f'error is {self.norm}. Use method="auto".'
            )
        if method in ("percentile", "basic"):
            resample = None if self.source is None else self.source.resample
            values = bootstrap_values(
                self.table,
                lambda cells: error_of(cells, self.class_weights, self.power, self.is_debiased),
                n_resamples,
                generator("rng", rng),
                resample,
            )
            low, high = bootstrap_interval(values, self.value, confidence_level, method)
            return ConfidenceInterval(low, high, confidence_level, method)
        low, high = map(float, self._limits(confidence_level, method, target))
        low, high = min(low, self.value), max(high, self.value)
        notes: tuple[str, ...] = ()
        if method in ("score", "normal"):
            clustered, sums = self.clusters is not None, self._influence_sums
            notes = notes_of(self.table, self.class_weights, self.power, sums, clustered)
        if self.clusters is not None and self.clusters.per_cell < FEW_CLUSTERS:
            notes += (f"few clusters: about {self.clusters.per_cell:.0f} in a bin",)
        return ConfidenceInterval(low, high, confidence_level, method, notes)

    def _limits(
        self, confidence_level: float, method: Method, target: Target
    ) -> tuple[float, float] | Limits:
        """Return the limits of a method that draws nothing."""
        cells, weights = cells_of(self.table), self.class_weights
        if self.clusters is not None:
            return self.clusters.limits(confidence_level, self._null_variance())
        if method == "box":
            return box_interval(cells, weights, self.power, confidence_level, target)
        sums, given_masses = self._influence_sums, method == "score" and target == "sample"
        spread = None if sums is None else variance_of(sums, given_masses)
        if method == "score":
            return score_interval(cells, weights, confidence_level, target, spread)
        return normal_interval(cells, weights, confidence_level, spread)

    def settle(self) -> None:
        """Read the sums that intervals need from the rows, while these are there."""
        _ = self._influence_sums

    def _null_variance(self) -> float:
        """Return the variance of the squared error of clusters if the model were calibrated."""
        cells = cells_of(self.table)
        independent = float(null_variance(cells, cells.noise) @ self.class_weights**2)
        return independent if self.clusters is None else self.clusters.null_variance(independent)

    @cached_property
    def _influence_sums(self) -> InfluenceSums | None:
        """The sums of `read_influences`, read once."""
        return read_influences(self.table, self.class_weights, self.power, self.source)

    def __str__(self) -> str:
        interval = self._interval()
        lines = [
            f"{self.table.problem.kind} {self.norm} = {self.value:.4f} {interval}",
            *self._notes(interval),
            f"{describe_bins(self.table)}, n = {self.n:,}{self._in_clusters()}",
            f"a perfect model would score {self.noise_floor:.4f}",
        ]
        return "\n  ".join(lines)

    def _summary(self) -> str:
        bound = ", a lower bound" * self.is_lower_bound
        value = f"{self.table.problem.kind} {self.norm} = {self.value:.4f}{bound}"
        return f"{value}, {describe_bins(self.table)}, n = {self.n:,}{self._in_clusters()}"

    def _in_clusters(self) -> str:
        return "" if self.clusters is None else f" in {self.clusters.n_clusters:,} clusters"

    def _facts(self) -> Iterator[tuple[str, str]]:
        interval = self._interval()
        level = f"{100 * interval.confidence_level:g}% interval"
        yield f"{self.table.problem.kind} {self.norm} error", f"{self.value:.4f}"
        yield level, f"{interval.low:.4f} to {interval.high:.4f}"
        yield "perfect model", f"{self.noise_floor:.4f}"
        yield "rows", f"{self.n:,} in {describe_bins(self.table)}"
        if notes := self._notes(interval):
            yield "note", "; ".join(notes)

    def _picture(self) -> str:
        from calibrant.stats.curves import diagram_of  # a millisecond, for notebooks only

        return diagram_of(self.table)

    def _notes(self, interval: ConfidenceInterval) -> list[str]:
        """Return the notes to print beside the number."""
        notes = list(interval.notes)
        if not self.is_debiased and self.power == 2 and interval.high <= self.value < 1:
            notes.insert(0, "the interval ends at the plug-in estimate, which chance inflates")
        if not self.table.is_binned_model:
            notes.append("lower bound: bins mix different predictions")
        elif self.is_lower_bound:
            notes.append("lower bound: some rows are alone in their bin")
        if self.unresolved_mass > 0:
            notes.append(f"{100 * self.unresolved_mass:.3g}% of the rows alone in their bin")
        return notes

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Return plain values that JSON can hold, the interval included, the table not."""
        interval = self._interval(confidence_level)
        per_class = self.per_class
        facts = {
            "kind": self.table.problem.kind,
            "norm": self.norm,
            "value": self.value,
            "squared": self.squared,
            "is_debiased": self.is_debiased,
            "is_lower_bound": self.is_lower_bound,
            "confidence_interval": [interval.low, interval.high],
            "confidence_level": confidence_level,
            "interval_method": interval.method,
            "interval_notes": list(interval.notes),
            "noise_floor": self.noise_floor,
            "unresolved_mass": self.unresolved_mass,
            "n": self.n,
            "bins": describe_bins(self.table),
            "per_class": per_class and {str(name): value for name, value in per_class.items()},
        }
        if self.clusters is not None:
            facts["n_clusters"] = self.clusters.n_clusters
        return dict(plain(facts))
