"""Arrays of a .npz archive, read row by row from the stream and never unpickled.

Whatever the archive claims, memory is bounded by a chunk: an array must have a plain type, and
the size that its header announces must be the size of its member.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import InvalidDocumentError, LengthMismatchError
from calibrant.files.arrow import rows_at_once
from calibrant.files.names import match_columns

LARGEST_ROW = 1 << 26
LARGEST_UNORDERED = 1 << 31
PLAIN = "biufU"
Columns = dict[str, AnyArray]


@dataclass(frozen=True)
class _Member:
    name: str
    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    offset: int

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])


def npz_chunks(path: str, wanted: Sequence[str], shown: str) -> Iterator[tuple[Columns, float]]:
    """Yield (wanted arrays, share read), some rows at a time."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = {_plain_name(info.filename): info for info in archive.infolist()}
            names = match_columns(list(infos), wanted, shown)
            members = [_read_header(archive, name, infos[name], shown) for name in names]
            yield from _chunks(archive, members, shown)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, RuntimeError) as error:
        raise InvalidDocumentError(f"{shown} cannot be read as .npz: {error}.") from error


def _chunks(
    archive: zipfile.ZipFile, members: list[_Member], shown: str
) -> Iterator[tuple[Columns, float]]:
    lengths = {member.name: member.shape[0] for member in members}
    n = next(iter(lengths.values()))
    if len(set(lengths.values())) > 1:
        raise LengthMismatchError(f"Arrays of {shown} must have as many rows; they have {lengths}.")
    rows = rows_at_once(sum(math.prod(member.shape[1:]) for member in members))
    rows = max(1, min(rows, LARGEST_ROW // max(member.row_bytes for member in members)))
    sources = [_rows_of(archive, member, rows) for member in members]
    for start in range(0, n, rows):
        arrays = {m.name: next(source) for m, source in zip(members, sources, strict=True)}
        yield arrays, min(1.0, (start + rows) / n)


def _plain_name(filename: str) -> str:
    return filename.removesuffix(".npy")


def _read_header(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, shown: str) -> _Member:
    """Read what a member says of itself, and check that against its size."""
    with archive.open(info) as stream:
        try:
            shape, by_columns, dtype = _header(stream)
        except ValueError as error:
            raise InvalidDocumentError(f"{shown}: {name!r} is not an array: {error}.") from error
        offset = stream.tell()
    if dtype.kind not in PLAIN or dtype.hasobject:
        raise InvalidDocumentError(
            f"{shown}: {name!r} holds {dtype} values; numbers and text are read, pickled objects "
            "never. Save the array with a plain dtype."
        )
    member = _Member(name, info, shape, dtype, by_columns, offset)
    if not shape or offset + shape[0] * member.row_bytes != info.file_size:
        raise InvalidDocumentError(
            f"{shown}: {name!r} announces shape {shape} of {dtype}, which does not fit its "
            f"{info.file_size:,} bytes. The file is damaged."
        )
    if not 0 < member.row_bytes <= LARGEST_ROW:
        raise InvalidDocumentError(
            f"{shown}: a row of {name!r} has {member.row_bytes:,} bytes; 1 to {LARGEST_ROW:,} "
            "are read."
        )
    return member


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(stream)
    raise ValueError(f"version {version} of the .npy format is not read")


def _rows_of(archive: zipfile.ZipFile, member: _Member, rows: int) -> Iterator[AnyArray]:
    if member.by_columns and len(member.shape) > 1:
        yield from _rows_of_columns(archive, member, rows)
        return
    with archive.open(member.info) as stream:
        stream.read(member.offset)
        for start in range(0, member.shape[0], rows):
            shape = (min(rows, member.shape[0] - start), *member.shape[1:])
            data = stream.read(shape[0] * member.row_bytes)
            yield np.frombuffer(data, member.dtype).reshape(shape)


def _rows_of_columns(archive: zipfile.ZipFile, member: _Member, rows: int) -> Iterator[AnyArray]:
    """Read an array that is stored column by column: rows are together only in the whole of it."""
    if member.info.file_size > LARGEST_UNORDERED:
        raise InvalidDocumentError(
            f"{member.name!r} is stored column by column and has {member.info.file_size:,} bytes, "
            f"more than the {LARGEST_UNORDERED:,} that are read whole. Save it in C order."
        )
    with archive.open(member.info) as stream:
        stream.read(member.offset)
        whole = np.frombuffer(stream.read(), member.dtype).reshape(member.shape, order="F")
    for start in range(0, member.shape[0], rows):
        yield whole[start : start + rows]
