"""calibrant measure."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.input import add_data_arguments, opened, saved_table
from calibrant.cli.junit import add_junit_argument, reported
from calibrant.cli.output import aligned, complain, name_of, say, say_json
from calibrant.cli.parser import add_command, norm_value, read_bins

if TYPE_CHECKING:
    from calibrant.cli.resume import Checkpoints
    from calibrant.stats import CalibrationErrorResult
    from calibrant.stats.results import RowSource
    from calibrant.table import BinTable

EXAMPLES = """
calibrant measure preds.parquet --y-true label --y-prob score
calibrant measure preds.csv --y-true label --y-prob score --norm l1 --bins width:15 --json
calibrant measure 'part-*.parquet' --y-true label --y-prob 'prob_*' --kind marginal --table out.json
calibrant measure week.json --norm l1
zcat preds.csv.gz | calibrant measure - --y-true label --y-prob score
"""
NOTES = """
Files are read in chunks, several times where the bins depend on all rows; memory does not grow with
the number of rows. (Bins distinct and hybrid hold every distinct prediction.) Standard input
is kept in a temporary file meanwhile. The interval of several classes (--kind marginal, l1 or l2)
reads the files once more; from a table alone it is wider.

A table that --table or `merge` saved stands in place of rows; several are added.

With --table and several files, each finished file is written down in a folder beside the table.
A run that was stopped, even by kill -9, continues there; a file that has changed is counted anew.
"""
WORST = 10
SETTINGS = ("y_true", "y_prob", "sample_weight", "bins", "format")


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "measure", run, "measure a calibration error", EXAMPLES, NOTES)
    add_data_arguments(command)
    command.add_argument("--sample-weight", metavar="COLUMN", help="the column of row weights")
    command.add_argument(
        "--norm",
        type=norm_value,
        default="l2",
        help="l1 (ECE), l2, max (MCE) or a number (default l2)",
    )
    command.add_argument("--plug-in", action="store_true", help="do not remove the bias")
    command.add_argument("--table", metavar="FILE", help="also save the table of sums")
    add_junit_argument(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    return reported(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> tuple[int, str | None, str]:
    from calibrant.files import write_whole

    table, checkpoints = saved_table(args, default_bins="auto"), None
    result = _measured(args, table) if table is not None else None
    if result is None:
        result, checkpoints = _counted(args)
    if args.table:
        write_whole(args.table, result.table.to_json())
    if checkpoints is not None:
        checkpoints.close()
    text = describe(result, args.confidence_level)
    if args.json:
        say_json(result.to_dict(args.confidence_level))
    else:
        say(text)
    return OK, None, text


def _measured(
    args: argparse.Namespace, table: BinTable, source: RowSource | None = None
) -> CalibrationErrorResult:
    from calibrant import stats

    debias = False if args.plug_in else None
    return stats.calibration_error(table, norm=args.norm, debias=debias, source=source)


def _counted(args: argparse.Namespace) -> tuple[CalibrationErrorResult, Checkpoints | None]:
    """Measure the rows of the files, and return the checkpoints that were kept."""
    from calibrant.cli.counting import CountedRows, tabulate
    from calibrant.cli.resume import checkpoints_for

    with opened(args) as data:
        checkpoints = checkpoints_for(args.table, data, _settings(args))
        try:
            table = tabulate(data, read_bins(args.bins), checkpoints)
            result = _measured(args, table, CountedRows(data, table.problem))
            result.settle()  # standard input is gone afterwards
            return result, checkpoints
        except KeyboardInterrupt:
            if checkpoints is not None and checkpoints.folder.is_dir():
                complain(f"what is finished is in {checkpoints.folder}; run again to continue")
            raise


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options on which the table depends."""
    return {name: getattr(args, name) for name in SETTINGS}


def describe(result: CalibrationErrorResult, confidence_level: float) -> str:
    """Return the result as a small table for people."""
    facts = result.to_dict(confidence_level)
    low, high = facts["confidence_interval"]
    method = "bias removed" if result.is_debiased else "plug-in"
    rows = [
        (f"{result.norm} error", f"{result.value:.4f}", f"{facts['kind']}, {method}"),
        (f"{100 * confidence_level:g}% interval", f"{low:.4f}", f"to {high:.4f}"),
        ("perfect model", f"{result.noise_floor:.4f}", "what chance alone would score"),
        ("rows", f"{result.n:,}", f"in {facts['bins']}"),
    ]
    notes = [f"{note[0].upper()}{note[1:]}." for note in facts["interval_notes"]]
    parts = [aligned(rows), *notes, *_caveats(result, high)]
    if result.per_class:
        parts += ["", _classes(result.per_class)]
    return "\n".join(parts)


def _caveats(result: CalibrationErrorResult, high: float) -> list[str]:
    said = []
    if not result.is_debiased and result.norm == "l2" and high <= result.value < 1:
        said.append(
            "The interval ends at the plug-in estimate, which chance inflates; without --plug-in "
            "its bias is removed."
        )
    if not result.table.is_binned_model:
        said.append(
            "The true error may be larger: bins mix different predictions, whose errors can cancel."
        )
    if result.unresolved_mass > 0:
        said.append(
            f"{result.unresolved_mass:.2g} of the rows sit alone in their bin, where error "
            "and chance cannot be told apart."
        )
    return said


def _classes(per_class: dict[Any, float]) -> str:
    """List the errors of the worst classes."""
    worst = sorted(per_class.items(), key=lambda item: -item[1])[:WORST]
    count = f"{WORST} worst of {len(per_class):,} classes" if len(per_class) > WORST else "classes"
    names = [name_of(name) for name, _ in worst]
    return f"{count}\n" + aligned(
        [(name, f"{value:.4f}") for name, (_, value) in zip(names, worst, strict=True)]
    )
