"""Saved tables of sums in place of files of rows: what `measure --table` and `merge` wrote."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from calibrant.exceptions import InvalidArgumentError, InvalidInputError

if TYPE_CHECKING:
    from calibrant.table import BinTable

BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"calibrant\.table"')
"""How a table begins, and no row of predictions; the name of a file tells nothing, for .json may
be JSON lines."""

ABOUT_ROWS = {
    "y_true": "labels",
    "y_prob": ["probs"],
    **dict.fromkeys(("kind", "classes", "pos_label", "format")),
    **dict.fromkeys(("sample_weight", "calibrator", "versus")),
}
"""Options that say how rows are read, and their defaults; --bins is another, and the command's."""


def saved_table(args: argparse.Namespace, default_bins: str | None) -> BinTable | None:
    """Return the sum of the tables that the files hold, or None if they hold rows.

    A table has its bins, its problem and its labels: options about them are refused.
    """
    from calibrant.files import expand

    paths = expand(args.files)
    tables = [path for path in paths if is_table(path)]
    if not tables:
        return None
    if len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise InvalidInputError(
            f"{tables[0]} is a table of sums and {other} is not. Name tables, or files of rows."
        )
    for name, default in (ABOUT_ROWS | {"bins": default_bins}).items():
        if getattr(args, name, default) != default:
            raise InvalidArgumentError(
                f"--{name.replace('_', '-')} says how rows are read, and {tables[0]} is a table of "
                "sums: it has its own bins, classes and labels. Leave the option out."
            )
    return sum_of(tables)


def is_table(path: str) -> bool:
    """Tell by its content whether a file is a table; what cannot be read twice is not."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return BEGINNING.match(stream.read(200)) is not None


def sum_of(paths: list[str]) -> BinTable:
    """Add saved tables; what is wrong is said with the file."""
    from calibrant.cli.messages import about

    with about(paths[0]):
        total = _read(paths[0])
    for path in paths[1:]:
        with about(path):
            total += _read(path)
    return total


def _read(path: str) -> BinTable:
    from calibrant.table import BinTable

    return BinTable.from_json(Path(path).read_bytes())
