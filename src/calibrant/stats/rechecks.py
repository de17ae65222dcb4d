"""Rechecks: a certificate against its own table, and its table against rows counted again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._digests import Digests
from calibrant._results import Result, filled
from calibrant._table_checks import rounding_of
from calibrant._version import __version__
from calibrant.stats.questions import ASKED
from calibrant.stats.verdicts import Verdict, in_present_words
from calibrant.table import SUMS, BinTable, describe_bins

if TYPE_CHECKING:
    from calibrant.stats.certificates import Certificate

QUESTION = ("n", *ASKED, "class_weights")
CLAIMS = ("verdict", "upper_bound", "lower_bound", *QUESTION, "method", "assumptions")


@dataclass(frozen=True, repr=False)
class Recheck(Result):
    """Whether a certificate agrees with its table, and with rows if there were any.

    Attributes
    ----------
    agrees : bool
        Also the truth value.
    differences : tuple of str
        What the document says, and what it should say.
    certificate : Certificate or None
        What the table proves; None if nothing can be computed from it.
    scope : {"table", "counts", "rows"}
        What was compared: the document with its own table; that, and its table with rows counted
        again; that, and the digest of these rows too.
    notes : tuple of str
        What could not be compared, and why.
    """

    agrees: bool
    differences: tuple[str, ...]
    certificate: Certificate | None
    scope: str = "table"
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.agrees

    def _summary(self) -> str:
        if not self.agrees:
            return "does NOT agree: " + "; ".join(self.differences)
        findings = {"table": "", "counts": ", and the rows give this table"}
        finding = findings.get(self.scope, ", and these are its rows")
        return f"agrees: the table proves what the certificate says{finding}"

    def __str__(self) -> str:
        return "\n".join(map(filled, [self._summary(), *(f"note: {x}" for x in self.notes)]))


def differing_claims(document: Certificate, again: Certificate, reason: str) -> Iterator[str]:
    """Yield the claims of a document that differ from those its table proves.

    `reason` is the reason in the document's own bounds, which may differ in the last digit.
    """
    yield from _differing(document, again, CLAIMS)
    if document.reason not in (again.reason, reason):
        yield _differs("reason", document.reason, again.reason, 300)


def unproved_claims(
    document: Certificate, again: Certificate, judged: tuple[Verdict | None, str], claim: str
) -> Iterator[str]:
    """Yield what a document of another version claims beyond what its table proves here.

    `judged` are the verdict and the reason of the document's own bounds, which may be looser than
    ours, and `claim` is the reason without advice, which is not part of the claim and
    may be worded differently.
    """
    verdict, reason = judged
    yield from _differing(document, again, QUESTION)
    for name, sign in (("upper_bound", 1), ("lower_bound", -1)):
        claimed, proved = getattr(document, name), getattr(again, name)
        if sign * claimed < sign * proved and not _agree(claimed, proved):
            yield f"{name} is {claimed!r} in the document, more than its table proves: {proved!r}"
    if document.verdict != verdict:
        yield _differs("verdict", document.verdict, verdict, 40, "by its own bounds")
    text = in_present_words(document.reason)
    if text not in (claim, reason) and not (verdict == "undecided" and text.startswith(claim)):
        yield _differs("reason", document.reason, reason, 300, "by its own bounds")
    if [in_present_words(claimed) for claimed in document.assumptions] != again.assumptions:
        yield _differs("assumptions", document.assumptions, again.assumptions)


def _differing(document: Certificate, again: Certificate, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        claimed, computed = getattr(document, name), getattr(again, name)
        if not _agree(claimed, computed):
            yield _differs(name, claimed, computed)


def _differs(
    name: str, claimed: Any, computed: Any, most: int = 200, source: str = "from its table"
) -> str:
    return f"{name} is {claimed!r:.{most}} in the document and {computed!r:.{most}} {source}"


def version_notes(document: Certificate, again: Certificate) -> Iterator[str]:
    """Yield what another version stated differently, though no more than is proved."""
    yield f"it says that calibrant {document.version} made it; this is {__version__}"
    for name in ("upper_bound", "lower_bound", "verdict"):
        claimed, proved = getattr(document, name), getattr(again, name)
        if not _agree(claimed, proved):
            yield f"{name} is {claimed!r} in the document; this version proves {proved!r}"
    texts = [name for name in ("reason", "method", "assumptions")
             if getattr(document, name) != getattr(again, name)]  # fmt: skip
    if texts:
        yield f"worded otherwise by this version: {', '.join(texts)}"


def differing_tables(own: BinTable, counted: BinTable) -> Iterator[str]:
    """Yield how the table of a certificate differs from its rows counted again."""
    if own.problem != counted.problem:
        yield f"the rows pose another problem: {counted.problem}, the certificate {own.problem}"
        return
    if own.bins != counted.bins:
        yield (
            f"the rows were counted in other bins: {describe_bins(counted)}, the certificate has "
            f"{describe_bins(own)}"
        )
        return
    if own.n != counted.n:
        yield f"the table has {own.n:,} rows, the data {counted.n:,}"
    for name in (*SUMS, "level"):
        ours, theirs = getattr(own, name), getattr(counted, name)
        slack = 0.0 if name in ("count", "sum_y", "level") else rounding_of(own.count)
        same = np.abs(ours - theirs) <= slack * np.maximum(ours, theirs)
        wrong = ~(same | (np.isnan(ours) & np.isnan(theirs)))
        if wrong.any():
            group, place = (int(i) for i in np.argwhere(wrong)[0])
            where = f"bin {place + 1}" + (
                f" of {own.problem.part} {group + 1}" if own.n_groups > 1 else ""
            )
            yield (
                f"{name} differs in {int(wrong.sum()):,} bins (first: {where} has "
                f"{ours[group, place]:.10g} in the table and {theirs[group, place]:.10g} in the "
                "data)"
            )


def compared_digests(own: Digests, found: Digests) -> tuple[list[str], list[str], bool]:
    """Return what differs, what could not be compared, and whether the rows are known to be these.

    The digest of rows is that of the rows before the recalibrator, where there is one: it says
    nothing if only the answers of the recalibrator are there.
    """
    differences, notes = [], []
    if own.recalibrator != found.recalibrator and found.recalibrator is not None:
        differences.append(
            "the certificate was made without a recalibrator"
            if own.recalibrator is None
            else "the certificate was made with another recalibrator"
        )
    only_answers = own.recalibrator is not None and found.recalibrator is None
    if only_answers:
        notes.append(
            "the certificate was made with a recalibrator, which was not given: its digest of "
            "rows, taken before that was applied, was not compared"
        )
    elif own.rows is None or found.rows is None:
        holder = "the certificate carries" if own.rows is None else "this data source has"
        notes.append(f"{holder} no digest of rows: only counts and sums were compared")
    elif own.rows != found.rows:
        differences.append("the digest of these rows is another: they are not the rows counted")
    if own.columns is not None and found.columns not in (None, own.columns):
        differences.append("the columns have other names")
    return differences, notes, not only_answers and None not in (own.rows, found.rows)


def _agree(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    return bool(a == b)
