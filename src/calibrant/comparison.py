"""The front door for comparing models: which is better calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Unpack, overload

from calibrant import stats
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.groups import required
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Reading, Source, in_memory
from calibrant.sources.arrays import called
from calibrant.sources.groups import clustered_rows, clusters_and_data, read_clustered
from calibrant.stats.estimators import ClassWeight, class_weights
from calibrant.stats.intervals import check_level


class _CompareOptions(Reading, total=False):
    bins: BinsLike
    class_weight: ClassWeight
    confidence_level: float
    cluster: Any


@overload
def compare(
    y_true: Any,
    prob_a: Any,
    prob_b: Any,
    *,
    y_true_b: Any = ...,
    **options: Unpack[_CompareOptions],
) -> stats.Comparison: ...
@overload
def compare(
    y_true: Any,
    prob_a: Mapping[str, Any],
    prob_b: None = ...,
    *,
    y_true_b: None = ...,
    **options: Unpack[_CompareOptions],
) -> stats.Comparisons: ...


def compare(
    y_true: Any,
    prob_a: Any,
    prob_b: Any = None,
    *,
    y_true_b: Any = None,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    confidence_level: float = 0.95,
    data: Any = None,
    input: Input = "probabilities",
    cluster: Any = None,
) -> stats.Comparison | stats.Comparisons:
    """Compare models on the same rows: calibration error, Brier score, log loss.

    Differences are paired, so what both models share cancels, and each has an interval; if it
    holds 0, the answer is "no difference that these rows can show". For top-label problems the
    event of each model is that its own choice was right.

    Parameters
    ----------
    y_true : array_like of shape (n,)
        Labels, as in `calibration_error`.
    prob_a, prob_b
        Predictions of both models; or several models as one dict by name, of which every pair is
        compared, and intervals hold for all pairs at once.
    y_true_b : optional
        Labels of model b where they are its own: of two language models on the same questions each
        has its own answers, right or wrong. With a dict of models, `y_true` may be a dict too.
    confidence_level : float
        Of each interval by itself; of several models, of all pairs at once.
    kind, bins, class_weight, classes, pos_label, data, input, cluster
        As in `calibration_error`.

    Returns
    -------
    Comparison
        With the differences `squared_error`, `brier` and `log_loss`, and `notes` where rows or
        events are too few for their intervals; of several models
        `Comparisons`, a mapping from pairs of names.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    compare_tables : two tables of different rows, such as two months.

    Notes
    -----
    The difference of Brier scores, or log losses, is the mean of one number for each row, with
    Student's interval. That of squared calibration errors is the difference of the two debiased
    squares, whose variance has a part that is linear in the rows and one that is of pairs
    (Hoeffding's decomposition); the proof is in `calibrant.stats.comparison`.

    References
    ----------
    Hoeffding (1948), A class of statistics with asymptotically normal distribution, Annals of
    Mathematical Statistics 19.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.uniform(size=3000) < p
    >>> compare(y, p, p**2).brier.verdict
    'a is better'
    >>> compare(y, {"plain": p, "cubed": p**3, "rooted": p**0.5}).models
    ('plain', 'rooted', 'cubed')
    """
    several = isinstance(prob_a, Mapping) and prob_b is None
    models = dict(prob_a) if several else {"a": prob_a, "b": prob_b}
    if isinstance(y_true, Mapping) and several:
        if set(y_true) != set(models):
            raise InvalidArgumentError(
                "A dict of labels has those of every model, by the same names; got labels of "
                f"{', '.join(map(str, y_true)):.60} and models {', '.join(map(str, models)):.60}."
            )
        labels = dict(y_true)
    else:
        labels = dict.fromkeys(models, y_true)
        labels |= {} if y_true_b is None else {"b": y_true_b}
    if (several and y_true_b is not None) or len(models) < 2 or models.get("b", 0) is None:
        raise InvalidArgumentError(
            "Two models are compared, prob_a and prob_b, or several as one dict by name, with a "
            f"dict of labels in place of y_true_b; got {len(models)} model(s). Two tables, of rows "
            "of their own, are compared by compare_tables(a, b)."
        )
    cluster, data = clusters_and_data(cluster, data)
    columns = [*labels.values(), *models.values(), *([] if cluster is None else [cluster])]
    data = in_memory(data, *columns)
    reading = (kind, input, classes, pos_label, None, data, None, cluster)
    sources: dict[str, Source] = {}
    for name, probs in models.items():
        with called(f"predictions of {name!r:.40}" if several else f"prob_{name}"):
            source, _ = read_clustered(labels[name], probs, *reading)
            sources[name] = source.in_memory()  # of a model in several pairs, read once
            sources[name].columns()
    options: dict[str, Any] = {"bins": bins, "class_weight": class_weight}
    if not several:
        return compare_sources(*sources.values(), confidence_level=confidence_level, **options)
    check_level(confidence_level)
    names = list(combinations(sources, 2))
    level = 1 - (1 - confidence_level) / len(names)
    pairs = {
        (a, b): compare_sources(sources[a], sources[b], confidence_level=level, **options)
        for a, b in names
    }
    scores = {name: pair.brier.b for (_, name), pair in pairs.items()}
    scores |= {name: pair.brier.a for (name, _), pair in pairs.items()}
    ranked = tuple(sorted(sources, key=lambda name: scores[name]))
    return stats.Comparisons(ranked, pairs, confidence_level)


def compare_sources(
    a: Source,
    b: Source,
    *,
    bins: BinsLike = "auto",
    class_weight: ClassWeight = None,
    confidence_level: float = 0.95,
) -> stats.Comparison:
    """Compare two models whose predictions of the same rows are in two sources; see `compare`."""
    if a.problem != b.problem:
        raise InvalidArgumentError(
            f"Both models must predict the same classes; these are {a.problem} and {b.problem}."
        )
    if a.problem.kind == "quantile":
        raise InvalidArgumentError(
            'compare judges probabilities by Brier score and log loss; kind is "quantile". Compare '
            "pinball_loss of both models."
        )
    clusters = required(clustered_rows(a).groups).codes if a.by else None
    (y_a, p_a), (y_b, p_b) = a.columns().events(), b.columns().events()
    return stats.compare_errors(
        y_a,
        p_a,
        p_b,
        y_b=y_b,
        bins_a=bins,
        bins_b=bins,
        weights=class_weights(class_weight, a.problem),
        confidence_level=confidence_level,
        clusters=clusters,
        one_label=not a.problem.has_event_columns,
    )
