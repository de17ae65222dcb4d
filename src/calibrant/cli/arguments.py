"""Arguments that several commands have: files, columns, what they mean, bins, groups."""

from __future__ import annotations

import argparse

from calibrant.cli.parser import KINDS, bins_text, fraction, group_column, label, labels

LEVELS_HELP = (
    "all outputs that the model can give, known before the rows: numbers, or a calibrator's file"
)
FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npz")
FILES_HELP = (
    "CSV, TSV, Parquet, JSON lines, Arrow or .npz files, patterns such as 'part-*.parquet' in "
    "quotes, or - for standard input"
)
BINS_HELP = (
    "auto, 15, mass:15, width:15, hybrid:15, distinct, or edges such as 0,0.2,1 (default auto)"
)
INPUTS = ("probabilities", "logits")


def add_data_arguments(
    command: argparse.ArgumentParser,
    bins_help: str = BINS_HELP,
    level: bool = True,
    least: str = "+",
) -> None:
    """Add what `predictions` reads: files, columns, what they mean, and bins; and a level."""
    command.add_argument("files", nargs=least, metavar="FILE", help=FILES_HELP)
    add_column_arguments(command)
    command.add_argument(
        "--kind",
        choices=KINDS,
        help="binary for one column or two, of which the second is the event's; for more "
        "top-label (the default) or marginal; multi-label for --y-true 'y_*' beside 'p_*'; ordinal "
        "for classes in ascending order; quantile for quantiles at the levels --classes",
    )
    add_input_argument(command)
    command.add_argument("--bins", metavar="RULE", type=bins_text, help=bins_help)
    command.add_argument(
        "--classes",
        metavar="A,B,...",
        type=labels,
        help="labels in the order of the columns; for one column NO,YES",
    )
    command.add_argument(
        "--pos-label", metavar="LABEL", type=label, help="the label that means yes"
    )
    add_format_argument(command)
    if level:
        command.add_argument(
            "--confidence-level",
            metavar="LEVEL",
            type=fraction,
            default=0.95,
            help="confidence level of each interval and bound (default 0.95)",
        )


def add_group_argument(command: argparse.ArgumentParser, required: bool = False) -> None:
    """Add --by."""
    command.add_argument(
        "--by",
        metavar="COLUMN",
        nargs="+",
        type=group_column,
        required=required,
        help="columns that define groups; numeric ones are cut with age=0,40,65,120",
    )


def add_cluster_argument(command: argparse.ArgumentParser) -> None:
    """Add --cluster."""
    command.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="the patient, prompt or day of each row, if rows of one depend on each other; of a "
        "log its questions unless none",
    )


def add_input_argument(command: argparse.ArgumentParser) -> None:
    """Add --input."""
    command.add_argument(
        "--input",
        choices=INPUTS,
        help="what the columns of predictions hold (default probabilities; with a calibrator what "
        "it was fitted on)",
    )


def add_column_arguments(command: argparse.ArgumentParser) -> None:
    """Add --y-true and --y-prob."""
    command.add_argument(
        "--y-true", metavar="COLUMN", default="labels", help="the column of labels (default labels)"
    )
    command.add_argument(
        "--y-prob",
        metavar="COLUMN",
        nargs="+",
        default=["probs"],
        help="the column of predictions, several, or a pattern such as 'prob_*' (default probs)",
    )


def add_format_argument(command: argparse.ArgumentParser) -> None:
    """Add --format."""
    command.add_argument(
        "--format",
        choices=FORMATS,
        help="the format, where the name of a file "
        "does not tell it; of standard input csv unless told",
    )
