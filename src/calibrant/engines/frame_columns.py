"""Named columns of a lazy frame: what they mean, as narwhals expressions that check themselves.

Expressions are arithmetic, comparisons and when-then alone, which every lazy engine can run.

A row with a bad value has a fault, a negative number, which plans put in the place of its cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from calibrant._lazy import nw
from calibrant._types import FloatArray
from calibrant.columns import LARGEST_WEIGHT
from calibrant.exceptions import (
    InvalidGroupsError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.groups import GroupColumn
from calibrant.problem import SUM_TOLERANCE, Label, Problem, same_number

LABEL_MISSING, LABEL_UNKNOWN, PROB_MISSING, PROB_OUTSIDE, WEIGHT_BAD, WEIGHT_ZERO = range(
    -1, -7, -1
)
LARGEST_OUTCOME = float(np.finfo(np.float64).max)
STEEPEST = 709.0
"""The exponential of a number beyond it is infinite, or an exception, depending on the engine."""


@dataclass(frozen=True)
class FrameColumns:
    """Named columns of a lazy frame, and what they mean; see `calibrant.columns.Columns`.

    `beside` are predictions that are read and not counted: of two columns the one that is not the
    event's. Logits of every kind of problem stay logits: their sigmoid or softmax is a part of the
    plan. Of a multi-label problem, `labels` are the columns of all labels.
    """

    frame: Any
    problem: Problem
    labels: str | tuple[str, ...]
    predictions: tuple[str, ...]
    weights: str | None = None
    beside: tuple[str, ...] = ()
    are_logits: bool = False
    by: tuple[GroupColumn, ...] = ()

    @property
    def names(self) -> list[str]:
        """The columns that are read, without repeats."""
        others = [] if self.weights is None else [self.weights]
        others += [column.name for column in self.by]
        return [*dict.fromkeys([*self.label_names, *self.predictions, *self.beside, *others])]

    @property
    def label_names(self) -> tuple[str, ...]:
        """The column of labels, or those of several."""
        return self.labels if isinstance(self.labels, tuple) else (self.labels,)

    def label_of(self, group: int) -> str:
        """Return the column that says whether the event of a group happened."""
        return self.label_names[group if len(self.label_names) > 1 else 0]

    @property
    def group_names(self) -> list[str]:
        """What the columns of groups are called in plans that count by them."""
        return [f"by{k}" for k in range(len(self.by))]

    @property
    def has_one_small_group(self) -> bool:
        """Whether one column of integers that fit into 64 bits tells groups apart."""
        if len(self.by) != 1 or self.by[0].cuts is not None:
            return False
        wide = (nw.UInt64, nw.UInt128, nw.Int128)
        dtype = self._schema[self.by[0].name]
        return bool(dtype.is_integer()) and not any(dtype == x for x in wide)

    def read(self, group: int) -> tuple[Any, Any, Any, list[tuple[Any, int]]]:
        """Return the rows; p and y as expressions of them; and the checks with their codes."""
        if self.problem.is_marginal:
            rows, probs = self.probabilities()
            p = probs[group]
            happened, known = self.happened(group)
            return rows, p, happened, self._faults([p], known, group)
        code, known = self._codes(self.label_of(group))
        if self.problem.kind == "binary":
            p, *beside = (self._number(name) for name in (*self.predictions, *self.beside))
            if self.are_logits:
                p, beside = sigmoid(balanced([p, *(-z for z in beside)])), []
            return self.frame, p, code, self._faults([p, *beside], known)
        rows, scores, best = self._with_best()
        top = f"{self._free_prefix}top"
        rows = rows.with_columns(first_equal(scores, best).alias(top))
        right = equal(code, nw.col(top))
        if self.are_logits:
            p = nw.lit(1.0) / sum_of_exps(scores, best)
            return rows, p, right, self._faults([p], known)
        return rows, nw.col(best), right, self._faults([nw.col(name) for name in scores], known)

    def happened(self, group: int) -> tuple[Any, Any]:
        """Return 1.0 where the event of a group happened, else 0.0, and whether the label is fine.

        Where quantiles are missing or cross the label is not fine: the events are not defined.
        """
        if self.problem.kind == "quantile":
            y, quantiles = self._outcome(), [self._number(name) for name in self.predictions]
            rising = [a <= b for a, b in pairwise(quantiles)]
            present = [~(q.is_null() | q.is_nan()) for q in quantiles]
            finite = y.is_between(-LARGEST_OUTCOME, LARGEST_OUTCOME)
            return equal(y <= quantiles[group], nw.lit(True)), all_of([finite, *present, *rising])
        code, known = self._codes(self.label_of(group))
        if self.problem.kind == "multi-label":
            return code, known
        if self.problem.kind == "ordinal":
            return equal(code <= nw.lit(float(group)), nw.lit(True)), known
        return equal(code, nw.lit(float(group))), known

    def probabilities(self) -> tuple[Any, list[Any]]:
        """Return the rows, and the probability of every event as expressions of them."""
        kind = self.problem.kind
        if kind == "quantile":
            number, none = exact_number(self.frame), self._outcome() * 0.0
            return self.frame, [none + number(float(level)) for level in self.problem.class_names]
        rows, probs = self.frame, [self._number(name) for name in self.predictions]
        if self.are_logits and kind == "multi-label":
            return rows, [sigmoid(z) for z in probs]
        if self.are_logits:
            rows, scores, best = self._with_best()
            total = sum_of_exps(scores, best)
            probs = [(nw.col(name) - nw.col(best)).exp() / total for name in scores]
        if kind != "ordinal":
            return rows, probs
        # rows that do not add up to 1, or hold an impossible probability, fail the later checks
        *up_to, total = accumulate(probs)
        fine = (total - 1.0).is_between(-SUM_TOLERANCE, SUM_TOLERANCE)
        fine = all_of([fine, *(p.is_between(0, 1) for p in probs)])
        return rows, [
            nw.when(fine).then(nw.when(p > 1.0).then(nw.lit(1.0)).otherwise(p)).otherwise(total + 2)
            for p in up_to
        ]

    def group(self, column: GroupColumn) -> Any:
        """Return the label of a column of groups, null for NaN; of a cut column the interval.

        That is the number of the interval, or -1 where a value lies outside the cuts.
        """
        value, dtype = nw.col(column.name), self._schema[column.name]
        if column.cuts is None:
            if dtype.is_float():
                return nw.when(~value.is_nan()).then(value)
            of_polars = self.frame.implementation.is_polars()
            if dtype.is_nested() or (of_polars and dtype == nw.Unknown):  # of no text
                raise InvalidGroupsError(
                    f"Groups by {column.name!r:.60} must be told apart by text, numbers or dates; "
                    f"the column is of type {dtype}. Convert it to text, or name another column."
                )
            plain = dtype.is_numeric() or dtype == nw.Boolean or dtype.is_temporal()
            return value if plain else value.cast(nw.String)
        if not dtype.is_numeric():
            raise InvalidGroupsError(
                f"Only numbers can be cut; column {column.name!r:.60} is of type {dtype}. "
                "Convert the column, or leave out its cuts."
            )
        number, value = exact_number(self.frame), value.cast(nw.Float64)
        above = [nw.when(value > number(cut)).then(1.0).otherwise(0.0) for cut in column.cuts[1:-1]]
        place = balanced(above) if above else value * 0.0
        low, high = (number(cut) for cut in (column.cuts[0], column.cuts[-1]))
        inside = nw.when((value >= low) & (value <= high)).then(place).otherwise(nw.lit(-1.0))
        return nw.when(~value.is_nan()).then(inside)

    def weight(self) -> Any:
        """Return the weight of each row."""
        return self._number(self.weights, "Weights must be numbers", InvalidWeightsError)

    def _outcome(self) -> Any:
        return self._number(self.label_of(0), "Outcomes must be real numbers", InvalidLabelsError)

    def _with_best(self) -> tuple[Any, list[str], str]:
        """Return the rows with the scores of all classes as floats, and the largest of each row."""
        prefix = self._free_prefix
        scores = {f"{prefix}{k}": self._number(n) for k, n in enumerate(self.predictions)}
        best = f"{prefix}best"
        rows = self.frame.with_columns(**scores)
        return rows.with_columns(nw.max_horizontal(*scores).alias(best)), list(scores), best

    def _faults(self, probs: list[Any], known: Any, group: int = 0) -> list[tuple[Any, int]]:
        faults = [
            (all_of(p.is_between(0, 1) for p in probs), PROB_OUTSIDE),
            (all_of(~p.is_null() for p in probs), PROB_MISSING),
            (known, LABEL_UNKNOWN),
            (~nw.col(self.label_of(group)).is_null(), LABEL_MISSING),
        ]
        if self.weights is None:
            return faults
        w = self.weight()
        return [(w > 0, WEIGHT_ZERO), (w.is_between(0, LARGEST_WEIGHT), WEIGHT_BAD), *faults]

    def _number(
        self,
        name: Any,
        rule: str = "Predictions must be numbers in [0, 1]",
        refusal: type[InvalidInputError] = InvalidProbabilitiesError,
    ) -> Any:
        """Return a column as float64; refuse another type by the rule that it breaks."""
        dtype = self._schema[name]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise refusal(
                f"{rule}; column {name!r} is of type {dtype}. Convert the column to float first."
            )
        return nw.col(name).cast(nw.Float64)

    def _codes(self, column: str) -> tuple[Any, Any]:
        """Return the class index of each label as a float, and whether it is one."""
        label, dtype, problem = nw.col(column), self._schema[column], self.problem
        if problem.kind == "multi-label":  # whose classes are names of columns, not of values
            problem = Problem("binary")
        names = problem.classes or (() if problem.pos_label is None else (problem.pos_label,))
        fits = dtype.is_numeric() or dtype == nw.Boolean
        if names and isinstance(names[0], str):
            # some engines compare bytes and dates with text, others fail
            fits = not (fits or dtype.is_temporal() or dtype.is_nested() or dtype == nw.Binary)
        if not fits:
            raise InvalidLabelsError(
                f"Labels in column {column!r} are of type {dtype}; the classes "
                f"({', '.join(map(repr, names or problem.class_names[:6]))}) are not. "
                "Name the labels with classes= or pos_label=, of the same type as the column."
            )
        if problem.pos_label is not None:
            event = self._is_label(column, names[0], 1.0)
            return event, ~label.is_nan() if dtype.is_float() else ~label.is_null()
        if problem.classes is not None:
            place = [self._is_label(column, name, float(k + 1)) for k, name in enumerate(names)]
            return balanced(place) - 1.0, balanced(place) > 0
        code = label.cast(nw.Float64)
        known = code.is_between(0, problem.n_classes - 1)
        return code, known & (code % 1.0 == 0.0) if dtype.is_float() else known

    def _is_label(self, name: str, label: Label, code: float) -> Any:
        """Return the code where the column holds the label, else 0; integers stay integers."""
        column, dtype = nw.col(name), self._schema[name]
        if isinstance(label, str):
            return nw.when(column == label).then(nw.lit(code)).otherwise(nw.lit(0.0))
        whole = dtype.is_integer()
        unsigned = whole and dtype == nw.UInt64
        number = same_number(label, np.dtype("u8" if unsigned else "i8" if whole else "f8"))
        if number is None:
            return nw.lit(0.0)
        same = exact_number(self.frame)(number) if not whole else nw.lit(int(number))
        if number > np.iinfo(np.int64).max and unsigned:
            same = nw.lit(str(number)).cast(nw.UInt64)
        column = column if whole else column.cast(nw.Float64)
        return nw.when(column == same).then(nw.lit(code)).otherwise(nw.lit(0.0))

    @cached_property
    def _schema(self) -> Any:
        return self.frame.collect_schema()

    @cached_property
    def _free_prefix(self) -> str:
        """A prefix that no column of the user has in any case: some engines ignore case."""
        taken, prefix = [name.lower() for name in self._schema.names()], "_calibrant_"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        return prefix


def all_of(conditions: Iterable[Any]) -> Any:
    """Return whether all conditions hold."""
    return reduce(lambda a, b: a & b, conditions)


def balanced(terms: Sequence[Any]) -> Any:
    """Add terms in pairs, so that the expression stays shallow."""
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[len(terms) - len(terms) % 2 :]]
    return terms[0]


def stepped(p: Any, edges: FloatArray, values: FloatArray, number: Callable[[float], Any]) -> Any:
    """Return values[j] where p lies in bin j, by halving: shallow, and exact to the last bit."""
    if edges.size == 0 or np.all(values[: edges.size + 1] == values[0]):
        return number(values[0])
    middle = edges.size // 2
    below = stepped(p, edges[:middle], values[: middle + 1], number)
    above = stepped(p, edges[middle + 1 :], values[middle + 1 :], number)
    return nw.when(p > number(edges[middle])).then(above).otherwise(below)


def equal(a: Any, b: Any) -> Any:
    """Return 1.0 where a equals b, else 0.0."""
    return nw.when(a == b).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def sigmoid(z: Any) -> Any:
    """Return 1 / (1 + exp(-z)), without an overflow, which not every engine takes for infinity."""
    p = nw.lit(1.0) / (nw.lit(1.0) + (-nw.when(z > -STEEPEST).then(z).otherwise(z * 0.0)).exp())
    return nw.when(z < -STEEPEST).then(nw.lit(0.0)).otherwise(p)


def sum_of_exps(scores: list[str], best: str) -> Any:
    """Return the sum of the exponentials of all scores, less the best of them."""
    return balanced([(nw.col(name) - nw.col(best)).exp() for name in scores])


def first_equal(columns: list[str], best: str) -> Any:
    """Return the number of the first column that equals the best."""
    last = nw.lit(float(len(columns)))
    places = (
        nw.when(nw.col(c) == nw.col(best)).then(nw.lit(float(k))).otherwise(last)
        for k, c in enumerate(columns)
    )
    return nw.min_horizontal(*places)


def exact_number(frame: Any) -> Callable[[float], Any]:
    """Return what makes an expression of a float, to the last bit, for this frame.

    Ibis writes floats as decimals, which DuckDB reads with an error; it reads text without.
    """
    if frame.implementation.is_ibis():
        return lambda x: nw.lit(repr(float(x))).cast(nw.Float64)
    return lambda x: nw.lit(float(x))
