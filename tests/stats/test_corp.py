"""The CORP decomposition: its parts, their intervals, and what these promise in simulations."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidWeightsError

PARTS = ("miscalibration", "discrimination", "uncertainty")
Z = [0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9]
LABELS = [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]


def test_parts_are_those_of_the_isotonic_curve():
    parts = cb.brier_decomposition(LABELS, Z, method="corp")
    curve = stats.isotonic_curve(cb.tabulate(LABELS, Z, bins="distinct"))
    assert parts == curve.brier
    # scikit-learn: brier_score_loss(y, IsotonicRegression().fit_transform(z, y)) = 0.1333...
    assert parts.value - parts.miscalibration == pytest.approx(2 / 15, rel=1e-12)
    assert parts.uncertainty - parts.discrimination == pytest.approx(2 / 15, rel=1e-12)
    log = stats.corp_decomposition(cb.tabulate(LABELS, Z, bins="distinct"), rule="log")
    assert log == curve.log


def test_a_table_stands_in_place_of_rows():
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(size=500), 2)
    y = rng.uniform(size=500) < p
    rows = cb.brier_decomposition(y, p, method="corp")
    table = cb.brier_decomposition(cb.tabulate(y, p, bins="distinct"), method="corp")
    assert rows.to_dict() == table.to_dict()
    assert pickle.loads(pickle.dumps(rows)).to_dict() == rows.to_dict()


@pytest.mark.parametrize(
    ("rate", "n"), [(lambda p: p, 400), (lambda p: p**1.5, 400), (lambda p: 0.25 + p / 2, 150)]
)
def test_intervals_hold_the_truth(rate, n):
    """Nominal 95%; 150 samples, of which 89% is five standard errors away from 97%."""
    rng = np.random.default_rng(0)
    many = rng.uniform(size=10**6)
    q = rate(many)
    truth = [((many - q) ** 2).mean(), q.var(), q.mean() * (1 - q.mean())]
    held = np.zeros(3)
    for _ in range(150):
        p = rng.uniform(size=n)
        parts = cb.brier_decomposition(rng.uniform(size=n) < rate(p), p, method="corp")
        held += [x in parts.confidence_interval(part) for x, part in zip(truth, PARTS, strict=True)]
    assert (held / 150 >= 0.89).all()


def test_uncertainty_is_exact_and_bends_at_one_half():
    """R 4.2.2: binom.test(5, 10)$conf.int is 0.187086 to 0.812914; of 1 in 10 0.002529 to 0.445016."""
    half = cb.brier_decomposition(LABELS, Z, method="corp").confidence_interval("uncertainty")
    assert (half.low, half.high) == pytest.approx((0.187086 * 0.812914, 0.25), rel=1e-5)
    one = cb.brier_decomposition([1] + [0] * 9, Z, method="corp").confidence_interval("uncertainty")
    ends = 0.002528579 * (1 - 0.002528579), 0.4450161 * (1 - 0.4450161)
    assert (one.low, one.high) == pytest.approx(ends, rel=1e-5)


@pytest.mark.parametrize("labels", [LABELS, [0] * 10, [1] * 10])
@pytest.mark.parametrize("rule", ["brier", "log"])
def test_intervals_are_ordered_and_printed(labels, rule):
    parts = stats.corp_decomposition(cb.tabulate(labels, Z, bins="distinct"), rule=rule)
    for part in PARTS:
        low, high = parts.confidence_interval(part, 0.9)
        assert 0 <= low <= high < math.inf
        wider = parts.confidence_interval(part, 0.99)
        assert wider.low <= low <= high <= wider.high
    assert [line.split()[0] for line in str(parts).splitlines()[-3:]] == list(PARTS)
    assert "-0.0000" not in str(parts)


def test_an_infinite_log_loss_has_an_infinite_miscalibration():
    table = cb.tabulate([1, 0, 1], [0.0, 0.5, 0.9], bins="distinct")
    parts = stats.corp_decomposition(table, rule="log")
    assert parts.confidence_interval().low == math.inf
    assert parts.confidence_interval("discrimination").high < math.inf


def test_what_has_no_interval_is_refused():
    with pytest.raises(InvalidWeightsError, match="sample weights"):
        cb.brier_decomposition(LABELS, Z, method="corp", sample_weight=np.arange(1, 11))
    for options in ({"bins": 5}, {"debias": True}, {"class_weight": {0: 1}}):
        with pytest.raises(InvalidArgumentError, match="chooses no bins"):
            cb.brier_decomposition(LABELS, Z, method="corp", **options)
    with pytest.raises(CalibrantError, match='kind="marginal" has 3 classes. Pass one class'):
        cb.brier_decomposition([0, 1, 2], np.eye(3), kind="marginal", method="corp")
    with pytest.raises(CalibrantError, match="at least 2 rows; got 1"):
        cb.brier_decomposition([1], [0.5], method="corp")
    for part in ("brier", None, ["miscalibration"]):
        with pytest.raises(InvalidArgumentError, match="part must be"):
            cb.brier_decomposition(LABELS, Z, method="corp").confidence_interval(part)


def test_subnormal_predictions_have_intervals():
    p = np.random.default_rng(0).uniform(size=300)
    y = np.random.default_rng(1).uniform(size=300) < p
    low, high = cb.brier_decomposition(y, p * 1e-310, method="corp").confidence_interval(
        "miscalibration"
    )
    assert 0 <= low < high < 1
