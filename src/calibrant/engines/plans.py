"""Lazy plans of narwhals expressions: check, find the bin, group, sum.

Everything is elementary (arithmetic, comparisons, when-then, sum, minimum, maximum, count), so
every lazy engine can run it. Rows with a bad value get a negative key and are counted by the same
group-by: -1 label missing, -2 label unknown, -3 prediction missing, -4 prediction outside
[0, 1], -5 bad weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant.bins import Bins
from calibrant.engines.refine import Within
from calibrant.exceptions import InvalidLabelsError
from calibrant.problem import Problem


@dataclass(frozen=True)
class Plan:
    """The passes over one group of a lazy frame."""

    frame: Any
    problem: Problem
    labels: str
    probs: tuple[str, ...]
    weights: str | None
    group: int

    def sums_by_bin(self, bins: Bins) -> Any:
        """Sum the rows of each bin."""
        return self._sums(_bin_index(bins))

    def sums_by_value(self) -> Any:
        """Sum the rows of each distinct prediction."""
        return self._sums(_nw().col("p"))

    def cells(self, bits: int, within: Within | None) -> Any:
        """Count the cells of a grid, with the least and the greatest prediction of each."""
        return self._masses(_cell(bits), within)

    def masses(self, within: Within | None) -> Any:
        """Count each distinct prediction."""
        return self._masses(_nw().col("p"), within)

    def _sums(self, key: Any) -> Any:
        nw = _nw()
        w, p, y = nw.col("w"), nw.col("p"), nw.col("y")
        terms = {"sum_y": w * y, "sum_p": w * p, "sum_pp": w * p * p, "sum_py": w * p * y}
        if self.weights is not None:
            terms |= {"sum_w": w, "sum_ww": w * w, "sum_wwuu": w * w * (y - p) * (y - p)}
        keyed = self._keyed(key).with_columns(**terms)
        return keyed.group_by("key").agg(*_extent(), *(nw.col(name).sum() for name in terms))

    def _masses(self, key: Any, within: Within | None) -> Any:
        nw = _nw()
        keyed = self._keyed(key)
        if within is not None:
            bits, numbers = within
            keyed = keyed.filter(_cell(bits).is_in(numbers.tolist()))
        mass = [] if self.weights is None else [nw.col("w").sum().alias("sum_w")]
        return keyed.group_by("key").agg(*_extent(), *mass)

    def _keyed(self, key: Any) -> Any:
        """Return p, y, w and the key, which is negative for bad rows."""
        nw = _nw()
        bad = nw.col("bad")
        checked = self._checked
        keyed = checked.with_columns(key=nw.when(bad < 0).then(bad).otherwise(key))
        if self.weights is None:
            return keyed
        return keyed.filter((nw.col("w") > 0) | (nw.col("key") < 0))

    @cached_property
    def _checked(self) -> Any:
        """Return p, y and w of this group, zero in bad rows, and what is bad."""
        nw = _nw()
        p, w, code = nw.col("p"), nw.col("w"), nw.col("code")
        known = (code >= 0) & (code < self.problem.n_classes) & (code == code.floor())
        ladder = [
            (nw.col("label").is_null(), -1.0),
            (~known, -2.0),
            (nw.col("missing"), -3.0),
            (nw.col("outside"), -4.0),
            (w.is_null() | ~((w >= 0) & (w < 1e100)), -5.0),
        ]
        bad = nw.lit(0.0)
        for wrong, number in reversed(ladder):
            bad = nw.when(wrong).then(nw.lit(number)).otherwise(bad)
        fine = nw.col("bad") == 0
        return self._read.with_columns(bad=bad).select(
            "bad",
            p=nw.when(fine).then(p).otherwise(nw.lit(0.0)),
            w=nw.when(fine).then(w).otherwise(nw.lit(0.0)),
            y=nw.when(fine & (code == nw.col("event"))).then(nw.lit(1.0)).otherwise(nw.lit(0.0)),
        )

    @cached_property
    def _read(self) -> Any:
        """Return label and code, w, p and the class that p speaks of, and what is wrong with p."""
        nw = _nw()
        weight = nw.lit(1.0) if self.weights is None else nw.col(self.weights).cast(nw.Float64)
        names = self.probs[self.group : self.group + 1] if self._is_single else self.probs
        columns = [f"p{k}" for k in range(len(names))]
        read = self.frame.select(
            nw.col(self.labels).alias("label"),
            _code(self.problem, self.labels, self.frame.collect_schema()[self.labels]).alias(
                "code"
            ),
            weight.alias("w"),
            *(nw.col(n).cast(nw.Float64).alias(c) for n, c in zip(names, columns, strict=True)),
        ).with_columns(
            p=nw.max_horizontal(*columns),
            missing=_any(nw.col(c).is_null() for c in columns),
            outside=_any(~((nw.col(c) >= 0) & (nw.col(c) <= 1)) for c in columns),
        )
        return read.with_columns(event=self._event(columns))

    @property
    def _is_single(self) -> bool:
        return self.problem.kind != "top-label"

    def _event(self, columns: list[str]) -> Any:
        """Return the class that p speaks of; of equal ones for the top, the lowest."""
        nw = _nw()
        if self._is_single:
            return nw.lit(1.0 if self.problem.kind == "binary" else float(self.group))
        last = nw.lit(float(len(columns)))
        return nw.min_horizontal(
            *(
                nw.when(nw.col(c) == nw.col("p")).then(nw.lit(float(k))).otherwise(last)
                for k, c in enumerate(columns)
            )
        )


def _nw() -> Any:
    import narwhals

    return narwhals


def _any(conditions: Iterable[Any]) -> Any:
    return _nw().any_horizontal(*conditions, ignore_nulls=True)


def _sum(terms: list[Any]) -> Any:
    """Add terms in pairs, so that the expression stays shallow."""
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
    return terms[0]


def _extent() -> list[Any]:
    nw = _nw()
    p = nw.col("p")
    return [nw.len().alias("count"), p.min().alias("low"), p.max().alias("high")]


def _cell(bits: int) -> Any:
    """Return the number of the cell among 2^bits; multiplying by a power of two is exact."""
    return (_nw().col("p") * float(1 << bits)).floor()


def _bin_index(bins: Bins) -> Any:
    """Return how many inner edges lie strictly below p."""
    nw = _nw()
    p, n = nw.col("p"), len(bins)
    one, zero = nw.lit(1.0), nw.lit(0.0)
    if n == 1:
        return zero
    if np.array_equal(bins.edges, np.arange(n + 1) / n):
        guess = (p * float(n)).floor()  # off by one at most, and put right by comparing
        column = p * 0.0 + float(
            n
        )  # Polars divides by a constant with an error, by a column without
        down = nw.when((p <= guess / column) & (guess > 0)).then(one).otherwise(zero)
        up = nw.when(p > (guess + 1.0) / column).then(one).otherwise(zero)
        return guess - down + up
    steps = [nw.when(p > float(edge)).then(one).otherwise(zero) for edge in bins.edges[1:-1]]
    return _sum(steps)


def _code(problem: Problem, name: str, dtype: Any) -> Any:
    """Return the class index of each label as a float, -1 for a label that is none."""
    nw = _nw()
    label = nw.col(name)
    known = problem.classes or (() if problem.pos_label is None else (problem.pos_label,))
    numeric = dtype.is_numeric() or dtype == nw.Boolean
    if numeric == bool(known and isinstance(known[0], str)):
        raise InvalidLabelsError(
            f"Labels in column {name!r} are of type {dtype}; the classes "
            f"({', '.join(map(repr, known or problem.class_names[:6]))}) are not. "
            "Name the labels with classes= or pos_label=, of the same type as the column."
        )
    if not known:
        return label.cast(nw.Float64)
    one, zero = nw.lit(1.0), nw.lit(0.0)
    if problem.pos_label is not None:
        return nw.when(label == problem.pos_label).then(one).otherwise(zero)
    label = label.cast(nw.Float64) if numeric else label
    steps = [
        nw.when(label == each).then(nw.lit(float(k + 1))).otherwise(zero)
        for k, each in enumerate(known)
    ]
    return _sum(steps) - 1.0
