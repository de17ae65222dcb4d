"""Bounds from exact tails at any number of rows, and how little work they take."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.stats import tail_bounds
from calibrant.stats.evidence import Evidence, Setting
from calibrant.stats.tail_bounds import TailTests, sharp_lower_bound, sharp_upper_bound
from calibrant.stats.tail_tuning import Squared
from calibrant.stats.tails import Tail

S = np.array([0.005, 0.1, 0.3, 0.5, 0.7, 0.9, 0.995])


def evidence(n, off, noise=0.0):
    """Return bins of n rows whose event rates are off, and vary by so many standard deviations."""
    size = np.full(S.size, float(n // S.size))
    signs = np.where(np.arange(S.size) % 2, -1.0, 1.0)
    rate = S + signs * (off + noise * np.sqrt(S * (1 - S) / size))
    rate = np.clip(np.where(rate > 1, 2 * S - rate, rate), 0.0, 1.0)
    return Evidence(int(size.sum()), size, np.rint(rate * size) / size, S, np.ones(7), 7, S)


@pytest.mark.parametrize(("n", "off", "least"), [(10**5, 0.05, 0.04), (10**8, 0.004, 0.0037)])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_models_far_off_are_bounded_from_below_however_little_labels_vary(n, off, least, target):
    # bins whose labels hardly vary are 60 standard deviations wide and more
    assert least < sharp_lower_bound(evidence(n, off), Setting(target, 0.05), Squared) < off


def test_no_tails_are_prepared_for_lower_bounds_of_rows_that_look_calibrated(monkeypatch):
    monkeypatch.setattr(Tail, "of", None)
    for target in ("population", "sample"):
        assert sharp_lower_bound(evidence(10**6, 0, 0.8), Setting(target, 0.05), Squared) == 0.0


def test_ranges_are_searched_not_tried_one_by_one(monkeypatch):
    looked = []
    real = TailTests.log_bounds

    def counting(tests, tail, tested):
        looked.append(tested)
        return real(tests, tail, tested)

    monkeypatch.setattr(tail_bounds.TailTests, "log_bounds", counting)
    bound = sharp_upper_bound(evidence(10**6, 0, 0.9), Setting("population", 0.05), Squared)
    assert len(looked) <= 12
    lasts = [tested for tested in looked if tested.lo <= bound <= tested.hi]
    assert lasts  # the bound is that of a range that was looked at
