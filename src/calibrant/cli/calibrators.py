"""Saved calibrators that commands apply, and rows as their fit read them."""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from calibrant.cli.input import rows_of
from calibrant.cli.output import about
from calibrant.exceptions import CalibrantError, InvalidArgumentError

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


def read_scaler(given: str) -> Any:
    """Return a scaler by its name, or one of the user's: ``FILE.py:CLASS``, ``package:CLASS``."""
    from calibrant.cli.fit import METHODS

    place, colon, name = given.rpartition(":")
    if not colon:
        if given not in METHODS:
            raise InvalidArgumentError(
                f"--scaler must be the name of a method or FILE.py:CLASS; got {given!r:.60}. "
                "Methods that scale one score are platt, beta, quadratic, spline and isotonic."
            )
        return new_recalibrator(METHODS[given])
    with running(given):
        defined = _names_of(place)
        if name not in defined:
            classes = [x for x, value in defined.items() if isinstance(value, type)]
            raise InvalidArgumentError(
                f"--scaler must name a class that {place} defines; got {name!r:.60}. Its classes "
                f"are {', '.join(classes)[:200] or 'none'}."
            )
        own = defined[name]()
    missing = [what for what in ("fit", "predict_proba") if not callable(getattr(own, what, None))]
    if missing:
        raise InvalidArgumentError(
            f"A scaler needs fit(X, y) and predict_proba(X); {name} of {place} has no "
            f"{' and no '.join(missing)}. Add what is missing."
        )
    return own


@contextmanager
def running(scaler: str | None) -> Iterator[None]:
    """Say of what a scaler of the user's raises where it did: no bug of calibrant's, nor an end.

    Its code may raise anything, even SystemExit, which would otherwise end the command as done.
    """
    try:
        yield
    except (CalibrantError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        place, colon, _ = (scaler or "").rpartition(":")
        if not colon:
            raise
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == place]
        where = f" in line {lines[-1]}" if lines else ""
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidArgumentError(
            f"--scaler {scaler} must be a class that is made without arguments, fits and predicts; "
            f"it raised {reason:.200}{where}. Mend it, or try it in Python first."
        ) from error


def _names_of(place: str) -> dict[str, Any]:
    """Run a file of Python's, or import a module by its name; return what it defines."""
    if not place.endswith(".py"):
        return vars(importlib.import_module(place))
    folder = os.path.dirname(os.path.abspath(place))
    sys.path.insert(0, folder)  # as Python does, so that the file may import its neighbours
    try:
        return runpy.run_path(place, run_name="calibrant_scaler")
    finally:
        sys.path.remove(folder)


def new_recalibrator(name: str, **options: Any) -> Recalibrator:
    """Return a recalibrator that is not fitted yet, by the name of its class."""
    from calibrant import recalibrators

    method: Recalibrator = getattr(recalibrators, name)(**options)
    return method


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
    from calibrant.sources.column_order import check_same_order

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
