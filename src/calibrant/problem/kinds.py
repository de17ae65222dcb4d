"""Problems: what is predicted, which error is meant, and what the labels are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant._documents import check_names, is_whole, shown
from calibrant._options import is_among, is_integer
from calibrant._types import AnyArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError

Kind: TypeAlias = Literal["binary", "top-label", "marginal"]
Label: TypeAlias = str | int | float | bool

MOST_CLASSES = 1 << 22
"""Of a problem in a document, which may ask for a list of their names."""
NUMERIC = "biuf"
"""The kinds of array whose values are numbers."""


@dataclass(frozen=True)
class Problem:
    """What is predicted and which error is meant.

    Parameters
    ----------
    kind : {"binary", "top-label", "marginal"}
        One probability of an event; the confidence in the predicted class; every class's own.
    n_classes : int
        2 for a binary problem, else the number of columns.
    classes : tuple, optional
        The labels in the order of the columns; None means 0, 1, ..., n_classes - 1.
    pos_label : label, optional
        The event of a binary problem, where any other label means that it did not happen.
    """

    kind: Kind
    n_classes: int = 2
    classes: tuple[Label, ...] | None = None
    pos_label: Label | None = None

    @property
    def n_groups(self) -> int:
        """How many one-dimensional problems this is: one a class if marginal, else one."""
        return self.n_classes if self.kind == "marginal" else 1

    @property
    def class_names(self) -> tuple[Label, ...]:
        """The labels in the order of the columns."""
        return self.classes if self.classes is not None else tuple(range(self.n_classes))

    def codes(self, labels: AnyArray) -> IntArray:
        """Return the class index of each label, -1 where a label is not among the classes.

        A binary problem has the codes 0 and 1, and 1 is the event. They may be the very array of
        labels: not to be written to.
        """
        if labels.dtype.kind not in NUMERIC:
            return self._codes_by_name(labels.tolist())
        if labels.dtype.kind == "b":
            labels = labels.view(np.uint8)
        if self.pos_label is not None:
            event = same_number(self.pos_label, labels.dtype)
            happened = np.zeros(labels.shape, bool) if event is None else labels == event
            return np.where(np.isnan(labels), -1, happened).astype(np.intp)
        if self.classes is None:
            return _whole_codes(labels, self.n_classes)
        return _codes_by_number(labels, self.classes)

    def _codes_by_name(self, labels: list[Any]) -> IntArray:
        if self.pos_label is not None:
            codes = [-1 if _is_missing(label) else label == self.pos_label for label in labels]
        else:
            table = {name: code for code, name in enumerate(self.class_names)}
            codes = [-1 if _is_missing(label) else table.get(label, -1) for label in labels]
        return np.array(codes, np.intp)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "kind": self.kind,
            "n_classes": self.n_classes,
            "classes": None if self.classes is None else list(self.classes),
            "pos_label": self.pos_label,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Problem:
        """Rebuild a problem from `to_dict`; raise InvalidDocumentError if that cannot be done."""
        check_names(document, ("kind", "n_classes", "classes", "pos_label"), "A problem")
        kind, n_classes, classes = document["kind"], document["n_classes"], document["classes"]
        well_formed = (
            isinstance(kind, str)
            and is_whole(n_classes, 2, MOST_CLASSES)
            and (classes is None or (isinstance(classes, list) and len(classes) == n_classes))
            and all(isinstance(x, str | int | float) and x == x for x in (classes or []))
            and isinstance(document["pos_label"], str | int | float | None)
        )
        if not well_formed:
            raise InvalidDocumentError(f"This document holds no valid problem: {shown(document)}.")
        try:
            problem = read_problem(kind, n_classes, classes, document["pos_label"])
        except InvalidArgumentError as error:
            raise InvalidDocumentError(
                f"This document holds no valid problem: {error!s:.300}"
            ) from error
        if problem.to_dict() != document:  # an event among the classes
            raise InvalidDocumentError(f"This document holds no valid problem: {shown(document)}.")
        return problem


def _is_missing(label: Any) -> bool:
    """Tell None, NaN and what data frames put for a missing value from a label."""
    return not isinstance(label, str | int | float) or label != label


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
    ranked, order = np.array([number for number, _ in known]), np.array([code for _, code in known])
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


def read_problem(
    kind: Kind,
    n_classes: int | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
) -> Problem:
    """Return the problem that these named arguments describe, without any data."""
    check_kind(kind)
    names = read_classes(classes)
    if n_classes is None:
        n_classes = len(names) if names is not None else 2 if kind == "binary" else None
    if n_classes is None:
        raise InvalidArgumentError(f'kind="{kind}" needs n_classes= or classes=.')
    if not is_integer(n_classes) or n_classes < 2 or (kind == "binary" and n_classes != 2):
        raise InvalidArgumentError(
            f'n_classes must be {"2" if kind == "binary" else "at least 2"} for kind="{kind}"; '
            f"got {n_classes!r}."
        )
    if names is not None and len(names) != n_classes:
        raise InvalidArgumentError(
            f"classes must name every one of the {n_classes:,} classes; got {len(names):,} names."
        )
    return Problem(kind, n_classes, *_read_event(kind, names, pos_label))


def check_kind(kind: Any) -> None:
    """Refuse what is not the name of a kind of problem."""
    if not is_among(kind, get_args(Kind)):
        raise InvalidArgumentError(
            f'kind must be "binary", "top-label" or "marginal"; got {kind!r:.60}.'
        )


def read_classes(classes: Sequence[Label] | None) -> tuple[Label, ...] | None:
    """Return the names of the classes, checked."""
    if classes is None:
        return None
    if isinstance(classes, str | bytes | Mapping | Set) or not hasattr(classes, "__iter__"):
        raise InvalidArgumentError(
            "classes must be a sequence of labels in the order of the columns, such as "
            f'("no", "yes"); got {short(classes)}.'
        )
    names = tuple(read_label("classes", name) for name in np.ravel(np.asarray(classes, object)))
    if len(set(names)) != len(names):
        raise InvalidArgumentError(f"classes must be distinct; got {short(names)}.")
    if len({isinstance(name, str) for name in names}) > 1:
        raise InvalidArgumentError(f"classes must be all text or all numbers; got {short(names)}.")
    return names


def read_label(option: str, label: Any) -> Label:
    """Return a label as a plain value; refuse what no row can have as its label."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str | int | float) and plain == plain:
        return plain
    raise InvalidArgumentError(
        f"{option} must name labels, each text or a number; got {short(label)}."
    )


def _read_event(
    kind: Kind, names: tuple[Label, ...] | None, pos_label: Label | None
) -> tuple[tuple[Label, ...] | None, Label | None]:
    """Return (classes, pos_label) in their one canonical form."""
    if pos_label is None:
        return names, None
    if kind != "binary":
        raise InvalidArgumentError(
            f'pos_label names the event of a binary problem; kind is "{kind}". '
            "Name the classes with classes= instead."
        )
    event = read_label("pos_label", pos_label)
    if names is None:
        return None, event
    if event not in names:
        raise InvalidArgumentError(f"pos_label {event!r} is not among classes {names!r}.")
    return tuple(sorted(names, key=lambda name: name == event)), None


def short(value: Any) -> str:
    """Show a value in at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
