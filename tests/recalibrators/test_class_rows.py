"""Rows of several classes: folds, losses by blocks, and variables in which a loss is round."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from shared import class_rows

from calibrant.recalibrators.class_rows import (
    ClassRows,
    RankOnePlusDiagonal,
    fold_of_rows,
    squared_errors,
)


def test_every_class_is_spread_evenly_over_the_folds():
    codes = np.repeat([0, 1, 2], [50, 31, 4])
    fold = fold_of_rows(codes, 5, np.random.default_rng(0))
    counts = np.array([np.bincount(fold[codes == k], minlength=5) for k in range(3)])
    assert (np.ptp(counts, axis=1) <= 1).all()
    assert np.ptp(np.bincount(fold)) <= 1


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_the_loss_of_a_tempered_softmax_and_its_slopes_are_those_of_plain_sums(kind):
    probs, y = class_rows(50_000)
    w = np.random.default_rng(0).exponential(size=len(y))
    w[::7] = 0
    z = np.log(probs) if kind == "probabilities" else 3 * probs
    rows = ClassRows.of(probs if kind == "probabilities" else z, y, w, kind)

    def loss(beta):
        own = log_softmax(beta * z, axis=1)[np.arange(len(y)), y]
        return -np.average(own, weights=w)

    value, first, second = rows.softmax_sums(0.7, rows.own())
    h = 1e-4
    assert value == pytest.approx(loss(0.7), rel=1e-12)
    assert first == pytest.approx((loss(0.7 + h) - loss(0.7 - h)) / (2 * h), rel=1e-6)
    bend = (loss(0.7 + h) - 2 * loss(0.7) + loss(0.7 - h)) / h**2
    assert second == pytest.approx(bend, rel=1e-4)


def test_absent_classes_get_a_row_together_and_present_ones_none():
    probs, y = class_rows(40)
    few = ClassRows.of(probs, y % 2, None, "probabilities").with_absent_classes()
    assert few.codes[40:].tolist() == [2, 3]
    assert few.weights[40:].tolist() == [0.5, 0.5]
    np.testing.assert_allclose(few.rows[40:], [probs.mean(axis=0)] * 2)
    every = ClassRows.of(probs, np.arange(40) % 4, None, "probabilities")
    assert every.with_absent_classes() is every


def test_the_squared_error_of_a_row_is_that_of_all_its_columns():
    probs, y = class_rows(100)
    np.testing.assert_allclose(squared_errors(probs, y), ((probs - np.eye(4)[y]) ** 2).sum(axis=1))
    both = np.column_stack((1 - probs[:, 0], probs[:, 0]))
    one = squared_errors(probs[:, 0], y == 0)
    np.testing.assert_allclose(squared_errors(both, (y == 0).astype(int)), 2 * one)


def test_a_loss_that_is_rank_one_plus_diagonal_is_round_in_its_variables():
    rng = np.random.default_rng(0)
    q, z = rng.uniform(size=(500, 1)), rng.normal(size=(500, 1)) + 40
    penalty = np.array([[2.0, 3.0]])
    change = RankOnePlusDiagonal.of_moments(
        q.sum(axis=0), (q * z).sum(axis=0)[:, None], (q * z**2).sum(axis=0)[:, None], penalty
    )
    features = np.hstack([z, np.ones_like(z)])
    hessian = features.T @ (q * features) + np.diag(2 * penalty[0])

    def in_round_variables(x):
        return change.to_slopes(change.to_parameters(x) @ hessian)

    rounded = np.vstack([in_round_variables(row[None]) for row in np.eye(2)])
    assert np.linalg.cond(hessian) > 1e4
    np.testing.assert_allclose(rounded, np.eye(2), atol=0.05)
