"""What commands read from logs of language-model evaluations: --log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from calibrant.cli.output import complain
from calibrant.cli.parser import ABOUT_ROWS, read_bins
from calibrant.exceptions import CalibrantError, InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.sources.logs import EvaluationLog

OPTIONS = (
    *("confidence", "field", "correct", "answer", "task", "question", "normalize", "true_choice"),
    *("pattern", "scale", "words", "abstain", "unparsed", "filter", "epoch"),
)
"""What may follow the format, as in `calibrant.read_log`."""
LOG_HELP = (
    "the files are a language model's log: lm-eval, inspect or jsonl, then options such as "
    "confidence=stated scale=100 (see `calibrant.read_log`)"
)
OF_ROWS = ("kind", "input", "classes", "pos_label", "sample_weight", "format", "key", "versus")
SHOWS_TASKS = ("report", "audit")
"""Commands that show every task by itself unless told otherwise."""


def add_log_argument(command: argparse.ArgumentParser) -> None:
    """Add --log."""
    command.add_argument("--log", metavar="FORMAT", nargs="+", help=LOG_HELP)


def log_columns(args: argparse.Namespace) -> dict[str, Any]:
    """Return the columns of a log as keywords of the library, whose clusters are its questions."""
    log = read_command_log(args, args.files)
    given: dict[str, Any] = {"y_true": "correct", "y_prob": "confidence", "data": log}
    if getattr(args, "bins", None) is not None:
        given["bins"] = read_bins(args.bins)
    by, cluster = getattr(args, "by", None), getattr(args, "cluster", None)
    if by is None and cluster is None and args.command in SHOWS_TASKS and len(log.tasks) > 1:
        by = [("task", None)]
    if cluster == "none" or args.command == "fit":  # which proves nothing
        given["data"], cluster = dict(log), None
    elif log.is_repeated and cluster is None and _takes_independent_rows(args, by):
        how = " by groups" if by else " --calibrator" if hasattr(args, "cluster") else ""
        raise InvalidArgumentError(
            "Questions were asked several times, and answers to one depend on each other; "
            f"{args.command}{how} takes independent rows. Read one epoch (epoch=1), "
            "or let the epochs vote (confidence=votes)."
        )
    given |= {} if by is None else {"by": dict(by)}
    return given | ({} if cluster is None else {"cluster": cluster})


def _takes_independent_rows(args: argparse.Namespace, by: Any) -> bool:
    by_group = by is not None and args.command != "validate"
    return by_group or not hasattr(args, "cluster") or bool(getattr(args, "calibrator", None))


def read_command_log(args: argparse.Namespace, files: list[str]) -> EvaluationLog:
    """Read the log that --log describes, and say what it holds."""
    from calibrant.sources.logs import read_log

    if "-" in files:
        raise InvalidArgumentError(
            "A log is read from its files, whose names tell tasks apart; got standard input. Save "
            "it to a file."
        )
    format_, *pairs = args.log
    for name in ("y_true", "y_prob", "y_true_b", *OF_ROWS):
        if getattr(args, name, None) not in (None, ABOUT_ROWS.get(name)):
            raise InvalidArgumentError(
                f"--{name.replace('_', '-')} is for files of rows; a log says itself which answers "
                "were right and how sure the model was. Leave it out, or leave --log out."
            )
    try:
        log = read_log(files, format_, **_options(pairs))
    except CalibrantError as error:
        raise type(error)(str(error).replace("unparsed='abstain'", "unparsed=abstain")) from error
    complain(log.in_short())
    for note in log.notes:
        complain(note)
    return log


def _options(pairs: list[str]) -> dict[str, Any]:
    """Read name=value as the keywords of `calibrant.read_log`."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in OPTIONS:
            raise InvalidArgumentError(
                f"After the format, --log takes NAME=VALUE; got {pair!r:.60}. "
                f"There are {', '.join(OPTIONS)}."
            )
        if name in options:
            raise InvalidArgumentError(f"--log has {name}= twice; give it once.")
        options[name] = _value(name, value)
    return options


def _value(name: str, text: str) -> Any:
    """Return a number, phrases with their probabilities, or the text as it is."""
    try:
        if name == "words":
            phrases = [phrase.rpartition(":") for phrase in text.split(",")]
            return {phrase: float(value) for phrase, _, value in phrases}
        return {"scale": float, "epoch": int}.get(name, str)(text)
    except ValueError:
        example = "'very likely:0.9,likely:0.7'" if name == "words" else "a number"
        raise InvalidArgumentError(f"{name}= takes {example}; got {text!r:.60}.") from None
