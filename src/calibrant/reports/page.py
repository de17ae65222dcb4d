"""The page: one file that needs nothing else, and may load nothing else."""

from __future__ import annotations

from importlib.resources import files

from calibrant._html import Content, Element, Embedded, element, json_data, short, shown
from calibrant._version import __version__
from calibrant.reports import sections
from calibrant.reports.findings import Findings
from calibrant.reports.groups import groups_of_rows
from calibrant.reports.reliability import class_table, curves_data, reliability
from calibrant.reports.repaired import changes
from calibrant.reports.verdict import verdict

TITLE_LENGTH = 120  # three lines of a phone


def page(findings: Findings, title: str, command: str, columns: str | None, made: str) -> str:
    """Return the report as one HTML document."""
    parts = _parts(findings, command, columns, made)
    return document(
        title,
        element("a", "Skip to the verdict", href="#verdict", class_="skip"),
        element("header", _heading(findings, title, made)),
        _contents(parts, findings.table.problem.parts.capitalize()),
        element("main", *parts),
        element("footer", element("p", "Made by calibrant: verified probability calibration.")),
        json_data("curves", curves_data(findings)),
        script=Embedded("script", _template("report.js")),
    )


def document(title: str, *body: Content, script: Embedded | None = None) -> str:
    """Return an HTML document that may load nothing, in the style of reports."""
    style = Embedded("style", _template("report.css"))
    policy = (
        f"default-src 'none'; style-src {style.digest}; "
        f"script-src {script.digest if script else repr('none')}; "
        "base-uri 'none'; form-action 'none'"
    )
    whole = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=policy),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="referrer", content="no-referrer"),
            element("meta", name="generator", content=f"calibrant {__version__}"),
            element("title", short(title, TITLE_LENGTH)),
            style,
        ),
        element("body", *body, script),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def _template(name: str) -> str:
    return (files("calibrant.reports") / "templates" / name).read_text(encoding="utf-8")


def _heading(findings: Findings, title: str, made: str) -> list[Element]:
    return [
        element("p", "Calibration report", class_="kicker"),
        element("h1", shown(title, TITLE_LENGTH)),
        element("p", f"{findings.error.n:,} rows · {made}", class_="note"),
    ]


def _parts(findings: Findings, command: str, columns: str | None, made: str) -> list[Element]:
    parts = [
        verdict(findings),
        changes(findings),
        reliability(findings),
        sections.error(findings),
        class_table(findings),
        sections.selective(findings),
        groups_of_rows(findings),
        sections.brier(findings),
        sections.repair(findings),
        sections.rows_needed(findings),
        sections.assumptions(findings),
        sections.provenance(findings, command, columns, made),
    ]
    return [part for part in parts if part is not None]


def _contents(parts: list[Element], classes: str) -> Element:
    names = {
        "verdict": "Verdict",
        "changed": "Before and after",
        "diagram": "Diagram",
        "error": "Error",
        "classes": classes,
        "selective": "Sure rows",
        "groups": "Groups",
        "brier": "Score",
        "repair": "Recalibration",
        "rows": "Rows needed",
        "assumptions": "Assumptions",
        "provenance": "Provenance",
    }
    links = [str(dict(part.attributes)["id"]) for part in parts]
    return element(
        "nav",
        element("ul", *(element("li", element("a", names[x], href=f"#{x}")) for x in links)),
        aria_label="Contents",
    )
