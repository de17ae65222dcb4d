"""JUnit XML for systems that show test results: a test case for a command, and for each group."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from calibrant.cli.messages import in_options
from calibrant.cli.output import shortened
from calibrant.exceptions import CalibrantError

LONGEST_NAME, LONGEST_TEXT = 200, 10_000
"""So that a page of test results stays readable whatever the files are called."""
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
PASSED = "certified"
"""A verdict that passes; any other is a failure of that type."""


class Case(NamedTuple):
    """A test case: it passed unless `outcome` is "failure" or "error", of type `kind`."""

    name: str
    outcome: str | None
    kind: str
    message: str


class Outcome(NamedTuple):
    """How a command ended; its verdict is None where there is none.

    `groups` has the name, the verdict and the message of every group that has its own.
    """

    code: int
    verdict: str | None
    message: str
    groups: Sequence[tuple[str, str | None, str]] = ()


def add_junit_argument(command: argparse.ArgumentParser) -> None:
    """Add --junit."""
    command.add_argument(
        "--junit",
        metavar="FILE",
        help="write the outcome as JUnit XML, for a CI system",
    )


def reported(args: argparse.Namespace, run: Callable[[], Outcome]) -> int:
    """Run a command and, if --junit was given, write how it ended.

    An exception for bad input is written as an error of the test, and raised again.
    """
    start = time.monotonic()
    name = f"{args.command} {' '.join(args.files)}"
    try:
        code, verdict, message, groups = run()
    except (CalibrantError, OSError) as error:
        _write(args, [Case(name, "error", "bad input", in_options(str(error)))], start)
        raise
    cases = [_judged(name, verdict, message)]
    cases += [_judged(f"{name}: {group}", own, said) for group, own, said in groups]
    _write(args, cases, start)
    return code


def _judged(name: str, verdict: str | None, message: str) -> Case:
    outcome = None if verdict in (None, PASSED) else "failure"
    return Case(name, outcome, verdict or "", message)


def _write(args: argparse.Namespace, cases: Sequence[Case], start: float) -> None:
    if args.junit:
        from calibrant._writing import write_whole

        write_whole(args.junit, document(cases, time.monotonic() - start))


def document(cases: Sequence[Case], seconds: float) -> str:
    """Return a test suite; all of its time was taken by the first case."""
    count = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
        "skipped": 0,
    }
    took = f"{seconds:.3f}"
    suite = ElementTree.Element("testsuite", name="calibrant", time=took)
    for number, (name, outcome, kind, message) in enumerate(cases):
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname="calibrant",
            name=_legal(name, LONGEST_NAME),
            time=took if number == 0 else "0.000",
        )
        text = _legal(message, LONGEST_TEXT)
        if outcome is None:
            ElementTree.SubElement(case, "system-out").text = text
        else:
            head = shortened(text.split("\n")[0], LONGEST_NAME)
            ElementTree.SubElement(case, outcome, type=kind, message=head).text = text
    for name, number in count.items():
        suite.set(name, str(number))
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _legal(text: str, most: int) -> str:
    """Show what XML cannot hold as an escape, and shorten what is endless."""
    shown = NOT_XML.sub(lambda bad: bad[0].encode("unicode_escape").decode(), text)
    return shortened(shown, most)
