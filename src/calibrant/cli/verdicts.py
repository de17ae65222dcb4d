"""What commands that end with a verdict share: question, answer, exit code, and JUnit XML.

A suite, for systems that show test results, has a test case for the command and for each group.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple
from xml.etree import ElementTree

from calibrant.cli import OK, REFUTED, UNDECIDED
from calibrant.cli.output import emit, in_options, say, shortened
from calibrant.cli.parser import add_option, add_options
from calibrant.exceptions import CalibrantError

EXIT = {"certified": OK, "refuted": REFUTED, "undecided": UNDECIDED}
LONGEST_NAME, LONGEST_TEXT = 200, 10_000
"""So that a page of test results stays readable whatever the files are called."""
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
QUESTION = ("max_error", "norm", "confidence_level", "target")
"""Options that say what is certified, by the names of the library."""


def add_question_options(command: argparse.ArgumentParser, example: str) -> None:
    """Add --max-error, --norm and --target."""
    largest = f"the largest error that passes, such as {example}"
    add_option(command, "--max-error", required=True, help=largest)
    add_options(command, "--norm")
    command.add_argument(
        "--target",
        choices=("population", "sample"),
        default="population",
        help="the error in the population (the default), or on inputs like these rows",
    )


def question(args: argparse.Namespace) -> dict[str, Any]:
    """Return what is certified, as keywords of the library."""
    return {name: getattr(args, name) for name in QUESTION}


class Outcome(NamedTuple):
    """How a command ended; its verdict is None where there is none.

    `groups` has the name, the verdict and the message of every group that has its own.
    """

    code: int
    verdict: str | None
    message: str
    groups: Sequence[tuple[str, str | None, str]] = ()


def answer(
    args: argparse.Namespace,
    result: Any,
    text: str,
    groups: Sequence[tuple[str, str | None, str]] = (),
) -> Outcome:
    """Save and print a result, as the text or as JSON, and return how the command ends."""
    from calibrant._writing import write_whole

    if args.output:
        write_whole(args.output, result.to_json())
    if args.json:
        emit(result.to_json())
    else:
        say(text)
    return Outcome(EXIT[result.verdict or "undecided"], result.verdict, text, groups)


def reported(run: Callable[[argparse.Namespace], Outcome]) -> Callable[[argparse.Namespace], int]:
    """Return the exit code of a command and, if --junit was given, write how it ended.

    An exception for bad input is written as an error of the test, and raised again.
    """

    @wraps(run)
    def told(args: argparse.Namespace) -> int:
        from calibrant._writing import write_whole

        start = time.monotonic()
        name, cases = f"{args.command} {' '.join(args.files)}", []
        try:
            code, verdict, message, groups = run(args)
            cases = [Case(name, verdict, message)]
            cases += [Case(f"{name}: {group}", judged, text) for group, judged, text in groups]
        except (CalibrantError, OSError, MemoryError) as error:  # all that ends as bad input
            cases = [Case(name, "bad input", in_options(str(error)), "error")]
            raise
        finally:
            if args.junit and cases:
                write_whole(args.junit, document(cases, time.monotonic() - start))
        return code

    return told


class Case(NamedTuple):
    """A test case: it passed with the verdict "certified" or none, unless it is an error."""

    name: str
    verdict: str | None
    message: str
    otherwise: str = "failure"

    @property
    def outcome(self) -> str | None:
        """The element of a case that did not pass: failure or error."""
        return None if self.verdict in (None, "certified") else self.otherwise


def document(cases: Sequence[Case], seconds: float) -> str:
    """Return a test suite; all of its time was taken by the first case."""
    outcomes = [case.outcome for case in cases]
    took = f"{seconds:.3f}"
    suites = ElementTree.Element("testsuites")
    count = {
        "tests": str(len(cases)),
        "failures": str(outcomes.count("failure")),
        "errors": str(outcomes.count("error")),
        "skipped": "0",
    }
    about = {"name": "calibrant", "time": took} | count
    suite = ElementTree.SubElement(suites, "testsuite", about)
    for number, (case, outcome) in enumerate(zip(cases, outcomes, strict=True)):
        about = {"classname": "calibrant", "name": _legal(case.name, LONGEST_NAME)}
        about["time"] = "0.000" if number else took
        node = ElementTree.SubElement(suite, "testcase", about)
        text = _legal(case.message, LONGEST_TEXT)
        if outcome is None:
            ElementTree.SubElement(node, "system-out").text = text
        else:
            head = shortened(text.split("\n")[0], LONGEST_NAME)
            attributes = {"type": str(case.verdict), "message": head}
            ElementTree.SubElement(node, outcome, attributes).text = text
    ElementTree.indent(suites)
    body = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _legal(text: str, most: int) -> str:
    """Escape characters that XML cannot hold, and shorten long text."""
    shown = NOT_XML.sub(lambda bad: bad[0].encode("unicode_escape").decode(), text)
    return shortened(shown, most)
