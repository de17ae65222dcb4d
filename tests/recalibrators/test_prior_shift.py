"""Prior shift: a mean that is met, odds that are multiplied, and labels that are not needed."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows
from sklearn.base import clone

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidInputError

P, Y = binary_rows(900)


@pytest.mark.parametrize("mean", [1e-6, 0.02, 0.5, 0.999])
@pytest.mark.parametrize("weights", [None, np.linspace(0, 3, 900)])
def test_predictions_get_the_mean_that_was_asked_for(mean, weights):
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


def test_without_a_target_it_is_the_intercept_of_calibration_in_the_large():
    shift = cb.PriorShift().fit(P, Y)
    assert shift.predict_proba(P).mean() == pytest.approx(Y.mean(), rel=1e-12)
    assert shift.fit_result_.loss < shift.fit_result_.loss_identity
    assert cb.PriorShift().fit(P, np.zeros(900)).fit_result_.flags == ("one class",)
    with pytest.raises(ValueError, match="the target y is None"):
        cb.PriorShift().fit(P)


def test_with_labels_it_says_what_the_shift_costs():
    shift = cb.PriorShift(target_mean=0.2).fit(P, Y)
    change = cb.compare(Y, P, shift.predict_proba(P))
    assert change.log_loss.a == pytest.approx(shift.fit_result_.loss_identity, rel=1e-9)
    assert change.log_loss.b == pytest.approx(shift.fit_result_.loss, rel=1e-9)
    assert np.isnan(cb.PriorShift(target_mean=0.2).fit(P).fit_result_.loss)


def test_a_table_gives_the_offset_of_its_rows():
    p = np.round(P, 2)
    table = cb.tabulate(Y, p, bins="distinct")
    offset = cb.PriorShift(target_mean=0.1).fit_table(table).offset_
    assert offset == pytest.approx(cb.PriorShift(target_mean=0.1).fit(p).offset_, rel=1e-12)


def test_rows_without_labels_may_certify_and_rows_with_labels_may_not():
    p = np.round(np.clip(P, 0.05, 0.95), 1)
    assert cb.PriorShift(target_mean=0.4).fit(p).certify(p, Y, max_error=0.5).n == 900
    with pytest.raises(InvalidInputError, match="the very rows it was fitted on"):
        cb.PriorShift(target_mean=0.4).fit(p, Y).certify(p, Y, max_error=0.5)


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
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(InvalidArgumentError):
        cb.PriorShift(**options).fit(P, Y)


@pytest.mark.parametrize("rows", [[], [np.nan], [0.5, 1.5], [[0.2, 0.3, 0.5]], 0.5])
def test_predictions_that_are_none_are_refused(rows):
    with pytest.raises(CalibrantError):
        cb.PriorShift(offset=1.0).fit(rows)


def test_two_columns_are_one_event_and_one_row_is_enough():
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
