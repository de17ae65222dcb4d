"""Certificates: statements on a calibration error that hold at any sample size, with a verdict.

A certificate says "with probability at least 95%, the error is at most u", and by itself
"... at least l". A verdict against a tolerance can be wrong in one way only, whatever the truth,
so each bound has the whole error probability.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._version import __version__
from calibrant.bins import auto_n_bins
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidWeightsError,
    NoSuchEstimatorError,
)
from calibrant.stats.bounds import (
    SMALLEST,
    Evidence,
    Setting,
    Target,
    lower_bound,
    lower_bound_l1,
    upper_bound,
)
from calibrant.stats.bounds_l1 import one_line_upper_bound_l1, upper_bound_l1
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    cells_of,
    class_weights,
    norm_name,
    power_of,
    raw_error,
)
from calibrant.stats.intervals import box_interval, check_level, clopper_pearson
from calibrant.stats.verdicts import MinBinMass, Verdict, advice, assumptions_of, judge
from calibrant.table import BinTable

FORMAT = "calibrant.certificate"
VERSION = 1
_LEARNING_SHARE = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """What a table proves about a calibration error.

    Attributes
    ----------
    verdict : {"certified", "refuted", "undecided"} or None
        None without `max_error`.
    reason : str
        The verdict in words.
    upper_bound : float
        The error is at most this, with probability at least `confidence_level`; 1.0 if nothing
        can be said, as for outputs that are not finitely many.
    lower_bound : float
        The error is at least this, with probability at least `confidence_level`.
    confidence_level, max_error, norm, target, min_bin_mass
        As they were given.
    method : str
        The theorem that was used.
    assumptions : list of str
        What must be true for the statement to hold.
    table : BinTable
        The evidence; `recheck` computes everything again from it.
    """

    verdict: Verdict | None
    reason: str
    upper_bound: float
    lower_bound: float
    confidence_level: float
    max_error: float | None
    norm: str
    target: Target
    min_bin_mass: MinBinMass
    method: str
    assumptions: list[str]
    table: BinTable
    class_weights: list[float]
    version: str = __version__

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.table.n

    def __str__(self) -> str:
        head = f"{self.verdict}: " if self.verdict else ""
        return f"{head}{self.reason}"

    def __repr__(self) -> str:
        return f"<Certificate: {self}>"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, the table included."""
        fields = {name: value for name, value in vars(self).items() if name != "table"}
        document = {"format": FORMAT, "schema": VERSION, **fields, "n": self.n}
        return document | {"table": self.table.to_dict()}

    def to_json(self) -> str:
        """Return the certificate as a document that anybody can check again."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read a certificate; what it claims is believed only by `recheck`."""
        try:
            document = json.loads(text)
        except ValueError as error:
            raise InvalidDocumentError(f"A certificate must be valid JSON: {error}.") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InvalidDocumentError(f'A certificate must say "format": "{FORMAT}".')
        if document.get("schema") != VERSION:
            raise InvalidDocumentError(
                f"This calibrant reads certificates of schema {VERSION}; the document has "
                f"{document.get('schema')!r}."
            )
        table = BinTable.from_dict(document.get("table"))
        names = [name for name in cls.__dataclass_fields__ if name != "table"]
        missing = [name for name in names if name not in document]
        if missing:
            raise InvalidDocumentError(f"This certificate has no {missing[0]!r}.")
        return cls(**{name: document[name] for name in names}, table=table)

    def recheck(self) -> Recheck:
        """Compute the certificate again from its own table and compare."""
        try:
            again = certify(
                self.table,
                max_error=self.max_error,
                norm=self.norm,
                confidence_level=self.confidence_level,
                target=self.target,
                min_bin_mass=self.min_bin_mass,
                class_weight=self.class_weights if self.table.n_groups > 1 else None,
            )
        except (TypeError, ValueError) as error:
            return Recheck(False, (f"it cannot be computed: {error}",), None)
        differences = [
            f"{name} is {getattr(self, name)!r} in the document and {getattr(again, name)!r} "
            "from its table"
            for name in ("verdict", "upper_bound", "lower_bound", "method", "assumptions")
            if not _agree(getattr(self, name), getattr(again, name))
        ]
        return Recheck(not differences, tuple(differences), again)


@dataclass(frozen=True)
class Recheck:
    """Whether a certificate agrees with its own table: truth value, and what differs."""

    agrees: bool
    differences: tuple[str, ...]
    certificate: Certificate | None

    def __bool__(self) -> bool:
        return self.agrees

    def __str__(self) -> str:
        if self.agrees:
            return "agrees: the table proves what the certificate says"
        return "does NOT agree: " + "; ".join(self.differences)


def certify(
    table: BinTable,
    *,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    target: Target = "population",
    min_bin_mass: MinBinMass = None,
    class_weight: ClassWeight = None,
) -> Certificate:
    """Certify, refute, or leave undecided that a calibration error is at most `max_error`.

    The parameters are those of `calibrant.certify`.
    """
    power, weights = power_of(norm), class_weights(class_weight, table.problem)
    _check(table, max_error, power, confidence_level, target, min_bin_mass)
    delta = 1 - confidence_level
    if not table.is_binned_model:
        target = _target_of_mixed(table, target)
    upper, lower, method = _bounds(table, weights, power, delta, target, min_bin_mass)
    verdict, reason = judge(table, upper, lower, confidence_level, max_error)
    plannable = power == 2 and table.is_binned_model and upper > SMALLEST
    if verdict == "undecided" and max_error and plannable:
        squared = float(raw_error(cells_of(table), weights, 2.0, debiased=True))
        reason += advice(table, squared, max_error, confidence_level)
    return Certificate(
        verdict=verdict,
        reason=reason,
        upper_bound=upper,
        lower_bound=lower,
        confidence_level=confidence_level,
        max_error=max_error,
        norm=norm_name(power),
        target=target,
        min_bin_mass=min_bin_mass,
        method=method,
        assumptions=assumptions_of(table, power, target, min_bin_mass),
        table=table,
        class_weights=weights.tolist(),
    )


def one_line_ece_bound(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    target: Target = "population",
    class_weight: ClassWeight = None,
) -> float:
    """Bound the ECE of a binned model in one line: plug-in error plus a radius.

    ``ECE + sqrt(log(1 / delta) / (2 n))`` for the sample, ``+ sqrt(2 log(1 / delta) / n)`` for the
    population (McDiarmid's inequality, and Jensen's for the bias). Nothing is tuned, and anybody
    can check it by hand; ``certify(norm="l1")`` is about twice as tight.

    Examples
    --------
    >>> from calibrant import Distinct, tabulate
    >>> table = tabulate([0, 1] * 500, [0.5] * 1000, bins=Distinct())
    >>> round(one_line_ece_bound(table, target="sample"), 4)
    0.0387
    """
    weights = class_weights(class_weight, table.problem)
    _check(table, None, 1.0, confidence_level, target, None)
    if not table.is_binned_model:
        raise NoSuchEstimatorError(
            "Bins of this table mix different predictions: no upper bound exists. Count each "
            "distinct output in its own bin, bins=Distinct()."
        )
    setting = Setting(target, 1 - confidence_level)
    return one_line_upper_bound_l1(evidence_of(table, weights), setting)


def evidence_of(table: BinTable, weights: np.ndarray[Any, Any]) -> Evidence:
    """Return the occupied bins of the classes that count."""
    used = (table.count > 0) & (weights > 0)[:, None]
    cells = cells_of(table)
    width = np.zeros(table.count.shape)
    for group, bins in enumerate(table.bins):
        width[group, : len(bins)] = np.diff(bins.edges)
    fixed = np.array([bins.origin == "fixed" for bins in table.bins])[:, None]
    mixed = np.where(fixed, (1 + width) ** 2 / 4, np.full(width.shape, 0.25))
    spread = np.full(mixed.shape, np.nan) if table.is_binned_model else mixed
    group_weight = np.broadcast_to(weights[:, None], used.shape)
    return Evidence(
        n=table.n,
        size=table.count[used],
        rate=cells.rate[used],
        s=np.where(np.isnan(table.level), cells.mean, table.level)[used],
        weight=group_weight[used],
        spread=spread[used],
        n_planned=max(map(len, table.bins)) if fixed.all() else auto_n_bins(table.n),
        largest_spread=float(mixed.max()) if not table.is_binned_model else 0.25,
    )


def _check(
    table: BinTable,
    max_error: float | None,
    power: float,
    confidence_level: float,
    target: str,
    min_bin_mass: MinBinMass,
) -> None:
    check_level(confidence_level)
    if max_error is not None and not 0 < max_error < 1:
        raise InvalidArgumentError(
            f"max_error must lie between 0 and 1; got {max_error!r}. Write 0.02 for two points."
        )
    if power not in (1.0, 2.0, math.inf):
        raise NoSuchEstimatorError(
            f'Certificates exist for "l1", "l2" and "max"; got {norm_name(power)}.'
        )
    if target not in ("population", "sample"):
        raise InvalidArgumentError(f'target must be "population" or "sample"; got {target!r}.')
    if target == "sample" and table.n_groups > 1 and table.is_binned_model:
        raise NoSuchEstimatorError(
            'target="sample" is proved for one class at a time; this problem is marginal. Use '
            'target="population", or certify y_true == k with the column of class k.'
        )
    is_mass = isinstance(min_bin_mass, int | float) and 0 < min_bin_mass <= 1
    if not (min_bin_mass is None or min_bin_mass == "learned" or is_mass):
        raise InvalidArgumentError(
            f'min_bin_mass must be None, "learned" or a share of the rows in (0, 1]; '
            f"got {min_bin_mass!r}."
        )
    if table.is_weighted:
        raise InvalidWeightsError(
            "A certificate counts independent rows; this table has sample weights. Leave them "
            "out, or draw rows with probabilities in proportion to the weights."
        )


def _target_of_mixed(table: BinTable, target: Target) -> Target:
    return target if all(bins.origin == "fixed" for bins in table.bins) else "sample"


def _bounds(
    table: BinTable,
    weights: np.ndarray[Any, Any],
    power: float,
    delta: float,
    target: Target,
    min_bin_mass: MinBinMass,
) -> tuple[float, float, str]:
    evidence = evidence_of(table, weights)
    if math.isinf(power):
        low, high = box_interval(cells_of(table), weights, power, 1 - delta)
        upper = float(high) if table.is_binned_model else 1.0
        return upper, float(low) if table.is_binned_model else 0.0, "Clopper-Pearson with Sidak"
    mass, used = _least_mass(table, min_bin_mass, target, delta)
    setting = Setting(target, delta - used, mass)
    if power == 1:
        lower = lower_bound_l1(evidence, setting)
        upper = upper_bound_l1(evidence, setting) if table.is_binned_model else 1.0
        return upper, lower, "exponential moments of the absolute error"
    lower = lower_bound(evidence, setting)
    upper = upper_bound(evidence, setting) if table.is_binned_model else 1.0
    return upper, lower, "exponential moments of the squared error"


def _least_mass(
    table: BinTable, min_bin_mass: MinBinMass, target: Target, delta: float
) -> tuple[float, float]:
    """Return a lower bound of all bin masses, and the error probability spent on learning it."""
    if min_bin_mass is None or target == "sample":
        return 0.0, 0.0
    if min_bin_mass != "learned":
        return float(min_bin_mass), 0.0
    n_bins = sum(len(bins) for bins in table.bins)
    share = _LEARNING_SHARE * delta
    low, _ = clopper_pearson(table.count, np.full(table.count.shape, table.n), 2 * share / n_bins)
    real = np.array([[j < len(b) for j in range(table.count.shape[1])] for b in table.bins])
    return float(low[real].min()), share


def _agree(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return bool(a == b)
