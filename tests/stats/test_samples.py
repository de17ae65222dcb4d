"""Rows of one event: what weights and clusters do to the variance of an estimate."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.samples import Atoms, Sample, cumulative_differences, is_contradicted, kuiper

RNG = np.random.default_rng(2)
P = RNG.uniform(size=120).round(1)
Y = (RNG.uniform(size=120) < P).astype(float)
W = RNG.uniform(0.5, 2, size=120)
CLUSTER = np.arange(120) // 5


def test_the_variance_of_independent_rows_is_that_of_a_mean():
    sample = Sample.of(Y, P)
    spread = (Y - P) - (Y - P).mean()
    assert sample.variance(spread) == pytest.approx(spread.var(ddof=1) / 120)
    assert sample.is_plain
    assert sample.effective_n == sample.kish_n == 120


def test_the_variance_of_clusters_is_that_of_their_sums():
    sample, spread = Sample.of(Y, P, W, CLUSTER), Y - P
    sums = [float((W * spread)[c == CLUSTER].sum()) for c in range(24)]
    assert sample.variance(spread) == pytest.approx(np.square(sums).sum() / W.sum() ** 2 * 24 / 23)
    place = np.arange(120) % 3
    full = sample.scatter(place, 3, spread)
    assert full.sum() == pytest.approx(sample.variance(spread) * 120**2)
    alone = Sample.of(Y, P, W)
    assert alone.scatter(place, 3, spread).sum() * 120 / 119 == pytest.approx(
        alone.variance(spread) * 120**2
    )


def test_a_row_three_times_in_its_cluster_counts_once():
    three = Sample.of(*(np.repeat(x, 3) for x in (Y, P, W)), np.repeat(np.arange(120), 3))
    once = Sample.of(Y, P, W)
    assert three.n_clusters == 120
    assert three.kish_n == pytest.approx(once.kish_n)
    assert three.effective_n == pytest.approx(once.effective_n)
    assert three.rate_limits(0.95) == pytest.approx(once.rate_limits(0.95))


def test_rows_of_no_weight_are_left_out_with_their_clusters():
    weight = np.where(CLUSTER < 4, 0.0, W)
    sample = Sample.of(Y, P, weight, CLUSTER)
    assert (len(sample), sample.n_clusters) == (100, 20)
    assert sample.weight.mean() == pytest.approx(1)
    assert sample.mean(sample.y) == pytest.approx(np.average(Y, weights=weight))


def test_a_table_of_distinct_predictions_is_its_rows():
    table = cb.tabulate(Y, P, bins="distinct")
    atoms, again = Atoms.of(table), Atoms.of(Y, P)
    for name in ("p", "count", "events"):
        assert getattr(atoms, name) == pytest.approx(getattr(again, name))
    sample = Sample.of_table(table)
    assert (len(sample), sample.events) == (120, Y.sum())
    assert sample.mean(sample.y - sample.p) == pytest.approx((Y - P).mean())
    with pytest.raises(ex.InvalidArgumentError, match="different predictions in one bin"):
        Atoms.of(cb.tabulate(Y, P, bins=2))
    with pytest.raises(ex.InvalidArgumentError, match="has sample weights"):
        Atoms.of(cb.tabulate(Y, P, bins="distinct", sample_weight=W))


def test_what_had_no_chance_and_happened_is_a_contradiction():
    assert is_contradicted(Atoms.of(np.array([1.0, 0]), np.array([0.0, 0.5])))
    assert is_contradicted(Atoms.of(np.array([0.0, 0]), np.array([1.0, 0.5])))
    assert not is_contradicted(Atoms.of(np.array([0.0, 1]), np.array([0.0, 1.0])))


def test_cumulative_differences_end_at_the_mean_and_their_range_holds_0():
    s = cumulative_differences(Atoms.of(Y, P))
    assert s[-1] == pytest.approx((Y - P).mean())
    assert kuiper(s) >= np.abs(s).max()
    drawn = np.concatenate(list(Atoms.of(Y, P).draw(500, np.random.default_rng(0))))
    assert drawn.shape == (500, np.unique(P).size)
    assert cumulative_differences(Atoms.of(Y, P), drawn).mean(axis=0) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    ("y", "p", "error"),
    [
        ([0.0, 2.0], [0.1, 0.2], ex.InvalidLabelsError),
        ([0.0, 1.0], [0.1, np.nan], ex.InvalidProbabilitiesError),
        ([0.0, 1.0], [0.1, 1.5], ex.InvalidProbabilitiesError),
        ([0.0], [0.1, 0.5], ex.LengthMismatchError),
        ([], [], ex.EmptyInputError),
    ],
)
def test_rows_that_are_none_are_refused(y, p, error):
    with pytest.raises(error):
        Atoms.of(np.array(y), np.array(p))
