"""validate: the table of measures, each with an interval, that reports of risk models ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, overload

import numpy as np

from calibrant import stats
from calibrant._types import IntArray
from calibrant.bins import BinsLike
from calibrant.columns import Columns
from calibrant.exceptions import InvalidArgumentError
from calibrant.groups import ranking, required
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Reading
from calibrant.sources.arrays import ArraySource
from calibrant.sources.groups import (
    cluster_sums,
    clustered_rows,
    clusters_and_data,
    clusters_by_group,
    read_clustered,
)
from calibrant.stats.estimators import class_weights
from calibrant.stats.intervals import check_level
from calibrant.stats.samples import Sample
from calibrant.stats.validation import validation


class _ValidateOptions(Reading, total=False):
    bins: BinsLike
    confidence_level: float
    sample_weight: Any
    cluster: Any


@overload
def validate(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[_ValidateOptions]
) -> stats.Validation: ...
@overload
def validate(
    y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[_ValidateOptions]
) -> stats.GroupValidations: ...


def validate(
    y_true: Any,
    y_prob: Any = None,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    confidence_level: float = 0.95,
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    by: Any = None,
    cluster: Any = None,
) -> stats.Validation | stats.GroupValidations:
    """Validate predicted risks: calibration, discrimination and overall scores, with intervals.

    One table of what TRIPOD asks for: calibration in the large, intercept and slope, O/E, ICI with
    E50, E90 and Emax, the C statistic, Brier and scaled Brier score, log loss, smooth ECE, and the
    debiased l2 error. `calibrant.stats.validation` says what each estimates and how; the page *Do
    the intervals cover?* how often intervals hold the truth. Where events are few or a threshold
    separates them, logistic fits have Firth's correction, and a note says so. All rows are held in
    memory.

    Parameters
    ----------
    y_true, y_prob, kind, sample_weight, classes, pos_label, data, input, by
        As in `calibrant.calibration_error`; binary problems, and top-label ones, whose event is
        that the label is right. With `by` there is a table for each group.
    bins
        Of the l2 error, as there.
    confidence_level : float
        Of each interval by itself.
    cluster : array_like or column name, optional
        The patient or hospital of each row, where rows of one depend on each other; of a
        log that repeats questions, the question, unless False. Beside `by`, clusters are told apart
        within each group, and may have rows in several; beside weights, clusters are summed with
        theirs, and a note says how intervals fared in simulation.

    Returns
    -------
    Validation
        A mapping from names, such as "slope", to `Measure`, which has `value`, `low` and `high`.
        With `by`, a `GroupValidations`: a mapping from the key of each group to its table.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    calibration_error : the error alone.
    report : a page of all of it.

    References
    ----------
    Steyerberg et al. (2010), Assessing the performance of prediction models, Epidemiology 21.
    Van Calster et al. (2019), Calibration: the Achilles heel of predictive analytics, BMC Medicine.
    Austin, Steyerberg (2019), The Integrated Calibration Index (ICI), Statistics in Medicine 38.
    Heinze, Schemper (2002), A solution to the problem of separation, Statistics in Medicine 21.
    Collins et al. (2024), TRIPOD+AI statement, BMJ 385.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> table = validate(rng.uniform(size=2000) < p, p)
    >>> print(table["slope"])
    calibration slope 1.0339 [0.9389, 1.1289]
    """
    check_level(confidence_level)
    cluster, data = clusters_and_data(cluster, data)  # of a log by groups, too
    source, clustered = read_clustered(
        y_true, y_prob, kind, input, classes, pos_label, sample_weight, data, by, cluster
    )
    if source.problem.n_groups > 1 or source.problem.kind not in ("binary", "top-label"):
        problem = source.problem
        raise InvalidArgumentError(
            "validate measures the risks of one event: a binary problem, or the confidence of "
            f'kind="top-label"; got kind="{problem.kind}" with '
            f"{problem.n_groups:,} {problem.parts}. Validate one {problem.part} at a time, as "
            "an event: whether it happened, with its column of y_prob."
        )
    rows = clustered_rows(source, weighted=True) if clustered else source.in_memory()
    if by is None:
        codes = required(rows.groups).codes if clustered else None
        return _one(rows.columns(), bins, confidence_level, codes)
    codes = None
    if clustered:
        rows, clusters = clusters_by_group(rows)
        codes = clusters.codes
    groups, columns = required(rows.groups), rows.columns()
    parts = {
        group: _one(
            columns.take(index), bins, confidence_level, None if codes is None else codes[index]
        )
        for group, index in groups.rows()
        if columns.weights is None or columns.weights[index].any()
    }
    labels = tuple(sorted(parts, key=ranking(groups.by)))
    names = ", ".join(column.name for column in groups.by)
    return stats.GroupValidations(names, labels, tuple(parts[group] for group in labels))


def _one(
    columns: Columns, bins: BinsLike, confidence_level: float, cluster: IntArray | None = None
) -> stats.Validation:
    if cluster is not None and columns.weights is not None:  # rows that count nothing are none
        used = np.flatnonzero(columns.weights > 0)
        columns, cluster = columns.take(used), cluster[used]
    rows = ArraySource(columns)
    table = rows.tabulate(bins)
    sums = None
    if cluster is not None:
        sums = cluster_sums(rows, table, class_weights(None, table.problem), cluster)
    error = stats.calibration_error(table, clusters=sums)
    y, p = (np.asarray(x, float).reshape(-1) for x in columns.events())
    sample = Sample.of(y, p, columns.weights, cluster)
    return validation(sample, error, rows.problem.kind, confidence_level)
