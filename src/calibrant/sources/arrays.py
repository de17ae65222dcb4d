"""Arrays in memory, and whatever NumPy can read: lists, pandas columns, tensors on the host.

Shapes and named arguments decide what the input is; values are only checked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Literal

import numpy as np

from calibrant._bins_argument import auto_n_bins
from calibrant._digests import RowDigest
from calibrant._documents import shown
from calibrant._influences import Influence, InfluenceSums
from calibrant._lazy import pa
from calibrant._logits import explain_logits, probabilities_of
from calibrant._options import is_among
from calibrant._types import AnyArray, FloatArray
from calibrant.bins import BinRule, Bins, Distinct, EqualMass
from calibrant.columns import (
    LARGEST_WEIGHT,
    NOT_NUMBERS,
    Columns,
    check_heaviest,
    explain_probabilities,
    is_fraction,
    is_zero_one,
    numbers_of,
)
from calibrant.engines import engine
from calibrant.exceptions import (
    CalibrantError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    InvalidWeightsError,
    LengthMismatchError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.groups import Groups, required
from calibrant.problem import EVENT_KINDS, NUMERIC, Input, Kind, Label, Problem, check_input
from calibrant.sources import Source
from calibrant.sources.arrow_columns import plain
from calibrant.sources.column_names import check_order, names_of
from calibrant.sources.events import as_events, check_shapes
from calibrant.table import BinTable
from calibrant.tables import Tables, stacked

MANY_OUTPUTS = 1 << 20
"""From this many values of several classes on, the first are probed before all are counted."""


class ArraySource(Source):
    """Columns in memory, counted by the NumPy or the compiled engine."""

    def __init__(self, columns: Columns, groups: Groups | None = None) -> None:
        self.problem = columns.problem
        self._columns, self.groups = columns, groups
        self.by = () if groups is None else groups.by

    def choose(self, rule: BinRule | Literal["auto"]) -> tuple[Bins, ...]:
        """Choose bins from the distinct predictions of each group."""
        if isinstance(rule, str):
            rule = EqualMass(auto_n_bins(len(self._columns)))
        return engine().choose(self._columns, rule)

    def count(self, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows; all weights may be 0, as of a part of the rows."""
        return engine().count(self._columns, bins)

    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Check and sum the rows of each group."""
        groups = required(self.groups)
        labels, sums = engine().count_by(self._columns, bins, groups)
        return Tables.of(self.problem, groups.by, labels, (bins,), sums)

    def check_weights(self) -> None:
        """Refuse weights that are all 0."""
        self._columns.check_weights()

    def tabulate_own(self, rule: BinRule | Literal["auto"]) -> Tables:
        """Choose bins for each group from its own rows, and count them."""
        self.check_weights()
        labels, tables = [], []
        for group_labels, rows in required(self.groups).rows():
            part = ArraySource(self._columns.take(rows))
            if part._columns.weights is None or part._columns.weights.any():
                labels.append(group_labels)
                tables.append(part.count(part.choose(rule)))
        return stacked(self.by, labels, tables)

    def columns(self) -> Columns:
        """Return the checked arrays."""
        return self._checked

    @cached_property
    def _checked(self) -> Columns:
        self._columns.check_weights()
        self._columns.check()
        self._columns.check_event()
        return self._columns

    def in_memory(self) -> ArraySource:
        """Return self."""
        return self

    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums:
        """Read the rows of a marginal table once more."""
        return engine().influence_sums(self._columns, bins, influence)

    def check_event(self) -> None:
        """Refuse a pos_label that no row has."""
        self._columns.check_event()

    def looks_continuous(self) -> bool:
        """Probe the first rows, if there are many values of several classes.

        If most outputs of a class differ, a table of all distinct ones would be as large as the
        data, and none is made.
        """
        n_groups = self.problem.n_groups
        if n_groups == 1 or self._columns.predictions.size <= MANY_OUTPUTS:
            return False
        few = ArraySource(self._columns.take(slice(0, max(MANY_OUTPUTS // n_groups, 2))))
        table = few.tabulate(Distinct())
        alone = np.where(table.count == 1, 1.0, 0.0).sum(axis=1)
        return bool((alone > 0.5 * table.count.sum(axis=1)).any())

    def digest(self) -> str:
        """Return the digest of all rows, in any order."""
        digest = RowDigest()
        digest.update(self._columns.predictions, self._columns.codes())
        return str(digest)


def read_arrays(
    y_true: Any,
    y_prob: Any,
    kind: Kind | None = None,
    input: Input = "probabilities",
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    sample_weight: Any = None,
) -> Columns:
    """Decide from shapes and arguments what the arrays mean, and check that they fit together.

    Logits become probabilities at once, but for the many columns of a top-label problem.
    """
    check_input(input)
    labels, probs = as_array(y_true, "y_true"), as_array(y_prob, "y_prob")
    check_order(names_of(y_true), names_of(y_prob), kind, classes)
    if kind is not None and is_among(kind, EVENT_KINDS):
        probs = probs if kind == "quantile" else _as_numbers(probs, labels)
        problem, events, predicted = as_events(labels, probs, kind, input, classes, pos_label)
        return Columns(problem, events, predicted, read_weights(sample_weight, len(events)))
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    probs = _as_numbers(probs, labels)
    check_shapes(labels, probs)
    problem, column = Problem.of(probs.shape, kind, classes, pos_label)
    check_label_type(labels, problem)
    if column is not None:
        probs = _event_column(probs, column, input)
    weights = read_weights(sample_weight, len(labels))
    if input == "probabilities":
        return Columns(problem, labels, probs, weights)
    if problem.kind == "top-label":
        return Columns(problem, labels, probs, weights, are_logits=True)
    return Columns(problem, labels, probabilities_of(probs), weights)


def as_array(values: Any, name: str) -> AnyArray:
    """Return values as an array, or refuse what is masked, ragged or a single value."""
    refuse_masked(values, name)
    try:
        array = _floats_of_packages(np.asarray(for_numpy(values)))
        if array.dtype.kind == "U" and isinstance(values, list | tuple) and array.ndim == 1:
            mixed = not all(isinstance(value, str) for value in values)
            array = np.array(values, object) if mixed else array  # "nan" is no missing value
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidShapeError(
            f"{name} must be a column or a table of equally long rows; it could not be read as "
            f"an array ({error})."
        ) from error
    if array.ndim == 0:
        raise InvalidShapeError(
            f"{name} must be a column of values; got the single value {shown(array.item())}. "
            "With column names, pass the frame as data=."
        )
    return array


MASKED_ERRORS = {"y_true": InvalidLabelsError, "sample_weight": InvalidWeightsError}


def refuse_masked(values: Any, name: str) -> None:
    """Refuse values that a mask hides: NumPy would read what lies below the mask."""
    if "numpy.ma" not in sys.modules:  # then there is no such array, and importing it takes long
        return
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


def for_numpy(values: Any) -> Any:
    """Convert values that NumPy would misread; return all others unchanged."""
    if callable(getattr(values, "detach", None)):  # a frame has an attribute for each column
        tensor = values.detach().cpu()
        is_narrow = str(tensor.dtype).startswith(("torch.bfloat16", "torch.float8"))
        return tensor.float() if is_narrow else tensor
    return _decoded(values) if type(values).__module__ == "pyarrow.lib" else values


def _floats_of_packages(array: AnyArray) -> AnyArray:
    """Return float64 in place of the numbers that a package brings, such as bfloat16 of JAX."""
    return array.astype(np.float64) if array.dtype.isbuiltin == 2 else array


def _decoded(values: Any) -> Any:
    """Decode Arrow's dictionaries, whose nulls NumPy would lose.

    PyArrow looks them up by the index -1: a missing value would be the last of the dictionary.
    """
    if isinstance(values, pa.Table):
        columns = [_decoded(column) for column in values.columns]
        return pa.Table.from_arrays(columns, values.column_names)
    is_column = isinstance(values, pa.Array | pa.ChunkedArray)
    return plain(values) if is_column and pa.types.is_dictionary(values.type) else values


def _as_numbers(probs: AnyArray, labels: AnyArray) -> AnyArray:
    numbers = numbers_of(probs)
    if numbers is None:
        raise _wrong_objects(probs, labels)
    return numbers


def _wrong_objects(probs: AnyArray, labels: AnyArray) -> InvalidInputError:
    """Return the exception that says what came where numbers belong."""
    if labels.dtype.kind == "f" and is_fraction(labels) and not is_zero_one(labels):
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
    sized = [hasattr(value, "__len__") and not isinstance(value, str | bytes) for value in values]
    if rows := [i for i, is_sized in enumerate(sized) if is_sized]:
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
    """Return whether a value is None, NaN, NaT or pandas.NA: they may not equal themselves."""
    if value is None or isinstance(value, str | bytes | list | tuple | dict | np.ndarray):
        return value is None
    try:
        return not bool(value == value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, NOT_NUMBERS) and math.isfinite(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last of complex tensors
        return False


def _listed(array: AnyArray, values: list[Any], wrong: list[int]) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(wrong[0], array.shape))
    return (
        f"{len(wrong):,} of {len(values):,} values are wrong "
        f"(first: y_prob[{place}] = {shown(values[wrong[0]])})"
    )


def _event_column(probs: AnyArray, column: int, input: Input) -> AnyArray:
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


def check_label_type(labels: AnyArray, problem: Problem) -> None:
    """Refuse text where the classes are numbers, and numbers where they are text."""
    known = problem.classes or (() if problem.pos_label is None else (problem.pos_label,))
    if not known or labels.dtype.kind == "O":
        return
    text = labels.dtype.kind not in NUMERIC
    if text != isinstance(known[0], str):
        what = "classes" if problem.classes else "pos_label"
        raise InvalidLabelsError(
            f"y_true holds {_type_name(labels)} (first: {shown(labels[:1].tolist()[0])}), but "
            f"{what} {'are' if problem.classes else 'is'} {'numbers' if text else 'text'} "
            f"({shown(known[0])}). Give both as the same type; column positions can be named by "
            "np.take(classes, y_true)."
        )


def read_weights(sample_weight: Any, n: int) -> FloatArray | None:
    """Return checked weights of n rows, which may all be 0."""
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    try:
        values = _floats_of_packages(np.asarray(for_numpy(sample_weight)))
    except (TypeError, ValueError, OverflowError) as error:
        raise _wrong_weights(sample_weight) from error
    if (numbers := numbers_of(values)) is None:
        raise _wrong_weights(sample_weight)
    weights: FloatArray = numbers.astype(np.float64, copy=False)
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


def read_some_weight(sample_weight: Any, n: int) -> FloatArray | None:
    """Return checked weights of n rows that are not all 0."""
    weights = read_weights(sample_weight, n)
    if weights is not None:
        check_heaviest(weights.max())
    return weights


def _wrong_weights(weights: Any) -> InvalidWeightsError:
    several = isinstance(weights, list | tuple) or np.ndim(weights)  # a ragged list has no ndim
    values = list(weights) if several else [weights]
    wrong = [i for i, value in enumerate(values) if not _is_number(value)]
    first = f" (first: sample_weight[{wrong[0]}] = {shown(values[wrong[0]])})" if wrong else ""
    return InvalidWeightsError(
        f"sample_weight must hold numbers; {len(wrong):,} of {len(values):,} are not{first}. "
        "Convert the column to float, and drop or fill missing weights first."
    )


def _type_name(array: AnyArray) -> str:
    names = {"b": "booleans", "i": "integers", "u": "integers", "f": "floats", "M": "dates"}
    return names.get(array.dtype.kind, "text" if array.dtype.kind in "UST" else "objects")


@contextmanager
def called(name: str) -> Iterator[None]:
    """Name the caller's argument in exceptions, in place of y_prob."""
    try:
        yield
    except CalibrantError as error:
        raise type(error)(str(error).replace("y_prob", name)) from error
