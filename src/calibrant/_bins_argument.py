"""The argument ``bins=``: a number, a name, a rule or edges, read into `Bins` or a `BinRule`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from calibrant._options import is_integer
from calibrant.bins import (
    BinRule,
    Bins,
    BinsLike,
    Distinct,
    EqualMass,
    EqualWidth,
    Hybrid,
)
from calibrant.exceptions import InvalidArgumentError, InvalidBinsError

RULES: dict[str, type[EqualMass | EqualWidth | Hybrid]] = {
    "mass": EqualMass,
    "width": EqualWidth,
    "hybrid": Hybrid,
}
MAY_BE = (
    'a number of bins, "auto", "mass:15", "width:15", "hybrid:15", "distinct", a rule such as '
    "EqualMass(15), or edges from 0 to 1"
)


def auto_n_bins(n: int) -> int:
    """Return the number of uniform-mass bins that ``bins="auto"`` means for n rows.

    About ``0.8 n^(2/5)``, which balances what coarse bins hide against the noise that fine ones
    add, and never fewer than ten rows a bin.

    >>> [auto_n_bins(n) for n in (10, 100, 1_000, 10_000, 100_000)]
    [1, 5, 13, 32, 80]
    """
    return max(1, min(int(0.8 * n**0.4 + 0.5), n // 10))


def is_auto(bins: BinsLike) -> bool:
    """Return whether ``bins=`` lets the number of rows decide the number of bins."""
    return isinstance(bins, str) and bins == "auto"


def bins_one_by_one(bins: object, n_columns: int) -> tuple[Bins, ...] | None:
    """Read ready `Bins`, one for each column; None if `bins` is anything else.

    `BinTable.bins` and `Tables.bins` are such bins: later rows are counted as earlier ones were.

    Examples
    --------
    >>> bins_one_by_one((Bins([0, 0.5, 1]), Bins([0, 0.2, 1])), 2)[1].edges
    array([0. , 0.2, 1. ])
    >>> bins_one_by_one([0, 0.5, 1], 2) is None
    True
    """
    if isinstance(bins, tuple) and bins and isinstance(bins[0], tuple):  # of groups
        if len(bins) > 1:
            raise InvalidBinsError(
                f"Groups that share their bins were required; got the bins of {len(bins)} groups. "
                "Pass those of one of them, tables[group].bins."
            )
        bins = bins[0]
    if not (isinstance(bins, list | tuple) and any(isinstance(item, Bins) for item in bins)):
        return None
    if all(isinstance(item, Bins) for item in bins) and len(bins) == n_columns:
        return tuple(bins)
    raise InvalidBinsError(
        "Bins given one by one must be one Bins for each column of predictions that is counted; "
        f"got {len(bins)} for {n_columns}. Pass table.bins of a table of the same problem, or one "
        "Bins for all."
    )


def as_bin_rule(bins: BinsLike, n: int) -> Bins | BinRule:
    """Read what a user passed as ``bins=`` for n rows.

    ============================  ===========================================================
    15, "mass:15", EqualMass(15)  15 bins that hold the same number of predictions
    "auto"                        as many of those as suit n rows: `auto_n_bins`
    "width:15", EqualWidth(15)    15 bins of the same width
    "hybrid:15", Hybrid(15)       15 bins of least within-bin variance
    "distinct", Distinct()        a bin for each distinct prediction
    [0, 0.2, 1], Bins(...)        the bins with these edges
    table.bins                    those of a table counted before
    ============================  ===========================================================

    Only "auto" looks at n.

    Examples
    --------
    >>> as_bin_rule("hybrid:20", 1000), as_bin_rule(7, 1000)
    (Hybrid(n_bins=20, balance=3.0), EqualMass(n_bins=7))
    >>> as_bin_rule([0, 0.5, 1], 1000).edges
    array([0. , 0.5, 1. ])
    """
    rule: Any = EqualMass(auto_n_bins(n)) if is_auto(bins) else bins
    if isinstance(rule, str):
        rule = _rule_of_text(rule)
    if isinstance(rule, EqualWidth):
        return rule.bins
    if isinstance(rule, Bins):
        return rule
    if is_integer(rule):
        return EqualMass(int(rule))
    if isinstance(rule, list | tuple) or (hasattr(rule, "__array__") and np.ndim(rule)):
        ready = bins_one_by_one(rule, 1)
        return ready[0] if ready else Bins(rule)
    # Arrays, their scalars and the rules as classes have a method `choose` as well.
    if isinstance(rule, BinRule) and not isinstance(rule, type | np.ndarray | np.generic):
        return rule
    raise InvalidArgumentError(f"bins must be {MAY_BE}; got {bins!r:.60}.")


def _rule_of_text(text: str) -> EqualMass | EqualWidth | Hybrid | Distinct:
    """Return the rule that a text such as "width:15" names."""
    if text == "distinct":
        return Distinct()
    name, number = text.split(":", 1) if ":" in text else ("mass", text)
    if text in RULES:
        raise InvalidArgumentError(
            f'bins must say how many; got "{text}". Add a number, as in "{text}:15".'
        )
    # More digits than any count has; Python refuses to parse more than 4,300.
    if name not in RULES or not re.fullmatch("[0-9]{1,15}", number):
        raise InvalidArgumentError(f"bins must be {MAY_BE}; got {text!r:.60}.")
    return RULES[name](int(number))
