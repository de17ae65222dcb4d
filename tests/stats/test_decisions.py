"""Net benefits: the definition, acting on everybody and nobody, and how often intervals hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError

RNG = np.random.default_rng(0)
P = RNG.beta(1, 4, size=3000).round(2)  # many predictions are thresholds
Y = RNG.uniform(size=3000) < P
T = np.arange(1, 100) / 100


def test_net_benefits_are_those_of_counting_rows():
    curve = cb.decision_curve(Y, P)
    np.testing.assert_array_equal(curve.threshold, T)
    for t, found, everybody, gain in zip(
        T, curve.net_benefit, curve.treat_all, curve.gain, strict=True
    ):
        acted, w = t <= P, t / (1 - t)
        assert found == pytest.approx(
            (np.sum(acted & Y) - w * np.sum(acted & ~Y)) / 3000, abs=1e-15
        )
        assert everybody == pytest.approx((Y.sum() - w * np.sum(~Y)) / 3000)
        assert gain == pytest.approx(found - everybody)
    assert (curve.n, curve.n_events) == (3000, Y.sum())


def test_a_published_curve():
    """Vickers and Elkin's definition by hand: 2 of 3 found, 1 false alarm of 6 rows, odds 1 to 3."""
    curve = cb.decision_curve(
        [1, 1, 1, 0, 0, 0], [0.9, 0.3, 0.1, 0.25, 0.2, 0.0], thresholds=[0.25]
    )
    assert curve.net_benefit == pytest.approx([2 / 6 - 1 / 3 / 6])
    assert curve.treat_all == pytest.approx([3 / 6 - 1 / 3 * 3 / 6])
    assert curve.alarms_saved == pytest.approx([100 * (2 - 3) / 6])


def test_frames_files_logits_and_one_class_of_many(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"y": Y, "p": P})
    same = cb.decision_curve("y", "p", data=frame.lazy())
    np.testing.assert_allclose(same.net_benefit, cb.decision_curve(Y, P).net_benefit, atol=1e-15)
    frame.write_parquet(tmp_path / "rows.parquet")
    same = cb.decision_curve("y", "p", data=str(tmp_path / "rows.parquet"))
    np.testing.assert_allclose(same.net_benefit, cb.decision_curve(Y, P).net_benefit, atol=1e-15)
    z = np.linspace(-3, 3, 3000)
    a = cb.decision_curve(Y, z, input="logits").net_benefit
    np.testing.assert_allclose(a, cb.decision_curve(Y, 1 / (1 + np.exp(-z))).net_benefit)


def test_useful_is_better_than_both_beyond_chance():
    curve = cb.decision_curve(Y, P)
    assert curve.useful[T == 0.2].all()
    useless = cb.decision_curve(Y, RNG.permutation(P))
    assert useless.useful.sum() <= 5
    assert "at no threshold" in repr(cb.decision_curve(Y, np.full(3000, 0.5), thresholds=[0.6]))


def test_intervals_have_a_width_where_nothing_is_seen():
    curve = cb.decision_curve([0, 1], [0.1, 0.2])
    assert np.all(curve.high > curve.low)
    assert np.all(curve.gain_high > curve.gain_low)


def test_limits_are_exact_where_nobody_is_acted_on():
    """The gain is then w - (w + 1) times the event rate, whose limits are Clopper and Pearson's."""
    y = np.zeros(300, bool)
    for events in (0, 3):
        y[:events] = True
        curve = cb.decision_curve(y, np.full(300, 0.1), thresholds=[0.5])
        low, high = binomtest(events, 300).proportion_ci(0.95)
        assert curve.gain_low == pytest.approx([1 - 2 * high])
        assert curve.gain_high == pytest.approx([1 - 2 * low])


@pytest.mark.parametrize(
    "thresholds", [[], [0.0], [1.0], [0.5, np.nan], "high", [5e-324], [-0.1], None, [[0.1, 0.2]]]
)
def test_thresholds_are_probabilities(thresholds):
    if thresholds is None or np.ndim(thresholds) == 2:  # all of an array, in rising order
        assert cb.decision_curve(Y, P, thresholds=thresholds).threshold.size in (2, 99)
        return
    with pytest.raises(InvalidArgumentError, match="above 0 and below 1"):
        cb.decision_curve(Y, P, thresholds=thresholds)


def test_what_is_no_decision_about_one_event_is_refused():
    with pytest.raises(InvalidArgumentError, match="one event"):
        cb.decision_curve([0, 1, 2], np.eye(3), kind="marginal")
    with pytest.raises(InvalidArgumentError, match="needs rows"):
        cb.decision_curve(cb.tabulate(Y, P))
    weighted = cb.tabulate(Y, P, sample_weight=P + 1)
    with pytest.raises(InvalidWeightsError):
        cb.stats.decision_curve(weighted, T)


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_intervals_hold_as_often_as_they_say(rate):
    """1,000 samples of 500 rows: at 95%, never under 93% at a threshold, of either interval."""
    rng = np.random.default_rng(7)
    thresholds = np.array([0.5, 1.0, 2.0]) * rate
    levels = rate * np.array([0.3, 0.9, 1.1, 2.5])
    shares = np.array([0.5, 0.2, 0.2, 0.1])
    w = thresholds / (1 - thresholds)
    acted = levels >= thresholds[:, None]
    true = acted @ (shares * levels) - w * (acted @ (shares * (1 - levels)))
    gain = w * (~acted @ (shares * (1 - levels))) - ~acted @ (shares * levels)
    hits = np.zeros((2, 3))
    for _ in range(1000):
        p = rng.choice(levels, p=shares, size=500)
        curve = cb.decision_curve(rng.uniform(size=500) < p, p, thresholds=thresholds)
        hits[0] += (curve.low <= true) & (true <= curve.high)
        hits[1] += (curve.gain_low <= gain) & (gain <= curve.gain_high)
    assert hits.min() / 1000 > 0.93
