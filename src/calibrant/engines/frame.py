"""Columns of data frames, of any library that narwhals knows.

Frames in memory give their columns to the array engines. Lazy ones (Polars LazyFrame, DuckDB
relation, Dask data frame) are counted where they are: each pass is one group-by of elementary
aggregations, and only its result, a row for each bin, is collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from calibrant._types import AnyArray, FloatArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.engines.plans import Plan
from calibrant.engines.refine import Cells, Values, Within, values_near_quantiles
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.problem import Kind, Label, Problem, Rows, read_rows
from calibrant.table import BinTable, unit_weight_sums

LISTED_ROWS = 1 << 18


class FrameRows(Rows):
    """Named columns of a lazy frame, of which nothing has been computed yet.

    The engine sees the frame. Whoever asks for arrays, as a bootstrap of rows does, gets them: the
    named columns, and no others, are collected then.
    """

    def __init__(
        self, problem: Problem, frame: Any, labels: str, probs: tuple[str, ...], weights: str | None
    ) -> None:
        names = {"labels": labels, "probs": probs, "weights": weights}
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "names", names)

    frame: Any
    names: dict[str, Any]

    def __len__(self) -> int:
        return self._n

    @cached_property
    def _n(self) -> int:
        import narwhals as nw

        return int(self.frame.select(nw.len().alias("n")).collect()["n"].to_list()[0])

    def __getattr__(self, name: str) -> Any:
        if name not in ("labels", "probs", "weights"):
            raise AttributeError(name)
        return getattr(self._collected, name)

    @cached_property
    def _collected(self) -> Rows:
        label, probs, weight = self.names["labels"], self.names["probs"], self.names["weights"]
        eager = self.frame.select(*dict.fromkeys([label, *probs, *([weight] if weight else [])]))
        eager = eager.collect()
        single = self.problem.kind == "binary"
        return read_rows(
            _column(eager, label),
            _column(eager, probs[0] if single else list(probs)),
            kind=self.problem.kind,
            classes=self.problem.classes,
            pos_label=self.problem.pos_label,
            sample_weight=None if weight is None else _column(eager, weight),
        )


def read_frame(
    data: Any,
    y_true: Any,
    y_prob: Any,
    *,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    sample_weight: Any = None,
) -> Rows:
    """Read column names: arrays from a frame in memory, and a plan from a lazy one."""
    given: dict[str, Any] = {"kind": kind, "classes": classes, "pos_label": pos_label}
    frame = None if isinstance(data, Mapping) else _as_frame(data)
    if frame is None or not _is_lazy(frame):
        source = data if frame is None else frame
        weights = None if sample_weight is None else _column(source, sample_weight)
        labels, probs = _column(source, y_true), _column(source, y_prob)
        return read_rows(labels, probs, sample_weight=weights, **given)
    names = list(y_prob) if isinstance(y_prob, list | tuple) else [y_prob]
    columns = frame.collect_schema().names()
    for name in [y_true, *names, *([] if sample_weight is None else [sample_weight])]:
        _known(name, columns)
    places = read_rows(np.array([None]), np.arange(len(names))[None, :], **given)
    used = tuple(names[i] for i in np.ravel(places.probs))
    return FrameRows(places.problem, frame, y_true, used, sample_weight)


class FrameEngine:
    """Counts lazy frames by group-by, one for each group and pass."""

    def choose_bins(self, rows: FrameRows, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        return tuple(
            rule.choose(*_seen_by(rule, rows, group)) for group in range(rows.problem.n_groups)
        )

    def tabulate(self, rows: FrameRows, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        parts = [_tally(rows, group, each) for group, each in enumerate(bins)]
        shape = (len(bins), max(map(len, bins)))
        sums = {name: np.zeros(shape) for name in parts[0]}
        sums["level"][:] = np.nan
        for group, part in enumerate(parts):
            for name, values in part.items():
                sums[name][group, : values.size] = values
        level = sums.pop("level")
        if rows.names["weights"] is None:
            sums |= unit_weight_sums(**sums)
        elif not sums["sum_w"].any():
            raise InvalidWeightsError("sample_weight must not be zero on every row.")
        return BinTable(rows.problem, bins, **sums, level=level)


def _tally(rows: FrameRows, group: int, bins: Bins) -> dict[str, FloatArray]:
    """Return the sums of one group, by bin."""
    plan = _plan(rows, group)
    by_value = bins.rule == "distinct-value"
    found = _collected(plan.sums_by_value() if by_value else plan.sums_by_bin(bins), rows)
    place = bins.index(found["key"]) if by_value else found["key"].astype(np.intp)
    sums = {
        name: np.bincount(place, found[name], len(bins)).astype(np.float64)
        for name in found
        if name not in ("key", "low", "high")
    }
    low, high = np.full(len(bins), np.inf), np.full(len(bins), -np.inf)
    np.minimum.at(low, place, found["low"])
    np.maximum.at(high, place, found["high"])
    return sums | {"level": np.where(low == high, low, np.nan)}


def _seen_by(rule: BinRule, rows: FrameRows, group: int) -> Values:
    """Return distinct values and masses: all, or those that decide where the rule cuts."""
    plan = _plan(rows, group)

    mass = "count" if rows.names["weights"] is None else "sum_w"

    def count(bits: int, within: Within | None) -> Cells:
        found = _collected(plan.cells(bits, within), rows)
        return Cells(*(found[name] for name in ("key", mass, "count", "low", "high")))

    def listed(within: Within | None) -> Values:
        found = _collected(plan.masses(within), rows)
        order = np.argsort(found["key"])
        return found["key"][order], found[mass][order]

    if type(rule) is EqualMass:
        return values_near_quantiles(rule.n_bins, count, listed, LISTED_ROWS)
    return listed(None)


def _plan(rows: FrameRows, group: int) -> Plan:
    return Plan(rows.frame, rows.problem, **rows.names, group=group)


def _collected(lazy: Any, rows: FrameRows) -> dict[str, FloatArray]:
    """Collect a group-by as columns; refuse it if a key tells of bad rows."""
    eager = lazy.collect()
    found = {
        name: np.asarray(eager.get_column(name).to_numpy(), np.float64) for name in eager.columns
    }
    if found["key"].size == 0:
        raise EmptyInputError("The data frame has no rows to count; at least one is needed.")
    bad = found["key"] < 0
    if bad.any():
        _explain(rows, dict(zip(found["key"][bad], found["count"][bad], strict=True)))
    return found


def _explain(rows: FrameRows, counts: dict[float, float]) -> NoReturn:
    """Raise the exception that names the column and counts its bad rows."""
    code = max(counts)
    found = f"{int(counts[code]):,} rows"
    label, probs, weight = (rows.names[name] for name in ("labels", "probs", "weights"))
    if code in (-1, -2):
        what = "is missing in" if code == -1 else "is not among the classes in"
        raise InvalidLabelsError(
            f"The label in column {label!r} {what} {found}. "
            "Name the labels with classes= or pos_label=, or drop these rows first."
        )
    if code in (-3, -4):
        what = "missing" if code == -3 else "NaN or outside [0, 1]"
        raise InvalidProbabilitiesError(
            f"Predictions in column {', '.join(map(repr, probs[:6]))} must lie in [0, 1]; {found} "
            f"are {what}. Drop or impute missing rows first; apply a sigmoid or softmax to logits."
        )
    raise InvalidWeightsError(
        f"Weights in column {weight!r} must be finite and not negative; {found} are not."
    )


def _as_frame(data: Any) -> Any:
    import narwhals as nw

    try:
        return nw.from_native(data)
    except TypeError as error:
        raise InvalidArgumentError(
            "data must be a data frame (pandas, Polars, PyArrow, DuckDB, Dask, ...) or a dict of "
            f"columns; got {type(data).__name__}."
        ) from error


def _is_lazy(frame: Any) -> bool:
    import narwhals as nw

    return isinstance(frame, nw.LazyFrame)


def _column(data: Any, name: Any) -> AnyArray:
    """Return the named column in memory, or a list of columns as the columns of a table."""
    if isinstance(name, list | tuple):
        return np.column_stack([_column(data, each) for each in name])
    if isinstance(data, Mapping):
        return np.asarray(data[_known(name, list(data))])
    array: AnyArray = data.get_column(_known(name, data.columns)).to_numpy()
    return array


def _known(name: Any, columns: list[Any]) -> Any:
    if name in columns:
        return name
    shown = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
    raise InvalidArgumentError(
        f"With data=, columns are given by name; there is no column {name!r:.60} among {shown}."
    )
