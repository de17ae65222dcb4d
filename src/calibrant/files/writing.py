"""Output files are replaced whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by this text, whole or not at all."""
    with replaced(path) as stream:
        stream.write(text.encode("utf-8"))


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary stream whose content replaces the file once all of it is on the disk.

    The stream writes to a file beside the target, which is renamed at the end; whatever fails
    before that, a kill or a full disk included, leaves the old file as it was. A link is followed,
    the permissions of the old file are kept, and devices and pipes are written to directly.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as stream:
            yield stream
        return
    aside = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
    try:
        with aside.open("wb") as stream:
            if mode is not None:
                os.chmod(aside, stat.S_IMODE(mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, target)
        _settle(target.parent)
    except OSError as error:
        if error.filename in (None, str(aside)):  # not one of another file, read meanwhile
            error.filename = str(path)
        raise
    finally:
        aside.unlink(missing_ok=True)


def _mode(target: Path) -> int | None:
    try:
        return target.stat().st_mode
    except FileNotFoundError:
        return None


def _settle(folder: Path) -> None:
    """Ask the system to write the new name down, so that a power cut does not undo it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not every file system opens folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
