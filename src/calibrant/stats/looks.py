"""Looks: certificates asked of the same rows more than once, as they grow.

Whoever certifies a growing sample until it passes has as many chances of a wrong certificate as
looks. If the i-th look, at a number of rows that does not depend on their labels, has the error
probability ``delta / looks_i``, and the sum of all ``1 / looks_i`` is at most 1, then all looks are
right at once with probability at least ``1 - delta`` (the union bound), whatever rule decides to go
on to the next. Two plans meet that:

- k looks, ``looks=k`` at each of them;
- any number of looks, ``looks=i * (i + 1)`` at the i-th: 1/2 + 1/6 + 1/12 + ... = 1.

A number of rows that an earlier look has suggested does depend on labels. It may be used for a
certificate of the new rows alone, which are independent of those that suggested it.
"""

from __future__ import annotations

from typing import Any

from calibrant._options import is_integer
from calibrant.exceptions import InvalidArgumentError

MOST_LOOKS = 1_000_000
"""A look at every one of as many rows; delta stays far above what rounding does to 1 - delta."""


def error_probability(confidence_level: float, looks: int) -> float:
    """Return the error probability of one look; refuse what is no number of looks.

    >>> round(error_probability(0.95, 2), 12)
    0.025
    """
    check_looks(looks)
    delta = (1 - confidence_level) / int(looks)
    if 1 - delta == 1:
        raise InvalidArgumentError(
            "Each look needs an error probability that differs from 0 by more than rounding; "
            f"confidence_level={confidence_level!r} leaves {delta:.3g} to each of {looks:,} looks. "
            "Take a lower confidence_level, or fewer looks."
        )
    return delta


def check_looks(looks: Any) -> None:
    """Refuse anything but a whole number of looks."""
    if not (is_integer(looks) and 1 <= looks <= MOST_LOOKS):
        raise InvalidArgumentError(
            f"looks must be a whole number from 1 to {MOST_LOOKS:,}; got {looks!r:.60}. It is how "
            "often these rows will be certified as they grow: 1 for once."
        )
