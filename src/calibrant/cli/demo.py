"""calibrant demo."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.parser import add_command
from calibrant.cli.terminal import aligned, say

if TYPE_CHECKING:
    from calibrant.cli.story import Outcome, Scene

EXAMPLES = """
calibrant demo
calibrant demo -o /tmp/report.html
"""
NOTES = """
Two data sets of scikit-learn, so nothing is downloaded. A third of the rows trains a classifier, a
third repairs its confidence, a third checks the result. The report is that of the random forest
on the digits after scaling-binning.
"""
HEAD = ("repair", "says", "is right", "error", "95% interval", "error at most 0.15?")


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "demo", run, "show the whole story on data that is at hand", EXAMPLES, NOTES
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="report.html",
        help="the report (default report.html)",
    )


def run(args: argparse.Namespace) -> int:
    """Tell the story, and write the report of its hero."""
    from calibrant.cli.story import outcomes, scenes

    hero = None
    for scene in scenes():
        told = list(outcomes(scene))
        say(f"{heading(scene)}\n{table(told)}\n")
        if scene.model == "random forest":
            hero = told[-1]
    say("undecided: too few rows, or continuous outputs, which can be refuted but never certified")
    say("intervals are two-sided and approximate; verdicts rest on exact bounds")
    if hero is not None:
        _write_report(hero, args.output)
        say(f"Report: {os.path.abspath(args.output)}")
    return OK


def heading(scene: Scene) -> str:
    """Say whose confidence is looked at, on which rows."""
    train, repair, check = scene.split
    return (
        f"{scene.model} on {scene.data}: {train} rows train it, {repair} repair it, {check} check"
    )


def table(told: list[Outcome]) -> str:
    """Return one line for each repair."""
    return aligned([HEAD, *map(_row, told)])


def _row(outcome: Outcome) -> tuple[str, ...]:
    interval = outcome.error.confidence_interval()
    return (
        outcome.repair or "as it is",
        f"{outcome.confidence.mean():.1%}",
        f"{outcome.right.mean():.1%}",
        f"{outcome.error.value:.3f}",
        f"{interval.low:.3f} to {interval.high:.3f}",
        _verdict(outcome),
    )


def _verdict(outcome: Outcome) -> str:
    certificate = outcome.certificate
    if certificate.verdict == "certified":
        return f"certified (<= {certificate.upper_bound:.3f})"
    if certificate.verdict == "refuted":
        return f"refuted (>= {certificate.lower_bound:.3f})"
    return "undecided"


def _write_report(hero: Outcome, path: str) -> None:
    from calibrant.cli.story import TOLERANCE
    from calibrant.reports import report

    report(
        hero.right,
        hero.confidence,
        max_error=TOLERANCE,
        title=f"{hero.scene.model} on {hero.scene.data}, after {hero.repair}",
        command="calibrant demo",
    ).save(path)
