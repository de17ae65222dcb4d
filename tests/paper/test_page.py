"""The page of results, and the claims in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibrant.exceptions import InvalidDocumentError
from calibrant.paper import CLAIMS, run
from calibrant.paper.page import END, START, page, refreshed
from calibrant.paper.study import StudyResult

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproducing.md"


def test_the_claims_are_written_between_the_markers():
    text = refreshed(f"before\n{START}stale{END}\nafter", [run("example-3-1")])
    assert text.startswith("before\n")
    assert text.endswith("\nafter")
    assert "stale" not in text
    assert text.count("\n| ") == len(CLAIMS) + 1
    assert "| 0.502 | exact | **agree** |" in text
    assert "Seed 0; 1 studies" in text


def test_a_page_without_markers_is_refused():
    with pytest.raises(InvalidDocumentError, match="no <!-- claims -->"):
        refreshed("nothing", [])


def test_the_page_says_seed_and_duration_of_a_full_run():
    text = PAGE.read_text(encoding="utf-8")
    inside = text.split(START)[1].split(END)[0]
    assert "Seed 0; 15 studies; calibrant" in inside
    assert re.search(r"\d+ s of processor time", text)
    assert "(quick)" not in inside


def test_the_page_escapes_names_and_needs_no_network():
    hostile = '<script>alert("x")</script>'
    data = {"name": hostile, "dataset": "d", "n": 1, "n_classes": 2, "accuracy": 0.5, "digest": ""}
    result = StudyResult(
        "lower-bounds",
        {"norm": hostile},
        0,
        True,
        data,
        {"calibrant": hostile},
        1.0,
        run("example-3-1").output,
    )
    html = page([result], {result.stem: b"\x89PNG"})
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    linked = re.findall(r"""(?:src|href)=["']?([^"' >]*)""", html)
    assert linked
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in linked)
    assert "http" not in html
    assert "ran quickly" in html


def test_every_claim_is_on_the_page_even_if_nothing_ran():
    html = page([], {})
    assert html.count("cannot be checked") >= 40
    assert "ImageNet predictions (50,000 x 1,000)" in html
