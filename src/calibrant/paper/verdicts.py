"""Every claim of the paper beside what was found: the lines of the table of claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.paper.claims import CLAIMS, Claim, Finding, Verdict, judge, show, splits_held, worded
from calibrant.paper.result import Result

NOT_RUN: Verdict = "cannot be checked"


@dataclass(frozen=True)
class Line:
    """One line: what the paper says, what came out, and the verdict.

    `splits` is in how many splits of the data the claim holds, and `worded` the verdict with that.
    """

    study: str
    source: str
    statement: str
    paper: str
    ours: str
    interval: str
    verdict: Verdict
    splits: str
    worded: str
    note: str


def claim_lines(results: Sequence[Result]) -> list[Line]:
    """Return a line for every claim of the paper, in its order."""
    return [_claim_line(claim, results) for claim in CLAIMS]


def other_lines(result: Result) -> list[Line]:
    """Return the findings of a result about which the paper says nothing."""
    return [
        Line(result.study, "", finding.statement, "", *_ours(finding, finding.unit),
             "beyond the paper", "", "beyond the paper", finding.note)
        for finding in result.output.findings
        if finding.statement and not any(_speaks_of(c, result, finding.key) for c in CLAIMS)
    ]  # fmt: skip


def lines_of(result: Result) -> list[Line]:
    """Return the claims that a result checks, then its other findings."""
    checked = [
        _claim_line(claim, [result])
        for claim in CLAIMS
        if any(_speaks_of(claim, result, finding.key) for finding in result.output.findings)
    ]
    return checked + other_lines(result)


def _speaks_of(claim: Claim, result: Result, key: str) -> bool:
    dataset = result.data and result.data["dataset"]
    return (claim.study, claim.key) == (result.study, key) and claim.dataset in (None, dataset)


def _claim_line(claim: Claim, results: Sequence[Result]) -> Line:
    for result in results:
        for finding in result.output.findings:
            if _speaks_of(claim, result, finding.key):
                return Line(
                    claim.study, claim.source, _statement(claim), claim.paper,
                    *_ours(finding, claim.unit), judge(claim, finding),
                    splits_held(claim, finding), worded(claim, finding), finding.note,
                )  # fmt: skip
    why = f"without {claim.missing}" if claim.missing else f"until {claim.study} has run"
    return Line(
        claim.study, claim.source, _statement(claim), claim.paper, "", "", NOT_RUN, "",
        NOT_RUN, why,
    )  # fmt: skip


def _statement(claim: Claim) -> str:
    named = {"cifar10": "CIFAR-10: ", "imagenet": "ImageNet: "}
    return named.get(claim.dataset or "", "") + claim.statement


def _ours(finding: Finding, unit: str) -> tuple[str, str]:
    found = finding.estimate
    interval = f"{show(found.low, unit)} to {show(found.high, unit)}"
    return show(found.value, unit), interval if finding.repeats else "exact"


def markdown_table(results: Sequence[Result]) -> str:
    """Return the table of claims for a page of documentation."""
    names = ("study", "the paper says", "paper", "ours", "90% interval", "verdict")
    head = f"| {' | '.join(names)} |\n|{'---|' * len(names)}"
    lines = [
        f"| {line.study} | {line.statement} ({line.source}) | {line.paper} | {line.ours} | "
        f"{line.interval} | {_verdict(line)} |"
        for line in claim_lines(results)
    ]
    return "\n".join((head, *lines))


def _verdict(line: Line) -> str:
    if line.verdict == NOT_RUN:
        return f"{line.verdict} {line.note}"
    return f"**{line.verdict}**{line.worded.removeprefix(line.verdict)}"


def tally(lines: Sequence[Line]) -> str:
    """Return how many claims have each verdict, in words."""
    verdicts: tuple[Verdict, ...] = ("agree", "disagree", "varies", "undecided", NOT_RUN)
    names: dict[Verdict, str] = {"varies": "vary with the split", "undecided": "are undecided"}
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in verdicts}
    return ", ".join(
        f"{count} {names.get(verdict, verdict)}" for verdict, count in counts.items() if count
    )
