"""Verdicts in words: what the bounds say of a tolerance, and what must be true for them to hold."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.estimators import Target
from calibrant.stats.planning import samples_to_certify
from calibrant.table import BinTable, describe_bins

Verdict: TypeAlias = Literal["certified", "refuted", "undecided"]
MinBinMass: TypeAlias = float | Literal["learned"] | None

_MOST_BINS_TO_PLAN = 30
TOO_GOOD = (
    "nothing can be said: labels agree with the predictions better than independent draws would, "
    "whatever the error. Check that they were not used before, nor matched or made up"
)


def judge(
    table: BinTable,
    upper: float,
    lower: float,
    level: float,
    max_error: float | None,
    looks: int,
    target: Target,
    too_good: bool,
) -> tuple[Verdict | None, str]:
    """Return the verdict on a tolerance, and the sentence that says why."""
    sure = f"with {100 * level:g}% confidence" + (f" over {looks:,} looks" if looks > 1 else "")
    what = f"{table.problem.kind} error"
    if target == "sample":
        what += " on inputs like these rows"
    elif not table.is_binned_model:
        what += " in the population"
    where = f"(n = {table.n:,}, {describe_bins(table)})"
    if too_good:
        return None if max_error is None else "undecided", f"{TOO_GOOD} {where}"
    if max_error is None:
        return None, f"{sure} the {what} is at most {upper:.4f}, and at least {lower:.4f} {where}"
    if upper <= max_error:
        return "certified", f"{sure} the {what} is at most {upper:.4f} <= {max_error:g} {where}"
    if lower > max_error:
        return "refuted", f"{sure} the {what} is at least {lower:.4f} > {max_error:g} {where}"
    if not table.is_binned_model:
        return "undecided", (
            f"the {what} is at least {lower:.4f}, but bins mix different predictions {where}: "
            "such a model can be refuted, never certified. Recalibrate it with ScalingBinning"
        )
    return "undecided", (
        f"the {what} lies between {lower:.4f} and {upper:.4f}, each {sure} {where}: "
        f"more rows are needed to tell it from {max_error:g}"
    )


def advice(table: BinTable, squared: float, max_error: float, level: float, looks: int) -> str:
    """Say how many more rows would decide, if the error is what it seems to be.

    They are certified in another look, so there are at least two.
    """
    seeming = math.sqrt(max(squared, 0.0))
    n_bins = int((table.count > 0).sum(axis=1).max())
    if seeming >= 0.95 * max_error:
        return (
            "; the error seems to be about that large, so no number of rows is sure to certify it"
        )
    if n_bins > _MOST_BINS_TO_PLAN:
        return ""
    try:
        needed = samples_to_certify(
            max_error,
            n_bins,
            confidence_level=level,
            true_error=seeming,
            looks=max(looks, 2),
        )
    except InvalidArgumentError:  # more rows than can be planned; the verdict stands all the same
        return "; more than 1e15 would be needed"
    more = max(needed - table.n, table.n // 10, 1)
    more = round(more, 2 - len(str(more)))
    return f"; if the error is {seeming:.4f}, as it seems, about {more:,} more would do"


def look_again(looks: int) -> str:
    """Say under which condition the same rows, with more of them, may be certified again."""
    if looks > 1:
        return f". Certify again only as planned, at the next of these {looks:,} looks"
    return (
        ". Certify again only as planned before the first look, at numbers of rows fixed then: "
        "with looks=k at each of k looks, or looks=i*(i+1) at the i-th of any number"
    )


OVERLAP_UNCHECKED = (
    "None of these rows are among those of the recalibrator's fit: it was fitted from a table, so "
    "this could not be checked."
)


def assumptions_of(
    table: BinTable,
    target: Target,
    min_bin_mass: MinBinMass,
    levels: FloatArray | None,
    looks: int,
    overlap_unchecked: bool = False,
    left_out: str | None = None,
) -> list[str]:
    """Return what must be true for the bounds to hold, a sentence each.

    `left_out` says which outputs a maximum says nothing of.
    """
    said = [
        "The rows are independent draws from the population that the statement is about.",
        "Their labels were not used to fit the model, to choose its outputs, or to choose bins.",
    ]
    said.append(
        "This is the only certificate asked of these rows: their number was not chosen in the "
        "light of an earlier one."
        if looks == 1
        else f"At most {looks:,} certificates are asked of these rows as they grow, this one "
        "included (or the sum of 1/looks over all of them is at most 1), at numbers of rows that "
        "were not chosen in the light of the labels."
    )
    if overlap_unchecked:
        said.append(OVERLAP_UNCHECKED)
    if target == "sample":
        said.append("The statement is about the error on inputs like these rows: label noise is "
                    "accounted for, the choice of inputs is not.")  # fmt: skip
    elif min_bin_mass == "learned" and table.is_binned_model:
        said.append("The model has no outputs besides those of the table's bins.")
    elif min_bin_mass is not None and table.is_binned_model:
        said.append(f"Every output of the model has a probability of at least {min_bin_mass:g}.")
    if levels is not None:
        said.append(f"The model has no outputs but the {levels.size:,} that were declared; they "
                    "were known before these rows.")  # fmt: skip
    if left_out is not None:
        said.append(left_out)
    if not table.is_binned_model:
        said.append("Bins mix different predictions, so only the lower bound speaks of the model "
                    "(Proposition 3.2).")  # fmt: skip
    return said
