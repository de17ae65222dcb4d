"""Labels of groups: their keys and order, as they are printed, and in documents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from calibrant._documents import check_names, is_number, shown
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError
from calibrant.groups import GroupColumn, GroupLabel

LONGEST = 40
"""Characters of a label that are printed."""
LINES = 20
"""Groups that are printed; the others are counted."""

GroupKey: TypeAlias = GroupLabel | tuple[GroupLabel, ...]
"""The label of one column, or those of several."""


def key_of(labels: tuple[GroupLabel, ...]) -> GroupKey:
    """Return the key of a group: the label of one column, or those of several as a tuple."""
    return labels[0] if len(labels) == 1 else labels


def shown_key(labels: tuple[GroupLabel, ...]) -> str:
    """Return the labels of a group as they are printed."""
    shown = ["missing" if label is None else str(label) for label in labels]
    safe = [text if text.isprintable() else ascii(text)[1:-1] for text in shown]
    return ", ".join(text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..." for text in safe)


def more_groups(n: int) -> list[str]:
    """Return the line that says how many groups are not printed, if there are any."""
    return [f"... and {n:,} more group{'s' if n > 1 else ''}"] if n > 0 else []


def ranking(by: tuple[GroupColumn, ...]) -> Callable[[tuple[GroupLabel, ...]], Any]:
    """Return what sorts labels: intervals as they are cut, numbers before text, missing last."""
    orders = [column.order() for column in by]

    def rank(labels: tuple[GroupLabel, ...]) -> list[tuple[int, Any]]:
        pairs = zip(labels, orders, strict=True)
        return [
            (3, 0)
            if label is None
            else (0, order[label])
            if label in order
            else (2, label)
            if isinstance(label, str)
            else (1, label)
            for label, order in pairs
        ]

    return rank


def by_to_json(by: tuple[GroupColumn, ...]) -> list[dict[str, Any]]:
    """Return columns of groups; JSON has no infinite numbers, so such cuts are text."""
    cuts = [
        column.cuts and [cut if math.isfinite(cut) else str(cut) for cut in column.cuts]
        for column in by
    ]
    return [{"name": column.name, "cuts": own} for column, own in zip(by, cuts, strict=True)]


def read_by(document: Any) -> tuple[GroupColumn, ...]:
    """Rebuild columns of groups from `by_to_json`."""
    if not isinstance(document, list) or not document:
        raise InvalidDocumentError('"by" must be a list of the columns that tell groups apart.')
    columns = []
    for item in document:
        check_names(item, ("name", "cuts"), "A column of groups")
        name, cuts = item["name"], item["cuts"]
        listed = cuts if isinstance(cuts, list) else []
        numbers = [float(x) if x in ("inf", "-inf") else x for x in listed]
        is_column = isinstance(name, str) and (cuts is None or isinstance(cuts, list))
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
