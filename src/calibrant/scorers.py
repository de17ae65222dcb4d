"""Scorers: a calibration error as scikit-learn's searches and cross-validation take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._options import check_flag
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.measure import calibration_error
from calibrant.problem import Kind
from calibrant.stats.estimators import Norm


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
