"""The parser, and how a command is registered.

A command is a module of this package with ``add(commands)``, which calls `add_command` and adds
arguments. Whatever is heavy is imported by the function that runs, so that help is instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

from calibrant._version import __version__
from calibrant.cli import USAGE

COMMANDS = (
    "measure",
    "certify",
    "recheck",
    "plan",
    "fit",
    "apply",
    "compare",
    "merge",
    "report",
    "demo",
    "reproduce",
    "completion",
)
"""Modules of this package, in the order of the help."""


class Parser(argparse.ArgumentParser):
    """A parser that leaves with the exit code for usage, and says where the help is."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments and leave."""
        from calibrant.cli.terminal import message_of

        if "required: FILE" in message or "required: CALIBRATOR" in message:
            message += ". Files come before --y-prob, which takes all names that follow it"
        self.exit(USAGE, f"{self.prog}: {message_of(message)}\nSee {self.prog} --help.\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help to standard output and errors to standard error, whatever they can encode."""
        from calibrant.cli.terminal import emit, tell

        tell(message) if file is sys.stderr else emit(message.removesuffix("\n"))


class Help(argparse.RawDescriptionHelpFormatter):
    """Help with descriptions and examples as they were written, and room for names."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def new_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="calibrant",
        description="Verified probability calibration: measure it, repair it, certify it.",
        epilog="exit codes: 0 certified or done, 1 refuted, 2 undecided, 3 bad input, 4 usage\n"
        "help on a command: calibrant COMMAND --help",
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"calibrant {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name in COMMANDS:
        import_module(f"calibrant.cli.{name}").add(commands)
    return parser


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,  # noqa: A002
    examples: str,
    notes: str = "",
) -> argparse.ArgumentParser:
    """Register a command and return its parser, to which arguments are added.

    Parameters
    ----------
    run : callable
        Takes the parsed arguments and returns the exit code.
    help : str
        One line, in the imperative, without a full stop.
    examples : str
        Command lines, one on each line.
    notes : str
        What else a user must know, shown below the description.
    """
    sentence = f"{help[0].upper()}{help[1:]}."
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=f"{sentence}\n\n{notes.strip()}" if notes else sentence,
        epilog="examples:\n" + "\n".join(f"  {line}" for line in examples.strip().splitlines()),
        formatter_class=Help,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command
