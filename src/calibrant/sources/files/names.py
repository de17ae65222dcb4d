"""Names: which files a pattern stands for, which format a file has, which columns are meant."""

from __future__ import annotations

import difflib
import fnmatch
import glob
import os
import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

from calibrant.exceptions import InvalidInputError

STANDARD_INPUT = "-"
MOST_COMPARED = 1_000
"""Names among which a similar one is looked for: each takes some 10 microseconds."""
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
    """Return the files that names and patterns such as ``part-*.parquet`` stand for, in order.

    A file that is named several times, be it in another spelling or by a link, comes once.
    """
    files: dict[Hashable, str] = {}
    for pattern in patterns:
        is_name = pattern == STANDARD_INPUT or (pattern != "" and Path(pattern).exists())
        paths = [pattern] if is_name else sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise InvalidInputError(f"There is no file {pattern!r}.")
        for file in paths:
            files.setdefault(_identity(file), file)
    for file in files.values():
        if Path(file).is_dir():
            raise InvalidInputError(
                f"{file!r} is a folder. Name its files, such as '{file.rstrip('/')}/*.parquet'."
            )
    return list(files.values())


def _identity(path: str) -> Hashable:
    """Return what two names of one file have in common."""
    try:
        facts = os.fstat(sys.stdin.fileno()) if path == STANDARD_INPUT else os.stat(path)
    except (OSError, ValueError, AttributeError):  # no such file, or no standard input
        return path
    if not facts.st_ino:  # some file systems do not number their files
        return os.path.realpath(path)
    return facts.st_dev, facts.st_ino


def format_of(path: str) -> str:
    """Return the format that a file's name ends in, compression aside."""
    name = Path(path)
    suffixes = [suffix.lower() for suffix in name.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in FORMATS:
        raise InvalidInputError(
            f"{path} ends in {name.suffix!r}; known are .csv, .tsv, .parquet, .jsonl, .arrow and "
            ".npz. Rename it or convert it."
        )
    return FORMATS[suffix]


def match_columns(names: Sequence[str], patterns: Sequence[str], path: str) -> list[str]:
    """Return the columns that names and patterns stand for."""
    known, chosen = set(names), dict[str, None]()
    twice = [name for name, times in Counter(patterns).items() if times > 1]
    if twice:  # one of the two is a slip, and without it fewer columns mean another problem
        raise InvalidInputError(
            f"Every column is named once; {twice[0]!r:.80} is named twice. Name the column that is "
            "meant in its place."
        )
    for name in patterns:
        hits = [name] if name in known else fnmatch.filter(names, name)
        if not hits:
            raise InvalidInputError(_no_column(name, names, path))
        chosen |= dict.fromkeys(hits)
    return list(chosen)


def check_columns(names: Sequence[str], expected: Sequence[str], path: str) -> None:
    """Refuse a file that lacks one of these columns, which are names and never patterns."""
    for name in expected:
        if name not in names:
            raise InvalidInputError(_no_column(name, names, path))


def in_fixed_order(names: Sequence[str], fixed: Sequence[str], path: str) -> list[str]:
    """Return the names in the order that the first rows fixed; refuse others than those."""
    there, known = set(names), set(fixed)
    missing = [name for name in fixed if name not in there]
    added = [name for name in names if name not in known]
    if missing or added:
        what = f"has no column {missing[0]!r:.80}" if missing else f"has a column {added[0]!r:.80}"
        rest = "unlike the rows before" if missing else "which the rows before have not"
        raise InvalidInputError(
            f"{path} {what}, {rest}. All files of a run must have the same {len(fixed):,} columns "
            "of predictions."
        )
    return list(fixed)


def _no_column(name: str, names: Sequence[str], path: str) -> str:
    """Say which columns there are, and which one is perhaps meant."""
    short = [known for known in names[:MOST_COMPARED] if len(known) <= 100]
    near = difflib.get_close_matches(name[:100], short, 1)
    if near:
        return f"{path} has no column {name!r:.200}; perhaps {near[0]!r} is meant."
    shown = ", ".join(repr(known)[:60] for known in names[:10])
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return (
        f"{path} has no column {name!r:.200}; its columns are {shown or 'none'}{more}. "
        "Columns are named by y_true=, y_prob=, sample_weight= and by=."
    )
