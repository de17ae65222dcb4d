"""The command line: calibrant measure | certify | recheck | merge | plan | fit | apply.

Exit codes: 0 certified or done, 1 refuted (or a recheck that disagrees), 2 undecided,
3 bad input, 4 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from calibrant import stats
from calibrant._version import __version__
from calibrant.bins import (
    Bins,
    BinsLike,
    Distinct,
    EqualMass,
    EqualWidth,
    Hybrid,
    as_bin_rule,
)
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidInputError
from calibrant.files import Columns, expand, match_columns, read_chunks, write_whole
from calibrant.measure import tabulate
from calibrant.table import BinTable
from calibrant.verify import certify

EXIT = {"certified": 0, None: 0, "refuted": 1, "undecided": 2}
BAD_INPUT, USAGE = 3, 4
RULES: dict[str, type[EqualMass] | type[EqualWidth] | type[Hybrid]] = {
    "mass": EqualMass,
    "width": EqualWidth,
    "hybrid": Hybrid,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except CalibrantError as error:
        print(f"calibrant: {error}", file=sys.stderr)
    except OSError as error:
        print(f"calibrant: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
    return BAD_INPUT


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="calibrant", description="Verified probability calibration.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = _add(commands, "measure", _measure, "measure a calibration error",
                   "calibrant measure preds.parquet --y-true label --y-prob score\n"
                   "calibrant measure 'part-*.parquet' --y-true label --y-prob 'prob_*' "
                   "--kind marginal --bins width:15 --table out.json")  # fmt: skip
    _add_data(command)
    command.add_argument("--norm", default="l2", help="l1, l2, max or a number (default l2)")
    command.add_argument("--plug-in", action="store_true", help="do not remove the bias")
    command.add_argument("--table", metavar="FILE", help="also save the table of sums")

    command = _add(commands, "certify", _certify, "certify or refute a tolerance",
                   "calibrant certify preds.csv --y-true label --y-prob score "
                   "--max-error 0.02\nexit code: 0 certified, 1 refuted, 2 undecided")  # fmt: skip
    _add_data(command, bins=None)
    command.add_argument("--max-error", type=float, required=True, help="such as 0.02")
    command.add_argument("--norm", default="l2", help="l1, l2 or max (default l2)")
    command.add_argument("-o", "--output", metavar="FILE", help="save the certificate")

    command = _add(commands, "recheck", _recheck, "compute a certificate again from its table",
                   "calibrant recheck certificate.json")  # fmt: skip
    command.add_argument("file")

    command = _add(commands, "merge", _merge, "add tables of sums",
                   "calibrant merge day1.json day2.json -o week.json")  # fmt: skip
    command.add_argument("files", nargs="+")
    command.add_argument("-o", "--output", metavar="FILE", required=True)

    command = _add(commands, "plan", _plan, "how many rows a certificate needs",
                   "calibrant plan --max-error 0.02 --n-bins 20")  # fmt: skip
    command.add_argument("--max-error", type=float, required=True)
    command.add_argument("--n-bins", type=int, required=True, help="outputs of the model")
    command.add_argument("--true-error", type=float, default=0.0)
    command.add_argument("--power", type=float, default=0.9)
    command.add_argument("--confidence-level", type=float, default=0.95)
    return parser


def _add(commands: Any, name: str, run: Any, help_: str, examples: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=f"{help_[0].upper()}{help_[1:]}.",
        epilog=f"examples:\n  {examples.replace(chr(10), chr(10) + '  ')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def _add_data(command: argparse.ArgumentParser, bins: str | None = "auto") -> None:
    command.add_argument("files", nargs="+", help="CSV, Parquet, JSON lines, Arrow, .npz, or -")
    command.add_argument("--y-true", metavar="COLUMN", default="labels", help="(default labels)")
    command.add_argument("--y-prob", metavar="COLUMN", nargs="+", default=["probs"],
                         help="one column, several, or a pattern such as 'prob_*'")  # fmt: skip
    command.add_argument("--kind", choices=["binary", "top-label", "marginal"])
    command.add_argument("--bins", default=bins,
                         help="auto, 15, mass:15, width:15, hybrid:15 or distinct")  # fmt: skip
    command.add_argument("--classes", help="comma-separated labels in the order of the columns")
    command.add_argument("--pos-label", help="the label that means yes")
    command.add_argument("--confidence-level", type=float, default=0.95)
    command.add_argument("--json", action="store_true", help="print JSON")


def _measure(args: argparse.Namespace) -> int:
    table = _tabulate(args, _read_bins(args.bins))
    norm = args.norm if args.norm in ("l1", "l2", "max") else _number(args.norm)
    result = stats.calibration_error(table, norm=norm, debias=False if args.plug_in else None)
    if args.table:
        write_whole(args.table, table.to_json())
    if args.json:
        print(json.dumps(result.to_dict(args.confidence_level)))
    else:
        print(result)
    return 0


def _certify(args: argparse.Namespace) -> int:
    options = {
        "max_error": args.max_error,
        "norm": args.norm,
        "confidence_level": args.confidence_level,
    }
    if args.bins is not None:
        certificate = stats.certify(_tabulate(args, _read_bins(args.bins)), **options)
    else:
        y_true, y_prob = _whole(args)
        certificate = certify(y_true, y_prob, kind=args.kind, **_names(args, y_true), **options)
    if args.output:
        write_whole(args.output, certificate.to_json())
    print(certificate.to_json() if args.json else certificate)
    return EXIT[certificate.verdict]


def _recheck(args: argparse.Namespace) -> int:
    check = stats.Certificate.from_json(Path(args.file).read_bytes()).recheck()
    print(check)
    return 0 if check else 1


def _merge(args: argparse.Namespace) -> int:
    tables = [BinTable.from_json(Path(path).read_bytes()) for path in expand(args.files)]
    merged = sum(tables[1:], tables[0])
    write_whole(args.output, merged.to_json())
    print(f"{merged!r} written to {args.output}")
    return 0


def _plan(args: argparse.Namespace) -> int:
    rows = stats.samples_to_certify(
        args.max_error,
        args.n_bins,
        true_error=args.true_error,
        power=args.power,
        confidence_level=args.confidence_level,
    )
    print(
        f"{rows:,} rows certify an error of at most {args.max_error:g} with probability "
        f"{args.power:g}, if the model has {args.n_bins:,} outputs and its error is "
        f"{args.true_error:g}."
    )
    return 0


def _tabulate(args: argparse.Namespace, bins: BinsLike) -> BinTable:
    """Count all files: chunk by chunk where the bins are fixed, else in one piece."""
    rule = as_bin_rule(bins, 10**6)
    if not isinstance(rule, Bins):
        y_true, y_prob = _whole(args)
        return tabulate(y_true, y_prob, kind=args.kind, bins=bins, **_names(args, y_true))
    total: BinTable | None = None
    for where, y_true, y_prob in _chunks(args):
        try:
            part = tabulate(y_true, y_prob, kind=args.kind, bins=rule, **_names(args, y_true))
        except InvalidInputError as error:
            raise type(error)(f"{where}: {error}") from error
        total = part if total is None else total + part
    if total is None:
        raise InvalidInputError("The files have no rows.")
    return total


def _whole(args: argparse.Namespace) -> tuple[Any, Any]:
    parts = [(y_true, y_prob) for _, y_true, y_prob in _chunks(args)]
    if not parts:
        raise InvalidInputError("The files have no rows.")
    return np.concatenate([y for y, _ in parts]), np.concatenate([p for _, p in parts])


def _chunks(args: argparse.Namespace) -> Iterator[tuple[str, Any, Any]]:
    """Yield (where, labels, predictions); count rows on a terminal."""
    seen = 0
    for path in expand(args.files):
        start = 0
        for columns in read_chunks(path, [args.y_true, *args.y_prob]):
            y_true, y_prob = _columns(columns, args, path)
            stop = start + len(y_true)
            if stop > start:
                yield f"{path}, rows {start:,} to {stop - 1:,}", y_true, y_prob
            seen, start = seen + stop - start, stop
            if sys.stderr.isatty():
                print(f"\r{seen:,} rows", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _columns(columns: Columns, args: argparse.Namespace, path: str) -> tuple[Any, Any]:
    names = match_columns(list(columns), args.y_prob, path)
    names = [name for name in names if name != args.y_true]
    one = columns[names[0]]
    y_prob = one if len(names) == 1 else np.column_stack([columns[name] for name in names])
    return columns[args.y_true], y_prob


def _names(args: argparse.Namespace, y_true: Any) -> dict[str, Any]:
    """Return classes and pos_label, as numbers where the labels are numbers."""
    numeric = np.asarray(y_true).dtype.kind in "biuf"
    read = _number if numeric else str
    classes = args.classes and [read(name) for name in args.classes.split(",")]
    return {"classes": classes or None, "pos_label": args.pos_label and read(args.pos_label)}


def _read_bins(text: str) -> BinsLike:
    if text == "auto":
        return "auto"
    if text == "distinct":
        return Distinct()
    name, _, number = text.rpartition(":")
    if number.isdigit() and name in ("", *RULES):
        return RULES[name or "mass"](int(number))
    raise InvalidArgumentError(
        f"--bins must be auto, a number, mass:15, width:15, hybrid:15 or distinct; got {text!r}."
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(f"Expected a number; got {text!r}.") from None
