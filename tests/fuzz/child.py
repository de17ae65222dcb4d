"""The child process of the fuzz suite: it runs the cases whose numbers it reads, one at a time.

Each case is made from its category and number alone. A crash ends this process, and the parent
knows the case by what it sent last. One case by hand, with its folder kept:

    python tests/fuzz/child.py damaged_files 123 /tmp/case
"""

from __future__ import annotations

import importlib
import io
import json
import os
import resource
import shutil
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1]))

ROOM = 4 << 30
"""Bytes that a case may ask for beyond what the libraries hold: no input here is above 5 MB."""


class Failure(Exception):
    """What a case must not do."""


def limit_memory() -> None:
    """Refuse memory beyond what is mapped now and a generous room."""
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (mapped + ROOM, mapped + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_case(module, number: int, folder: Path) -> tuple[str, str | None]:
    """Return (what came of it, why that is a failure or None)."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)  # arithmetic that nobody looked after
            return module.run(number, folder), None
    except Failure as failure:
        return "failed", str(failure)
    except BaseException:
        return "failed", traceback.format_exc()[-3000:]
    finally:
        os.chdir(before)


def command(*argv: object) -> tuple[int, str, str]:
    """Run a command in this process: (exit code, standard output, standard error)."""
    from calibrant.cli import main

    kept = os.dup(1), os.dup(2)
    with open("stdout.txt", "w+b") as out, open("stderr.txt", "w+b") as said:
        os.dup2(out.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            code = main([str(each) for each in argv])
        except SystemExit as left:
            code = left.code
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
    texts = [
        Path(name).read_bytes().decode("utf-8", "replace") for name in ("stdout.txt", "stderr.txt")
    ]
    said = " ".join(map(str, argv))
    if code not in (0, 1, 2, 3, 4):
        raise Failure(f"exit {code} of: calibrant {said}\n{texts[1][-2500:]}")
    if code in (3, 4) and not texts[1].strip():
        raise Failure(f"exit {code} without a word of: calibrant {said}")
    return code, *texts


def expect(truth: object, text: str) -> None:
    """Fail the case with this text unless something is true."""
    if not truth:
        raise Failure(text)


def main() -> None:
    category = sys.argv[1]
    module = importlib.import_module(category)
    if len(sys.argv) > 2:
        folder = Path(sys.argv[3] if len(sys.argv) > 3 else f"fuzz-{category}")
        print(*run_case(module, int(sys.argv[2]), folder.absolute()), sep="\n")
        return
    answers = os.fdopen(os.dup(1), "w")
    numbers = os.fdopen(os.dup(0))
    sys.stdin = io.TextIOWrapper(io.BytesIO())
    folder = Path(os.environ["FUZZ_FOLDER"]).absolute()
    os.chdir(folder)
    module.prepare()
    limit_memory()
    print("ready", file=answers, flush=True)
    for line in numbers:
        answer, failure = run_case(module, int(line), folder / "case")
        print(json.dumps([int(line), answer, failure]), file=answers, flush=True)


if __name__ == "__main__":
    sys.modules["child"] = sys.modules["__main__"]
    main()
