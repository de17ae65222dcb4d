"""calibrant fit."""

from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.apply import labels_to_fit
from calibrant.cli.input import columns_of, log_columns, open_files, rows_of
from calibrant.cli.output import say
from calibrant.cli.parser import DATA, add_command, add_option, add_options, fraction, read_bins
from calibrant.exceptions import CalibrantError, InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.recalibrators import Recalibrator

METHODS = {
    "scaling-binning": "ScalingBinning",
    "histogram-binning": "HistogramBinning",
    "platt": "PlattScaling",
    "beta": "BetaScaling",
    "quadratic": "QuadraticScaling",
    "spline": "SplineCalibration",
    "temperature": "TemperatureScaling",
    "vector": "VectorScaling",
    "matrix": "MatrixScaling",
    "dirichlet": "DirichletScaling",
    "joint-beta": "JointBetaScaling",
    "isotonic": "IsotonicCalibration",
    "venn-abers": "VennAbers",
    "prior-shift": "PriorShift",
    "identity": "Identity",
}
BINNED = ("scaling-binning", "histogram-binning")
ALL_CLASSES_AT_ONCE = ("temperature", "vector", "matrix", "dirichlet", "joint-beta", "identity")
EXAMPLES = """
calibrant fit preds.csv --y-true label --y-prob score --method scaling-binning --bins 20 -o cal.json
calibrant fit preds.csv --y-true label --y-prob score --scaler own.py:LevellingOff -o cal.json
calibrant fit preds.parquet --y-true label --y-prob 'prob_*' --kind marginal -o cal.json
calibrant fit book.csv --y-prob pd --method prior-shift --target-mean 0.02 --no-labels -o shift.json
calibrant certify fresh.csv --y-true label --y-prob score --calibrator cal.json --max-error 0.02
"""
NOTES = """
Only scaling-binning and histogram-binning have finitely many outputs, so only what they answer can
be certified. Of two columns the second is the event's. For more, --kind says what is repaired:
top-label (the default) the confidence in the predicted class, marginal every class on its own,
multi-label every label of rows that may have several (--y-true 'y_*' --y-prob 'p_*');
temperature, vector, matrix, dirichlet, joint-beta and identity work on all classes at once. All
rows are held in memory.

--scaler names the curve that scaling-binning bins: platt, beta, quadratic, spline, isotonic, or a
class of your own with fit(X, y) and predict_proba(X), such as own.py:LevellingOff. The file is run;
saved are the steps of its answers, numbers and no code, which every command reads.

prior-shift adds one number to all log-odds: --offset, or the one that gives these rows the mean
--target-mean, for which --no-labels does; without either the mean is the event rate.

With --by every group has its own repair as far as its rows support one, otherwise that of all rows.
calibrant apply reads the same columns; unknown groups are repaired like all rows.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "fit", run, "fit a recalibrator", EXAMPLES, NOTES)
    bins = "of the binned methods: auto, 20, mass:20, hybrid:20, width:20 or edges (auto)"
    add_options(command, *DATA, "--log", "--sample-weight", "--by", bins=bins)
    command.add_argument(
        "--method",
        choices=[*METHODS],
        default="scaling-binning",
        help="how (default scaling-binning)",
    )
    command.add_argument(
        "--scaler",
        metavar="NAME",
        help="scaling-binning: what is binned, a method or FILE.py:CLASS of your own (platt)",
    )
    anchor = command.add_mutually_exclusive_group()
    anchor.add_argument(
        "--target-mean",
        metavar="MEAN",
        type=fraction,
        help="prior-shift: the mean of the repaired predictions",
    )
    anchor.add_argument(
        "--offset", metavar="X", type=float, help="prior-shift: the number added to the log-odds"
    )
    command.add_argument(
        "--no-labels",
        action="store_true",
        help="prior-shift with --target-mean or --offset: read no labels",
    )
    add_option(command, "--output", required=True, help="the recalibrator, a JSON file")


def run(args: argparse.Namespace) -> int:
    """Fit, save and say what to do next."""
    from calibrant.cli.resume import Progress
    from calibrant.recalibrators import MultiLabel
    from calibrant.recalibrators.reading import keep_names

    if args.kind in ("ordinal", "quantile"):
        raise InvalidArgumentError(
            "fit repairs the probability of one event, of classes of which a row has one, or of "
            f"labels; got --kind {args.kind}. Fit each threshold as an event of its own; quantiles "
            "are repaired by QuantileRecalibration in Python."
        )
    method = new_method(args.method, args.bins)
    _anchor(method, args)
    if args.scaler is not None:
        if args.method != "scaling-binning":
            raise InvalidArgumentError(f"--scaler is for scaling-binning, not for {args.method}.")
        method.set_params(scaler=read_scaler(args.scaler))
    if args.input == "logits":
        method = _of_logits(method, args.method)
    if args.no_labels:
        return _fit_without_labels(method, args)
    with open_files([] if args.log else args.files, args.format) as files:
        inputs = log_columns(args) if args.log else columns_of(args, files, Progress())
        inputs.pop("bins", None)
        rows = rows_of(inputs)
    y_prob, groups = rows.probs, rows.groups
    labels, classes = labels_to_fit(rows.labels, y_prob, args)
    if args.kind == "multi-label":
        method = MultiLabel(method)
    elif y_prob.ndim == 2 and (y_prob.shape[1] > 2 or args.kind not in (None, "binary")):
        method = for_classes(method, args)
    options: dict[str, Any] = {"sample_weight": rows.weights, "classes": classes}
    if groups is not None:
        from calibrant.recalibrators import ByGroup

        method, options["by"] = ByGroup(method), groups
    with running(args.scaler):
        fitted = method.fit(y_prob, labels, **options)
        keep_names(fitted, rows.names)
        if args.scaler is not None:  # of one's own, which documents do not hold
            fitted = fitted.as_steps()
    fitted.save(args.output)
    say(_summary(fitted, args.method, len(labels)))
    say(f"written to {args.output}")
    return OK


def _anchor(method: Recalibrator, args: argparse.Namespace) -> None:
    """Give a prior shift its target; refuse one for another method, and labels that are missing."""
    target = {"target_mean": args.target_mean, "offset": args.offset}
    options = [name for name, value in target.items() if value is not None]
    if args.method == "prior-shift":
        method.set_params(**target)
    elif options or args.no_labels:
        name = options[0].replace("_", "-") if options else "no-labels"
        raise InvalidArgumentError(f"--{name} is for prior-shift, not for {args.method}.")
    if args.no_labels and not options:
        raise InvalidArgumentError(
            "Without labels a prior shift needs its target; got --no-labels alone. Add "
            "--target-mean or --offset."
        )


def _fit_without_labels(method: Recalibrator, args: argparse.Namespace) -> int:
    """Fit on predictions alone, and save."""
    from calibrant.recalibrators.reading import keep_names
    from calibrant.sources.files.reading import read_predictions

    refused = {"by": args.by, "log": args.log, "sample-weight": args.sample_weight}
    refused |= {"classes": args.classes, "pos-label": args.pos_label}
    for name, value in refused.items():
        if value is not None:
            raise InvalidArgumentError(
                f"--no-labels reads columns of predictions and nothing else; got --{name}. Leave "
                "one of them out."
            )
    with open_files(args.files, args.format) as files:
        y_prob, names = read_predictions(files, args.y_prob)
    if y_prob.ndim == 2 and y_prob.shape[1] > 2:
        raise InvalidArgumentError(
            f"--no-labels shifts one event; got {y_prob.shape[1]:,} columns of predictions. Name "
            "the event's."
        )
    fitted = method.fit(y_prob, None)
    keep_names(fitted, names)
    fitted.save(args.output)
    say(f"{args.method} of {len(y_prob):,} rows: {_shift_in_words(fitted)}")
    say(f"written to {args.output}")
    return OK


def _shift_in_words(fitted: Recalibrator) -> str:
    """Return a sentence on what is added to log-odds."""
    return f"log-odds {fitted.offset_:+.4g}, odds times {fitted.odds_ratio_:.4g}"


def read_scaler(text: str) -> Any:
    """Return a scaler by its name, or one of the user's: ``FILE.py:CLASS``, ``package:CLASS``."""
    place, colon, name = text.rpartition(":")
    if not colon:
        if text not in METHODS:
            raise InvalidArgumentError(
                f"--scaler must be the name of a method or FILE.py:CLASS; got {text!r:.60}. "
                "Methods that scale one score are platt, beta, quadratic, spline and isotonic."
            )
        return new_method(text)
    with running(text):
        defined = _names_of(place)
        if name not in defined:
            classes = [x for x, value in defined.items() if isinstance(value, type)]
            raise InvalidArgumentError(
                f"--scaler must name a class that {place} defines; got {name!r:.60}. Its classes "
                f"are {', '.join(classes)[:200] or 'none'}."
            )
        scaler = defined[name]()
    missing = [x for x in ("fit", "predict_proba") if not callable(getattr(scaler, x, None))]
    if missing:
        raise InvalidArgumentError(
            f"A scaler needs fit(X, y) and predict_proba(X); {name} of {place} has no "
            f"{' and no '.join(missing)}. Add what is missing."
        )
    return scaler


@contextmanager
def running(scaler: str | None) -> Iterator[None]:
    """Report exceptions of a user's scaler as its own, and never let them end the command.

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
        with suppress(ValueError):  # where the file has taken it out itself
            sys.path.remove(folder)


def new_method(name: str, bins: str | None = None) -> Recalibrator:
    """Return a recalibrator that is not fitted yet."""
    from calibrant import recalibrators

    options: dict[str, Any] = {}
    if bins is not None:
        if name not in BINNED:
            raise InvalidArgumentError(f"--bins is for {' and '.join(BINNED)}, not for {name}.")
        options["bins"] = read_bins(bins)
    method: Recalibrator = getattr(recalibrators, METHODS[name])(**options)
    return method


def _of_logits(method: Recalibrator, name: str) -> Recalibrator:
    """Return a method that reads logits."""
    from calibrant.recalibrators.base import Recalibrator

    scaler: Any = method
    if name == "scaling-binning":
        scaler = method.get_params(deep=False)["scaler"] or new_method("platt")
        name = f"scaling-binning --scaler {type(scaler).__name__}"
        method.set_params(scaler=scaler)
    if isinstance(scaler, Recalibrator) and "input" in scaler.get_params(deep=False):
        scaler.set_params(input="logits")
    else:
        raise InvalidArgumentError(
            f"--method {name} reads probabilities; got --input logits. Use another method, such as "
            "temperature, or apply a sigmoid or softmax first."
        )
    return method


def for_classes(method: Recalibrator, args: argparse.Namespace) -> Recalibrator:
    """Return what applies a method to several classes."""
    from calibrant.recalibrators import OneVsRest, TopLabel

    if args.method in ALL_CLASSES_AT_ONCE:
        if args.kind is not None:
            raise InvalidArgumentError(
                f"--method {args.method} works on all classes at once; leave --kind out."
            )
        return method
    if args.input == "logits":
        raise InvalidArgumentError(
            f"--method {args.method} repairs several classes by the probability of each; got "
            "--input logits. Use temperature, vector or matrix, or apply a softmax first."
        )
    return OneVsRest(method) if args.kind == "marginal" else TopLabel(method)


def _summary(fitted: Recalibrator, name: str, n: int) -> str:
    """Summarise what was learned, and warn that these rows prove nothing."""
    from calibrant.recalibrators import ByGroup

    report = fitted.fit_result_
    lines = [f"{name} fitted on {n:,} rows"]
    levels = getattr(fitted, "effective_n_bins_", None)
    if levels is not None:
        lines[0] += f": {levels:,} different outputs"
    if hasattr(fitted, "offset_"):
        lines[0] += f": {_shift_in_words(fitted)}"
    how = "certify on others, with --calibrator"
    if isinstance(fitted, ByGroup):
        how = "apply it to others, and audit them by group"
        names = " and ".join(column.name for column in fitted.by_)
        groups = f"  {len(fitted.groups_):,} group{'s' * (len(fitted.groups_) > 1)} by {names}"
        part = "shift of the log-odds" if fitted.own_ == "shift" else "repair"
        if fitted.own_ == "nothing":
            groups += ", all repaired alike: they do not differ by more than chance"
        else:
            groups += f", each with a {part} of its own; the rows of all count as {fitted.pool_:g}"
        lines.append(groups)
    lines += [f"  note: {flag}" for flag in report.flags]
    if not report.converged:
        lines.append("  note: the fit did not converge")
    lines.append(f"These rows shaped it and prove nothing: {how}.")
    return "\n".join(lines)
