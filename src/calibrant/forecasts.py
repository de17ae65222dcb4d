"""The front door for scores: the Brier score and its parts, skill, ranked probability score."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np

from calibrant import stats
from calibrant._bins_argument import is_auto
from calibrant._options import check_word, is_real
from calibrant._types import FloatArray
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.groups import required
from calibrant.problem import Input, Kind, Label
from calibrant.sources import in_memory, read
from calibrant.sources.arrays import called
from calibrant.sources.groups import clustered_rows, clusters_and_data, read_clustered
from calibrant.stats.estimators import ClassWeight
from calibrant.stats.scores import RULES, Rule, row_scores


def skill_score(
    y_true: Any,
    y_prob: Any = None,
    reference: Any = None,
    *,
    score: Rule = "brier",
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    cluster: Any = None,
) -> stats.SkillScore:
    """Return how much better than a reference a forecast scores: ``1 - score / reference``.

    Parameters
    ----------
    y_true, y_prob
        As in `calibration_error`: one event, or a column for each of several classes.
    reference : optional
        Another model's predictions of the same rows, or a column name with `data`; a number, the
        climatology of one event known from elsewhere; or, by default, the base rate of these rows,
        which no constant forecast beats.
    score : {"brier", "log", "rps"}
        Brier score, log loss, or the ranked probability score of ordered classes.
    sample_weight, classes, pos_label, data, input, cluster
        As in `calibration_error`; `input` holds for both models.

    Returns
    -------
    SkillScore
        Its ``confidence_interval()`` is paired, row by row.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    compare : the differences of two models' scores.
    brier_decomposition : what the Brier score is made of.

    Notes
    -----
    With S and R the mean scores of forecast and reference, the skill is 1 - S / R. Its interval is
    Fieller's, of paired rows; see `calibrant.stats.SkillScore`.

    References
    ----------
    Murphy (1973), A new vector partition of the probability score. Fieller (1954), Some problems
    in interval estimation. Epstein (1969), A scoring system for probability forecasts of ranked
    categories.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> y = rng.uniform(size=2000) < p
    >>> print(skill_score(y, p))
    Brier score skill = 0.3469 [0.3129, 0.3810] at 95%
      0.16325 against 0.24998 of climatology, n = 2,000
    >>> skill_score(y, p, reference=p**2).value > 0
    True
    """
    check_word("score", score, RULES)
    cluster, data = clusters_and_data(cluster, data)
    beside = [name for name in (reference, sample_weight, cluster) if isinstance(name, str)]
    data = in_memory(data, y_true, y_prob, *beside)
    reading = (input, classes, pos_label, sample_weight, data, None, cluster)
    source, clustered = read_clustered(y_true, y_prob, None, *reading)
    if not source.has_rows:
        raise InvalidArgumentError(
            "Scores of rows are not in a table of sums. Pass the labels and predictions themselves."
        )
    if source.problem.kind != "binary":  # one column for each class
        source, _ = read_clustered(y_true, y_prob, "marginal", *reading)
    clusters = required(clustered_rows(source).groups).codes if clustered else None
    rows = source.columns()
    y, p = rows.events()
    if reference is None:
        name, other = "climatology", np.average(y, axis=0, weights=rows.weights)
    elif isinstance(reference, Real):
        name, other = "a constant", _probability(reference, y.ndim)
    else:
        with called("reference"):
            model, _ = read_clustered(y_true, reference, source.problem.kind, *reading)
            name, other = "another model", model.columns().events()[1]
        if other.shape != p.shape:
            raise InvalidShapeError(
                f"Forecast and reference must have the same columns; got {p.shape} and "
                f"{other.shape}."
            )
    return stats.skill_score(
        row_scores(score, y, p),
        row_scores(score, y, np.broadcast_to(other, y.shape)),
        rule=score,
        reference=name,
        weights=rows.weights,
        clusters=clusters,
    )


def ranked_probability_score(
    y_true: Any,
    y_prob: Any = None,
    *,
    classes: Sequence[Label] | None = None,
    sample_weight: Any = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.MeanScore:
    """Return the mean ranked probability score of forecasts of ordered classes; lower is better.

    The sum over k of ``(P(class <= k) - 1{class <= k})^2``, averaged over rows: the Brier scores of
    all events "this class or one before" together. Divide by K - 1 for the normalised one, which
    is the score that ``brier_decomposition(kind="ordinal")`` takes apart.

    Parameters
    ----------
    y_true, y_prob, sample_weight, data, input
        As in `calibration_error` of ``kind="ordinal"``; a column for each class, from the lowest
        on.
    classes : sequence, optional
        Labels in the order of the columns.

    Returns
    -------
    MeanScore
        ``float(score)`` is the mean; it has a standard error and an interval.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    skill_score : the same against a reference, with an interval.

    References
    ----------
    Epstein (1969), A scoring system for probability forecasts of ranked categories, Journal of
    Applied Meteorology 8.

    Examples
    --------
    >>> print(ranked_probability_score([0, 2], [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]))
    ranked probability score = 0.1350 (standard error 0.0350), n = 2
      about 2 rows decide it: the interval may be too short
    """
    reading = (input, classes, None, sample_weight, data)
    source = read(y_true, y_prob, None, *reading)
    if source.problem.kind != "binary":
        source = read(y_true, y_prob, "ordinal", *reading)
    rows = source.columns()
    happened, predicted = (x.reshape(len(x), -1) for x in rows.events())
    scores = ((happened - predicted) ** 2).sum(axis=1)
    return stats.MeanScore.of("ranked probability score", scores, rows.weights)


def _probability(reference: Real, n_axes: int) -> FloatArray:
    """Return a constant reference, of one event."""
    if n_axes != 1 or not (is_real(reference) and 0 <= float(reference) <= 1):
        raise InvalidArgumentError(
            "A number as reference= is the probability of one event, in [0, 1]; got "
            f"{reference!r:.60} for {'one event' if n_axes == 1 else 'several classes'}."
        )
    return np.array(float(reference))


def brier_decomposition(
    y_true: Any,
    y_prob: Any = None,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    method: Literal["bins", "corp"] = "bins",
    debias: bool = False,
    sample_weight: Any = None,
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.ScoreDecomposition:
    r"""Split the Brier score into miscalibration - discrimination + uncertainty, exactly.

    Parameters
    ----------
    method : {"bins", "corp"}
        In bins; or by the isotonic curve of the distinct predictions (CORP; Dimitriadis, Gneiting,
        Jordan, 2021), of one event and without weights, whose terms have intervals:
        ``parts.confidence_interval("miscalibration")``. See `calibrant.stats.corp_decomposition`.
    debias : bool
        Whether the terms are corrected for bias: miscalibration is then the debiased square,
        uncertainty is multiplied by n / (n - 1), and discrimination keeps the sum.
    y_true, y_prob, kind, bins, sample_weight, class_weight, classes, pos_label, data, input
        As in `calibration_error`.

    Returns
    -------
    ScoreDecomposition
        With `value`, `miscalibration`, `discrimination` and `uncertainty`.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    calibration_error : the root of miscalibration, without its bias and with an interval.

    Notes
    -----
    With the mean prediction :math:`s_j` and the event rate :math:`x_j` of bin j, and the event rate
    :math:`\bar y` of all rows,

    .. math::

        \frac1n \sum_i (y_i - p_i)^2 = \sum_j \frac{N_j}{n} (x_j - s_j)^2
        - \left[ \sum_j \frac{N_j}{n} (x_j - \bar y)^2 - W \right] + \bar y (1 - \bar y).

    W is what predictions that differ inside a bin add, so that the sum is exact with any bins;
    with one prediction in each bin it is 0.

    References
    ----------
    Murphy (1973), A new vector partition of the probability score, Journal of Applied
    Meteorology 12.

    Examples
    --------
    >>> parts = brier_decomposition([0, 1, 0, 1], [0.25, 0.25, 0.75, 0.75], bins="distinct")
    >>> print(parts)
    Brier 0.3125 = miscalibration 0.0625 - discrimination 0.0000 + uncertainty 0.2500
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, sample_weight, data)
    if source.problem.kind == "quantile":
        raise InvalidArgumentError(
            'The Brier score judges probabilities; kind is "quantile". Score quantiles with '
            "pinball_loss."
        )
    check_word("method", method, ("bins", "corp"))
    if method == "corp":
        if not is_auto(bins) or debias is not False or class_weight is not None:
            raise InvalidArgumentError(
                'method="corp" chooses no bins and corrects its intervals for bias; leave bins=, '
                "debias= and class_weight= out."
            )
        if source.problem.n_groups > 1:
            raise InvalidArgumentError(
                f'method="corp" takes apart the score of one event; kind="{source.problem.kind}" '
                f"has {source.problem.n_groups:,} {source.problem.parts}. Pass one "
                f"{source.problem.part} as an event, or its name as class_label= of "
                "calibrant.stats.corp_decomposition."
            )
        return stats.corp_decomposition(source.tabulate("distinct" if source.has_rows else bins))
    return stats.brier_decomposition(
        source.tabulate(bins), debias=debias, class_weight=class_weight
    )
