"""The command line: files of one command, or of two that go together; `parser` lists them.

Exit codes: 0 certified or done, 1 refuted (or an alarm, or a recheck that disagrees), 2 undecided,
3 bad input or an output that cannot be written, 4 usage, 130 interrupted, 141 the reader went
away, 70 a bug in calibrant. A verdict is only ever given as 0, 1 or 2 once it has been written.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from calibrant.exceptions import CalibrantError, InvalidArgumentError

OK, REFUTED, UNDECIDED, BAD_INPUT, USAGE, BUG, INTERRUPTED, NO_READER = 0, 1, 2, 3, 4, 70, 130, 141
VERDICTS = (OK, REFUTED, UNDECIDED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; exit at once after usage errors and help."""
    from calibrant.cli.output import flush, open_closed_streams

    open_closed_streams()
    try:
        code = _outcome(lambda: _run(argv))
    except SystemExit as left:  # from the parser
        raise SystemExit(_outcome(flush) or left.code) from None
    unwritten = _outcome(flush)
    return unwritten if unwritten and code in VERDICTS else code


def _run(argv: Sequence[str] | None) -> int:
    from calibrant._clock import now
    from calibrant.cli.parser import new_parser

    args = new_parser().parse_args(argv)
    now()  # importing NumPy fails if SOURCE_DATE_EPOCH is not a number
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        return int(args.run(args))


def _outcome(step: Callable[[], int]) -> int:
    """Run a step and return its exit code; print the message of what it fails with."""
    from calibrant.cli.output import abandon

    try:
        return step()
    except BrokenPipeError:
        abandon(sys.stdout)
        return NO_READER
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except InvalidArgumentError as error:
        return _complain(str(error), USAGE)
    except CalibrantError as error:
        return _complain(str(error), BAD_INPUT)
    except OSError as error:
        reason = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{reason}", BAD_INPUT)
    except MemoryError as error:
        return _complain(f"there is not enough memory. {error}".strip(), BAD_INPUT)
    except Exception:  # with an exit code of its own, for 1 would read as "refuted"
        import traceback

        from calibrant.cli.output import tell

        tell(traceback.format_exc())
        return _complain("this is a bug in calibrant; please report it with the lines above", BUG)


def _complain(message: str, code: int) -> int:
    from calibrant.cli.output import complain, in_options

    complain(in_options(message))
    return code


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    _complain(f"warning: {message}", OK)
