"""Selective prediction: accuracy above thresholds, against rows sorted one by one and the truth."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from scipy import special

import calibrant as cb
from calibrant import exceptions as ex
from calibrant import stats
from calibrant.stats.selective import THRESHOLDS, confidence_bins

RNG = np.random.default_rng(4)


def model(rng, n):
    """Return events and overconfident predictions of them."""
    p = rng.beta(0.8, 0.8, size=n)
    return (rng.uniform(size=n) < 0.5 + 0.8 * (p - 0.5)).astype(int), p


def by_hand(y, p, threshold):
    accepted = np.maximum(p, 1 - p) > threshold
    return int(accepted.sum()), int(((p > 0.5) == (y == 1))[accepted].sum())


def test_answers_that_were_given_are_accepted_above_their_own_confidence():
    """A model that is 30% sure of its answer and wrong is not right for that."""
    p = RNG.uniform(0.2, 0.9, size=2000)
    right = RNG.uniform(size=2000) < p**2
    rows = {"correct": right, "confidence": p}
    curve = cb.selective_curve("correct", "confidence", data=rows, given_answer=True)
    for i in range(0, curve.threshold.size, 7):
        accepted = p > curve.threshold[i]
        assert (curve.count[i], curve.correct[i]) == (accepted.sum(), right[accepted].sum())
    assert curve.correct[0] / curve.n == right.mean()
    risks = np.cumsum(~right[np.argsort(-p)]) / np.arange(1, 2001)
    assert curve.aurc == pytest.approx(risks.mean(), abs=2e-3)
    table = cb.tabulate(right, p, bins="width:10")
    assert stats.selective_curve(table, given_answer=True).correct[0] == right.sum()
    groups = cb.selective_curve(right, p, given_answer=True, by=p > 0.5)
    assert sum(one.correct[0] for one in groups.values()) == right.sum()
    with pytest.raises(ex.InvalidArgumentError, match="given_answer"):
        cb.selective_curve(right, p, given_answer="yes")


def test_counts_are_those_of_the_rows_above_each_threshold():
    y, p = model(RNG, 3000)
    curve = cb.selective_curve(y, p)
    for i in range(0, curve.threshold.size, 7):
        expected = by_hand(y, p, curve.threshold[i])
        assert (curve.count[i], curve.correct[i]) == expected
    assert curve.coverage[0] == 1
    assert np.all(np.diff(curve.count) <= 0)
    assert np.all((curve.low <= curve.accuracy) & (curve.accuracy <= curve.high))


def test_top_labels_are_right_where_they_are_the_label():
    probs = RNG.dirichlet(np.ones(4), size=2000)
    label = RNG.integers(4, size=2000)
    curve = cb.selective_curve(label, probs, thresholds=[0.0, 0.3, 0.6])
    for t, count, correct in zip(curve.threshold, curve.count, curve.correct, strict=True):
        accepted = probs.max(axis=1) > t
        assert count == accepted.sum()
        assert correct == (probs.argmax(axis=1) == label)[accepted].sum()


def aurc_by_hand(right, confidence):
    order = np.argsort(-confidence, kind="stable")
    errors = np.cumsum(~right[order])
    return np.mean(errors / np.arange(1, right.size + 1))


def test_the_area_is_the_mean_risk_over_all_numbers_of_accepted_rows():
    levels = np.array([0.55, 0.7, 0.8, 0.95])
    confidence = levels[RNG.integers(4, size=60)]
    right = RNG.uniform(size=60) < confidence
    ties = []
    for _ in range(4000):
        order = RNG.permutation(60)
        ties.append(aurc_by_hand(right[order], confidence[order]))
    curve = cb.selective_curve(right.astype(int), confidence)
    assert curve.aurc == pytest.approx(np.mean(ties), abs=4 * np.std(ties) / np.sqrt(4000))
    best = aurc_by_hand(right, right.astype(float))
    assert curve.excess_aurc == pytest.approx(curve.aurc - best, abs=0.02)


def truth(threshold):
    """Return the population's accuracy above a threshold: p is Beta(0.8, 0.8)."""
    p = np.random.default_rng(1).beta(0.8, 0.8, size=400_000)
    accepted = np.maximum(p, 1 - p) > threshold
    return float(0.5 + 0.8 * np.abs(p[accepted] - 0.5).mean())


@pytest.mark.slow
def test_limits_hold_at_all_thresholds_at_once_and_areas_are_covered():
    p = np.sort(np.random.default_rng(2).beta(0.8, 0.8, size=200_000))
    c = np.maximum(p, 1 - p)
    order = np.argsort(-c)
    area = np.mean(np.cumsum(0.5 - 0.8 * (c[order] - 0.5)) / np.arange(1, c.size + 1))
    rng, missed, covered, runs = np.random.default_rng(3), 0, 0, 400
    true = None
    for _ in range(runs):
        curve = cb.selective_curve(*model(rng, 1500), thresholds=np.arange(0.5, 0.99, 0.02))
        if true is None:
            true = {t: truth(t) for t in curve.threshold}
        wanted = np.array([true.get(t) or truth(t) for t in curve.threshold])
        missed += bool(np.any((curve.low > wanted) | (curve.high < wanted)))
        covered += curve.aurc_interval.low <= area <= curve.aurc_interval.high
    assert missed / runs <= 0.05
    assert 0.92 <= covered / runs <= 0.98


def test_areas_are_covered_where_errors_are_few():
    """Three errors in 100 rows: normal limits held in 0.70 of samples, and were 0 without any."""
    rng = np.random.default_rng(4)
    assert cb.selective_curve([0] * 50, [0.1] * 50).aurc_interval.high == pytest.approx(
        2 * 1.959964**2 / 50
    )
    p = special.betaincinv(1, 32, (np.arange(200_000) + 0.5) / 200_000)
    area = float(np.mean(np.cumsum(p) / np.arange(1, p.size + 1)))  # the most confident first
    held = 0
    for _ in range(500):
        p = rng.beta(1, 32, size=100)
        held += area in cb.selective_curve((rng.uniform(size=100) < p).astype(int), p).aurc_interval
    assert held / 500 >= 0.935


def test_a_certificate_says_how_many_are_right_at_least():
    y, p = model(RNG, 5000)
    curve = cb.selective_curve(y, p)
    certificate = curve.certificate(0.9)
    alone = curve.certificate(0.9, simultaneous=False)
    assert certificate.lower_bound < alone.lower_bound < alone.accuracy
    assert alone.lower_bound < truth(0.9)
    assert str(certificate).startswith("above 0.9 confidence, at least ")
    assert "at all thresholds at once" in repr(certificate)
    assert "chosen before anybody looked" in str(alone)
    assert json.loads(json.dumps(certificate.to_dict()))["n"] == 5000
    with pytest.raises(ex.InvalidArgumentError, match="near it are 0.86, 0.87, 0.88"):
        curve.certificate(0.875)


def test_the_least_threshold_for_an_accuracy_is_proved():
    y, p = model(RNG, 20_000)
    curve = cb.selective_curve(y, p)
    t = curve.threshold_for(0.8)
    place = int(np.flatnonzero(curve.threshold == t)[0])
    assert curve.low[place] >= 0.8 > curve.low[place - 1]
    assert curve.threshold_for(1.0) is None
    with pytest.raises(ex.InvalidArgumentError, match="accuracy must lie in"):
        curve.threshold_for(97)


def test_tables_files_and_groups_give_the_same_curve(tmp_path):
    pandas = pytest.importorskip("pandas")
    y, p = model(RNG, 2000)
    curve = cb.selective_curve(y, p)
    table = cb.tabulate(y, p, bins=confidence_bins("binary"))
    assert np.array_equal(cb.selective_curve(table).count, curve.count)
    group = np.where(np.arange(2000) % 3 == 0, "a", "b")
    frame = pandas.DataFrame({"y": y, "p": p, "g": group})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert cb.selective_curve("y", "p", data=tmp_path / "rows.csv").aurc == curve.aurc
    groups = cb.selective_curve("y", "p", data=frame, by="g")
    one = cb.selective_curve(y[group == "a"], p[group == "a"])
    assert groups["a"].aurc == pytest.approx(one.aurc, rel=1e-12)
    assert groups.worst[0] == max(groups, key=lambda key: groups[key].aurc)
    assert "AURC" in str(groups)


def test_distinct_outputs_have_a_threshold_each():
    levels = np.array([0.1, 0.4, 0.5, 0.6, 0.9])
    p = levels[RNG.integers(5, size=500)]
    y = (RNG.uniform(size=500) < p).astype(int)
    curve = cb.selective_curve(cb.tabulate(y, p, bins="distinct"))
    surest = (p == 0.1) | (p == 0.9)
    assert curve.count[-1] == surest.sum()
    assert curve.n == 500


def test_what_has_no_accuracy_is_refused():
    y, p = model(RNG, 50)
    with pytest.raises(ex.InvalidArgumentError, match="across 0.5.*from 0.4 to 0.6"):
        cb.selective_curve(cb.tabulate(y, p, bins="width:5"))
    probs = RNG.dirichlet(np.ones(3), size=20)
    with pytest.raises(ex.InvalidArgumentError, match='kind="top-label"'):
        cb.selective_curve(RNG.integers(3, size=20), probs, kind="marginal")
    weighted = cb.tabulate(y, p, bins="width:4", sample_weight=np.arange(50) + 1.0)
    with pytest.raises(ex.InvalidWeightsError, match="sample weights"):
        cb.selective_curve(weighted)
    for thresholds in ([], [1.0], [-0.1], ["a"], [np.nan]):
        with pytest.raises(ex.InvalidArgumentError, match="thresholds must be"):
            cb.selective_curve(y, p, thresholds=thresholds)
    with pytest.raises(ex.InvalidArgumentError, match="thresholds it was counted with"):
        cb.selective_curve(cb.tabulate(y, p, bins="width:4"), thresholds=[0.9])


@pytest.mark.parametrize(
    ("y", "p"), [([1], [0.3]), ([1, 0], [1.0, 0.0]), ([0, 1], [1.0, 0.0]), ([1], [0.5])]
)
def test_few_and_sure_rows_end_in_numbers(y, p):
    curve = cb.selective_curve(y, p)
    assert np.isfinite(curve.low).all()
    assert np.isfinite([curve.aurc, *curve.aurc_interval]).all()
    assert 0 <= curve.aurc <= 1
    json.dumps(curve.to_dict(), allow_nan=False)
    for again in (pickle.loads(pickle.dumps(curve)), copy.deepcopy(curve)):
        assert str(again) == str(curve)


def test_the_default_thresholds_rise_and_leave_out_1():
    assert len(set(THRESHOLDS)) == len(THRESHOLDS) == 115
    assert max(THRESHOLDS) < 1
    assert stats.selective_curve is not cb.selective_curve


@pytest.mark.parametrize("threshold", [0.6, 0.7, 0.8])
def test_a_confidence_at_the_threshold_is_not_above_it_on_either_side(threshold):
    p = np.repeat(np.arange(1, 10) / 10, 20)
    y = np.tile([0, 1], 90)
    above = int((np.maximum(p, 1 - p) > threshold).sum())
    assert (
        cb.selective_curve(y, p, thresholds=[threshold]).certificate(threshold).n_accepted == above
    )
