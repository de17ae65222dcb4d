"""Patterns that stand for several columns, such as ``"prob_*"``, and which belong together."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

from calibrant.exceptions import InvalidArgumentError


def is_pattern(name: Any, known: Sequence[Any]) -> bool:
    """Tell a pattern from the name of a column, which may look like one."""
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
    """Return columns of predictions in the order of the labels, told by what ``*`` stands for.

    Two patterns with one ``*`` each name the same labels, or are refused: columns may come in any
    order, and a pair that does not belong together would give a wrong number.

    >>> paired(["y_cat", "y_dog"], ["p_dog", "p_cat"], "y_*", "p_*")
    ['p_cat', 'p_dog']
    """
    parts = [each.split("*") for each in (label_pattern, pattern)]
    if any(len(ends) != 2 or any(sign in each for sign in "?[") for ends, each in
           zip(parts, (label_pattern, pattern), strict=True)):  # fmt: skip
        raise InvalidArgumentError(
            "Patterns of labels and of their predictions must have one * each, such as y_* and "
            f"prob_*; got {label_pattern!r:.60} and {pattern!r:.60}. Name the columns in two lists."
        )
    own, others = (
        {name[len(head) : len(name) - len(tail)]: name for name in group}
        for group, (head, tail) in zip((labels, names), parts, strict=True)
    )
    alone = [part for part in (*own, *others) if (part in own) != (part in others)]
    if alone:
        raise InvalidArgumentError(
            f"Every label needs its prediction: {label_pattern!r:.60} and {pattern!r:.60} must "
            f"stand for the same labels; {len(alone):,} have only one of the two (first: "
            f"{alone[0]!r:.60}). Rename the columns, or name them in two lists."
        )
    return [others[part] for part in own]


def shown_names(y_true: Any, y_prob: Any) -> tuple[str, ...]:
    """Return the name of the labels, several as one, and those of the predictions."""
    labels, names = (list(x) if isinstance(x, list | tuple) else [x] for x in (y_true, y_prob))
    return (", ".join(map(str, labels)), *map(str, names))
