"""Prediction files: CSV, Parquet, JSON lines, Arrow and .npz, read in chunks, never unpickled."""

from __future__ import annotations

import fnmatch
import glob
import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import InvalidDocumentError, InvalidInputError, MissingDependencyError

Columns: TypeAlias = dict[str, AnyArray]

CHUNK_ROWS = 1 << 17
LARGEST_ARRAY = 1 << 36
STANDARD_INPUT = "-"


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns such as ``part-*.parquet`` stand for, in order."""
    files: list[str] = []
    for pattern in patterns:
        found = [pattern] if pattern == STANDARD_INPUT else sorted(glob.glob(pattern))
        if not found:
            raise InvalidInputError(f"There is no file {pattern!r}.")
        files += found
    return files


def read_chunks(path: str, wanted: Sequence[str]) -> Iterator[Columns]:
    """Yield the wanted columns of a file, some rows at a time.

    A wanted name may be a pattern such as ``prob_*``, which stands for all columns that match,
    in the order of the file.
    """
    if Path(path).suffix == ".npz":
        yield _pick(_read_npz(path), wanted, path)
        return
    for batch in _batches(path, wanted):
        yield {name: _to_numpy(batch.column(name)) for name in batch.schema.names}


def match_columns(names: Sequence[str], wanted: Sequence[str], path: str) -> list[str]:
    """Return the columns that the wanted names and patterns stand for."""
    found: list[str] = []
    for name in wanted:
        hits = [name] if name in names else [each for each in names if fnmatch.fnmatch(each, name)]
        if not hits:
            shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise InvalidInputError(f"{path} has no column {name!r}; its columns are {shown}.")
        found += [each for each in hits if each not in found]
    return found


def _pick(columns: Columns, wanted: Sequence[str], path: str) -> Columns:
    return {name: columns[name] for name in match_columns(list(columns), wanted, path)}


def _read_npz(path: str) -> Columns:
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.file_size > LARGEST_ARRAY:
                    raise InvalidDocumentError(
                        f"{path} holds {member.filename!r} of {member.file_size:,} bytes, more "
                        f"than the {LARGEST_ARRAY:,} that are read."
                    )
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        if isinstance(error, InvalidDocumentError):
            raise
        raise InvalidDocumentError(f"{path} cannot be read as .npz: {error}.") from error


def _batches(path: str, wanted: Sequence[str]) -> Iterator[Any]:
    """Yield Arrow record batches with the wanted columns."""
    try:
        import pyarrow as pa
        import pyarrow.csv as pa_csv
        import pyarrow.dataset as pa_dataset
        import pyarrow.json as pa_json
    except ImportError as error:
        raise MissingDependencyError(
            "Reading files needs PyArrow: pip install 'calibrant[cli]'."
        ) from error
    suffix = Path(path).suffix.lower()
    try:
        if path == STANDARD_INPUT:
            reader = pa_csv.open_csv(sys.stdin.buffer)
        elif suffix in (".jsonl", ".ndjson", ".json"):
            reader = pa_json.read_json(path).to_reader(CHUNK_ROWS)
        else:
            kinds = {".csv": "csv", ".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}
            if suffix not in kinds:
                raise InvalidInputError(
                    f"{path} ends in {suffix!r}; known are .csv, .parquet, .jsonl, .arrow and .npz."
                )
            data = pa_dataset.dataset(path, format=kinds[suffix])
            names = match_columns(data.schema.names, wanted, path)
            yield from data.to_batches(columns=names, batch_size=CHUNK_ROWS)
            return
        for batch in reader:
            yield batch.select(match_columns(batch.schema.names, wanted, path))
    except pa.ArrowException as error:
        raise InvalidDocumentError(f"{path} cannot be read: {error}") from error


def _to_numpy(column: Any) -> AnyArray:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by this text, whole or not at all."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, target)
    finally:
        aside.unlink(missing_ok=True)
