"""Problems whose rows hold several events: labels, thresholds of ordered classes, quantiles.

All three become a table of what happened, 0 or 1, and one of what was predicted, with a column for
each event. Everything after that counts columns, and nothing needs to know which of the three it
was:

* multi-label: label k is there, and its probability (of logits the sigmoid, column by column);
* ordinal: the class is k or a lower one, and the sum of the probabilities up to k;
* quantile: the outcome is at most the predicted quantile, and the level of the quantile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant._documents import shown
from calibrant._logits import explain_logits, probabilities_of
from calibrant._types import AnyArray, BoolArray, FloatArray
from calibrant.columns import Columns, explain_probabilities, is_zero_one, numbers_of
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    LengthMismatchError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.problem import NUMERIC, SUM_TOLERANCE, Input, Kind, Label, Problem


def as_events(
    labels: AnyArray,
    probs: AnyArray,
    kind: Kind,
    input: Input,
    classes: Sequence[Label] | None,
    pos_label: Label | None,
) -> tuple[Problem, AnyArray, AnyArray]:
    """Return the problem, what happened and what was predicted, both of shape (n, n_groups)."""
    labels, probs = (x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x for x in (labels, probs))
    check_event_shapes(labels, probs, kind)
    problem, _ = Problem.of(probs.shape, kind, classes, pos_label)
    table = probs.reshape(len(probs), -1)
    if kind == "multi-label":
        return problem, _event_marks(labels.reshape(table.shape)), of_each_label(table, input)
    if kind == "ordinal":
        return problem, *_cumulative(problem, labels, table, input)
    return problem, *covered(problem, labels, table, input)


def _event_marks(labels: AnyArray) -> AnyArray:
    """Return labels of 0 and 1 as numbers; the engines check their values."""
    if (numbers := numbers_of(labels)) is not None:
        return numbers
    flat = labels.ravel().tolist()
    wrong = [i for i, x in enumerate(flat) if not isinstance(x, int | float)]
    first = np.unravel_index(wrong[0] if wrong else 0, labels.shape)
    raise InvalidLabelsError(
        f'y_true of kind="multi-label" must hold 0 and 1 or booleans; {len(wrong):,} of '
        f"{labels.size:,} values are something else (first: y_true"
        f"[{', '.join(str(int(i)) for i in first)}] = {shown(labels[first])}). Make a column "
        "of 0 and 1 for each label, for instance with sklearn's MultiLabelBinarizer."
    )


def of_each_label(table: AnyArray, input: Input) -> AnyArray:
    """Return probabilities; each logit has its own sigmoid, as labels do not compete."""
    if input == "probabilities":
        return table
    if np.isnan(table).any():
        explain_logits(table)
    return probabilities_of(table.ravel()).reshape(table.shape)


def _cumulative(
    problem: Problem, labels: AnyArray, table: AnyArray, input: Input
) -> tuple[BoolArray, FloatArray]:
    """Return whether the class is k or a lower one, and its probability, of all k but the last."""
    codes = Columns(replace(problem, kind="marginal"), labels, table).codes()
    if input == "logits":
        table = probabilities_of(table)
    elif not (table.min() >= 0 and table.max() <= 1):
        explain_probabilities(table)
    cumulative = np.cumsum(table, axis=1, dtype=np.float64)
    off = np.abs(cumulative[:, -1] - 1) > SUM_TOLERANCE
    if off.any():
        first = int(off.argmax())
        raise InvalidProbabilitiesError(
            "The probabilities of ordered classes must add up to 1 in each row; of "
            f"{int(off.sum()):,} of {off.size:,} rows they do not (first: row {first} adds up to "
            f'{cumulative[first, -1]:.6g}). Divide each row by its sum; pass input="logits" if '
            "these are logits."
        )
    events = codes[:, None] <= np.arange(problem.n_groups)
    return events, np.minimum(cumulative[:, :-1], 1.0)


def covered(
    problem: Problem, outcomes: AnyArray, table: AnyArray, input: Input = "probabilities"
) -> tuple[BoolArray, FloatArray]:
    """Return whether outcomes are at most each quantile, and the levels, one row as all others."""
    check_quantile_input(input)
    y, q = read_outcomes(outcomes), read_quantiles(table)
    levels = np.array(problem.class_names, np.float64)
    return y[:, None] <= q, np.broadcast_to(levels, q.shape)


def check_quantile_input(input: Input) -> None:
    """Refuse logits: a quantile is a value of the outcome."""
    if input != "probabilities":
        raise InvalidArgumentError(
            f'kind="quantile" reads predicted quantiles, which are values of the outcome; got '
            f'input="{input}". Leave it out.'
        )


def read_outcomes(outcomes: AnyArray) -> FloatArray:
    """Return outcomes as finite floats; the exception names those that are not."""
    return read_real(outcomes, "y_true")


def read_real(values: AnyArray, name: str) -> FloatArray:
    """Return a column of finite floats; the exception names the values that are not."""
    y = _floats(values, name)
    wrong = ~np.isfinite(y)
    if wrong.any():
        first = int(wrong.argmax())
        raise NotFiniteError(
            f"{name} must hold finite numbers; {int(wrong.sum()):,} of {y.size:,} are not (first: "
            f"{name}[{first}] = {y[first]:g}). Drop these rows first."
        )
    return y


def read_forecasts(
    y_true: Any, y_prob: Any, classes: Sequence[Label] | None, sample_weight: Any, data: Any
) -> tuple[Problem, FloatArray, FloatArray, FloatArray | None]:
    """Return the levels, checked outcomes and quantiles themselves, and weights.

    For callers that need the quantiles, not only which outcomes were covered; all rows are held
    in memory.
    """
    from calibrant.sources import read_named
    from calibrant.sources.arrays import as_array, read_some_weight

    if data is not None:
        meaning: dict[str, Any] = {"kind": "quantile", "classes": classes}
        y_true, y_prob, sample_weight, _ = read_named(
            data, y_true, y_prob, sample_weight, **meaning
        )
    labels, probs = as_array(y_true, "y_true"), as_array(y_prob, "y_prob")
    labels, probs = (x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x for x in (labels, probs))
    check_event_shapes(labels, probs, "quantile")
    problem, _ = Problem.of(probs.shape, "quantile", classes)
    y, q = read_outcomes(labels), read_quantiles(probs.reshape(len(probs), -1))
    return problem, y, q, read_some_weight(sample_weight, len(y))


def read_real_columns(
    data: Any, y_true: Any, names: Any, sample_weight: Any
) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    """Return outcomes, a table of other real columns, and weights of frames or files.

    Values are not checked here: the caller knows what they must be.
    """
    from calibrant.sources import is_files

    if is_files(data):
        from calibrant.sources.files import named_numbers

        outcomes, table, weights = named_numbers(data, y_true, names, sample_weight)
    else:
        from calibrant.sources.frames import named_arrays

        outcomes, table, weights, _ = named_arrays(data, y_true, names, sample_weight)
    return outcomes, table.reshape(len(outcomes), -1), weights


def read_quantiles(table: AnyArray) -> FloatArray:
    """Return quantiles as floats that do not cross; a one-sided interval may be infinite."""
    q = _floats(table, "y_prob")
    missing = np.isnan(q)
    if missing.any():
        row, column = np.argwhere(missing)[0]
        raise NotFiniteError(
            f"Quantiles must not be missing; {int(missing.sum()):,} of {q.size:,} values are NaN "
            f"(first: y_prob[{row}, {column}] = nan). Drop or impute these rows first."
        )
    crossing = np.any(q[:, 1:] < q[:, :-1], axis=1)
    if crossing.any():
        row = int(crossing.argmax())
        column = int(np.argmax(q[row, 1:] < q[row, :-1]))
        raise InvalidProbabilitiesError(
            f"Quantiles of a row must not fall as their level rises; in {int(crossing.sum()):,} of "
            f"{len(q):,} rows they do (first: y_prob[{row}, {column}] = {q[row, column]:.6g}, then "
            f"{q[row, column + 1]:.6g}). Put the columns in the order of classes=; if single rows "
            "cross, sort them, np.sort(y_prob, axis=1), which can only bring quantiles nearer."
        )
    return q


def _floats(values: AnyArray, name: str) -> FloatArray:
    """Return real numbers as float64; refuse text, dates and complex numbers."""
    if (numbers := numbers_of(values)) is not None:
        return numbers.astype(np.float64, copy=False)
    first = values.ravel()[:1].tolist()[0]
    raise InvalidLabelsError(
        f"{name} must hold real numbers, not {values.dtype} (first: {name}[0] = "
        f"{shown(first)}). Convert the column to float first."
    )


def check_shapes(labels: Any, probs: Any) -> None:
    """Refuse arrays or tensors that cannot be labels and predictions of the same rows."""
    if labels.ndim == 2 and probs.ndim == 1:
        raise SwappedArgumentsError(
            f"The order is (y_true, y_prob), but y_true has shape {tuple(labels.shape)} and y_prob "
            f"{tuple(probs.shape)}. Swap the two arguments."
        )
    if labels.ndim != 1:
        raise InvalidLabelsError(
            f"y_true must be one column of labels; got shape {tuple(labels.shape)}. "
            f"{_advice(labels)}"
        )
    _check_rows(labels, probs, "n_classes")


def check_event_shapes(labels: Any, probs: Any, kind: Kind) -> None:
    """Refuse arrays or tensors that cannot be the outcomes and predictions of these events."""
    _check_rows(labels, probs, "K")
    if kind == "multi-label" and labels.shape != probs.shape:
        raise InvalidShapeError(
            'kind="multi-label" needs a column of 0 and 1 in y_true for each column of y_prob; got '
            f"shapes {tuple(labels.shape)} and {tuple(probs.shape)}. For one label a row, use "
            'kind="marginal" or "top-label".'
        )
    if kind != "multi-label" and labels.ndim != 1:
        raise InvalidLabelsError(
            f'kind="{kind}" needs y_true to be one column of '
            f"{'outcomes' if kind == 'quantile' else 'labels'}; got shape {tuple(labels.shape)}. "
            "Pick the column that the predictions are about."
        )


def _check_rows(labels: Any, probs: Any, width: str) -> None:
    if probs.ndim > 2 or (probs.ndim == 2 and probs.shape[1] == 0):
        raise InvalidShapeError(
            f"y_prob must have shape (n,) or (n, {width}); got {tuple(probs.shape)}. "
            "Flatten positions such as pixels or tokens into rows."
        )
    if labels.shape[0] != probs.shape[0]:
        raise LengthMismatchError(
            f"y_true and y_prob must have the same number of rows; got {labels.shape[0]:,} and "
            f"{probs.shape[0]:,}."
        )
    if labels.shape[0] == 0:
        raise EmptyInputError("y_true and y_prob have no rows; at least one is needed.")


def _advice(labels: AnyArray) -> str:
    """Return advice on a table of labels: only rows with a single 1 are one-hot."""
    if labels.ndim != 2 or labels.dtype.kind not in NUMERIC or not is_zero_one(labels):
        return "Flatten positions such as pixels or tokens into rows, one label each."
    events = labels.sum(axis=1)
    several = np.flatnonzero(events != 1)
    if several.size == 0:
        return "For one-hot rows, pass y_true.argmax(axis=1)."
    first = int(several[0])
    return (
        f"Several labels of a row may be 1 here: {several.size:,} of {len(labels):,} rows have "
        f"none or several (first: row {first} has {int(events[first]):,}). Measure each label as "
        'an event of its own with kind="multi-label".'
    )
