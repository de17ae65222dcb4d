"""Commands that write, ended by `kill -9` at any moment.

The output is then absent, or the old one, or the whole new one; and the same command, run again in
the same folder, gives what an undisturbed run gives. When the kill comes is chance: whenever it
does, this must hold. Commands run in forks of a process that has loaded all but started nothing,
so that the kills fall into the work and not into the loading of libraries.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
from child import expect

import calibrant as cb

COLUMNS = ("--y-true", "label", "--y-prob", "score")
COMMANDS = {
    "measure": ("measure", "part-*.csv", *COLUMNS, "--bins", "20", "--table", "out.json"),
    "measure-npz": ("measure", "part-*.npz", *COLUMNS, "--bins", "20", "--table", "out.json"),
    "apply": ("apply", "cal.json", "part-0.csv", "--y-prob", "score", "-o", "out.csv"),
    "apply-parquet": ("apply", "cal.json", "part-0.csv", "--y-prob", "score", "-o", "out.parquet"),
    "fit": ("fit", "part-0.csv", *COLUMNS, "--method", "histogram-binning", "-o", "out.json"),
    "certify": ("certify", "part-0.csv", *COLUMNS, "--max-error", "0.2", "-o", "out.json"),
}
OLD = b"what stood there before"
made: dict[str, tuple[bytes, float]] = {}


def data() -> Path:
    return Path(os.environ.get("FUZZ_FOLDER", "/tmp")) / "kill-data"


def prepare() -> None:
    """Write the inputs, load the libraries, and see what undisturbed commands write."""
    import pyarrow.csv
    import pyarrow.parquet  # noqa: F401

    shutil.rmtree(data(), ignore_errors=True)
    data().mkdir(parents=True)
    rng = np.random.default_rng(3)
    for part in range(5):
        p = np.round(rng.uniform(size=4000), 2)
        y = (rng.uniform(size=4000) < p).astype(int)
        lines = [f"{a},{b}" for a, b in zip(y.tolist(), p.tolist(), strict=True)]
        (data() / f"part-{part}.csv").write_text("\n".join(["label,score", *lines]) + "\n")
        np.savez(data() / f"part-{part}.npz", label=y, score=p)
    cb.PlattScaling().fit(p, y).save(data() / "cal.json")
    cb.certify(y, p, max_error=0.2)  # compiles what forks then have
    for name, argv in COMMANDS.items():
        folder = fresh(data() / "undisturbed")
        start = time.monotonic()
        status = wait(fork(argv, folder))
        expect(os.waitstatus_to_exitcode(status) in (0, 1, 2), f"{name} fails undisturbed")
        made[name] = (output(folder, argv).read_bytes(), time.monotonic() - start)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in data().glob("*.*"):
        os.link(file, folder / file.name)
    return folder


def output(folder: Path, argv: tuple[str, ...]) -> Path:
    return folder / argv[-1]


def fork(argv: tuple[str, ...], folder: Path) -> int:
    """Start a command in a fork, and return its process number."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.chdir(folder)
        said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(said, 1)
        os.dup2(said, 2)
        from calibrant.cli import main

        code = main(list(argv))
    finally:
        os._exit(code)


def wait(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def run(number: int, folder: Path) -> str:
    if not made:
        prepare()
    rng = random.Random(f"kills {number}")
    name = rng.choice(list(COMMANDS))
    argv = COMMANDS[name]
    whole, seconds = made[name]
    target = output(fresh(folder), argv)
    had = rng.random() < 0.5
    if had:
        target.write_bytes(OLD)
    kills = rng.choice([1, 1, 3])  # also a run that continues another is killed
    for attempt in range(20):
        pid = fork(argv, folder)
        time.sleep(rng.uniform(0, seconds * 0.8**attempt))  # sooner, where the last ended first
        os.kill(pid, signal.SIGKILL)
        kills -= os.WIFSIGNALED(wait(pid))
        found = target.read_bytes() if target.exists() else None
        expect(
            found in ((OLD, whole) if had else (None, whole)),
            f"{name} left half an output: {found!r:.200}",
        )
        if kills == 0:
            break
        if found == whole:  # nothing is left to do: begin again
            target = output(fresh(folder), argv)
            if had:
                target.write_bytes(OLD)
    code = os.waitstatus_to_exitcode(wait(fork(argv, folder)))
    said = (folder / "said.txt").read_text()[-1000:]
    expect(code in (0, 1, 2), f"{name} fails after a kill, exit {code}: {said}")
    expect(target.read_bytes() == whole, f"{name} gives another result after a kill")
    expect(not (folder / "out.json.progress").exists(), "a finished run left its notes")
    return "killed, then right" if kills == 0 else "ended first, right"
