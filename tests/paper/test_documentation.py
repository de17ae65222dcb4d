"""The page of documentation is written from results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibrant.exceptions import InvalidDocumentError
from calibrant.paper import CLAIMS, run
from calibrant.paper.documentation import END, START, refreshed

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
