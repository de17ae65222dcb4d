"""Repairs of quantiles: what they learn, what they refuse, how they travel, and certificates."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import calibrant
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidDocumentError
from calibrant.recalibrators import OverlapWarning

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
rng = np.random.default_rng(11)
N = 3000
MEAN, STD = rng.normal(size=N), rng.uniform(0.5, 2, size=N)
Y = MEAN + STD * rng.normal(size=N)
NARROW = calibrant.normal_quantiles(MEAN, STD / 2, LEVELS)
HALF = N // 2
REPAIRS = (calibrant.QuantileRecalibration, calibrant.VarianceScaling)


def fitted(repair, **options):
    """Return the repair, fitted on the first half."""
    return repair().fit(NARROW[:HALF], Y[:HALF], classes=LEVELS, **options)


def test_one_factor_of_normal_forecasts_is_that_of_the_likelihood():
    z = (Y[:HALF] - MEAN[:HALF]) / (STD[:HALF] / 2)
    assert fitted(calibrant.VarianceScaling).factor_ == pytest.approx(np.sqrt(np.mean(z**2)))
    weights = rng.uniform(size=HALF)
    weighted = fitted(calibrant.VarianceScaling, sample_weight=weights).factor_
    assert weighted == pytest.approx(np.sqrt(np.average(z**2, weights=weights)))


def test_a_factor_stretches_normal_quantiles_about_their_mean():
    repair = fitted(calibrant.VarianceScaling)
    expected = calibrant.normal_quantiles(MEAN, STD / 2 * repair.factor_, LEVELS)
    np.testing.assert_allclose(repair.predict(NARROW), expected, rtol=1e-9, atol=1e-12)


def test_levels_that_cover_what_they_should_are_left_alone():
    n = 1999  # coverages (k + 1/2) / (n + 1) are then the levels themselves
    y = (np.arange(n) + 0.5) / n
    levels = np.array([0.25, 0.5, 0.75])
    q = np.tile(((levels * (n + 1)) - 0.5) / n, (n, 1)) - 1e-9
    repair = calibrant.QuantileRecalibration().fit(q, y, classes=levels)
    np.testing.assert_allclose(repair.coverage_, levels, atol=1e-3)
    np.testing.assert_allclose(repair.predict(q), q, atol=2e-3)


@pytest.mark.parametrize("repair", REPAIRS)
def test_forecasts_that_were_too_narrow_are_certified_on_other_rows(repair):
    repaired = fitted(repair)
    before = calibrant.certify(
        Y[HALF:], NARROW[HALF:], kind="quantile", classes=LEVELS, max_error=0.05
    )
    after = repaired.certify(NARROW[HALF:], Y[HALF:], max_error=0.05)
    assert (before.verdict, after.verdict) == ("refuted", "certified")
    assert calibrant.recheck(after, Y[HALF:], repaired.predict(NARROW[HALF:]))
    assert repaired.score(NARROW[HALF:], Y[HALF:]) > -float(
        calibrant.pinball_loss(Y[HALF:], NARROW[HALF:], classes=LEVELS)
    )


@pytest.mark.parametrize("repair", REPAIRS)
def test_rows_of_the_fit_are_refused_and_many_of_them_are_a_warning(repair):
    repaired = fitted(repair)
    with pytest.raises(CalibrantError, match="very rows"):
        repaired.certify(NARROW[:HALF], Y[:HALF])
    with pytest.warns(OverlapWarning, match="used to fit"):
        repaired.certify(NARROW[: HALF + 100], Y[: HALF + 100])


@pytest.mark.parametrize("repair", REPAIRS)
def test_a_repair_answers_alike_after_every_journey(repair, tmp_path):
    repaired = fitted(repair)
    repaired.save(tmp_path / "repair.json")
    loaded = calibrant.load(tmp_path / "repair.json")
    assert type(loaded) is repair
    for other in (loaded, pickle.loads(pickle.dumps(repaired)), copy.deepcopy(repaired)):
        np.testing.assert_array_equal(other.predict(NARROW), repaired.predict(NARROW))
    assert loaded.to_dict() == repaired.to_dict()
    with pytest.raises(CalibrantError, match="very rows"):
        loaded.certify(NARROW[:HALF], Y[:HALF])
    assert not hasattr(clone(repaired), "levels_")


@pytest.mark.parametrize("repair", REPAIRS)
def test_damaged_documents_are_refused(repair, tmp_path):
    good = fitted(repair).to_dict()
    path = tmp_path / "repair.json"
    changes = [
        {"levels": [0.5, 0.1]}, {"levels": "abc"}, {"levels": None}, {"learned": {}},
        {"learned": {"factor": -1, "coverage": [2]}}, {"learned": {"factor": "x"}},
        {"learned": {"coverage": [0.9, 0.1, 0.2, 0.3, 0.4]}}, {"learned": {"coverage": "x"}},
        {"recalibrator": "Other"}, {"recalibrator": None}, {"fingerprint": None}, {"schema": 99},
        {"learned": None}, {"extra": 1}, {"levels": [0.5]},
    ]  # fmt: skip
    for change in changes:
        path.write_text(json.dumps(good | change))
        with pytest.raises(InvalidDocumentError):
            calibrant.load(path)
    path.write_text(json.dumps(good)[: len(json.dumps(good)) // 2])
    with pytest.raises(InvalidDocumentError):
        calibrant.load(path)


@pytest.mark.parametrize("repair", REPAIRS)
def test_what_cannot_be_repaired_is_refused(repair):
    with pytest.raises(InvalidArgumentError, match="levels"):
        repair().fit(NARROW, Y)
    with pytest.raises(InvalidArgumentError, match="two levels"):
        repair().fit(NARROW[:, 2], Y, classes=[0.5])
    with pytest.raises(CalibrantError, match="zero on every row"):
        fitted(repair, sample_weight=np.zeros(HALF))
    with pytest.raises(CalibrantError, match="infinite"):
        repair().fit(np.column_stack([np.full(N, -np.inf), NARROW[:, 1:]]), Y, classes=LEVELS)
    with pytest.raises(CalibrantError, match="5 levels"):
        fitted(repair).predict(NARROW[:, :4])
    with pytest.raises(CalibrantError, match="sort them"):
        fitted(repair).predict(NARROW[:, ::-1])


def test_forecasts_without_spread_or_outcomes_between_are_refused():
    with pytest.raises(CalibrantError, match="spread"):
        calibrant.VarianceScaling().fit(np.zeros((5, 2)), np.arange(5), classes=(0.1, 0.9))
    with pytest.raises(CalibrantError, match="bias"):
        calibrant.QuantileRecalibration().fit(NARROW + 100, Y, classes=LEVELS)


def test_repaired_quantiles_do_not_cross_where_levels_covered_nothing_between():
    q = calibrant.normal_quantiles(np.zeros(40), 1.0, np.arange(1, 100) / 100)
    y = rng.normal(size=40)
    repair = calibrant.QuantileRecalibration().fit(q, y, classes=np.arange(1, 100) / 100)
    assert np.all(np.diff(repair.predict(q), axis=1) >= 0)


def test_commands_refuse_a_repair_of_quantiles(tmp_path, capsys):
    from calibrant.cli import main

    fitted(calibrant.VarianceScaling).save(tmp_path / "repair.json")
    (tmp_path / "rows.csv").write_text("label,probs\n1,0.5\n")
    out = tmp_path / "out.csv"
    code = main(
        ["apply", str(tmp_path / "repair.json"), str(tmp_path / "rows.csv"), "-o", str(out)]
    )
    assert code == 4
    assert "repairs quantiles" in capsys.readouterr().err


@pytest.mark.parametrize("repair", [calibrant.QuantileRecalibration, calibrant.VarianceScaling])
def test_rows_of_weight_zero_are_as_good_as_absent(repair):
    rng, levels = np.random.default_rng(0), (0.1, 0.5, 0.9)
    y = rng.normal(size=60)
    q = calibrant.normal_quantiles(np.zeros(60), 0.6, levels)
    q[40:] = 0.0  # without a spread
    alone = repair().fit(q[:40], y[:40], classes=levels)
    weighted = repair().fit(q, y, sample_weight=np.arange(60) < 40, classes=levels)
    np.testing.assert_allclose(weighted.predict(q), alone.predict(q), rtol=1e-14)


@pytest.mark.parametrize("repair", [calibrant.QuantileRecalibration, calibrant.VarianceScaling])
def test_a_fit_that_fails_leaves_the_one_before_as_it_was(repair):
    rng, levels = np.random.default_rng(0), (0.1, 0.5, 0.9)
    q = calibrant.normal_quantiles(np.zeros(60), 0.6, levels)
    fitted = repair().fit(q, rng.normal(size=60), classes=levels)
    before = fitted.predict(q)
    with pytest.raises(CalibrantError):
        fitted.fit(q[:, :1], rng.normal(size=60), classes=[0.1])
    np.testing.assert_array_equal(fitted.predict(q), before)
