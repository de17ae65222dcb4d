"""Sources: predictions and labels, wherever they live, behind one door.

`read` decides what the user passed and what it means, and returns a `Source`. Every public function
and command begins with it, and nothing else looks at the user's objects. A source chooses bins and
counts rows where they are; only the sums travel. Only `columns` brings rows into memory.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np

from calibrant._bins_argument import as_bin_rule, bins_one_by_one, is_auto
from calibrant._influences import Influence, InfluenceSums
from calibrant._options import check_flag
from calibrant.bins import BinRule, Bins, BinsLike, Distinct
from calibrant.columns import Columns, absent_event, check_heaviest
from calibrant.exceptions import InvalidArgumentError
from calibrant.groups import GroupColumn
from calibrant.problem import Input, Kind, Label, Problem, check_kind
from calibrant.table import BinSums, BinTable, describe_bins
from calibrant.tables import Tables

if TYPE_CHECKING:
    from calibrant.sources.arrays import ArraySource
    from calibrant.sources.logs.evaluation import LogColumns

_Rule: TypeAlias = Bins | BinRule | tuple[Bins, ...] | Literal["auto"]

ONE_BIN = Bins(np.array([0.0, 1.0]))
SMALLEST_SQUARE = 1e-200
"""A smaller sum of squared weights means that every weight is below 1e-100, too small to square."""


class Meaning(TypedDict, total=False):
    """What predictions mean; the parameters are those of `calibrant.calibration_error`."""

    kind: Kind | None
    input: Input
    classes: Sequence[Label] | None
    pos_label: Label | None


class Reading(Meaning, total=False):
    """How predictions are read: for overloads by ``by=``."""

    data: Any


class Counting(Reading, total=False):
    """How predictions are read and counted in bins."""

    bins: BinsLike
    sample_weight: Any
    shared_bins: bool


class Source(ABC):
    """Predictions and labels of one problem.

    Attributes
    ----------
    problem : Problem
        What they mean; known without looking at any value.
    names : tuple of str or None
        The column of labels, then those of predictions; None for arrays.
    has_rows : bool
        False for a table counted before, of which only sums are left.
    by : tuple of GroupColumn
        The columns that put rows into groups, if any.
    is_lazy : bool
        Whether rows are read by queries, which may no longer be possible later: a connection can
        be closed.
    """

    problem: Problem
    names: tuple[str, ...] | None = None
    by: tuple[GroupColumn, ...] = ()
    has_rows: ClassVar[bool] = True
    is_lazy: ClassVar[bool] = False

    @abstractmethod
    def choose(self, rule: BinRule | Literal["auto"]) -> tuple[Bins, ...]:
        """Check all predictions and return the bins that the rule chooses, one for each group.

        "auto" is `EqualMass` with `auto_n_bins` of the number of rows.
        """

    @abstractmethod
    def count(self, bins: tuple[Bins, ...]) -> BinTable:
        """Check every value and sum the rows in these bins, one `Bins` for each group.

        The rows may be a part of all: the event and the weight may be in others.
        """

    @abstractmethod
    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Check every value and sum the rows of each group in these bins, in one pass."""

    @abstractmethod
    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums | None:
        """Read the rows of a marginal table once more; None where that would cost too much.

        See `calibrant._influences`.
        """

    @abstractmethod
    def check_event(self) -> None:
        """Refuse a pos_label that no row has; called when none has been counted."""

    def looks_continuous(self) -> bool:
        """Return whether outputs differ too much for a table of all distinct ones."""
        return False

    def keep_digest(self) -> None:  # noqa: B027
        """Announce that `digest` will be needed: files then compute it as they count."""

    def digest(self) -> str | None:
        """Return the digest that identifies all rows; None where it would cost a pass."""
        return None

    def check_weights(self) -> None:  # noqa: B027
        """Refuse weights that are all 0, before bins are chosen by them."""

    def check_total(self, table: BinTable | Tables) -> None:
        """Refuse the sums of all rows where none of them is the event that pos_label names."""
        if self.problem.pos_label is not None and not table.sum_y.any():
            self.check_event()

    def columns(self) -> Columns:
        """Bring all rows into memory, check every value and return them."""
        return self.in_memory().columns()

    @abstractmethod
    def in_memory(self) -> ArraySource:
        """Return the same rows as arrays, with their groups."""

    def tabulate(self, bins: BinsLike) -> BinTable:
        """Choose bins for all rows, and check and count them."""
        table = self.count(self._chosen(self._rule(bins)))
        self.check_total(table)
        return table

    def tabulate_by(self, bins: BinsLike, shared_bins: bool = True) -> Tables:
        """Choose bins for all rows, or for each group from its own, and check and count them."""
        check_flag("shared_bins", shared_bins)
        rule = self._rule(bins)
        if shared_bins or isinstance(rule, Bins | tuple):
            tables = self.count_by(self._chosen(rule))
        else:
            tables = self.in_memory().tabulate_own(rule)
        self.check_total(tables)
        return tables

    def _chosen(self, rule: _Rule) -> tuple[Bins, ...]:
        self.check_weights()
        if isinstance(rule, tuple):
            return rule
        return (rule,) * self.problem.n_groups if isinstance(rule, Bins) else self.choose(rule)

    def _rule(self, bins: BinsLike) -> _Rule:
        """Read ``bins=``; a quantile has one prediction, its level, and so one bin."""
        per_group = bins_one_by_one(bins, self.problem.n_groups)
        rule: _Rule = per_group or ("auto" if is_auto(bins) else as_bin_rule(bins, 0))
        return ONE_BIN if self.problem.kind == "quantile" and self.has_rows else rule

    def resample(self, bins: tuple[Bins, ...], rng: np.random.Generator) -> BinTable:
        """Draw as many rows as there are, with replacement, and count them."""
        from calibrant.sources.arrays import ArraySource

        columns = self.columns()
        n = len(columns)
        return ArraySource(columns.take(rng.integers(n, size=n))).count(bins)


class TableSource(Source):
    """A table without its rows: it offers nothing but its own sums."""

    has_rows = False

    def __init__(self, table: BinTable) -> None:
        self.problem = table.problem
        self.table = table

    def choose(self, rule: BinRule | Literal["auto"]) -> tuple[Bins, ...]:
        """Return the bins of the table, which no other rule can change."""
        if rule == "auto" or (isinstance(rule, Distinct) and self.table.is_binned_model):
            return self.table.bins
        raise self._other_bins(f"bins={rule!r:.60}")

    def count(self, bins: tuple[Bins, ...]) -> BinTable:
        """Return the table, if these are its bins."""
        if bins == self.table.bins:
            return self.table
        raise self._other_bins("other bins")

    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Refuse: the rows of one table are in no groups."""
        raise InvalidArgumentError(
            "A BinTable does not say which rows belong to which group. Pass the Tables that "
            "tabulate(..., by=) gives, or the rows themselves with by=."
        )

    def in_memory(self) -> ArraySource:
        """Refuse: there are no rows."""
        raise InvalidArgumentError(
            "This needs the predictions and labels themselves; a table holds sums of them "
            f"({self.table.n:,} rows in {describe_bins(self.table)}). Pass y_true and y_prob."
        )

    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> None:
        """Return None: there are no rows to read once more."""

    def check_event(self) -> None:
        """Accept the table: it was checked when it was counted."""

    def _other_bins(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"A table is measured in the bins it was counted in, {describe_bins(self.table)}; got "
            f"{what}. Leave bins= out, or count the rows again."
        )


class TablesSource(TableSource):
    """The sums of groups of rows."""

    def __init__(self, tables: Tables) -> None:
        self.problem, self.by, self.tables = tables.problem, tables.by, tables

    @property
    def table(self) -> BinTable:  # type: ignore[override]
        """The table of all rows; groups must share their bins."""
        return self.tables.pooled()

    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Return the tables, if these are their bins."""
        if self.tables.bins == (bins,):
            return self.tables
        raise self._other_bins("other bins")

    def tabulate_by(self, bins: BinsLike, shared_bins: bool = True) -> Tables:
        """Return the tables, whose bins cannot be changed."""
        return self.tables if is_auto(bins) else super().tabulate_by(bins, shared_bins)


def _read_table(table: Any, beside: dict[str, Any]) -> TableSource:
    """Return the source of a table; refuse arguments that would change its meaning."""
    conflicting = [name for name, value in beside.items() if value is not None]
    if conflicting:
        raise InvalidArgumentError(
            f"A {type(table).__name__} stands in place of labels and predictions and knows what "
            f"they mean; {conflicting[0]}= came beside it. Leave it out, or pass the rows instead."
        )
    return TablesSource(table) if isinstance(table, Tables) else TableSource(table)


def read(
    y_true: Any,
    y_prob: Any = None,
    kind: Kind | None = None,
    input: Input = "probabilities",
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    sample_weight: Any = None,
    data: Any = None,
    by: Any = None,
) -> Source:
    """Read what the user passed; the parameters are those of `calibrant.calibration_error`."""
    meaning: Meaning = {"kind": kind, "input": input, "classes": classes, "pos_label": pos_label}
    if isinstance(y_true, BinSums):  # quicker than to ask for either of the two
        beside = {"y_prob": y_prob, **meaning, "sample_weight": sample_weight}
        beside |= {"input": None if input == "probabilities" else input, "data": data, "by": by}
        return _read_table(y_true, beside)
    if y_prob is None:
        raise InvalidArgumentError(
            "Labels and predictions are both needed, (y_true, y_prob); only "
            f"{type(y_true).__name__} came. Pass the predictions, or a BinTable in place of both."
        )
    if kind is not None:
        check_kind(kind)
    _check_independent(data)
    if is_files(data):
        from calibrant.sources.files import read_files

        return read_files(data, y_true, y_prob, sample_weight, by, **meaning)
    if data is not None:
        from calibrant.sources.frames import read_frame

        return read_frame(data, y_true, y_prob, sample_weight, by, **meaning)
    if getattr(getattr(y_prob, "device", None), "type", "cpu") not in ("cpu", "meta"):
        from calibrant.sources.tensors import read_tensors

        return read_tensors(y_true, y_prob, sample_weight, by, **meaning)
    from calibrant.sources.arrays import ArraySource, read_arrays

    columns = read_arrays(y_true, y_prob, sample_weight=sample_weight, **meaning)
    if by is None:
        return ArraySource(columns)
    from calibrant.sources.groups import read_groups

    return ArraySource(columns, read_groups(by, len(columns)))


def as_log(data: Any) -> LogColumns | None:
    """Return ``data=`` if it is an evaluation log.

    It is recognised by its type: a frame may have a column, and so an attribute, of any name.
    """
    logs = sys.modules.get("calibrant.sources.logs.evaluation")  # else there is no log to come
    return data if logs is not None and isinstance(data, logs.LogColumns) else None


def _check_independent(data: Any) -> None:
    """Refuse a log whose rows are repeated answers to the same questions."""
    log = as_log(data)
    if log is not None and log.is_repeated:
        raise InvalidArgumentError(
            "Rows must be independent here, and this log asked questions several times: answers to "
            "one depend on each other. Use a function that takes cluster= (without by=), read one "
            'epoch (epoch=1) or let the answers vote (confidence="votes"). Where rows are '
            "independent all the same, pass data=dict(log)."
        )


class NamedArrays(NamedTuple):
    """The columns of ``data=`` as they stand, and the names of those of predictions."""

    labels: Any
    predictions: Any
    weights: Any
    names: tuple[str, ...]


def read_named(
    data: Any, y_true: Any, y_prob: Any, sample_weight: Any = None, **meaning: Any
) -> NamedArrays:
    """Bring the named columns into memory, for callers that read arrays themselves.

    `meaning` is kind, input and classes, by which values of files are checked where they stand.
    """
    _check_independent(data)
    if is_files(data):
        from calibrant.sources.files import read_files

        files = read_files(data, y_true, y_prob, sample_weight=sample_weight, **meaning)
        return NamedArrays(*files.arrays(), files.names[1:])
    from calibrant.sources.frames import named_arrays

    return NamedArrays(
        *named_arrays(data, y_true, y_prob, sample_weight, classes=meaning.get("classes"))
    )


def is_files(data: Any) -> bool:
    """Return whether these are paths, patterns, or files that the command line has opened."""
    if data is None or isinstance(data, str | os.PathLike):
        return data is not None
    if isinstance(data, list | tuple) and data:
        return all(isinstance(name, str | os.PathLike) for name in data)
    from calibrant.sources.files import Files

    return isinstance(data, Files)


def in_memory(data: Any, *names: Any) -> Any:
    """Return the data with these columns in memory: a lazy frame is collected, once.

    For callers that read them more than once. Files are left alone: only named columns are read.
    """
    if data is None or is_files(data):
        return data
    from calibrant.sources.frames import collected

    return collected(data, *names)


def check_whole(table: BinTable | Tables) -> None:
    """Refuse the sum of all parts where no row has weight, or none is the event of pos_label."""
    if table.sum_w.sum() == 0 or table.sum_ww.sum() < SMALLEST_SQUARE:
        check_heaviest(float(table.sum_w.max(initial=0.0)))
    event = table.problem.pos_label
    if event is not None and not table.sum_y.any():
        raise absent_event(event, np.empty(0))
