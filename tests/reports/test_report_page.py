"""What the page holds, how it is built, and that anybody can read it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
import report_data

from calibrant import report

SECTIONS = ["verdict", "diagram", "error", "classes", "selective", "brier", "repair", "rows"]
SECTIONS += ["assumptions", "provenance"]
VOID = {"meta", "br", "wbr", "col", "hr"}
CSS = (files("calibrant.reports") / "templates" / "report.css").read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Tags with their attributes, in order; every tag that is opened must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def named(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


def pages():
    """Yield every kind of report."""
    return [
        report_data.refuted(),
        report_data.certified(),
        report_data.marginal(),
        report_data.hostile(),
        report_data.grouped(),
    ]


def test_the_verdict_comes_first_and_the_rest_in_order():
    outline = Outline(report_data.marginal().html)
    expected = [name for name in SECTIONS if name != "selective"]  # it has no one confidence
    assert [section["id"] for section in outline.named("section")] == expected


def test_a_report_on_one_event_has_no_class_table():
    ids = [section["id"] for section in Outline(report_data.refuted().html).named("section")]
    assert ids == [name for name in SECTIONS if name != "classes"]


@pytest.mark.parametrize("number", range(4))
def test_headings_landmarks_and_names_are_there(number):
    outline = Outline(pages()[number].html)
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert [tag for tag, _ in outline.tags if tag in ("header", "nav", "main", "footer")] == [
        "header", "nav", "main", "footer"
    ]  # fmt: skip
    assert outline.named("html")[0]["lang"] == "en"
    ids = Counter(a["id"] for _, a in outline.tags if "id" in a)
    assert max(ids.values()) == 1
    for _, attributes in outline.tags:
        for name in ("aria-labelledby", "for"):
            assert set((attributes.get(name) or "").split()) <= set(ids)
        assert (attributes.get("href") or "#verdict")[1:] in ids


@pytest.mark.parametrize("number", range(4))
def test_every_picture_has_words_or_is_decoration(number):
    for picture in Outline(pages()[number].html).named("svg"):
        described = picture.get("role") == "img" and {"aria-labelledby", "aria-label"} & set(
            picture
        )
        assert described or picture.get("aria-hidden") == "true"


@pytest.mark.parametrize("number", range(4))
def test_every_table_has_a_caption_and_heads_with_a_scope(number):
    outline = Outline(pages()[number].html)
    assert len(outline.named("caption")) == len(outline.named("table"))
    assert all(head["scope"] in ("col", "row") for head in outline.named("th"))


@pytest.mark.parametrize("number", range(4))
def test_the_policy_allows_this_style_and_this_script_and_nothing_else(number):
    text = pages()[number].html
    policy = next(meta["content"] for meta in Outline(text).named("meta") if meta.get("http-equiv"))
    for tag in ("style", "script"):
        source = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy


@pytest.mark.parametrize("number", range(4))
def test_nothing_is_loaded_and_nothing_runs_but_the_one_script(number):
    outline = Outline(pages()[number].html)
    assert [a.get("type") for a in outline.named("script")] == ["application/json", None]
    assert not outline.named("link", "img", "iframe", "object", "embed", "base", "form", "audio")
    for _, attributes in outline.tags:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "style")
        ]
    assert "://" not in CSS
    assert "@import" not in CSS
    assert "url(" not in CSS


def test_hostile_names_are_text_and_are_bounded():
    text = report_data.hostile().html
    assert "window.harmed" in text
    assert "<script>window" not in text
    assert "<img" not in text
    assert "x" * 4001 not in text
    assert "x" * 49 not in text[: text.index("Made by</h3>")]
    assert "\u202e" not in text
    text.encode("utf-8")


def test_the_same_rows_give_the_same_page(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    rows = report_data.event_rows(300, 1.2, 5)
    assert report(*rows).html == report(*rows).html


def test_saving_replaces_the_whole_file(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old", encoding="utf-8")
    report_data.refuted().save(target)
    assert target.read_text(encoding="utf-8") == report_data.refuted().html
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def luminance(colour: str) -> float:
    """Return the relative luminance of #rgb or #rrggbb, as WCAG 2.2 defines it."""
    digits = colour.lstrip("#")
    digits = "".join(2 * d for d in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_formula_has_its_known_values():
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "print"])
def test_every_colour_of_text_has_enough_contrast_on_every_ground(theme):
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]+);", blocks[theme]))
    text = ["ink", "soft", "accent", "certified", "refuted", "undecided", "measured"]
    assert len(blocks) == 3
    for ground in ("paper", "panel"):
        for name in text:
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def test_text_has_no_colours_besides_the_named_ones():
    rules = re.sub(r":root \{.*?\}", "", CSS, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{3,8}\b(?=;)", rules) == []
    said = set(re.findall(r"(?<![-a-z])color: ([^;]+);", rules))
    assert said <= {"inherit", *(f"var(--{c})" for c in ("ink", "soft", "accent", "tone"))}


def test_motion_is_reduced_for_those_who_ask_for_it():
    assert "prefers-reduced-motion: reduce" in CSS
    assert "animation" not in CSS
    assert "transition" not in CSS


def test_the_templates_are_part_of_the_package():
    assert CSS in report_data.certified().html


def test_the_verdict_card_holds_three_numbers():
    for made in (report_data.refuted(), report_data.certified(), report_data.marginal()):
        card = made.html.split('id="verdict"')[1].split("</section>")[0]
        assert card.count('class="number"') == 3
