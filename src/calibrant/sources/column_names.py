"""Names of columns: which ones a pattern means, and whether they stand in the order they must.

Predictions are read by place, and names may say that the places are wrong. Nothing is put in order
silently: a wrong guess would be a wrong number.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections import Counter
from collections.abc import Sequence
from typing import Any

from calibrant.exceptions import InvalidArgumentError, InvalidInputError, InvalidLabelsError
from calibrant.problem import Label, read_classes

DIGITS = "0123456789"
MOST_COMPARED = 1_000
"""A similar name is suggested from at most this many: each takes some 10 microseconds."""


def is_pattern(name: Any, known: Sequence[Any]) -> bool:
    """Return whether a name is a pattern; the name of a column may look like one."""
    return isinstance(name, str) and name not in known and any(sign in name for sign in "*?[")


def matching(pattern: str, known: Sequence[Any]) -> list[str]:
    """Return the columns that a pattern stands for, in their order."""
    names = fnmatch.filter([name for name in known if isinstance(name, str)], pattern)
    if names:
        return names
    shown = ", ".join(map(str, known[:10])) + (", ..." if len(known) > 10 else "")
    raise InvalidArgumentError(
        f"With data=, columns are given by name or by pattern; no column is like {pattern!r:.60} "
        f"among {shown}."
    )


def paired(
    labels: Sequence[str], names: Sequence[str], label_pattern: str, pattern: str
) -> list[str]:
    """Return columns of predictions in the order of the labels, paired by what ``*`` matches.

    Two patterns with one ``*`` each name the same labels, or are refused: columns may come in any
    order, and a pair that does not belong together would give a wrong number.

    >>> paired(["y_cat", "y_dog"], ["p_dog", "p_cat"], "y_*", "p_*")
    ['p_cat', 'p_dog']
    """
    parts = [text.split("*") for text in (label_pattern, pattern)]
    if any(len(ends) != 2 for ends in parts) or {*label_pattern, *pattern} & {*"?["}:
        raise InvalidArgumentError(
            "Patterns of labels and of their predictions must have one * each, such as y_* and "
            f"prob_*; got {label_pattern!r:.60} and {pattern!r:.60}. Name the columns in two lists."
        )
    label_of, column_of = (
        {name[len(head) : len(name) - len(tail)]: name for name in group}
        for group, (head, tail) in zip((labels, names), parts, strict=True)
    )
    alone = [x for x in (*label_of, *column_of) if (x in label_of) != (x in column_of)]
    if alone:
        raise InvalidArgumentError(
            f"Every label needs its prediction: {label_pattern!r:.60} and {pattern!r:.60} must "
            f"stand for the same labels; {len(alone):,} have only one of the two (first: "
            f"{alone[0]!r:.60}). Rename the columns, or name them in two lists."
        )
    return [column_of[part] for part in label_of]


def shown_names(y_true: Any, y_prob: Any) -> tuple[str, ...]:
    """Return the name of the labels, several as one, and those of the predictions."""
    return (", ".join(map(str, listed(y_true))), *map(str, listed(y_prob)))


def listed(names: Any) -> list[Any]:
    """Return several names, or the only one, as a list."""
    return list(names) if isinstance(names, list | tuple) else [names]


def match_columns(names: Sequence[str], patterns: Sequence[str], path: str) -> list[str]:
    """Return the columns that names and patterns stand for."""
    known, chosen = set(names), dict[str, None]()
    twice = [name for name, times in Counter(patterns).items() if times > 1]
    if twice:  # a repeat is a slip, and with fewer columns the problem would be another
        raise InvalidInputError(
            f"Every column is named once; {twice[0]!r:.80} is named twice. Name the column that is "
            "meant in its place."
        )
    for name in patterns:
        hits = [name] if name in known else fnmatch.filter(names, name)
        if not hits:
            raise InvalidInputError(_no_column(name, names, path))
        chosen |= dict.fromkeys(hits)
    return list(chosen)


def check_columns(names: Sequence[str], expected: Sequence[str], path: str) -> None:
    """Refuse a file that lacks one of these columns, which are names and never patterns."""
    for name in expected:
        if name not in names:
            raise InvalidInputError(_no_column(name, names, path))


def in_fixed_order(names: Sequence[str], fixed: Sequence[str], path: str) -> list[str]:
    """Return the names in the order that the first rows fixed; refuse different names."""
    there, known = set(names), set(fixed)
    missing = [name for name in fixed if name not in there]
    added = [name for name in names if name not in known]
    if missing or added:
        what = f"has no column {missing[0]!r:.80}" if missing else f"has a column {added[0]!r:.80}"
        rest = "unlike the rows before" if missing else "which the rows before have not"
        raise InvalidInputError(
            f"{path} {what}, {rest}. All files of a run must have the same {len(fixed):,} columns "
            "of predictions."
        )
    return list(fixed)


def _no_column(name: str, names: Sequence[str], path: str) -> str:
    """Return the message that lists the columns, or suggests the one perhaps meant."""
    short = [known for known in names[:MOST_COMPARED] if len(known) <= 100]
    near = difflib.get_close_matches(name[:100], short, 1)
    if near:
        return f"{path} has no column {name!r:.200}; perhaps {near[0]!r} is meant."
    shown = ", ".join(repr(known)[:60] for known in names[:10])
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return (
        f"{path} has no column {name!r:.200}; its columns are {shown or 'none'}{more}. "
        "Columns are named by y_true=, y_prob=, sample_weight= and by=."
    )


def names_of(values: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame or an Arrow table; none of anything else.

    >>> names_of([[0.2, 0.8]])
    ()
    """
    names = getattr(values, "column_names", None)
    if names is None:
        names = getattr(values, "columns", None)
    try:
        return tuple(map(str, names)) if names is not None else ()
    except TypeError:  # `columns` is something else, such as a method
        return ()


def check_order(
    labels: Sequence[Any], names: Sequence[Any], kind: Any, classes: Sequence[Label] | None
) -> None:
    """Refuse columns of predictions in another order than labels or classes, by their names."""
    if kind == "multi-label":
        check_label_order(list(map(str, labels)), list(map(str, names)))
    else:
        check_class_order(list(map(str, names)), classes)


def check_class_order(names: Sequence[str], classes: Sequence[Label] | None) -> None:
    """Refuse columns whose names are those of the classes, or some of them, in another order.

    Common beginnings and endings of names do not matter. Without classes= they are numbers, and
    the numbers in the names of their columns must rise.

    >>> check_class_order(["prob_cat", "prob_dog"], ["cat", "dog"])
    >>> check_class_order(["prob_0", "prob_1", "prob_10", "prob_2"], None)
    Traceback (most recent call last):
    ...
    calibrant.exceptions.InvalidInputError: The columns of predictions must stand in the order of \
the classes; got prob_0, prob_1, prob_10, prob_2 for classes in the order of their numbers. Name \
the columns one by one in that order, or pass classes= in the order of the columns.
    """
    if len(names) < 2:  # as of every array
        return
    classes = read_classes(classes)
    parts = _own_parts(names)
    if classes is None:
        numbers = [int(part) for part in parts if part and set(part) <= set(DIGITS)]
        wrong = len(numbers) == len(parts) and numbers != sorted(numbers)
        order = "in the order of their numbers"
    else:
        expected = [str(name) for name in classes]
        pairs = [(list(names), expected), (parts, expected), (parts, _own_parts(expected))]
        in_order = any(got == order_of for got, order_of in pairs)
        wrong = not in_order and any(_misplaced(got, order_of) for got, order_of in pairs)
        order = _shown(expected)
    if wrong:
        raise InvalidInputError(
            "The columns of predictions must stand in the order of the classes; got "
            f"{_shown(names)} for classes {order}. Name the columns one by one in that order, or "
            "pass classes= in the order of the columns."
        )


def check_label_order(labels: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns of labels and of predictions that name the same labels in another order."""
    label_parts, name_parts = _own_parts(labels), _own_parts(names)
    in_order = label_parts == name_parts or list(labels) == list(names)
    if set(label_parts) == set(name_parts) and not in_order:
        raise InvalidLabelsError(
            "The columns of y_true and y_prob must stand in one order; got the same names, "
            f"{_shown(labels)} and {_shown(names)}. Put both in the order of either."
        )


def check_same_order(names: Sequence[str], fitted: Sequence[str]) -> None:
    """Refuse another order of columns than in the fit, and of two the one without the event."""
    if len(fitted) == 2 and list(names) == [fitted[0]]:
        raise InvalidInputError(
            "Of the two columns of the fit the second is the event's, and may come alone; got the "
            f"first, {fitted[0]:.40}. Pass {fitted[1]:.40}, or both."
        )
    if list(names) != list(fitted) and sorted(names) == sorted(fitted):
        raise InvalidInputError(
            f"The columns of predictions must stand in the order of the fit, {_shown(fitted)}; got "
            f"{_shown(names)}. Select them in that order."
        )


def check_same_names(names: Sequence[str], fitted: Sequence[str]) -> None:
    """Refuse columns whose names differ from those of the fit, if both have names."""
    unnamed = [str(i) for i in range(len(fitted))]
    if unnamed in (list(names), list(fitted)):
        return
    check_same_order(names, fitted)
    if len(names) != len(fitted) or len(names) < 2:
        return
    if list(names) != list(fitted):
        raise InvalidInputError(
            f"The columns of predictions must be those of the fit, {_shown(fitted)}; got "
            f"{_shown(names)}. Rename them, or pass an array where they stand in that order."
        )


def _misplaced(names: Sequence[str], classes: Sequence[str]) -> bool:
    """Return whether names are those of classes in another order, or one is misplaced."""
    if set(names) == set(classes):
        return list(names) != list(classes)
    # numbers are judged all together: p1, p2, p3 may well be the classes 0, 1, 2
    place = {name: i for i, name in enumerate(classes) if not set(name) <= set(DIGITS)}
    moved = (i != place.get(name, i) for i, name in enumerate(names))
    return len(set(names)) == len(names) and any(moved)


def _own_parts(names: Sequence[str]) -> list[str]:
    """Strip the common beginning and ending of all names; numbers stay whole."""
    if len(names) < 2:
        return list(names)
    head = _common_head(names).rstrip(DIGITS)
    rest = [name[len(head) :] for name in names]
    tail = _common_head([name[::-1] for name in rest])[::-1].lstrip(DIGITS)
    return [name[: len(name) - len(tail)] for name in rest]


def _common_head(names: Sequence[str]) -> str:
    """Return the beginning that all names share, which the first and last in order share."""
    first, last = min(names), max(names)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False)] if False in same else first[: len(same)]


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6:,} more" if len(names) > 6 else ""
    return ", ".join(f"{name:.40}" for name in names[:6]) + more
