"""The page of results: one HTML file with every figure in it, and no network."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from calibrant.paper.claims import RULES, SPLITS
from calibrant.paper.result import Result
from calibrant.paper.verdicts import Line, claim_lines, lines_of, tally

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


def page(results: Sequence[Result], figures: Mapping[str, bytes]) -> str:
    """Return the HTML of all results; `figures` holds the PNG of each by stem."""
    claims = claim_lines(results)
    body = "\n".join(
        (
            "<h1>The paper again</h1>",
            _introduction(results, claims),
            "<h2 id='claims'>Every claim</h2>",
            _table(claims, with_study=True),
            _rules(),
            *(_section(result, figures.get(result.stem)) for result in results),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>The paper again</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )


def _introduction(results: Sequence[Result], claims: Sequence[Line]) -> str:
    quick = sum(result.quick for result in results)
    warning = (
        f"<p><strong>{quick} of {len(results)} studies ran quickly, with fewer repeats than the "
        "paper's: their numbers are rough.</strong></p>"
        if quick
        else ""
    )
    return (
        "<p>Experiments of <cite>Verified Uncertainty Calibration</cite> (Kumar, Liang, Ma, 2019), "
        f"run again. Of {len(claims)} claims {tally(claims)}.</p>{warning}"
    )


def _rules() -> str:
    items = "".join(
        f"<li><strong>{escape(name)}</strong>: {escape(text)}.</li>" for name, text in RULES.items()
    )
    items += f"<li><strong>splits</strong>: {escape(SPLITS)}.</li>"
    return f"<details><summary>How a verdict is reached</summary><ul>{items}</ul></details>"


def _table(lines: Sequence[Line], *, with_study: bool) -> str:
    head = "".join(f"<th>{name}</th>" for name in (("study",) if with_study else ()) + HEAD)
    rows = "".join(_row(line, with_study) for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _row(line: Line, with_study: bool) -> str:
    study = f"<td>{escape(line.study)}</td>" if with_study else ""
    source = f' <span class="note">({escape(line.source)})</span>' if line.source else ""
    note = f'<div class="note">{escape(line.note)}</div>' if line.note else ""
    kind = line.verdict.split()[0]
    return (
        f"<tr>{study}<td>{escape(line.statement)}{source}{note}</td>"
        f'<td class="number">{escape(line.paper)}</td><td class="number">{escape(line.ours)}</td>'
        f'<td class="number">{escape(line.interval)}</td>'
        f'<td><span class="verdict {kind}">{escape(line.worded)}</span></td></tr>'
    )


def _section(result: Result, figure: bytes | None) -> str:
    name = escape(result.stem)
    data = result.data
    said = (
        f"Predictions: {escape(str(data['name']))}, {data['n']:,} x {data['n_classes']:,}, "
        f"{data['accuracy']:.2%} right. "
        if data
        else ""
    )
    beyond = '<span class="badge">beyond the paper</span>' if _is_beyond(result) else ""
    quick = '<span class="badge">quick</span>' if result.quick else ""
    settings = ", ".join(f"{key} = {value}" for key, value in result.settings.items())
    versions = ", ".join(f"{key} {value}" for key, value in result.versions.items())
    return (
        f"<h2 id='{name}'>{name}{beyond}{quick}</h2>{_image(result, figure)}"
        f"{_table(lines_of(result), with_study=False)}"
        f'<p class="note">{said}Seed {result.seed}, {result.seconds:,.1f} s. {escape(settings)}. '
        f"{escape(versions)}. Numbers: {name}.json, {name}.csv.</p>"
    )


def _is_beyond(result: Result) -> bool:
    return result.study.startswith("beyond-")


def _image(result: Result, figure: bytes | None) -> str:
    if figure is None:
        return ""
    data = base64.b64encode(figure).decode("ascii")
    return f'<figure><img alt="{escape(result.stem)}" src="data:image/png;base64,{data}"></figure>'
