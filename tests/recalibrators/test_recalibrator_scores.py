"""Scores: what rows and cells of a table say of one event, and what a loss makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows

from calibrant import tabulate
from calibrant.recalibrators.scores import Scores, identity_loss, mean_loss


def test_losses_of_rows_of_a_table_and_of_distinct_scores_are_one_number():
    p, y = binary_rows(900)
    p = p.round(2).clip(0.01, 0.99)
    rows = Scores.of_rows(p, y == 1)
    table = Scores.of_table(tabulate(y, p, bins="distinct"))
    expected = {
        "log": -np.log(np.where(y == 1, p, 1 - p)).mean(),
        "squared": ((p - y) ** 2).mean(),
    }
    for loss, value in expected.items():
        for scores in (rows, rows.distinct(), table, table.with_one_label()):
            assert identity_loss(scores, loss) == pytest.approx(value, rel=1e-12)
            logits = scores.replace_values(np.log(scores.values / (1 - scores.values)))
            assert mean_loss(logits.values, logits, loss) == pytest.approx(value, rel=1e-10)


def test_scores_of_both_labels_stand_twice_and_others_once():
    scores = Scores(np.array([0.1, 0.2, 0.3]), np.array([0.0, 2.0, 5.0]), np.full(3, 5.0), 15.0)
    parted = scores.with_one_label()
    assert parted.values.tolist() == [0.2, 0.3, 0.1, 0.2]
    assert parted.events.tolist() == [2.0, 5.0, 0.0, 0.0]
    assert parted.weights.tolist() == [2.0, 5.0, 5.0, 3.0]
    assert parted.with_one_label() is parted


def test_a_threshold_divides_events_with_a_tie_at_it_and_no_further():
    p = np.array([0.1, 0.3, 0.3, 0.8])
    assert Scores.of_rows(p, np.array([False, False, True, True])).is_separated
    assert Scores.of_rows(p, np.array([True, True, False, False])).is_separated
    assert not Scores.of_rows(p, np.array([True, False, False, True])).is_separated


@pytest.mark.parametrize("n", [5000, 100_000])
def test_scores_are_added_up_only_where_many_rows_share_one(n):
    rng = np.random.default_rng(0)
    for n_distinct, shorter in ((20, True), (n // 60, True), (n // 4, False), (10**9, False)):
        p = rng.integers(n_distinct, size=n) / n_distinct
        scores = Scores.of_rows(p, rng.random(n) < p)
        compressed = scores.compressed()
        assert (compressed is not scores) is shorter
        assert compressed.event_rate == pytest.approx(scores.event_rate, rel=1e-12)
