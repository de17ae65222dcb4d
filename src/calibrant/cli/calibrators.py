"""Labels as calibrators take them: those they are fitted on, and those they are certified on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.cli.data import Arrays
    from calibrant.recalibrators import Recalibrator


def labels_to_fit(rows: Arrays, args: argparse.Namespace) -> tuple[Any, Any]:
    """Return labels and the names of classes; --pos-label makes them no and yes."""
    if args.pos_label is None:
        return rows.y_true, args.classes
    from calibrant.problem import absent_event, read_problem

    if rows.y_prob.ndim == 2:
        _check_event_is_last(args)
    problem = read_problem("binary", 2, args.classes, args.pos_label)
    codes = problem.codes(rows.y_true)
    if problem.pos_label is not None and not codes.any():
        raise absent_event(problem.pos_label, rows.y_true)
    return codes, None


def labels_to_certify(
    calibrator: Recalibrator, rows: Arrays, args: argparse.Namespace
) -> tuple[Any, Any]:
    """Return labels and classes as the calibrator knows them; its event must be --pos-label."""
    labels, classes = labels_to_fit(rows, args)
    own = calibrator.classes_
    if args.pos_label is None or own.size != 2 or own.tolist() == [0, 1]:
        return labels, classes
    if own[1] != args.pos_label:
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {own[0]} and {own[1]}, and its event is "
            f"{own[1]}; got --pos-label {args.pos_label}. Leave the option out, or fit a "
            "calibrator with the same --pos-label."
        )
    return own[labels], own.tolist()


def _check_event_is_last(args: argparse.Namespace) -> None:
    """Refuse two columns whose first is the event's: calibrators take the second."""
    names = args.classes or (0, 1)
    if args.pos_label == names[0]:
        raise InvalidArgumentError(
            f"Of two columns the second must be the event's; --pos-label {args.pos_label} is the "
            "first. Give --y-prob in the other order, or the event's column alone."
        )
