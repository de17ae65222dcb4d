"""The results as a page of HTML, with every figure in it, and as a page of the documentation.

``python -m calibrant.paper.page results docs/reproducing.md`` puts the claims of a folder of
results between the two markers of a page of documentation, where nothing is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calibrant._html import Content, Element, Embedded, bullets, element, png_image
from calibrant._writing import write_whole
from calibrant.exceptions import InvalidDocumentError
from calibrant.paper.claims import (
    HOW_JUDGED,
    NOT_RUN,
    Line,
    claim_lines,
    lines_of,
    other_lines,
    tally,
)
from calibrant.paper.study import StudyResult

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: CanvasText; background: Canvas; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem;
  border-bottom: 1px solid #8884; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
.verdict { font-weight: 600; }
.agree::before { content: "✓ "; } .disagree::before { content: "✗ "; }
.undecided::before { content: "? "; } .varies::before { content: "± "; }
.cannot::before { content: "– "; }
.beyond::before { content: "+ "; }
.agree { color: #1a7f37; } .disagree { color: #c0392b; }
.note { font-size: 0.85rem; opacity: 0.8; }
.badge { font-size: 0.75rem; border: 1px solid currentColor; border-radius: 1rem;
  padding: 0.1rem 0.6rem; margin-left: 0.6rem; vertical-align: middle; }
figure { margin: 1rem 0; background: #fff; padding: 0.5rem; border-radius: 4px; overflow-x: auto; }
figure img { max-width: 100%; height: auto; display: block; margin: auto; }
.wide { overflow-x: auto; }
details { margin: 0.5rem 0; } summary { cursor: pointer; }
@media (max-width: 40rem) { body { font-size: 14px; } }
"""

HEAD = ("the paper says", "paper", "ours", "90% interval", "verdict")
START, END = "<!-- claims -->", "<!-- end of claims -->"


def page(results: Sequence[StudyResult], figures: Mapping[str, bytes]) -> str:
    """Return the HTML of all results; `figures` holds the PNG of each by stem."""
    claims, quick = claim_lines(results), sum(result.quick for result in results)
    warning = (
        f"{quick} of {len(results)} studies ran quickly, with fewer repeats than the paper's: "
        "their numbers are rough."
    )
    rules: Iterable[Content] = (
        [element("strong", name), f": {text}."] for name, text in HOW_JUDGED
    )
    document = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", "The paper again"),
            Embedded("style", STYLE),
        ),
        element(
            "body",
            element("h1", "The paper again"),
            element(
                "p",
                "Experiments of ",
                element("cite", "Verified Uncertainty Calibration"),
                f" (Kumar, Liang, Ma, 2019), run again. Of {len(claims)} claims {tally(claims)}.",
            ),
            element("p", element("strong", warning)) if quick else None,
            element("h2", "Every claim", id="claims"),
            _table(claims, with_study=True),
            element("section", element("h2", "How a verdict is reached"), bullets(rules)),
            *(_section(result, figures.get(result.stem)) for result in results),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{document}\n"


def _table(lines: Sequence[Line], *, with_study: bool) -> Element:
    head = (("study",) if with_study else ()) + HEAD
    table = element(
        "table",
        element("thead", element("tr", *(element("th", name) for name in head))),
        element("tbody", *(_row(line, with_study) for line in lines)),
    )
    return element("div", table, class_="wide")


def _row(line: Line, with_study: bool) -> Element:
    source: Content = None
    if line.source:
        source = [" ", element("span", f"({line.source})", class_="note")]
    note = element("div", line.note, class_="note") if line.note else None
    verdict = element("span", line.worded, class_=f"verdict {line.verdict.split()[0]}")
    numbers = (line.paper, line.ours, line.interval)
    return element(
        "tr",
        element("td", line.study) if with_study else None,
        element("td", line.statement, source, note),
        *(element("td", number, class_="number") for number in numbers),
        element("td", verdict),
    )


def _section(result: StudyResult, figure: bytes | None) -> list[Content]:
    name, data = result.stem, result.data
    badges = [("beyond the paper", _is_beyond(result)), ("quick", result.quick)]
    shown = (element("span", text, class_="badge") for text, is_so in badges if is_so)
    settings = ", ".join(f"{key} = {value}" for key, value in result.settings.items())
    versions = ", ".join(f"{key} {value}" for key, value in result.versions.items())
    source = data and (
        f"Predictions: {data['name']}, {data['n']:,} x {data['n_classes']:,}, "
        f"{data['accuracy']:.2%} right. "
    )
    return [
        element("h2", name, *shown, id=name),
        None if figure is None else element("figure", png_image(figure, name)),
        _table(lines_of(result), with_study=False),
        element(
            "p",
            f"{source or ''}Seed {result.seed}, {result.seconds:,.1f} s. {settings}. {versions}. "
            f"Numbers: {name}.json, {name}.csv.",
            class_="note",
        ),
    ]


def _is_beyond(result: StudyResult) -> bool:
    return result.study.startswith("beyond-")


def refreshed(text: str, results: Sequence[StudyResult]) -> str:
    """Return a page with the claims of these results between its markers."""
    pattern = re.compile(f"{re.escape(START)}.*?{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise InvalidDocumentError(f"The page has no {START} ... {END} to write between.")
    return pattern.sub(lambda _: f"{START}\n{documentation(results)}\n{END}", text)


def documentation(results: Sequence[StudyResult]) -> str:
    """Return the settings of the run, the claims, reasons for differences, and our own numbers."""
    claims, parts = claim_lines(results), []
    if results:
        seeds = ", ".join(map(str, sorted({result.seed for result in results})))
        versions = ", ".join(f"{name} {value}" for name, value in results[0].versions.items())
        quick = " (quick)" if any(result.quick for result in results) else ""
        parts.append(
            f"Seed {seeds}; {len(results)} studies{quick}; {versions}. Of {len(claims)} claims "
            f"{tally(claims)}."
        )
    rules = "\n".join(f"- *{name}*: {text}." for name, text in HOW_JUDGED)
    parts += [f"How a verdict is reached:\n\n{rules}", markdown_table(results)]
    reasons = [
        f"- {line.study}, {line.statement}: **{line.worded}**. {line.note}"
        for line in claims
        if line.verdict in ("disagree", "varies", "undecided")
    ]
    ours = [
        f"- {line.study}: {line.statement} {line.ours}"
        + (f" ({line.interval})" if line.interval != "exact" else "")
        for result in results
        if _is_beyond(result)
        for line in other_lines(result)
    ]
    for heading, lines in (("Where we differ", reasons), ("Beyond the paper", ours)):
        if lines:
            parts.append("\n".join((f"### {heading}\n", *lines)))
    return "\n\n".join(parts)


def markdown_table(results: Sequence[StudyResult]) -> str:
    """Return the table of claims for a page of documentation."""
    names = ("study", *HEAD)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    for line in claim_lines(results):
        verdict = f"**{line.verdict}**{line.worded.removeprefix(line.verdict)}"
        if line.verdict == NOT_RUN:
            verdict = f"{line.verdict} {line.note}"
        lines.append(
            f"| {line.study} | {line.statement} ({line.source}) | {line.paper} | {line.ours} | "
            f"{line.interval} | {verdict} |"
        )
    return "\n".join(lines)


def main(folder: str, path: str) -> None:
    """Refresh a page of documentation from a folder of results."""
    from calibrant.paper import STUDIES
    from calibrant.paper.batch import Store

    results = Store(folder).results(list(STUDIES))
    text = Path(path).read_text(encoding="utf-8")
    write_whole(path, refreshed(text, results))


if __name__ == "__main__":
    main(*sys.argv[1:])
