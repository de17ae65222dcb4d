"""Saved calibrators that commands apply, and rows as their fit read them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from calibrant.cli.input import rows_of
from calibrant.cli.output import about
from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.recalibrators import Recalibrator


def load_calibrator(path: str) -> Recalibrator:
    """Read a saved calibrator of probabilities, the only ones that commands apply."""
    from calibrant.recalibrators import QuantileRepair, load

    calibrator = load(path)
    if isinstance(calibrator, QuantileRepair):
        raise InvalidArgumentError(
            f"Commands apply calibrators of probabilities; {path} holds a "
            f"{type(calibrator).__name__}, which repairs quantiles. Apply it in Python: "
            "calibrant.load(path).predict(quantiles)."
        )
    return calibrator


def read_levels(given: list[float] | str | None) -> list[float] | None:
    """Return the outputs that --levels declares: numbers, or those of a saved calibrator."""
    if not isinstance(given, str):
        return given
    with about(given):
        calibrator = load_calibrator(given)
    if getattr(calibrator, "levels_", None) is None:
        raise InvalidArgumentError(
            f"--levels are the outputs of a model that has finitely many; the calibrator in "
            f"{given} is a {type(calibrator).__name__}, which has none. Use scaling-binning."
        )
    return [float(level) for level in calibrator.levels_]


def labels_to_fit(
    y_true: AnyArray, y_prob: AnyArray, args: argparse.Namespace
) -> tuple[AnyArray, Any]:
    """Return labels and the names of classes; --pos-label makes them no and yes."""
    if args.pos_label is None:
        return y_true, args.classes
    from calibrant.columns import absent_event
    from calibrant.problem import read_problem

    if y_prob.ndim == 2 and args.pos_label == (args.classes or (0, 1))[0]:
        raise InvalidArgumentError(
            f"Of two columns the second must be the event's; --pos-label {args.pos_label} is the "
            "first. Give --y-prob in the other order, or the event's column alone."
        )
    problem = read_problem("binary", 2, args.classes, args.pos_label)
    codes = problem.codes(y_true)
    if problem.pos_label is not None and not codes.any():
        raise absent_event(problem.pos_label, y_true)
    return codes, None


def arrays_to_certify(
    calibrator: Recalibrator, given: dict[str, Any], args: argparse.Namespace
) -> tuple[AnyArray, AnyArray, Any]:
    """Return predictions, labels and classes as the calibrator knows them.

    Its event must be --pos-label, its input --input, and its classes in the order --classes.
    """
    given = {name: value for name, value in given.items() if name != "bins"}
    given["input"] = input_of(calibrator, args.input)
    rows = rows_of(given)
    check_fitted_order(calibrator, rows.names)
    y_prob = rows.probs
    labels, classes = labels_to_fit(rows.labels, y_prob, args)
    own = calibrator.classes_
    fitted, told = ([str(x) for x in names] for names in (own.tolist(), args.classes or ()))
    if told != fitted and sorted(told) == sorted(fitted):
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {','.join(fitted)[:100]}, in this order; "
            f"got --classes {','.join(told)[:100]}. Leave the option out, or fit a calibrator with "
            "the same --classes."
        )
    if args.pos_label is None or own.size != 2 or own.tolist() == [0, 1]:
        return y_prob, labels, classes
    if own[1] != args.pos_label:
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {own[0]} and {own[1]}, and its event is "
            f"{own[1]}; got --pos-label {args.pos_label}. Leave the option out, or fit a "
            "calibrator with the same --pos-label."
        )
    return y_prob, own[labels], own.tolist()


def check_fitted_order(calibrator: Recalibrator, names: Sequence[str]) -> None:
    """Refuse the columns of a calibrator's fit in another order."""
    from calibrant.recalibrators.reading import fitted_names
    from calibrant.sources.column_names import check_same_order

    check_same_order(names, fitted_names(calibrator))


def input_of(calibrator: Recalibrator, given: str | None) -> Any:
    """Return what a calibrator reads; refuse an --input that says otherwise."""
    own = calibrator.input
    if given not in (None, own):
        raise InvalidArgumentError(
            f"The calibrator was fitted on {own}; got --input {given}. Leave the option out, or "
            "fit a calibrator with the same --input."
        )
    return own
