"""calibrant grades."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK, REFUTED
from calibrant.cli.input import predictions
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import NORMS, add_command, add_data_arguments, fraction, share
from calibrant.cli.verdicts import EXIT, Outcome, add_junit_argument, reported
from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    pass

EXAMPLES = """
calibrant grades book.csv --y-true default --y-prob grade --grades A=0.001 B=0.01 C=0.05
calibrant grades book.parquet --y-true default --y-prob pd --correlation 0.12
calibrant grades book.csv --y-true default --y-prob pd --bins 0,0.01,0.05,1 --grades 1 2 3 --json
calibrant grades book.csv --y-true default --y-prob pd --max-error 0.01 -o certificate.json
"""
NOTES = """
For every grade of a rating scale: rows and defaults, the PD and the observed rate with exact
limits, the binomial and the Jeffreys test of too many defaults, a traffic light, and the most
prudent PD of Pluto and Tasche. Limits and lights are for all grades at once unless --each.

--y-prob is the column of PDs, or of names of grades whose PDs --grades gives. Without --bins each
distinct PD is a grade. A table saved by `measure --table` or `merge` can be given instead.

Exit codes: with --max-error those of `certify`, for the whole scale: 0 certified, 1 refuted, 2
undecided. With --alarm also 1 where a light is of that colour or worse. Otherwise 0.
"""
LIGHTS = ("amber", "red")


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "grades", run, "backtest the PDs of rating grades", EXAMPLES, NOTES
    )
    add_data_arguments(command, bins_help="edges of a master scale, such as 0,0.01,0.05,1")
    command.add_argument(
        "--grades",
        metavar="NAME=PD",
        nargs="+",
        help="the PD of every grade; or names alone, from the lowest PD to the highest",
    )
    command.add_argument(
        "--each",
        action="store_true",
        help="limits and lights of each grade by itself, as most standards have them",
    )
    command.add_argument(
        "--correlation",
        metavar="RHO",
        type=share,
        default=0.0,
        help="asset correlation of binomial tests, lights and prudent PDs (default 0: independent)",
    )
    command.add_argument("--alarm", choices=LIGHTS, help="the light at which the exit code is 1")
    command.add_argument(
        "--max-error",
        metavar="ERROR",
        type=fraction,
        help="the largest calibration error of the whole scale that passes, such as 0.01",
    )
    command.add_argument(
        "--norm", choices=NORMS, default="l2", help="of that error: l1, l2 or max (default l2)"
    )
    command.add_argument(
        "-o", "--output", metavar="FILE", help="save the certificate of the whole scale"
    )
    add_junit_argument(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Backtest, print and return the verdict, if one was asked for, as exit code."""
    return reported(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> Outcome:
    from calibrant._writing import write_whole
    from calibrant.grades import grade_backtest

    if args.kind not in (None, "binary"):
        raise InvalidArgumentError(
            f"Grades are those of one event, a default; got --kind {args.kind}. Leave it out."
        )
    with predictions(args) as given:
        given.pop("kind", None)
        backtest = grade_backtest(
            **given,
            grades=_grades(args.grades),
            confidence_level=args.confidence_level,
            simultaneous=not args.each,
            correlation=args.correlation,
        )
    certificate = None
    if args.max_error is not None or args.output:
        certificate = backtest.certify(args.max_error, args.norm, args.confidence_level)
    if args.output and certificate is not None:
        write_whole(args.output, certificate.to_json())
    verdict = None if certificate is None else certificate.verdict
    lights = LIGHTS[LIGHTS.index(args.alarm) :] if args.alarm else ()
    alarm, text = not {*lights}.isdisjoint(backtest.light), str(backtest)
    if verdict is not None:
        text += f"\n{verdict}: an {args.norm} error of at most {args.max_error:g}"
    if alarm:
        text += f"\nalarm: a light is {args.alarm}{' or red' * (args.alarm == 'amber')}"
    if args.json:
        say_json(backtest.to_dict() | ({} if verdict is None else {"verdict": verdict}))
    else:
        say(text)
    code = EXIT[verdict] if verdict else OK
    return Outcome(REFUTED, "alarm", text) if alarm else Outcome(code, verdict, text)


def _grades(given: list[str] | None) -> dict[str, float] | list[str] | None:
    """Read names with their PDs, or names alone."""
    pairs = [text.rpartition("=") for text in given or ()]
    if given is None or not any(equals for _, equals, _ in pairs):
        return given
    try:
        scale = {name: float(pd) for name, equals, pd in pairs if equals}
    except ValueError:
        scale = {}
    if len(scale) < len(pairs):
        raise InvalidArgumentError(
            "--grades takes names with a PD each, all different, such as A=0.001 B=0.01, or names "
            f"alone; got {' '.join(given):.80}."
        )
    return scale
