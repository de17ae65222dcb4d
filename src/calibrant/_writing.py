"""Output files are replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by this text, whole or not at all."""
    with replaced(path) as stream:
        stream.write(text.encode("utf-8"))


@contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary stream whose content replaces the file once all of it is on the disk.

    The stream writes to a private file beside the target, which is renamed at the end; whatever
    fails before that, a kill or a full disk included, leaves the old file as it was. Writers in
    other threads and processes do not disturb each other: the last to finish wins, and readers see
    one of the whole contents. A link is followed, the permissions of the old file are kept, and
    devices and pipes are written to directly.
    """
    target = Path(os.path.realpath(path))
    mode = None
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("wb") as stream:
            yield stream
        return
    # An unguessable name, so that no file or link can be put there first. File
    # systems allow 255 bytes; 40 characters of the target's name are 160 bytes at most.
    aside = target.with_name(f".{target.name[:40]}.{secrets.token_hex(16)}.part")
    # A new file gets what the umask allows. One that takes the place of another is private until
    # it has the permissions of the old one, which is before anything is written.
    opener = partial(os.open, mode=0o666 if mode is None else 0o600)
    try:
        with open(aside, "xb", opener=opener) as stream:
            if mode is not None and hasattr(os, "fchmod"):  # Windows has no such permissions
                os.fchmod(stream.fileno(), stat.S_IMODE(mode))
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


@contextmanager
def held(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the folder of a file, so that no other process that holds it changes the file meanwhile.

    For reading, changing and writing a file. The hold ends with the process, however it ends. Where
    the system has no such holds, there is none.
    """
    try:
        import fcntl

        handle = os.open(Path(os.path.realpath(path)).parent, os.O_RDONLY)
    except (ImportError, OSError):  # Windows, or a folder that is not there: writing will say so
        yield
        return
    try:
        with suppress(OSError):  # not every network file system has them
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


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
