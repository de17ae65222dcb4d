"""Problems: what is predicted, which error is meant, and what the labels are.

Shapes and named arguments decide; no value of the data is looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from numbers import Number
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant._documents import check_names, is_whole, shown
from calibrant._options import is_among, is_integer
from calibrant._types import AnyArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError, InvalidShapeError

Kind: TypeAlias = Literal["binary", "top-label", "marginal", "multi-label", "ordinal", "quantile"]
Input: TypeAlias = Literal["probabilities", "logits"]
KINDS, INPUTS = get_args(Kind), get_args(Input)
Label: TypeAlias = str | int | float | bool

SINGLE_KINDS = ("binary", "top-label")
"""One prediction a row is judged; of every other kind, each class, label, threshold or level."""
EVENT_KINDS = ("multi-label", "ordinal", "quantile")
"""Their labels are read as a table of 0 and 1: what happened, one column for each event."""
PARTS = {
    "multi-label": ("label", "labels"),
    "ordinal": ("threshold", "thresholds"),
    "quantile": ("level", "levels"),
}
"""What a problem of several is judged by, one and several of it; of any other kind, classes."""

MOST_CLASSES = 1 << 22
"""Of a problem in a document, which may ask for a list of their names."""
SUM_TOLERANCE = 0.01
"""How far the probabilities of ordered classes may be from adding up to 1: float16 and two decimals
pass, scores that were never meant to add up do not."""
NUMERIC = "biuf"  # the kinds of array whose values are numbers


def part_of(kind: str) -> str:
    """Return the name of one event of a problem with several."""
    return PARTS.get(kind, ("class", "classes"))[0]


@dataclass(frozen=True)
class Problem:
    """What is predicted and which error is meant.

    Parameters
    ----------
    kind : {"binary", "top-label", "marginal", "multi-label", "ordinal", "quantile"}
        One probability of an event; the confidence in the predicted class; every class's own; every
        label's own, where a row may have none or several; for ordered classes, the probability of
        each class or a lower one; the level of each predicted quantile of a real outcome.
    n_classes : int
        2 for a binary problem, else the number of columns.
    classes : tuple, optional
        The labels in the order of the columns; None means 0, 1, ..., n_classes - 1. Those of
        ordered classes ascend, and those of quantiles are their levels.
    pos_label : label, optional
        The event of a binary problem, where any other label means that it did not happen.
    """

    kind: Kind
    n_classes: int = 2
    classes: tuple[Label, ...] | None = None
    pos_label: Label | None = None

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        kind: Kind | None = None,
        classes: Sequence[Label] | None = None,
        pos_label: Label | None = None,
    ) -> tuple[Problem, int | None]:
        """Return the problem that predictions of this shape pose, and the column of its event.

        The column is None where there is one column only, or every column counts.

        >>> Problem.of((100, 2), classes=("yes", "no"), pos_label="yes")
        (Problem(kind='binary', n_classes=2, classes=('no', 'yes'), pos_label=None), 0)
        """
        width = 1 if len(shape) == 1 else shape[1]
        if kind is None:
            kind = "binary" if width <= 2 else "top-label"
        check_kind(kind)
        if kind == "binary" and len(shape) == 1 and classes is None and pos_label is None:
            return EVENT, None
        if width == 1 and kind in ("top-label", "marginal", "ordinal"):
            raise InvalidShapeError(
                f'kind="{kind}" needs one column per class; y_prob has shape {shape}. '
                'For the probability of one event use kind="binary".'
            )
        if kind == "binary" and width > 2:
            raise InvalidShapeError(
                f'kind="binary" needs y_prob of shape (n,), (n, 1) or (n, 2); got {shape}. '
                'Pick the column of the event, or use kind="top-label" or "marginal".'
            )
        names = _read_names(kind, classes)
        if kind == "binary" and width == 2 and names is None and pos_label is not None:
            names = _labels_of_two_columns(pos_label)
        problem = read_problem(kind, 2 if kind == "binary" else width, names, pos_label)
        if len(shape) == 1 or kind != "binary":
            return problem, None
        first = names is not None and names[0] == problem.class_names[1]
        return problem, 0 if first and width == 2 else width - 1

    def __str__(self) -> str:
        """Return a description for messages, short for many classes.

        >>> print(Problem("top-label", 3, ("a", "b", "c")), Problem("binary"), sep="; ")
        top-label of 3 classes ('a', 'b', 'c'); binary
        """
        text = str(self.kind)
        if self.kind != "binary":
            text += f" of {self.n_classes:,} {self.parts}"
        if self.classes is not None:
            shown = ", ".join(map(repr, self.classes[:4])) + ", ..." * (self.n_classes > 4)
            text += f" ({shown})"
        return text if self.pos_label is None else f"{text} with the event {self.pos_label!r}"

    @property
    def is_marginal(self) -> bool:
        """Whether each class, label, threshold or level is judged, not one prediction a row."""
        return self.kind not in SINGLE_KINDS

    @property
    def has_event_columns(self) -> bool:
        """Whether what happened is a table of 0 and 1, one column for each group."""
        return self.kind in EVENT_KINDS

    @property
    def n_groups(self) -> int:
        """How many one-dimensional problems this is: one a class if marginal, else one.

        Of K ordered classes K - 1: the last or a lower one always occurs.
        """
        return self.n_classes - (self.kind == "ordinal") if self.is_marginal else 1

    @property
    def class_names(self) -> tuple[Label, ...]:
        """The labels in the order of the columns."""
        return self.classes if self.classes is not None else tuple(range(self.n_classes))

    @property
    def group_names(self) -> tuple[Label, ...]:
        """The classes, labels, thresholds ("this class or a lower one") or levels of the groups."""
        return self.class_names[: self.n_groups]

    @property
    def part(self) -> str:
        """The noun for one of `group_names`: class, label, threshold or level."""
        return part_of(self.kind)

    @property
    def parts(self) -> str:
        """The plural of `part`."""
        return PARTS.get(self.kind, ("class", "classes"))[1]

    def codes(self, labels: AnyArray) -> IntArray:
        """Return the class index of each label, -1 where a label is not among the classes.

        A binary problem has the codes 0 and 1, and 1 is the event; so has a table of events. They
        may be the very array of labels: not to be written to.
        """
        if self.has_event_columns:
            return _whole_codes(labels.view(np.uint8) if labels.dtype == np.bool_ else labels, 2)
        if labels.dtype.kind not in NUMERIC:
            # `tolist` makes integers of times in nanoseconds
            names = list(labels) if labels.dtype.kind in "mM" else labels.tolist()
            events = None if self.pos_label is None else {self.pos_label: 1}
            table = events or {name: code for code, name in enumerate(self.class_names)}
            other = -1 if events is None else 0
            codes = [-1 if _is_missing(name) else table.get(name, other) for name in names]
            return np.array(codes, np.intp)
        if labels.dtype.kind == "b":
            labels = labels.view(np.uint8)
        if self.pos_label is not None:
            event = same_number(self.pos_label, labels.dtype)
            happened = np.zeros(labels.shape, bool) if event is None else labels == event
            return np.where(np.isnan(labels), -1, happened).astype(np.intp)
        if self.classes is None:
            return _whole_codes(labels, self.n_classes)
        return _codes_by_number(labels, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {**vars(self), "classes": None if self.classes is None else list(self.classes)}

    @classmethod
    def from_dict(cls, document: Any) -> Problem:
        """Rebuild a problem from `to_dict`; raise InvalidDocumentError if that cannot be done."""
        check_names(document, ("kind", "n_classes", "classes", "pos_label"), "A problem")
        kind, n_classes, classes = document["kind"], document["n_classes"], document["classes"]
        well_formed = (
            isinstance(kind, str)
            and is_whole(n_classes, 1, MOST_CLASSES)
            and (classes is None or (isinstance(classes, list) and len(classes) == n_classes))
            and all(isinstance(x, str | int | float) and x == x for x in (classes or []))
            and isinstance(document["pos_label"], str | int | float | None)
        )
        wrong, event = "This document holds no valid problem", document["pos_label"]
        try:
            problem = read_problem(kind, n_classes, classes, event) if well_formed else None
        except InvalidArgumentError as error:
            raise InvalidDocumentError(f"{wrong}: {error!s:.300}") from error
        if problem is None or problem.to_dict() != document:  # an event among the classes
            raise InvalidDocumentError(f"{wrong}: {shown(document)}.")
        return problem


def _is_missing(label: Any) -> bool:
    """Return whether a value is None, NaN or a missing value of a data frame, not a label.

    Labels may be real numbers of NumPy or decimals, but not times, which NumPy compares with
    integers.
    """
    if not isinstance(label, str | int | float | Number | np.bool_):
        return True
    others = complex | np.complexfloating | np.timedelta64
    return isinstance(label, others) or bool(label != label)


def same_number(label: Label, dtype: np.dtype[Any]) -> Any:
    """Return the number of this type that equals a label, or None if there is none.

    Types are never mixed: beyond 2**53 two integers can be one float.
    """
    if isinstance(label, str) or label != label:
        return None
    if dtype.kind == "f":
        try:
            number = float(label)
        except OverflowError:
            return None
        return np.float64(number) if number == label else None
    if isinstance(label, float) and not label.is_integer():
        return None
    span = np.iinfo(dtype)
    return dtype.type(int(label)) if span.min <= label <= span.max else None


def _codes_by_number(labels: AnyArray, classes: tuple[Label, ...]) -> IntArray:
    numbers = [(same_number(name, labels.dtype), code) for code, name in enumerate(classes)]
    known = sorted((number, code) for number, code in numbers if number is not None)
    if not known:
        return np.full(labels.shape, -1, np.intp)
    ranked, order = map(np.array, zip(*known, strict=True))
    place = np.minimum(np.searchsorted(ranked, labels), ranked.size - 1)
    return np.where(ranked[place] == labels, order[place], -1).astype(np.intp)


def _whole_codes(labels: AnyArray, n_classes: int) -> IntArray:
    if labels.dtype.kind in "iu" and labels.size and 0 <= labels.min() <= labels.max() < n_classes:
        return labels.astype(np.intp, copy=False)
    with np.errstate(invalid="ignore"):
        codes = labels.astype(np.intp)
    if labels.dtype.kind == "f":
        codes = np.where(codes == labels, codes, -1)
    return np.where((codes >= 0) & (codes < n_classes), codes, -1)


EVENT = Problem("binary")
"""What one column of probabilities means if nothing is said about it: made once, for it is asked
for in every call."""


def read_problem(
    kind: Kind,
    n_classes: int | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
) -> Problem:
    """Return the problem that these named arguments describe, without any data."""
    check_kind(kind)
    names = _read_names(kind, classes)
    if n_classes is None:
        n_classes = len(names) if names is not None else 2 if kind == "binary" else None
    if n_classes is None:
        raise InvalidArgumentError(f'kind="{kind}" needs n_classes= or classes=.')
    least = 1 if kind in ("multi-label", "quantile") else 2
    if not is_integer(n_classes) or n_classes < least or (kind == "binary" and n_classes != 2):
        raise InvalidArgumentError(
            f"n_classes must be {2 if kind == 'binary' else f'a whole number >= {least}'} for "
            f'kind="{kind}"; got {n_classes!r}.'
        )
    if names is not None and len(names) != n_classes:
        raise InvalidArgumentError(
            f"classes must name every one of the {n_classes:,} classes; got {len(names):,} names."
        )
    if kind == "quantile":
        names = _read_levels(names, n_classes)
    if pos_label is None:
        return Problem(kind, n_classes, names)
    if kind != "binary":
        raise InvalidArgumentError(
            f'pos_label names the event of a binary problem; kind is "{kind}". '
            "Name the classes with classes= instead."
        )
    event = read_label("pos_label", pos_label)
    if names is None:
        return Problem(kind, n_classes, None, event)
    if event not in names:
        raise InvalidArgumentError(f"pos_label {event!r} is not among classes {names!r}.")
    return Problem(kind, n_classes, tuple(sorted(names, key=lambda name: name == event)))


def _read_names(kind: Kind, classes: Any) -> tuple[Label, ...] | None:
    """Return the names of the classes; levels of short floats as the decimals that they print as.

    The float32 nearest to 0.95 is 0.949999988, which would be another level, and with 0.05 bound no
    central interval.
    """
    if kind == "quantile" and (hasattr(classes, "dtype") or isinstance(classes, list | tuple)):
        values = np.ravel(np.asarray(classes)) if hasattr(classes, "dtype") else classes
        classes = [float(str(x)) if isinstance(x, np.float32 | np.float16) else x for x in values]
    return read_classes(classes)


def _read_levels(levels: tuple[Label, ...] | None, n_columns: int) -> tuple[Label, ...]:
    """Return the levels of quantiles as floats; they must be named, and ascend."""
    required = 'kind="quantile" needs the levels of the columns, classes=(0.05, 0.5, 0.95), '
    if levels is None:
        raise InvalidArgumentError(
            f"{required}strictly between 0 and 1; {n_columns:,} columns of quantiles came without."
        )
    wrong = [x for x in levels if isinstance(x, str | bool) or not 0 < x < 1]
    falls = [a for a, b in pairwise(levels) if not wrong and not a < b]  # type: ignore[operator]
    if wrong or falls:
        came = f"{wrong[0]!r:.60}" if wrong else f"{falls[0]!r} before a smaller one"
        raise InvalidArgumentError(
            f"{required}strictly between 0 and 1 and ascending; got {came}. Write 0.9 for 90%, and "
            "put the columns in the order of their levels."
        )
    return tuple(float(x) for x in levels)


def check_kind(kind: Any) -> None:
    """Refuse anything but the name of a kind of problem."""
    if not is_among(kind, KINDS):
        *first, last = (f'"{name}"' for name in KINDS)
        raise InvalidArgumentError(f"kind must be {', '.join(first)} or {last}; got {kind!r:.60}.")


def read_classes(classes: Sequence[Label] | None) -> tuple[Label, ...] | None:
    """Return the names of the classes, checked."""
    if classes is None:
        return None
    if isinstance(classes, str | bytes | Mapping | Set) or not hasattr(classes, "__iter__"):
        raise InvalidArgumentError(
            "classes must be a sequence of labels in the order of the columns, such as "
            f'("no", "yes"); got {shown(classes)}.'
        )
    names = tuple(read_label("classes", name) for name in np.ravel(np.asarray(classes, object)))
    wrong = ""
    if not names:
        wrong = "name at least one label; got none. Leave it out for 0, 1, 2, ..."
    elif len(set(names)) != len(names):
        wrong = f"be distinct; got {shown(names)}."
    elif len({isinstance(name, str) for name in names}) > 1:
        wrong = f"be all text or all numbers; got {shown(names)}."
    if wrong:
        raise InvalidArgumentError(f"classes must {wrong}")
    return names


def read_label(option: str, label: Any) -> Label:
    """Return a label as a plain value; refuse values that cannot be labels."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str | int | float) and plain == plain:
        return plain
    raise InvalidArgumentError(
        f"{option} must name labels, each text or a number; got {shown(label)}."
    )


def _labels_of_two_columns(pos_label: Label) -> tuple[Label, ...]:
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


def check_input(value: Any) -> None:
    """Raise InvalidArgumentError unless it is one of the two words."""
    if not is_among(value, INPUTS):
        raise InvalidArgumentError(f'input must be "probabilities" or "logits"; got {value!r:.60}.')
