"""Columns: labels, predictions and weights as arrays in memory, and every check of their values.

Shapes are checked before a `Columns` is made; values are checked where they are read. Engines read
them block by block and ask `explain_labels` or `explain_predictions` for the message when something
is wrong; `check` does all of it at once.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from calibrant._compiled import compiles, native
from calibrant._documents import shown
from calibrant._logits import explain_logits, probabilities_of
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.exceptions import (
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
    LogitsError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.problem import NUMERIC, Label, Problem

LARGEST_WEIGHT, SMALLEST_HEAVIEST = 1e100, 1e-100
"""Squares of weights are summed: these stay clear of overflow, and of underflow to 0."""
BLOCK_ROWS = 1 << 15
"""Rows of a top-label problem that are reduced to one prediction each at a time."""


NOT_NUMBERS = (str, bytes, complex, np.complexfloating, np.timedelta64, np.datetime64)
"""Types that Python or NumPy would convert to a float, though they are not numbers."""


def numbers_of(values: AnyArray) -> AnyArray | None:
    """Return numbers as they are, objects as floats, NaN for None; or None if some are no numbers.

    >>> numbers_of(np.array([1, None], object)), numbers_of(np.array([1, "2"], object))
    (array([ 1., nan]), None)
    """
    if values.dtype.kind in NUMERIC:
        return values
    is_other = values.dtype.kind != "O"
    if is_other or any(issubclass(x, NOT_NUMBERS) for x in set(map(type, values.ravel().tolist()))):
        return None
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(frozen=True, eq=False)
class Columns:
    """Predictions and labels of checked shapes, one row each.

    Attributes
    ----------
    problem : Problem
    labels : ndarray of shape (n,), or (n, n_groups)
        A table of 0 and 1 where the problem has columns of events.
    predictions : ndarray of shape (n,) or (n, n_groups)
        Probabilities; or logits where `are_logits` says so: those of a top-label problem, of whose
        many columns only one number is needed.
    weights : ndarray of shape (n,) or None
    are_logits : bool
    """

    problem: Problem
    labels: AnyArray
    predictions: AnyArray
    weights: FloatArray | None = None
    are_logits: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: IntArray | slice) -> Columns:
        """Return the rows at these positions."""
        weights = None if self.weights is None else self.weights[index]
        predictions = self.predictions[index]
        return Columns(self.problem, self.labels[index], predictions, weights, self.are_logits)

    def codes(self) -> IntArray:
        """Return the checked class index of every row, or 0 and 1 of its events."""
        codes = self.problem.codes(self.labels)
        if codes.min() < 0:
            self.explain_labels()
        return codes

    def probabilities(self) -> AnyArray:
        """Return the predictions, and of logits the softmax of each row."""
        return probabilities_of(self.predictions) if self.are_logits else self.predictions

    def as_marginal(self) -> Columns:
        """Return the same rows as a problem of every class by itself, without logits."""
        problem = replace(self.problem, kind="marginal")
        return Columns(problem, self.labels, self.probabilities(), self.weights)

    def events(self) -> tuple[FloatArray, FloatArray]:
        """Return what happened, 0 or 1, and what was predicted: one column for each group."""
        codes = self.codes()
        if self.problem.kind == "binary" or self.problem.has_event_columns:
            return codes.astype(np.float64), self.predictions.astype(np.float64)
        if self.problem.kind == "marginal":
            one_hot = codes[:, None] == np.arange(self.problem.n_classes)
            return one_hot.astype(np.float64), self.predictions.astype(np.float64)
        blocks = [slice(i, i + BLOCK_ROWS) for i in range(0, len(self), BLOCK_ROWS)]
        pairs = [self.top(self.predictions[block]) for block in blocks]
        confidence, top = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        return (codes == top).astype(np.float64), confidence

    def group(self, group: int) -> FloatArray:
        """Return the checked predictions of one group: of a class, of the event, of the top."""
        if self.problem.kind == "top-label":
            blocks = range(0, len(self), BLOCK_ROWS)
            return np.concatenate(
                [self.top(self.predictions[i : i + BLOCK_ROWS])[0] for i in blocks]
            )
        binary = self.problem.kind == "binary"
        column = self.predictions if binary else self.predictions[:, group]
        self.check_probabilities(column)
        return column.astype(np.float64)

    def top(self, block: AnyArray) -> tuple[FloatArray, IntArray]:
        """Return the checked confidence of rows of a top-label problem, and the class it is in."""
        top = block.argmax(axis=1)
        if not self.are_logits:
            self.check_probabilities(block)
            return block[np.arange(top.size), top].astype(np.float64), top
        if compiles():  # the bits that the compiled loops count: edges may be made from them
            from calibrant import _kernels

            confidence = np.empty(top.size)
            if _kernels.top_values(native(block), True, confidence):
                self.explain_predictions()
            return confidence, top
        best = block[np.arange(top.size), top].astype(np.float64)
        with np.errstate(invalid="ignore"):
            confidence = 1.0 / np.exp(block - best[:, None]).sum(axis=1)
        if np.isnan(confidence).any():
            self.explain_predictions()
        return confidence, top

    def check(self) -> None:
        """Refuse invalid labels and predictions."""
        self.codes()
        if self.are_logits:
            for start in range(0, len(self), BLOCK_ROWS):
                self.top(self.predictions[start : start + BLOCK_ROWS])
        else:
            self.check_probabilities(self.predictions)

    def check_probabilities(self, values: AnyArray) -> None:
        """Refuse values outside [0, 1]; the message is about all predictions."""
        if not (values.min() >= 0 and values.max() <= 1):
            self.explain_predictions()

    def check_event(self) -> None:
        """Refuse a pos_label that no row has: a misspelt one would be measured as "never"."""
        event = self.problem.pos_label
        if event is not None and not (self.codes() == 1).any():
            raise absent_event(event, self.labels)

    def check_weights(self) -> None:
        """Refuse weights that are all 0, or whose squares would underflow or overflow."""
        if self.weights is not None:
            check_heaviest(self.weights.max())

    def explain_labels(self) -> NoReturn:
        """Raise the exception that says which labels are wrong."""
        if self.problem.has_event_columns:
            places = np.argwhere(self.problem.codes(self.labels) < 0)
            row, column = places[0]
            raise InvalidLabelsError(
                f"Labels of a multi-label problem must be 0 and 1 or booleans; {len(places):,} of "
                f"{self.labels.size:,} are not (first: y_true[{row}, {column}] = "
                f"{shown(self.labels[row, column].item())}). Drop the rows of missing labels, or "
                "measure a label that was not asked for everywhere by itself."
            )
        wrong = np.flatnonzero(self.problem.codes(self.labels) < 0)
        first = int(wrong[0])
        is_time = self.labels.dtype.kind in "mM"
        value = self.labels[first] if is_time else self.labels[first : first + 1].tolist()[0]
        came = f"{wrong.size:,} of {len(self):,} are not (first: y_true[{first}] = {shown(value)})"
        if self.problem.kind == "binary" and self.problem.classes is None:
            if is_fraction(self.labels) and is_zero_one(self.predictions):
                raise SwappedArgumentsError(
                    "The order is (y_true, y_prob), but y_true holds fractions and y_prob only "
                    "zeros and ones. Swap the two arguments."
                )
            raise InvalidLabelsError(
                f"Labels of a binary problem must be 0 and 1 or booleans; {came}. "
                "Name the event with pos_label=, or both labels with classes=(no, yes)."
            )
        names = self.problem.class_names
        listed = ", ".join(shown(name) for name in names[:6]) + (", ..." if len(names) > 6 else "")
        raise InvalidLabelsError(
            f"Labels must be among the {len(names):,} classes ({listed}); {came}. "
            "Name the labels in the order of the columns with classes=."
        )

    def explain_predictions(self) -> NoReturn:
        """Raise the exception that says which predictions are wrong."""
        if self.are_logits:
            explain_logits(self.predictions)
        explain_probabilities(self.predictions)


def absent_event(event: Label, labels: AnyArray) -> InvalidLabelsError:
    """Return the exception that says which labels came in place of the event."""
    distinct = list(dict.fromkeys(labels[:100_000].tolist()))
    with suppress(TypeError):  # of several types
        distinct.sort()  # engines give distinct labels in any order
    listed = ", ".join(map(shown, distinct[:6])) + ", ..." * (len(distinct) > 6)
    came = f" (labels: {listed})" if distinct else ""
    return InvalidLabelsError(
        f"The event must be among the labels; pos_label={event!r} is the label of no row{came}. "
        "Name it as it is written there; or, if it did not happen in these rows, name both labels "
        "with classes=(no, yes)."
    )


def explain_probabilities(values: AnyArray) -> NoReturn:
    """Raise the exception that says which of these probabilities are wrong."""
    missing, infinite = np.isnan(values), np.isinf(values)
    if missing.any():
        raise NotFiniteError(
            f"y_prob must not be missing; {_wrong_values(missing, values, 'NaN')}. "
            "Drop or impute these rows first: an error is not measured on rows left out."
        )
    if infinite.any():
        raise NotFiniteError(
            f"y_prob must be finite; {_wrong_values(infinite, values, 'infinite')}. "
            'If these are logits, pass input="logits", or apply a sigmoid or softmax first.'
        )
    low, high = values < 0, values > 1
    came = _wrong_values(low | high, values, "not")
    if low.any() and high.any():
        raise LogitsError(
            f"y_prob must lie in [0, 1]; {came}. Values on both sides of [0, 1] are usually "
            'logits: pass input="logits", or apply a sigmoid (one column) or softmax first.'
        )
    raise InvalidProbabilitiesError(
        f"y_prob must lie in [0, 1]; {came}. If these are percentages, divide by 100; "
        'if they are logits, pass input="logits", or apply a sigmoid or softmax first.'
    )


def _wrong_values(wrong: BoolArray, values: AnyArray, what: str) -> str:
    first = np.unravel_index(int(wrong.argmax()), wrong.shape)
    place = ", ".join(str(int(i)) for i in first)
    verb = "do not" if what == "not" else f"are {what}"
    return (
        f"{int(wrong.sum()):,} of {wrong.size:,} values {verb} "
        f"(first: y_prob[{place}] = {_digits(float(values[first]))})"
    )


def _digits(value: float) -> str:
    """Write a value that is not within [0, 1] such that this can be seen: not 1 + 2^-52 as 1."""
    short = f"{value:.6g}"
    return repr(value) if 0 <= float(short) <= 1 else short


def check_heaviest(weight: float) -> None:
    """Refuse a largest weight of all rows whose square underflows or overflows."""
    if weight == 0:
        raise InvalidWeightsError(
            "sample_weight must not be zero on every row. Leave it out to count all rows alike."
        )
    if not SMALLEST_HEAVIEST <= weight <= LARGEST_WEIGHT:
        raise InvalidWeightsError(
            f"sample_weight must be of a size that can be squared; the largest is {weight:g}. "
            "Only ratios matter: divide all weights by the largest."
        )


def is_fraction(labels: AnyArray) -> bool:
    """Return whether these are floats in [0, 1]."""
    return labels.dtype.kind == "f" and bool(((labels >= 0) & (labels <= 1)).all())


def is_zero_one(values: AnyArray) -> bool:
    """Return whether all values are 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())
