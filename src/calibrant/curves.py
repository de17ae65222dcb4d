"""Curves: where the model is wrong, how right where it is sure, and what acting on it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, get_args, overload

from calibrant import stats
from calibrant._bins_argument import is_auto
from calibrant._options import check_flag, check_word
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Counting, Reading, Source, as_log, read
from calibrant.stats.curves import CurveMethod, group_of
from calibrant.stats.decisions import decision_bins
from calibrant.stats.intervals import check_level
from calibrant.stats.samples import Sample
from calibrant.stats.selective import confidence_bins
from calibrant.stats.smooth_curves import SmoothMethod, smooth_reliability_curve


class _CurveOptions(Counting, total=False):
    method: CurveMethod
    class_label: Label | None
    confidence_level: float
    simultaneous: bool


@overload
def reliability_curve(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[_CurveOptions]
) -> stats.ReliabilityCurve: ...
@overload
def reliability_curve(
    y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[_CurveOptions]
) -> stats.GroupCurves: ...


def reliability_curve(
    y_true: Any,
    y_prob: Any = None,
    *,
    kind: Kind | None = None,
    method: CurveMethod = "bins",
    bins: BinsLike = "auto",
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    class_label: Label | None = None,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    data: Any = None,
    input: Input = "probabilities",
    by: Any = None,
    shared_bins: bool = True,
) -> stats.ReliabilityCurve | stats.GroupCurves:
    """Return event rates beside predictions, in bins or as a smooth curve, with limits.

    Parameters
    ----------
    method : {"bins", "isotonic", "spline", "loess"}
        In bins, or one of three curves without, which bring all rows into memory and have a p-value
        of calibration: `calibrant.stats.smooth_curves` says what each is and what its limits rest
        on, and which of them stands for the calibration belt.
    class_label : label, optional
        Which class of a marginal problem.
    confidence_level : float
        Of the Clopper-Pearson limits of each event rate.
    simultaneous : bool
        Whether the limits hold in all bins at once, or in each by itself.
    y_true, y_prob, kind, bins, sample_weight, classes, pos_label, data, input, by, shared_bins
        As in `calibration_error`.

    Returns
    -------
    ReliabilityCurve
        With `by`, a `GroupCurves`: a mapping from the key of each group to its curve.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    ReliabilityDisplay : draws it.
    calibrant.stats.isotonic_curve : a curve without bins.

    Notes
    -----
    Of N rows in a bin, k events have an event rate of k / N with the limits of Clopper and Pearson:
    the rates at which as many events, or as few, have half of the error probability. With m
    occupied bins and ``simultaneous=True``, each has the error probability that makes all of them,
    independent given the predictions, hold at once (Sidak).

    References
    ----------
    Clopper, Pearson (1934), The use of confidence or fiducial limits illustrated in the case of the
    binomial, Biometrika 26.

    Examples
    --------
    >>> curve = reliability_curve([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.9], bins="width:2")
    >>> curve.event_rate
    array([0., 1.])
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, sample_weight, data, by)
    check_word("method", method, get_args(CurveMethod))
    if method != "bins":
        if not is_auto(bins):
            raise InvalidArgumentError(
                f'bins= are those of method="bins"; got bins={bins!r:.60} and method="{method}", '
                "a curve without bins. Leave one of them out."
            )
        return smooth_curve(source, method, class_label, confidence_level, simultaneous)
    options: dict[str, Any] = {"confidence_level": confidence_level, "simultaneous": simultaneous}
    options |= {"class_label": class_label}
    if source.by:
        return stats.group_curves(source.tabulate_by(bins, shared_bins), **options)
    return stats.reliability_curve(source.tabulate(bins), **options)


def smooth_curve(
    source: Source,
    method: SmoothMethod,
    class_label: Label | None,
    confidence_level: float,
    simultaneous: bool,
) -> stats.ReliabilityCurve:
    """Return a curve without bins of a source's rows, or of a table of distinct predictions."""
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    if source.by:
        raise InvalidArgumentError(
            f'by= gives curves in bins; got method="{method}". Leave one of them out, or pass the '
            "rows of one group at a time."
        )
    if source.has_rows:
        columns = source.columns()
        y, p = (x.reshape(len(columns), -1) for x in columns.events())
        group = group_of(source.problem, class_label)
        sample = Sample.of(y[:, group], p[:, group], columns.weights)
    else:
        sample = Sample.of_table(source.tabulate("auto"))
    return smooth_reliability_curve(sample, method, confidence_level, simultaneous)


class _SelectiveOptions(Reading, total=False):
    thresholds: Any
    confidence_level: float
    given_answer: bool | None


@overload
def selective_curve(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[_SelectiveOptions]
) -> stats.SelectiveCurve: ...
@overload
def selective_curve(
    y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[_SelectiveOptions]
) -> stats.GroupSelectiveCurves: ...


def selective_curve(
    y_true: Any,
    y_prob: Any = None,
    *,
    thresholds: Any = None,
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    by: Any = None,
    given_answer: bool | None = None,
) -> stats.SelectiveCurve | stats.GroupSelectiveCurves:
    """Return how often the model is right, where its least confident answers are left out.

    Rows are accepted above a threshold of confidence: of the top label, or of the likelier answer
    of a binary problem. The curve has coverage and accuracy at every threshold, exact limits that
    hold at all of them at once, and the area under the risk-coverage curve (AURC); see
    `calibrant.stats.selective`.

    Parameters
    ----------
    thresholds : array-like, optional
        Confidences above which rows are accepted, fixed before the labels are seen; by default
        115 of them. Fewer make narrower limits. A table has those of its bins.
    confidence_level : float
        Of the limits and of the interval of AURC.
    y_true, y_prob, kind, classes, pos_label, data, input, by
        As in `calibration_error`; binary and top-label problems. A `BinTable` may stand in place
        of `y_true` and `y_prob`. With `by` there is a curve for each group.
    given_answer : bool, optional
        Whether one column `y_prob` is the confidence in an answer that was given, and `y_true`
        whether that was right: rows are then accepted above `y_prob` itself, which may be less
        than one half. By default only of the logs that `read_log` reads.

    Returns
    -------
    SelectiveCurve
        With `by`, a `GroupSelectiveCurves`: a mapping from the key of each group to its curve.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    SelectiveDisplay : draws it.
    calibrant.stats.SelectiveCurve.certificate : what is proved at one threshold.

    Notes
    -----
    At threshold t, coverage is the share of rows with confidence above t, and risk the share of
    wrong answers among them. AURC is the mean risk over coverages, those of the rows from the most
    confident on. Limits are binomial; the thresholds share one error probability.

    References
    ----------
    Geifman, El-Yaniv (2017), Selective classification for deep neural networks, NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=10_000)
    >>> curve = selective_curve(rng.uniform(size=10_000) < p, p)
    >>> print(curve)
    74.9% right at full coverage, AURC 0.1295 [0.1226, 0.1369], n = 10,000
    coverage  accuracy  at least (95%, all at once)  above confidence
    100.0%     74.9%     73.5%                       0.5
    ...
    >>> curve.threshold_for(0.9)
    0.85
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, data=data, by=by)
    if not source.has_rows and thresholds is not None:
        raise InvalidArgumentError(
            "A table has the thresholds it was counted with; got thresholds= beside it. Leave them "
            "out, or pass the rows."
        )
    if given_answer is None:
        given_answer = as_log(data) is not None
    check_flag("given_answer", given_answer)
    options: Any = {"confidence_level": confidence_level, "given_answer": given_answer}
    bins: BinsLike = "auto"
    if source.has_rows:
        bins = confidence_bins("top-label" if given_answer else source.problem.kind, thresholds)
    if source.by:
        return stats.group_selective_curves(source.tabulate_by(bins), **options)
    return stats.selective_curve(source.tabulate(bins), **options)


def decision_curve(
    y_true: Any,
    y_prob: Any = None,
    *,
    thresholds: Any = None,
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.DecisionCurve:
    r"""Return the net benefit of acting on predictions, at every threshold of acting.

    Rows are counted where they are, as for `calibration_error`; memory does not grow with them.

    Parameters
    ----------
    thresholds : array-like, optional
        Probabilities from which on one acts; by default every hundredth.
    confidence_level : float
        Of the intervals, at each threshold by itself.
    y_true, y_prob, kind, classes, pos_label, data, input
        As in `calibration_error`; binary problems, and top-label ones, whose event is that the top
        label is right.

    Returns
    -------
    DecisionCurve

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    DecisionDisplay : draws it.
    validate : the table of a validation report.

    Notes
    -----
    With TP and FP the events and the others among n rows with p >= t, the net benefit is
    :math:`TP / n - \frac{t}{1 - t} FP / n`. It assumes that the threshold says what a false alarm
    costs; a miscalibrated model acts at another risk than t and loses benefit.

    References
    ----------
    Vickers, Elkin (2006), Decision curve analysis: a novel method for evaluating prediction models.
    Vickers, Van Calster, Steyerberg (2016), Net benefit approaches to the evaluation of prediction
    models, molecular markers, and diagnostic tests.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=4000)
    >>> curve = decision_curve(rng.uniform(size=4000) < p, p, thresholds=[0.1, 0.2, 0.3])
    >>> print(curve)
    better than acting on everybody and on nobody at thresholds from 0.1 to 0.3
      (95% each), n = 4,000
    threshold  net benefit                   everybody
    0.1        0.1232 [0.1107, 0.1362]       0.1006
    0.2        0.0767 [0.0647, 0.0891]       -0.0119
    0.3        0.0455 [0.0347, 0.0568]       -0.1564
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, data=data)
    if not source.has_rows:
        raise InvalidArgumentError(
            "A decision curve needs rows: the bins of a table end where they were counted, not at "
            "thresholds. Pass y_true and y_prob."
        )
    threshold, bins = decision_bins(thresholds)
    table = source.tabulate(bins)
    return stats.decision_curve(table, threshold, confidence_level=confidence_level)
