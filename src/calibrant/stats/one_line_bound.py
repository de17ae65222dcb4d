"""A bound of the ECE that can be checked by hand."""

from __future__ import annotations

from calibrant.exceptions import NoSuchEstimatorError
from calibrant.stats.bounds_l1 import one_line_upper_bound_l1
from calibrant.stats.estimators import ClassWeight, Target
from calibrant.stats.evidence import Setting, evidence_of
from calibrant.stats.questions import Question
from calibrant.table import BinTable


def one_line_ece_bound(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    target: Target = "population",
    class_weight: ClassWeight = None,
) -> float:
    """Bound the ECE of a binned model in one line: plug-in error plus a radius.

    ``ECE + sqrt(log(1 / delta) / (2 n))`` for the sample, ``+ sqrt(2 log(1 / delta) / n)`` for the
    population (McDiarmid's inequality, and Jensen's for the bias). Nothing is tuned, and anybody
    can check it by hand; ``certify(norm="l1")`` is about twice as tight.

    Parameters
    ----------
    table : BinTable
        Of a model with finitely many outputs.
    confidence_level, target, class_weight
        As in `calibrant.certify`.

    Returns
    -------
    float

    Examples
    --------
    >>> from calibrant import Distinct, tabulate
    >>> table = tabulate([0, 1] * 500, [0.5] * 1000, bins=Distinct())
    >>> round(one_line_ece_bound(table, target="sample"), 4)
    0.0387
    """
    question = Question.of(
        table,
        norm="l1",
        confidence_level=confidence_level,
        target=target,
        class_weight=class_weight,
    )
    if not table.is_binned_model:
        raise NoSuchEstimatorError(
            "Bins of this table mix different predictions: no upper bound exists. Count each "
            "distinct output in its own bin, bins=Distinct()."
        )
    setting = Setting(target, 1 - confidence_level)
    return one_line_upper_bound_l1(evidence_of(table, question.weights), setting)
