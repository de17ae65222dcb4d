"""What commands that end with a verdict share: question, answer, exit code, and JUnit XML.

A suite, for systems that show test results, has a test case for the command and for each group.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

from calibrant.cli import OK, REFUTED, UNDECIDED
from calibrant.cli.output import emit, in_options, say, shortened
from calibrant.cli.parser import NORMS, fraction
from calibrant.exceptions import CalibrantError

EXIT = {"certified": OK, "refuted": REFUTED, "undecided": UNDECIDED}
LONGEST_NAME, LONGEST_TEXT = 200, 10_000
"""So that a page of test results stays readable whatever the files are called."""
NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
PASSED = "certified"
"""A verdict that passes; any other is a failure of that type."""


def add_question_arguments(command: argparse.ArgumentParser, example: str) -> None:
    """Add --max-error, --norm and --target."""
    command.add_argument(
        "--max-error",
        metavar="ERROR",
        type=fraction,
        required=True,
        help=f"the largest error that passes, such as {example}",
    )
    command.add_argument(
        "--norm", choices=NORMS, default="l2", help="l1 (ECE), l2 or max (MCE) (default l2)"
    )
    command.add_argument(
        "--target",
        choices=("population", "sample"),
        default="population",
        help="the error in the population (the default), or on inputs like these rows",
    )


def question(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_question_arguments` and --confidence-level were set to."""
    names = ("max_error", "norm", "confidence_level", "target")
    return {name: getattr(args, name) for name in names}


def add_answer_arguments(command: argparse.ArgumentParser, what: str) -> None:
    """Add --output, --junit and --json."""
    command.add_argument("-o", "--output", metavar="FILE", help=f"save {what}")
    add_junit_argument(command)
    command.add_argument("--json", action="store_true", help="print JSON")


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
    except (CalibrantError, OSError, MemoryError) as error:  # all that ends as bad input
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
