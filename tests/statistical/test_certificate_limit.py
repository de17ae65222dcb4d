"""The limit that no valid certificate beats, on the page and against the certificates."""

from __future__ import annotations

import math

import pytest
from certificate_limit import DELTA, POWER, limit
from make_certificate_tables import PAGE, parsed, sections


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_an_unseen_output_is_the_limit_where_bins_are_few(n):
    unseen = math.sqrt(1 - (DELTA / POWER) ** (1 / n))
    assert unseen <= limit(n, 10, draws=2_000) <= 1.02 * unseen


@pytest.mark.parametrize("target", ["population", "sample"])
def test_the_page_reports_the_limit(target):
    said = parsed(sections(PAGE.read_text(encoding="utf-8"))["Mean bound, calibrated"])
    row = said[f"no valid method can fall below, {target}"]
    for n, n_bins in ((300, 10), (1_000, 10)):
        fresh = limit(n, n_bins, target, draws=4_000)
        assert row[f"n={n:,} B={n_bins}"][0] == pytest.approx(fresh, rel=0.03)


def test_no_certificate_of_the_page_falls_below_the_limit():
    said = parsed(sections(PAGE.read_text(encoding="utf-8"))["Mean bound, calibrated"])
    for target in ("population", "sample"):
        least = said[f"no valid method can fall below, {target}"]
        for column, (mean, held) in said[f"certificate, {target}"].items():
            assert mean >= 0.9 * least[column][0]  # the limit is one of the median
            assert held >= 0.95
