"""Arrays of a .npz archive, read row by row from the stream and never unpickled.

Whatever the archive claims, memory is bounded by a chunk: an array must have a plain type, and
the size that its header announces must be the size of its member.
"""

from __future__ import annotations

import lzma
import math
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import CalibrantError, InvalidDocumentError, LengthMismatchError
from calibrant.sources.files.arrow import rows_at_once
from calibrant.sources.files.streams import Choose

LARGEST_ROW = 1 << 26
"""Bytes of one row, 8 million probabilities: an array with more in a row has its axes swapped."""
LARGEST_UNORDERED = 1 << 30
"""Bytes of arrays stored column by column, which are held whole: 130 million probabilities."""
HARMLESS_BYTES, LARGEST_RATIO = 1 << 26, 100
"""Arrays that hold something compress to a 20th at best, zeros to a 1,000th: what needs much memory
must take some room in the file as well."""
PLAIN = "biufU"
LAST_CHARACTER = 0x10FFFF  # of Unicode
Columns = dict[str, AnyArray]
ZSTANDARD_ERRORS: tuple[type[Exception], ...] = ()
if sys.version_info >= (3, 14):  # there zipfile reads Zstandard, where Python was built with it
    with suppress(ImportError):
        from compression.zstd import ZstdError

        ZSTANDARD_ERRORS = (ZstdError,)
DAMAGED: tuple[type[Exception], ...] = (
    *ZSTANDARD_ERRORS,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,  # negative offsets, names that are not text
    OverflowError,
    MemoryError,
    RuntimeError,  # encrypted; and NotImplementedError, an unknown compression
)
"""Exceptions of zipfile and its decompressors on damaged archives."""


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


def npz_chunks(path: str, choose: Choose, shown: str) -> Iterator[tuple[Columns, float]]:
    """Yield (chosen arrays, share read), some rows at a time."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos: dict[str, list[zipfile.ZipInfo]] = {}
            for info in archive.infolist():
                infos.setdefault(info.filename.removesuffix(".npy"), []).append(info)
            chosen = {name: infos[name] for name in choose(list(infos))}
            for name, files in chosen.items():
                if len(files) > 1:  # "a" beside "a.npy", perhaps
                    raise InvalidDocumentError(
                        f"{shown}: {len(files)} arrays are called {name!r:.80}. Give each a name "
                        "of its own."
                    )
            members = [_read_header(archive, name, x[0], shown) for name, x in chosen.items()]
            yield from _chunks(archive, members, shown)
    except CalibrantError:
        raise
    except OSError as error:
        if error.errno is not None:  # of the system; those of the decompressors have no number
            raise
        raise InvalidDocumentError(f"{shown} cannot be read as .npz: {error}.") from error
    except DAMAGED as error:
        reason = str(error) or "it asks for more memory than there is"
        raise InvalidDocumentError(f"{shown} cannot be read as .npz: {reason}.") from error


def _chunks(
    archive: zipfile.ZipFile, members: list[_Member], shown: str
) -> Iterator[tuple[Columns, float]]:
    lengths = {member.name: member.shape[0] for member in members}
    n = next(iter(lengths.values()))
    if len(set(lengths.values())) > 1:
        raise LengthMismatchError(f"Arrays of {shown} must have as many rows; they have {lengths}.")
    rows = rows_at_once(sum(math.prod(member.shape[1:]) for member in members))
    rows = max(1, min(rows, LARGEST_ROW // max(member.row_bytes for member in members)))
    _check_unordered(members, shown)
    sources = [_rows_of(archive, member, rows, shown) for member in members]
    done = 0
    for parts in zip(*sources, strict=True):
        done += len(parts[0])
        yield dict(zip(lengths, parts, strict=True)), done / n


def _read_header(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, shown: str) -> _Member:
    """Read the header of a member, and check it against the member's size."""
    with archive.open(info) as stream:
        shape, by_columns, dtype = _header(stream, name, shown)
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


def _header(
    stream: IO[bytes], name: str, shown: str
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on headers of Python 2, and on odd escapes
            version = np.lib.format.read_magic(stream)
            if version == (1, 0):
                return np.lib.format.read_array_header_1_0(stream)
            if version == (2, 0):
                return np.lib.format.read_array_header_2_0(stream)
    except (OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile):
        raise  # of the archive
    except Exception as error:  # the header is Python source, whose parser raises many kinds
        raise InvalidDocumentError(f"{shown}: {name!r} is not an array: {error}.") from error
    raise InvalidDocumentError(
        f"{shown}: {name!r} is not an array: version {version} of the .npy format is not read."
    )


def _rows_of(
    archive: zipfile.ZipFile, member: _Member, rows: int, shown: str
) -> Iterator[AnyArray]:
    with archive.open(member.info) as stream:
        stream.read(member.offset)
        if member.by_columns and len(member.shape) > 1:
            data = _read_exactly(stream, member.shape[0] * member.row_bytes)
            whole = np.frombuffer(data, member.dtype).reshape(member.shape, order="F")
            for start in range(0, member.shape[0], rows):
                yield _native(whole[start : start + rows], member, start, shown)
            return
        for start in range(0, member.shape[0], rows):
            shape = (min(rows, member.shape[0] - start), *member.shape[1:])
            data = _read_exactly(stream, shape[0] * member.row_bytes)
            part = np.frombuffer(data, member.dtype).reshape(shape)
            yield _native(part, member, start, shown)


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    """Fill a buffer of this size: `read` would hold the parts and the whole at once."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = stream.readinto(view[at : at + (1 << 24)])  # type: ignore[attr-defined]
        if not got:
            raise EOFError(f"{size - at:,} bytes are missing")
        at += got
    return data


def _native(array: AnyArray, member: _Member, start: int, shown: str) -> AnyArray:
    """Return values in the byte order of this machine, numbers as 8 bytes at most, valid text."""
    if array.dtype.kind == "U":
        codes = array.astype(array.dtype.newbyteorder("=")).view(np.uint32).reshape(len(array), -1)
        bad = (codes > LAST_CHARACTER) | ((codes >= 0xD800) & (codes < 0xE000))
        if bad.any():
            row = int(bad.any(axis=1).argmax())
            raise InvalidDocumentError(
                f"{shown}: {member.name!r:.80}, row {start + row + 1:,} is not valid text."
            )
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _check_unordered(members: list[_Member], shown: str) -> None:
    """Refuse arrays that must be held whole and are too large for that, or pretend to be large."""
    unordered = [m for m in members if m.by_columns and len(m.shape) > 1]
    total = sum(m.info.file_size for m in unordered)
    if total > LARGEST_UNORDERED:
        raise InvalidDocumentError(
            f"{shown}: {unordered[0].name!r:.80} is stored column by column, and {total:,} bytes "
            f"of such arrays are more than the {LARGEST_UNORDERED:,} that are held in memory. Save "
            "them in C order: numpy.ascontiguousarray."
        )
    for m in unordered:
        if m.info.file_size > max(HARMLESS_BYTES, LARGEST_RATIO * m.info.compress_size):
            raise InvalidDocumentError(
                f"{shown}: {m.name!r:.80} is stored column by column, and {m.info.compress_size:,} "
                f"bytes unpack to {m.info.file_size:,}, which must be held in memory at once. Save "
                "it in C order: numpy.ascontiguousarray."
            )
