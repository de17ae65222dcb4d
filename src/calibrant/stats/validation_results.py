"""What `calibrant.validate` returns: a table of measures, and one such table for each group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from calibrant._json import plain
from calibrant._results import NumberResult, Result, filled, text_table
from calibrant.exceptions import MissingDependencyError
from calibrant.groups import LINES, GroupKey, GroupLabel, key_of, more_groups, shown_key

Backend: TypeAlias = Literal["pandas", "polars", "pyarrow"]


@dataclass(frozen=True, eq=False, repr=False)
class Measure(NumberResult):
    """One line of a validation.

    Attributes
    ----------
    name, label : str
        Its key, and how it is printed.
    value : float
        NaN where it is not defined, which a note of the validation explains.
    low, high : float
        The confidence interval; NaN for what has none.
    ideal : float
        What a calibrated model has: its true value, or of ICI and its companions, which chance
        makes positive, what it would have on average with as many rows; NaN where neither is known.
    """

    name: str
    label: str
    value: float
    low: float = math.nan
    high: float = math.nan
    ideal: float = math.nan

    def _measure(self) -> str:
        return self.name

    @property
    def interval(self) -> str:
        """The interval as text, or nothing."""
        return "" if math.isnan(self.low) else f"[{_number(self.low)}, {_number(self.high)}]"

    def _summary(self) -> str:
        return f"{self.label} {self.cells[0]} {self.interval}".strip()

    @property
    def cells(self) -> tuple[str, str, str]:
        """What is printed: estimate, interval, and what a calibrated model has."""
        count = self.name in ("n", "events")
        value = f"{self.value:,.0f}" if count else _number(self.value)
        return value, self.interval, "" if math.isnan(self.ideal) else _number(self.ideal)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:z.4f}" if abs(value) < 1000 else f"{value:.4g}"


@dataclass(frozen=True, eq=False, repr=False)
class Validation(Result, Mapping[str, Measure]):
    """Measures of predicted risks with their intervals: a frozen mapping from names to `Measure`.

    Attributes
    ----------
    measures : tuple of Measure
        In the order in which they are printed.
    kind : {"binary", "top-label"}
    confidence_level : float
        Of each interval by itself.
    n_clusters : int or None
    notes : tuple of str
        What must be said beside the numbers.
    """

    measures: tuple[Measure, ...]
    kind: str
    confidence_level: float
    n_clusters: int | None = None
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Measure:
        return {measure.name: measure for measure in self.measures}[name]

    def __iter__(self) -> Iterator[str]:
        return (measure.name for measure in self.measures)

    def __len__(self) -> int:
        return len(self.measures)

    def _head(self) -> tuple[str, ...]:
        level = f"{100 * self.confidence_level:g}% interval"
        return self.kind, "estimate", level, "if calibrated"

    def __str__(self) -> str:
        lines = text_table(self._head(), [(m.label, *m.cells) for m in self.measures])
        return "\n".join([*lines, *(filled(f"- {note}") for note in self._notes())])

    def _notes(self) -> list[str]:
        clusters = [] if self.n_clusters is None else [f"in {self.n_clusters:,} clusters"]
        return [*clusters, *self.notes]

    def _summary(self) -> str:
        shown = ", ".join(str(self[name]) for name in ("oe_ratio", "slope", "c_statistic"))
        return f"{self.kind}, n = {self['n'].value:,.0f}, {shown}"

    def _repr_html_(self) -> str:
        from calibrant._html import element

        rows = [[element("th", text) for text in self._head()]]
        rows += [
            [element("th", m.label), *(element("td", cell) for cell in m.cells)]
            for m in self.measures
        ]
        table = element("table", *(element("tr", *row) for row in rows))
        return f"{table}{''.join(str(element('p', note)) for note in self._notes())}"

    def to_frame(self) -> Any:
        """Return a data frame of one row a measure: of pandas if installed, or Polars or PyArrow.

        `to_dict` needs none of them.
        """
        return _frame(_columns(self))

    def to_latex(self) -> str:
        """Return a LaTeX table of plain rules, which needs no package."""
        return _latex(self._head(), [(m.label, *m.cells) for m in self.measures])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; None for what is infinite or not defined."""
        return {
            "kind": self.kind,
            "confidence_level": self.confidence_level,
            "n_clusters": self.n_clusters,
            "measures": {
                m.name: plain({"value": m.value, "low": m.low, "high": m.high, "ideal": m.ideal})
                for m in self.measures
            },
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False, repr=False)
class GroupValidations(Result, Mapping[GroupKey, Validation]):
    """The validation of each group: a frozen mapping from its key to `Validation`.

    Attributes
    ----------
    by : str
        The columns that tell groups apart.
    labels : tuple
        What they say of each group.
    validations : tuple of Validation
    """

    by: str
    labels: tuple[tuple[GroupLabel, ...], ...]
    validations: tuple[Validation, ...]

    def __getitem__(self, key: GroupKey) -> Validation:
        keys = [key_of(group) for group in self.labels]
        if key not in keys:
            raise KeyError(key)
        return self.validations[keys.index(key)]

    def __iter__(self) -> Iterator[GroupKey]:
        return map(key_of, self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        n = sum(bool(v.notes) for v in self.validations)
        notes = [f"notes on {n:,} of {len(self):,} groups: print them one by one"] if n else []
        lines = text_table(self._head(), self._rows(LINES))
        return "\n".join([*lines, *more_groups(len(self) - LINES), *notes])

    def _head(self) -> tuple[str, ...]:
        return self.by, "rows", "events", "O/E", "slope", "ICI", "C"

    def _rows(self, most: int) -> list[tuple[str, ...]]:
        pairs = zip(self.labels[:most], self.validations[:most], strict=True)
        return [(shown_key(group), *(v[name].cells[0] for name in SHOWN)) for group, v in pairs]

    def _summary(self) -> str:
        return f"{len(self):,} groups by {self.by}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold: one entry for each group."""
        pairs = zip(self.labels, self.validations, strict=True)
        return {
            "by": self.by,
            "groups": [{"group": plain(list(group))} | v.to_dict() for group, v in pairs],
        }

    def to_frame(self) -> Any:
        """Return a data frame of one row a group and measure; see `Validation.to_frame`."""
        columns: dict[str, list[Any]] = {}
        for group, validation in zip(self.labels, self.validations, strict=True):
            part = {"group": [shown_key(group)] * len(validation), **_columns(validation)}
            for name, values in part.items():
                columns.setdefault(name, []).extend(values)
        return _frame(columns)

    def to_latex(self) -> str:
        """Return a LaTeX table of what is printed, of all groups."""
        return _latex(self._head(), self._rows(len(self)))


SHOWN = ("n", "events", "oe_ratio", "slope", "ici", "c_statistic")


def _columns(validation: Validation) -> dict[str, list[Any]]:
    names = ("name", "label", "value", "low", "high", "ideal")
    return {name: [getattr(m, name) for m in validation.measures] for name in names}


def _frame(columns: dict[str, list[Any]]) -> Any:
    from importlib.util import find_spec

    backend: Backend
    for backend in get_args(Backend):
        if find_spec(backend) is not None:
            import narwhals as nw

            return nw.from_dict(columns, backend=backend).to_native()
    raise MissingDependencyError(
        "A data frame needs pandas, Polars or PyArrow; none is installed. Install one of them, or "
        "use to_dict()."
    )


def _latex(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in LaTeX, with its special characters escaped."""
    special = {ord(letter): f"\\{letter}" for letter in "&%$#_{}"}
    special |= {ord("\\"): r"\textbackslash ", ord("^"): r"\^{}", ord("~"): r"\~{}"}
    lines = [" & ".join(cell.translate(special) for cell in row) + r" \\" for row in (head, *rows)]
    first = [rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", r"\hline", lines[0], r"\hline"]
    return "\n".join([*first, *lines[1:], r"\hline", r"\end{tabular}"])
