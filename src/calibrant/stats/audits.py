"""Audits: what is proved of every group at once, and whether groups differ.

**Bounds.** The bounds of G groups have an error probability of delta / G each (Bonferroni), so with
probability 1 - delta no verdict is wrong: whatever the truth, only one of the two bounds of a group
can mislead. Nothing is assumed of how groups depend on each other.

**The worst group.** Let g be the group with the largest error: it is unknown, but no accident of
the rows. If each group's bound u has the whole error probability delta, then P(error_g > max u) <=
P(error_g > u_g) <= delta, so the largest of these bounds is one of the worst group's error, and
nothing is split among groups (an intersection-union test, Berger 1982). That is a statement by
itself; the verdicts hold together.

**p-values** ask for perfect calibration. Given the predictions, the number K of events among the N
rows of a bin with mean prediction s is a sum of independent events. The mixture

    F(K) = integral of (r / s)^K ((1 - r) / (1 - s))^(N - K) over r ~ Beta(c s, c (1 - s))

is convex in K, so its mean is largest if all rows have the same probability (Hoeffding 1956), and
then it is 1. Products over bins have means of at most 1, and so have averages over c, over finer
and coarser bins and over classes; 1 over such a number is a p-value at any sample size (Markov).
Holm's method adjusts them: the probability of any false rejection is at most the level.

**Heterogeneity.** If the error is the same in all groups, events of a bin are spread over groups as
if drawn at random. Two statistics see whether they are: squared differences of every group and
bin, and those of every group over all its bins. They are compared with those of redrawn events, and
the smaller p-value is again compared with those of the draws. Where every bin holds one output,
redrawing is permuting, and the p-value is exact; elsewhere events are drawn from predictions plus
the common gap of their bin, which is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant._json import json_text, plain
from calibrant._options import generator
from calibrant._results import Result, filled, rests_on, text_table
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.group_labels import LINES, GroupKey, key_of, more_groups, shown_key
from calibrant.groups import GroupLabel
from calibrant.stats.certificates import Certificate, certify, verified_bounds
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    Target,
    class_weights,
    norm_name,
    power_of,
)
from calibrant.stats.group_results import group_errors
from calibrant.stats.hypothesis_tests import CalibrationTestResult, smallest_pvalue
from calibrant.stats.intervals import check_level
from calibrant.stats.planning import samples_to_certify
from calibrant.stats.questions import Question
from calibrant.stats.verdicts import Verdict, assumptions_of
from calibrant.table import BinTable
from calibrant.tables import Tables

CONCENTRATIONS = (20.0, 200.0, 2000.0)
"""c of the Beta laws: rates that differ from s by about 0.1, 0.03 and 0.01. Affects power only."""
MOST_BINS = 64
"""Bins are also joined to 1, 2, 4, ..., 64 of about as many rows; affects power only."""
MOST_BINS_TO_PLAN = 30
"""Plans of more outputs take longer than the certificate itself."""
DRAWS, FEWEST_DRAWS, MOST_DRAWN, DRAWN_AT_ONCE = 1999, 199, 20_000_000, 2_000_000
"""Sets of events that the test of heterogeneity draws, fewer where there are so many counts in all
that drawing them would take minutes; and counts that are held at a time."""
MOST_PERMUTED = 500_000_000
"""NumPy permutes counts of less than 10^9 in a bin; more are drawn from their rates."""
GROUPS_CHOSEN = (
    "The groups were chosen before the labels were looked at, and all of them are listed."
)
LEVELS_DECLARED = (
    "Groups have no outputs but those that were declared for each; they were known before these "
    "rows."
)
RANK = {"refuted": 0, "undecided": 1, None: 1, "certified": 2}


@dataclass(frozen=True)
class AuditedGroup:
    """What is known of one group.

    Attributes
    ----------
    group : tuple
        Its labels, one of each column; None where the column says nothing.
    n, n_events : int
        Rows and events. Of several classes, events are rows.
    error, low, high : float
        The estimate and its interval, which holds for all groups at once.
    lower_bound, upper_bound : float
        What is proved, for all groups at once.
    verdict : {"certified", "refuted", "undecided"} or None
    pvalue, adjusted_pvalue : float
        Against perfect calibration: of this group alone, and by Holm's method for all of them.
    rows_needed : int or None
        About how many rows would certify a group of so many outputs if it were calibrated; None
        where it is decided, or cannot be planned.
    """

    group: tuple[GroupLabel, ...]
    n: int
    n_events: int
    error: float
    low: float
    high: float
    lower_bound: float
    upper_bound: float
    verdict: Verdict | None
    pvalue: float
    adjusted_pvalue: float
    rows_needed: int | None

    @property
    def is_too_small(self) -> bool:
        """Whether nothing is proved, and a calibrated group of this size would not be certified."""
        small = self.rows_needed is not None and self.n < self.rows_needed
        return small and self.lower_bound == 0


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result, Mapping[GroupKey, Certificate]):
    """What is proved of every group at once: a mapping from the key of a group to its certificate.

    Attributes
    ----------
    groups : tuple of AuditedGroup
        The worst first: refuted ones, then undecided, then certified.
    verdict : {"certified", "refuted", "undecided"} or None
        Refuted if any group is, certified if all are.
    upper_bound : float
        The error of the worst group is at most this, with probability `confidence_level` by itself:
        lower than the largest bound of a group, since nothing is split.
    lower_bound : float
        The error of the worst group is at least this, as proved of one of them.
    heterogeneity : CalibrationTestResult or None
        The test whether the error is the same in all groups; None for one group, and for several
        classes.
    max_error, norm, confidence_level, target
        As they were given; the confidence is that of all verdicts together.
    tables : Tables
    assumptions : list of str
        What must be true for the statements to hold.
    levels : dict
        All outputs of groups, by their keys, where they were declared.
    """

    groups: tuple[AuditedGroup, ...]
    verdict: Verdict | None
    upper_bound: float
    lower_bound: float
    heterogeneity: CalibrationTestResult | None
    max_error: float | None
    norm: str
    confidence_level: float
    target: Target
    tables: Tables
    assumptions: list[str]
    options: dict[str, Any]
    levels: Mapping[GroupKey, FloatArray] = field(default_factory=dict)

    def __getitem__(self, key: GroupKey) -> Certificate:
        drawn = None if self.options["draws"] is None else [0, 0]
        return certify(self.tables[key], **self.options, levels=self.levels.get(key), drawn=drawn)

    def __iter__(self) -> Iterator[GroupKey]:
        return (key_of(group.group) for group in self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def too_small(self) -> tuple[AuditedGroup, ...]:
        """The groups of which nothing can be said for want of rows."""
        return tuple(group for group in self.groups if group.is_too_small)

    def of(self, verdict: Verdict) -> tuple[AuditedGroup, ...]:
        """Return the groups with this verdict."""
        return tuple(group for group in self.groups if group.verdict == verdict)

    def __str__(self) -> str:
        asked = self.max_error is not None
        head = [self.tables.described_by, "rows", *(["verdict"] if asked else [])]
        head += ["error", "interval", "at least", "at most", "p"]
        rows = []
        for x in self.groups[:LINES]:
            says = "too small" if x.is_too_small else x.verdict or ""
            row = [shown_key(x.group), f"{x.n:,}", *([says] if asked else [])]
            row += [f"{x.error:.4f}", f"[{x.low:.4f}, {x.high:.4f}]"]
            row += [f"{x.lower_bound:.4f}", f"{x.upper_bound:.4f}", f"{x.adjusted_pvalue:.2g}"]
            rows.append(row)
        parts = [filled(self._summary()), *text_table(head, rows)]
        parts += [*more_groups(len(self) - LINES), *map(filled, self._findings())]
        return "\n".join([*parts, *rests_on(self.assumptions, self.verdict)])

    def _summary(self) -> str:
        sure = f"with {100 * self.confidence_level:g}% confidence for all groups at once"
        what = f"{len(self):,} group{'s' * (len(self) > 1)} by {self.tables.described_by}"
        if self.max_error is None:
            return f"{what}, n = {self.tables.n:,}: {self.norm} errors {sure}"
        counts = [(len(self.of(x)), x) for x in ("refuted", "undecided", "certified")]
        said = ", ".join(f"{n:,} {x}" for n, x in counts if n)
        return f"{self.verdict}: {said} of {what} at {self.norm} error {self.max_error:g}, {sure}"

    def _findings(self) -> Iterator[str]:
        if self.upper_bound < 1:
            yield (
                f"The worst group's error is at most {self.upper_bound:.4f}, with "
                f"{100 * self.confidence_level:g}% confidence in this alone."
            )
        small = self.too_small
        if small:
            needed = sorted({group.rows_needed or 0 for group in small})
            span = f"{needed[0]:,}" if len(needed) == 1 else f"{needed[0]:,} to {needed[-1]:,}"
            who, each = ("group is", "it") if len(small) == 1 else ("groups are", "each")
            yield (
                f"{len(small):,} {who} too small to be certified, even if calibrated: {each} "
                f"needs about {span} rows."
            )
        if self.heterogeneity is not None:
            p = self.heterogeneity.pvalue
            unlike = p <= 1 - self.confidence_level
            answer = "no" if unlike else "no difference that these rows can show"
            yield f"Is the error the same in all groups? {answer} (p = {p:.2g})."
        yield "p: against perfect calibration, adjusted for all groups by Holm's method."

    def _facts(self) -> Iterator[tuple[str, str]]:
        for group in self.groups[:LINES]:
            says = "too small" if group.is_too_small else group.verdict or ""
            bounds = f"{group.lower_bound:.4f} to {group.upper_bound:.4f}"
            yield shown_key(group.group), f"{group.error:.4f}, {bounds} {says}".strip()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, the worst group first."""
        test = self.heterogeneity
        facts = {
            "verdict": self.verdict,
            "upper_bound": self.upper_bound,
            "lower_bound": self.lower_bound,
            "max_error": self.max_error,
            "norm": self.norm,
            "confidence_level": self.confidence_level,
            "target": self.target,
            "n": self.tables.n,
            "by": list(self.tables.names),
            "heterogeneity": None if test is None else test.to_dict(),
            "groups": [
                {**vars(group), "is_too_small": group.is_too_small} for group in self.groups
            ],
            "assumptions": self.assumptions,
        }
        return dict(plain(facts))

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json_text(self.to_dict())


def audit(
    tables: Tables,
    *,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    target: Target = "population",
    class_weight: ClassWeight = None,
    levels: Mapping[GroupKey, FloatArray] | None = None,
    from_clusters: bool = False,
    independent: bool = True,
    rng: np.random.Generator | int | None = 0,
) -> Audit:
    """Judge every group, all at once; the parameters are those of `calibrant.audit`.

    `levels` are all outputs of groups, by their keys, known before the rows; see `certify`.
    `from_clusters` says that one row of each cluster of a group was drawn, `independent` whether
    rows of different groups are independent.
    """
    check_level(confidence_level)
    if not isinstance(tables, Tables):
        raise InvalidArgumentError(
            f"An audit is of Tables, such as tabulate(..., by=) gives; got {tables!r:.60}."
        )
    share = (1 - confidence_level) / len(tables)
    options: dict[str, Any] = {"max_error": max_error, "norm": norm, "target": target}
    options |= {"class_weight": class_weight, "confidence_level": 1 - share}
    options["draws"] = 1 if from_clusters else None
    errors = group_errors(tables, norm=norm, class_weight=class_weight)
    pvalues = np.exp(np.minimum(-log_e_values(tables, class_weight), 0.0))
    adjusted = holm(pvalues)
    declared = dict(levels or {})
    rows_needed: dict[int, int | None] = {}
    groups: list[AuditedGroup] = []
    for place, (key, labels) in enumerate(zip(tables, tables.labels, strict=True)):
        table = tables.at(place)
        question = Question.of(table, **options, levels=declared.get(key))
        upper, lower, verdict = verified_bounds(table, question)
        error = errors[key]
        interval = error._interval(1 - share)
        needed = None
        if verdict == "undecided" and table.is_binned_model:
            needed = _rows_needed(table, question, rows_needed)
        groups.append(
            AuditedGroup(
                group=labels,
                n=table.n,
                n_events=int(table.sum_y.sum()),
                error=error.value,
                low=interval.low,
                high=interval.high,
                lower_bound=lower,
                upper_bound=upper,
                verdict=verdict,
                pvalue=float(pvalues[place]),
                adjusted_pvalue=float(adjusted[place]),
                rows_needed=needed,
            )
        )
    alone = {**options, "confidence_level": confidence_level}
    worst = _bound_of_the_worst(tables, groups, declared, alone)
    groups.sort(key=lambda x: (RANK[x.verdict], -x.lower_bound, -x.error, -x.n))
    return Audit(
        groups=tuple(groups),
        verdict=overall([group.verdict for group in groups]),
        upper_bound=worst,
        lower_bound=max(group.lower_bound for group in groups),
        heterogeneity=heterogeneity_test(tables, rng) if independent else None,
        max_error=max_error,
        norm=norm_name(power_of(norm)),
        confidence_level=confidence_level,
        target=target,
        tables=tables,
        assumptions=[
            *assumptions_of(table, replace(question, levels=None)),
            *([LEVELS_DECLARED] if declared else []),
            GROUPS_CHOSEN,
        ],
        options=options,
        levels=declared,
    )


def _bound_of_the_worst(
    tables: Tables,
    groups: list[AuditedGroup],
    levels: Mapping[GroupKey, FloatArray],
    options: dict[str, Any],
) -> float:
    """Return the largest of the groups' upper bounds, each with the whole error probability.

    A bound that holds with a share of it holds here too, and is not lower: groups in falling order
    of those are bounded until none that is left can exceed the largest.
    """
    largest = 0.0
    for place in np.argsort([-group.upper_bound for group in groups], kind="stable").tolist():
        known = groups[place].upper_bound
        if known <= largest:
            break
        table = tables.at(place)
        own = known
        if table.is_binned_model:
            known_levels = levels.get(key_of(groups[place].group))
            own = verified_bounds(table, Question.of(table, **options, levels=known_levels))[0]
        largest = max(largest, min(own, known))
    return largest


def overall(verdicts: list[Verdict | None]) -> Verdict | None:
    """Return the verdict on all groups: refuted if any is, certified if all are."""
    if None in verdicts:
        return None
    if "refuted" in verdicts:
        return "refuted"
    return "certified" if set(verdicts) == {"certified"} else "undecided"


def _rows_needed(table: BinTable, question: Question, known: dict[int, int | None]) -> int | None:
    """Return the rows that certify a calibrated group of so many outputs, if that is planned."""
    n_bins = int((table.count > 0).sum(axis=1).max())
    if n_bins not in known:
        planned = question.power in (1.0, 2.0) and table.n_groups == 1
        known[n_bins] = None
        if planned and n_bins <= MOST_BINS_TO_PLAN and question.max_error is not None:
            known[n_bins] = samples_to_certify(
                question.max_error, n_bins, confidence_level=question.confidence_level
            )
    return known[n_bins]


def holm(pvalues: FloatArray) -> FloatArray:
    """Adjust p-values by Holm's method: reject those at most a, and any is false with at most a.

    Examples
    --------
    >>> holm(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.04])
    """
    order = np.argsort(pvalues, kind="stable")
    scaled = pvalues[order] * np.arange(pvalues.size, 0, -1)
    adjusted = np.empty_like(pvalues)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def log_e_values(tables: Tables, class_weight: ClassWeight = None) -> FloatArray:
    """Return the logarithm of the evidence against perfect calibration, of each group."""
    weights = class_weights(class_weight, tables.problem)
    found = np.full((len(tables), weights.size), -np.inf)
    for place in range(len(tables)):
        for k in np.flatnonzero(weights):
            used = tables.count[place, k] > 0
            sums = (getattr(tables, name)[place, k][used] for name in ("count", "sum_y", "sum_p"))
            found[place, k] = _log_evidence(*sums)
    return np.asarray(special.logsumexp(found, axis=1, b=weights))


def _log_evidence(size: FloatArray, events: FloatArray, said: FloatArray) -> float:
    """Average the mixtures over concentrations and over finer and coarser bins."""
    middle = np.cumsum(size) - size / 2
    finest = min(MOST_BINS, 1 << math.ceil(math.log2(size.size)))
    logs = []
    for n_bins in (1 << k for k in range(finest.bit_length())):
        part = np.minimum((middle * n_bins / size.sum()).astype(np.intp), n_bins - 1)
        joined = [np.asarray(np.bincount(part, x, n_bins), float) for x in (size, events, said)]
        n, y, p = (x[joined[0] > 0] for x in joined)
        logs += [_log_mixture(n, y, np.clip(p / n, 0.0, 1.0), c) for c in CONCENTRATIONS]
    return float(special.logsumexp(logs) - math.log(len(logs)))


def _log_mixture(n: FloatArray, y: FloatArray, s: FloatArray, c: float) -> float:
    """Return the sum over bins of log F; infinite if what had no probability has happened."""
    if np.any((y > 0) & (s == 0)) or np.any((y < n) & (s == 1)):
        return math.inf
    inside = (s > 0) & (s < 1)
    n, y, s = n[inside], y[inside], s[inside]
    ratio = special.betaln(c * s + y, c * (1 - s) + n - y) - special.betaln(c * s, c * (1 - s))
    return float(np.sum(ratio - y * np.log(s) - (n - y) * np.log1p(-s)))


def heterogeneity_test(
    tables: Tables, rng: np.random.Generator | int | None = None
) -> CalibrationTestResult | None:
    """Test whether the error is the same in all groups; see the top of this module.

    Parameters
    ----------
    tables : Tables
        Of groups that share their bins.
    rng : numpy Generator or int, optional
        Draws events again, by permuting those of a bin where it holds one output.

    Returns
    -------
    CalibrationTestResult or None
        None for one group, for several classes, with weights, and where bins are not shared.
    """
    several_classes = tables.problem.n_groups > 1
    if len(tables) < 2 or several_classes or tables.is_weighted or not tables.shares_bins:
        return None
    random, pooled = generator("rng", rng), tables.pooled()
    shared = np.flatnonzero((tables.count[:, 0] > 0).sum(axis=0) > 1)
    size, events, said = (
        getattr(tables, name)[:, 0, shared] for name in ("count", "sum_y", "sum_p")
    )
    if shared.size == 0:
        return None
    n_draws = int(np.clip(MOST_DRAWN // size.size, FEWEST_DRAWS, DRAWS))
    rate = np.clip(said / np.maximum(size, 1) + _gap(size, events, said), 0.0, 1.0)
    exact = pooled.is_binned_model and size.sum(axis=0).max() <= MOST_PERMUTED
    lines, step = [_differences(events, size, said, rate)], max(1, DRAWN_AT_ONCE // size.size)
    for start in range(0, n_draws, step):
        shape = (min(step, n_draws - start), *size.shape)
        drawn = (
            _permuted(size, events, shape, random)
            if exact
            else random.binomial(size.astype(np.int64), rate, shape)
        )
        lines.append(_differences(drawn.astype(np.float64), size, said, rate))
    found = smallest_pvalue(np.concatenate(lines), tables.n)
    method = "heterogeneity, permuted" if exact else "heterogeneity, redrawn"
    return CalibrationTestResult(found.statistic, found.pvalue, method, tables.n)


def _gap(size: FloatArray, events: FloatArray, said: FloatArray) -> FloatArray:
    """Return the common gap of each bin, of shape (..., 1, bins)."""
    off = events.sum(axis=-2, keepdims=True) - said.sum(axis=0)
    return np.asarray(off / size.sum(axis=0))


def _differences(
    events: FloatArray, size: FloatArray, said: FloatArray, rate: FloatArray
) -> FloatArray:
    """Return how far groups are from the common gaps: in every bin, and over all bins."""
    off = events - said - size * _gap(size, events, said)
    variance = size * rate * (1 - rate)
    whole = variance.sum(axis=1)
    by_bin = np.divide(off**2, variance, out=np.zeros_like(off), where=variance > 0)
    total = off.sum(axis=-1)
    by_group = np.divide(total**2, whole, out=np.zeros_like(total), where=whole > 0)
    return np.atleast_2d(np.stack([by_bin.sum(axis=(-2, -1)), by_group.sum(axis=-1)], axis=-1))


def _permuted(
    size: FloatArray, events: FloatArray, shape: tuple[int, ...], random: np.random.Generator
) -> IntArray:
    """Spread the events of each bin over its rows at random."""
    counts, totals = size.astype(np.int64), events.sum(axis=0).astype(np.int64)
    columns = [
        random.multivariate_hypergeometric(own, total, shape[0], method="marginals")
        for own, total in zip(counts.T, totals.tolist(), strict=True)
    ]
    return np.stack(columns, axis=-1)
