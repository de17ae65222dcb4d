"""Scaling: reference values, agreement with scikit-learn, nothing that explodes; prior shifts."""

from __future__ import annotations

import numpy as np
import pytest
from shared import ON_LOGITS, ONE_SCORE, SCALING, SEVERAL, Y, Z, binary_rows, class_rows
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidInputError
from calibrant.recalibrators import (
    BetaScaling,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.recalibrators.formulas import NUMPY, log_odds

P, LABELS = binary_rows(900)


def log_loss(y, p):
    with np.errstate(divide="ignore"):
        return float(np.mean(np.where(y == 1, -np.log(p), -np.log1p(-p))))


@pytest.mark.parametrize(
    ("recalibrator", "coefficients"),
    [
        (PlattScaling(), [1.372328567, 0.1600780194]),
        (BetaScaling(), [1.4402962105, 1.3012814882, 0.2682994878]),
        (BetaScaling("log-odds"), [1.372328567, 1.372328567, 0.1600780194]),
        (QuadraticScaling(), [1.3708064070, -0.0160924116, 0.1720759046]),
    ],
)
def test_coefficients_equal_the_reference_values(recalibrator, coefficients):
    np.testing.assert_allclose(recalibrator.fit(Z, Y).coef_, coefficients, rtol=0, atol=1e-8)


def test_the_log_loss_of_platt_scaling_equals_the_reference_value():
    report = PlattScaling().fit(Z, Y).fit_result_
    assert report.loss == pytest.approx(0.4948658220, abs=1e-9)
    assert report.loss_identity == pytest.approx(0.5056384407, abs=1e-9)


def test_the_squared_loss_has_the_reference_minimum_and_no_slope_there():
    fitted = PlattScaling("squared").fit(Z, Y)
    np.testing.assert_allclose(fitted.coef_, [1.1476793638, 0.1362335403], atol=2e-8)
    assert fitted.fit_result_.loss == pytest.approx(0.1693903913, abs=1e-9)
    p = fitted.predict_proba(Z)
    slope = (p - Y) * p * (1 - p)
    assert abs(slope.sum()) < 1e-12
    assert abs(slope @ log_odds(NUMPY, Z)) < 1e-12


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
def test_platt_scaling_equals_unpenalised_logistic_regression(seed, weighted):
    p, y = binary_rows(300, seed)
    w = np.random.default_rng(seed).exponential(size=y.size) if weighted else None
    ours = PlattScaling().fit(p, y, w)
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    theirs.fit(log_odds(NUMPY, p)[:, None], y, w)
    expected = [theirs.coef_[0, 0], theirs.intercept_[0]]
    np.testing.assert_allclose(ours.coef_, expected, atol=1e-6)


def test_logits_and_their_probabilities_give_the_same_fit():
    rng = np.random.default_rng(0)
    z = rng.normal(size=500) * 2
    y = rng.uniform(size=500) < 1 / (1 + np.exp(-z / 2))
    for cls in (PlattScaling, QuadraticScaling, TemperatureScaling):
        a = cls(input="logits").fit(z, y).predict_proba(z)
        b = cls().fit(1 / (1 + np.exp(-z)), y).predict_proba(1 / (1 + np.exp(-z)))
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_beta_scaling_never_falls():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    fitted = BetaScaling().fit(p, rng.uniform(size=400) < 1 - p)
    assert min(fitted.coef_[:2]) >= 0
    assert "term dropped" in fitted.fit_result_.flags
    assert (np.diff(fitted.predict_proba(np.linspace(0, 1, 99))) >= 0).all()


def test_a_falling_map_is_flagged():
    p, y = binary_rows()
    assert "not increasing" in PlattScaling().fit(p, 1 - y).fit_result_.flags
    assert "not increasing" not in PlattScaling().fit(p, y).fit_result_.flags


CORPUS = {
    "all correct": (np.linspace(0.6, 0.9, 12), np.ones(12)),
    "all wrong": (
        np.r_[np.linspace(0.6, 0.9, 6), np.linspace(0.1, 0.4, 6)],
        np.r_[np.zeros(6), np.ones(6)],
    ),
    "all right": (
        np.r_[np.linspace(0.6, 0.9, 6), np.linspace(0.1, 0.4, 6)],
        np.r_[np.ones(6), np.zeros(6)],
    ),
    "one class": (np.linspace(0, 1, 20), np.zeros(20)),
    "one row": (np.array([0.3]), np.array([1])),
    "two rows": (np.array([0.3, 0.7]), np.array([0, 1])),
    "two rows, wrong": (np.array([0.3, 0.7]), np.array([1, 0])),
    "separable": (np.linspace(0, 1, 40), (np.linspace(0, 1, 40) > 0.5).astype(int)),
    "separable but for a tie": (np.r_[0.1, 0.2, 0.5, 0.5, 0.8], np.array([0, 0, 0, 1, 1])),
    "events in the middle": (
        np.linspace(0.05, 0.95, 31),
        (np.abs(np.linspace(0.05, 0.95, 31) - 0.5) < 0.2).astype(int),
    ),
    "constant scores": (np.full(10, 0.4), np.array([0, 1] * 5)),
    "constant scores, one class": (np.full(10, 0.4), np.ones(10)),
    "nearly constant scores": (0.4 + 1e-15 * np.arange(10), np.array([0, 1] * 5)),
    "exactly 0 and 1": (np.array([0.0, 0.0, 1.0, 1.0, 0.5, 0.5]), np.array([0, 1, 1, 0, 1, 0])),
    "0 and 1, all right": (np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1])),
    "tiny": (np.array([1e-300, 1e-200, 1e-100, 1e-12, 5e-324]), np.array([0, 0, 1, 0, 1])),
    "float16": (np.linspace(0, 1, 50).astype(np.float16), (np.arange(50) % 3 == 0).astype(int)),
    "duplicates": (np.repeat([0.2, 0.7], 5000), np.tile([0, 1, 0, 0], 2500)),
}


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("recalibrator", ONE_SCORE, ids=str)
def test_hard_rows_have_finite_answers_without_a_warning(recalibrator, name):
    p, y = CORPUS[name]
    if getattr(recalibrator, "split", None) and len(p) < 3:
        pytest.skip("a split needs three rows")
    fitted = clone(recalibrator).fit(p, y)
    out = fitted.predict_proba(np.r_[p.astype(float), 0.0, 5e-324, 0.5, 1.0])
    assert ((out >= 0) & (out <= 1)).all()
    assert getattr(fitted, "temperature_", 1.0) > 0


@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.parametrize("recalibrator", SCALING, ids=str)
def test_scaling_is_never_worse_than_the_identity(recalibrator, name):
    p, y = CORPUS[name]
    p = p.astype(float)
    fitted = clone(recalibrator).fit(p, y)
    out = fitted.predict_proba(p)
    if getattr(recalibrator, "loss", "log") == "squared":
        before, after = np.mean((p - y) ** 2), np.mean((out - y) ** 2)
    else:
        before, after = log_loss(y, p), log_loss(y, out)
    report = fitted.fit_result_
    assert report.loss == pytest.approx(after, abs=1e-9)
    if name == "0 and 1, all right" and getattr(recalibrator, "loss", "log") == "log":
        assert after > before == 0  # See test_smoothing: certainty is not kept.
        return
    assert after <= before + 1e-12
    assert report.loss <= report.loss_identity


HARD_LOGITS = {
    "huge": np.array([-1e6, 1e6, -1e6, 1e6, 1e6, 3e5]),
    "huge and near": 1e6 + np.arange(6.0),
    "tiny": 1e-6 * np.array([-1.0, 1, -2, 2, 3, 1]),
    "zero": np.zeros(6),
}


@pytest.mark.parametrize("name", HARD_LOGITS)
@pytest.mark.parametrize("labels", [[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 1, 1], [1, 0, 1, 0, 0, 0]])
@pytest.mark.parametrize("recalibrator", ON_LOGITS, ids=str)
def test_logits_of_any_size_have_finite_answers(recalibrator, labels, name):
    z = HARD_LOGITS[name]
    fitted = clone(recalibrator).fit(z, labels)
    out = fitted.predict_proba(z)
    assert ((out >= 0) & (out <= 1)).all()
    assert fitted.fit_result_.loss <= fitted.fit_result_.loss_identity


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["mixed", "right", "wrong", "one class"])
@pytest.mark.parametrize("cls", [TemperatureScaling, VectorScaling, MatrixScaling])
def test_rows_of_logits_of_any_size_have_finite_answers(cls, kind, scale):
    z = np.random.default_rng(0).normal(size=(30, 3)) * scale
    labels = {"mixed": np.arange(30) % 3, "right": z.argmax(axis=1), "wrong": z.argmin(axis=1)}
    y = labels.get(kind, np.zeros(30, int))
    fitted = cls(input="logits").fit(z, y)
    out = fitted.predict_proba(z)
    assert np.isfinite(out).all()
    assert fitted.temperature_ > 0
    assert fitted.fit_result_.loss <= fitted.fit_result_.loss_identity
    np.testing.assert_allclose(out.sum(axis=1), 1)


@pytest.mark.parametrize("recalibrator", SEVERAL, ids=str)
def test_rows_with_certain_wrong_or_absent_classes_have_finite_answers(recalibrator):
    probs = np.eye(4)[[0, 1, 2, 0, 1, 2]]
    for y in ([0, 1, 2, 0, 1, 2], [1, 2, 0, 1, 2, 0], [0] * 6):
        out = clone(recalibrator).fit(probs, y).predict_proba(probs)
        assert ((out >= 0) & (out <= 1 + 1e-12)).all()


@pytest.mark.parametrize("recalibrator", [*ONE_SCORE], ids=str)
def test_weights_of_zero_leave_rows_out_and_scale_does_not_matter(recalibrator):
    if getattr(recalibrator, "split", None):
        pytest.skip("other rows are drawn")
    p, y = binary_rows(300)
    w = (np.arange(300) % 2).astype(float)
    alone = clone(recalibrator).fit(p[1::2], y[1::2])
    out = alone.predict_proba(p)
    for factor in (1.0, 1e12, 1e-12):
        again = clone(recalibrator).fit(p, y, factor * w).predict_proba(p)
        np.testing.assert_allclose(again, out, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("recalibrator", SEVERAL, ids=str)
def test_weights_of_zero_leave_rows_of_several_classes_out(recalibrator):
    probs, y = class_rows(400)
    w = (np.arange(400) % 2).astype(float)
    out = clone(recalibrator).fit(probs[1::2], y[1::2]).predict_proba(probs)
    again = clone(recalibrator).fit(probs, y, 1e12 * w).predict_proba(probs)
    np.testing.assert_allclose(again, out, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("recalibrator", [*SCALING, *ON_LOGITS], ids=str)
def test_a_huge_weight_on_one_row_is_survived(recalibrator):
    p, y = binary_rows(100)
    w = np.ones(100)
    w[3] = 1e12
    out = clone(recalibrator).fit(p, y, w).predict_proba(p)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("labels", [[0, 0, 0, 0], [0, 1, 0, 1]], ids=["one class", "mixed"])
def test_the_largest_logits_have_an_answer_where_they_are_squared(labels):
    fitted = QuadraticScaling(input="logits").fit([-1.0, 0.0, 1.0, 2.0], labels)
    out = fitted.predict_proba([-1e308, -1e200, 1e200, 1e308])
    assert np.isin(out, [0.0, 1.0]).all()


@pytest.mark.parametrize("mean", [1e-6, 0.02, 0.5, 0.999])
@pytest.mark.parametrize("weights", [None, np.linspace(0, 3, 900)])
def test_shifted_predictions_get_the_mean_that_was_asked_for(mean, weights):
    shift = cb.PriorShift(target_mean=mean).fit(P, sample_weight=weights)
    assert np.average(shift.predict_proba(P), weights=weights) == pytest.approx(mean, rel=1e-12)


def test_all_odds_are_multiplied_by_one_number_and_0_and_1_stay():
    shift = cb.PriorShift(offset=-0.7).fit(P)
    out = shift.predict_proba(P)
    np.testing.assert_allclose(out * (1 - P), P * (1 - out) * np.exp(-0.7), rtol=1e-12)
    assert shift.predict_proba([0.0, 1.0]).tolist() == [0.0, 1.0]
    assert cb.PriorShift(offset=0.0).fit(P).predict_proba(P) == pytest.approx(P, rel=1e-15)


def test_logits_are_shifted_as_their_probabilities_are():
    z = np.log(P / (1 - P))
    of_logits = cb.PriorShift(target_mean=0.1, input="logits").fit(z)
    of_probabilities = cb.PriorShift(target_mean=0.1).fit(P)
    assert of_logits.offset_ == pytest.approx(of_probabilities.offset_, rel=1e-12)
    np.testing.assert_allclose(
        of_logits.predict_proba(z), of_probabilities.predict_proba(P), rtol=1e-12
    )


def test_a_shift_without_a_target_is_the_intercept_of_calibration_in_the_large():
    shift = cb.PriorShift().fit(P, LABELS)
    assert shift.predict_proba(P).mean() == pytest.approx(LABELS.mean(), rel=1e-12)
    assert shift.fit_result_.loss < shift.fit_result_.loss_identity
    assert cb.PriorShift().fit(P, np.zeros(900)).fit_result_.flags == ("one class",)
    with pytest.raises(ValueError, match="the target y is None"):
        cb.PriorShift().fit(P)


def test_a_shift_with_labels_says_what_the_shift_costs():
    shift = cb.PriorShift(target_mean=0.2).fit(P, LABELS)
    change = cb.compare(LABELS, P, shift.predict_proba(P))
    assert change.log_loss.a == pytest.approx(shift.fit_result_.loss_identity, rel=1e-9)
    assert change.log_loss.b == pytest.approx(shift.fit_result_.loss, rel=1e-9)
    assert np.isnan(cb.PriorShift(target_mean=0.2).fit(P).fit_result_.loss)


def test_a_table_gives_the_offset_of_its_rows():
    p = np.round(P, 2)
    table = cb.tabulate(LABELS, p, bins="distinct")
    offset = cb.PriorShift(target_mean=0.1).fit_table(table).offset_
    assert offset == pytest.approx(cb.PriorShift(target_mean=0.1).fit(p).offset_, rel=1e-12)


def test_rows_without_labels_may_certify_a_shift_and_rows_with_labels_may_not():
    p = np.round(np.clip(P, 0.05, 0.95), 1)
    assert cb.PriorShift(target_mean=0.4).fit(p).certify(p, LABELS, max_error=0.5).n == 900
    with pytest.raises(InvalidInputError, match="the very rows it was fitted on"):
        cb.PriorShift(target_mean=0.4).fit(p, LABELS).certify(p, LABELS, max_error=0.5)


def test_a_mean_that_zeros_and_ones_rule_out_is_refused():
    with pytest.raises(InvalidInputError, match=r"0\.5 of the rows have a 0 .* cannot become 0\.6"):
        cb.PriorShift(target_mean=0.6).fit([0, 0, 0.2, 0.4])
    with pytest.raises(InvalidInputError, match="beyond 500"):
        cb.PriorShift(target_mean=0.5).fit([1e-300, 1e-290])


@pytest.mark.parametrize(
    "options",
    [
        {"target_mean": 0.1, "offset": 1.0},
        {"target_mean": 0.0},
        {"target_mean": 2},
        {"target_mean": np.nan},
        {"offset": 501},
        {"offset": True},
        {"input": "scores"},
    ],
)
def test_options_of_a_shift_that_mean_nothing_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        cb.PriorShift(**options).fit(P, LABELS)


@pytest.mark.parametrize("rows", [[], [np.nan], [0.5, 1.5], [[0.2, 0.3, 0.5]], 0.5])
def test_predictions_that_are_none_are_not_shifted(rows):
    with pytest.raises(CalibrantError):
        cb.PriorShift(offset=1.0).fit(rows)


def test_two_columns_are_one_event_to_shift_and_one_row_is_enough():
    both = np.column_stack([1 - P, P])
    shift = cb.PriorShift(target_mean=0.1).fit(both)
    assert shift.predict_proba(both)[:, 1].mean() == pytest.approx(0.1, rel=1e-12)
    assert clone(shift).fit([0.7]).predict_proba([0.7]) == pytest.approx(0.1, rel=1e-12)


def test_a_large_offset_lifts_the_least_scores_in_a_database_too():
    duckdb = pytest.importorskip("duckdb")
    shift = cb.PriorShift(offset=499.0).fit([0.5])
    scores = np.array([5e-324, 1e-310, 1e-217, 1e-120, 1e-100, 0.0])
    frame = duckdb.sql(f"SELECT {shift.to_sql('s')} FROM (SELECT unnest({scores.tolist()}) AS s)")
    found = [row[0] for row in frame.fetchall()]
    np.testing.assert_allclose(found, shift.predict_proba(scores), rtol=1e-14)


@pytest.mark.parametrize("mask", [-1e30, -1.7e308])
def test_masked_logits_are_shifted_as_probabilities_of_zero_are(mask):
    z = np.array([mask, -1.0, 0.5, 2.0])
    of_logits = cb.PriorShift(target_mean=0.3, input="logits").fit(z)
    of_zero = cb.PriorShift(target_mean=0.3).fit([0.0, *1 / (1 + np.exp(-z[1:]))])
    assert of_logits.offset_ == pytest.approx(of_zero.offset_, rel=1e-12)
    assert of_logits.predict_proba(z).mean() == pytest.approx(0.3, rel=1e-12)
    with pytest.raises(InvalidInputError, match="beyond 500"):
        cb.PriorShift(target_mean=0.8, input="logits").fit(z)


@pytest.mark.parametrize("classes", [["no", "yes"], [1, 2], [False, True]])
def test_a_shift_without_labels_knows_their_names(classes):
    shift = cb.PriorShift(offset=0.5).fit([0.1, 0.9], classes=classes)
    assert shift.predict([0.1, 0.9]).tolist() == classes
