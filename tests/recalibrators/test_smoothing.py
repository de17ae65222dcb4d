"""Scores of exactly 0 and 1: what log-odds make of them."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from shared import SEVERAL, binary_rows, class_rows, vote_rows
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant import Distinct, tabulate
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError
from calibrant.recalibrators.saving import from_json, to_json

votes = cache(vote_rows)
FIT, FRESH = slice(0, 2000), slice(2000, None)


def log_loss_of(fitted, probs, y):
    out = fitted.predict_proba(probs)
    own = out[np.arange(len(y)), y] / out.sum(axis=1)
    return float(-np.log(np.maximum(own, 1e-12)).mean())


def loss_on_votes(recalibrator):
    probs, y = votes()
    fitted = clone(recalibrator).fit(probs[FIT], y[FIT])
    return log_loss_of(fitted, probs[FRESH], y[FRESH])


def sigmoid_on_probabilities():
    """Return the loss of what other libraries call sigmoid calibration, fitted by scikit-learn."""
    probs, y = votes()
    columns = []
    for k in range(20):
        line = LogisticRegression(C=np.inf).fit(probs[FIT, k, None], y[FIT] == k)
        columns.append(line.predict_proba(probs[FRESH, k, None])[:, 1])
    out = np.column_stack(columns)
    own = out[np.arange(len(out)), y[FRESH]] / out.sum(axis=1)
    return float(-np.log(own).mean())


def test_the_votes_are_mostly_zeros_and_some_zeros_are_wrong():
    probs, y = votes()
    assert 0.7 < (probs == 0).mean() < 0.75
    assert (probs[np.arange(len(y)), y] == 0).mean() > 0.005


@pytest.mark.parametrize(
    ("recalibrator", "plain"),
    [
        (cb.TemperatureScaling(), cb.TemperatureScaling(smoothing=0)),
        (cb.OneVsRest(cb.PlattScaling(), True), cb.OneVsRest(cb.PlattScaling(smoothing=0), True)),
        (cb.OneVsRest(cb.BetaScaling(), True), cb.OneVsRest(cb.BetaScaling(smoothing=0), True)),
    ],
    ids=str,
)
def test_exact_zeros_cost_log_odds_no_more_than_a_sigmoid_on_probabilities(recalibrator, plain):
    assert loss_on_votes(plain) > 0.38
    assert loss_on_votes(recalibrator) < sigmoid_on_probabilities() + 0.01


@pytest.mark.parametrize("recalibrator", [cb.VectorScaling(), cb.MatrixScaling()], ids=str)
def test_vector_and_matrix_scaling_read_zeros_as_temperature_scaling_does(recalibrator):
    assert loss_on_votes(recalibrator) < sigmoid_on_probabilities()
    assert loss_on_votes(clone(recalibrator).set_params(smoothing=0)) > 0.33


def test_the_chosen_recalibrator_of_votes_is_as_good_as_the_best():
    probs, y = votes()
    best = cb.best_recalibrator(y[FIT], probs[FIT])
    assert log_loss_of(best, probs[FRESH], y[FRESH]) < sigmoid_on_probabilities()


def test_a_share_that_is_declared_is_used():
    probs, y = votes()
    fitted = cb.TemperatureScaling(smoothing=0.01).fit(probs[FIT], y[FIT])
    assert fitted.smoothing_ == 0.01
    mixed = 0.99 * probs + 0.01 / 20
    other = cb.TemperatureScaling().fit(mixed[FIT], y[FIT])
    assert other.smoothing_ == 0
    np.testing.assert_allclose(fitted.predict_proba(probs), other.predict_proba(mixed), rtol=1e-9)


def assert_nothing_is_mixed_in(recalibrator, probs, y):
    fitted = clone(recalibrator).fit(probs, y)
    plain = clone(recalibrator).set_params(smoothing=0).fit(probs, y)
    assert fitted.smoothing_ == 0
    np.testing.assert_array_equal(fitted.predict_proba(probs), plain.predict_proba(probs))


@pytest.mark.parametrize(
    "recalibrator",
    [cb.PlattScaling(), cb.BetaScaling(), cb.QuadraticScaling(), cb.TemperatureScaling()],
    ids=str,
)
def test_without_zeros_and_ones_nothing_is_mixed_in(recalibrator):
    p, y = binary_rows(500)
    assert_nothing_is_mixed_in(recalibrator, p, y)
    assert clone(recalibrator).fit(np.round(p, 1), y).smoothing_ > 0


@pytest.mark.parametrize("recalibrator", [cb.TemperatureScaling(), cb.VectorScaling()], ids=str)
def test_without_zeros_several_classes_are_as_they_were(recalibrator):
    assert_nothing_is_mixed_in(recalibrator, *class_rows(500))


def test_zeros_of_a_short_softmax_lose_nothing_of_its_tail():
    """exp underflows in float32 far below 1e-12, and an overconfident model needs what is there."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4000, 10)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    wide = (20 * (z - z.max(axis=1, keepdims=True))).astype(np.float32)
    short = np.exp(wide) / np.exp(wide).sum(axis=1, keepdims=True)
    assert 0.1 < (short == 0).mean() < 0.5
    fitted = cb.TemperatureScaling().fit(short[:2000], y[:2000])
    truth = cb.TemperatureScaling(input="logits").fit(z[:2000], y[:2000])
    loss, best = (
        log_loss_of(each, rows[2000:], y[2000:]) for each, rows in ((fitted, short), (truth, z))
    )
    assert fitted.smoothing_ < 1e-20
    assert loss < best + 0.05
    clipped = cb.TemperatureScaling(smoothing=0).fit(short[:2000], y[:2000])
    assert log_loss_of(clipped, short[2000:], y[2000:]) > best + 0.15


@pytest.mark.parametrize(
    "recalibrator",
    [
        cb.PlattScaling(),
        cb.PlattScaling(on="probabilities"),
        cb.BetaScaling(),
        cb.QuadraticScaling(),
        cb.TemperatureScaling(),
    ],
    ids=str,
)
def test_a_zero_that_was_never_wrong_is_not_answered_with_certainty(recalibrator):
    p, y = np.repeat([0.0, 0.25, 0.75, 1.0], 25), np.repeat([0, 0, 1, 1], 25)
    out = clone(recalibrator).fit(p, y).predict_proba([0.0, 1.0])
    assert 0 < out[0] < 0.1
    assert 0.9 < out[1] < 1


@pytest.mark.parametrize("cls", [cb.TemperatureScaling, cb.VectorScaling, cb.MatrixScaling])
def test_several_classes_that_were_never_wrong_are_not_certain_either(cls):
    rows = np.eye(3)[np.arange(60) % 3]
    out = cls().fit(rows, np.arange(60) % 3).predict_proba(rows[:1])
    assert 0.9 < out[0, 0] < 1
    assert out[0, 1] > 0


def test_a_declared_share_of_nothing_keeps_zeros_that_were_never_wrong():
    p, y = np.repeat([0.0, 1.0], 25), np.repeat([0, 1], 25)
    fitted = cb.PlattScaling(smoothing=0).fit(p, y)
    assert "kept identity" in fitted.fit_result_.flags
    np.testing.assert_array_equal(fitted.predict_proba(p), p)


def test_the_share_does_not_depend_on_the_order_of_rows():
    probs, y = votes()
    order = np.random.default_rng(0).permutation(1000)
    for recalibrator in (cb.TemperatureScaling(), cb.OneVsRest(cb.PlattScaling())):
        a = clone(recalibrator).fit(probs[:1000], y[:1000]).predict_proba(probs)
        b = clone(recalibrator).fit(probs[order], y[order]).predict_proba(probs)
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("recalibrator", [cb.PlattScaling(), cb.TemperatureScaling()], ids=str)
def test_weights_count_as_copies_of_rows_in_the_choice_of_the_share(recalibrator):
    probs, y = votes()
    p, happened = probs[:300, 0], y[:300] == 0
    twice = np.concatenate([p, p[::3]]), np.concatenate([happened, happened[::3]])
    weights = np.where(np.arange(300) % 3 == 0, 2.0, 1.0)
    a = clone(recalibrator).fit(p, happened, weights)
    b = clone(recalibrator).fit(*twice)
    assert a.smoothing_ == b.smoothing_


def test_a_table_of_distinct_scores_gives_the_share_of_its_rows():
    probs, y = votes()
    p, happened = probs[:, 3], y == 3
    of_table = cb.PlattScaling().fit_table(tabulate(happened, p, bins=Distinct()))
    of_rows = cb.PlattScaling().fit(p, happened)
    assert of_table.smoothing_ == of_rows.smoothing_ > 0
    np.testing.assert_allclose(of_table.coef_, of_rows.coef_, rtol=1e-6)


def test_a_line_over_probabilities_is_logistic_regression_on_them():
    p, y = binary_rows(800)
    fitted = cb.PlattScaling(on="probabilities").fit(p, y)
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(p[:, None], y)
    np.testing.assert_allclose(
        fitted.predict_proba(p), expected.predict_proba(p[:, None])[:, 1], atol=1e-5
    )
    assert fitted.slope_ > 0


def test_a_line_over_probabilities_that_would_be_worse_is_not_used():
    rng = np.random.default_rng(0)
    p = 1 / (1 + np.exp(-4 * rng.normal(size=3000)))
    y = rng.uniform(size=3000) < p
    fitted = cb.PlattScaling(on="probabilities").fit(p, y)
    assert "kept identity" in fitted.fit_result_.flags
    np.testing.assert_array_equal(fitted.predict_proba(p), p)
    again = from_json(to_json(fitted))
    np.testing.assert_array_equal(again.predict_proba(p), p)


def test_scaling_binning_takes_a_line_over_votes():
    probs, y = votes()
    p, happened = probs[:, 0], y == 0
    fitted = cb.ScalingBinning(5, cb.PlattScaling(on="probabilities")).fit(p[FIT], happened[FIT])
    error = fitted.predict_proba(p[FRESH]) - happened[FRESH]
    assert abs(error.mean()) < 0.01


@pytest.mark.parametrize(
    "smoothing", [-0.1, 5e-324, 1.0, 1.5, np.nan, np.inf, "some", None, True, [0.1]]
)
@pytest.mark.parametrize(
    "cls", [cb.PlattScaling, cb.BetaScaling, cb.TemperatureScaling, cb.VectorScaling]
)
def test_what_is_no_share_is_refused(cls, smoothing):
    rows = class_rows(50) if cls is cb.VectorScaling else binary_rows(50)
    with pytest.raises(InvalidArgumentError, match="smoothing must be"):
        cls(smoothing=smoothing).fit(*rows)


def test_parameters_that_contradict_each_other_are_refused():
    p, y = binary_rows(50)
    with pytest.raises(InvalidArgumentError, match="for probabilities of exactly 0 and 1"):
        cb.TemperatureScaling(input="logits", smoothing=0.1).fit(p, y)
    for options in ({"input": "logits"}, {"smoothing": 0.1}):
        with pytest.raises(InvalidArgumentError, match="takes no logarithm"):
            cb.PlattScaling(on="probabilities", **options).fit(p, y)
    with pytest.raises(InvalidArgumentError, match="on must be"):
        cb.PlattScaling(on="odds").fit(p, y)


def without_smoothing(document):
    """Return a document as it was written before there was smoothing."""
    if isinstance(document, list):
        return [without_smoothing(each) for each in document]
    if not isinstance(document, dict):
        return document
    later = ("smoothing", "on")
    return {name: without_smoothing(x) for name, x in document.items() if name not in later}


@pytest.mark.parametrize(
    "recalibrator",
    [cb.PlattScaling(), cb.BetaScaling(), cb.TemperatureScaling(), cb.ScalingBinning(bins=4)],
    ids=str,
)
def test_documents_from_before_are_read_as_they_were_meant(recalibrator):
    p, y = binary_rows(300)
    fitted = clone(recalibrator).fit(p, y)
    older = json.dumps(without_smoothing(json.loads(to_json(fitted))))
    again = from_json(older)
    np.testing.assert_array_equal(again.predict_proba(p), fitted.predict_proba(p))


@pytest.mark.parametrize("recalibrator", [r for r in SEVERAL if "smooth" not in str(r)], ids=str)
def test_documents_of_several_classes_from_before_are_read_too(recalibrator):
    probs, y = class_rows(300)
    fitted = clone(recalibrator).fit(probs, y)
    again = from_json(json.dumps(without_smoothing(json.loads(to_json(fitted)))))
    np.testing.assert_array_equal(again.predict_proba(probs), fitted.predict_proba(probs))


@pytest.mark.parametrize(
    ("part", "value"),
    [("learned", 1.0), ("learned", -0.1), ("learned", None), ("learned", "0.1")],
)
def test_a_share_that_cannot_be_is_refused_in_a_document(part, value):
    document = json.loads(to_json(cb.PlattScaling().fit(*binary_rows(100))))
    document[part]["smoothing"] = value
    with pytest.raises(InvalidDocumentError):
        from_json(json.dumps(document))


def test_a_document_that_lost_only_its_learned_share_is_refused():
    document = json.loads(to_json(cb.PlattScaling().fit(*binary_rows(100))))
    del document["learned"]["smoothing"]
    with pytest.raises(InvalidDocumentError, match="smoothing"):
        from_json(json.dumps(document))
