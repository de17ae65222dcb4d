"""Rows: the user's arrays, and every check of them.

Shapes and named arguments decide what the input is; values are only checked. The checks of
values happen where the values are read, block by block, and ask `Rows.explain_...` for the
message when something is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
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
    read_label,
    read_problem,
    short,
)
from calibrant.problem.logits import Input, check_input, explain_logits, probabilities_of

LARGEST_WEIGHT, SMALLEST_HEAVIEST = 1e100, 1e-100
"""Squares of weights are summed: these stay clear of overflow, and of underflow to 0."""


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

    @property
    def is_lazy(self) -> bool:
        """Whether the rows stay where they are, and are read by queries."""
        return False

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

    def check_event(self) -> None:
        """Refuse a pos_label that no row has: a misspelt one would be measured as "never"."""
        event = self.problem.pos_label
        if event is None or (self.codes() == 1).any():
            return
        raise absent_event(event, self.labels)

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
    part: bool = False,
) -> Rows:
    """Decide from shapes and arguments what the arrays mean, and check that they fit together.

    Logits are made probabilities at once, but for the many columns of a top-label problem. The
    weights of a part of the rows may all be 0: whoever adds up the parts checks their sum.
    """
    check_input(input)
    labels, probs = _as_array(y_true, "y_true"), _as_array(y_prob, "y_prob")
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    probs = _as_numbers(probs, labels)
    problem, column = read_meaning(labels, probs, kind, classes, pos_label)
    if column is not None:
        probs = _event_column(probs, column, input)
    weights = _read_weights(sample_weight, len(labels))
    if weights is not None and not part:
        check_heaviest(weights.max())
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


def absent_event(event: Label, labels: AnyArray) -> InvalidLabelsError:
    """Return the exception that says which labels came in place of the event."""
    seen = list(dict.fromkeys(labels[:100_000].tolist()))
    shown = ", ".join(short(label) for label in seen[:6]) + (", ..." if len(seen) > 6 else "")
    came = f" (labels: {shown})" if seen else ""
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
    refuse_masked(values, name)
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


MASKED_ERRORS = {"y_true": InvalidLabelsError, "sample_weight": InvalidWeightsError}


def refuse_masked(values: Any, name: str) -> None:
    """Refuse values that a mask hides: NumPy would read what lies below the mask."""
    rows = values if isinstance(values, list | tuple) else [values]
    if not any(isinstance(row, np.ma.MaskedArray) for row in rows):
        return
    mask = np.ma.getmaskarray(np.ma.asanyarray(values))
    if mask.any():
        place = ", ".join(str(i) for i in np.argwhere(mask)[0])
        raise MASKED_ERRORS.get(name, NotFiniteError)(
            f"{name} must not be masked; {int(mask.sum()):,} of {mask.size:,} values are "
            f"(first: {name}[{place}]). Drop these rows from all arrays first, for instance with "
            f"keep = ~np.ma.getmaskarray({name})."
        )


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
        except (TypeError, ValueError, OverflowError):
            pass
    raise _wrong_objects(probs, labels)


def _wrong_objects(probs: AnyArray, labels: AnyArray) -> InvalidInputError:
    """Return the exception that says what came where numbers belong."""
    if labels.dtype.kind == "f" and _is_fraction(labels) and not _is_zero_one(labels):
        return SwappedArgumentsError(
            f"The order is (y_true, y_prob), but y_true holds fractions and y_prob "
            f"{_type_name(probs)}. Swap the two arguments."
        )
    values = probs.ravel().tolist()
    missing = [i for i, value in enumerate(values) if _is_absent(value)]
    if missing:
        return NotFiniteError(
            f"y_prob must not be missing; {_listed(probs, values, missing)}. "
            "Drop or impute these rows first: an error is not measured on rows left out."
        )
    rows = [i for i, value in enumerate(values) if _is_row(value)]
    if rows:
        return InvalidShapeError(
            "y_prob must have one number in each place, of shape (n,) or (n, n_classes); "
            f"{_listed(probs, values, rows)}. Make a table of a column of lists with "
            "np.stack(column): all must be of one length."
        )
    wrong = [i for i, value in enumerate(values) if not _is_number(value)]
    return InvalidProbabilitiesError(
        f"y_prob must hold numbers in [0, 1], not {_type_name(probs)}; "
        f"{_listed(probs, values, wrong)}. Convert the column to float first; of percentages "
        'such as "90%" remove the sign and divide by 100.'
    )


def _is_absent(value: Any) -> bool:
    """Tell None, NaN, NaT and pandas.NA, none of which is certain to equal itself."""
    if value is None or isinstance(value, str | bytes | list | tuple | dict | np.ndarray):
        return value is None
    try:
        return not bool(value == value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


NOT_NUMBERS = (str, bytes, complex, np.complexfloating, np.timedelta64, np.datetime64)
"""What Python or NumPy would turn into a float, though it is none."""


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, NOT_NUMBERS) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _is_row(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _listed(array: AnyArray, values: list[Any], wrong: list[int]) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(wrong[0], array.shape))
    return (
        f"{len(wrong):,} of {len(values):,} values are wrong "
        f"(first: y_prob[{place}] = {short(values[wrong[0]])})"
    )


def _check_shapes(labels: AnyArray, probs: AnyArray) -> None:
    if labels.ndim == 2 and probs.ndim == 1:
        raise SwappedArgumentsError(
            f"The order is (y_true, y_prob), but y_true has shape {labels.shape} and y_prob "
            f"{probs.shape}. Swap the two arguments."
        )
    if labels.ndim != 1:
        raise InvalidLabelsError(
            f"y_true must be one column of labels; got shape {labels.shape}. {_advice(labels)}"
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


def _advice(labels: AnyArray) -> str:
    """Say what to do with a table of labels: only rows with a single 1 are one-hot."""
    if labels.ndim != 2 or labels.dtype.kind not in NUMERIC or not _is_zero_one(labels):
        return "Flatten positions such as pixels or tokens into rows, one label each."
    events = labels.sum(axis=1)
    several = np.flatnonzero(events != 1)
    if several.size == 0:
        return "For one-hot rows, pass y_true.argmax(axis=1)."
    first = int(several[0])
    return (
        f"Several labels of a row may be 1 here: {several.size:,} of {len(labels):,} rows have "
        f"none or several (first: row {first} has {int(events[first]):,}). Measure each label as "
        "an event of its own: y_true[:, k] and y_prob[:, k]."
    )


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
    if read_label("pos_label", pos_label) in (0, 1):
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
    refuse_masked(sample_weight, "sample_weight")
    try:
        given = np.asarray(off_device(sample_weight))
        # NumPy would make floats of text and of times, too
        weights = given.astype(np.float64, copy=False) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong_weights(sample_weight) from error
    if weights is None:
        raise _wrong_weights(sample_weight)
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
    if weights.max() > LARGEST_WEIGHT:
        check_heaviest(weights.max())
    return weights


def _wrong_weights(weights: Any) -> InvalidWeightsError:
    several = isinstance(weights, list | tuple) or np.ndim(weights)  # a ragged list has no ndim
    values = list(weights) if several else [weights]
    wrong = [i for i, value in enumerate(values) if not _is_number(value)]
    first = f" (first: sample_weight[{wrong[0]}] = {short(values[wrong[0]])})" if wrong else ""
    return InvalidWeightsError(
        f"sample_weight must hold numbers; {len(wrong):,} of {len(values):,} are not{first}. "
        "Convert the column to float, and drop or fill missing weights first."
    )


def check_heaviest(weight: float) -> None:
    """Refuse the largest weight of all rows where its square is not a number to count with."""
    if weight == 0:
        raise InvalidWeightsError(
            "sample_weight must not be zero on every row. Leave it out to count all rows alike."
        )
    if not SMALLEST_HEAVIEST <= weight <= LARGEST_WEIGHT:
        raise InvalidWeightsError(
            f"sample_weight must be of a size that can be squared; the largest is {weight:g}. "
            "Only ratios matter: divide all weights by the largest."
        )


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
