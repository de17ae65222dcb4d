"""Choosing a recalibrator by cross-validation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from calibrant._json import plain
from calibrant._options import generator, is_integer
from calibrant._results import Result
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Label, check_input
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.by_group import ByGroup
from calibrant.recalibrators.class_rows import fold_of_rows, log_losses, squared_errors
from calibrant.recalibrators.foreign import as_recalibrator, is_foreign
from calibrant.recalibrators.isotonic import VennAbers
from calibrant.recalibrators.matrix import MatrixScaling, VectorScaling
from calibrant.recalibrators.multiclass import OneVsRest
from calibrant.recalibrators.quantiles import QuantileRepair
from calibrant.recalibrators.reading import check_choice, keep_names, read_labelled
from calibrant.recalibrators.scaling import BetaScaling, PlattScaling
from calibrant.recalibrators.spline import SplineCalibration
from calibrant.recalibrators.temperature import Identity, TemperatureScaling
from calibrant.recalibrators.top_label import TopLabel
from calibrant.sources import read_named
from calibrant.sources.arrays import as_array
from calibrant.sources.column_names import names_of
from calibrant.table import BinTable
from calibrant.tables import Tables

Scoring: TypeAlias = Literal["log", "brier"]

SCREENED_VALUES = 1 << 16
"""Where rows times columns are fewer, all candidates are compared on all folds within a second."""
MOST_VALUES = 1 << 21
"""So many values, and no fewer than the rows below, take part in the screening."""
FEWEST_ROWS = 2_000
CAUTION = 2.0
"""How many standard errors better than doing nothing a repair must be. The best of seven repairs of
a calibrated model looks better by one standard error too often: on 300 rows of 20 classes, three
times in eight."""
MOST_SPLINES = 10
"""Classes for which a spline each is tried: a fifth of a second each, in every fold."""
KEPT = 3
"""How many candidates besides the first are compared on all folds: neighbours in flexibility, such
as vector and matrix scaling, may change places between folds, others hardly."""


@dataclass(frozen=True, eq=False, repr=False)
class RecalibratorScores(Result):
    """Cross-validated losses of several recalibrators on the same folds.

    Attributes
    ----------
    candidates : tuple of recalibrators
        From the simplest on.
    loss : ndarray
        The mean loss of each on rows it was not fitted on; lower is better.
    excess, standard_error : ndarray
        By how much it exceeds the lowest, and the standard error of that difference, row by
        row.
    chosen : int
        The first candidate whose excess is at most one standard error, or two for `Identity`.
    screened_out : ndarray of bool
        Which candidates were compared on the first fold alone and fell behind there. Their excess
        is the one over the best candidate of that fold, and their loss is the lowest loss plus
        that excess; they are never chosen.
    """

    candidates: tuple[Recalibrator, ...]
    loss: FloatArray
    excess: FloatArray
    standard_error: FloatArray
    chosen: int
    screened_out: BoolArray

    def _summary(self) -> str:
        chosen = _name(self.candidates[self.chosen])
        return f"{chosen} chosen of {len(self.candidates):,} candidates"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold, with the names of the candidates."""
        return plain({**vars(self), "candidates": [_name(x) for x in self.candidates]})  # type: ignore[no-any-return]

    def __str__(self) -> str:
        names = [_name(candidate) for candidate in self.candidates]
        width = max(30, *map(len, names)) + 2
        lines = [f"{'recalibrator':<{width}}{'loss':>10}{'excess':>10}{'s.e.':>10}"]
        for i, name in enumerate(names):
            screened = "  screened out" if self.screened_out[i] else ""
            mark = "  <- chosen" if i == self.chosen else screened
            numbers = (self.loss[i], self.excess[i], self.standard_error[i])
            lines.append(f"{name:<{width}}" + "".join(f"{x:>10.5f}" for x in numbers) + mark)
        return "\n".join(lines)


def recalibrator_scores(
    y_true: Any,
    y_prob: Any,
    candidates: Sequence[Recalibrator] | None = None,
    *,
    cv: int = 5,
    scoring: Scoring = "log",
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
    rng: np.random.Generator | int | None = 0,
    input: Input = "probabilities",
) -> RecalibratorScores:
    """Compare recalibrators by a cross-validated proper score; see `best_recalibrator`."""
    check_choice("scoring", scoring, ("log", "brier"))
    check_input(input)
    if candidates is not None:
        chosen = _read_candidates(candidates, input)
    rows = read_labelled(Identity(input), y_prob, y_true, sample_weight, classes)
    codes, probs, weights = rows.codes(), rows.predictions, rows.weights
    columns = as_array(y_prob, "y_prob")
    if candidates is None:
        chosen = tuple(_default_candidates(probs, input))
    if probs.ndim == 1 and columns.ndim == 2:
        # Candidates see both columns of an event: some, such as VectorScaling, need them.
        probs = columns.astype(np.float64)
    if not (is_integer(cv) and 2 <= cv <= codes.size):
        raise InvalidArgumentError(
            f"cv must be between 2 and the {codes.size:,} rows; got {cv!r:.60}. 5 folds are usual."
        )
    fold = fold_of_rows(codes, cv, generator("rng", rng))
    folds = [fold == k for k in range(cv)]
    labelled = LabelledRows(probs, codes, weights, scoring)
    if candidates is None and probs.size > SCREENED_VALUES and labelled.can_hold_out(folds[0]):
        return _screened(chosen, labelled, folds)
    losses = np.stack([labelled.losses(candidate, folds) for candidate in chosen])
    return _compare(chosen, losses, weights)


def _read_candidates(candidates: Any, input: Input) -> tuple[Recalibrator, ...]:
    """Return candidates as recalibrators that read this input."""
    listed = candidates if isinstance(candidates, Sequence) else ()
    for candidate in listed:
        if isinstance(candidate, QuantileRepair):
            raise InvalidArgumentError(
                "candidates must be recalibrators of probabilities, which are compared by a score "
                f"of probabilities; {candidate!r:.60} repairs quantiles. Compare repairs of "
                "quantiles by their pinball_loss on other rows."
            )
        if isinstance(candidate, ByGroup):
            raise InvalidArgumentError(
                "candidates must be fitted on predictions and labels alone; ByGroup needs groups "
                "too. Choose what it repairs by, without groups, and fit a ByGroup of that."
            )
    chosen = tuple(as_recalibrator(x) if is_foreign(x) else x for x in listed)
    if not chosen or not all(isinstance(candidate, Recalibrator) for candidate in chosen):
        raise InvalidArgumentError(
            "candidates must be a sequence of recalibrators, such as (Identity(), PlattScaling()); "
            f"got {candidates!r:.60}."
        )
    for candidate in chosen:
        if candidate.input != input:
            raise InvalidArgumentError(
                f'Candidates must read what input= says, "{input}"; {candidate!r:.60} reads '
                f'{candidate.input}. Give it input="{input}" where its constructor takes that, '
                "leave it out, or pass the other kind of predictions."
            )
    return chosen


def best_recalibrator(
    y_true: Any,
    y_prob: Any = None,
    candidates: Sequence[Recalibrator] | None = None,
    *,
    cv: int = 5,
    scoring: Scoring = "log",
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
    rng: np.random.Generator | int | None = 0,
    data: Any = None,
    input: Input = "probabilities",
) -> Recalibrator:
    r"""Choose a recalibrator by cross-validation, fit it on all rows, and return it.

    Candidates are compared by a proper score on rows they were not fitted on. The answer is
    the first candidate, from the simplest on, that is within one standard error of the best
    (of the paired differences), and `Identity` if it is within two: a model that needs no repair
    is left alone. For calibrated models of one event and 500 to 5,000 rows that was the answer for
    92 to 99% of simulated data sets. Where there are many rows, the default candidates are compared
    on the first fold, and only `Identity` and the best three there on all folds.

    Parameters
    ----------
    y_true, y_prob, sample_weight, classes, data
        As in `calibrant.calibration_error`; of frames and files the named columns are held.
    candidates : sequence of recalibrators, optional
        From the simplest on; anything with fit and predict_proba will do. Those that you name are
        all compared on all folds. By default `Identity`, temperature, Platt, beta, splines and
        Venn-Abers for one event, also in two columns. For several classes `Identity`, temperature,
        `TopLabel` of Platt, vector, `OneVsRest` of Platt and of beta, matrix, and `OneVsRest` of
        splines (up to 10 classes) and of Venn-Abers, with rows that add up to 1. Of logits those
        that read logits: `Identity`, temperature, then Platt and splines, or vector and matrix.
    cv : int, default 5
        The number of folds.
    scoring : {"log", "brier"}
        The proper score, the log loss unless given.
    rng : Generator, int or None, default 0
        Seed for assigning rows to folds.
    input : {"probabilities", "logits"}
        What the predictions are. All candidates must read it, and so does the answer.

    Returns
    -------
    Recalibrator
        Fitted on all rows; its `scores_` are the `RecalibratorScores` of all candidates.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels, or are too few for the folds.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    RecalibratedClassifier : a classifier with its repair, fitted together.

    Notes
    -----
    With the loss :math:`L_c` of candidate c over held-out rows and the standard error
    :math:`\mathrm{se}_c` of its paired difference from the best, the answer is the first c with
    :math:`L_c - L_{best} \le \mathrm{se}_c`, or `Identity` if its difference is at most twice that.

    References
    ----------
    Breiman, Friedman, Olshen, Stone (1984), Classification and regression trees: the rule of one
    standard error.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=4000)
    >>> best_recalibrator(rng.uniform(size=4000) < p, p)
    Identity()
    >>> best = best_recalibrator(rng.uniform(size=4000) < p**2, p)
    >>> print(best.scores_)
    recalibrator                          loss    excess      s.e.
    Identity()                         0.50322   0.09208   0.00620
    TemperatureScaling()               0.50377   0.09263   0.00618
    PlattScaling()                     0.41239   0.00126   0.00093
    BetaScaling()                      0.41128   0.00015   0.00033  <- chosen
    SplineCalibration()                0.41113   0.00000   0.00000
    VennAbers()                        0.41459   0.00346   0.00110
    """
    if isinstance(y_true, BinTable | Tables):
        raise InvalidArgumentError(
            "Recalibrators are compared on rows that they were not fitted on; a table of sums has "
            "none. Pass y_true and y_prob, or fit one recalibrator on the table: fit_table(table)."
        )
    names = names_of(y_prob)
    if data is not None:
        check_input(input)
        y_true, y_prob, sample_weight, names = read_named(
            data, y_true, y_prob, sample_weight, classes=classes, input=input
        )
    scores = recalibrator_scores(
        y_true,
        y_prob,
        candidates,
        cv=cv,
        scoring=scoring,
        sample_weight=sample_weight,
        classes=classes,
        rng=rng,
        input=input,
    )
    winner: Recalibrator = clone(scores.candidates[scores.chosen])
    winner.fit(y_prob, y_true, sample_weight, classes)
    keep_names(winner, names)
    winner.scores_ = scores
    return winner


def _default_candidates(probs: AnyArray, input: Input) -> list[Recalibrator]:
    """Return the candidates that win on real models, from the simplest on.

    Isotonic calibration is not among them: answers of 0 and 1 cost it the log loss on few rows.
    Venn-Abers is its smoothed form, and as good on many. Dirichlet and joint beta scaling are not:
    on CIFAR-10 matrix and vector scaling were as good on 5,000 rows, better on fewer, and faster.
    """
    if input == "logits":
        flexible = [PlattScaling(), SplineCalibration()]
        flexible = flexible if probs.ndim == 1 else [VectorScaling(), MatrixScaling()]
        readers = [Identity(), TemperatureScaling(), *flexible]
        return [reader.set_params(input="logits") for reader in readers]
    if probs.ndim == 1:
        scaling = [TemperatureScaling(), PlattScaling(), BetaScaling(), SplineCalibration()]
        return [Identity(), *scaling, VennAbers()]
    splines = [OneVsRest(SplineCalibration(), normalize=True)]
    return [
        Identity(),
        TemperatureScaling(),
        TopLabel(PlattScaling()),
        VectorScaling(),
        OneVsRest(PlattScaling(), normalize=True),
        OneVsRest(BetaScaling(), normalize=True),
        MatrixScaling(),
        *(splines if probs.shape[1] <= MOST_SPLINES else []),
        OneVsRest(VennAbers(), normalize=True),
    ]


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Predictions with labels and weights, and the score that candidates are compared by."""

    probs: AnyArray
    codes: IntArray
    weights: FloatArray | None
    scoring: Scoring

    def losses(self, candidate: Recalibrator, folds: Sequence[BoolArray]) -> FloatArray:
        """Return the loss of each row in the folds, from fits on the rows outside of its fold."""
        out = np.full(self.codes.size, np.nan)
        lost = squared_errors if self.scoring == "brier" else log_losses
        for held in folds:
            fresh: Recalibrator = clone(candidate)
            if isinstance(fresh, OneVsRest):
                # The score decides; only the winner, fitted on all rows, may warn.
                fresh._warns = False
            w = None if self.weights is None else self.weights[~held]
            fresh.fit(self.probs[~held], self.codes[~held], w)
            out[held] = lost(fresh.predict_proba(self.probs[held]), self.codes[held])
        return out[np.logical_or.reduce(folds)]

    def can_hold_out(self, held: BoolArray) -> bool:
        """Tell whether there is weight on both sides of a fold."""
        w = np.ones(held.size) if self.weights is None else self.weights
        return bool(w[held].any() and w[~held].any())

    def every(self, step: int) -> LabelledRows:
        """Return one row in `step`."""
        weights = None if self.weights is None else self.weights[::step]
        return LabelledRows(self.probs[::step], self.codes[::step], weights, self.scoring)


def _screened(
    candidates: tuple[Recalibrator, ...], rows: LabelledRows, folds: list[BoolArray]
) -> RecalibratorScores:
    """Compare all candidates on the first fold, and the first and the best few on all folds."""
    n = rows.codes.size
    step = max(1, n // max(MOST_VALUES // (rows.probs.size // n), FEWEST_ROWS))
    sample, fold = rows.every(step), folds[0][::step]
    if not sample.can_hold_out(fold):
        sample, fold = rows, folds[0]
    on_fold = np.stack([sample.losses(candidate, [fold]) for candidate in candidates])
    first = _compare(candidates, on_fold, None if sample.weights is None else sample.weights[fold])
    best = np.argsort(first.loss, kind="stable")
    is_finalist = np.zeros(len(candidates), bool)
    # The simplest that is good enough stays in too: it may be good enough on all folds.
    is_finalist[[0, first.chosen, *best[best > 0][:KEPT]]] = True
    survivors = np.flatnonzero(is_finalist)
    losses = np.stack([rows.losses(candidates[i], folds) for i in survivors])
    last = _compare(tuple(candidates[i] for i in survivors), losses, rows.weights)
    excess, error = first.excess.copy(), first.standard_error.copy()
    excess[is_finalist], error[is_finalist] = last.excess, last.standard_error
    loss = last.loss.min() + excess
    loss[is_finalist] = last.loss
    chosen = int(survivors[last.chosen])
    return RecalibratorScores(candidates, loss, excess, error, chosen, ~is_finalist)


def _compare(
    candidates: tuple[Recalibrator, ...], losses: FloatArray, weights: FloatArray | None
) -> RecalibratorScores:
    w = np.ones(losses.shape[1]) if weights is None else weights / weights.max()
    mean = losses @ w / w.sum()
    beyond = losses - losses[mean.argmin()]
    excess = mean - mean.min()
    spread = ((beyond - excess[:, None]) ** 2) @ (w * w)
    error = np.sqrt(spread) / w.sum()
    tolerance = [CAUTION if isinstance(candidate, Identity) else 1.0 for candidate in candidates]
    # Equal but for rounding, such as a spline without a bend and Platt scaling: the simpler one.
    chosen = int(np.flatnonzero(excess <= tolerance * error + 1e-9 * mean.min())[0])
    return RecalibratorScores(candidates, mean, excess, error, chosen, np.zeros(len(mean), bool))


def _name(recalibrator: Recalibrator) -> str:
    """Return how a user would write a candidate, in one line and without addresses."""
    return re.sub(r"<(?:\w+\.)*(\w+) object at \w+>", r"\1()", " ".join(str(recalibrator).split()))
