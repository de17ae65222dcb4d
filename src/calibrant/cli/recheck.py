"""calibrant recheck."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from calibrant.cli import OK, REFUTED
from calibrant.cli.parser import add_command
from calibrant.cli.terminal import say

EXAMPLES = "calibrant recheck certificate.json"
NOTES = "Exit codes: 0 the table proves what the certificate says, 1 it does not."


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "recheck", run, "compute a certificate again from its own table", EXAMPLES, NOTES
    )
    command.add_argument("file", metavar="FILE", help="what calibrant certify -o saved")


def run(args: argparse.Namespace) -> int:
    """Recompute and compare."""
    from calibrant.cli.messages import about
    from calibrant.stats import Certificate

    with about(args.file):
        check = Certificate.from_json(Path(args.file).read_bytes()).recheck()
    say(str(check))
    if check.certificate is not None:
        say(str(check.certificate))
    return OK if check else REFUTED
