"""What a run over files shows and keeps: progress, and checkpoints from which it continues.

Checkpoints lie in a folder beside the output. Each names its file with size and time, and the
settings; one that does not fit what is there now is not used. Checkpoints are replaced whole or not
at all. Two runs that write the same output share the folder: what one has finished serves the
other, and the one that ends first removes it. A checkpoint that is lost costs time, never a row.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._documents import header
from calibrant._version import __version__
from calibrant._writing import replaced
from calibrant.cli.output import Bar, complain
from calibrant.exceptions import CalibrantError
from calibrant.sources.files.reading import Hooks
from calibrant.tables import read_any_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant.bins import Bins
    from calibrant.engines.search import Sketch
    from calibrant.sources.files.streams import File
    from calibrant.table import BinTable
    from calibrant.tables import Tables

FORMAT = "calibrant.progress"
SCHEMA = 1
CHECKPOINT = re.compile(r"[0-9a-f]{24}\.json|pass-\d+\.npz|\..*\.part")
"""What the folder holds: the table of a file, a pass over all, and either of them half written."""
TIME_BETWEEN = 20
"""Passes are saved again after 20 times as long as the last save took: 5% of the time at most."""


class Progress(Hooks):
    """A bar on a terminal for every pass over the files."""

    def __init__(self) -> None:
        self._bar: Bar | None = None

    def begin(self, what: str, files: Sequence[File]) -> None:
        """Draw a new bar."""
        self._bar = Bar(what, files)

    def advance(self, number: int, share: float, n_rows: int) -> None:
        """Show how far the pass is."""
        if self._bar is not None:
            self._bar.show(number, share, n_rows)

    def end(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.erase()


class Checkpoints(Progress):
    """Checkpoints of a run that writes `target`, kept while a bar shows its progress."""

    def __init__(self, target: str, files: Sequence[File], settings: dict[str, Any]) -> None:
        super().__init__()
        self.folder = Path(f"{target}.progress")
        self.settings = {**settings, "calibrant": __version__}
        self.files = [_identity(file.path) for file in files]
        self._said: set[str] = set()
        self._next_save = 0.0

    def settle(self, names: Sequence[str]) -> None:
        """Keep the order of the columns, which the first rows fix, among the settings."""
        self.settings["columns"] = list(names)

    def restore_pass(self, number: int, sketch: Sketch) -> int:
        """Restore the sketch of a pass, and return how many files it holds."""
        try:
            with (
                self._pass(number).open("rb") as stream,
                np.load(stream, allow_pickle=False) as arrays,
            ):
                head = json.loads(arrays["head"].tobytes())
                done = len(head["files"])
                read = self._files_read(number, done)
                if not self._holds(head) or any(head[x] != value for x, value in read.items()):
                    self._say_changes(head)
                    return 0
                sketch.restore(arrays)
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return 0  # ignore a corrupt checkpoint
        self._say(f"continuing: pass {number} has read {done:,} of {len(self.files):,} files")
        return done

    def save_pass(self, number: int, sketch: Sketch, done: int) -> None:
        """Save the sketch of a pass after its first `done` files."""
        start = time.monotonic()
        if done < len(self.files) and start < self._next_save:
            return
        head = self._head() | self._files_read(number, done)
        arrays = sketch.to_arrays() | {"head": np.frombuffer(json.dumps(head).encode(), np.uint8)}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        self._write(self._pass(number), buffer.getvalue())
        now = time.monotonic()
        self._next_save = now + TIME_BETWEEN * (now - start)

    def restore_table(
        self, i: int, bins: tuple[Bins, ...]
    ) -> tuple[bool, BinTable | Tables | None]:
        """Return whether a file has been counted in these bins, and its table if it has rows."""
        try:
            checkpoint = json.loads(self._entry(i).read_bytes())
            if not self._holds(checkpoint) or checkpoint["file"] != self.files[i]:
                self._say_changes(checkpoint)
                return False, None
            table = checkpoint["table"] and read_any_table(json.dumps(checkpoint["table"]))
        except FileNotFoundError:
            return False, None
        except (OSError, ValueError, KeyError, TypeError, CalibrantError):
            return False, None  # ignore a corrupt checkpoint
        if table is not None and table.bins not in (bins, (bins,)):
            return False, None
        self._say(f"continuing with the files that {self.folder} says are counted")
        return True, table

    def save_table(self, i: int, table: BinTable | Tables | None) -> None:
        """Save the table of a file that has been counted."""
        checkpoint = self._head() | {
            "file": self.files[i],
            "table": None if table is None else table.to_dict(),
        }
        self._write(self._entry(i), json.dumps(checkpoint).encode())

    def _write(self, path: Path, checkpoint: bytes) -> None:
        with suppress(FileExistsError):
            self.folder.mkdir()
        # another run that ends now removes the folder: see `close`
        with suppress(FileNotFoundError), replaced(path) as stream:
            stream.write(checkpoint)

    def close(self) -> None:
        """Remove the folder; the output is written.

        Another run may be writing the same output: it may lose checkpoints here at any moment, and
        one that it adds meanwhile keeps the folder, which that run then removes.
        """
        with suppress(OSError):
            for path in self.folder.iterdir():
                if CHECKPOINT.fullmatch(path.name):
                    path.unlink(missing_ok=True)
            self.folder.rmdir()

    def _head(self) -> dict[str, Any]:
        return {**header(FORMAT, SCHEMA), "settings": self.settings}

    def _holds(self, checkpoint: dict[str, Any]) -> bool:
        head = json.loads(json.dumps(self._head()))  # as a checkpoint holds it
        return all(checkpoint[name] == value for name, value in head.items())

    def _files_read(self, number: int, done: int) -> dict[str, Any]:
        """Return the files that a pass has read, and that chose its cells: all, after pass 1."""
        return {"files": self.files[:done], "before": self.files if number > 1 else []}

    def _pass(self, number: int) -> Path:
        return self.folder / f"pass-{number}.npz"

    def _entry(self, i: int) -> Path:
        name = hashlib.sha256(self.files[i]["path"].encode("utf-8", "surrogateescape"))
        return self.folder / f"{name.hexdigest()[:24]}.json"

    def _say_changes(self, checkpoint: dict[str, Any]) -> None:
        """Print why a checkpoint is not used."""
        if not self._holds(checkpoint):
            self._say("the settings have changed since the last run: counting anew")
            return
        now = {file["path"]: file for file in self.files}
        for file in checkpoint.get("files", [checkpoint.get("file")]):
            if now.get(file["path"], file) != file:
                self._say(f"{file['path']} has changed since it was counted: counting it anew")
        read = [file["path"] for file in checkpoint.get("files", ())]
        if read != [*now][: len(read)]:
            self._say("other files than in the last run: choosing bins anew")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            complain(text)


def _identity(path: str) -> dict[str, Any]:
    facts = os.stat(path)
    return {"path": os.path.abspath(path), "size": facts.st_size, "mtime_ns": facts.st_mtime_ns}


@contextmanager
def hooks_for(
    output: str | None, files: Sequence[File], settings: dict[str, Any]
) -> Iterator[Progress]:
    """Show progress and, of several files that make an output, keep checkpoints until it is made.

    Standard input and pipes are gone by the next run, so that nothing could continue.
    """
    lasting = all(file.shown == file.path for file in files)
    if output in (None, "-") or len(files) < 2 or not lasting:
        yield Progress()
        return
    checkpoints = Checkpoints(str(output), files, settings)
    try:
        yield checkpoints
    except KeyboardInterrupt:
        if checkpoints.folder.is_dir():
            complain(f"what is finished is in {checkpoints.folder}; run again to continue")
        raise
    checkpoints.close()
