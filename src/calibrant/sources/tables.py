"""A table counted before, in place of predictions."""

from __future__ import annotations

from typing import Any, Literal, NoReturn

from calibrant._influences import Influence
from calibrant.bins import BinRule, Bins, BinsLike, Distinct, is_auto
from calibrant.exceptions import InvalidArgumentError
from calibrant.sources import Source
from calibrant.table import BinTable, describe_bins
from calibrant.tables import Tables


class TableSource(Source):
    """The sums of rows that are not there: nothing but the table itself can be had of it."""

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

    def in_memory(self) -> NoReturn:
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
        """Return the tables; their bins are what they are."""
        return self.tables if is_auto(bins) else super().tabulate_by(bins, shared_bins)


def read_table(table: BinTable | Tables, beside: dict[str, Any]) -> TableSource:
    """Return the source of a table; refuse what would change what it means."""
    given = [name for name, value in beside.items() if value is not None]
    if given:
        raise InvalidArgumentError(
            f"A {type(table).__name__} stands in place of labels and predictions and knows what "
            f"they mean; {given[0]}= came beside it. Leave it out, or pass the rows instead."
        )
    return TablesSource(table) if isinstance(table, Tables) else TableSource(table)
