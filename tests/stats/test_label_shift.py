"""Certificates carried to another base rate, against populations whose truth is known."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy import special, stats

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.label_shift import label_shift_pvalue, rate_interval, sample_of_target

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


def test_an_estimated_rate_has_an_interval_that_covers_and_a_test_of_its_size():
    rng, covered, pvalues = np.random.default_rng(3), 0, []
    for _ in range(300):
        table, target = table_of(*draw(rng, 3000)), counts_of(draw(rng, 3000, 0.12)[1])
        low, high = rate_interval(table, target, 0.1)
        covered += low <= 0.12 <= high
        pvalues.append(label_shift_pvalue(table, target))
    assert 0.85 <= covered / 300 <= 0.95
    assert np.mean(np.array(pvalues) < 0.1) <= 0.17
    assert np.mean(np.array(pvalues) < 0.01) <= 0.03


def test_a_shift_of_something_else_is_refused_and_says_how_it_was_tested():
    rng = np.random.default_rng(5)
    y, p = draw(rng, 3000)
    other = S[rng.choice(8, size=3000, p=[0.05, 0.05, 0.05, 0.05, 0.35, 0.35, 0.05, 0.05])]
    with pytest.raises(ex.InvalidInputError, match=r"base rate only; .*chi-square test, p = "):
        cb.certify_label_shift(y, p, target_prob=other)


@pytest.mark.parametrize("missing", [range(1, 7), range(4), range(3, 8)])
def test_a_target_without_some_of_the_outputs_is_no_label_shift(missing):
    rng = np.random.default_rng(8)
    y, p = draw(rng, 3000)
    mass = np.where(np.isin(np.arange(8), missing), 0.0, 1.0)
    other = S[rng.choice(8, size=3000, p=mass / mass.sum())]
    with pytest.raises(ex.InvalidInputError, match=r"base rate only; .*chi-square test, p = "):
        cb.certify_label_shift(y, p, target_prob=other)


def test_two_outputs_contradict_only_rates_beyond_0_and_1():
    rng = np.random.default_rng(9)
    p = rng.choice([0.3, 0.6], size=6000)
    y = rng.uniform(size=6000) < p
    moved = cb.certify_label_shift(y, p, target_prob=rng.choice([0.3, 0.6], size=6000))
    assert moved.pvalue == pytest.approx(1, abs=0.01)
    with pytest.raises(ex.InvalidInputError, match="base rate only"):
        cb.certify_label_shift(y, p, target_prob=np.full(6000, 0.6))


def test_one_output_is_not_said_to_be_tested():
    rng = np.random.default_rng(10)
    p = np.where(rng.uniform(size=3000) < 0.001, 0.9, 0.3)
    y = rng.uniform(size=3000) < p
    result = cb.certify_label_shift(y, p, target_prob=p[:1000])
    assert result.pvalue is None
    assert any("not tested: nearly all rows" in line for line in result.assumptions)
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_size_of_the_test_holds_where_many_outputs_are_rare():
    rng, pvalues = np.random.default_rng(11), []
    s = np.arange(1, 40) / 40
    mass = 0.8 ** np.arange(39)
    for _ in range(400):
        p, q = (s[rng.choice(39, size=n, p=mass / mass.sum())] for n in (2000, 300))
        table = table_of(rng.uniform(size=2000) < p, p)
        target = (table.level[0][:, None] == q).sum(axis=1).astype(float)
        pvalues.append(label_shift_pvalue(table, target))
    assert np.mean(np.array(pvalues) < 0.1) <= 0.15
    assert np.mean(np.array(pvalues) < 0.01) <= 0.03


def test_labels_that_agree_too_well_are_certified_at_no_other_rate_either():
    s = np.arange(1, 10) / 10
    p = np.repeat(s, 1000)
    y = np.concatenate([np.arange(1000) < round(1000 * each) for each in s]).astype(int)
    assert cb.certify(y, p, max_error=0.05).agrees_too_well
    for target in ({"target_rate": 0.3}, {"target_prob": p}):
        result = cb.certify_label_shift(y, p, max_error=0.05, **target)
        assert (result.verdict, result.agrees_too_well) == ("undecided", True)
        assert str(result).startswith("undecided: nothing can be said: labels agree with")
        assert cb.certify_label_shift(y, p, **target).verdict is None
    honest = cb.certify_label_shift(np.random.default_rng(0).random(9000) < p, p, target_rate=0.3)
    assert not honest.agrees_too_well
