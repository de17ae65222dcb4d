"""calibrant recheck."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK, REFUTED
from calibrant.cli.apply import arrays_to_certify, load_calibrator
from calibrant.cli.input import columns_of, open_files, read_document
from calibrant.cli.output import about, say
from calibrant.cli.parser import OPTIONS, add_command, add_options, named
from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.stats import Certificate, Recheck

EXAMPLES = """
calibrant recheck certificate.json
calibrant recheck certificate.json --data preds.parquet --y-true label --y-prob score
calibrant recheck certificate.json --data raw.csv --y-prob score --calibrator cal.json
"""
NOTES = """
Exit codes: 0 the table proves what the certificate says, 1 it does not.

A table cannot tell which rows were counted. With --data the rows are counted again in the
certificate's bins, and their digest, which does not depend on their order, must be the one that it
carries: 0 then means that it was made from these very rows.

Of what `certify --by` saved, the certificate of every group is verified against its table.
"""
ABOUT_DATA = {"y_true": "labels", "y_prob": ["probs"]} | dict.fromkeys(
    ("input", "classes", "pos_label", "calibrator", "format", "cluster")
)


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands,
        "recheck",
        run,
        "verify a certificate against its table or its rows",
        EXAMPLES,
        NOTES,
    )
    command.add_argument("file", metavar="FILE", type=named, help="saved by calibrant certify -o")
    rows = f"the rows: {OPTIONS['files']['help']}"
    command.add_argument("--data", metavar="FILE", nargs="+", help=rows)
    add_options(
        command,
        *("--y-true", "--y-prob", "--input", "--classes", "--pos-label", "--cluster", "--format"),
        "--calibrator",
        classes="labels in the order of the columns (default: those that the certificate names)",
        pos_label="the label that means yes (default: the one that the certificate names)",
        calibrator="the recalibrator that was applied to the rows",
    )


def run(args: argparse.Namespace) -> int:
    """Recompute and compare."""
    from calibrant.stats import Certificate

    unused = [name for name, value in ABOUT_DATA.items() if getattr(args, name) != value]
    if args.data is None and unused:
        raise InvalidArgumentError(
            f"--{unused[0].replace('_', '-')} says how rows are read: name their file with --data."
        )
    check = None
    with about(args.file):
        content = read_document(args.file)
        if groups := _groups_of(content):
            return _recheck_groups(groups, args)
        certificate = Certificate.from_json(content)
        if args.data is None:
            check = certificate.recheck()
    if check is None:
        check = _with_rows(certificate, args)
    say(str(check))
    if check.certificate is not None:
        say(str(check.certificate))
    return OK if check else REFUTED


def _groups_of(content: bytes) -> list[dict[str, Any]]:
    """Return the groups of a document of `calibrant certify --by`, none of any other."""
    from calibrant._documents import read_json

    document = read_json(content, "A certificate")
    groups = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, list):
        return []
    ours = all(
        isinstance(x, dict) and "format" in x and type(x.get("group")) is list for x in groups
    )
    return groups if ours else []


def _recheck_groups(groups: list[dict[str, Any]], args: argparse.Namespace) -> int:
    """Recompute the certificate of every group from its table."""
    from calibrant.groups import shown_key
    from calibrant.stats import Certificate

    if args.data is not None:
        raise InvalidArgumentError(
            f"--data counts the rows of one certificate again, and there are those of "
            f"{len(groups):,} groups. Leave the option out, or certify one group's rows."
        )
    code = OK
    for group in groups:
        document = {name: value for name, value in group.items() if name != "group"}
        check = Certificate.from_json(json.dumps(document)).recheck()
        say(f"{shown_key(tuple(group['group']))}: {check}")
        code = code if check else REFUTED
    return code


def _with_rows(certificate: Certificate, args: argparse.Namespace) -> Recheck:
    """Count the rows again, by default as the certificate's problem."""
    from calibrant.cli.resume import Progress
    from calibrant.verify import recheck

    with open_files(args.data, args.format) as files:
        inputs = columns_of(args, files, Progress())
        if not args.calibrator:
            return recheck(certificate, **inputs)
        calibrator = load_calibrator(args.calibrator)
        y_prob, y_true, classes = arrays_to_certify(calibrator, inputs, args)
        return calibrator.recheck(certificate, y_prob, y_true, classes)
