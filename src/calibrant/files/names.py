"""Names: which files a pattern stands for, which format a file has, which columns are meant."""

from __future__ import annotations

import difflib
import fnmatch
import glob
from collections.abc import Sequence
from pathlib import Path

from calibrant.exceptions import InvalidInputError

STANDARD_INPUT = "-"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
}


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns such as ``part-*.parquet`` stand for, in order."""
    files: list[str] = []
    for pattern in patterns:
        found = _found(pattern)
        if not found:
            raise InvalidInputError(f"There is no file {pattern!r}.")
        files += [each for each in found if each not in files]
    for file in files:
        if Path(file).is_dir():
            raise InvalidInputError(
                f"{file!r} is a folder. Name its files, such as '{file.rstrip('/')}/*.parquet'."
            )
    return files


def _found(pattern: str) -> list[str]:
    if pattern == STANDARD_INPUT or Path(pattern).exists():
        return [pattern]
    return sorted(glob.glob(pattern, recursive=True))


def format_of(path: str) -> str:
    """Return the format that a file's name ends in, compression aside."""
    name = Path(path)
    suffixes = [each.lower() for each in name.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in FORMATS:
        raise InvalidInputError(
            f"{path} ends in {name.suffix!r}; known are .csv, .tsv, .parquet, .jsonl, .arrow and "
            ".npz. Rename it or convert it."
        )
    return FORMATS[suffix]


def match_columns(names: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    """Return the columns that the wanted names and patterns stand for."""
    found: list[str] = []
    for name in wanted:
        hits = [name] if name in names else fnmatch.filter(names, name)
        if not hits:
            raise InvalidInputError(_no_column(name, names, path))
        found += [each for each in hits if each not in found]
    return found


def _no_column(name: str, names: Sequence[str], path: str) -> str:
    """Say which columns there are, and which one is perhaps meant."""
    near = difflib.get_close_matches(name[:100], [each for each in names if len(each) <= 100], 1)
    if near:
        return f"{path} has no column {name!r:.200}; perhaps {near[0]!r} is meant."
    shown = ", ".join(repr(each)[:60] for each in names[:10])
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return (
        f"{path} has no column {name!r:.200}; its columns are {shown}{more}. "
        "Name them with --y-true and --y-prob."
    )
