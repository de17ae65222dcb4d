"""Tables: one `BinTable` for each group of rows, counted in the same pass and kept as stacked sums.

A group is what columns beside the predictions say of a row: a sex, a site, an interval of age.
Hundred thousand groups are a handful of arrays here; a `BinTable` is made when one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from calibrant._documents import check_header, check_names, header, read_json
from calibrant._results import text_table
from calibrant._types import FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.exceptions import IncompatibleTablesError, InvalidArgumentError, InvalidDocumentError
from calibrant.groups import (
    LINES,
    GroupColumn,
    GroupKey,
    GroupLabel,
    by_to_json,
    key_of,
    more_groups,
    ranking,
    read_by,
    read_labels,
    shown_key,
)
from calibrant.problem import Problem
from calibrant.table import (
    ARRAYS,
    SUMS,
    WEIGHT_SUMS,
    BinSums,
    BinTable,
    names_of_sums,
    read_bins,
    read_sums,
)

FORMAT = "calibrant.tables"
SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Tables(BinSums, Mapping[GroupKey, BinTable]):
    """Tables of groups of rows: a frozen mapping from the key of a group to its `BinTable`.

    The key is what the column says, such as ``"f"`` or ``"(40, 65]"``; of several columns a tuple,
    such as ``("f", "north")``. Rows of which a column says nothing are a group of their own, whose
    label is None and is printed as "missing". Groups without rows are left out.

    Tables of the same problem, columns and bins can be added, whether they have the same groups or
    not: chunks, workers, days, machines. Every array has the shape (groups, classes, bins), where
    classes are those of a marginal problem and 1 for any other.

    Attributes
    ----------
    problem : Problem
    by : tuple of GroupColumn
        The columns that tell groups apart.
    labels : tuple of tuple
        What the columns say of each group, in the order of the sums.
    bins : tuple of tuple of Bins
        One for each class, shared by all groups; or those of every group.
    count, sum_y, sum_p, sum_pp, sum_py, sum_w, sum_ww, sum_wwuu, level : ndarray
        As in `BinTable`.

    See Also
    --------
    tabulate : with ``by=``, counts rows into one table for each group.
    audit : takes these in place of rows.

    Examples
    --------
    >>> from calibrant import tabulate
    >>> tables = tabulate([0, 1, 1], [0.2, 0.9, 0.6], bins="width:2", by=["f", "m", "f"])
    >>> tables["f"].count
    array([[1., 1.]])
    >>> (tables + tables)["m"].n
    2
    """

    problem: Problem
    by: tuple[GroupColumn, ...]
    labels: tuple[tuple[GroupLabel, ...], ...]
    bins: tuple[tuple[Bins, ...], ...]

    @classmethod
    def of(
        cls,
        problem: Problem,
        by: tuple[GroupColumn, ...],
        labels: Sequence[tuple[GroupLabel, ...]],
        bins: tuple[tuple[Bins, ...], ...],
        sums: Mapping[str, FloatArray],
    ) -> Tables:
        """Leave out the groups without rows, and put the others in the order of their labels."""
        used = np.flatnonzero(sums["count"][:, 0].sum(axis=1) > 0)
        order = np.array(sorted(used.tolist(), key=_order_of(by, labels)), np.intp)
        bins_in_order = bins if len(bins) == 1 else tuple(bins[i] for i in order)
        arrays = {name: array[order] for name, array in sums.items()}
        return cls(problem, by, tuple(labels[i] for i in order), bins_in_order, **arrays)

    @property
    def n(self) -> int:
        """The number of rows of all groups."""
        return int(self.count[:, 0].sum())

    @cached_property
    def sizes(self) -> IntArray:
        """The number of rows of each group."""
        sizes = np.asarray(self.count[:, 0].sum(axis=1), np.int64)
        sizes.flags.writeable = False
        return sizes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that tell groups apart."""
        return tuple(column.name for column in self.by)

    @property
    def shares_bins(self) -> bool:
        """Whether all groups were counted in the same bins."""
        return len(self.bins) == 1

    @cached_property
    def _places(self) -> dict[GroupKey, int]:
        return {key_of(labels): place for place, labels in enumerate(self.labels)}

    def __getitem__(self, key: GroupKey) -> BinTable:
        return self.at(self.place(key))

    def place(self, key: GroupKey) -> int:
        """Return the place of a group in the order of the sums."""
        if key not in self._places:
            raise KeyError(f"{key!r:.60} is not a group by {self.described_by}")
        return self._places[key]

    def at(self, place: int) -> BinTable:
        """Return the table of the group at this place in the order of the sums."""
        bins = self.bins[0 if self.shares_bins else place]
        width = max(map(len, bins))
        names = ARRAYS if self.is_weighted else (*SUMS, "level")
        sums = {name: getattr(self, name)[place, :, :width] for name in names}
        return BinTable(self.problem, bins, **sums)

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def described_by(self) -> str:
        """The columns, as they are named in a sentence."""
        *first, last = self.names
        return f"{', '.join(first)} and {last}" if first else last

    def pooled(self) -> BinTable:
        """Return the table of all rows; groups must share their bins."""
        if not self.shares_bins:
            raise IncompatibleTablesError(
                "Only groups that share their bins add up to one table; these have bins of their "
                "own. Count them with shared_bins=True."
            )
        level = np.where(self.count > 0, self.level, np.nan)
        low = np.where(self.count > 0, level, np.inf).min(axis=0, initial=np.inf)
        same = np.all((self.count == 0) | (level == low), axis=0) & self.count.any(axis=0)
        sums = {name: getattr(self, name).sum(axis=0) for name in (*SUMS, *WEIGHT_SUMS)}
        return BinTable(self.problem, self.bins[0], **sums, level=np.where(same, low, np.nan))

    def __add__(self, other: object) -> Tables:
        if not isinstance(other, Tables):
            return NotImplemented
        total = RunningTables()
        total.add(self)
        total.add(other)
        return total.tables()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tables)
            and (self.problem, self.by, self.labels) == (other.problem, other.by, other.labels)
            and self.bins == other.bins
            and self.has_sums_of(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"<Tables: {self.problem.kind}, {len(self):,} groups by {self.described_by}, "
            f"n = {self.n:,}>"
        )

    def __str__(self) -> str:
        largest = np.argsort(-self.sizes, kind="stable")[:LINES]
        rows = []
        for place in largest.tolist():
            table = self.at(place)
            weight, events, mean = (x.sum() for x in (table.sum_w, table.sum_y, table.sum_p))
            rate = f"{events / weight:.4f}" if table.n_groups == 1 else "-"
            rows.append(
                (shown_key(self.labels[place]), f"{table.n:,}", rate, f"{mean / weight:.4f}")
            )
        if self.problem.n_groups > 1:  # the rates of several classes add up to 1, and say nothing
            lines = text_table((self.described_by, "rows"), [row[:2] for row in rows])
        else:
            lines = text_table((self.described_by, "rows", "events", "mean prediction"), rows)
        return "\n".join([*lines, *more_groups(len(self) - len(rows))])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; weight sums only where there are weights."""
        return {
            **header(FORMAT, SCHEMA),
            "problem": self.problem.to_dict(),
            "by": by_to_json(self.by),
            "groups": [list(labels) for labels in self.labels],
            "bins": [[bins.to_dict() for bins in row] for row in self.bins],
            **super().to_dict(),
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Tables:
        """Rebuild tables from `to_json`."""
        return cls.from_dict(read_json(text, "Tables of groups"))

    @classmethod
    def from_dict(cls, document: Any) -> Tables:
        """Rebuild tables from `to_dict`; raise InvalidDocumentError if that cannot be done.

        Sums that no rows can have are refused: see `calibrant._table_checks`.
        """
        what = "Tables of groups"
        document = check_header(document, FORMAT, SCHEMA, what, "Count the rows again")
        entries = ("format", "schema", "problem", "by", "groups", "bins")
        check_names(document, (*entries, *names_of_sums(document)), what)
        problem, by = Problem.from_dict(document["problem"]), read_by(document["by"])
        labels = read_labels(document["groups"], by)
        bins_of_groups = document["bins"]
        if not isinstance(bins_of_groups, list) or len(bins_of_groups) not in (1, len(labels)):
            raise InvalidDocumentError('"bins" must be one list of bins, or one for each group.')
        if not isinstance(document["count"], list) or len(document["count"]) != (
            problem.n_groups * len(labels)
        ):
            raise InvalidDocumentError('"count" must have a list for each class of each group.')
        bins = tuple(read_bins(item, problem.n_groups) for item in bins_of_groups)
        flat_bins = tuple(bins_of_class for of_group in bins for bins_of_class in of_group)
        repeats = len(labels) if len(bins) == 1 else 1
        flat = read_sums(document, problem, flat_bins * repeats, len(labels))
        shape = (len(labels), problem.n_groups, -1)
        stacked = {name: getattr(flat, name).reshape(shape) for name in ARRAYS}
        return cls.of(problem, by, labels, bins, stacked)


def _order_of(
    by: tuple[GroupColumn, ...], labels: Sequence[tuple[GroupLabel, ...]]
) -> Callable[[int], Any]:
    """Return what sorts the places of labels; whole numbers alone are in their own order."""
    if len(by) == 1 and by[0].cuts is None and {type(label[0]) for label in labels} == {int}:
        return labels.__getitem__
    rank = ranking(by)
    return lambda place: rank(labels[place])


def read_any_table(text: str | bytes) -> BinTable | Tables:
    """Rebuild a table, or tables of groups, whichever the document is."""
    document = read_json(text, "A table")
    by_group = isinstance(document, dict) and document.get("format") == FORMAT
    return Tables.from_dict(document) if by_group else BinTable.from_dict(document)


class RunningTables:
    """Running sums of the groups met so far; parts may have groups that others have not."""

    def __init__(self) -> None:
        self._first: Tables | None = None
        self._places: dict[tuple[GroupLabel, ...], int] = {}
        self._arrays: dict[str, FloatArray] = {}

    def __bool__(self) -> bool:
        return self._first is not None

    def add(self, part: Tables) -> None:
        """Add the sums of each group to those of the same labels."""
        if self._first is None:
            self._begin(part)
            return
        first = self._first
        if (first.problem, first.by) != (part.problem, part.by):
            raise IncompatibleTablesError(
                "Only tables of the same problem and groups can be added; these are "
                f"{first.problem} by {first.described_by} and {part.problem} by "
                f"{part.described_by}{', cut elsewhere' if first.names == part.names else ''}."
            )
        if not (first.shares_bins and first.bins == part.bins):
            so_far = self.tables()  # of the same group, bins must be the same
            by_group = {labels: so_far.at(i) for i, labels in enumerate(so_far.labels)}
            for i, labels in enumerate(part.labels):
                table = part.at(i)
                by_group[labels] = by_group[labels] + table if labels in by_group else table
            self._begin(stacked(first.by, list(by_group), list(by_group.values())))
            return
        places, arrays = self._places, self._arrays
        place = np.array([places.setdefault(label, len(places)) for label in part.labels], np.intp)
        self._make_room()
        before, level = arrays["count"][place], arrays["level"][place]
        same = np.where(level == part.level, level, np.nan)
        merged = np.where(before == 0, part.level, np.where(part.count == 0, level, same))
        arrays["level"][place] = merged
        for name in (*SUMS, *WEIGHT_SUMS):
            arrays[name][place] += getattr(part, name)

    def _begin(self, part: Tables) -> None:
        self._first = part
        self._places = {labels: place for place, labels in enumerate(part.labels)}
        self._arrays = {name: getattr(part, name).copy() for name in ARRAYS}

    def _make_room(self) -> None:
        """Grow the arrays to hold all groups, and as many again."""
        missing = len(self._places) - len(self._arrays["count"])
        if missing > 0:
            for name, array in self._arrays.items():
                room = np.zeros((max(missing, len(array)), *array.shape[1:]))
                empty = room + (np.nan if name == "level" else 0)
                self._arrays[name] = np.concatenate([array, empty])

    def tables(self) -> Tables:
        """Return the sums as tables."""
        first = self._first
        if first is None:
            raise InvalidArgumentError("There are no tables to add; at least one is needed.")
        return Tables.of(first.problem, first.by, list(self._places), first.bins, self._arrays)


def stacked(
    by: tuple[GroupColumn, ...],
    labels: Sequence[tuple[GroupLabel, ...]],
    tables: Sequence[BinTable],
) -> Tables:
    """Make `Tables` of the tables of groups, whose bins may differ."""
    width = max(table.count.shape[1] for table in tables)
    arrays = {}
    for name in ARRAYS:
        empty = np.nan if name == "level" else 0.0
        parts = [getattr(table, name) for table in tables]
        padded = [
            np.pad(x, ((0, 0), (0, width - x.shape[1])), constant_values=empty) for x in parts
        ]
        arrays[name] = np.stack(padded)
    bins = tuple(table.bins for table in tables)
    shared = bins[:1] if all(other == bins[0] for other in bins) else bins
    return Tables.of(tables[0].problem, by, labels, shared, arrays)
