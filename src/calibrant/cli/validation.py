"""calibrant validate, of predicted risks, and calibrant grades, of a rating scale's PDs."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli import OK, REFUTED
from calibrant.cli.input import predictions
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import DATA, add_command, add_options, share
from calibrant.cli.verdicts import EXIT, Outcome, reported
from calibrant.exceptions import InvalidArgumentError

EXAMPLES = """
calibrant validate preds.csv --y-true died --y-prob risk
calibrant validate preds.parquet --y-true died --y-prob risk --by hospital --json
calibrant validate preds.parquet --y-true died --y-prob risk --cluster patient
calibrant validate preds.csv --y-true died --y-prob risk --latex > table.tex
"""
NOTES = """
One table of what reports of risk models ask for, each line with its interval: observed over
expected events, calibration in the large, intercept and slope, ICI, E50, E90 and Emax, the
C statistic, Brier and scaled Brier score, log loss, smooth ECE and the debiased l2 error. Few
events, or events that a threshold separates, have Firth's correction; a note says so.

All rows are held in memory. --bins are those of the l2 error.
"""
GRADES_EXAMPLES = """
calibrant grades book.csv --y-true default --y-prob grade --grades A=0.001 B=0.01 C=0.05
calibrant grades book.parquet --y-true default --y-prob pd --correlation 0.12
calibrant grades book.csv --y-true default --y-prob pd --bins 0,0.01,0.05,1 --grades 1 2 3 --json
calibrant grades book.csv --y-true default --y-prob pd --max-error 0.01 -o certificate.json
"""
GRADES_NOTES = """
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
    """Register both commands."""
    about = "validate predicted risks: calibration, discrimination and scores, with intervals"
    command = add_command(commands, "validate", validate, about, EXAMPLES, NOTES)
    shared = ("--confidence-level", "--log", "--by", "--cluster", "--sample-weight")
    add_options(command, *DATA, *shared)
    form = command.add_mutually_exclusive_group()
    add_options(form, "--json")
    form.add_argument("--latex", action="store_true", help="print a LaTeX table")

    about = "backtest the PDs of rating grades"
    command = add_command(commands, "grades", grades, about, GRADES_EXAMPLES, GRADES_NOTES)
    bins = "edges of a master scale, such as 0,0.01,0.05,1"
    add_options(command, *DATA, "--confidence-level", bins=bins)
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
    add_options(
        command,
        *("--max-error", "--norm", "--output", "--junit", "--json"),
        max_error="the largest calibration error of the whole scale that passes, such as 0.01",
        norm="of that error: l1, l2 or max (default l2)",
        output="save the certificate of the whole scale",
    )


def validate(args: argparse.Namespace) -> int:
    """Validate and print."""
    from calibrant.validation import validate

    with predictions(args) as inputs:
        result: Any = validate(**inputs, confidence_level=args.confidence_level)
    if args.json:
        say_json(result.to_dict())
    else:
        say(result.to_latex() if args.latex else str(result))
    return OK


@reported
def grades(args: argparse.Namespace) -> Outcome:
    """Backtest, print and return the verdict, if one was asked for, as exit code."""
    from calibrant._writing import write_whole
    from calibrant.grades import grade_backtest

    if args.kind not in (None, "binary"):
        raise InvalidArgumentError(
            f"Grades are those of one event, a default; got --kind {args.kind}. Leave it out."
        )
    with predictions(args) as inputs:
        inputs.pop("kind", None)
        backtest = grade_backtest(
            **inputs,
            grades=_grades(args.grades),
            confidence_level=args.confidence_level,
            simultaneous=not args.each,
            correlation=args.correlation,
        )
    verdict, text = None, str(backtest)
    if args.max_error is not None or args.output:
        certificate = backtest.certify(args.max_error, args.norm, args.confidence_level)
        verdict = certificate.verdict
        if args.output:
            write_whole(args.output, certificate.to_json())
    if verdict is not None:
        text += f"\n{verdict}: an {args.norm} error of at most {args.max_error:g}"
    lights = LIGHTS[LIGHTS.index(args.alarm) :] if args.alarm else ()
    alarm = not {*lights}.isdisjoint(backtest.light)
    if alarm:
        text += f"\nalarm: a light is {args.alarm}{' or red' * (args.alarm == 'amber')}"
    if args.json:
        say_json(backtest.to_dict() | ({} if verdict is None else {"verdict": verdict}))
    else:
        say(text)
    if alarm:
        return Outcome(REFUTED, "alarm", text)
    return Outcome(EXIT[verdict] if verdict else OK, verdict, text)


def _grades(texts: list[str] | None) -> dict[str, float] | list[str] | None:
    """Read names with their PDs, or names alone."""
    pairs = [text.rpartition("=") for text in texts or ()]
    if texts is None or not any(equals for _, equals, _ in pairs):
        return texts
    try:
        scale = {name: float(pd) for name, equals, pd in pairs if equals}
    except ValueError:
        scale = {}
    if len(scale) < len(pairs):
        raise InvalidArgumentError(
            "--grades takes names with a PD each, all different, such as A=0.001 B=0.01, or names "
            f"alone; got {' '.join(texts):.80}."
        )
    return scale
