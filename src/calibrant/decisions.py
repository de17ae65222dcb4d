"""The front door for decisions: what acting on predictions is worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant import stats
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Kind, Label
from calibrant.sources import read
from calibrant.stats.decisions import decision_bins


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
