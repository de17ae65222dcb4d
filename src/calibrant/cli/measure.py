"""calibrant measure."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.input import predictions
from calibrant.cli.output import aligned, complain, name_of, say, say_json
from calibrant.cli.parser import DATA, add_command, add_option, add_options, named, norm_value
from calibrant.cli.verdicts import Outcome, reported

if TYPE_CHECKING:
    from calibrant.stats import CalibrationErrorResult

EXAMPLES = """
calibrant measure preds.parquet --y-true label --y-prob score
calibrant measure preds.csv --y-true label --y-prob score --norm l1 --bins width:15 --json
calibrant measure 'part-*.parquet' --y-true label --y-prob 'prob_*' --kind marginal --table out.json
calibrant measure preds.parquet --y-true label --y-prob score --by sex age=0,40,65,120
calibrant measure quiz.eval --log inspect field=metadata.confidence
calibrant measure week.json --norm l1
zcat preds.csv.gz | calibrant measure - --y-true label --y-prob score
"""
NOTES = """
Files are read in chunks, several times where the bins depend on all rows; memory does not grow with
the number of rows. (Bins distinct and hybrid hold every distinct prediction.) Standard input
is kept in a temporary file. The interval of several classes (--kind marginal, l1 or l2)
reads the files once more; from a table alone it is wider.

With --by every group is measured separately, in one pass, and the worst is printed first; --table
then saves the tables of all groups. Each interval is for its group alone.

A table saved by --table or `merge` can be given instead of rows; several are added.

With --table and several files, a folder beside the table keeps a checkpoint of every finished file.
An interrupted run resumes there, even after kill -9; a file that has changed is counted again.
"""
WORST = 10
"""Classes that are listed: a screen has room for them, and --json has all."""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "measure", run, "measure a calibration error", EXAMPLES, NOTES)
    shared = ("--confidence-level", "--log", "--by", "--cluster", "--sample-weight")
    add_options(command, *DATA, *shared)
    norms = "l1 (ECE), l2, max (MCE) or a number (default l2)"
    add_option(command, "--norm", type=norm_value, choices=None, help=norms)
    command.add_argument("--plug-in", action="store_true", help="do not remove the bias")
    command.add_argument("--table", metavar="FILE", type=named, help="also save the table")
    add_options(command, "--junit", "--json")


@reported
def run(args: argparse.Namespace) -> Outcome:
    """Measure and print."""
    from calibrant._writing import write_whole
    from calibrant.measure import calibration_error
    from calibrant.stats import CalibrationErrorResult

    result: Any
    debias = False if args.plug_in else None
    with predictions(args, output=args.table) as inputs:
        result = calibration_error(**inputs, norm=args.norm, debias=debias)
        by_group = not isinstance(result, CalibrationErrorResult)
        if args.table:
            table = result.tables if by_group else result.table
            write_whole(args.table, table.to_json())
            if args.cluster not in (None, "none") or (not by_group and result.n_clusters):
                complain(
                    f"{args.table} does not tell which rows are of one cluster: what is made of "
                    "it takes all rows as independent"
                )
    level = args.confidence_level
    text = result.describe(level) if by_group else describe(result, level)
    if args.json:
        say_json(result.to_dict(confidence_level=level))
    else:
        say(text)
    return Outcome(OK, None, text)


def describe(result: CalibrationErrorResult, confidence_level: float) -> str:
    """Return the result as a small table for people."""
    from calibrant._results import filled

    facts = result.to_dict(confidence_level)
    low, high = facts["confidence_interval"]
    method = "bias removed" if result.is_debiased else "plug-in"
    rows = [
        (f"{result.norm} error", f"{result.value:.4f}", f"{facts['kind']}, {method}"),
        (f"{100 * confidence_level:g}% interval", f"{low:.4f}", f"to {high:.4f}"),
        ("perfect model", f"{result.noise_floor:.4f}", "what chance alone would score"),
        ("rows", f"{result.n:,}", f"in {facts['bins']}"),
        *([("clusters", f"{result.n_clusters:,}", "")] if result.n_clusters else []),
    ]
    notes = [f"{note[0].upper()}{note[1:]}." for note in facts["interval_notes"]]
    if not result.is_debiased and result.norm == "l2" and high <= result.value < 1:
        notes.append(
            "The interval ends at the plug-in estimate, which chance inflates; without --plug-in "
            "its bias is removed."
        )
    if not result.table.is_binned_model:
        notes.append(
            "The true error may be larger: bins mix different predictions, whose errors can cancel."
        )
    if result.unresolved_mass > 0:
        notes.append(
            f"{100 * result.unresolved_mass:.3g}% of the rows sit alone in their bin, where error "
            "and chance cannot be told apart."
        )
    parts = [aligned(rows), *map(filled, notes)]
    if result.per_class:
        worst = sorted(result.per_class.items(), key=lambda item: -item[1])[:WORST]
        what, n = result.table.problem.parts, len(result.per_class)
        parts += ["", what if n <= WORST else f"{WORST} worst of {n:,} {what}"]
        parts.append(aligned([(name_of(name), f"{value:.4f}") for name, value in worst]))
    return "\n".join(parts)
