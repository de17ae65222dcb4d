"""Pages of a report and of a monitor: one file that needs nothing else, and may load nothing."""

from __future__ import annotations

from importlib.resources import files

from calibrant._clock import now
from calibrant._html import (
    Content,
    Element,
    Embedded,
    bullets,
    element,
    json_data,
    scrolling,
    section,
    short,
    shown,
    table,
)
from calibrant._svg_bars import MOST_BATCHES, timeline
from calibrant._version import __version__
from calibrant.exceptions import EmptyInputError
from calibrant.monitor import CalibrationMonitor
from calibrant.reports import sections
from calibrant.reports.findings import Findings
from calibrant.reports.reliability import class_table, curves_data, groups_of_rows, reliability
from calibrant.reports.verdict import changes, verdict
from calibrant.reports.wording import percent
from calibrant.stats.monitor_records import in_words

TITLE_LENGTH = 120  # three lines of a phone
MOST_LISTED = 60  # batches of a monitor, the last ones: two months of days


def page(findings: Findings, title: str, command: str, columns: str | None, made: str) -> str:
    """Return the report as one HTML document."""
    sections_by_name = {
        "Verdict": verdict(findings),
        "Before and after": changes(findings),
        "Diagram": reliability(findings),
        "Error": sections.error(findings),
        findings.table.problem.parts.capitalize(): class_table(findings),
        "Sure rows": sections.selective(findings),
        "Groups": groups_of_rows(findings),
        "Score": sections.brier(findings),
        "Recalibration": sections.repair(findings),
        "Rows needed": sections.rows_needed(findings),
        "Assumptions": sections.assumptions(findings),
        "Provenance": sections.provenance(findings, command, columns, made),
    }
    parts = {name: part for name, part in sections_by_name.items() if part is not None}
    links = (
        element("a", name, href=f"#{dict(part.attributes)['id']}") for name, part in parts.items()
    )
    return _document(
        "verdict",
        "Calibration report",
        title,
        f"{findings.error.n:,} rows · {made}",
        element("nav", bullets(links), aria_label="Contents"),
        element("main", *parts.values()),
        element("footer", element("p", "Made by calibrant: verified probability calibration.")),
        json_data("curves", curves_data(findings)),
        script=Embedded("script", _template("report.js")),
    )


def _document(
    first: str,
    kicker: str,
    title: str,
    facts: str,
    *body: Content,
    script: Embedded | None = None,
) -> str:
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
        element(
            "body",
            element("a", f"Skip to the {first}", href=f"#{first}", class_="skip"),
            element(
                "header",
                element("p", kicker, class_="kicker"),
                element("h1", shown(title, TITLE_LENGTH)),
                element("p", facts, class_="note"),
            ),
            *body,
            script,
        ),
        lang="en",
    )
    return f"<!doctype html>\n{whole}\n"


def _template(name: str) -> str:
    return (files("calibrant.reports") / "templates" / name).read_text(encoding="utf-8")


def monitor_page(monitor: CalibrationMonitor, title: str = "Is it still calibrated?") -> str:
    """Return a monitor as one HTML page that loads nothing, the alarm first."""
    if not monitor.batches:
        raise EmptyInputError("A page needs a batch; this monitor has none. Call update() first.")
    n = sum(batch.n for batch in monitor.batches)
    made = now().strftime("%d %B %Y").lstrip("0")
    share = percent(1 - monitor.confidence_level)
    promise = (
        "However often it looks, the probability that this monitor ever raises a false alarm is "
        f"at most {share}, if"
    )
    promised = section(
        "assumptions", "What is promised", element("p", promise), bullets(monitor.assumptions)
    )
    return _document(
        "alarm",
        "Calibration monitor",
        title,
        f"{len(monitor.batches):,} batches · {n:,} rows · {made}",
        element("main", _alarm(monitor), _picture(monitor), _batches(monitor), promised),
        element("footer", element("p", f"Made by calibrant {__version__}.")),
    )


def _alarm(monitor: CalibrationMonitor) -> Element:
    lost = "event rates are no longer those of the reference"
    if monitor.max_error is not None:
        lost = f"the calibration error has exceeded {percent(monitor.max_error)}"
    word, sign, tone = ("Alarm", "!", "refuted") if monitor.alarm else ("No alarm", "·", "measured")
    evidence = f"Evidence {in_words(monitor.evidence)}; an alarm needs {monitor.threshold:.3g}."
    if monitor.alarm:
        sentence = f"With {percent(monitor.confidence_level)} confidence {lost}."
        lines = [
            f"Raised at {monitor.alarm_at}; it began at about {monitor.since}.",
            f"What it looks like: {monitor.change}.",
            evidence,
        ]
    else:
        sentence = f"Nothing shows that {lost}."
        lines = [evidence, "No alarm is no proof of calibration: certify gives that."]
    return element(
        "section",
        element(
            "h2",
            element("span", sign, class_="sign", aria_hidden="true"),
            word,
            id="alarm-heading",
        ),
        element("p", sentence, class_="sentence"),
        bullets(lines, class_="meaning"),
        id="alarm",
        class_=f"verdict {tone}",
        aria_labelledby="alarm-heading",
    )


def _picture(monitor: CalibrationMonitor) -> Element:
    cut = len(monitor.batches) > MOST_BATCHES
    which = f" The last {MOST_BATCHES:,} batches are shown." if cut else ""
    note = (
        f"Above, the l2 error of each batch by itself with its {percent(monitor.confidence_level)} "
        "interval: one batch has too few rows to tell much. Below, the evidence of all batches "
        "together, on a logarithmic scale; crossing the line is an alarm. The ground is shaded "
        f"from where the change seems to have begun; a dotted line is a restart.{which}"
    )
    picture = timeline(monitor.batches, monitor.max_error, monitor.threshold, monitor.since)
    return section(
        "time", "Over time", element("figure", picture), element("p", note, class_="note")
    )


def _batches(monitor: CalibrationMonitor) -> Element:
    recent = monitor.batches[-MOST_LISTED:]
    rows = (
        (
            shown(batch.name),
            f"{batch.n:,}",
            percent(batch.events / batch.n),
            percent(batch.mean_prediction),
            percent(batch.error),
            f"{percent(batch.low)} to {percent(batch.high)}",
            in_words(batch.evidence),
            "alarm" if batch.alarm else "",
        )
        for batch in reversed(recent)
    )
    heads = ("batch", "rows", "happened", "predicted", "error", "interval", "evidence", "")
    caption = f"The last {len(recent):,} batches, the newest first"
    return section("batches", "Batches", scrolling(caption, table(caption, heads, rows), "tall"))
