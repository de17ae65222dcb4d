"""Reading predictions for a recalibrator: which columns it takes, and every check of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.columns import Columns
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidGroupsError,
    InvalidLabelsError,
    InvalidShapeError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.groups import GroupColumn, GroupLabel, Groups, ranking
from calibrant.problem import NUMERIC, Kind, Label, read_classes
from calibrant.sources.arrays import as_array, read_arrays
from calibrant.sources.column_names import (
    check_class_order,
    check_label_order,
    check_same_names,
    names_of,
)
from calibrant.sources.groups import read_groups

if TYPE_CHECKING:
    from calibrant.recalibrators.base import Recalibrator
    from calibrant.recalibrators.by_group import ByGroup

Reads: TypeAlias = Literal["one event", "classes", "either", "labels"]
"""The columns that a recalibrator takes: one event, in one or two; all classes, where a row has
one; either; or all labels, where it has any number."""
SEVERAL = ("classes", "labels")
"""Those whose columns are never one event, even if there are two."""
Choices: TypeAlias = dict[str, tuple[object, ...]]
"""What parameters with few values may be."""
INPUTS: Choices = {"input": ("probabilities", "logits")}
"""The choices of recalibrators that read either."""
NO_GROUPS = (
    "ByGroup needs the group of each row; got none. Pass by=, one value for each row or several "
    "columns."
)


def read_again(
    recalibrator: Recalibrator,
    y_prob: Any,
    y_true: Any,
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
) -> Columns:
    """Check labelled predictions that a fitted recalibrator is applied to.

    Their labels are those of the fit, unless `classes` names others or they count from 0.
    """
    check_is_fitted(recalibrator, "classes_")
    if classes is None:
        classes = _own_classes(recalibrator)
    else:
        _check_same_classes(recalibrator, classes)
    _columns_of_fit(recalibrator, y_prob)
    return read_labelled(recalibrator, y_prob, y_true, sample_weight, classes)


def _columns_of_fit(recalibrator: Recalibrator, y_prob: Any) -> AnyArray:
    """Return predictions as an array; refuse other columns than those of the fit."""
    array = as_array(y_prob, "y_prob")
    check_width(recalibrator, array.shape)
    check_same_names(names_of(y_prob), fitted_names(recalibrator))
    return array


def _own_classes(recalibrator: Recalibrator) -> list[Label] | None:
    """Return the labels of the fit; None where they count from 0."""
    labels = recalibrator.classes_
    counting = labels.dtype.kind in "biu" and np.array_equal(labels, np.arange(labels.size))
    return None if counting else labels.tolist()


def _check_same_classes(recalibrator: Recalibrator, classes: Sequence[Label]) -> None:
    """Refuse the labels of the fit in another order: the columns mean what they meant there."""
    fitted, named = recalibrator.classes_.tolist(), list(read_classes(classes) or ())
    place = {label: i for i, label in enumerate(fitted)}
    moved = [label for i, label in enumerate(named) if place.get(label, i) != i]
    # Labels that count from 0 were perhaps never named, and 1, 2, 3 may be other names of them.
    if moved and (set(fitted) == set(named) or _own_classes(recalibrator) is not None):
        raise InvalidArgumentError(
            "classes must name the labels in the order of the fit, whose columns these are; got "
            f"{named!r:.80} after a fit on {fitted!r:.80}. Leave classes out, or keep that order."
        )


@contextmanager
def unless_it_fails(estimator: Any) -> Iterator[None]:
    """Let a fit change an estimator; restore its state where the fit fails half-way."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def keep_names(recalibrator: Recalibrator, names: Sequence[str]) -> None:
    """Keep the names of the columns of a fit, as scikit-learn does, where they have names."""
    recalibrator.__dict__.pop("feature_names_in_", None)
    if names:
        recalibrator.feature_names_in_ = np.array(names, object)


def fitted_names(recalibrator: Recalibrator) -> list[str]:
    """Return the names of the columns of the fit, if they had names."""
    return list(getattr(recalibrator, "feature_names_in_", ()))


def groups_of_rows(by: Any, n: int | None, like: tuple[GroupColumn, ...] | None = None) -> Groups:
    """Read the groups of rows, which `ByGroup` needs."""
    if by is None:
        raise InvalidArgumentError(NO_GROUPS)
    return read_groups(by, n, like)


def groups_of_fit(
    groups: Groups, weights: FloatArray | None
) -> tuple[list[tuple[GroupLabel, ...]], FloatArray]:
    """Return the labels of groups that rows with a weight are in, in order, and their sizes."""
    used = np.ones(len(groups.codes), bool) if weights is None else weights > 0
    counts = np.bincount(groups.codes[used], minlength=len(groups.labels))
    rank, labels = ranking(groups.by), groups.labels
    present = [code for code in np.flatnonzero(counts).tolist() if None not in labels[code]]
    present.sort(key=lambda code: rank(labels[code]))
    if not present:
        raise InvalidGroupsError(
            f"A repair by group needs rows that are in one; of all {len(groups.codes):,} rows "
            "a column of by= says nothing, or they have no weight. Pass other columns, or "
            "fit the recalibrator itself."
        )
    return [labels[code] for code in present], counts[present].astype(np.float64)


def places(groups: Groups, known: Sequence[tuple[GroupLabel, ...]]) -> IntArray:
    """Return the number of each row's group; -1 where the fit has not seen it."""
    number = {labels: i for i, labels in enumerate(known)}
    return np.array([number.get(labels, -1) for labels in groups.labels])[groups.codes]


def groups_again(repair: ByGroup, by: Any, n: int | None) -> Groups:
    """Read groups in the columns of the fit; refuse text for numbers and numbers for text."""
    groups = groups_of_rows(by, n, repair.by_)
    for i, column in enumerate(repair.by_):
        fitted, passed = (
            {isinstance(key[i], str) for key in keys if key[i] is not None}
            for keys in (repair.groups_, groups.labels)
        )
        if len(fitted) == 1 and passed and not fitted & passed:
            wrong = next(x[i] for x in groups.labels if x[i] is not None)
            types = ("text", "numbers") if fitted == {True} else ("numbers", "text")
            raise InvalidGroupsError(
                f"Groups by {column.name!r:.60} were {types[0]} in the fit, such as "
                f"{repair.groups_[0][i]!r:.40}; here they are {types[1]}, such as {wrong!r:.40}, "
                "and none would be known again. Convert the column."
            )
    return groups


def read_unlabelled(recalibrator: Recalibrator, y_prob: Any) -> tuple[AnyArray, tuple[int, ...]]:
    """Check predictions that a fitted recalibrator is applied to.

    Return the columns that it works on, and the shape that they came in.
    """
    check_is_fitted(recalibrator, "classes_")
    array = _columns_of_fit(recalibrator, y_prob)
    check_class_order(names_of(y_prob), _own_classes(recalibrator))
    shape = array.shape if recalibrator._reads == "labels" else len(array)
    unlabelled = np.zeros(shape, np.int8)
    return read_labelled(recalibrator, array, unlabelled).predictions, array.shape


def read_labelled(
    recalibrator: Recalibrator,
    y_prob: Any,
    y_true: Any,
    sample_weight: Any = None,
    classes: Sequence[Label] | None = None,
) -> Columns:
    """Check predictions and their labels, and return the columns that a recalibrator works on."""
    if y_true is None:
        raise InvalidLabelsError(
            "A recalibrator requires y to be passed, but the target y is None. Give the labels of "
            "the rows after their predictions."
        )
    array = as_array(y_prob, "y_prob")
    if recalibrator.input == "logits" and recalibrator._reads != "classes":
        array = _log_odds(array)
    kind = kind_of(recalibrator, array.shape) if array.ndim in (1, 2) else None
    if kind == "multi-label":
        check_label_order(names_of(y_true), names_of(y_prob))
    else:
        check_class_order(names_of(y_prob), classes)
    try:
        rows = read_arrays(y_true, array, kind=kind, classes=classes, sample_weight=sample_weight)
        if rows.problem.codes(rows.labels[:1000]).min() < 0:
            rows.explain_labels()
    except SwappedArgumentsError as error:
        raise SwappedArgumentsError(
            "The order of fit is (y_prob, y_true): predictions first, as features are in "
            "scikit-learn. These look swapped."
        ) from error
    rows.check_weights()
    _check_values(recalibrator, rows)
    return rows


def _log_odds(logits: AnyArray) -> AnyArray:
    """Return one column of log-odds for two columns of logits, and others as they are."""
    if logits.ndim != 2 or logits.shape[1] != 2 or logits.dtype.kind not in (*NUMERIC, "O"):
        return logits
    try:
        columns = logits.astype(np.float64)
    except (TypeError, ValueError):
        return logits  # the reader after this names the values that are not numbers
    return np.asarray(columns[:, 1] - columns[:, 0])


def kind_of(recalibrator: Recalibrator, shape: tuple[int, ...]) -> Kind:
    """Return the kind of problem of this shape; two columns are one event, the second."""
    name, reads, width = recalibrator._name, recalibrator._reads, width_of(shape)
    if reads == "labels":
        return "multi-label"
    if reads == "one event" and width > 2:
        raise InvalidShapeError(
            f"{name} recalibrates one event, of shape (n,), (n, 1) or (n, 2); got {shape}. For "
            "several classes wrap it in OneVsRest or TopLabel."
        )
    if reads == "classes" and width == 1:
        raise InvalidShapeError(
            f"{name} needs one column for each class; got shape {shape}. Recalibrate one event "
            "alone, for instance with PlattScaling or ScalingBinning."
        )
    return "binary" if width <= 2 and reads != "classes" else "top-label"


def check_width(recalibrator: Recalibrator, shape: tuple[int, ...]) -> None:
    """Refuse other columns than those of the fit; one and two columns are the same event."""
    n_classes, width = recalibrator.classes_.size, width_of(shape)
    of_labels = recalibrator._reads == "labels"
    if len(shape) not in (1, 2) or width == n_classes:
        return
    if (width, n_classes) == (1, 2) and not of_labels:
        return
    parts = "labels" if of_labels else "classes"
    advice = f"Pass the columns of all {parts}, in the order of classes_"
    if n_classes == 2 and not of_labels:
        advice = "Pass the event's probability, (n,), or both columns, (n, 2)"
    raise InvalidShapeError(
        f"This {recalibrator._name} was fitted on {n_classes:,} {parts}; y_prob has "
        f"{width:,} column{'s' * (width != 1)} (shape {shape}). {advice}, or fit another "
        "recalibrator on columns like these."
    )


def _check_values(recalibrator: Recalibrator, rows: Columns) -> None:
    if recalibrator.input == "logits":
        wrong = ~np.isfinite(rows.predictions)
        if wrong.any():
            raise NotFiniteError(
                f"Logits must be finite; {int(wrong.sum()):,} of {wrong.size:,} are not. "
                "Clip infinite ones to a large number, and drop or impute missing ones."
            )
    elif not (rows.predictions.min() >= 0 and rows.predictions.max() <= 1):
        rows.explain_predictions()


def in_shape(answers: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return answers in the shape of the predictions; of two columns the second is the event."""
    if answers.ndim == 1 and width_of(shape) == 2:
        return np.column_stack((1 - answers, answers))
    return answers.reshape(shape)


def width_of(shape: tuple[int, ...]) -> int:
    """Return the number of columns."""
    return 1 if len(shape) < 2 else shape[1]


def check_of_one_column(recalibrator: Recalibrator, what: str, target: str) -> None:
    """Refuse an export that reads one column where the answers depend on several."""
    check_is_fitted(recalibrator, "classes_")
    name, n_classes = recalibrator._name, recalibrator.classes_.size
    if recalibrator._reads in SEVERAL:
        raise InvalidArgumentError(
            f"{name} has no form in {target}: its answers depend on the columns of all "
            f"{recalibrator._reads}. Use predict_proba or to_torch."
        )
    if n_classes > 2:
        raise InvalidShapeError(
            f"{what} reads one column; this {name} was fitted on {n_classes:,} classes, and its "
            "answers depend on all their columns. Use predict_proba or to_torch, or fit a "
            "recalibrator on the one column."
        )


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise InvalidArgumentError unless the value is one of the choices."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *first, last = (repr(choice) for choice in choices)
        raise InvalidArgumentError(f"{name} must be {', '.join(first)} or {last}; got {value!r}.")
