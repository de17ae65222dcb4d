"""The parser, how a command is registered, what options may say, and those that commands share.

A module with commands has ``add(commands)``, which calls `add_command` and adds arguments.
Whatever is heavy is imported by the function that runs, so that help is instant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from calibrant._version import __version__
from calibrant.cli import USAGE
from calibrant.exceptions import CalibrantError

if TYPE_CHECKING:
    from calibrant.bins import BinsLike

MODULES = (
    *("measure", "certify", "validation", "recheck", "plan", "fit", "apply", "compare", "watch"),
    *("merge", "report", "demo", "reproduce", "reference"),
)
"""Of this package, in the order of the help."""

NORMS = ("l1", "l2", "max")
ABOUT_ROWS = {
    "y_true": "labels",
    "y_prob": ["probs"],
    **dict.fromkeys(("kind", "input", "bins", "classes", "pos_label", "format")),
    **dict.fromkeys(("sample_weight", "calibrator", "versus", "by", "cluster", "key", "y_true_b")),
    "log": None,
}
"""Options that say how rows are read, and their defaults."""
MOST_DIGITS = 15
"""Of a whole number: a float holds it exactly, and no count is larger."""


class Parser(argparse.ArgumentParser):
    """A parser that leaves with the exit code for usage, and says where the help is."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments and leave."""
        from calibrant.cli.output import message_of

        if "required: FILE" in message or "required: CALIBRATOR" in message:
            message += ". Files come before --y-prob, which takes all names that follow it"
        self.exit(USAGE, f"{self.prog}: {message_of(message)}\nSee {self.prog} --help.\n")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write help to standard output and errors to standard error, whatever they can encode."""
        from calibrant.cli.output import emit, tell

        tell(message) if file is sys.stderr else emit(message.removesuffix("\n"))


class Version(argparse.Action):
    """Print the version and the engine; the engine is detected only when this is asked for."""

    def __call__(self, *_: Any) -> NoReturn:
        """Print one line and leave."""
        from calibrant._compiled import engine_in_words
        from calibrant.cli.output import emit

        emit(f"calibrant {__version__}, {engine_in_words()}")
        raise SystemExit(0)


Help = partial(argparse.RawDescriptionHelpFormatter, max_help_position=30)
"""Descriptions and examples as they were written, and room for names."""


def new_parser() -> Parser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="calibrant",
        description="Verified probability calibration: measure it, repair it, certify it.",
        epilog="exit codes: 0 certified or done, 1 refuted or alarm, 2 undecided, 3 bad input, "
        "4 usage\n"
        "help on a command: calibrant COMMAND --help",
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action=Version, nargs=0, help="show the version and the engine, and exit"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name in MODULES:
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


def bins_text(text: str) -> str:
    """Check what stands after --bins, as Python's ``bins=`` is checked."""
    from calibrant._bins_argument import as_bin_rule
    from calibrant.cli.output import in_options

    try:
        as_bin_rule(read_bins(text), 1)
    except CalibrantError as error:
        raise argparse.ArgumentTypeError(in_options(str(error))) from None
    return text


def read_bins(text: str) -> BinsLike:
    """Return what stands after --bins as Python's ``bins=``: the text itself, or edges."""
    return numbers(text) if "," in text else text


def numbers(text: str) -> list[float]:
    """Read numbers between commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected numbers between commas, such as 0.1,0.2,0.5; got {text!r}"
        ) from None


def group_column(text: str) -> tuple[str, list[float] | None]:
    """Read a column of groups and its cuts: age=0,40,65,120."""
    name, equals, cuts = text.rpartition("=")
    if equals and "," in cuts:
        return name, numbers(cuts)
    return text, None


def levels(text: str) -> list[float] | str:
    """Read numbers between commas, or the name of the file of a calibrator."""
    try:
        return numbers(text)
    except argparse.ArgumentTypeError:
        return named(text)


def norm_value(text: str) -> str | float:
    """Read what stands after --norm: l1, l2, max or a number of at least 1."""
    if text in NORMS:
        return text
    with suppress(ValueError):
        if float(text) >= 1:
            return float(text)
    raise argparse.ArgumentTypeError(
        f"expected l1, l2, max or a number of at least 1; got {text!r}"
    )


def fraction(text: str) -> float:
    """Read a number strictly between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 < value < 1:
        return value
    raise argparse.ArgumentTypeError(f"expected a number between 0 and 1; got {text!r}")


def share(text: str) -> float:
    """Read a number from 0 on, and below 1."""
    return 0.0 if text in ("0", "0.0") else fraction(text)


def bin_mass(text: str) -> float | str:
    """Read the least probability of an output: a number, or learned."""
    return text if text == "learned" else fraction(text)


def whole_number(text: str, least: int = 1) -> int:
    """Read a whole number of at least 1."""
    is_whole = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    if is_whole and int(text) >= least:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"expected a whole number of at least {least}, at most {MOST_DIGITS} digits; got {text!r}"
    )


def named(text: str) -> str:
    """Refuse an empty name, which a script's unset variable leaves: the option would be ignored."""
    if not text:
        raise argparse.ArgumentTypeError("expected a name; got ''")
    return text


def unicode_text(text: str) -> str:
    """Check that files can hold what was typed; bytes that are not UTF-8 arrive as surrogates."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise argparse.ArgumentTypeError(f"expected text of Unicode characters; got {text!r}")
    return text


def label(text: str) -> str | int | float:
    """Return a label as a number where it is one."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:  # not a number, or one of more digits than Python reads
            continue
    return text


def labels(text: str) -> list[str | int | float]:
    """Read comma-separated labels: numbers if all of them are, else text."""
    texts = text.split(",")
    values = [label(part) for part in texts]
    return [*texts] if any(isinstance(value, str) for value in values) else values


OPTIONS: dict[str, dict[str, Any]] = {
    "files": {
        "nargs": "+",
        "metavar": "FILE",
        "help": "CSV, TSV, Parquet, JSON lines, Arrow or .npz files, patterns such as "
        "'part-*.parquet' in quotes, or - for standard input",
    },
    "--y-true": {
        "metavar": "COLUMN",
        "default": "labels",
        "help": "the column of labels (default labels)",
    },
    "--y-prob": {
        "metavar": "COLUMN",
        "nargs": "+",
        "default": ["probs"],
        "help": "the column of predictions, several, or a pattern such as 'prob_*' (default probs)",
    },
    "--kind": {
        "choices": ("binary", "top-label", "marginal", "multi-label", "ordinal", "quantile"),
        "help": "binary for one column or two, of which the second is the event's; for more "
        "top-label (the default) or marginal; multi-label for --y-true 'y_*' beside 'p_*'; ordinal "
        "for classes in ascending order; quantile for quantiles at the levels --classes",
    },
    "--input": {
        "choices": ("probabilities", "logits"),
        "help": "what the columns of predictions hold (default probabilities; with a calibrator "
        "what it was fitted on)",
    },
    "--bins": {
        "metavar": "RULE",
        "type": bins_text,
        "help": "auto, 15, mass:15, width:15, hybrid:15, distinct, or edges such as 0,0.2,1 "
        "(default auto)",
    },
    "--classes": {
        "metavar": "A,B,...",
        "type": labels,
        "help": "labels in the order of the columns; for one column NO,YES",
    },
    "--pos-label": {"metavar": "LABEL", "type": label, "help": "the label that means yes"},
    "--format": {
        "choices": ("csv", "tsv", "jsonl", "parquet", "arrow", "npz"),
        "help": "the format, where the name of a file does not tell it; of standard input csv "
        "unless told",
    },
    "--confidence-level": {
        "metavar": "LEVEL",
        "type": fraction,
        "default": 0.95,
        "help": "confidence level of each interval and bound (default 0.95)",
    },
    "--log": {
        "metavar": "FORMAT",
        "nargs": "+",
        "help": "the files are a language model's log: lm-eval, inspect or jsonl, then options "
        "such as confidence=stated scale=100 (see `calibrant.read_log`)",
    },
    "--by": {
        "metavar": "COLUMN",
        "nargs": "+",
        "type": group_column,
        "help": "columns that define groups; numeric ones are cut with age=0,40,65,120",
    },
    "--cluster": {
        "metavar": "COLUMN",
        "type": named,
        "help": "the patient, prompt or day of each row, if rows of one depend on each other; of a "
        "log its questions unless none",
    },
    "--sample-weight": {"metavar": "COLUMN", "type": named, "help": "the column of row weights"},
    "--max-error": {"metavar": "ERROR", "type": fraction},
    "--norm": {
        "choices": NORMS,
        "default": "l2",
        "help": "l1 (ECE), l2 or max (MCE) (default l2)",
    },
    "--levels": {
        "metavar": "P,P,...",
        "type": levels,
        "help": "all outputs that the model can give, known before the rows: numbers, or a "
        "calibrator's file",
    },
    "--looks": {"metavar": "K", "type": whole_number, "default": 1},
    "--calibrator": {"metavar": "FILE", "type": named},
    "--output": {"metavar": "FILE", "type": named},
    "--junit": {
        "metavar": "FILE",
        "type": named,
        "help": "write the outcome as JUnit XML, for a CI system",
    },
    "--json": {"action": "store_true", "help": "print JSON"},
}
"""Options of several commands."""
DATA = (
    *("files", "--y-true", "--y-prob", "--kind", "--input", "--bins", "--classes", "--pos-label"),
    "--format",
)
"""Options that `calibrant.cli.input.predictions` reads."""


def add_options(command: argparse._ActionsContainer, *names: str, **helps: str) -> None:
    """Add options that commands share, some of them with a help of this command's own."""
    for name in names:
        help_text = helps.get(name.strip("-").replace("-", "_"))
        add_option(command, name, **({} if help_text is None else {"help": help_text}))


def add_option(command: argparse._ActionsContainer, name: str, **changes: Any) -> None:
    """Add an option that commands share, with what is this command's own."""
    flags = ("-o", name) if name == "--output" else (name,)
    command.add_argument(*flags, **OPTIONS[name] | changes)
