"""Repeated rows: how often honest rows raise a warning, and how often copies do."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.recalibrators import Fingerprint
from calibrant.recalibrators.certifying import EqualPairs

pytestmark = pytest.mark.slow

DRAWS = 100


def scores(rng, n, population):
    p = rng.beta(1.2, 0.8, size=n)
    if population.startswith("digits"):
        return np.round(p, int(population[-1]))
    if population == "saturated":
        return np.where(rng.uniform(size=n) < 0.05, 1.0, p)
    return p.astype(np.float16).astype(np.float64) if population == "float16" else p


def rows(rng, n, population):
    p = scores(rng, n, population)
    return p, (rng.uniform(size=n) < p).astype(int)


POPULATIONS = ["digits 1", "digits 2", "digits 3", "digits 4", "saturated", "float16", "continuous"]


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("sizes", [(200, 200), (100, 5000), (5000, 100), (2000, 2000)], ids=str)
def test_honest_rows_raise_no_warning(population, sizes):
    """Seen: none of 5,600 draws, twice as many as here."""
    rng = np.random.default_rng(7)
    for _ in range(DRAWS):
        fit, fresh = (Fingerprint.of(*rows(rng, n, population)) for n in sizes)
        pairs = EqualPairs.between(fit, fresh)
        assert not pairs.are_repeated
        assert not (pairs.are_shared and fit.overlap(fresh) > 0.1)


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("sizes", [(200, 200), (1000, 5000), (5000, 1000), (5000, 20_000)], ids=str)
def test_copies_of_unique_rows_raise_one(copies, sizes):
    """Seen: all of 1,600 draws; the estimate of the copies is within a fifth."""
    rng = np.random.default_rng(7)
    for _ in range(DRAWS):
        p, y = rows(rng, sizes[1] // copies, "continuous")
        copied = Fingerprint.of(np.tile(p, copies), np.tile(y, copies))
        pairs = EqualPairs.between(Fingerprint.of(*rows(rng, sizes[0], "continuous")), copied)
        assert pairs.are_repeated
        assert pairs.copies == pytest.approx(copies, rel=0.2)
