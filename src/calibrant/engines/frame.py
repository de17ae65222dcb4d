"""Data frames of any library that narwhals knows, counted where they are.

Frames in memory give their columns to the array engines. Lazy ones (Polars, DuckDB, Dask, Spark,
Ibis, a PyArrow dataset) are counted by their own engine: each pass is one plan of group-by
aggregations, and only its result, a row or two for each cell, is collected.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.engines.counted import Counted
from calibrant.engines.frame_rows import FrameRows, blaming_columns, read_frame
from calibrant.engines.lockstep import quantile_values
from calibrant.engines.plans import (
    INFLUENCE_SUMS,
    LABEL_MISSING,
    LABEL_UNKNOWN,
    LINEAR_BITS,
    PROB_MISSING,
    PROB_OUTSIDE,
    WEIGHT_ZERO,
    Columns,
    Grid,
    Pass,
)
from calibrant.exceptions import (
    EmptyInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.problem import LARGEST_WEIGHT, check_heaviest
from calibrant.table import BinTable

__all__ = ["FrameEngine", "FrameRows", "read_frame"]

LISTED_ROWS = 1 << 20
GROUPS_A_PLAN = 64
"""More classes are counted by several plans, because planning slows down faster than counting."""
COMPARED_BINS = 16
"""So few irregular bins are found by comparing with every edge, in one pass."""


MOST_STEPS = 5_000
"""Bins of all classes in one query: each is a comparison to plan. Where there are more, intervals
are those that a table alone gives, which are wider."""


class FrameEngine:
    """Counts lazy frames by group-by, all groups in one plan."""

    def choose_bins(self, rows: FrameRows, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        n_groups = rows.problem.n_groups

        def count(passes: dict[int, Pass]) -> Counted:
            return _count(rows, passes)

        if type(rule) is EqualMass:
            few = LISTED_ROWS / n_groups
            seen, counted = quantile_values(n_groups, rule.n_bins, few, count)
        else:
            counted = count(dict.fromkeys(range(n_groups), Pass(None)))
            groups = (counted.take(counted.group == group) for group in range(n_groups))
            seen = [(each.number, each.mass) for each in groups]
        rows.remember(counted)
        return tuple(rule.choose(*values) for values in seen)

    def tabulate(self, rows: FrameRows, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        counted = rows.counted
        if counted is None or counted.cut_by(bins).any():
            counted = _count_in(rows, bins)
        return counted.table(rows.problem, bins)

    def influence_sums(
        self, rows: FrameRows, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums | None:
        """Ask for the sums in one query; none if it has too many steps for the engine to plan."""
        if sum(map(len, bins)) > MOST_STEPS:
            return None
        columns = Columns(rows.frame, rows.problem, **rows.names)
        try:
            found = _collected(columns.influences([each.edges for each in bins], influence))
        except Exception:  # whatever an engine raises whose planner gives up
            return None
        return InfluenceSums(*(float(found[name][0]) for name in INFLUENCE_SUMS))


def _count_in(rows: FrameRows, bins: tuple[Bins, ...]) -> Counted:
    """Count cells of which each lies in one bin: in a second pass those that do not by nature."""
    passes = {group: _first_pass(each) for group, each in enumerate(bins)}
    counted = _count(rows, passes)
    cut = counted.cut_by(bins)
    if not cut.any():
        return counted
    parted = counted.take(cut)
    again = {g: _second_pass(passes[g], parted.take(parted.group == g), bins[g]) for g in passes}
    wanted = {g: each for g, each in again.items() if each is not None}
    return Counted.joined([counted.take(~cut), _count(rows, wanted)])


def _first_pass(bins: Bins) -> Pass:
    """Group by cells that nearly are the bins, or so fine that few rows are in a cut one."""
    n = len(bins)
    if np.array_equal(bins.edges, np.arange(n + 1) / n):
        return Pass(Grid(float(n)))
    if n <= COMPARED_BINS:
        return Pass(Grid(1.0), edges=bins.edges[1:-1])
    return Pass(Grid.of_bits(min(max(math.ceil(math.log2(32 * n)), 10), LINEAR_BITS)))


def _second_pass(first: Pass, cut: Counted, bins: Bins) -> Pass | None:
    """Part the cut cells at the edges within them."""
    if cut.number.size == 0 or first.grid is None:
        return None
    inner = bins.edges[1:-1]
    within = [inner[(a <= inner) & (inner < b)] for a, b in zip(cut.low, cut.high, strict=True)]
    return Pass(first.grid, ((first.grid, cut.number),), np.unique(np.concatenate(within)))


def _count(rows: FrameRows, passes: dict[int, Pass]) -> Counted:
    """Make one pass over each of these groups."""
    groups = list(passes)
    parts = [groups[i : i + GROUPS_A_PLAN] for i in range(0, len(groups), GROUPS_A_PLAN)]
    return Counted.joined([_count_part(rows, {g: passes[g] for g in part}) for part in parts])


def _count_part(rows: FrameRows, passes: dict[int, Pass]) -> Counted:
    """Run one plan; refuse the rows if a key tells of bad ones."""
    with blaming_columns(rows.frame, [*rows.columns, *rows.names["beside"]]):
        found = _collected(Columns(rows.frame, rows.problem, **rows.names).sums(passes))
    if found["count"].size == 0:
        raise EmptyInputError("The data frame has no rows to count; at least one is needed.")
    key = found.pop("key")
    group = found.pop("group", np.full(key.size, min(passes))).astype(np.intp)
    if (bad := (key < 0) & (key != WEIGHT_ZERO)).any():
        _explain(rows, group[bad], key[bad], found["count"][bad])
    if (key < 0).all():
        check_heaviest(0.0)
    if "heaviest" in found:
        heaviest = found.pop("heaviest").max()
        if not any(each.within for each in passes.values()):  # else not all rows were seen
            check_heaviest(heaviest)
    number, happened = (key, found.pop("side")) if "side" in found else np.divmod(key, 2)
    low, high = found.pop("low"), found.pop("high")
    used = key >= 0
    sums = {name: values[used] for name, values in found.items()}
    return Counted.of_sides(group[used], number[used], happened[used], low[used], high[used], sums)


def _collected(lazy: Any) -> dict[str, FloatArray]:
    """Collect a group-by as columns of floats; Polars in its engine that streams."""
    streaming = {"engine": "streaming"} if lazy.implementation.is_polars() else {}
    eager = lazy.collect(**streaming)
    return {
        name: np.asarray(eager.get_column(name).to_numpy(), np.float64) for name in eager.columns
    }


def _explain(rows: FrameRows, group: IntArray, key: FloatArray, count: FloatArray) -> NoReturn:
    """Raise the exception that names the column and counts its bad rows."""
    code = key.max()
    first = group[key == code].min()
    found = f"{int(count[(key == code) & (group == first)].sum()):,} rows"
    label, probs, weight = (rows.names[name] for name in ("labels", "probs", "weights"))
    if code in (LABEL_MISSING, LABEL_UNKNOWN):
        what = "is missing in" if code == LABEL_MISSING else "is not among the classes in"
        raise InvalidLabelsError(
            f"The label in column {label!r} {what} {found}. "
            "Name the labels with classes= or pos_label=, or drop these rows first."
        )
    if code in (PROB_MISSING, PROB_OUTSIDE):
        what = "missing" if code == PROB_MISSING else "NaN or outside [0, 1]"
        named = probs if rows.problem.kind == "top-label" else probs[first : first + 1]
        named += rows.names["beside"]
        raise InvalidProbabilitiesError(
            f"Predictions in column {', '.join(map(repr, named[:6]))} must lie in [0, 1]; {found} "
            f"are {what}. Drop or impute missing rows first; apply a sigmoid or softmax to logits."
        )
    raise InvalidWeightsError(
        f"Weights in column {weight!r} must be finite, not negative and at most "
        f"{LARGEST_WEIGHT:g}; {found} are not. "
        "Drop these rows, or divide all weights by the largest."
    )
