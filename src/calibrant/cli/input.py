"""What commands read: files of rows, tables counted before, evaluation logs, standard input.

Bins that depend on all rows need several passes, and Parquet is read from its end: standard input
and pipes, which cannot be read twice, are copied to a temporary file that is removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from calibrant.cli.output import about, complain
from calibrant.cli.parser import ABOUT_ROWS, read_bins
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidInputError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.groups import Groups
    from calibrant.sources.files.reading import Hooks
    from calibrant.sources.files.streams import File
    from calibrant.sources.logs import EvaluationLog
    from calibrant.table import BinTable
    from calibrant.tables import Tables

DOCUMENT = re.compile(rb'"format"\s*:\s*"calibrant\.(\w+)"')
"""What a document says first, and no row of predictions; the name of a file tells nothing, for
.json may be JSON lines."""
TABLES = ("table", "tables")
LOG_OPTIONS = (
    *("confidence", "field", "correct", "answer", "task", "question", "normalize", "true_choice"),
    *("pattern", "scale", "words", "abstain", "unparsed", "filter", "epoch"),
)
"""What may follow the format, as in `calibrant.read_log`."""
OF_ROWS = ("kind", "input", "classes", "pos_label", "sample_weight", "format", "key", "versus")
SHOWS_TASKS = ("report", "audit")
"""Commands that show every task by itself by default."""


@contextmanager
def predictions(args: argparse.Namespace, output: str | None = None) -> Iterator[dict[str, Any]]:
    """Return what the arguments name, as keywords of the library.

    They are columns of files and what those mean, or a saved table in place of `y_true`. Beside
    `output`, the file that the run writes, checkpoints are kept until the context ends.
    """
    from calibrant.cli.resume import hooks_for

    table = saved_table(args)
    if table is not None:
        yield {"y_true": table}
        return
    if getattr(args, "log", None):
        yield log_columns(args)
        return
    settings = {name: getattr(args, name, default) for name, default in ABOUT_ROWS.items()}
    with open_files(args.files, args.format) as files, hooks_for(output, files, settings) as hooks:
        yield columns_of(args, files, hooks)


def columns_of(args: argparse.Namespace, files: list[File], hooks: Hooks) -> dict[str, Any]:
    """Return columns of files and what they mean, as keywords of the library."""
    from calibrant.sources.files import Files

    inputs = {"y_true": args.y_true, "y_prob": args.y_prob, "data": Files(files, hooks)}
    for name in ("kind", "input", "classes", "pos_label", "sample_weight", "by", "cluster", "bins"):
        if getattr(args, name, None) is not None:
            inputs[name] = getattr(args, name)
    if "by" in inputs:
        inputs["by"] = dict(inputs["by"])
    if "bins" in inputs:
        inputs["bins"] = read_bins(inputs["bins"])
    return inputs


@contextmanager
def open_files(patterns: Sequence[str], format_: str | None) -> Iterator[list[File]]:
    """Return the files that names and patterns stand for."""
    from calibrant.sources.files.streams import STANDARD_INPUT, File, expand, format_of

    with ExitStack() as stack:
        files = []
        for path in expand(patterns):
            if path == STANDARD_INPUT:
                if sys.stdin is None:
                    raise InvalidInputError(
                        "Standard input is closed. Pipe rows in, or name a file."
                    )
                copy = stack.enter_context(_copied(sys.stdin.buffer))
                files.append(File(copy, format_ or "csv", "standard input"))
            elif not os.path.isfile(path):
                copy = stack.enter_context(_copied(stack.enter_context(open(path, "rb"))))
                # a nameless pipe such as /dev/fd/63 holds CSV
                suffix_format = format_of(path) if os.path.splitext(path)[1] else "csv"
                files.append(File(copy, format_ or suffix_format, path))
            elif kind := document_kind(path):
                raise InvalidInputError(
                    f"Rows of predictions are needed, and {path} is a saved "
                    f"{kind.removesuffix('s')}. Name the file of the rows."
                )
            else:
                files.append(File(path, format_ or format_of(path), path))
        yield files


@contextmanager
def one_file(name: str, format_: str | None) -> Iterator[File]:
    """Return the one file that a name stands for."""
    with open_files([name], format_) as files:
        if len(files) > 1:
            raise InvalidArgumentError(f"{name!r} stands for {len(files)} files; name one.")
        yield files[0]


@contextmanager
def _copied(stream: IO[bytes]) -> Iterator[str]:
    """Copy a stream to a temporary file, and return its name."""
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        path = os.path.join(folder, "copy")
        with open(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        yield path


def saved_table(args: argparse.Namespace) -> BinTable | Tables | None:
    """Return the sum of the tables that the files hold, or None if they hold rows.

    A table has its bins, its problem and its labels: options about them are refused.
    """
    from calibrant.sources.files.streams import expand

    paths = expand(args.files)
    tables = [path for path in paths if document_kind(path) in TABLES]
    if not tables:
        return None
    if len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise InvalidInputError(
            f"{tables[0]} is a table of sums and {other} is not. Name tables, or files of rows."
        )
    for name, default in ABOUT_ROWS.items():
        if getattr(args, name, default) != default:
            raise InvalidArgumentError(
                f"--{name.replace('_', '-')} says how rows are read, and {tables[0]} is a table of "
                "sums: it has its own bins, classes and labels. Leave the option out."
            )
    check_reads_no_output(args.files, tables, getattr(args, "table", None))
    return sum_of(tables)


def document_kind(path: str) -> str | None:
    """Return which calibrant document a file is, by its content: a table, a certificate.

    Files that cannot be read twice, such as pipes, are none.
    """
    from calibrant._documents import MOST_BYTES

    if not os.path.isfile(path):
        return None
    with open(path, "rb") as stream:
        if not stream.read(200).removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
            return None
        stream.seek(0)
        document = stream.readline(MOST_BYTES)
        if document.removeprefix(BOM_UTF8).strip() in (b"", b"{"):  # laid out over many lines
            document += stream.read(MOST_BYTES)
    match = DOCUMENT.search(document)
    return None if match is None else match[1].decode()


def read_document(path: str) -> bytes:
    """Return what a saved document holds; a device such as /dev/zero would never end."""
    from calibrant._documents import MOST_BYTES

    with open(path, "rb") as stream:
        return stream.read(MOST_BYTES + 1)  # one more, to be refused


def check_reads_no_output(patterns: Sequence[str], paths: list[str], output: str | None) -> None:
    """Refuse a pattern that stands for the sum itself: run twice, it would add all rows again.

    A user who names the sum among the tables means to add to it.
    """
    if output is None or not os.path.exists(output):
        return
    named, read = (
        any(os.path.exists(path) and os.path.samefile(path, output) for path in files)
        for files in (patterns, paths)
    )
    if read and not named:
        raise InvalidInputError(
            f"Every table counts once, and {output}, where the sum goes, is one of those that the "
            "pattern stands for. Write the sum under a name that the pattern does not match."
        )


def sum_of(paths: list[str]) -> BinTable | Tables:
    """Add saved tables, or tables of groups; errors name the file."""
    from calibrant.tables import read_any_table

    total: Any = 0
    for path in paths:
        with about(path):
            table = read_any_table(read_document(path))
            if total != 0 and type(table) is not type(total):
                raise InvalidInputError(
                    "this and the tables before must all be tables of groups, or none of them."
                )
            total = total + table
    return total  # type: ignore[no-any-return]


class GivenRows(NamedTuple):
    """Labels, predictions and what stands beside them, as files or a log hold them."""

    labels: AnyArray
    probs: AnyArray
    weights: AnyArray | None = None
    groups: Groups | None = None
    names: tuple[str, ...] = ()
    """Of the columns of predictions."""


def rows_of(inputs: dict[str, Any]) -> GivenRows:
    """Read the rows that keywords of the library name."""
    from calibrant.sources.files import Files, read_files
    from calibrant.sources.groups import columns_named, read_groups

    data = inputs["data"]
    if isinstance(data, Files):
        source = read_files(**inputs)
        return GivenRows(*source.arrays_and_groups(), source.names[1:])
    labels, groups = data[inputs["y_true"]], None
    if inputs.get("by") is not None:
        columns = columns_named(inputs["by"])
        groups = read_groups({x.name: data[x.name] for x in columns}, len(labels), columns)
    return GivenRows(labels, data[inputs["y_prob"]], None, groups)


def log_columns(args: argparse.Namespace) -> dict[str, Any]:
    """Return the columns of a log as keywords of the library, whose clusters are its questions."""
    log = read_command_log(args, args.files)
    inputs: dict[str, Any] = {"y_true": "correct", "y_prob": "confidence", "data": log}
    if getattr(args, "bins", None) is not None:
        inputs["bins"] = read_bins(args.bins)
    by, cluster = getattr(args, "by", None), getattr(args, "cluster", None)
    if by is None and cluster is None and args.command in SHOWS_TASKS and len(log.tasks) > 1:
        by = [("task", None)]
    by_group = by is not None and args.command != "validate"
    independent = (
        by_group or not hasattr(args, "cluster") or bool(getattr(args, "calibrator", None))
    )
    if cluster == "none" or args.command == "fit":  # which proves nothing
        inputs["data"], cluster = dict(log), None
    elif log.is_repeated and cluster is None and independent:
        how = " by groups" if by else " --calibrator" if hasattr(args, "cluster") else ""
        raise InvalidArgumentError(
            "Questions were asked several times, and answers to one depend on each other; "
            f"{args.command}{how} takes independent rows. Read one epoch (epoch=1), "
            "or let the epochs vote (confidence=votes)."
        )
    inputs |= {} if by is None else {"by": dict(by)}
    return inputs | ({} if cluster is None else {"cluster": cluster})


def read_command_log(args: argparse.Namespace, files: list[str]) -> EvaluationLog:
    """Read the log that --log describes, and report what it holds."""
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
        log = read_log(files, format_, **_log_options(pairs))
    except CalibrantError as error:
        raise type(error)(str(error).replace("unparsed='abstain'", "unparsed=abstain")) from error
    complain(log.in_short())
    for note in log.notes:
        complain(note)
    return log


def _log_options(pairs: list[str]) -> dict[str, Any]:
    """Read name=value as the keywords of `calibrant.read_log`."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in LOG_OPTIONS:
            raise InvalidArgumentError(
                f"After the format, --log takes NAME=VALUE; got {pair!r:.60}. "
                f"There are {', '.join(LOG_OPTIONS)}."
            )
        if name in options:
            raise InvalidArgumentError(f"--log has {name}= twice; give it once.")
        try:
            if name == "words":
                phrases = [phrase.rpartition(":") for phrase in value.split(",")]
                options[name] = {phrase: float(chance) for phrase, _, chance in phrases}
            else:
                options[name] = {"scale": float, "epoch": int}.get(name, str)(value)
        except ValueError:
            example = "'very likely:0.9,likely:0.7'" if name == "words" else "a number"
            raise InvalidArgumentError(f"{name}= takes {example}; got {value!r:.60}.") from None
    return options
