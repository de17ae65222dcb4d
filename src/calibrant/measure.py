"""The front door: from predictions and labels to a table, and from there to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack, overload

import numpy as np

from calibrant import stats
from calibrant._options import check_flag
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Counting, read
from calibrant.sources.groups import (
    cluster_sums,
    cluster_sums_of_groups,
    clustered_rows,
    clusters_by_group,
    read_clustered,
)
from calibrant.stats.estimators import ClassWeight, Norm, class_weights
from calibrant.table import BinTable
from calibrant.tables import Tables


class _ErrorOptions(Counting, total=False):
    norm: Norm
    debias: bool | None
    class_weight: ClassWeight
    cluster: Any


@overload
def calibration_error(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[_ErrorOptions]
) -> stats.CalibrationErrorResult: ...
@overload
def calibration_error(
    y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[_ErrorOptions]
) -> stats.GroupErrors: ...


def calibration_error(
    y_true: Any,
    y_prob: Any = None,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    norm: Norm = "l2",
    debias: bool | None = None,
    sample_weight: Any = None,
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    by: Any = None,
    shared_bins: bool = True,
    cluster: Any = None,
) -> stats.CalibrationErrorResult | stats.GroupErrors:
    r"""Measure how far predicted probabilities are from what happens.

    The l_p calibration error is ``E[|E[Y | f] - f|^p]^(1/p)``, estimated in bins. If every bin
    holds one distinct prediction, that is the error itself; otherwise it is a lower bound
    (Proposition 3.2 of Kumar, Liang, Ma, 2019), and the result says so.

    Parameters
    ----------
    y_true : array_like of shape (n,), or (n, K) of kind "multi-label"; or BinTable
        Labels: 0/1 or booleans, class indices, or names given by `classes` or `pos_label`; real
        outcomes of kind "quantile". A table counted before stands in place of labels and
        predictions.
    y_prob : array_like of shape (n,) or (n, n_classes)
        Probabilities. Rows need not add up to 1, but for kind "ordinal".
    kind : {"binary", "top-label", "marginal", "multi-label", "ordinal", "quantile"}, optional
        (n,) and (n, 2) are "binary", and the second of two columns is the event's, as in
        scikit-learn's ``predict_proba``; three columns and more are "top-label" unless
        "marginal" is asked for. Ties for the top go to the lowest index. Of "multi-label" every
        column is an event of its own, and a row may have none or several. Of "ordinal", columns
        are classes in ascending order, and the events are "this class or a lower one". Of
        "quantile", `y_prob` holds predicted quantiles of a real outcome and `classes` their
        levels; the events are "at most this quantile".
    bins : int, str, rule, Bins or array of edges
        15 or "mass:15" (uniform mass), "auto" (about ``0.8 n^(2/5)`` of them), "width:15",
        "hybrid:15", "distinct", or edges. The ``bins`` of an earlier table count as that was
        counted, so that the two can be added.
    norm : "l1", "l2", "max" or a number >= 1
        "l1" is known as ECE, "max" as MCE.
    debias : bool, optional
        None: the paper's unbiased estimator for l2, the folded-normal correction for l1,
        plug-in for other norms. False: plug-in. True: insist on a correction.
    sample_weight : array_like of shape (n,), optional
        Importance weights: their scale does not matter. A whole-number weight gives the
        plug-in error of repeated rows; variances and bias corrections use the effective number
        of rows, for a row that counts twice is not two independent rows.
    class_weight : dict or sequence, optional
        Importance of each class of a marginal problem; equal by default.
    classes : sequence, optional
        Labels in the order of the columns; for "binary" (no, yes), for "quantile" the levels.
    pos_label : label, optional
        The event of a binary problem. With two columns it needs `classes`, unless labels are 0
        and 1: the event's column is the one at its place.
    data : data frame, dict, or path, optional
        Where `y_true`, `y_prob` and `sample_weight` are column names; `y_prob` may be a list, or a
        pattern of columns, such as ``"prob_*"``, and so may `y_true` of kind "multi-label":
        ``"y_*"`` beside ``"prob_*"``. Lazy frames are counted where they are. A path, a pattern
        such as ``"part-*.parquet"`` or a list of them names files (CSV, TSV, Parquet, JSON lines,
        Arrow, .npz), which are read in chunks.
    input : {"probabilities", "logits"}
        What `y_prob` holds. Logits go through a sigmoid (one column, and each of "multi-label") or
        a softmax (several), in float64; the many columns of a top-label problem are never copied
        for it.
    by : array_like, list, dict or column name, optional
        What puts rows into groups, each measured apart, all counted in one pass. With `data`, a
        name, a list of names (which cross), or a dict of names and cuts: ``{"age": [0, 40, 65,
        120], "sex": None}`` makes the groups [0, 40], (40, 65] and (65, 120] of each sex. Without,
        one array, a list of arrays, or a dict by name in which ``(values, cuts)`` cuts a column.
        Rows of which a column says nothing (None, NaN, an empty cell) are a group of their own,
        printed as "missing"; values outside the cuts are refused.
    shared_bins : bool
        Whether bins chosen from the data are chosen from all rows and shared by all groups, or
        for each group from its own rows, which must then fit in memory.
    cluster : array_like or column name, optional
        The patient, prompt or day of each row, where rows of one depend on each other: estimate
        and interval of the l2 error are then those of independent clusters, see
        `calibrant.stats.clusters`. All rows are held in memory. Of an `EvaluationLog` that asked
        questions several times it is the question; False says that rows are independent. With
        `by`, a cluster may be in several groups, and every group needs two.

    Returns
    -------
    CalibrationErrorResult
        With `by`, a `GroupErrors`: a mapping from the key of each group to its result.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.
    NoSuchEstimatorError
        If ``debias=True`` is asked of a norm that has no correction.

    See Also
    --------
    certify : bounds that hold at any number of rows, with a verdict.
    calibration_test : is there any error at all?
    reliability_curve : where is it wrong?
    CalibrationMetric : the same, batch by batch.

    Notes
    -----
    In bin j with :math:`N_j` of n rows, let :math:`s_j` be the mean prediction, :math:`x_j` the
    event rate, and :math:`u_i = y_i - p_i` for each row. The plug-in estimate is

    .. math:: \left( \sum_j \frac{N_j}{n} \lvert x_j - s_j \rvert^p \right)^{1/p},

    which noise makes too large. The debiased squared l2 error is the mean over pairs of different
    rows of a bin,

    .. math:: \sum_j \frac{N_j}{n} \, \frac{(\sum u_i)^2 - \sum u_i^2}{N_j (N_j - 1)},

    with the sums over the rows of bin j. Its expectation is exactly the squared error in these
    bins, and it is clipped at zero once, at the end. The debiased l1 error is twice the plug-in
    estimate less its expectation under a normal approximation, in closed form (appendix G of the
    paper).

    References
    ----------
    Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=10_000)
    >>> y = rng.uniform(size=10_000) < p**2
    >>> result = calibration_error(y, p, bins="width:10")
    >>> round(result.value, 2), result.is_lower_bound
    (0.19, True)
    """
    source, clustered = read_clustered(
        y_true, y_prob, kind, input, classes, pos_label, sample_weight, data, by, cluster
    )
    options: dict[str, Any] = {"norm": norm, "debias": debias, "class_weight": class_weight}
    if clustered:
        rows, weights = clustered_rows(source), class_weights(class_weight, source.problem)
        if by is None:
            table = rows.tabulate(bins)
            sums = cluster_sums(rows, table, weights)
            return stats.calibration_error(table, **options, clusters=sums)
        rows, clusters = clusters_by_group(rows)
        tables = rows.tabulate_by(bins, shared_bins)
        by_group = cluster_sums_of_groups(rows, clusters, tables, weights)
        return stats.group_errors(tables, **options, clusters=by_group)
    if source.by:
        return stats.group_errors(source.tabulate_by(bins, shared_bins), **options)
    home = source if source.has_rows else None
    result = stats.calibration_error(source.tabulate(bins), **options, source=home)
    if source.is_lazy:  # its connection may be closed when the interval is asked for
        result.settle()
    return result


@overload
def tabulate(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[Counting]
) -> BinTable: ...
@overload
def tabulate(y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[Counting]) -> Tables: ...


def tabulate(
    y_true: Any,
    y_prob: Any = None,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    by: Any = None,
    shared_bins: bool = True,
) -> BinTable | Tables:
    """Count predictions and labels in bins.

    Tables with the same bins can be added, so rows may come in parts: from days, files or workers.

    Parameters
    ----------
    y_true, y_prob, kind, sample_weight, classes, pos_label, data, input
        As in `calibration_error`.
    bins : int, str, rule, Bins or array of edges
        As in `calibration_error`. Parts that will be added need bins that do not depend on the
        rows: `EqualWidth`, `Distinct`, or the `bins` of another table.
    by, shared_bins
        As in `calibration_error`.

    Returns
    -------
    BinTable
        With `by`, `Tables`: one for each group.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    calibration_error : takes a table in place of rows.
    CalibrationMetric : adds up tables, batch by batch.

    Examples
    --------
    >>> a = tabulate([0, 1], [0.2, 0.9], bins="width:2")
    >>> b = tabulate([1, 1], [0.6, 0.7], bins="width:2")
    >>> (a + b).count
    array([[1., 3.]])
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, sample_weight, data, by)
    return source.tabulate_by(bins, shared_bins) if source.by else source.tabulate(bins)


def calibration_scorer(
    norm: Norm = "l2",
    *,
    bins: BinsLike = "auto",
    kind: Kind | None = None,
    debias: bool | None = None,
    squared: bool = False,
) -> CalibrationScorer:
    """Return a scorer for ``scoring=``: minus the calibration error, so that more is better.

    A calibration error alone is best for a model that always says the base rate. Choose by a proper
    score, such as the log loss, and look at this one beside it.

    Parameters
    ----------
    norm, bins, kind, debias
        As in `calibrant.calibration_error`.
    squared : bool
        Score by minus the squared l2 error without clipping at 0: below the noise of a fold, where
        the debiased error is 0, models are still told apart, and the mean over folds is unbiased.

    Returns
    -------
    CalibrationScorer
        Called as ``scorer(estimator, X, y, sample_weight=None)``; it pickles.

    Raises
    ------
    InvalidArgumentError
        If `squared` is asked of another norm than l2, or the estimator predicts no probabilities.

    See Also
    --------
    calibration_error : the number itself, with its interval.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn.naive_bayes import GaussianNB
    >>> x, y = load_breast_cancer(return_X_y=True)
    >>> scoring = {"calibration": calibration_scorer(), "log_loss": "neg_log_loss"}
    >>> scores = cross_validate(GaussianNB(), x, y, scoring=scoring)
    >>> scores["test_calibration"].round(2)
    array([-0.05, -0.08, -0.04,  0.  ,  0.  ])
    """
    check_flag("squared", squared)
    if squared and norm != "l2":
        raise InvalidArgumentError(
            f'squared=True is about the l2 error; got norm={norm!r}. Leave norm at "l2".'
        )
    return CalibrationScorer(norm, bins, kind, debias, squared)


@dataclass(frozen=True)
class CalibrationScorer:
    """What `calibration_scorer` returns: a function of an estimator, features and labels."""

    norm: Norm
    bins: BinsLike
    kind: Kind | None
    debias: bool | None
    squared: bool

    def __call__(
        self,
        estimator: Any,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
    ) -> float:
        """Return minus the calibration error of the estimator's probabilities for these rows."""
        if not hasattr(estimator, "predict_proba"):
            raise InvalidArgumentError(
                "A calibration scorer needs an estimator with predict_proba; "
                f"{type(estimator).__name__} has none. Wrap it in RecalibratedClassifier, which "
                "turns decision scores into probabilities."
            )
        result = calibration_error(
            np.asarray(y),
            np.asarray(estimator.predict_proba(X)),
            classes=np.asarray(estimator.classes_).tolist(),
            norm=self.norm,
            bins=self.bins,
            kind=self.kind,
            debias=self.debias,
            sample_weight=sample_weight,
        )
        squared = result.squared if self.squared else None
        return 0.0 - float(result.value if squared is None else squared)  # and never -0.0
