"""The order of columns: predictions are read by place, and names may say that the places are wrong.

Nothing is put in order silently: a wrong guess would be a wrong number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant.exceptions import InvalidInputError, InvalidLabelsError
from calibrant.problem import Label, read_classes

DIGITS = "0123456789"


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


def check_class_order(names: Sequence[str], classes: Sequence[Label] | None) -> None:
    """Refuse columns whose names are those of the classes, or some of them, in another order.

    What all names begin and end with does not matter. Classes that nobody named are numbers, and
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
        told = "in the order of their numbers"
    else:
        expected = [str(name) for name in classes]
        pairs = [(list(names), expected), (parts, expected), (parts, _own_parts(expected))]
        in_order = any(own == others for own, others in pairs)
        wrong = not in_order and any(_misplaced(own, others) for own, others in pairs)
        told = _shown(expected)
    if wrong:
        raise InvalidInputError(
            "The columns of predictions must stand in the order of the classes; got "
            f"{_shown(names)} for classes {told}. Name the columns one by one in that order, or "
            "pass classes= in the order of the columns."
        )


def check_label_order(labels: Sequence[str], names: Sequence[str]) -> None:
    """Refuse columns of labels and of predictions that name the same labels in another order."""
    own, others = _own_parts(labels), _own_parts(names)
    if own != others and set(own) == set(others) and list(labels) != list(names):
        raise InvalidLabelsError(
            "The columns of y_true and y_prob must stand in one order; got the same names, "
            f"{_shown(labels)} and {_shown(names)}. Put both in the order of either."
        )


def check_same_order(names: Sequence[str], fitted: Sequence[str]) -> None:
    """Refuse the columns of a fit in another order, and of two the one that is not the event's."""
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
    """Refuse other columns than those of a fit, where both have names."""
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
    """Whether names are those of the classes in another order, or one is in another's place."""
    if set(names) == set(classes):
        return list(names) != list(classes)
    # numbers are told by all of them together: p1, p2, p3 may well be the classes 0, 1, 2
    place = {name: i for i, name in enumerate(classes) if not set(name) <= set(DIGITS)}
    found = [(i, place[name]) for i, name in enumerate(names) if name in place]
    return len(set(names)) == len(names) and any(i != own for i, own in found)


def _own_parts(names: Sequence[str]) -> list[str]:
    """Return the names without what all of them begin and end with; a number stays whole."""
    if len(names) < 2:
        return list(names)
    head = _common_head(names).rstrip(DIGITS)
    rest = [name[len(head) :] for name in names]
    tail = _common_head([name[::-1] for name in rest])[::-1].lstrip(DIGITS)
    return [name[: len(name) - len(tail)] for name in rest]


def _common_head(names: Sequence[str]) -> str:
    """Return what all names begin with: what the first and the last of them in order share."""
    first, last = min(names), max(names)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False)] if False in same else first[: len(same)]


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6:,} more" if len(names) > 6 else ""
    return ", ".join(f"{name:.40}" for name in names[:6]) + more
