"""Verdicts in words: what the bounds say of a tolerance, and what must be true for them to hold.

Small bounds are measured against a model that knows nothing. A model that always answers
0 is off by the event rate. Where events are rare, or classes are many, that is little, and a bound
above it does not tell the model from one that never saw its inputs. (Always answering the event
rate has no calibration error at all; it cannot be a yardstick.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.estimators import cells_of, raw_error
from calibrant.stats.planning import samples_to_certify
from calibrant.stats.questions import Question
from calibrant.table import BinTable, describe_bins

Verdict: TypeAlias = Literal["certified", "refuted", "undecided"]

MOST_BINS_TO_PLAN = 30
"""Plans of more outputs take longer than the certificate itself."""
TOO_GOOD = (
    "nothing can be said: labels agree with the predictions better than independent draws would, "
    "whatever the error. Check that they were not used before, nor matched or made up"
)

EARLIER_WORDING: tuple[tuple[str, str], ...] = ()
"""Phrases of reasons and assumptions that earlier versions wrote, and what they are now.

Rewording a sentence takes a pair here, or `recheck` refuses all earlier certificates: only a
wording that is known to say the same is accepted. A phrase holds no number, and a sentence that
assumes something else is not a rewording.
"""


def shown_bounds(lower: float, upper: float, too_good: bool) -> tuple[str, str]:
    """Return both bounds as they are printed: dashes where labels agree too well.

    >>> shown_bounds(0.0, 0.0123, False), shown_bounds(0.0, 1e-05, True)
    (('0.0000', '0.0123'), ('-', '-'))
    """
    return ("-", "-") if too_good else (f"{lower:.4f}", f"{upper:.4f}")


def in_present_words(text: str) -> str:
    """Return a sentence of a document as this version would write it."""
    for then, now in EARLIER_WORDING:
        text = text.replace(then, now)
    return text


def decided(upper: float, lower: float, max_error: float | None) -> Verdict | None:
    """Return the verdict of these bounds on a tolerance; None without one."""
    if max_error is None:
        return None
    if upper <= max_error:
        return "certified"
    return "refuted" if lower > max_error else "undecided"


def overall(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """Return the verdict on all: refuted if any is, certified if all are; None without a limit."""
    distinct = set(verdicts)
    if None in distinct:
        return None
    if "refuted" in distinct:
        return "refuted"
    return "certified" if distinct == {"certified"} else "undecided"


def verdict_of(
    table: BinTable, question: Question, upper: float, lower: float, too_good: bool
) -> tuple[Verdict | None, str]:
    """Return the verdict on a tolerance, and why, with advice where rows are too few."""
    verdict, reason = judgement(table, question, upper, lower, too_good)
    if too_good or not table.is_binned_model:
        return verdict, reason
    if verdict == "undecided" and question.max_error:
        if question.power == 2 and question.draws in (None, 1):  # of several, the best is kept
            reason += _advice(table, question, question.max_error)
        reason += _look_again(question.looks)
    if table.problem.kind == "quantile":  # a level is what it is: nothing to compare it with
        return verdict, reason
    trivial = trivial_error(table, question.weights, question.power)
    return verdict, reason + _emptiness(verdict, upper, question.max_error, trivial)


def judgement(
    table: BinTable, question: Question, upper: float, lower: float, too_good: bool
) -> tuple[Verdict | None, str]:
    """Return the verdict and the sentence that claims it, without advice."""
    looks, max_error = question.looks, question.max_error
    level = f"with {100 * question.confidence_level:g}% confidence"
    level += f" over {looks:,} looks" if looks > 1 else ""
    error = f"{'coverage' if table.problem.kind == 'quantile' else table.problem.kind} error"
    if question.target == "sample":
        error += " on inputs like these rows"
    elif not table.is_binned_model:
        error += " in the population"
    where = f"(n = {table.n:,}, {describe_bins(table)})"
    if too_good:
        return None if max_error is None else "undecided", f"{TOO_GOOD} {where}"
    verdict = decided(upper, lower, max_error)
    if max_error is None:
        return None, f"{level} the {error} is at most {upper:.4f}, and at least {lower:.4f} {where}"
    if verdict == "certified":
        return verdict, f"{level} the {error} is at most {upper:.4f} <= {max_error:g} {where}"
    if verdict == "refuted":
        return verdict, f"{level} the {error} is at least {lower:.4f} > {max_error:g} {where}"
    if not table.is_binned_model:
        return verdict, (
            f"the {error} is at least {lower:.4f}, but bins mix different predictions {where}: "
            "such a model can be refuted, never certified. Recalibrate it with ScalingBinning"
        )
    return verdict, (
        f"the {error} lies between {lower:.4f} and {upper:.4f}, each {level} {where}: "
        f"more rows are needed to tell it from {max_error:g}"
    )


def _advice(table: BinTable, question: Question, max_error: float) -> str:
    """Say how many more rows would decide, if the error is what it seems to be.

    They are certified in another look, so there are at least two.
    """
    squared = float(raw_error(cells_of(table), question.weights, 2.0, debiased=True))
    seeming = math.sqrt(max(squared, 0.0))
    n_bins = int((table.count > 0).sum(axis=1).max())
    if seeming >= 0.95 * max_error:
        return (
            "; the error seems to be about that large, so no number of rows is sure to certify it"
        )
    if n_bins > MOST_BINS_TO_PLAN:
        return ""
    try:
        needed = samples_to_certify(
            max_error,
            n_bins,
            confidence_level=question.confidence_level,
            true_error=seeming,
            looks=max(question.looks, 2),
        )
    except InvalidArgumentError:  # more rows than can be planned; the verdict stands all the same
        return "; more than 1e15 would be needed"
    more = max(needed - table.n, table.n // 10, 1)
    more = round(more, 2 - len(str(more)))
    return f"; if the error is {seeming:.4f}, as it seems, about {more:,} more would do"


def _look_again(looks: int) -> str:
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


ONE_OF_EACH = (
    "One row of each cluster was drawn at random, and rows of different clusters are independent: "
    "the statement is about a random row of a random cluster, whatever rows of a cluster share."
)


FIXED_DRAWS = (
    "They were drawn {:,} times, a number fixed before these rows; each bound is that of the best "
    "draw, at an equal share of the error probability."
)


def assumptions_of(
    table: BinTable,
    question: Question,
    overlap_unchecked: bool = False,
    left_out: str | None = None,
) -> list[str]:
    """Return what must be true for the bounds to hold, a sentence each.

    `left_out` says which outputs a maximum says nothing of.
    """
    looks, target, min_bin_mass = question.looks, question.target, question.min_bin_mass
    terms = [
        "The rows are independent draws from the population that the statement is about.",
        "Their labels were not used to fit the model, to choose its outputs, or to choose bins.",
    ]
    terms.append(
        "This is the only certificate asked of these rows: their number was not chosen in the "
        "light of an earlier one."
        if looks == 1
        else f"At most {looks:,} certificates are asked of these rows as they grow, this one "
        "included (or the sum of 1/looks over all of them is at most 1), at numbers of rows that "
        "were not chosen in the light of the labels."
    )
    if overlap_unchecked:
        terms.append(OVERLAP_UNCHECKED)
    if question.draws is not None:
        terms.append(ONE_OF_EACH)
    if question.draws is not None and question.draws > 1:
        terms.append(FIXED_DRAWS.format(question.draws))
    if target == "sample":
        terms.append("The statement is about the error on inputs like these rows: label noise is "
                    "accounted for, the choice of inputs is not.")  # fmt: skip
    elif min_bin_mass == "learned" and table.is_binned_model:
        terms.append("The model has no outputs besides those of the table's bins.")
    elif min_bin_mass is not None and table.is_binned_model:
        terms.append(f"Every output of the model has a probability of at least {min_bin_mass:g}.")
    if question.levels is not None:
        terms.append(f"The model has no outputs but the {question.levels.size:,} that were "
                    "declared; they were known before these rows.")  # fmt: skip
    if left_out is not None:
        terms.append(left_out)
    if not table.is_binned_model:
        terms.append("Bins mix different predictions, so only the lower bound speaks of the model "
                    "(Proposition 3.2).")  # fmt: skip
    return terms


def trivial_error(table: BinTable, weights: FloatArray, power: float) -> float:
    """Return the error, on these rows, of always answering 0, or 1 where events are the rule.

    Examples
    --------
    >>> from calibrant import tabulate
    >>> table = tabulate([0] * 990 + [1] * 10, [0.01] * 1000)
    >>> trivial_error(table, np.ones(1), 2.0)
    0.01
    """
    used = weights > 0
    rate = table.sum_y[used].sum(axis=1) / table.count[used].sum(axis=1)
    off = np.minimum(rate, 1 - rate)
    if math.isinf(power):
        return float(off.max())
    return float((weights[used] @ off**power) ** (1 / power))


def _emptiness(
    verdict: Verdict | None, upper: float, max_error: float | None, trivial: float
) -> str:
    """Say that a model that knows nothing meets the bound or the tolerance, where it does."""
    fact = f"always answering 0 or 1, whichever is commoner, is off by {trivial:.4f} on these rows"
    if verdict == "refuted":
        return ""
    if max_error is not None and trivial <= max_error:
        return (
            f". This asks for little: {fact}, within the {max_error:g} that is allowed. Ask for "
            "a max_error far below that"
        )
    if verdict is None and trivial <= upper < 1:
        return f". This says little: {fact}. More rows give a lower bound"
    return ""
