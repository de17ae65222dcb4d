"""The page of a monitor: what it says, and that it fits desktops and phones."""

from __future__ import annotations

import re

import numpy as np
import pytest
from test_report_browser import browser as browser  # a fixture

import calibrant as cb
from calibrant.exceptions import EmptyInputError
from calibrant.reports.page import monitor_page


def watched(days, shift_from=10**9, n=400, **options):
    rng = np.random.default_rng(1)
    monitor = cb.CalibrationMonitor(**(options or {"max_error": 0.02}))
    for day in range(days):
        p = rng.beta(2, 3, size=n)
        rate = np.clip(p + 0.15 * (day >= shift_from), 0, 1)
        monitor.update(rng.uniform(size=n) < rate, p, name=f"2026-03-{day + 1:02d} <&>")
    return monitor


def text_of(page):
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page))


def test_without_an_alarm_the_page_claims_nothing():
    text = text_of(monitor_page(watched(3)))
    assert "Nothing shows that the calibration error has exceeded 2%." in text
    assert "No alarm is no proof of calibration" in text
    assert "ever raises a false alarm is at most 5%" in text


def test_an_alarm_comes_first_and_names_are_escaped():
    page = monitor_page(watched(12, shift_from=6), title="churn <model>")
    text = text_of(page)
    assert "With 95% confidence the calibration error has exceeded 2%." in text
    assert "it began at about 2026-03-07 &lt;&amp;&gt;." in text
    assert "churn &lt;model&gt;" in text
    assert "<&>" not in page


def test_a_reference_is_named():
    rng = np.random.default_rng(2)
    p = rng.beta(2, 3, size=5000)
    reference = cb.tabulate(rng.uniform(size=5000) < p, p, bins=10)
    text = text_of(monitor_page(watched(2, reference=reference)))
    assert "Nothing shows that event rates are no longer those of the reference." in text


@pytest.mark.parametrize("days", [1, 2, 80, 81])
def test_any_number_of_batches_is_drawn(days):
    page = monitor_page(watched(days, n=50))
    assert page.count("<svg ") == 1
    assert ('class="band"' in page) == (days > 80)
    assert "NaN" not in page
    assert " nan" not in page


def test_restarts_are_drawn_and_a_page_needs_a_batch():
    monitor = watched(3)
    monitor.restart()
    rng = np.random.default_rng(3)
    p = rng.beta(2, 3, size=400)
    monitor.update(rng.uniform(size=400) < p, p)
    assert 'class="diagonal"' in monitor_page(monitor)
    with pytest.raises(EmptyInputError, match="needs a batch"):
        monitor_page(cb.CalibrationMonitor(0.1))


@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_fits_the_screen_and_loads_nothing(browser, tmp_path, width):
    path = tmp_path / "page.html"
    path.write_text(monitor_page(watched(40, shift_from=30)), encoding="utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    seen, complaints = [], []
    page.on("request", lambda request: seen.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    cut = "[...document.querySelectorAll('.scroll')].filter(x => x.scrollWidth > x.clientWidth)"
    assert page.evaluate(f"{cut}.length") == 0
    box = page.locator("svg.timeline").bounding_box()
    assert box["width"] > 0.75 * min(width, 62 * 16) - 60
    sentence, meaning = (
        page.locator(f".verdict .{name}").bounding_box() for name in ("sentence", "meaning")
    )
    assert meaning["x"] == sentence["x"]
    assert meaning["y"] > sentence["y"] + sentence["height"]
    context.close()
    assert seen == [path.as_uri()]
    assert complaints == []
