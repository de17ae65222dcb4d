"""The page in a real browser: Chromium, headless, with and without its script."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import contextmanager

import pytest
import report_data

from conftest import optional

sync_api = optional("playwright.sync_api")

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PARTS = ["band", "bars", "points", "filled", "events", "others"]
DRAWN = "names => names.map(n => document.querySelector(`#diagram-svg .${n}`).getAttribute('d'))"
FAINT_TEXT = """() => {
  const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const linear = channels(colour).slice(0, 3).map((c) => {
      const part = c / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = (node) => {
    for (let each = node; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if ((channels(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  let seen = 0;
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
    if (!own || !node.getClientRects().length || node.closest("script, option, title, desc")) continue;
    const style = getComputedStyle(node);
    const colour = node.namespaceURI.endsWith("svg") ? style.fill : style.color;
    const [a, b] = [luminance(colour), luminance(ground(node))].sort((x, y) => y - x);
    seen += 1;
    if ((a + 0.05) / (b + 0.05) < 4.5) faint.push([node.outerHTML.slice(0, 80), colour]);
  }
  return { faint, seen };
}"""


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("CI needs chromium: apt-get install chromium")
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield running
        running.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open a report; afterwards nothing may have been complained about, loaded or run."""

    @contextmanager
    def open_report(report, **options):
        target = tmp_path / "report.html"
        report.save(target)
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        page = context.new_page()
        complaints, requests = [], []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message) or dialog.dismiss())
        context.on("request", lambda request: requests.append(request.url))
        page.goto(target.as_uri())
        yield page
        context.close()
        assert complaints == []
        assert requests == [target.as_uri()]

    return open_report


def drawn(page) -> list[str]:
    return page.evaluate(DRAWN, PARTS)


def embedded_curves(page) -> list[dict]:
    """Return what Python drew and wrote of each curve of the switch."""
    return json.loads(page.locator("#curves").text_content())


def test_pointing_at_a_group_reads_out_its_numbers(opened):
    report = report_data.refuted()
    with opened(report) as page:
        curve = report.findings.curve.alone
        page.locator("#diagram-svg").scroll_into_view_if_needed()
        box = page.locator("#diagram-svg").bounding_box()
        left, top, width, _ = map(
            float, page.locator("#diagram-svg").get_attribute("viewBox").split()
        )
        path = page.locator("#diagram-svg .inner").get_attribute("d")
        x, y = (float(v) for v in re.findall(r"M(\d+) (\d+)h0", path)[-1])
        scale = box["width"] / width
        page.mouse.move(box["x"] + (x - left) * scale, box["y"] + (y - top) * scale)
        said = page.locator("#readout").inner_text()
        assert f"{curve.count[-1]:,.0f}" in said
        assert f"{100 * curve.mean_prediction[-1]:.1f}".removesuffix(".0") + "%" in said
        line = page.locator("#diagram-svg .here")
        assert line.get_attribute("visibility") == "visible"
        assert line.get_attribute("transform") == f"translate({x:g})"


@pytest.mark.parametrize("name", ["refuted", "marginal", "certified"])
def test_the_readout_begins_with_the_worst_group(opened, name):
    report = getattr(report_data, name)()
    with opened(report) as page:
        curve = report.findings.curves[0]
        said = page.locator("#readout").inner_text()
        assert "The group that matters most" in said
        assert f"{curve.alone.count[curve.worst]:,.0f}" in said
        assert page.locator("#diagram-svg .here").get_attribute("visibility") == "visible"
        if report.findings.classes is not None:
            page.select_option("#switch", "3")
            said = page.locator("#readout").inner_text()
            curve = report.findings.curves[3]
            assert f"{curve.alone.count[curve.worst]:,.0f}" in said


def test_a_phone_says_tap_and_a_mouse_says_point(opened):
    with opened(report_data.refuted()) as page:
        assert "Point at a group" in page.locator(".readout").inner_text()
    with opened(report_data.refuted(), viewport={"width": 390, "height": 800}) as page:
        assert "Tap a group" in page.locator(".readout").inner_text()


@pytest.mark.parametrize("name", ["refuted", "marginal", "grouped", "rare", "repaired"])
def test_no_table_is_cut_on_a_phone(opened, name):
    cut = "() => [...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth)"
    with opened(getattr(report_data, name)(), viewport={"width": 390, "height": 800}) as page:
        page.locator("summary").click()
        assert max(page.evaluate(cut)) <= 0


def test_names_of_recalibrators_are_not_broken_on_a_phone(opened):
    lines = "() => [...document.querySelectorAll('tbody th > code')].map(e => [e.textContent, e.getClientRects().length])"
    with opened(report_data.refuted(), viewport={"width": 390, "height": 800}) as page:
        found = dict(page.evaluate(lines))
    assert found["TemperatureScaling()"] == 1
    assert set(found.values()) == {1}


def test_arrow_keys_walk_through_the_groups(opened):
    report = report_data.refuted()
    with opened(report) as page:
        page.locator("#diagram-svg").focus()
        page.keyboard.press("ArrowRight")
        first = page.locator("#readout").inner_text()
        page.keyboard.press("ArrowRight")
        second = page.locator("#readout").inner_text()
        page.keyboard.press("ArrowLeft")
        assert page.locator("#readout").inner_text() == first != second
        page.keyboard.press("End")
        assert (
            f"{report.findings.curve.alone.right[-1]:.4g}" in page.locator("#readout").inner_text()
        )
        page.keyboard.press("Escape")
        assert "The group that matters most" in page.locator("#readout").inner_text()


def test_the_switch_draws_each_class_as_python_would(opened):
    report = report_data.marginal()
    with opened(report) as page:
        curves = embedded_curves(page)
        before = drawn(page)
        assert before == list(curves[0]["paths"].values())
        for i in (5, 3, 0):
            page.select_option("#switch", str(i))
            assert drawn(page) == list(curves[i]["paths"].values())
            assert (
                page.locator("#diagram-svg .tick-5").all_text_contents()
                == [curves[i]["ticks"][5]] * 2
            )
            assert page.locator("#diagram-description").text_content() == curves[i]["description"]
            rows = page.locator("#bin-table tbody tr")
            assert rows.count() == len(report.findings.classes.curves[i])
        assert drawn(page) == before


def test_the_script_writes_the_same_numbers_as_the_page(opened):
    with opened(report_data.marginal()) as page:
        page.locator("summary").click()
        before = page.locator("#bin-table tbody").inner_text()
        page.select_option("#switch", "2")
        assert page.locator("#bin-table tbody").inner_text() != before
        page.select_option("#switch", "0")
        assert page.locator("#bin-table tbody").inner_text() == before


def test_a_name_in_the_table_shows_its_class(opened):
    report = report_data.marginal()
    with opened(report) as page:
        page.locator("#class-table tbody button").nth(4).click()
        name = str(report.findings.classes.labels[4])
        assert page.locator("#switch").input_value() == "4"
        assert name in page.locator("#shown-name").text_content()


def test_answers_come_before_the_classes_in_the_switch(opened):
    with opened(report_data.hostile()) as page:
        page.locator("#class-table tbody button").nth(2).click()
        assert page.locator("#switch").input_value() == "3"
        assert page.locator("#switch option").first.inner_text() == "All answers"
        assert page.locator("#diagram-svg .axis-x").text_content() == "said →"
        page.select_option("#switch", "0")
        assert page.locator("#diagram-svg .axis-x").text_content() == "confidence →"
        assert page.locator("#bin-table thead").text_content().count("was right") == 1


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_the_table_sorts_by_keyboard(opened, key):
    report = report_data.marginal()
    with opened(report) as page:
        column = page.locator("#class-table tbody tr > :first-child")
        worst_first = [str(label) for label in report.findings.classes.labels]
        assert column.all_inner_texts() == worst_first
        head = page.locator("#class-table thead th").first
        head.locator("button").focus()
        page.keyboard.press(key)
        assert column.all_inner_texts() == sorted(worst_first)
        assert head.get_attribute("aria-sort") == "ascending"
        page.keyboard.press(key)
        assert column.all_inner_texts() == sorted(worst_first, reverse=True)
        assert page.locator("[aria-sort]").count() == 1


def test_the_table_sorts_by_mouse_and_by_number(opened):
    report = report_data.marginal()
    with opened(report) as page:
        page.locator("#class-table thead button").nth(1).click()
        shown = page.locator("#class-table tbody tr > :nth-child(2)").all_inner_texts()
        assert shown == ["5", "4", "3", "2", "1", "0"]


def test_after_sorting_a_name_still_shows_its_own_class(opened):
    report = report_data.marginal()
    with opened(report) as page:
        page.locator("#class-table thead button").first.click()
        page.locator("#class-table tbody button", has_text="eel").click()
        assert "eel" in page.locator("#shown-name").text_content()


def test_everything_can_be_read_without_the_script(opened):
    report = report_data.marginal()
    with opened(report, java_script_enabled=False) as page:
        assert page.locator(".sentence").inner_text().startswith("In groups of similar")
        assert page.locator("#class-table tbody tr").count() == 6
        assert page.locator("#diagram-svg .inner").get_attribute("d").startswith("M")
        assert not page.locator("#switch").is_visible()
        assert not page.locator("#readout").is_visible()
        page.locator("summary").click()
        assert page.locator("#bin-table").is_visible()


@pytest.mark.parametrize("script", [True, False])
@pytest.mark.parametrize("width", [360, 1280])
def test_hostile_names_do_no_harm(opened, width, script):
    size = {"width": width, "height": 800}
    with opened(report_data.hostile(), viewport=size, java_script_enabled=script) as page:
        if script:
            for i in range(len(report_data.HOSTILE) + 1):
                page.select_option("#switch", str(i))
            assert page.evaluate("window.harmed") is None
        assert page.locator("body script:not([type])").count() == 1
        assert page.locator("img, iframe, form, body style").count() == 0
        assert page.locator("main > section").count() == 10
        box = page.locator("body").bounding_box()
        assert box["width"] <= width


def test_markup_that_got_past_the_escaping_would_still_be_stopped(browser, tmp_path):
    intruder = (
        "<script>window.harmed = true</script><img src='http://127.0.0.1:9/x' "
        "onerror='window.harmed = true'><style>main { display: none }</style><footer>"
    )
    target = tmp_path / "report.html"
    text = report_data.certified().html.replace("<footer>", intruder)
    target.write_text(text, encoding="utf-8")
    page = browser.new_page()
    failures, complaints = [], []
    page.on("requestfinished", lambda request: failures.append(None))
    page.on("requestfailed", lambda request: failures.append(request.failure))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(target.as_uri())
    assert page.evaluate("window.harmed") is None
    assert page.locator("main").is_visible()
    assert failures == [None, "csp"]
    assert sum("Content Security Policy" in each for each in complaints) >= 3
    page.close()


@pytest.mark.parametrize("width", [360, 390, 768, 1280])
@pytest.mark.parametrize("name", ["refuted", "marginal", "hostile", "grouped", "repaired"])
def test_the_page_is_never_wider_than_the_window(opened, name, width):
    report = getattr(report_data, name)()
    with opened(report, viewport={"width": width, "height": 800}) as page:
        page.locator("summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["refuted", "certified", "marginal", "grouped", "repaired"])
def test_all_text_that_is_shown_has_enough_contrast(opened, name, scheme):
    with opened(getattr(report_data, name)(), color_scheme=scheme) as page:
        page.locator("summary").click()
        found = page.evaluate(FAINT_TEXT)
        assert found["seen"] > 80
        assert found["faint"] == []


def test_dark_and_light_follow_the_reader(opened):
    grounds = []
    for scheme in ("light", "dark"):
        with opened(report_data.refuted(), color_scheme=scheme) as page:
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(253, 252, 250)", "rgb(20, 24, 28)"]


@pytest.mark.parametrize("name", ["refuted", "marginal"])
def test_the_page_prints_to_pdf(opened, name):
    with opened(getattr(report_data, name)(), color_scheme="dark") as page:
        document = page.pdf(format="A4", print_background=True)
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        assert not page.locator("nav").is_visible()
    assert document.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", document)) <= 8


def test_headings_can_be_reached_and_every_control_by_tab(opened):
    with opened(report_data.marginal()) as page:
        reached = set()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate("document.activeElement.id || document.activeElement.tagName")
            )
        assert {"switch", "diagram-svg", "BUTTON", "SUMMARY", "A"} <= reached
