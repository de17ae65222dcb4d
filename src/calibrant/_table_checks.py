"""What the sums of a table must satisfy if rows exist that have them.

A table from a document is believed only as far as these checks go: they cannot tell whether the
counts are true, but they leave no sums that contradict each other, the bins, or the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from calibrant._documents import LARGEST_COUNT
from calibrant._types import BoolArray, FloatArray
from calibrant.exceptions import InvalidDocumentError

if TYPE_CHECKING:
    from calibrant.table import BinTable

TINY = 1e-300
"""Products of tiny weights and predictions lose their digits below about this."""
LARGEST_WEIGHT = 1e150
"""No sum of weights is larger, for each is at most 1e100; its square is still finite."""


def rounding_of(count: FloatArray) -> FloatArray:
    """Return a relative bound on the rounding error of a sum of n terms.

    Plain summation errs by up to half a unit in the last place per term; engines that compensate
    err far less. Beyond 1e-6 nothing would be left to check.
    """
    return np.minimum(1e-9 + count * 2.0**-53, 1e-6)


def check_sums(table: BinTable, n_tables: int = 1) -> None:
    """Raise InvalidDocumentError if no rows can have the sums of this table.

    It may be as many tables of the same problem as `n_tables` says, one below the other.
    """
    with np.errstate(all="ignore"):
        for problem, wrong in _wrong_bins(table):
            if wrong.any():
                group, place = (int(i) for i in np.argwhere(wrong)[0])
                of = f" of class {group + 1:,}" if table.n_groups > 1 else ""
                _refuse(f"{problem} (first: bin {place + 1:,}{of})")
        for problem, is_wrong in _wrong_totals(table, n_tables):
            if is_wrong:
                _refuse(problem)


def _refuse(problem: str) -> NoReturn:
    raise InvalidDocumentError(
        f"These sums contradict each other, no rows can have them: {problem}."
    )


def _wrong_bins(table: BinTable) -> Iterator[tuple[str, BoolArray]]:
    """Yield each fault that bins may have, and a mask of the bins that have it."""
    count, used = table.count, table.count > 0
    sums = (table.sum_y, table.sum_p, table.sum_pp, table.sum_py)
    weights = (table.sum_w, table.sum_ww, table.sum_wwuu)
    yield "counts must be whole numbers", count != np.floor(count)
    yield (
        "counts and sums must not be negative",
        np.any([x < 0 for x in (count, *sums, *weights)], 0),
    )
    yield (
        "a bin without rows must have no sums and no level",
        ~used & (np.any([x > 0 for x in (*sums, *weights)], 0) | ~np.isnan(table.level)),
    )
    n_bins = np.array([len(bins) for bins in table.bins])
    yield "a bin that does not exist has rows", used & (np.arange(used.shape[1]) >= n_bins[:, None])
    yield "weights are too large", table.sum_w > LARGEST_WEIGHT
    yield "a bin with rows must have a weight", used & ~(table.sum_w > 0)
    if not table.is_weighted:
        # weights equal to 1 up to rounding count as unweighted: sums are whole up to rounding
        off = np.abs(table.sum_y - np.round(table.sum_y)) > 1e-15 * count
        yield "event counts must be whole numbers", off
    yield "there are more events than rows", table.sum_y > table.sum_w * (1 + rounding_of(count))
    yield from _wrong_predictions(table)
    yield from _wrong_levels(table)
    yield from _wrong_weights(table)


def _wrong_predictions(table: BinTable) -> Iterator[tuple[str, BoolArray]]:
    """Compare the moments of predictions with their bin, and with each other.

    For p in [a, b]: a <= p <= b for all rows, those with the event and those without, and
    p^2 <= (a + b) p - a b. The mean of p^2 is at least the square of the mean of p, also of the
    two groups of rows apart (Cauchy-Schwarz).
    """
    a, b = np.zeros(table.count.shape), np.ones(table.count.shape)
    for group, bins in enumerate(table.bins):
        a[group, : len(bins)], b[group, : len(bins)] = bins.edges[:-1], bins.edges[1:]
    w, y, p, pp, py = table.sum_w, table.sum_y, table.sum_p, table.sum_pp, table.sum_py
    slack = rounding_of(table.count)
    tiny = TINY * (table.count + 1)
    room = 4 * slack * b * w + tiny
    outside = "the mean prediction lies outside its bin"
    yield outside, (p < a * w * (1 - slack) - tiny) | (p > b * w * (1 + slack) + tiny)
    yield (
        "the mean prediction of the events lies outside its bin",
        (py < a * y * (1 - slack) - tiny) | (py > b * y * (1 + slack) + tiny),
    )
    rest_w, rest_p = w - y, p - py
    yield (
        "the mean prediction of the rows without the event lies outside its bin",
        (rest_p < a * rest_w - room) | (rest_p > b * rest_w + room),
    )
    yield (
        "sum_pp is larger than predictions in this bin allow",
        pp > (a + b) * p - a * (b * w) + b * room + tiny,
    )
    others = np.maximum(rest_p - room, 0)
    least = np.maximum(
        _square_over(p, w) * (1 - 4 * slack),
        _square_over(py * (1 - slack), y) * (1 - 2 * slack)
        + _square_over(others, np.maximum(rest_w, 0) + slack * w),
    )
    yield (
        "sum_pp is smaller than its mean predictions allow",
        (table.count > 0) & (pp * (1 + slack) < least - 2 * b * room - tiny),
    )


def _square_over(total: FloatArray, weight: FloatArray) -> FloatArray:
    """Return total^2 / weight, 0 without weight, in an order that does not underflow."""
    return np.where(weight > 0, total * (total / weight), 0.0)


def _wrong_levels(table: BinTable) -> Iterator[tuple[str, BoolArray]]:
    """Compare levels with the sums: all predictions of such a bin are its level."""
    level, known = table.level, ~np.isnan(table.level)
    slack, tiny = 4 * rounding_of(table.count), TINY * (table.count + 1)
    index = np.stack(
        [
            bins.index(np.where(there, row, 0.0))
            for bins, row, there in zip(table.bins, level, known, strict=True)
        ]
    )
    yield (
        "a level lies outside its bin",
        known & ((level < 0) | (level > 1) | (index != np.arange(level.shape[1]))),
    )
    pairs = (
        ("sum_p", table.sum_p, level * table.sum_w),
        ("sum_pp", table.sum_pp, level * (level * table.sum_w)),
        ("sum_py", table.sum_py, level * table.sum_y),
    )
    for name, total, needed in pairs:
        off = np.abs(total - needed) > slack * needed + tiny
        yield f"{name} is not what its level gives", known & off
    if not table.is_weighted:
        yield "a bin of one row must have a level", (table.count == 1) & ~known


def _wrong_weights(table: BinTable) -> Iterator[tuple[str, BoolArray]]:
    """Compare the moments of weights by Cauchy-Schwarz; |y - p| is at most 1."""
    count, w, ww, wwuu = table.count, table.sum_w, table.sum_ww, table.sum_wwuu
    slack, tiny = 4 * rounding_of(count), TINY * (count + 1)
    yield (
        "sum_ww is not possible with this sum_w",
        (ww > w**2 * (1 + slack) + tiny) | (w**2 > count * ww * (1 + slack) + tiny),
    )
    gap = np.maximum(np.abs(table.sum_y - table.sum_p) - slack * w, 0)
    squares = table.sum_y - 2 * table.sum_py + table.sum_pp
    least = np.maximum(gap, squares - 2 * slack * w)  # of w |y - p|, and of w (y - p)^2
    yield (
        "sum_wwuu is not possible with these sums",
        (wwuu > ww * (1 + slack) + tiny) | (least**2 > count * (wwuu + slack * ww) + tiny),
    )
    yield (
        "sum_py is not possible with these sums",
        gap**2 > w * (np.maximum(squares, 0) + 2 * slack * w) + tiny,
    )
    if not table.is_weighted:
        yield "sum_wwuu is not what the other sums give", np.abs(wwuu - squares) > slack * w + tiny


def _wrong_totals(table: BinTable, n_tables: int) -> Iterator[tuple[str, bool]]:
    """Yield each fault that totals may have, and a mask of shape (tables, classes)."""
    rows, weight = (x.sum(axis=1).reshape(n_tables, -1) for x in (table.count, table.sum_w))
    slack = 4 * rounding_of(rows).max(axis=1)
    yield "there are no rows", bool(np.any(rows[:, 0] == 0))
    yield f"more than {LARGEST_COUNT:,} rows", bool(rows.max() > LARGEST_COUNT)
    yield (
        f"the {table.problem.parts} have different numbers of rows",
        bool(np.any(rows != rows[:, :1])),
    )
    off = np.abs(weight - weight[:, :1]) > slack[:, None] * weight[:, :1] + TINY
    yield f"the {table.problem.parts} have different weights", bool(np.any(off))
    if table.problem.kind == "marginal":
        events, expected = table.sum_y.reshape(n_tables, -1).sum(axis=1), weight[:, 0]
        room = slack * expected if table.is_weighted else 1e-15 * rows[:, 0] * rows.shape[1]
        yield (
            "every row has one label, so the events of all classes must add up to the rows",
            bool(np.any(np.abs(events - expected) > room)),
        )
    if table.problem.kind in ("ordinal", "quantile"):
        events = table.sum_y.sum(axis=1).reshape(n_tables, -1)
        room = slack[:, None] * weight if table.is_weighted else 1e-15 * rows
        yield (
            "an event implies that of every higher threshold or level, so its sum must not fall",
            bool(np.any(np.diff(events, axis=1) < -room[:, 1:])),
        )
