"""The page on coverage says what simulations of scores and grades give, and nothing is too short."""

from __future__ import annotations

import numpy as np
import pytest
from blocks import samples_of
from make_score_tables import END, PAGE, START, corp_shares, grade_shares, skill_shares


def cells():
    """Yield (table, row, numbers) of the page."""
    title = ""
    for line in PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0].splitlines():
        if line.startswith("### "):
            title = line[4:]
        elif line.startswith("| ") and not line.startswith(("| |", "| obligors")):
            first, *rest = (part.strip() for part in line.strip("|").split("|"))
            n = rest.pop(0) if title != "Grades" else first
            numbers = [float(x) for part in rest for x in part.split(" / ")]
            yield title, first, int(n.replace(",", "")), numbers


def test_no_interval_of_the_page_covers_less_than_it_should():
    found = list(cells())
    titles = ("Skill scores", "CORP", "Grades")
    assert {title for title, *_ in found} == set(titles)
    samples = samples_of(PAGE.read_text(encoding="utf-8"), START, END)
    for title, row, n, numbers in found:
        noise = 3 * np.sqrt(0.05 * 0.95 / samples[titles.index(title)])
        assert min(numbers) >= 0.935 - noise, (title, row, n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "title", "row", "n", "runs"),
    [
        (
            lambda: skill_shares("spread", 400, "brier", 150, seed=1000),
            "Skill scores",
            "spread",
            400,
            150,
        ),
        (lambda: corp_shares("p^1.5", 200, 100, seed=1000), "CORP", "p^1.5", 200, 100),
        (lambda: grade_shares(100, 100, seed=1000), "Grades", "2,900", 2900, 100),
    ],
    ids=["skill", "CORP", "grades"],
)
def test_other_draws_agree_with_the_page(shares, title, row, n, runs):
    printed = next(x for t, r, m, x in cells() if (t, r, m) == (title, row, n))
    again = shares()
    noise = 4 * np.sqrt(0.05 * 0.95 / runs)
    assert np.abs(again - printed[: again.size]).max() <= noise
