"""What arguments of recalibrators must be."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.reading import SEVERAL


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise InvalidArgumentError unless the value is one of the choices."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *most, last = (repr(choice) for choice in choices)
        raise InvalidArgumentError(f"{name} must be {', '.join(most)} or {last}; got {value!r}.")


def check_of_one_score(name: str, recalibrator: object) -> None:
    """Raise InvalidArgumentError unless this recalibrates one score, with valid parameters."""
    if not isinstance(recalibrator, Recalibrator) or recalibrator._reads in SEVERAL:
        raise InvalidArgumentError(
            f"{name} must be a recalibrator of one score, such as PlattScaling(); "
            f"got {recalibrator!r:.100}."
        )
    recalibrator._check_parameters()


def check_of_one_column(recalibrator: Recalibrator, what: str, target: str) -> None:
    """Refuse an export that reads one column where the answers depend on several."""
    check_is_fitted(recalibrator, "classes_")
    name, n_classes = type(recalibrator).__name__, recalibrator.classes_.size
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
