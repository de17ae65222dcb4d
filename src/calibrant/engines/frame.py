"""Lazy frames (Polars, DuckDB, Dask, Spark, Ibis, a PyArrow dataset), counted by their own engine.

Each pass is one plan of group-by aggregations, and only its result, a row or two for each cell, is
collected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._lazy import nw
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import LARGEST_WEIGHT, check_heaviest
from calibrant.engines.cells import CellSums
from calibrant.engines.frame_columns import (
    LABEL_MISSING,
    LABEL_UNKNOWN,
    PROB_MISSING,
    PROB_OUTSIDE,
    WEIGHT_ZERO,
    FrameColumns,
)
from calibrant.engines.frame_plan import (
    FOLDED,
    INFLUENCE_SUMS,
    LINEAR_BITS,
    Grid,
    Pass,
    key_size,
    plan_influences,
    plan_sums,
)
from calibrant.engines.search import BinSearch, GridCells
from calibrant.exceptions import (
    CalibrantError,
    EmptyInputError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.groups import Factor, GroupColumn, GroupLabel, Groups, outside_cuts

Labels = tuple[GroupLabel, ...]
Numbering = dict[Labels, int]
"""The number of each group met so far."""

LISTED_ROWS = 1 << 21
"""At most this many rows are listed by value rather than counted once more: "auto" then needs two
passes up to 100 million rows. What is collected is at most about 100 MB."""
MOST_PASSES, BITS_A_PASS = 4, 12
"""A pass reads all data, so few and fine ones; the fourth lists whatever is left."""
GROUPS_A_PLAN = 64
"""More classes are counted by several plans, because planning slows down faster than counting."""
COMPARED_BINS = 16
"""Up to this many irregular bins are found in one pass, by comparing with every edge. Affects speed
only."""
MOST_STEPS = 5_000
"""Bins of all classes in one query: each is a comparison to plan. Where there are more, intervals
are those that a table alone gives, which are wider."""


class FrameEngine:
    """Counts lazy frames by group-by, all groups in one plan."""

    def choose(
        self, columns: FrameColumns, rule: BinRule | Literal["auto"]
    ) -> tuple[tuple[Bins, ...], CellSums]:
        """Let the rule choose bins for each group; return them and all cells that were counted.

        Where none of the cells is cut by the bins, the table is their sum and needs no other pass.
        """
        n_groups = columns.problem.n_groups
        search = BinSearch(
            rule,
            n_groups,
            listed_rows=LISTED_ROWS,
            step=BITS_A_PASS,
            most_passes=MOST_PASSES,
            extra_bits=2 if n_groups == 1 else 0,
        )
        settled, n_rows = [], 0
        while search.queries:
            passes = {group: Pass.of(query) for group, query in search.queries.items()}
            sums, n = _count(columns, passes)
            n_rows = n_rows or n  # later passes do not look at all rows
            group_sums = {group: sums.take(sums.group == group) for group in passes}
            counts = {
                group: GridCells(x.number, x.mass, x.sums["count"], x.low, x.high)
                for group, x in group_sums.items()
            }
            search.answer(n_rows, counts)
            replaced = np.zeros(sums.group.size, np.bool_)  # by cells that the next queries count
            for group, query in search.queries.items():
                replaced |= (sums.group == group) & np.isin(sums.number, query.within[-1][1])
            settled.append(sums.take(~replaced))
        return search.bins(), CellSums.joined(settled)

    def count(
        self, columns: FrameColumns, bins: tuple[Bins, ...], known: CellSums | None = None
    ) -> CellSums:
        """Check and sum the rows in cells that each lie in one bin.

        Those that are `known` from choosing bins serve if no bin cuts them; otherwise cells that
        are cut are counted in a second pass.
        """
        if known is not None and not known.cut_by(bins).any():
            return known
        return _count_bins(columns, bins, None)

    def count_by(
        self, columns: FrameColumns, bins: tuple[Bins, ...]
    ) -> tuple[list[Labels], dict[str, FloatArray]]:
        """Check and sum the rows of each group; return labels of groups and stacked sums."""
        numbering: Numbering = {}
        sums = _count_bins(columns, bins, numbering)
        return list(numbering), sums.stacked(bins, len(numbering))

    def influence_sums(
        self, columns: FrameColumns, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums | None:
        """Ask for the sums in one query; None if it has too many steps for the engine to plan."""
        if sum(map(len, bins)) > MOST_STEPS:
            return None
        try:
            sums = collected(plan_influences(columns, [x.edges for x in bins], influence))
        except Exception:  # whatever an engine raises whose planner gives up
            return None
        return InfluenceSums(*(float(sums[name][0]) for name in INFLUENCE_SUMS))


def _first_pass(bins: Bins) -> Pass:
    """Group by cells that nearly are the bins, or so fine that few rows are in a cut one."""
    n = len(bins)
    if np.array_equal(bins.edges, np.arange(n + 1) / n):
        return Pass(Grid(float(n)))
    if n <= COMPARED_BINS:
        return Pass(Grid(1.0), edges=bins.edges[1:-1])
    return Pass(Grid.of_bits(min(max(math.ceil(math.log2(32 * n)), 10), LINEAR_BITS)))


def _count_bins(
    columns: FrameColumns, bins: tuple[Bins, ...], numbering: Numbering | None
) -> CellSums:
    """Sum the rows in cells that nearly are the bins, and those of cut cells once more."""
    passes = {group: _first_pass(group_bins) for group, group_bins in enumerate(bins)}
    sums, _ = _count(columns, passes, numbering)
    cut = sums.cut_by(bins)
    again: dict[int, Pass] = {}
    if not cut.any():
        return sums
    for group, first in passes.items():  # a cell that is cut in one group of rows is in all
        of_group = sums.group % len(bins) == group
        cut[of_group] |= np.isin(sums.number[of_group], sums.number[of_group & cut])
        inside, inner = sums.take(of_group & cut), bins[group].edges[1:-1]
        if inside.number.size and first.grid is not None:  # parted at the edges within them
            ends = zip(inside.low, inside.high, strict=True)
            within = [inner[(a <= inner) & (inner < b)] for a, b in ends]
            cells = ((first.grid, np.unique(inside.number)),)
            again[group] = Pass(first.grid, cells, np.unique(np.concatenate(within)))
    finer, _ = _count(columns, again, numbering)
    return CellSums.joined([sums.take(~cut), finer])


def _count(
    columns: FrameColumns, passes: dict[int, Pass], numbering: Numbering | None = None
) -> tuple[CellSums, int]:
    """Make one pass over each of these groups; return also how many rows it looked at.

    With a numbering, rows are counted by the groups of ``by=``, each of which gets a number.
    """
    groups = list(passes)
    parts = [groups[i : i + GROUPS_A_PLAN] for i in range(0, len(groups), GROUPS_A_PLAN)]
    counted = [_count_part(columns, {g: passes[g] for g in part}, numbering) for part in parts]
    return CellSums.joined([sums for sums, _ in counted]), counted[0][1]


def _count_part(
    columns: FrameColumns, passes: dict[int, Pass], numbering: Numbering | None
) -> tuple[CellSums, int]:
    """Run one plan; refuse the rows if a key marks bad ones."""
    by = [] if numbering is None else columns.group_names
    with blaming_columns(columns.frame, columns.names):
        sums = _collected_quickly(columns, passes, by)
        if sums is None:
            sums = collected(plan_sums(columns, passes, by=bool(by)), by)
    if sums["count"].size == 0:
        raise EmptyInputError("The data frame has no rows to count; at least one is needed.")
    key = sums.pop("key")
    group = sums.pop("group", np.full(key.size, min(passes))).astype(np.intp)
    n_rows = int(sums["count"][group == group[0]].sum())
    if (bad := (key < 0) & (key != WEIGHT_ZERO)).any():
        _explain(columns, group[bad], key[bad], sums["count"][bad])
    if (key < 0).all():
        check_heaviest(0.0)
    if "heaviest" in sums:
        heaviest = sums.pop("heaviest").max()
        if not any(pass_.within for pass_ in passes.values()):  # else not all rows were seen
            check_heaviest(heaviest)
    if numbering is not None:
        codes = _numbers(columns.by, [sums.pop(name) for name in by], sums["count"], numbering)
        group = group + columns.problem.n_groups * codes
    number = key
    if "sum_y" not in sums:
        number, side = (key, sums.pop("side")) if "side" in sums else np.divmod(key, 2)
        sums["sum_y"] = side * sums.get("sum_w", sums["count"])
        sums["sum_py"] = side * sums["sum_p"]
    used = key >= 0
    arrays = {name: values[used] for name, values in sums.items()}
    ends = (arrays.pop("low"), arrays.pop("high"))
    return CellSums.of_parts(group[used], number[used], *ends, arrays), n_rows


def _collected_quickly(
    columns: FrameColumns, passes: dict[int, Pass], by: list[str]
) -> dict[str, AnyArray] | None:
    """Run a quick plan; return None if there are bad rows, or the engine gains nothing.

    Polars evaluates every branch of every row; so it is asked only whether rows are bad, and a
    second time for the reason. Rows of weight 0 are bad rows to it.
    """
    if not columns.frame.implementation.is_polars() or columns.weights is not None:
        return None
    size = key_size(columns, passes) if by else None
    sums = collected(plan_sums(columns, passes, by=bool(by), quick=True), by)
    if size is not None:
        number, key = np.divmod(sums["key"].astype(np.int64), size)
        sums["key"] = key - 1.0
        labels = number.astype(object)
        labels[number == FOLDED] = None
        sums[by[0]] = labels
    return None if (sums["key"] < 0).any() else sums


def _numbers(
    by: tuple[GroupColumn, ...], columns: list[AnyArray], count: FloatArray, numbering: Numbering
) -> IntArray:
    """Return the number of each row's group; new ones are added to the numbering."""
    factors: list[AnyArray | Factor] = []
    for column, values in zip(by, columns, strict=True):
        if column.cuts is None:
            factors.append(values)
            continue
        interval = np.asarray(values, np.float64)
        if (outside := interval < 0).any():
            raise outside_cuts(column, int(count[outside].sum()), "rows of the lazy frame")
        labels = [*column.intervals, None]
        codes = np.where(np.isnan(interval), len(labels) - 1, interval).astype(np.intp)
        factors.append((codes, labels))
    groups = Groups.of(by, factors)
    place = [numbering.setdefault(labels, len(numbering)) for labels in groups.labels]
    return np.array(place, np.intp)[groups.codes]


def collected(lazy: Any, by: Sequence[str] = ()) -> dict[str, AnyArray]:
    """Collect a group-by as columns of floats, and those of groups as they are.

    Polars collects in its engine that streams.
    """
    streaming = {"engine": "streaming"} if lazy.implementation.is_polars() else {}
    eager = lazy.collect(**streaming)
    columns = {name: eager.get_column(name) for name in eager.columns}
    return {
        name: _group_values(column) if name in by else np.asarray(column.to_numpy(), np.float64)
        for name, column in columns.items()
    }


def _group_values(column: Any) -> AnyArray:
    """Return a column of groups as objects, or NumPy's times if finer than Python's."""
    if column.dtype == nw.Datetime("ns"):
        return np.asarray(column.to_numpy())
    return np.asarray(column.to_list(), object)


def _explain(
    columns: FrameColumns, group: IntArray, key: FloatArray, count: FloatArray
) -> NoReturn:
    """Raise the exception that names the column and counts its bad rows."""
    code = key.max()
    first = group[key == code].min()
    rows = f"{int(count[(key == code) & (group == first)].sum()):,} rows"
    if code in (LABEL_MISSING, LABEL_UNKNOWN):
        label = columns.label_of(first)
        if columns.problem.kind == "quantile" and code == LABEL_UNKNOWN:
            raise InvalidLabelsError(
                f"Outcomes in column {label!r} must be finite, and the quantiles of a row neither "
                f"missing nor falling as their level rises; {rows} are not like that. Put the "
                "columns in the order of classes=, sort single rows that cross, and drop rows of "
                "missing values first."
            )
        what = "is missing in" if code == LABEL_MISSING else "is not among the classes in"
        if columns.problem.kind == "multi-label" and code == LABEL_UNKNOWN:
            what = "must be 0 or 1, and is not in"
        raise InvalidLabelsError(
            f"The label in column {label!r} {what} {rows}. "
            "Name the labels with classes= or pos_label=, or drop these rows first."
        )
    if code in (PROB_MISSING, PROB_OUTSIDE):
        kind = columns.problem.kind
        several = kind in ("top-label", "ordinal") or (columns.are_logits and kind != "multi-label")
        named = columns.predictions if several else columns.predictions[first : first + 1]
        named += columns.beside
        shown = ", ".join(map(repr, named[:6]))
        if columns.are_logits:
            raise InvalidProbabilitiesError(
                f"Logits in column {shown} must be numbers of which a softmax can be taken; "
                f"{rows} are {'missing' if code == PROB_MISSING else 'NaN or infinite'}. "
                "Drop or mend these rows first."
            )
        what = "missing" if code == PROB_MISSING else "NaN or outside [0, 1]"
        if kind == "ordinal":
            what += ", or do not add up to 1"
        raise InvalidProbabilitiesError(
            f"Predictions in column {shown} must lie in [0, 1]; {rows} are {what}. Drop or impute "
            'missing rows first; pass input="logits" if these are logits.'
        )
    raise InvalidWeightsError(
        f"Weights in column {columns.weights!r} must be finite, not negative and at most "
        f"{LARGEST_WEIGHT:g}; {rows} are not. "
        "Drop these rows, or divide all weights by the largest."
    )


@contextmanager
def blaming_columns(frame: Any, names: Iterable[str]) -> Iterator[None]:
    """Name the column that an engine cannot read, whatever the engine itself says.

    Only after a failure is each column asked for alone, and none is blamed if not even the rows
    can be counted: then the frame is at fault, and its own exception tells more.
    """
    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        bad = [] if _fails(frame, nw.len()) else [n for n in names if _fails(frame, nw.col(n))]
        if not bad:  # DuckDB reads no float16 of Arrow's, and Ibis says that of every column
            schema = frame.collect_schema()
            bad = [n for n in schema if str(schema[n]) == "Float16"]
        if not bad:
            raise
        reason = " ".join(str(error).split())
        raise InvalidInputError(
            f"The engine of the lazy frame cannot read column {bad[0]!r:.60}: {reason:.200}. "
            "If the name is at fault, rename the column first; if the type is, convert it."
        ) from error


def _fails(frame: Any, expression: Any) -> bool:
    try:
        frame.select(expression.alias("asked")).head(1).collect()
    except Exception:
        return True
    return False
