"""What docs/coverage.md says of decisions, scores, quantiles and others is what was simulated."""

from __future__ import annotations

import re

import make_interval_tables as made
import numpy as np
import pytest

PAGE = made.PAGE.read_text(encoding="utf-8")
AGAIN = {  # sections with cells that are cheap to draw anew, and how many samples
    "Decision curves": (("too high", "3%", 300), 200),
    "Selective prediction": (("rare, 3%", 100), 200),
    "Mean scores": (("RPS, three of four classes rare", 200), 200),
    "Quantiles: coverage and PIT": (("5 levels", "calibrated", 100), 200),
    "Label shift": (("p^1.3", "estimated rate", 300), 20),
    "Comparisons": (("too extreme", "25%", 300), 200),
    "Cox's line": (("calibrated", "3%", 300), 200),
    "Bounds without bins": (("calibrated", "25%", 100), 100),
    "Batches of a monitor": (("too extreme", "25%", 300), 100),
    "Audits": (("p^1.3", 300), 10),
}


def tables():
    """Return by its title how many samples a table has, and its rows."""
    found = {}
    for part in PAGE.split(made.START)[1].split(made.END)[0].split("### ")[1:]:
        title, *lines = part.splitlines()
        cells = [line.strip("|").split("|") for line in lines if line.startswith("| ")][1:]
        rows = {
            name.strip(): [float(x) for cell in rest for x in cell.split(" / ")]
            for name, *rest in cells
        }
        (samples,) = re.findall(r"([\d,]+) samples a cell", part)
        found[title] = int(samples.replace(",", "")), rows
    return found


def test_the_page_has_every_section_and_row():
    found = tables()
    assert list(found) == list(made.SECTIONS) == list(AGAIN)
    for title, section in made.SECTIONS.items():
        assert list(found[title][1]) == [section.name(cell) for cell in section.cells]


@pytest.mark.parametrize("title", made.SECTIONS)
def test_intervals_cover_where_they_do_not_say_otherwise(title):
    samples, rows = tables()[title]
    least = 0.95 - 0.015 - 3 * np.sqrt(0.05 * 0.95 / samples)
    for name, shares in rows.items():
        judged = shares
        if title == "Mean scores":
            share, noted, either = shares
            judged = [share, either] if noted < 0.5 else [either]
        elif title.startswith("Quantiles") and "too narrow" in name:
            judged, pit = shares[:2], shares[2:]
            assert pit[0] < pit[1] or pit[0] < 0.01  # beyond some band, as they should be
        assert min(judged) >= least, name


@pytest.mark.parametrize("title", AGAIN)
def test_other_draws_agree_with_the_page(title):
    cell, runs = AGAIN[title]
    section = made.SECTIONS[title]
    _, rows = tables()[title]
    said = np.array(rows[section.name(cell)])
    again = section.share(*cell, runs=runs, seed=1_000)
    noise = 4.5 * np.sqrt(np.maximum(said * (1 - said), 0.01) / runs)
    assert np.all(np.abs(again - said) <= noise), (again, said)
