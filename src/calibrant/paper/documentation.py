"""The table of claims in the documentation: written from results, never by hand.

``python -m calibrant.paper.documentation results docs/reproducing.md`` puts the claims of a folder
of results between the two markers of a page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from calibrant._writing import write_whole
from calibrant.exceptions import InvalidDocumentError
from calibrant.paper import STUDIES
from calibrant.paper.result import Result
from calibrant.paper.store import Store
from calibrant.paper.verdicts import claim_lines, markdown_table, other_lines, tally

START, END = "<!-- claims -->", "<!-- end of claims -->"


def refreshed(text: str, results: Sequence[Result]) -> str:
    """Return a page with the claims of these results between its markers."""
    pattern = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise InvalidDocumentError(f"The page has no {START} ... {END} to write between.")
    return pattern.sub(lambda _: f"{START}\n{section(results)}\n{END}", text)


def section(results: Sequence[Result]) -> str:
    """Return how the run was made, the table of claims, why some differ, and our own numbers."""
    parts = [_run(results), markdown_table(results), _reasons(results), _ours(results)]
    return "\n\n".join(part for part in parts if part)


def _run(results: Sequence[Result]) -> str:
    if not results:
        return ""
    seeds = sorted({result.seed for result in results})
    versions = ", ".join(f"{name} {value}" for name, value in results[0].versions.items())
    quick = " (quick)" if any(result.quick for result in results) else ""
    lines = claim_lines(results)
    return (
        f"Seed {', '.join(map(str, seeds))}; {len(results)} studies{quick}; {versions}. "
        f"Of {len(lines)} claims {tally(lines)}."
    )


def _reasons(results: Sequence[Result]) -> str:
    """Return the notes of what is not in agreement."""
    lines = [
        f"- {line.study}, {line.statement}: **{line.worded}**. {line.note}"
        for line in claim_lines(results)
        if line.verdict in ("disagree", "varies", "undecided")
    ]
    return "\n".join(("### Where we differ\n", *lines)) if lines else ""


def _ours(results: Sequence[Result]) -> str:
    """Return the numbers of the studies beyond the paper, as a list."""
    lines = [
        f"- {line.study}: {line.statement} {line.ours}"
        + (f" ({line.interval})" if line.interval != "exact" else "")
        for result in results
        if result.study.startswith("beyond-")
        for line in other_lines(result)
    ]
    return "\n".join(("### Beyond the paper\n", *lines)) if lines else ""


def main(folder: str, path: str) -> None:
    """Refresh a page from a folder of results."""
    results = Store(folder).results(list(STUDIES))
    page = Path(path)
    write_whole(page, refreshed(page.read_text(encoding="utf-8"), results))


if __name__ == "__main__":
    main(*sys.argv[1:])
