"""calibrant report."""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from calibrant.cli import OK
from calibrant.cli.apply import read_levels
from calibrant.cli.input import predictions
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import DATA, OPTIONS, add_command, add_option, add_options
from calibrant.cli.verdicts import EXIT, Outcome, reported

EXAMPLES = """
calibrant report preds.parquet --y-true label --y-prob score -o report.html
calibrant report preds.csv --y-true label --y-prob score --max-error 0.02 -o report.html
calibrant report preds.parquet --y-true label --y-prob 'prob_*' --kind marginal -o report.html
calibrant report 'samples_*.jsonl' --log lm-eval normalize=characters -o report.html
"""
NOTES = """
One HTML file that needs no network and no script, with the verdict first. All rows are held in
memory. With --max-error the exit code is that of certify: 0 certified, 1 refuted, 2 undecided.

A table saved by `measure --table` or `merge` can be given instead of rows; the page says what it
leaves out for want of them.
"""
DEFAULTS = {"y_true": "labels", "y_prob": ["probs"], "confidence_level": 0.95}
SHOWN = (
    *("y_true", "y_prob", "kind", "input", "bins", "classes", "pos_label", "format"),
    *("log", "by", "confidence_level", "max_error", "levels", "before", "title", "output"),
)


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "report", run, "write an HTML report", EXAMPLES, NOTES)
    add_options(
        command,
        *(*DATA, "--confidence-level", "--log", "--by", "--max-error", "--levels"),
        max_error="the largest error that passes, such as 0.02; without it there is no verdict",
        levels=f"{OPTIONS['--levels']['help']}; sharper bounds",
    )
    command.add_argument(
        "--before",
        metavar="COLUMN",
        nargs="+",
        help="predictions of the same rows before a repair; the page shows both",
    )
    command.add_argument("--title", metavar="TEXT", help="the heading of the page")
    about = "the page (default report.html)"
    add_option(command, "--output", default="report.html", help=about)
    add_options(command, "--junit", "--json", json="print the main numbers as JSON")


@reported
def run(args: argparse.Namespace) -> Outcome:
    """Write the page, print the verdict and return it as exit code."""
    from calibrant.reports import report

    options = {
        "max_error": args.max_error,
        "confidence_level": args.confidence_level,
        "levels": read_levels(args.levels),
        "before": args.before,
        "title": args.title,
        "command": command_line(args),
    }
    with predictions(args) as inputs:
        document = report(**inputs, **options)
    document.save(args.output)
    verdict = document.findings.certificate.verdict
    if args.json:
        say_json({**document.findings.to_dict(), "summary": document.summary.splitlines()})
    else:
        say(f"{document}\nwritten to {args.output}")
    return Outcome(OK if verdict is None else EXIT[verdict], verdict, document.summary)


def command_line(args: argparse.Namespace) -> str:
    """Return a command that makes the same report; options at their default are left out."""
    words = ["calibrant", "report", *args.files]
    for name in SHOWN:
        value = getattr(args, name)
        if value is None or value == DEFAULTS.get(name):
            continue
        words.append(f"--{name.replace('_', '-')}")
        values = value if isinstance(value, list) else [value]
        if name == "by":
            values = [c if cuts is None else f"{c}={','.join(map(str, cuts))}" for c, cuts in value]
        words += [",".join(map(str, values))] if name in ("classes", "levels") else map(str, values)
    return shlex.join(words)
