"""Results of comparing two models, several models, or two tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._results import NumberResult, Result, filled, rests_on, text_table
from calibrant._types import FloatArray

Verdict: TypeAlias = Literal["a is better", "b is better", "no difference that these rows can show"]

ROUNDING = 1e-13
"""Added to every margin, so that a difference by rounding alone is none."""
FEW_ROWS, FEW_EVENTS = 300, 100
"""Below which intervals of differences covered less than 93.5% at 95% in some simulations."""
SEPARATE_ROWS = (
    "The rows of a and b are different and independent; rows that both tables share must be "
    "compared row by row."
)


@dataclass(frozen=True, eq=False, repr=False)
class Difference(NumberResult):
    """One measure of both models and an interval for a minus b; less is better.

    Attributes
    ----------
    a, b : float
        The measure of either model.
    value, low, high : float
        The difference a - b, which ``float(difference)`` gives too, and its interval.
    """

    a: float
    b: float
    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Which model is better, if the interval excludes 0."""
        if self.high < 0:
            return "a is better"
        return "b is better" if self.low > 0 else "no difference that these rows can show"

    def _summary(self) -> str:
        return f"{self.value:+.5f} [{self.low:+.5f}, {self.high:+.5f}]: {self.verdict}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {**super().to_dict(), "verdict": self.verdict}


def comparison_lines(
    differences: Iterable[tuple[str, Difference]],
    confidence_level: float,
    names: tuple[str, str] = ("a", "b"),
) -> list[str]:
    """Return a table of differences as lines of text, the name of the better model last."""
    head = ("", "a", "b", "a - b", f"{100 * confidence_level:.4g}% interval", "better")
    rows = []
    for name, d in differences:
        better = names[0] if d.high < 0 else names[1] if d.low > 0 else "undecided"
        interval = f"[{d.low:+.5f}, {d.high:+.5f}]"
        rows.append((name, f"{d.a:.5f}", f"{d.b:.5f}", f"{d.value:+.5f}", interval, better))
    return text_table(head, rows)


def remark(differences: Iterable[Difference]) -> list[str]:
    """Return the line that explains "undecided", where a difference is."""
    undecided = any(d.low <= 0 <= d.high for d in differences)
    return ["undecided: no difference that these rows can show"] if undecided else []


def rarer(events: FloatArray, rows: int, one_label: bool) -> int:
    """Return the number of events or non-events; of labels, those but the most frequent."""
    if one_label and events.size > 1:
        return int(rows - events.max())
    return int(np.minimum(events, rows - events).sum())


def short_of(rows: int, rarer: int) -> tuple[str, ...]:
    """Return the note on rows, and on the rarer of events and non-events, that are too few."""
    lacking = [f"{rows:,} rows, fewer than {FEW_ROWS}"] if rows < FEW_ROWS else []
    if rarer < FEW_EVENTS:
        lacking.append(f"{rarer:,} events or non-events, fewer than {FEW_EVENTS}")
    return (f"{' and '.join(lacking)}: intervals may be too short",) if lacking else ()


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two models on the same rows, measure by measure.

    Attributes
    ----------
    squared_error : Difference
        Squared l2 calibration error, debiased: it may be negative.
    brier : Difference
        Brier score; the weighted mean over classes if there are several.
    log_loss : Difference
        Log loss; of the label's probability if there are several classes.
    n : int
    confidence_level : float
        Of each interval by itself.
    n_clusters : int or None
        How many clusters the rows come in, where they do.
    notes : tuple of str
        What must be said beside the numbers.
    """

    squared_error: Difference
    brier: Difference
    log_loss: Difference
    n: int
    confidence_level: float
    n_clusters: int | None = None
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, Difference]]:
        yield "squared l2 error", self.squared_error
        yield "Brier score", self.brier
        yield "log loss", self.log_loss

    def __str__(self) -> str:
        lines = comparison_lines(self, self.confidence_level)
        rows = f"{self.n:,} rows" + (f" in {self.n_clusters:,} clusters" if self.n_clusters else "")
        lines.append(f"n = {rows}, paired; less is better in every line")
        return "\n".join([*lines, *remark(d for _, d in self), *map(filled, self.notes)])

    def _summary(self) -> str:
        return f"squared l2 error {self.squared_error._summary()}, n = {self.n:,}"

    def _picture(self) -> str:
        from calibrant._svg_bars import differences_svg

        return differences_svg([(name, d.value, d.low, d.high) for name, d in self])


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(Result, Mapping[tuple[str, str], Comparison]):
    """Several models on the same rows, every pair of them; intervals hold for all pairs at once.

    A mapping from the names of two models to their `Comparison`, in which a is the first. The
    error probability is split evenly among pairs (Bonferroni), for each measure by itself.

    Attributes
    ----------
    models : tuple of str
        In the order of their Brier scores, the best first.
    pairs : dict
    confidence_level : float
        Of all pairs together.
    """

    models: tuple[str, ...]
    pairs: dict[tuple[str, str], Comparison]
    confidence_level: float

    def __getitem__(self, names: tuple[str, str]) -> Comparison:
        return self.pairs[names]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __str__(self) -> str:
        lines = []
        for pair, comparison in self.pairs.items():
            a, b = map(str, pair)  # whatever the keys of the dict of models were
            # Longer names would make the table wider than a terminal; the line above has them.
            names = (a, b) if max(len(a), len(b)) <= len("undecided") else ("a", "b")
            table = comparison_lines(comparison, comparison.confidence_level, names)
            lines += ["", f"a = {a}, b = {b}", *table]
        remarks = remark(d for comparison in self.pairs.values() for _, d in comparison)
        remarks += map(filled, dict.fromkeys(note for c in self.pairs.values() for note in c.notes))
        return "\n".join([filled(self._summary()), *lines, *([""] if remarks else []), *remarks])

    def _summary(self) -> str:
        level = f"{100 * self.confidence_level:g}%"
        names = ", ".join(map(str, self.models))
        return f"{len(self.models)} models by Brier score: {names}; {level} for all pairs at once"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        pairs = [{"a": a, "b": b, **pair.to_dict()} for (a, b), pair in self.pairs.items()]
        level = self.confidence_level
        return {"models": list(self.models), "confidence_level": level, "pairs": pairs}


@dataclass(frozen=True, repr=False)
class TableComparison(Result):
    """The squared calibration errors of two tables of different rows.

    Attributes
    ----------
    squared_error : Difference
        Squared l2 calibration error, debiased: it may be negative.
    n_a, n_b : int
        The rows of either table.
    bins_a, bins_b : str
        Where either error is measured, in words.
    confidence_level : float
    notes : tuple of str
        What must be said beside the numbers.
    """

    squared_error: Difference
    n_a: int
    n_b: int
    bins_a: str
    bins_b: str
    confidence_level: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        squared = self.squared_error
        lines = comparison_lines([("squared l2 error", squared)], self.confidence_level)
        where = f"a: n = {self.n_a:,}, {self.bins_a}; b: n = {self.n_b:,}, {self.bins_b}"
        lines += [filled(where), *remark([squared]), *map(filled, self.notes)]
        return "\n".join([*lines, *rests_on([SEPARATE_ROWS])])

    def _summary(self) -> str:
        sizes = f"n = {self.n_a:,} and {self.n_b:,}"
        return f"squared l2 error {self.squared_error._summary()}, {sizes}"


def difference(a: float, b: float, value: float, spread: float, reach: float) -> Difference:
    """Return a difference and the interval of `reach` times its standard error `spread`."""
    margin = reach * spread + ROUNDING if spread > 0 else 0.0
    return Difference(a, b, value, value - margin, value + margin)
