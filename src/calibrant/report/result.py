"""What `report` returns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from calibrant.files import write_whole
from calibrant.report.findings import Findings
from calibrant.report.wording import verdict_of


@dataclass(frozen=True, eq=False)
class Report:
    """A calibration report.

    Attributes
    ----------
    html : str
        The page: one document that loads nothing and can be read without a script.
    findings : Findings
        The numbers on the page.
    """

    findings: Findings
    html: str = field(repr=False)

    @property
    def summary(self) -> str:
        """The verdict and what it means, in a few lines of plain text."""
        verdict = verdict_of(self.findings)
        return "\n".join([f"{verdict.word.capitalize()}: {verdict.sentence}", *verdict.meaning])

    def __str__(self) -> str:
        return self.summary

    def __repr__(self) -> str:
        return f"<Report: {self.summary.splitlines()[0]}>"

    def _repr_html_(self) -> str:
        """Show the summary in a notebook; a page inside a page would lose its own policy."""
        from calibrant.report.markup import element

        return str(element("pre", self.summary))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page; the file is replaced whole or not at all."""
        write_whole(path, self.html)
