"""What commands read: files of rows, tables counted before, and standard input.

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
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from calibrant.cli.logs import log_columns
from calibrant.cli.output import about
from calibrant.cli.parser import ABOUT_ROWS, read_bins
from calibrant.exceptions import InvalidArgumentError, InvalidInputError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.groups import Groups
    from calibrant.sources.files import Hooks
    from calibrant.sources.files.reading import File
    from calibrant.table import BinTable
    from calibrant.tables import Tables

TABLE = re.compile(rb'"format"\s*:\s*"calibrant\.tables?"')
"""What a table says, and no row of predictions; the name of a file tells nothing, for .json may be
JSON lines."""


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

    given = {"y_true": args.y_true, "y_prob": args.y_prob, "data": Files(files, hooks)}
    for name in ("kind", "input", "classes", "pos_label", "sample_weight"):
        if getattr(args, name, None) is not None:
            given[name] = getattr(args, name)
    if getattr(args, "by", None) is not None:
        given["by"] = dict(args.by)
    if getattr(args, "cluster", None) is not None:
        given["cluster"] = args.cluster
    if getattr(args, "bins", None) is not None:
        given["bins"] = read_bins(args.bins)
    return given


@contextmanager
def open_files(patterns: Sequence[str], format_: str | None) -> Iterator[list[File]]:
    """Return the files that names and patterns stand for."""
    from calibrant.sources.files.names import STANDARD_INPUT, expand, format_of
    from calibrant.sources.files.reading import File

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
                told = format_of(path) if os.path.splitext(path)[1] else "csv"
                files.append(File(copy, format_ or told, path))
            else:
                files.append(File(path, format_ or format_of(path), path))
        yield files


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
    from calibrant.sources.files.names import expand

    paths = expand(args.files)
    tables = [path for path in paths if is_table(path)]
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


def is_table(path: str) -> bool:
    """Tell by its content whether a file is a table; what cannot be read twice is not."""
    from calibrant._documents import MOST_BYTES

    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        if not stream.read(200).removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
            return False
        stream.seek(0)
        document = stream.readline(MOST_BYTES)
        if document.removeprefix(BOM_UTF8).strip() in (b"", b"{"):  # laid out over many lines
            document += stream.read(MOST_BYTES)
    return TABLE.search(document) is not None


def check_reads_no_output(patterns: Sequence[str], paths: list[str], output: str | None) -> None:
    """Refuse a pattern that stands for the sum itself: run twice, it would add all rows again.

    Who names the sum among the tables means to add to it.
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
    """Add saved tables, or tables of groups; what is wrong is said with the file."""
    from calibrant.tables import read_any_table

    total: Any = 0
    for path in paths:
        with about(path):
            table = read_any_table(Path(path).read_bytes())
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


def rows_of(given: dict[str, Any]) -> GivenRows:
    """Read the rows that keywords of the library name."""
    from calibrant.sources.files import Files, read_files
    from calibrant.sources.groups import columns_named, read_groups

    data = given["data"]
    if isinstance(data, Files):
        source = read_files(**given)
        return GivenRows(*source.arrays_and_groups(), source.names[1:])
    labels, groups = data[given["y_true"]], None
    if given.get("by") is not None:
        own = columns_named(given["by"])
        groups = read_groups({x.name: data[x.name] for x in own}, len(labels), own)
    return GivenRows(labels, data[given["y_prob"]], None, groups)
