"""Lazy plans of narwhals expressions: check, find the cell, group, sum.

Everything is elementary (arithmetic, comparisons, when-then, sum, minimum, maximum, count), so
every lazy engine can run it. A pass groups by the cell of a prediction and by what happened, so
that events need no sums of their own. Rows with a bad value get a negative key and are counted
by the same group-by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, reduce
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray
from calibrant.columns import LARGEST_WEIGHT
from calibrant.exceptions import (
    InvalidGroupsError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
)
from calibrant.groups import GroupColumn
from calibrant.problem import SUM_TOLERANCE, Label, Problem, same_number
from calibrant.table import WEIGHT_SUMS

LABEL_MISSING, LABEL_UNKNOWN, PROB_MISSING, PROB_OUTSIDE, WEIGHT_BAD, WEIGHT_ZERO = range(
    -1, -7, -1
)
LINEAR_BITS = 18
"""Grids of at most so many bits are even; finer ones are finer towards 0 and 1."""
INFLUENCE_SUMS = tuple(field.name for field in fields(InfluenceSums))
STEEP_AT_ZERO = range(16, 144, 16)
STEEP_AT_ONE = range(16, 64, 16)
STEEP_SHARE = 2.0**-11
"""Orders of magnitude, as powers of two, at which fine grids are steep, and the share of the cells
that they take there: down to 2^-128 beside 0, and to 2^-48 beside 1, where floats end at 2^-53. A
poor choice costs a pass more, never an edge."""
LARGEST_OUTCOME = float(np.finfo(np.float64).max)
STEEPEST = 709.0
"""The exponential of a number beyond it is infinite, or an exception, depending on the engine."""


@dataclass(frozen=True)
class Grid:
    """Cells of [0, 1]: ``(i - 1, i] / scale``, or beyond `LINEAR_BITS` finer near 0 and 1."""

    scale: float

    @classmethod
    def of_bits(cls, bits: int) -> Grid:
        """Return the grid of 2^bits cells; multiplying by a power of two is exact."""
        return cls(float(1 << bits))

    @property
    def is_even(self) -> bool:
        """Whether all cells have the same width."""
        return self.scale <= 1 << LINEAR_BITS

    @property
    def largest(self) -> float:
        """The number of the last cell."""
        steep = STEEP_SHARE * (len(STEEP_AT_ZERO) + len(STEEP_AT_ONE))
        return self.scale * (1.0 if self.is_even else 1.0 + steep)

    def number(self, p: Any) -> Any:
        """Return the cell of p, which rises with p."""
        return ((p if self.is_even else _stretched(p)) * self.scale).ceil()


@dataclass(frozen=True)
class Pass:
    """What one group of predictions is grouped by.

    Attributes
    ----------
    grid : Grid or None
        None means by value.
    within : list of (Grid, numbers)
        Only rows that lie in one of these cells of each grid.
    edges : ndarray
        Cells are parted once more at these values.
    """

    grid: Grid | None
    within: tuple[tuple[Grid, FloatArray], ...] = ()
    edges: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def largest_key(self) -> float:
        """The largest number of a cell, parts of cells and what happened included."""
        cells = 1.0 if self.grid is None else self.grid.largest + 1
        return 2 * cells * (self.edges.size + 1)


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
        return (self.labels,) if isinstance(self.labels, str) else self.labels

    def label_of(self, group: int) -> str:
        """Return the column that says whether the event of a group happened."""
        return self.label_names[group if len(self.label_names) > 1 else 0]

    @property
    def group_names(self) -> list[str]:
        """What the columns of groups are called in plans that count by them."""
        return [f"by{k}" for k in range(len(self.by))]

    def sums(self, passes: dict[int, Pass], by: bool = False) -> Any:
        """Return one lazy plan that makes a pass over each of these groups.

        With `by`, rows are told apart by the columns of groups as well.
        """
        nw = _nw()
        folded = all(own.grid is not None for own in passes.values())
        keys = ["key"] if folded else ["key", "side"]
        largest = max(own.largest_key for own in passes.values())
        dtype = _integer(largest) if folded else nw.Float64
        parts = [self._keyed(group, own, folded, dtype, by) for group, own in passes.items()]
        keys += self.group_names if by else []
        if len(parts) > 1:
            keys.append("group")
            parts = [p.with_columns(group=nw.lit(g)) for g, p in zip(passes, parts, strict=True)]
        whole = parts[0] if len(parts) == 1 else nw.concat(parts, how="vertical")
        return self._summed(whole, keys)

    def influences(self, edges: Sequence[FloatArray], influence: Influence) -> Any:
        """Return one lazy plan that sums what each row adds to a marginal error."""
        nw = _nw()
        number, first, second = exact_number(self.frame), [], []
        frame, probs = self._probabilities()
        for k, p in enumerate(probs):
            inner = edges[k][1:-1]
            slope = _stepped(p, inner, influence.slope[k], number)
            first.append(slope * (self._happened(k)[0] - p))
            second.append(_stepped(p, inner, influence.offset[k], number))
        w = nw.lit(1.0)
        if self.weights is not None:
            w = self._weight() / number(influence.mean_weight)
        rows = frame.select(a=_balanced(first), m=_balanced(second), w=w)
        a, m, w = nw.col("a"), nw.col("m"), nw.col("w")
        parts = {"wa": w * (a - number(influence.mean_a)), "wm": w * (m - number(influence.mean_m))}
        rows = rows.select("w", **parts)
        wa, wm = nw.col("wa"), nw.col("wm")
        square = (wa - wm) * (wa - wm)
        terms = (w, wa, wa * wa, wa * wm, wm * wm, square * square)
        summed = rows.select(**dict(zip(INFLUENCE_SUMS, terms, strict=True)))
        return summed.select(*(nw.col(name).sum() for name in INFLUENCE_SUMS))

    def _summed(self, keyed: Any, keys: list[str]) -> Any:
        nw = _nw()
        p = nw.col("p")
        extent = [nw.len().alias("count"), p.min().alias("low"), p.max().alias("high")]
        sums = ["sum_pp"] if self.weights is None else ["sum_p", "sum_pp", *WEIGHT_SUMS]
        plain = [p.sum().alias("sum_p")]
        if self.weights is not None:
            plain = [nw.col("sum_w").max().alias("heaviest")]
        return keyed.group_by(*keys).agg(*extent, *plain, *(nw.col(name).sum() for name in sums))

    def _keyed(self, group: int, own: Pass, folded: bool, dtype: Any, by: bool) -> Any:
        """Return p, the key and what is summed: one projection, which engines run fastest.

        A folded key tells what happened too; only cells, which are whole numbers, have room.
        """
        nw = _nw()
        rows, p, y, faults = self._read(group)
        for grid, numbers in own.within:
            rows = rows.filter(grid.number(p).is_in(numbers.tolist()))
        place = p if own.grid is None else own.grid.number(p)
        if own.edges.size:
            number = exact_number(self.frame)
            above = [nw.when(p > number(e)).then(1.0).otherwise(0.0) for e in own.edges]
            place = place * float(own.edges.size + 1) + _balanced(above)
        terms = {"p": p, "key": _unless(faults, place * 2.0 + y if folded else place).cast(dtype)}
        if not folded:
            terms["side"] = y.cast(nw.Float64)
        if by:
            labels = map(self._group, self.by)
            terms |= dict(zip(self.group_names, labels, strict=True))
        return rows.select(**terms, **self._terms(p, y))

    def _terms(self, p: Any, y: Any) -> dict[str, Any]:
        """Return what is summed, apart from p itself where there are no weights."""
        if self.weights is None:
            return {"sum_pp": p * p}
        w = self._weight()
        square = w * w
        return {
            "sum_p": w * p,
            "sum_pp": w * p * p,
            "sum_w": w,
            "sum_ww": square,
            "sum_wwuu": square * (y - p) * (y - p),
        }

    def _group(self, column: GroupColumn) -> Any:
        """Return what a column says of the group, null for NaN; of a cut one the interval.

        That is the number of the interval, or -1 where a value lies outside the cuts.
        """
        nw = _nw()
        value, dtype = nw.col(column.name), self._schema[column.name]
        if column.cuts is None:
            if dtype.is_float():
                return nw.when(~value.is_nan()).then(value)
            plain = dtype.is_numeric() or dtype == nw.Boolean or dtype.is_temporal()
            return value if plain else value.cast(nw.String)
        if not dtype.is_numeric():
            raise InvalidGroupsError(
                f"Only numbers can be cut; column {column.name!r:.60} is of type {dtype}. "
                "Convert the column, or leave out its cuts."
            )
        number, value = exact_number(self.frame), value.cast(nw.Float64)
        above = [nw.when(value > number(cut)).then(1.0).otherwise(0.0) for cut in column.cuts[1:-1]]
        place = _balanced(above) if above else value * 0.0
        low, high = (number(cut) for cut in (column.cuts[0], column.cuts[-1]))
        inside = nw.when((value >= low) & (value <= high)).then(place).otherwise(nw.lit(-1.0))
        return nw.when(~value.is_nan()).then(inside)

    def _weight(self) -> Any:
        nw = _nw()
        return nw.col(self.weights).cast(nw.Float64)

    def _read(self, group: int) -> tuple[Any, Any, Any, list[tuple[Any, int]]]:
        """Return the rows; p and y as expressions of them; and the checks with their codes."""
        nw = _nw()
        if self.problem.is_marginal:
            rows, probs = self._probabilities()
            p = probs[group]
            happened, known = self._happened(group)
            return rows, p, happened, self._faults([p], known, group)
        code, known = self._codes(self.label_of(group))
        if self.problem.kind == "binary":
            p, *beside = (self._number(name) for name in (*self.predictions, *self.beside))
            if self.are_logits:
                p, beside = _sigmoid(_balanced([p, *(-z for z in beside)])), []
            return self.frame, p, code, self._faults([p, *beside], known)
        rows, scores, best = self._with_best()
        top = f"{self._free_prefix}top"
        rows = rows.with_columns(_first_equal(scores, best).alias(top))
        right = _equal(code, nw.col(top))
        if self.are_logits:
            p = nw.lit(1.0) / _sum_of_exps(scores, best)
            return rows, p, right, self._faults([p], known)
        return rows, nw.col(best), right, self._faults([nw.col(name) for name in scores], known)

    def _happened(self, group: int) -> tuple[Any, Any]:
        """Return 1.0 where the event of a group happened, else 0.0, and whether the label is fine.

        Quantiles that are missing or cross make no fine label: nobody knows what happened.
        """
        nw = _nw()
        if self.problem.kind == "quantile":
            y, quantiles = self._outcome(), [self._number(name) for name in self.predictions]
            rising = [a <= b for a, b in pairwise(quantiles)]
            there = [~(q.is_null() | q.is_nan()) for q in quantiles]
            finite = y.is_between(-LARGEST_OUTCOME, LARGEST_OUTCOME)
            return _equal(y <= quantiles[group], nw.lit(True)), _all([finite, *there, *rising])
        code, known = self._codes(self.label_of(group))
        if self.problem.kind == "multi-label":
            return code, known
        if self.problem.kind == "ordinal":
            return _equal(code <= nw.lit(float(group)), nw.lit(True)), known
        return _equal(code, nw.lit(float(group))), known

    def _outcome(self) -> Any:
        nw = _nw()
        name = self.label_of(0)
        dtype = self._schema[name]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise InvalidLabelsError(
                f"Outcomes must be real numbers; column {name!r} is of type {dtype}. "
                "Convert the column to float first."
            )
        return nw.col(name).cast(nw.Float64)

    def _probabilities(self) -> tuple[Any, list[Any]]:
        """Return the rows, and the probability of every event as expressions of them."""
        nw, kind = _nw(), self.problem.kind
        if kind == "quantile":
            number, none = exact_number(self.frame), self._outcome() * 0.0
            return self.frame, [none + number(float(level)) for level in self.problem.class_names]
        rows, probs = self.frame, [self._number(name) for name in self.predictions]
        if self.are_logits and kind == "multi-label":
            return rows, [_sigmoid(z) for z in probs]
        if self.are_logits:
            rows, scores, best = self._with_best()
            total = _sum_of_exps(scores, best)
            probs = [(nw.col(name) - nw.col(best)).exp() / total for name in scores]
        if kind != "ordinal":
            return rows, probs
        # of a row that does not add up to 1, and of an impossible probability, impossible ones
        *up_to, total = accumulate(probs)
        fine = (total - 1.0).is_between(-SUM_TOLERANCE, SUM_TOLERANCE)
        fine = _all([fine, *(p.is_between(0, 1) for p in probs)])
        return rows, [
            nw.when(fine).then(nw.when(p > 1.0).then(nw.lit(1.0)).otherwise(p)).otherwise(total + 2)
            for p in up_to
        ]

    def _with_best(self) -> tuple[Any, list[str], str]:
        """Return the rows with the scores of all classes as floats, and the largest of each row."""
        prefix = self._free_prefix
        scores = {f"{prefix}{k}": self._number(n) for k, n in enumerate(self.predictions)}
        best = f"{prefix}best"
        rows = self.frame.with_columns(**scores)
        return rows.with_columns(_nw().max_horizontal(*scores).alias(best)), list(scores), best

    def _faults(self, probs: list[Any], known: Any, group: int = 0) -> list[tuple[Any, int]]:
        faults = [
            (_all(p.is_between(0, 1) for p in probs), PROB_OUTSIDE),
            (_all(~p.is_null() for p in probs), PROB_MISSING),
            (known, LABEL_UNKNOWN),
            (~_nw().col(self.label_of(group)).is_null(), LABEL_MISSING),
        ]
        if self.weights is None:
            return faults
        w = self._weight()
        return [(w > 0, WEIGHT_ZERO), (w.is_between(0, LARGEST_WEIGHT), WEIGHT_BAD), *faults]

    def _number(self, name: str) -> Any:
        nw = _nw()
        dtype = self._schema[name]
        if not (dtype.is_numeric() or dtype == nw.Boolean):
            raise InvalidProbabilitiesError(
                f"Predictions must be numbers in [0, 1]; column {name!r} is of type {dtype}. "
                "Convert the column to float first."
            )
        return nw.col(name).cast(nw.Float64)

    @cached_property
    def _schema(self) -> Any:
        return self.frame.collect_schema()

    @cached_property
    def _free_prefix(self) -> str:
        """What no column of the user begins with; some engines do not tell cases apart."""
        taken, prefix = [name.lower() for name in self._schema.names()], "_calibrant_"
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        return prefix

    def _codes(self, column: str) -> tuple[Any, Any]:
        """Return the class index of each label as a float, and whether it is one."""
        nw = _nw()
        label, dtype, problem = nw.col(column), self._schema[column], self.problem
        if problem.kind == "multi-label":  # whose classes are names of columns, not of values
            problem = Problem("binary")
        names = problem.classes or (() if problem.pos_label is None else (problem.pos_label,))
        numeric = dtype.is_numeric() or dtype == nw.Boolean
        if numeric == bool(names and isinstance(names[0], str)):
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
            return _balanced(place) - 1.0, _balanced(place) > 0
        code = label.cast(nw.Float64)
        known = code.is_between(0, problem.n_classes - 1)
        return code, known & (code % 1.0 == 0.0) if dtype.is_float() else known

    def _is_label(self, name: str, label: Label, code: float) -> Any:
        """Return the code where the column holds the label, else 0; integers stay integers."""
        nw = _nw()
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


def _nw() -> Any:
    import narwhals

    return narwhals


def _all(conditions: Iterable[Any]) -> Any:
    return reduce(lambda a, b: a & b, conditions)


def _balanced(terms: Sequence[Any]) -> Any:
    """Add terms in pairs, so that the expression stays shallow."""
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[len(terms) - len(terms) % 2 :]]
    return terms[0]


def _stepped(p: Any, edges: FloatArray, values: FloatArray, number: Callable[[float], Any]) -> Any:
    """Return values[j] where p lies in bin j, by halving: shallow, and exact to the last bit."""
    if edges.size == 0 or np.all(values[: edges.size + 1] == values[0]):
        return number(values[0])
    middle = edges.size // 2
    below = _stepped(p, edges[:middle], values[: middle + 1], number)
    above = _stepped(p, edges[middle + 1 :], values[middle + 1 :], number)
    return _nw().when(p > number(edges[middle])).then(above).otherwise(below)


def _equal(a: Any, b: Any) -> Any:
    """Return 1.0 where a equals b, else 0.0."""
    nw = _nw()
    return nw.when(a == b).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def _sigmoid(z: Any) -> Any:
    """Return 1 / (1 + exp(-z)), without an overflow, which not every engine takes for infinity."""
    nw = _nw()
    p = nw.lit(1.0) / (nw.lit(1.0) + (-nw.when(z > -STEEPEST).then(z).otherwise(z * 0.0)).exp())
    return nw.when(z < -STEEPEST).then(nw.lit(0.0)).otherwise(p)


def _sum_of_exps(scores: list[str], best: str) -> Any:
    nw = _nw()
    return _balanced([(nw.col(name) - nw.col(best)).exp() for name in scores])


def _first_equal(columns: list[str], best: str) -> Any:
    """Return the number of the first column that equals the best."""
    nw = _nw()
    last = nw.lit(float(len(columns)))
    places = (
        nw.when(nw.col(c) == nw.col(best)).then(nw.lit(float(k))).otherwise(last)
        for k, c in enumerate(columns)
    )
    return nw.min_horizontal(*places)


def _unless(faults: list[tuple[Any, int]], key: Any) -> Any:
    """Return the key where all checks hold, else the code of the last that does not.

    The one test of all checks comes first, so that engines which evaluate branches only where
    they are taken pay for the search of the fault in bad rows alone.
    """
    nw = _nw()
    fault = nw.lit(float(faults[0][1]))
    for fine, code in faults[1:]:
        fault = nw.when(fine).then(fault).otherwise(nw.lit(float(code)))
    return nw.when(_all(fine for fine, _ in faults)).then(key).otherwise(fault)


def _integer(largest: float) -> Any:
    """Return the smallest type that holds the key: engines group by small ones faster."""
    nw = _nw()
    sizes: list[Callable[[], Any]] = [nw.Int8, nw.Int16, nw.Int32, nw.Int64]
    return next(t for t, bits in zip(sizes, (7, 15, 31, 63), strict=True) if largest < 2.0**bits)


def _stretched(p: Any) -> Any:
    """Return a rising function of p that is steep near 0 and 1, on a scale of orders of magnitude.

    p itself, plus small parts of ``p / (p + c)`` for many c, less those of ``q / (q + c)`` for
    q = 1 - p. Written so that every operation rises or falls with p also when it is rounded, and
    none divides by zero.
    """
    nw = _nw()

    def share(x: Any, c: float) -> Any:
        return nw.lit(STEEP_SHARE) / (nw.lit(c) / (x + 1e-300) + 1.0)

    q = nw.lit(1.0) - p
    rising = [share(p, 2.0**-k) for k in STEEP_AT_ZERO]
    falling = [share(q, 2.0**-k) for k in STEEP_AT_ONE]
    return p + _balanced(rising) - _balanced(falling) + STEEP_SHARE * len(falling)


def exact_number(frame: Any) -> Callable[[float], Any]:
    """Return what makes an expression of a float, to the last bit, for this frame.

    Ibis writes floats as decimals, which DuckDB reads with an error; it reads text without.
    """
    import narwhals as nw

    if frame.implementation.is_ibis():
        return lambda x: nw.lit(repr(float(x))).cast(nw.Float64)
    return lambda x: nw.lit(float(x))
