"""Groups of rows: the columns that define them, the code of each row's group, and labels."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from calibrant._documents import check_names, is_number, shown
from calibrant._threads import in_pieces
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError, InvalidGroupsError

DENSE_CODES = 1 << 12
"""Up to this number, codes that never occur are counted too: finding them would cost a pass."""
MOST_CODES = 1 << 24
"""A lookup table renumbers at most this many codes; beyond, rows are sorted. Speed only."""

PIECE_ROWS = 1 << 16
"""Rows of a piece: half a megabyte of integers, which stay in the cache of a core."""

LONGEST = 40
"""Characters of a label that are printed."""
LINES = 20
"""Groups that are printed; the others are counted."""

GroupLabel: TypeAlias = str | int | float | None
"""The value of a column in a group; None where it is missing."""
GroupKey: TypeAlias = GroupLabel | tuple[GroupLabel, ...]
"""The label of one column, or those of several."""


@dataclass(frozen=True)
class GroupColumn:
    """A column by which rows are grouped.

    Attributes
    ----------
    name : str
    cuts : tuple of float or None
        Where a numeric column is cut. As of bins, the first interval holds both its ends and the
        others their upper end only: [0, 40], (40, 65], (65, 120].
    """

    name: str
    cuts: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        cuts = self.cuts
        if cuts is not None and (len(cuts) < 2 or not all(a < b for a, b in pairwise(cuts))):
            raise InvalidArgumentError(
                f"The cuts of {self.name!r:.60} must be two numbers or more that rise, such as "
                f"[0, 40, 65, 120]; got {list(cuts)!r:.80}."
            )

    @property
    def intervals(self) -> list[str]:
        """The labels of the intervals between the cuts."""
        pairs = enumerate(pairwise(self.cuts or ()))
        return [interval_text(a, b, "right" if i else "both") for i, (a, b) in pairs]


def interval_text(low: Any, high: Any, closed: str) -> str:
    """Return an interval as the cuts of a column are named; `closed` is pandas's word."""
    ends = []
    for end in (low, high):  # a time, or a number in enough digits to be exact
        short = f"{end:g}" if isinstance(end, Real) else str(end)
        ends.append(repr(float(end)) if isinstance(end, Real) and float(short) != end else short)
    first = "[" if closed in ("left", "both") else "("
    return f"{first}{', '.join(ends)}{']' if closed in ('right', 'both') else ')'}"


Factor = tuple[AnyArray, Sequence[GroupLabel]]
"""The code of every row, and the label of every code."""


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of every row.

    Attributes
    ----------
    by : tuple of GroupColumn
    codes : ndarray of integers of at most 32 bits, shape (n,)
        A number for each row.
    labels : list of tuple
        The labels of every number, one of each column; some may be of no row.
    """

    by: tuple[GroupColumn, ...]
    codes: IntArray
    labels: list[tuple[GroupLabel, ...]]

    @classmethod
    def of(cls, by: tuple[GroupColumn, ...], columns: Sequence[AnyArray | Factor]) -> Groups:
        """Group rows by columns in memory, which may be factors already."""
        if len(by) == 1 and isinstance(columns[0], np.ndarray) and by[0].cuts is None:
            values = columns[0]
            if values.dtype.kind in "iu" and values.dtype.isnative:
                return IntegerGroups(by, values)
        factors = [
            values if isinstance(values, tuple) else factor_of(column, values)
            for column, values in zip(by, columns, strict=True)
        ]
        return cls._of_factors(by, factors)

    @classmethod
    def _of_factors(cls, by: tuple[GroupColumn, ...], factors: Sequence[Factor]) -> Groups:
        codes, sizes = factors[0][0], [len(labels) for _, labels in factors]
        for column_codes, labels in factors[1:]:
            codes = codes.astype(np.int64) * len(labels) + column_codes
        n_codes = math.prod(sizes)
        if n_codes <= DENSE_CODES:
            present = np.arange(n_codes)
        elif n_codes > MOST_CODES:
            present, codes = np.unique(codes, return_inverse=True)
        else:
            occurs = np.zeros(n_codes, np.bool_)
            occurs[codes] = True
            present = np.flatnonzero(occurs)
            codes = (np.cumsum(occurs, dtype=np.int32) - np.int32(1))[codes]
        places = np.unravel_index(present, sizes)
        pairs = zip(factors, places, strict=True)
        crossed = [[labels[i] for i in place.tolist()] for (_, labels), place in pairs]
        codes = codes if codes.dtype.itemsize <= 4 else codes.astype(np.int32)
        return cls(by, codes, list(zip(*crossed, strict=True)))

    @classmethod
    def joined(cls, parts: Sequence[Groups]) -> Groups:
        """Return the groups of all rows of these parts, one below the other."""
        number: dict[tuple[GroupLabel, ...], int] = {}
        codes = []
        for part in parts:
            numbers = [number.setdefault(labels, len(number)) for labels in part.labels]
            codes.append(np.array(numbers, np.int32)[part.codes])
        return cls(parts[0].by, np.concatenate(codes), list(number))

    def rows(self) -> Iterator[tuple[tuple[GroupLabel, ...], IntArray]]:
        """Yield the labels and the rows of every group that has any."""
        order = np.argsort(self.codes, kind="stable")
        present, first = np.unique(self.codes[order], return_index=True)
        for code, rows in zip(present.tolist(), np.split(order, first[1:]), strict=True):
            yield self.labels[code], rows


class IntegerGroups(Groups):
    """The groups of one column of integers, whose rows are read when they are first needed.

    Attributes
    ----------
    column : ndarray of integers, shape (n,)
    """

    column: IntArray

    def __init__(self, by: tuple[GroupColumn, ...], column: IntArray) -> None:
        vars(self).update(by=by, column=column)

    @cached_property
    def _read(self) -> Groups:
        return Groups._of_factors(self.by, [factor_of(self.by[0], self.column)])

    @property
    def codes(self) -> IntArray:
        """A number for each row."""
        return self._read.codes

    @property
    def labels(self) -> list[tuple[GroupLabel, ...]]:
        """The label of every number."""
        return self._read.labels

    @property
    def likely(self) -> range:
        """The likely range of all rows, read from the first and last of them.

        It is empty if it would be large. The caller must check that every row lies in it.
        """
        n = PIECE_ROWS // 2
        if not self.column.size:
            return range(0)
        low, high = _limits(np.concatenate([self.column[:n], self.column[-n:]]))
        return range(low, high + 1) if high - low < DENSE_CODES else range(0)


def required(groups: Groups | None) -> Groups:
    """Return the groups; raise InvalidArgumentError if there are none."""
    if groups is None:
        raise InvalidArgumentError("Rows are in no groups here: pass by=, the columns that tell.")
    return groups


def factor_of(column: GroupColumn, values: AnyArray) -> Factor:
    """Return the codes of a column in memory, and the label of each code."""
    if column.cuts is not None:
        return cut_codes(column, values), [*column.intervals, None]
    kind = values.dtype.kind
    if kind == "b":
        return values.view(np.uint8), [False, True]
    if kind in "iu" and (dense := _dense_factor(values)) is not None:
        return dense
    if kind in "iufM":
        distinct, codes = np.unique(values, return_inverse=True)
        labels = _times(distinct) if kind == "M" else distinct.tolist()
        return codes, [label_of(column, label) for label in labels]
    return factor_of_objects(column, values.tolist())


def _times(values: AnyArray) -> list[Any]:
    """Return NumPy's times as Python's, or as text if they are finer than microseconds."""
    rounded = values.astype("M8[us]")
    between = ~np.isnat(values) & (rounded != values)
    times: list[Any] = rounded.tolist()
    for place in np.flatnonzero(between).tolist():
        times[place] = str(values[place]).replace("T", " ")
    return times


def _dense_factor(values: IntArray) -> Factor | None:
    """Return integers as codes above the least of them; None if they spread too far.

    Reading the rows takes as long as counting them, so their limits are guessed from the first of
    them, and all are read again only if others lie beyond.
    """
    low, high = _limits(values[:PIECE_ROWS]) if values.size else (0, 0)
    while high - low < MOST_CODES:
        small = np.dtype(np.int16 if high - low < 1 << 15 else np.int32)
        codes: AnyArray = np.empty(values.size, small)
        # integers wrap around: differences that fit are right even if the terms were cut off
        least = np.array(low, values.dtype).astype(small)

        def write(part: slice, least: AnyArray = least, codes: AnyArray = codes) -> tuple[int, int]:
            np.subtract(values[part].astype(codes.dtype), least, out=codes[part])
            return _limits(values[part])

        limits = in_pieces(values.size, PIECE_ROWS, write) or [(low, high)]
        limits_seen = min(own for own, _ in limits), max(own for _, own in limits)
        if limits_seen == (low, high):
            return codes, range(low, high + 1)
        low, high = limits_seen
    return None


def _limits(values: IntArray) -> tuple[int, int]:
    return int(values.min()), int(values.max())


def factor_of_objects(column: GroupColumn, values: list[Any]) -> Factor:
    """Return the codes of Python values; all missing values have one code."""
    try:
        number = {value: place for place, value in enumerate(dict.fromkeys(values))}
        codes = np.fromiter(map(number.__getitem__, values), np.int32, len(values))
    except TypeError as error:
        raise InvalidGroupsError(
            f"Groups by {column.name!r:.60} must be told apart by text, numbers or dates; some "
            f"values are not ({error})."
        ) from error
    labels: dict[GroupLabel, int] = {}
    place = [labels.setdefault(label_of(column, value), len(labels)) for value in number]
    return np.array(place, np.int32)[codes], list(labels)


def label_of(column: GroupColumn, value: Any) -> GroupLabel:
    """Return the label of one value of a column; None for any missing value."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, Real | Decimal):
        number = float(value)
        if number != number:
            return None
        if isinstance(value, Decimal) and Decimal(repr(number)) != value and value.is_finite():
            return str(value)  # has more digits than a float, where two of them could be one
        if abs(number) < np.inf:
            return number + 0.0  # -0.0 is 0.0, and prints as such
    if isinstance(value, datetime.date):  # a time at midnight becomes its date
        return str(value).removesuffix(" 00:00:00")
    if type(value).__name__ == "Interval":  # of pandas.cut
        return interval_text(value.left, value.right, value.closed)
    raise InvalidGroupsError(
        f"Groups by {column.name!r:.60} must be told apart by text, finite numbers or dates; got "
        f"{shown(value)}. Convert the column, or cut it: by={{name: cuts}}."
    )


def cut_codes(column: GroupColumn, values: AnyArray) -> IntArray:
    """Return the interval of every value, and the number of intervals where it is missing."""
    try:
        if values.dtype.kind in "mM":  # as float64 their unit would be arbitrary
            raise TypeError(f"{values.dtype} is no number")
        numbers: FloatArray = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidGroupsError(
            f"Only numbers can be cut; {column.name!r:.60} holds others ({error}). Convert the "
            "column, or leave out its cuts."
        ) from error
    cuts = np.array(column.cuts)
    missing = np.isnan(numbers)
    outside = ~missing & ~((numbers >= cuts[0]) & (numbers <= cuts[-1]))
    if outside.any():
        first = int(outside.argmax())
        raise outside_cuts(column, int(outside.sum()), f"first: by[{first}] = {numbers[first]:g}")
    codes = np.searchsorted(cuts[1:-1], numbers)
    return np.where(missing, len(cuts) - 1, codes)


def outside_cuts(column: GroupColumn, n: int, example: str) -> InvalidGroupsError:
    """Return the exception for n values outside the cuts of a column."""
    cuts = column.cuts or ()
    return InvalidGroupsError(
        f"Values of {column.name!r:.60} must lie between its cuts, {cuts[0]:g} to {cuts[-1]:g}; "
        f"of {n:,} that is not so ({example}). Widen the cuts: float('inf') may be the last."
    )


def key_of(labels: tuple[GroupLabel, ...]) -> GroupKey:
    """Return the key of a group: the label of one column, or those of several as a tuple."""
    return labels[0] if len(labels) == 1 else labels


def shown_key(labels: tuple[GroupLabel, ...]) -> str:
    """Return the labels of a group as they are printed."""
    shown = ["missing" if label is None else str(label) for label in labels]
    safe = [text if text.isprintable() else ascii(text)[1:-1] for text in shown]
    return ", ".join(text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..." for text in safe)


def more_groups(n: int) -> list[str]:
    """Return a line with the number of groups that are not printed, if there are any."""
    return [f"... and {n:,} more group{'s' if n > 1 else ''}"] if n > 0 else []


def ranking(by: tuple[GroupColumn, ...]) -> Callable[[tuple[GroupLabel, ...]], Any]:
    """Return a sort key of labels: intervals as cut, numbers before text, missing last."""
    orders = [{label: place for place, label in enumerate(column.intervals)} for column in by]

    def place(label: GroupLabel, order: Mapping[str, int]) -> tuple[int, Any]:
        if label is None:
            return 3, 0
        if isinstance(label, str):
            return (0, order[label]) if label in order else (2, label)
        return 1, label

    return lambda labels: list(map(place, labels, orders))


def by_to_json(by: tuple[GroupColumn, ...]) -> list[dict[str, Any]]:
    """Return columns of groups; JSON has no infinite numbers, so such cuts are text."""
    return [
        {"name": x.name, "cuts": x.cuts and [c if math.isfinite(c) else str(c) for c in x.cuts]}
        for x in by
    ]


def read_by(document: Any) -> tuple[GroupColumn, ...]:
    """Rebuild columns of groups from `by_to_json`."""
    if not isinstance(document, list) or not document:
        raise InvalidDocumentError('"by" must be a list of the columns that tell groups apart.')
    columns = []
    for item in document:
        check_names(item, ("name", "cuts"), "A column of groups")
        name, cuts = item["name"], item["cuts"]
        is_column = isinstance(name, str) and (cuts is None or isinstance(cuts, list))
        numbers = [float(x) if x in ("inf", "-inf") else x for x in (is_column and cuts) or []]
        if not is_column or not all(type(x) is float or is_number(x) for x in numbers):
            raise InvalidDocumentError(f"This is no column of groups: {shown(item)}.")
        try:
            columns.append(GroupColumn(name, None if cuts is None else tuple(map(float, numbers))))
        except InvalidArgumentError as error:
            raise InvalidDocumentError(str(error)) from error
    return tuple(columns)


def read_labels(document: Any, by: tuple[GroupColumn, ...]) -> list[tuple[GroupLabel, ...]]:
    """Rebuild the labels of groups in these columns."""
    rows = document if isinstance(document, list) else []
    allowed = [None if column.cuts is None else {*column.intervals, None} for column in by]
    for row in rows:
        fits = isinstance(row, list) and len(row) == len(by)
        if not fits or not all(
            isinstance(label, str | int | float | None) and (among is None or label in among)
            for label, among in zip(row, allowed, strict=True)
        ):
            raise InvalidDocumentError(f"These are no labels of a group: {shown(row)}.")
    labels = [tuple(row) for row in rows]
    if not labels or len(set(labels)) < len(labels):
        raise InvalidDocumentError('"groups" must be a list of labels, one or more, none twice.')
    return labels
