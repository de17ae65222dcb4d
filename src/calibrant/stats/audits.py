"""Audits: what is proved of every group at once, and whether groups differ.

**Bounds.** The bounds of G groups have an error probability of delta / G each (Bonferroni), so with
probability 1 - delta no verdict is wrong: whatever the truth, only one of the two bounds of a group
can mislead. Nothing is assumed of how groups depend on each other.

**The worst group.** Let g be the group with the largest error: it is unknown, but no accident of
the rows. If each group's bound u has the whole error probability delta, then P(error_g > max u) <=
P(error_g > u_g) <= delta, so the largest of these bounds is one of the worst group's error, and
nothing is split among groups (an intersection-union test, Berger 1982). That is a statement by
itself; the verdicts hold together.

Tests of groups, by p-values and against each other, are in `calibrant.stats.group_tests`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibrant._json import plain
from calibrant._results import Result, filled, rests_on, text_table
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.groups import LINES, GroupKey, GroupLabel, key_of, more_groups, shown_key
from calibrant.stats.certificates import Certificate, certify, verified_bounds
from calibrant.stats.estimators import ClassWeight, Norm, Target, norm_name, power_of
from calibrant.stats.group_results import group_errors
from calibrant.stats.group_tests import heterogeneity_test, holm, log_e_values
from calibrant.stats.hypothesis_tests import CalibrationTestResult
from calibrant.stats.intervals import check_level
from calibrant.stats.planning import samples_to_certify
from calibrant.stats.proofs import bounds_of
from calibrant.stats.questions import Question
from calibrant.stats.verdicts import (
    MOST_BINS_TO_PLAN,
    TOO_GOOD,
    Verdict,
    assumptions_of,
    overall,
    shown_bounds,
)
from calibrant.table import BinTable
from calibrant.tables import Tables

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
    """The findings on one group.

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
    agrees_too_well : bool
        Whether labels agree with the predictions better than independent draws would: then there is
        no verdict but "undecided", whatever the bounds.
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
    agrees_too_well: bool

    def __str__(self) -> str:
        outcome = "too small" if self.is_too_small else self.verdict or "no verdict"
        least, most = self.shown_bounds
        return (
            f"{shown_key(self.group)}: {outcome}; error {self.error:.4f} [{self.low:.4f}, "
            f"{self.high:.4f}], at least {least}, at most {most} (n = {self.n:,})"
        )

    @property
    def shown_bounds(self) -> tuple[str, str]:
        """Both bounds as they are printed."""
        return shown_bounds(self.lower_bound, self.upper_bound, self.agrees_too_well)

    @property
    def is_too_small(self) -> bool:
        """Whether nothing is proved, and a calibrated group of this size would not be certified."""
        small = self.rows_needed is not None and self.n < self.rows_needed
        return small and self.lower_bound == 0


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result, Mapping[GroupKey, Certificate]):
    """Certificates that hold at once: a mapping from the key of each group to its certificate.

    Attributes
    ----------
    groups : tuple of AuditedGroup
        The worst first: refuted ones, then undecided, then certified.
    verdict : {"certified", "refuted", "undecided"} or None
        Refuted if any group is, certified if all are.
    upper_bound : float
        The error of the worst group is at most this, with probability `confidence_level` by itself:
        lower than the largest bound of a group, since nothing is split; 1.0 if labels of a group
        agree too well.
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
        """The groups with too few rows for any verdict."""
        return tuple(group for group in self.groups if group.is_too_small)

    def of(self, verdict: Verdict) -> tuple[AuditedGroup, ...]:
        """Return the groups with this verdict."""
        return tuple(group for group in self.groups if group.verdict == verdict)

    def __str__(self) -> str:
        is_judged = self.max_error is not None
        head = [self.tables.described_by, "rows", *(["verdict"] if is_judged else [])]
        head += ["error", "interval", "at least", "at most", "p"]
        rows = []
        for group in self.groups[:LINES]:
            outcome = "too small" if group.is_too_small else group.verdict or ""
            row = [shown_key(group.group), f"{group.n:,}", *([outcome] if is_judged else [])]
            row += [f"{group.error:.4f}", f"[{group.low:.4f}, {group.high:.4f}]"]
            rows.append([*row, *group.shown_bounds, f"{group.adjusted_pvalue:.2g}"])
        parts = [filled(self._summary()), *text_table(head, rows)]
        parts += [*more_groups(len(self) - LINES), *map(filled, self._findings())]
        return "\n".join([*parts, *rests_on(self.assumptions, self.verdict)])

    def _summary(self) -> str:
        confidence = f"with {100 * self.confidence_level:g}% confidence for all groups at once"
        groups = f"{len(self):,} group{'s' * (len(self) > 1)} by {self.tables.described_by}"
        if self.max_error is None:
            return f"{groups}, n = {self.tables.n:,}: {self.norm} errors {confidence}"
        counts = [(len(self.of(x)), x) for x in ("refuted", "undecided", "certified")]
        tally = ", ".join(f"{n:,} {x}" for n, x in counts if n)
        verdict = f"{self.verdict}: {tally} of {groups} at {self.norm} error {self.max_error:g}"
        return f"{verdict}, {confidence}"

    def _findings(self) -> Iterator[str]:
        if self.upper_bound < 1:
            yield (
                f"The worst group's error is at most {self.upper_bound:.4f}, with "
                f"{100 * self.confidence_level:g}% confidence in this alone."
            )
        matched = [shown_key(group.group) for group in self.groups if group.agrees_too_well]
        if matched:
            more = f" and {len(matched) - 3:,} more" if len(matched) > 3 else ""
            noun = "group" if len(matched) == 1 else "groups"
            yield f"Of {noun} {', '.join(matched[:3])}{more} {TOO_GOOD}."
        small = self.too_small
        if small:
            needed = sorted({group.rows_needed or 0 for group in small})
            span = f"{needed[0]:,}" if len(needed) == 1 else f"{needed[0]:,} to {needed[-1]:,}"
            noun, pronoun = ("group is", "it") if len(small) == 1 else ("groups are", "each")
            yield (
                f"{len(small):,} {noun} too small to be certified, even if calibrated: {pronoun} "
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
            outcome = "too small" if group.is_too_small else group.verdict or ""
            bounds = " to ".join(group.shown_bounds)
            yield shown_key(group.group), f"{group.error:.4f}, {bounds} {outcome}".strip()

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
    progress: Callable[[float], object] | None = None,
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
    if not (progress is None or callable(progress)):
        raise InvalidArgumentError(
            "progress must be a function, which is called with the share of groups that are done; "
            f"got {progress!r:.60}. Pass print, or leave it out."
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
        upper, lower, verdict, too_good = verified_bounds(table, question)
        interval = errors[key]._interval(question.confidence_level)
        needed = None
        if verdict == "undecided" and table.is_binned_model and not too_good:
            needed = _rows_needed(table, question, rows_needed)
        group = AuditedGroup(
            group=labels,
            n=table.n,
            n_events=int(table.sum_y.sum()),
            error=errors[key].value,
            low=interval.low,
            high=interval.high,
            lower_bound=lower,
            upper_bound=upper,
            verdict=verdict,
            pvalue=float(pvalues[place]),
            adjusted_pvalue=float(adjusted[place]),
            rows_needed=needed,
            agrees_too_well=too_good,
        )
        groups.append(group)
        if progress is not None:
            progress(len(groups) / len(tables))
    alone = {**options, "confidence_level": confidence_level}
    matched = any(group.agrees_too_well for group in groups)
    worst = 1.0 if matched else _bound_of_the_worst(tables, groups, declared, alone)
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

    The joint bounds, each with a share of it, hold here too and are not lower: groups are bounded
    in falling order of these until none that is left can exceed the largest.
    """
    largest = 0.0
    for place in np.argsort([-group.upper_bound for group in groups], kind="stable").tolist():
        joint = groups[place].upper_bound
        if joint <= largest:
            break
        table = tables.at(place)
        bound = joint
        if table.is_binned_model:
            declared = levels.get(key_of(groups[place].group))
            question = Question.of(table, **options, levels=declared)
            bound = bounds_of(table, question, floor=largest)[0]
        largest = max(largest, min(bound, joint))
    return largest


def _rows_needed(table: BinTable, question: Question, known: dict[int, int | None]) -> int | None:
    """Return the rows that certify a calibrated group of as many outputs; None if not planned."""
    n_bins = int((table.count > 0).sum(axis=1).max())
    if n_bins not in known:
        planned = question.power in (1.0, 2.0) and table.n_groups == 1
        known[n_bins] = None
        if planned and n_bins <= MOST_BINS_TO_PLAN and question.max_error is not None:
            known[n_bins] = samples_to_certify(
                question.max_error, n_bins, confidence_level=question.confidence_level
            )
    return known[n_bins]
