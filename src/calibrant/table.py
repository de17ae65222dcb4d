"""BinTable: the few sums per group and bin from which everything else is computed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from calibrant._documents import check_header, check_names, header, read_json
from calibrant._table_checks import check_sums
from calibrant._types import FloatArray, ReadOnlyArrays
from calibrant.bins import Bins, Distinct
from calibrant.exceptions import (
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidShapeError,
)
from calibrant.problem import Problem

FORMAT = "calibrant.table"
SCHEMA = 1

SUMS = ("count", "sum_y", "sum_p", "sum_pp", "sum_py")
WEIGHT_SUMS = ("sum_w", "sum_ww", "sum_wwuu")
ARRAYS = (*SUMS, *WEIGHT_SUMS, "level")
UNWEIGHTED = (*SUMS, "sum_wwuu", "level")
"""The arrays that tell all others where every row has the weight 1."""
UNIT_WEIGHTS: Any = None
"""In place of weight sums: every row has the weight 1, so the other sums tell them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BinSums(ReadOnlyArrays):
    """What rows leave behind in bins; a bin is the last axis of every array."""

    count: FloatArray
    sum_y: FloatArray
    sum_p: FloatArray
    sum_pp: FloatArray
    sum_py: FloatArray
    sum_w: FloatArray = UNIT_WEIGHTS
    sum_ww: FloatArray = UNIT_WEIGHTS
    sum_wwuu: FloatArray = UNIT_WEIGHTS
    level: FloatArray

    def __post_init__(self) -> None:
        known = self.sum_w is UNIT_WEIGHTS and self.sum_wwuu is not UNIT_WEIGHTS
        if self.sum_w is UNIT_WEIGHTS:
            vars(self).update(sum_w=self.count, sum_ww=self.count, is_weighted=False)
        # Without weights it has one value, however the rows were cut: documents leave it out.
        if not (known or self.is_weighted):
            squares = unit_squares(self.sum_y, self.sum_pp, self.sum_py)
            vars(self).update(sum_wwuu=squares)
        super().__post_init__()

    @cached_property
    def is_weighted(self) -> bool:
        """Whether any row has a weight other than 1."""
        sums = (self.sum_w, self.sum_ww)
        return not all(x is self.count or np.array_equal(x, self.count) for x in sums)

    def __radd__(self, other: object) -> Self:
        return self if other == 0 else NotImplemented

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; weight sums only where there are weights."""
        names = (*SUMS, *WEIGHT_SUMS) if self.is_weighted else SUMS
        # the classes of all groups stand one below the other
        rows = {n: getattr(self, n).reshape(-1, self.level.shape[-1]).tolist() for n in names}
        level = self.level.reshape(-1, self.level.shape[-1]).tolist()
        return rows | {"level": [[None if x != x else x for x in row] for row in level]}

    def to_json(self) -> str:
        """Return the sums as JSON; every float survives the round trip exactly."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def has_sums_of(self, other: BinSums) -> bool:
        """Return whether every array is the same to the last bit."""
        return all(
            np.array_equal(getattr(self, name), getattr(other, name), equal_nan=True)
            for name in ARRAYS
        )


@dataclass(frozen=True, eq=False)
class BinTable(BinSums):
    """Sums of predictions p, events y and weights w for each group and bin.

    Groups are the classes of a marginal problem; any other problem has one. Every array has the
    shape (n_groups, n_bins), where groups with fewer bins than the widest are padded with empty
    ones. Tables of the same bins and problem can be added: chunks, workers, days, machines.

    Attributes
    ----------
    problem : Problem
    bins : tuple of Bins
        One for each group.
    count : ndarray
        Rows.
    sum_y, sum_p, sum_pp, sum_py : ndarray
        Sums of w y, w p, w p^2 and w p y; all w are 1 without sample weights.
    sum_w, sum_ww, sum_wwuu : ndarray
        Sums of w, w^2 and w^2 (y - p)^2.
    level : ndarray
        The one prediction of a bin in which all rows have the same, else NaN.

    See Also
    --------
    tabulate : counts rows into a table.
    calibration_error : takes a table in place of rows, as does every function that needs no rows.

    Examples
    --------
    >>> from calibrant import tabulate
    >>> table = tabulate([0, 1, 1], [0.2, 0.2, 0.9], bins="width:2")
    >>> table.count, table.sum_y, table.level
    (array([[2., 1.]]), array([[1., 1.]]), array([[0.2, 0.9]]))
    >>> BinTable.from_json(table.to_json()).n
    3
    """

    problem: Problem
    bins: tuple[Bins, ...]

    @classmethod
    def from_counts(cls, prediction: ArrayLike, count: ArrayLike, events: ArrayLike) -> BinTable:
        """Make a table of one event from rows and events of each distinct prediction.

        What a report prints, such as PD, obligors and defaults of every rating grade, is all
        that a table holds.

        Parameters
        ----------
        prediction, count, events : array_like of shape (bins,)
            Distinct predictions, and the rows and events of each.

        Examples
        --------
        >>> table = BinTable.from_counts([0.01, 0.05], count=[900, 100], events=[7, 6])
        >>> table.n, table.is_binned_model
        (1000, True)
        """
        try:
            columns = [np.asarray(x, np.float64) for x in (prediction, count, events)]
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError("prediction, count and events must be numbers.") from error
        p, n, y = columns
        if p.ndim != 1 or p.size == 0 or not p.shape == n.shape == y.shape:
            raise InvalidShapeError(
                "prediction, count and events must have a number for each distinct prediction; got "
                f"shapes {p.shape}, {n.shape} and {y.shape}."
            )
        good = np.isfinite(columns).all() and p.min() >= 0 and p.max() <= 1
        whole = good and np.all((n == np.floor(n)) & (y == np.floor(y)) & (y >= 0) & (y <= n))
        if not whole or n.sum() == 0 or np.unique(p).size < p.size:
            raise InvalidArgumentError(
                "Predictions must lie in [0, 1] and differ, counts must be whole numbers with "
                f"0 <= events <= count, and there must be a row; got {prediction!r:.50}, "
                f"{count!r:.50} and {events!r:.50}."
            )
        order = np.argsort(p)
        p, n, y = (x[order][None] for x in columns)
        sums = {"count": n, "sum_y": y, "sum_p": n * p, "sum_pp": n * p * p, "sum_py": y * p}
        level = np.where(n > 0, p, np.nan)
        bins = (Distinct().choose(p[0], n[0]),)
        return cls(Problem("binary"), bins, **sums, level=level)

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.count[0].sum())

    @property
    def n_groups(self) -> int:
        """The number of classes of a marginal problem, else 1."""
        return len(self.bins)

    @cached_property
    def is_binned_model(self) -> bool:
        """Whether every bin holds one distinct prediction, so that binning hides nothing."""
        return not bool(np.any((self.count > 0) & np.isnan(self.level)))

    def __repr__(self) -> str:
        groups = f"{self.n_groups:,} groups, " if self.n_groups > 1 else ""
        return f"<BinTable: {self.problem.kind}, n = {self.n:,}, {groups}{describe_bins(self)}>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BinTable)
            and self.problem == other.problem
            and self.bins == other.bins
            and self.has_sums_of(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: object) -> BinTable:
        if not isinstance(other, BinTable):
            return NotImplemented
        if self.problem != other.problem:
            raise IncompatibleTablesError(
                "Only tables of the same problem can be added; these are "
                f"{self.problem} and {other.problem}."
            )
        if self.bins != other.bins:
            raise IncompatibleTablesError(
                "Only tables of the same bins can be added; these have "
                f"{describe_bins(self)} and {describe_bins(other)} with other edges. "
                "Bins chosen from the data differ from chunk to chunk: count every chunk with "
                "EqualWidth(n), or with the bins of one table, bins=table.bins[0]."
            )
        sums = {name: getattr(self, name) + getattr(other, name) for name in (*SUMS, *WEIGHT_SUMS)}
        same = np.where(self.level == other.level, self.level, np.nan)
        level = np.where(other.count == 0, self.level, same)
        level = np.where(self.count == 0, other.level, level)
        return BinTable(self.problem, self.bins, **sums, level=level)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; weight sums only where there are weights."""
        shared = all(bins == self.bins[0] for bins in self.bins)
        return {
            **header(FORMAT, SCHEMA),
            "problem": self.problem.to_dict(),
            "bins": [bins.to_dict() for bins in (self.bins[:1] if shared else self.bins)],
            **super().to_dict(),
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> BinTable:
        """Rebuild a table from `to_json`."""
        return cls.from_dict(read_json(text, "A table"))

    @classmethod
    def from_dict(cls, document: Any) -> BinTable:
        """Rebuild a table from `to_dict`; raise InvalidDocumentError if that cannot be done.

        Sums that no rows can have are refused: see `calibrant._table_checks`.
        """
        document = check_header(document, FORMAT, SCHEMA, "A table", "Count the rows again")
        names = names_of_sums(document)
        check_names(document, ("format", "schema", "problem", "bins", *names), "A table")
        problem = Problem.from_dict(document["problem"])
        # a document may ask for any number of groups: there must be sums for them
        if not isinstance(document["count"], list) or len(document["count"]) != problem.n_groups:
            raise InvalidDocumentError(
                f'"count" must have a list for each of the {problem.n_groups:,} groups.'
            )
        bins = read_bins(document["bins"], problem.n_groups)
        return read_sums(document, problem, bins, 1)


def unit_squares(sum_y: FloatArray, sum_pp: FloatArray, sum_py: FloatArray) -> FloatArray:
    """Return sum_wwuu where every row has the weight 1: the sum of (y - p)^2, as y is 0 or 1."""
    return np.maximum(sum_y - 2 * sum_py + sum_pp, 0.0)


def describe_bins(table: BinTable) -> str:
    """Say in a few words how many bins of which rule a table has."""
    if len(set(table.bins)) == 1:
        return str(table.bins[0])
    sizes = [len(bins) for bins in table.bins]
    first = table.bins[0]
    span = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
    of = f" of {first.requested}" if (first.requested or 0) > min(sizes) else ""
    return f"{span}{of} {first.rule} bins per {table.problem.part}"


def read_bins(document: Any, n_groups: int) -> tuple[Bins, ...]:
    """Read the bins of a document: one for each group, or one for all."""
    if not isinstance(document, list) or len(document) not in (1, n_groups):
        raise InvalidDocumentError(f"A table needs bins for its {n_groups:,} groups.")
    bins = tuple(Bins.from_dict(item) for item in document)
    return bins * n_groups if len(bins) == 1 else bins


def names_of_sums(document: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the arrays that a document must have."""
    return (*SUMS, *WEIGHT_SUMS, "level") if "sum_w" in document else (*SUMS, "level")


def read_sums(
    document: dict[str, Any], problem: Problem, bins: tuple[Bins, ...], n_tables: int
) -> BinTable:
    """Read the sums of a table, or of several one below the other; refuse impossible ones."""
    shape = (len(bins), max(map(len, bins)))
    arrays = {name: _read_array(document, name, shape) for name in names_of_sums(document)}
    with np.errstate(over="ignore", invalid="ignore"):  # sums that are refused below
        table = BinTable(problem, bins, **arrays)
    check_sums(table, n_tables)
    return table


def _read_array(document: dict[str, Any], name: str, shape: tuple[int, int]) -> FloatArray:
    """Read lists of numbers of this shape; null stands for a level that there is none of."""
    rows, missing = document[name], np.nan if name == "level" else None
    whole = isinstance(rows, list) and all(
        isinstance(row, list)
        and all(type(x) in (int, float) or (x is None and missing is not None) for x in row)
        for row in rows
    )
    if not whole:
        raise InvalidDocumentError(f'A table needs "{name}", a list of lists of numbers.')
    if [len(row) for row in rows] != [shape[1]] * shape[0]:
        raise InvalidDocumentError(f'"{name}" must have the shape {shape} that the bins give.')
    try:
        array = np.array([[missing if x is None else x for x in row] for row in rows], np.float64)
    except OverflowError as error:
        raise InvalidDocumentError(f'"{name}" must hold finite numbers.') from error
    if np.isinf(array).any() or (missing is None and np.isnan(array).any()):
        raise InvalidDocumentError(f'"{name}" must hold finite numbers.')
    return array
