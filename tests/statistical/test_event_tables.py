"""What docs/coverage.md says of labels, ordered classes and quantiles is what was simulated."""

from __future__ import annotations

import make_event_tables as made
import numpy as np
import pytest
from blocks import samples_of

PAGE = made.PAGE.read_text(encoding="utf-8")


def rows():
    body = PAGE.split(made.START)[1].split(made.END)[0].splitlines()
    lines = [line.strip("|").split("|") for line in body if line.startswith("| ")]
    return {line[0].strip(): [float(cell) for cell in line[1:]] for line in lines[1:]}


def test_intervals_cover_and_bounds_hold_whatever_the_dependence():
    table = rows()
    runs, proofs = samples_of(PAGE, made.START, made.END)
    assert len(table) == len(made.CASES) * len(made.POWERS)
    for name, shares in table.items():
        assert min(shares[:2]) >= 0.95 - 0.015 - 3 * np.sqrt(0.05 * 0.95 / runs), name
        assert min(shares[2:]) >= 0.9 - 3 * np.sqrt(0.1 * 0.9 / proofs), name


@pytest.mark.slow
@pytest.mark.parametrize("case", made.CASES)
def test_the_page_reports_what_a_fresh_simulation_gives(case):
    said = rows()[f"{case}, calibrated"]
    found = made.shares(case, 1.0, made.covered, 100, seed=1000)
    assert found == pytest.approx(said[:2], abs=0.08)
