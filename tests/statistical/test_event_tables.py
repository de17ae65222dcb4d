"""What docs/coverage.md says of labels, ordered classes and quantiles is what was simulated."""

from __future__ import annotations

import make_event_tables as made
import numpy as np
import pytest

PAGE = made.PAGE.read_text(encoding="utf-8").split(made.START)[1].split(made.END)[0]


def rows():
    lines = [line.strip("|").split("|") for line in PAGE.strip().splitlines()[2:]]
    return {line[0].strip(): [float(cell) for cell in line[1:]] for line in lines}


def test_intervals_cover_and_bounds_hold_whatever_the_dependence():
    table = rows()
    assert len(table) == len(made.CASES) * len(made.POWERS)
    for name, shares in table.items():
        assert min(shares[:2]) >= 0.95 - 0.015 - 3 * np.sqrt(0.05 * 0.95 / made.RUNS), name
        assert min(shares[2:]) >= 0.9 - 3 * np.sqrt(0.1 * 0.9 / made.PROOFS), name


@pytest.mark.slow
@pytest.mark.parametrize("case", made.CASES)
def test_the_page_reports_what_a_fresh_simulation_gives(case):
    said = rows()[f"{case}, calibrated"]
    found = made.shares(case, 1.0, 100, 3, seed=1)
    assert found[:2] == pytest.approx(said[:2], abs=0.08)
