"""The page of a monitor: is there an alarm, and how did it come about."""

from __future__ import annotations

from calibrant._clock import now
from calibrant._html import Element, element, scrolling, shown, table
from calibrant._svg_bars import MOST_BATCHES, timeline
from calibrant._version import __version__
from calibrant.exceptions import EmptyInputError
from calibrant.monitor import CalibrationMonitor
from calibrant.reports.page import TITLE_LENGTH, document
from calibrant.reports.sections import section
from calibrant.reports.wording import percent
from calibrant.stats.monitor_records import in_words

MOST_LISTED = 60
"""Batches in the table, the last ones: two months of days."""


def monitor_page(monitor: CalibrationMonitor, title: str = "Is it still calibrated?") -> str:
    """Return a monitor as one HTML page that loads nothing, the alarm first."""
    if not monitor.batches:
        raise EmptyInputError("A page needs a batch; this monitor has none. Call update() first.")
    n = sum(batch.n for batch in monitor.batches)
    made = now().strftime("%d %B %Y").lstrip("0")
    facts = f"{len(monitor.batches):,} batches · {n:,} rows · {made}"
    return document(
        title,
        element("a", "Skip to the alarm", href="#alarm", class_="skip"),
        element(
            "header",
            element("p", "Calibration monitor", class_="kicker"),
            element("h1", shown(title, TITLE_LENGTH)),
            element("p", facts, class_="note"),
        ),
        element("main", _alarm(monitor), _picture(monitor), _batches(monitor), _promise(monitor)),
        element("footer", element("p", f"Made by calibrant {__version__}.")),
    )


def _question(monitor: CalibrationMonitor) -> str:
    if monitor.max_error is None:
        return "event rates are no longer those of the reference"
    return f"the calibration error has exceeded {percent(monitor.max_error)}"


def _alarm(monitor: CalibrationMonitor) -> Element:
    level = percent(monitor.confidence_level)
    word, sign, tone = ("Alarm", "!", "refuted") if monitor.alarm else ("No alarm", "·", "measured")
    evidence = f"Evidence {in_words(monitor.evidence)}; an alarm needs {monitor.threshold:.3g}."
    if monitor.alarm:
        sentence = f"With {level} confidence {_question(monitor)}."
        lines = [
            f"Raised at {monitor.alarm_at}; it began at about {monitor.since}.",
            f"What it looks like: {monitor.change}.",
            evidence,
        ]
    else:
        sentence = f"Nothing shows that {_question(monitor)}."
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
        element("ul", *(element("li", line) for line in lines), class_="meaning"),
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
    return section(
        "batches",
        "Batches",
        scrolling(caption, table(caption, heads, rows), "tall"),
    )


def _promise(monitor: CalibrationMonitor) -> Element:
    share = percent(1 - monitor.confidence_level)
    text = (
        "However often it looks, the probability that this monitor ever raises a false alarm is "
        f"at most {share}, if"
    )
    return section(
        "assumptions",
        "What is promised",
        element("p", text),
        element("ul", *(element("li", line) for line in monitor.assumptions)),
    )
