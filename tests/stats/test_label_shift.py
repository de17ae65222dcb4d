"""Certificates carried to another base rate, against populations whose truth is known."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy import special, stats

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.label_shift import sample_of_target

S = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
PI = S + np.array([0.02, -0.02, 0.03, -0.03, 0.03, -0.04, 0.02, -0.03])
MASS = np.array([0.2, 0.2, 0.15, 0.15, 0.1, 0.1, 0.05, 0.05])
OF_EVENTS, OF_OTHERS = MASS * PI / (MASS @ PI), MASS * (1 - PI) / (MASS @ (1 - PI))


def draw(rng, n, rate=None):
    """Return labels and outputs of the source, or of a target with another base rate."""
    y = rng.uniform(size=n) < (MASS @ PI if rate is None else rate)
    events, others = (rng.choice(8, size=n, p=p) for p in (OF_EVENTS, OF_OTHERS))
    return y.astype(int), S[np.where(y, events, others)]


def truth(rate, offset, power=2):
    """Return the error of the moved outputs in the target."""
    mass = rate * OF_EVENTS + (1 - rate) * OF_OTHERS
    gap = rate * OF_EVENTS / mass - special.expit(special.logit(S) + offset)
    return float((mass @ np.abs(gap) ** power) ** (1 / power))


def table_of(y, p):
    return cb.tabulate(y, p, bins="distinct")


def counts_of(p):
    return table_of(np.zeros(p.size, int), p).count[0]


@pytest.mark.parametrize("rate", [0.05, 0.311, 0.7])
def test_a_drawn_sample_is_one_of_the_target(rate):
    rng = np.random.default_rng(0)
    table = table_of(*draw(rng, 3000))
    total = np.zeros((2, 8))
    for _ in range(200):
        sample, _ = sample_of_target(table_of(*draw(rng, 3000)), rate, 0.001, rng)
        total += np.array([sample.sum_y[0], sample.count[0] - sample.sum_y[0]])
    wanted = np.array([rate * OF_EVENTS, (1 - rate) * OF_OTHERS]) * total.sum()
    assert stats.chisquare(total.ravel(), wanted.ravel()).pvalue > 1e-4
    one, offset = sample_of_target(table, rate, 0.001, rng)
    assert one.is_binned_model
    assert one.n <= table.n
    assert one.level[0] == pytest.approx(special.expit(special.logit(S) + offset))
    assert cb.BinTable.from_json(one.to_json()) == one


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_the_bounds_of_a_known_rate_hold(norm):
    rng = np.random.default_rng(1)
    result = cb.certify_label_shift(*draw(rng, 4000), target_rate=0.1, norm=norm, max_error=0.1)
    error = truth(0.1, result.offset, 2 if norm == "l2" else 1)
    assert result.lower_bound <= error <= result.upper_bound < 0.06
    assert result.verdict == "certified"
    assert result.rate_interval == (0.1, 0.1)
    assert result.pvalue is None
    assert any("not tested" in line for line in result.assumptions)
    assert result.certificate.recheck()


@pytest.mark.slow
def test_the_bounds_miss_no_more_often_than_they_say():
    rng, missed, runs = np.random.default_rng(2), np.zeros(2), 25
    for _ in range(runs):
        result = cb.certify_label_shift(*draw(rng, 400), target_rate=0.15, rng=rng)
        error = truth(0.15, result.offset)
        missed += [error > result.upper_bound, error < result.lower_bound]
    assert missed.max() / runs <= 0.05 + 3 * np.sqrt(0.05 / runs)


def test_one_seed_draws_other_numbers_of_events_from_other_rows():
    """Or else the seed would decide, for everybody, how often the bounds hold."""
    rng, shares = np.random.default_rng(7), []
    for _ in range(12):
        rows = draw(rng, 400)
        first, again = (cb.certify_label_shift(*rows, target_rate=0.15, rng=0) for _ in range(2))
        assert first.upper_bound == again.upper_bound
        table = first.certificate.table
        shares.append(table.sum_y.sum() / table.n)
    # binomial: a standard deviation of about 0.025; one seed for all gave 0.002
    assert np.std(shares) > 0.01


def test_the_bounds_of_an_estimated_rate_hold():
    rng = np.random.default_rng(4)
    y, p = draw(rng, 20_000)
    result = cb.certify_label_shift(y, p, target_prob=draw(rng, 20_000, 0.12)[1], max_error=0.1)
    low, high = result.rate_interval
    assert low <= 0.12 <= high
    assert result.lower_bound <= truth(0.12, result.offset) <= result.upper_bound < 0.1
    assert result.pvalue > 0.01
    assert "(in [" in repr(result)
    assert any("chi-square" in line for line in result.assumptions)
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ([0.05, 1.7], ex.InvalidProbabilitiesError),
        ([0.05, np.nan], ex.NotFiniteError),
        ([[0.1, 0.9], [0.5]], ex.InvalidShapeError),
        ("score", ex.InvalidShapeError),
        (np.full((30, 3), 0.1), ex.InvalidShapeError),
        ([], ex.EmptyInputError),
    ],
)
def test_bad_predictions_of_the_target_are_called_target_prob(bad, error):
    y, p = draw(np.random.default_rng(12), 300)
    with pytest.raises(error, match="target_prob"):
        cb.certify_label_shift(y, p, target_prob=bad)


def test_what_cannot_be_carried_is_refused():
    rng = np.random.default_rng(6)
    y, p = draw(rng, 300)
    for options in ({}, {"target_rate": 0.1, "target_prob": p}):
        with pytest.raises(ex.InvalidArgumentError, match="target_rate= if .* or target_prob="):
            cb.certify_label_shift(y, p, **options)
    with pytest.raises(ex.InvalidArgumentError, match="between 0 and 1"):
        cb.certify_label_shift(y, p, target_rate=10)
    with pytest.raises(ex.InvalidInputError, match="there are others in 1 of 8 bins"):
        cb.certify_label_shift(y, p, target_prob=np.append(p[1:], 0.77))
    with pytest.raises(ex.InvalidInputError, match="at least 20 events"):
        cb.certify_label_shift(y[:30], p[:30], target_prob=p)
    with pytest.raises(ex.NoSuchEstimatorError, match="finitely many outputs"):
        cb.certify_label_shift(y, rng.uniform(size=300), target_rate=0.1)
    heavy = cb.tabulate(y, p, bins="distinct", sample_weight=1 + p)
    with pytest.raises(ex.InvalidArgumentError, match="this one has sample weights"):
        cb.certify_label_shift(y, p, target_prob=heavy)
    with pytest.raises(ex.InvalidArgumentError, match="this one has groups"):
        cb.certify_label_shift(y, p, target_prob=cb.tabulate(y, p, bins="distinct", by=p))
    with pytest.raises(ex.InvalidInputError, match="labels of both kinds; there are 0 events"):
        cb.certify_label_shift([0] * 50, [0.1] * 50, target_rate=0.9)


def test_the_same_seed_gives_the_same_bound_and_tables_are_taken():
    y, p = draw(np.random.default_rng(7), 2000)
    one, two = (cb.certify_label_shift(y, p, target_rate=0.2) for _ in range(2))
    assert one.upper_bound == two.upper_bound
    of_table = cb.certify_label_shift(table_of(y, p), target_rate=0.2)
    assert of_table.upper_bound == one.upper_bound
