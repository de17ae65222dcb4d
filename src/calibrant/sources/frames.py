"""Columns of data frames: arrays where the frame is in memory, queries where it is lazy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, Unpack

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._lazy import nw
from calibrant._types import AnyArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import absent_event
from calibrant.engines.cells import CellSums
from calibrant.engines.frame import FrameEngine, blaming_columns
from calibrant.engines.frame_columns import FrameColumns
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    MissingDependencyError,
)
from calibrant.groups import Factor, GroupColumn, Groups
from calibrant.problem import EVENT_KINDS, Input, Kind, Label, Problem, check_input
from calibrant.sources import Meaning, Source
from calibrant.sources.arrays import ArraySource, for_numpy, read_arrays, refuse_masked
from calibrant.sources.arrow_columns import arrow_values
from calibrant.sources.column_names import (
    check_order,
    is_pattern,
    listed,
    matching,
    paired,
    shown_names,
)
from calibrant.sources.events import check_event_shapes, check_quantile_input
from calibrant.sources.groups import columns_named, series_factor
from calibrant.table import BinTable
from calibrant.tables import Tables

DATASET_READERS = {"duckdb": "from_arrow", "polars": "scan_pyarrow_dataset"}


class FrameSource(Source):
    """Named columns of a lazy frame, counted by the frame's own engine."""

    is_lazy = True

    def __init__(self, columns: FrameColumns) -> None:
        self.problem, self.by = columns.problem, columns.by
        self._columns = columns
        self._known: CellSums | None = None

    def choose(self, rule: BinRule | Literal["auto"]) -> tuple[Bins, ...]:
        """Choose bins by a few queries; the cells that they count may make the table."""
        bins, self._known = FrameEngine().choose(self._columns, rule)
        return bins

    def count(self, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows by one query, or two."""
        return FrameEngine().count(self._columns, bins, self._known).table(self.problem, bins)

    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Check and sum the rows of each group by one query, or two."""
        labels, sums = FrameEngine().count_by(self._columns, bins)
        return Tables.of(self.problem, self.by, labels, (bins,), sums)

    def in_memory(self) -> ArraySource:
        """Collect the named columns, and no others."""
        return self._collected

    @cached_property
    def _collected(self) -> ArraySource:
        columns = self._columns
        with blaming_columns(columns.frame, columns.names):
            eager = columns.frame.select(*columns.names).collect()
        single = self.problem.kind == "binary"
        names = [*columns.beside, *columns.predictions]  # of two, the event's column last
        labels = list(columns.labels) if isinstance(columns.labels, tuple) else columns.labels
        probs = names[0] if single and len(names) == 1 else names
        meaning: Meaning = {
            "kind": self.problem.kind,
            "input": "logits" if columns.are_logits else "probabilities",
            "classes": self.problem.classes,
            "pos_label": self.problem.pos_label,
        }
        by = {column.name: column.cuts for column in columns.by} or None
        return read_frame(eager, labels, probs, columns.weights, by, **meaning).in_memory()

    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums | None:
        """Read the rows of a marginal table once more; None where its engine cannot plan it."""
        return FrameEngine().influence_sums(self._columns, bins, influence)

    def check_event(self) -> None:
        """Refuse a pos_label that no row has."""
        label = self._columns.label_of(0)
        distinct = self._columns.frame.select(nw.col(label)).unique().collect()
        labels = np.asarray(distinct.get_column(label).to_numpy())
        event = self.problem.pos_label
        if event is not None and not (self.problem.codes(labels) == 1).any():
            raise absent_event(event, labels)


def read_frame(
    data: Any,
    y_true: Any,
    y_prob: Any,
    sample_weight: Any = None,
    by: Any = None,
    **meaning: Unpack[Meaning],
) -> Source:
    """Read column names: arrays from a frame in memory, and queries of a lazy one.

    A name that is not a column may be a pattern, ``"prob_*"``, which stands for several.
    """
    kind, classes = meaning.get("kind"), meaning.get("classes")
    frame = _wrapped(data)
    grouping = () if by is None else columns_named(by)
    known = _names(frame)
    y_true, y_prob = _expanded(y_true, y_prob, known, kind)
    marks, names = listed(y_true), listed(y_prob)
    check_order(marks, names, kind, classes)
    if len(marks) > 1 and kind not in EVENT_KINDS:
        raise InvalidLabelsError(
            f"y_true must be one column of labels; got {len(marks)}: {_shown(marks)}. Pick one; "
            'where a row may have several labels, pass kind="multi-label".'
        )
    if not _is_lazy(frame):
        labels, probs = _column(frame, y_true), _column(frame, y_prob)
        weights = None if sample_weight is None else _column(frame, sample_weight)
        arrays = read_arrays(labels, probs, sample_weight=weights, **meaning)
        values = [_group_column(frame, column) for column in grouping]
        source: Source = ArraySource(arrays, None if by is None else Groups.of(grouping, values))
        source.names = shown_names(y_true, y_prob)
        return source
    input: Input = meaning.get("input", "probabilities")
    check_input(input)
    beside = [*([] if sample_weight is None else [sample_weight]), *(x.name for x in grouping)]
    for name in [*marks, *names, *beside]:
        refuse_pattern(known_column(name, known))
    if kind in EVENT_KINDS:
        # a row of each, to check how many columns there are
        row_y, row_p = (np.empty((1, len(x)) if len(x) > 1 else 1) for x in (marks, names))
        check_event_shapes(row_y, row_p, kind)
        if kind == "quantile":
            check_quantile_input(input)
    problem, column = Problem.of((1, len(names)), kind, classes, meaning.get("pos_label"))
    used = tuple(names) if column is None else (names[column],)
    beside_event = () if column is None else tuple(names[:column] + names[column + 1 :])
    logits = input == "logits"
    alone = len(marks) == 1 and (kind != "multi-label" or len(names) == 1)
    y_true = marks[0] if alone else tuple(marks)
    source = FrameSource(
        FrameColumns(frame, problem, y_true, used, sample_weight, beside_event, logits, grouping)
    )
    source.names = shown_names(y_true, y_prob)
    return source


def _expanded(y_true: Any, y_prob: Any, known: list[Any], kind: Kind | None) -> tuple[Any, Any]:
    """Return lists of names for patterns; labels and predictions of one name belong together."""
    for option, value in (("y_true", y_true), ("y_prob", y_prob)):
        if isinstance(value, list | tuple) and not value:
            raise InvalidArgumentError(
                f"With data=, {option} must name a column, or several; got {value!r}. The columns "
                f"are {_shown(known)}."
            )
    several = kind == "multi-label" and is_pattern(y_true, known)
    labels = matching(y_true, known) if several else y_true
    if not is_pattern(y_prob, known):
        return labels, y_prob
    label_names = labels if several else [y_true]
    names = [name for name in matching(y_prob, known) if name not in label_names]
    return labels, paired(labels, names, y_true, y_prob) if several else names


def named_arrays(
    data: Any, y_true: Any, y_prob: Any, sample_weight: Any, classes: Sequence[Label] | None = None
) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """Return the named columns as arrays, and the names of predictions; lazy data are collected."""
    y_true, y_prob = _expanded(y_true, y_prob, _names(_wrapped(data)), None)
    check_order(listed(y_true), listed(y_prob), None, classes)
    weights = [] if sample_weight is None else [sample_weight]
    columns = _wrapped(collected(data, y_true, y_prob, *weights))
    arrays = [_column(columns, name) for name in (y_true, y_prob, *weights)]
    return arrays[0], arrays[1], arrays[2] if weights else None, shown_names(y_true, y_prob)[1:]


def collected(data: Any, *names: Any) -> Any:
    """Return the data with these columns in memory: a lazy frame is collected, once."""
    frame = _wrapped(data)
    if not _is_lazy(frame):
        return data
    flat = [name for group in names for name in listed(group)]
    known = frame.collect_schema().names()
    for name in flat:
        refuse_pattern(known_column(name, known))
    used = list(dict.fromkeys(flat))
    with blaming_columns(frame, used):
        return frame.select(*used).collect()


def as_frame(data: Any) -> Any:
    """Wrap any data frame with narwhals; raise InvalidArgumentError for anything else."""
    module = type(data).__module__
    if module.startswith("pyarrow.") and hasattr(data, "to_batches") and hasattr(data, "scanner"):
        data = _scanned(data)
    try:
        return nw.from_native(data)
    except TypeError as error:
        raise InvalidArgumentError(
            "data must be a data frame (pandas, Polars, PyArrow, DuckDB, Dask, Spark, Ibis, ...) "
            f"or a dict of columns; got {type(data).__name__}."
        ) from error
    except nw.exceptions.DuplicateError as error:
        repeated = ", ".join(str(error).split("\n- ")[1:])
        raise InvalidArgumentError(
            f"Columns of a data frame need names of their own; got {repeated:.100}. Rename them, "
            "or leave out those that are not used."
        ) from error


def _wrapped(data: Any) -> Any:
    return data if isinstance(data, Mapping) else as_frame(data)


def _scanned(dataset: Any) -> Any:
    """Let DuckDB, or else Polars, scan a PyArrow dataset: PyArrow alone has no lazy frames."""
    failed = ""
    for package, reader in DATASET_READERS.items():
        try:
            return getattr(import_module(package), reader)(dataset)
        except ImportError:
            continue
        except Exception as error:  # as DuckDB's of float16
            failed += f" {package}: {' '.join(str(error).split()):.200}."
    if failed:
        raise InvalidInputError(
            f"This PyArrow dataset cannot be scanned.{failed} Cast columns of such types, as "
            "float16 to float32, or pass the table."
        )
    raise MissingDependencyError(
        "A PyArrow dataset is scanned by DuckDB or Polars, and neither is installed: "
        "pip install 'calibrant[duckdb]'."
    )


def _names(data: Any) -> list[Any]:
    """Return the names of all columns, of whatever type."""
    if isinstance(data, Mapping):
        return list(data)
    return list(data.collect_schema() if _is_lazy(data) else data.columns)


def _is_lazy(frame: Any) -> bool:
    return not isinstance(frame, Mapping) and isinstance(frame, nw.LazyFrame)


def _column(data: Any, name: Any) -> AnyArray:
    """Return the named column in memory, or a list of columns as the columns of a table."""
    if isinstance(name, list | tuple):
        return np.column_stack([_column(data, column) for column in name])
    if isinstance(data, Mapping):
        values = data[known_column(name, list(data))]
        refuse_masked(values, repr(name))
        return np.asarray(for_numpy(values))
    series = data.get_column(known_column(name, data.columns))
    arrow = arrow_values(series.to_native())
    array: AnyArray = series.to_numpy() if arrow is None else np.asarray(for_numpy(arrow))
    return array


def _group_column(data: Any, column: GroupColumn) -> AnyArray | Factor:
    """Return a column of groups in memory, or its codes if its own package has them."""
    name = known_column(column.name, _names(data))
    values = data[name] if isinstance(data, Mapping) else data.get_column(name)
    factor = series_factor(column, values)
    return _column(data, name) if factor is None else factor


def known_column(name: Any, columns: list[Any]) -> Any:
    """Return the name of a column; raise InvalidArgumentError if there is no such column."""
    with suppress(TypeError):  # of what has no hash, as series and expressions
        if name in dict.fromkeys(columns):
            return name
    came = " ".join(repr(name).split())  # a series has many lines
    raise InvalidArgumentError(
        f"With data=, columns are given by name; there is no column {came:.60} among "
        f"{_shown(columns)}."
    )


def _shown(columns: list[Any]) -> str:
    return ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")


def is_text_column(data: Any, name: Any) -> bool:
    """Return whether a column holds text, or objects that may be text."""
    if isinstance(data, Mapping):
        return np.asarray(data[known_column(name, list(data))]).dtype.kind in "OUST"
    schema = as_frame(data).collect_schema()
    text = (nw.String, nw.Categorical, nw.Enum, nw.Object)
    return isinstance(schema[known_column(name, schema.names())], text)


def takes_patterns(frame: Any) -> bool:
    """Return whether a frame's engine would take some names for patterns of columns."""
    return _is_lazy(frame) or bool(frame.implementation.is_polars())


def refuse_pattern(name: Any) -> None:
    """Refuse a name by which some engine would select several columns."""
    if name == "*" or (isinstance(name, str) and name.startswith("^") and name.endswith("$")):
        raise InvalidArgumentError(
            f"An expression takes the name {name!r:.60} for a pattern of columns, so this column "
            "of the frame cannot be named. Rename it first."
        )
