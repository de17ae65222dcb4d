"""JUnit XML for systems that show test results: one test case for one command."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from xml.etree import ElementTree

from calibrant.cli.messages import in_options
from calibrant.cli.output import shortened
from calibrant.exceptions import CalibrantError

LONGEST_NAME, LONGEST_TEXT = 200, 10_000
"""So that a page of test results stays readable whatever the files are called."""
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
PASSED = "certified"
"""A verdict that passes; any other is a failure of that type."""


def add_junit_argument(command: argparse.ArgumentParser) -> None:
    """Add --junit."""
    command.add_argument(
        "--junit",
        metavar="FILE",
        help="write the outcome as JUnit XML, for a CI system",
    )


def reported(args: argparse.Namespace, run: Callable[[], tuple[int, str | None, str]]) -> int:
    """Run a command and, if --junit was given, write how it ended.

    `run` returns the exit code, the verdict (None where there is none) and the message. An
    exception for bad input is written as an error of the test, and raised again.
    """
    start = time.monotonic()
    try:
        code, verdict, message = run()
    except (CalibrantError, OSError) as error:
        _write(args, "error", "bad input", in_options(str(error)), start)
        raise
    outcome = None if verdict in (None, PASSED) else "failure"
    _write(args, outcome, verdict or "", message, start)
    return code


def _write(
    args: argparse.Namespace, outcome: str | None, type_: str, message: str, start: float
) -> None:
    if args.junit:
        from calibrant._writing import write_whole

        seconds = time.monotonic() - start
        name = f"{args.command} {' '.join(args.files)}"
        write_whole(args.junit, document(name, outcome, type_, message, seconds))


def document(name: str, outcome: str | None, type_: str, message: str, seconds: float) -> str:
    """Return a test suite of one case, which passed unless there is an outcome."""
    took = f"{seconds:.3f}"
    suite = ElementTree.Element("testsuite", name="calibrant", tests="1", skipped="0", time=took)
    suite.set("failures", str(int(outcome == "failure")))
    suite.set("errors", str(int(outcome == "error")))
    case = ElementTree.SubElement(
        suite, "testcase", classname="calibrant", name=_legal(name, LONGEST_NAME), time=took
    )
    text = _legal(message, LONGEST_TEXT)
    if outcome is None:
        ElementTree.SubElement(case, "system-out").text = text
    else:
        head = shortened(text.split("\n")[0], LONGEST_NAME)
        ElementTree.SubElement(case, outcome, type=type_, message=head).text = text
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _legal(text: str, most: int) -> str:
    """Show what XML cannot hold as an escape, and shorten what is endless."""
    shown = NOT_XML.sub(lambda bad: bad[0].encode("unicode_escape").decode(), text)
    return shortened(shown, most)
