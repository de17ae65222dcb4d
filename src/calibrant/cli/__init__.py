"""The command line. Each command has a file of its own; `calibrant.cli.parser` lists them.

Exit codes: 0 certified or done, 1 refuted (or a recheck that disagrees), 2 undecided, 3 bad input,
4 usage, 130 interrupted, 141 the reader of the output went away, 70 a bug in calibrant.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from calibrant.exceptions import CalibrantError, InvalidArgumentError

OK, REFUTED, UNDECIDED, BAD_INPUT, USAGE, BUG, INTERRUPTED, NO_READER = 0, 1, 2, 3, 4, 70, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from calibrant.cli.parser import new_parser

    args = new_parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = int(args.run(args))
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_output()
        return NO_READER
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except InvalidArgumentError as error:
        return _complain(str(error), USAGE)
    except CalibrantError as error:
        return _complain(str(error), BAD_INPUT)
    except OSError as error:
        return _complain(_system_words(error), BAD_INPUT)
    except Exception:
        return _admit_a_bug()
    return code


def _complain(message: str, code: int) -> int:
    from calibrant.cli.messages import in_options
    from calibrant.cli.terminal import complain

    complain(in_options(message))
    return code


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _complain(f"warning: {message}", OK)


def _system_words(error: OSError) -> str:
    """Say which file the system refused, and why."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _abandon_output() -> None:
    """Point standard output nowhere, so that Python's last flush does not complain either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _admit_a_bug() -> int:
    """Show where it happened; an exit code of its own, for 1 would read as "refuted"."""
    import traceback

    traceback.print_exc()
    return _complain("this is a bug in calibrant; please report it with the lines above", BUG)
