"""Results of groups: one for each table of `Tables`, computed on access, the worst first."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from calibrant._results import Result, text_table
from calibrant._types import FloatArray, IntArray
from calibrant.groups import LINES, GroupKey, key_of, more_groups, shown_key
from calibrant.stats.certificates import Certificate, certify
from calibrant.stats.clusters import ClusterSums
from calibrant.stats.curves import ReliabilityCurve, reliability_curve
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    cells_of,
    class_weights,
    error_from_raw,
    error_of,
    is_debiased,
    power_of,
)
from calibrant.stats.quantile_coverage import CoverageCertificate, certify_coverage
from calibrant.stats.results import CalibrationErrorResult, calibration_error
from calibrant.stats.selective import SelectiveCurve, selective_curve
from calibrant.stats.verdicts import Verdict, overall, shown_bounds
from calibrant.tables import Tables

R = TypeVar(
    "R",
    bound=CalibrationErrorResult
    | ReliabilityCurve
    | Certificate
    | SelectiveCurve
    | CoverageCertificate,
)


@dataclass(frozen=True, eq=False, repr=False)
class GroupResults(Result, Mapping[GroupKey, R], Generic[R]):
    """A frozen mapping from the key of a group to its result, computed on access.

    It prints as a table, the worst group first.

    Attributes
    ----------
    tables : Tables
        The sums of each group.
    measure : callable
        Computes the result of one table.
    """

    _head: ClassVar[tuple[str, ...]] = ()

    tables: Tables
    measure: Callable[..., R]

    def __getitem__(self, key: GroupKey) -> R:
        return self.measure(self.tables[key])

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def worst(self) -> list[GroupKey]:
        """The keys of all groups, the worst first."""
        return [key_of(self.tables.labels[place]) for place in self.places().tolist()]

    def places(self) -> IntArray:
        """Return the places of all groups, the worst first."""
        return np.lexsort([-np.asarray(badness) for badness in reversed(self._badness())])

    @abstractmethod
    def _badness(self) -> tuple[ArrayLike, ...]:
        """Return the measures by which groups are ordered, the weightiest first."""

    @abstractmethod
    def _row(self, result: R, confidence_level: float) -> tuple[str, ...]:
        """Return the printed cells of one group, below `_head`."""

    def _at(self, place: int) -> R:
        return self.measure(self.tables.at(place))

    def __str__(self) -> str:
        return self.describe()

    def describe(self, confidence_level: float = 0.95) -> str:
        """Return the worst groups as a table; the level is that of intervals, if it has any."""
        rows = [(self.tables.described_by, "rows", *self._head)]
        for place in self.places()[:LINES].tolist():
            group = shown_key(self.tables.labels[place]), f"{self.tables.sizes[place]:,}"
            rows.append((*group, *self._row(self._at(place), confidence_level)))
        return "\n".join([*text_table(rows[0], rows[1:]), *more_groups(len(self) - LINES)])

    def _summary(self) -> str:
        return f"{len(self):,} groups by {self.tables.described_by}, n = {self.tables.n:,}"

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return plain values that JSON can hold: one entry for each group, the worst first.

        The options are those of the results' own `to_dict`.
        """
        labels = self.tables.labels
        groups = [
            {"group": list(labels[place]), **self._at(place).to_dict(**options)}
            for place in self.places().tolist()
        ]
        return {"by": list(self.tables.names), "groups": groups}


@dataclass(frozen=True, eq=False, repr=False)
class GroupErrors(GroupResults[CalibrationErrorResult]):
    """The calibration error of each group: a mapping from its key to `CalibrationErrorResult`.

    Groups are ordered by it. Intervals are those of each group by itself: of twenty 95% intervals
    one misses on average. For statements on all groups at once see `calibrant.audit`.

    Attributes
    ----------
    tables, measure
        As in `GroupResults`.
    norm, debias, class_weight
        As in `calibrant.calibration_error`.
    clusters : tuple of ClusterSums or None
        Of each group, where rows come in clusters.
    """

    _head: ClassVar = ("error", "interval", "perfect model")

    norm: Norm = "l2"
    debias: bool | None = None
    class_weight: ClassWeight = None
    clusters: tuple[ClusterSums, ...] | None = None

    def __getitem__(self, key: GroupKey) -> CalibrationErrorResult:
        return self._at(self.tables.place(key))

    def _at(self, place: int) -> CalibrationErrorResult:
        sums = None if self.clusters is None else self.clusters[place]
        return self.measure(self.tables.at(place), clusters=sums)

    @property
    def estimates(self) -> FloatArray:
        """The errors of all groups, in the order of the keys, without a result for each."""
        if self.clusters is not None:
            return error_from_raw(np.array([sums.squared for sums in self.clusters]), 2.0)
        power = power_of(self.norm)
        weights = class_weights(self.class_weight, self.tables.problem)
        return error_of(cells_of(self.tables), weights, power, is_debiased(power, self.debias))

    def _badness(self) -> tuple[ArrayLike, ...]:
        return self.estimates, self.tables.sizes

    def _row(self, result: CalibrationErrorResult, confidence_level: float) -> tuple[str, ...]:
        interval = result._interval(confidence_level)
        limits = f"[{interval.low:.4f}, {interval.high:.4f}]"
        return f"{result.value:.4f}", limits, f"{result.noise_floor:.4f}"


@dataclass(frozen=True, eq=False, repr=False)
class GroupCertificates(GroupResults[Certificate]):
    """The certificate of each group: a mapping from its key to `Certificate`.

    Groups are ordered by their lower bounds. Each statement has its confidence by itself;
    `calibrant.audit` gives those that hold for all groups at once.

    Attributes
    ----------
    tables, measure
        As in `GroupResults`.
    """

    _head: ClassVar = ("verdict", "at least", "at most")

    @property
    def verdict(self) -> Verdict | None:
        """The worst of all: refuted if any group is, certified if all are; None without a limit."""
        return overall(certificate.verdict for certificate in self._certificates)

    @cached_property
    def _certificates(self) -> list[Certificate]:
        return [self.measure(self.tables.at(place)) for place in range(len(self))]

    def _at(self, place: int) -> Certificate:
        return self._certificates[place]

    def _badness(self) -> tuple[ArrayLike, ...]:
        lower = [certificate.lower_bound for certificate in self._certificates]
        return lower, [certificate.upper_bound for certificate in self._certificates]

    def _row(self, result: Certificate, confidence_level: float) -> tuple[str, ...]:
        bounds = (result.lower_bound, result.upper_bound, result.agrees_too_well)
        return result.verdict or "-", *shown_bounds(*bounds)


@dataclass(frozen=True, eq=False, repr=False)
class GroupCurves(GroupResults[ReliabilityCurve]):
    """The reliability curve of each group: a mapping from its key to `ReliabilityCurve`.

    Groups are ordered by their debiased l2 error.

    Attributes
    ----------
    tables, measure
        As in `GroupResults`.
    """

    _head: ClassVar = ("bins", "bins whose interval misses the prediction")

    def _badness(self) -> tuple[ArrayLike, ...]:
        weights = class_weights(None, self.tables.problem)
        return error_of(cells_of(self.tables), weights, 2.0, True), self.tables.sizes

    def _row(self, result: ReliabilityCurve, confidence_level: float) -> tuple[str, ...]:
        predicted = result.mean_prediction
        missed = int(((predicted < result.low) | (predicted > result.high)).sum())
        return f"{len(result):,}", f"{missed:,}"


@dataclass(frozen=True, eq=False, repr=False)
class GroupSelectiveCurves(GroupResults[SelectiveCurve]):
    """The selective curve of each group: a mapping from its key to `SelectiveCurve`.

    Groups are ordered by their AURC.

    Attributes
    ----------
    tables, measure
        As in `GroupResults`.
    """

    _head: ClassVar = ("right", "AURC", "interval")

    def _badness(self) -> tuple[ArrayLike, ...]:
        return [self._at(place).aurc for place in range(len(self))], self.tables.sizes

    def _row(self, result: SelectiveCurve, confidence_level: float) -> tuple[str, ...]:
        low, high = result.aurc_interval
        return f"{result.accuracy[0]:.1%}", f"{result.aurc:.4f}", f"[{low:.4f}, {high:.4f}]"


@dataclass(frozen=True, eq=False, repr=False)
class GroupCoverage(GroupResults[CoverageCertificate]):
    """The coverage of each group: a mapping from its key to `CoverageCertificate`.

    Limits hold for all levels, intervals and groups at once, unless each was asked for by itself.
    Groups are ordered by how far a level lies beyond its limits.

    Attributes
    ----------
    tables, measure
        As in `GroupResults`.
    """

    _head: ClassVar = ("farthest level", "covered", "limits", "beyond limits")

    def _badness(self) -> tuple[ArrayLike, ...]:
        results = [self._at(place) for place in range(len(self))]
        off = [np.abs(result.covered - result.level).max() for result in results]
        return [result.miss.max() for result in results], off

    def _row(self, result: CoverageCertificate, confidence_level: float) -> tuple[str, ...]:
        # by the miss where there is one, by the distance elsewhere, which is below 1
        far = int(np.argmax(result.miss + 1e-9 * np.abs(result.covered - result.level)))
        limits = f"[{result.low[far]:.4f}, {result.high[far]:.4f}]"
        beyond = f"{int((result.miss > 0).sum()):,} of {result.level.size:,}"
        return f"{result.level[far]:g}", f"{result.covered[far]:.4f}", limits, beyond

    def describe(self, confidence_level: float = 0.95) -> str:
        """Return the worst groups as a table; limits have the level that they were asked for."""
        return f"{super().describe(confidence_level)}\n{self._at(0)._scope()}"


def group_errors(
    tables: Tables,
    *,
    norm: Norm = "l2",
    debias: bool | None = None,
    class_weight: ClassWeight = None,
    clusters: tuple[ClusterSums, ...] | None = None,
) -> GroupErrors:
    """Measure the calibration error of each group; see `calibrant.calibration_error`.

    `clusters` are the sums of clusters of each group, where rows come in such.
    """
    is_debiased(power_of(norm), debias)
    class_weights(class_weight, tables.problem)
    if clusters is not None:  # refuses other norms now, not when one is printed
        calibration_error(tables.at(0), norm=norm, debias=debias, clusters=clusters[0])
    measure = partial(calibration_error, norm=norm, debias=debias, class_weight=class_weight)
    return GroupErrors(tables, measure, norm, debias, class_weight, clusters)


def group_curves(tables: Tables, **options: Any) -> GroupCurves:
    """Return the curve of each group; options as in `calibrant.stats.reliability_curve`."""
    reliability_curve(tables.at(0), **options)  # refuses wrong options now, not when one is printed
    return GroupCurves(tables, partial(reliability_curve, **options))


def group_certificates(tables: Tables, **options: Any) -> GroupCertificates:
    """Certify each group by itself; the options are those of `calibrant.stats.certify`."""
    certify(tables.at(0), **options)  # refuses wrong options now, not when one is printed
    return GroupCertificates(tables, partial(certify, **options))


def group_selective_curves(tables: Tables, **options: Any) -> GroupSelectiveCurves:
    """Return the curve of each group; options as in `calibrant.stats.selective_curve`."""
    selective_curve(tables.at(0), **options)  # refuses wrong options now
    return GroupSelectiveCurves(tables, partial(selective_curve, **options))


def group_coverage(tables: Tables, **options: Any) -> GroupCoverage:
    """Bound the coverage of each group; options as in `calibrant.stats.certify_coverage`."""
    options |= {"n_groups": len(tables)}
    certify_coverage(tables.at(0), **options)  # refuses wrong options now
    return GroupCoverage(tables, partial(certify_coverage, **options))
