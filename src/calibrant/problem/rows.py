"""Rows: the user's arrays, and every check of them.

Shapes and named arguments decide what the input is; values are only checked. The checks of
values happen where the values are read, block by block, and ask `Rows.explain_...` for the
message when something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    InvalidWeightsError,
    LengthMismatchError,
    LogitsError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.problem.kinds import (
    NUMERIC,
    Kind,
    Label,
    Problem,
    check_kind,
    read_classes,
    read_problem,
    short,
)
from calibrant.problem.logits import Input, check_input, explain_logits, probabilities_of


@dataclass(frozen=True, eq=False)
class Rows:
    """Predictions and labels whose shapes are checked, and whose values are not yet.

    `probs` are logits where `are_logits` says so: of a top-label problem, of whose many columns
    only one number is wanted.
    """

    problem: Problem
    labels: AnyArray
    probs: AnyArray
    weights: FloatArray | None
    are_logits: bool = False

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: IntArray | slice) -> Rows:
        """Return the rows at these positions."""
        weights = None if self.weights is None else self.weights[index]
        probs = self.probs[index]
        return Rows(self.problem, self.labels[index], probs, weights, self.are_logits)

    def codes(self) -> IntArray:
        """Return the checked class index of every row."""
        codes = self.problem.codes(self.labels)
        if codes.min() < 0:
            self.explain_labels()
        return codes

    def explain_labels(self) -> NoReturn:
        """Raise the exception that says which labels are wrong."""
        wrong = np.flatnonzero(self.problem.codes(self.labels) < 0)
        first = int(wrong[0])
        value = self.labels[first : first + 1].tolist()[0]
        found = f"{wrong.size:,} of {len(self):,} are not (first: y_true[{first}] = {short(value)})"
        if self.problem.kind == "binary" and self.problem.classes is None:
            if _is_fraction(self.labels) and _is_zero_one(self.probs):
                raise SwappedArgumentsError(
                    "The order is (y_true, y_prob), but y_true holds fractions and y_prob only "
                    "zeros and ones. Swap the two arguments."
                )
            raise InvalidLabelsError(
                f"Labels of a binary problem must be 0 and 1 or booleans; {found}. "
                "Name the event with pos_label=, or both labels with classes=(no, yes)."
            )
        names = self.problem.class_names
        shown = ", ".join(short(name) for name in names[:6]) + (", ..." if len(names) > 6 else "")
        raise InvalidLabelsError(
            f"Labels must be among the {len(names):,} classes ({shown}); {found}. "
            "Name the labels in the order of the columns with classes=."
        )

    def explain_probabilities(self) -> NoReturn:
        """Raise the exception that says which predictions are wrong."""
        if self.are_logits:
            explain_logits(self.probs)
        explain_probabilities(self.probs)


def read_rows(
    y_true: Any,
    y_prob: Any,
    *,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    sample_weight: Any = None,
    input: Input = "probabilities",  # noqa: A002
) -> Rows:
    """Decide from shapes and arguments what the arrays mean, and check that they fit together.

    Logits are made probabilities at once, but for the many columns of a top-label problem.
    """
    check_input(input)
    labels, probs = _as_array(y_true, "y_true"), _as_array(y_prob, "y_prob")
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    probs = _as_numbers(probs, labels)
    problem, column = read_meaning(labels, probs, kind, classes, pos_label)
    if column is not None:
        probs = _event_column(probs, column, input)
    weights = _read_weights(sample_weight, len(labels))
    if input == "probabilities":
        return Rows(problem, labels, probs, weights)
    if problem.kind == "top-label":
        return Rows(problem, labels, probs, weights, are_logits=True)
    return Rows(problem, labels, probabilities_of(probs), weights)


def read_meaning(
    labels: AnyArray,
    probs: AnyArray,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
) -> tuple[Problem, int | None]:
    """Return the problem that arrays of these shapes pose, and the column of its event.

    The column is None where there is one column only, or every column counts.
    """
    _check_shapes(labels, probs)
    problem, column = _read_problem(probs.shape, kind, classes, pos_label)
    _check_label_type(labels, problem)
    return problem, column


def explain_probabilities(values: AnyArray) -> NoReturn:
    """Raise the exception that says which of these probabilities are wrong."""
    missing, infinite = np.isnan(values), np.isinf(values)
    if missing.any():
        raise NotFiniteError(
            f"y_prob must not be missing; {_found(missing, values, 'NaN')}. "
            "Drop or impute these rows first: an error is not measured on rows left out."
        )
    if infinite.any():
        raise NotFiniteError(
            f"y_prob must be finite; {_found(infinite, values, 'infinite')}. "
            'If these are logits, pass input="logits", or apply a sigmoid or softmax first.'
        )
    low, high = values < 0, values > 1
    found = _found(low | high, values, "not")
    if low.any() and high.any():
        raise LogitsError(
            f"y_prob must lie in [0, 1]; {found}. Values on both sides of [0, 1] are usually "
            'logits: pass input="logits", or apply a sigmoid (one column) or softmax first.'
        )
    raise InvalidProbabilitiesError(
        f"y_prob must lie in [0, 1]; {found}. If these are percentages, divide by 100; "
        'if they are logits, pass input="logits", or apply a sigmoid or softmax first.'
    )


def _as_array(values: Any, name: str) -> AnyArray:
    try:
        array = np.asarray(off_device(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidShapeError(
            f"{name} must be a column or a table of equally long rows; it could not be read as "
            f"an array ({error})."
        ) from error
    if array.ndim == 0:
        raise InvalidShapeError(
            f"{name} must be a column of values; got the single value {short(array.item())}. "
            "With column names, pass the frame as data=."
        )
    return array


def off_device(values: Any) -> Any:
    """Return a tensor such that NumPy can read it, and anything else as it is."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor


def _as_numbers(probs: AnyArray, labels: AnyArray) -> AnyArray:
    if probs.dtype.kind in NUMERIC:
        return probs
    if probs.dtype.kind == "O":
        try:
            return np.asarray(probs, np.float64)
        except (TypeError, ValueError):
            pass
    if labels.dtype.kind in NUMERIC:
        raise SwappedArgumentsError(
            f"The order is (y_true, y_prob), but y_prob holds {_type_name(probs)} and y_true "
            "numbers. Swap the two arguments, or pass probabilities as numbers."
        )
    raise InvalidProbabilitiesError(
        f"y_prob must hold numbers in [0, 1]; got {_type_name(probs)} "
        f"(first: {short(probs.ravel()[:1].tolist())}). Convert the column to float first."
    )


def _check_shapes(labels: AnyArray, probs: AnyArray) -> None:
    if labels.ndim == 2 and probs.ndim == 1:
        raise SwappedArgumentsError(
            f"The order is (y_true, y_prob), but y_true has shape {labels.shape} and y_prob "
            f"{probs.shape}. Swap the two arguments."
        )
    if labels.ndim != 1:
        raise InvalidLabelsError(
            f"y_true must be one column of labels; got shape {labels.shape}. "
            "For one-hot rows, pass y_true.argmax(axis=1)."
        )
    if probs.ndim > 2 or (probs.ndim == 2 and probs.shape[1] == 0):
        raise InvalidShapeError(
            f"y_prob must have shape (n,) or (n, n_classes); got {probs.shape}. "
            "Flatten positions such as pixels or tokens into rows."
        )
    if labels.shape[0] != probs.shape[0]:
        raise LengthMismatchError(
            f"y_true and y_prob must have the same number of rows; got {labels.shape[0]:,} and "
            f"{probs.shape[0]:,}."
        )
    if labels.shape[0] == 0:
        raise EmptyInputError("y_true and y_prob have no rows; at least one is needed.")


def _read_problem(
    shape: tuple[int, ...],
    kind: Kind | None,
    classes: Sequence[Label] | None,
    pos_label: Label | None,
) -> tuple[Problem, int | None]:
    """Return the problem, and the column that a binary one reads from a table."""
    width = 1 if len(shape) == 1 else shape[1]
    if kind is None:
        kind = "binary" if width <= 2 else "top-label"
    check_kind(kind)
    if kind != "binary" and width == 1:
        raise InvalidShapeError(
            f'kind="{kind}" needs one column per class; y_prob has shape {shape}. '
            'For the probability of one event use kind="binary".'
        )
    if kind == "binary" and width > 2:
        raise InvalidShapeError(
            f'kind="binary" needs y_prob of shape (n,), (n, 1) or (n, 2); got {shape}. '
            'Pick the column of the event, or use kind="top-label" or "marginal".'
        )
    names = read_classes(classes)
    if kind == "binary" and width == 2 and names is None and pos_label is not None:
        names = _counted_columns(pos_label)
    problem = read_problem(kind, 2 if kind == "binary" else width, names, pos_label)
    if len(shape) == 1 or kind != "binary":
        return problem, None
    first = names is not None and names[0] == problem.class_names[1]
    return problem, 0 if first and width == 2 else width - 1


def _counted_columns(pos_label: Label) -> tuple[Label, ...]:
    """Return the labels of two columns without names, 0 and 1; refuse any other event.

    Libraries sort the columns by label, so that the event of another name may be in either.
    """
    if pos_label in (0, 1):
        return (0, 1)
    raise InvalidArgumentError(
        f"With two columns, pos_label alone does not say which is the event's; got {pos_label!r}. "
        "Name the labels in the order of the columns, classes=(first, second), or pass the "
        "event's column alone."
    )


def _event_column(probs: AnyArray, column: int, input: Input) -> AnyArray:  # noqa: A002
    """Return the column of the event, or its log-odds.

    Nothing reads the column beside it again, so both are checked here.
    """
    if probs.shape[1] == 1:
        return probs[:, 0]
    if input == "logits":
        with np.errstate(invalid="ignore"):
            log_odds = np.subtract(probs[:, column], probs[:, 1 - column], dtype=np.float64)
        if np.isnan(log_odds).any():
            explain_logits(probs)
        return np.asarray(log_odds)
    if not (probs.min() >= 0 and probs.max() <= 1):
        explain_probabilities(probs)
    return probs[:, column]


def _check_label_type(labels: AnyArray, problem: Problem) -> None:
    known = problem.classes or (() if problem.pos_label is None else (problem.pos_label,))
    if not known or labels.dtype.kind == "O":
        return
    text = labels.dtype.kind not in NUMERIC
    if text != isinstance(known[0], str):
        what = "classes" if problem.classes else "pos_label"
        raise InvalidLabelsError(
            f"y_true holds {_type_name(labels)} (first: {short(labels[:1].tolist()[0])}), but "
            f"{what} {'are' if problem.classes else 'is'} {'numbers' if text else 'text'} "
            f"({short(known[0])}). Give both as the same type; column positions can be named by "
            "np.take(classes, y_true)."
        )


def _read_weights(sample_weight: Any, n: int) -> FloatArray | None:
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(off_device(sample_weight), np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidWeightsError(f"sample_weight must hold numbers ({error}).") from error
    if weights.shape != (n,):
        raise LengthMismatchError(
            f"sample_weight must have one value per row, shape ({n},); got {weights.shape}."
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise InvalidWeightsError(
            f"sample_weight must be finite and not negative; {wrong.sum():,} of {n:,} are not "
            f"(first: sample_weight[{first}] = {weights[first]:g})."
        )
    if weights.max() > 1e100 or 0 < weights.max() < 1e-100:
        raise InvalidWeightsError(
            f"sample_weight must be of a size that can be squared; the largest is "
            f"{weights.max():g}. Only ratios matter: divide all weights by the largest."
        )
    if not weights.any():
        raise InvalidWeightsError("sample_weight must not be zero on every row.")
    return weights


def _found(wrong: BoolArray, values: AnyArray, what: str) -> str:
    first = np.unravel_index(int(wrong.argmax()), wrong.shape)
    place = ", ".join(str(int(i)) for i in first)
    verb = "do not" if what == "not" else f"are {what}"
    return (
        f"{int(wrong.sum()):,} of {wrong.size:,} values {verb} "
        f"(first: y_prob[{place}] = {float(values[first]):.6g})"
    )


def _type_name(array: AnyArray) -> str:
    names = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "M": "dates"}
    return names.get(array.dtype.kind, "text" if array.dtype.kind in "UST" else "objects")


def _is_fraction(labels: AnyArray) -> bool:
    return labels.dtype.kind == "f" and bool(((labels >= 0) & (labels <= 1)).all())


def _is_zero_one(probs: AnyArray) -> bool:
    return bool(((probs == 0) | (probs == 1)).all())
