"""Dirichlet and joint beta scaling: against other implementations, and where rows are few."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from shared import class_rows

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError

PROBS, Y = class_rows(400, n_classes=3)
BOTH = [cb.DirichletScaling, cb.JointBetaScaling]


def loss_of(eta):
    return -log_softmax(eta, axis=1)[np.arange(len(Y)), Y].mean()


def test_odir_is_minimised():
    """Equation 8 of Kull et al. (2019) with lambda = mu, by a general optimiser."""
    strength, k, z = 0.3, 3, np.log(PROBS)

    def objective(x):
        w, b = x[:9].reshape(3, 3), x[9:]
        off = w - np.diag(np.diag(w))
        penalty = strength * ((off**2).sum() / (k * (k - 1)) + (b**2).sum() / k)
        return loss_of(z @ w.T + b) + penalty

    start = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    best = minimize(objective, start, method="BFGS", options={"gtol": 1e-8}).x
    fitted = cb.DirichletScaling(strength).fit(PROBS, Y)
    assert fitted.regularization_ == strength
    np.testing.assert_allclose(fitted.weight_, best[:9].reshape(3, 3), atol=1e-4)
    np.testing.assert_allclose(fitted.bias_, best[9:], atol=1e-4)
    expected = softmax(z @ best[:9].reshape(3, 3).T + best[9:], axis=1)
    np.testing.assert_allclose(fitted.predict_proba(PROBS), expected, atol=1e-4)


def test_joint_beta_is_minimised():
    penalty = 3 / 400

    def objective(x):
        a, b, c = x.reshape(3, 3)
        change = x - np.repeat([1.0, 0.0, 0.0], 3)
        eta = a * np.log(PROBS) - b * np.log1p(-PROBS) + c
        return loss_of(eta) + penalty * (change**2).sum()

    best = minimize(objective, np.repeat([1.0, 0.0, 0.0], 3), method="BFGS", options={"gtol": 1e-8})
    fitted = cb.JointBetaScaling().fit(PROBS, Y)
    np.testing.assert_allclose(fitted.coef_, best.x.reshape(3, 3), atol=1e-4)


def test_of_two_classes_joint_beta_is_beta_scaling():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = (rng.uniform(size=20_000) < p**1.5).astype(int)
    joint = cb.JointBetaScaling(regularization=1e-6).fit(np.column_stack([1 - p, p]), y)
    beta = cb.BetaScaling().fit(p, y)
    grid = np.linspace(0.01, 0.99, 50)
    answers = joint.predict_proba(np.column_stack([1 - grid, grid]))
    np.testing.assert_allclose(answers[:, 1], beta.predict_proba(grid), atol=1e-4)


def test_the_penalty_that_holds_up_is_chosen():
    """Temperature 2 is in the family; of pure noise nothing but the frequencies should be left."""
    fitted = cb.DirichletScaling().fit(PROBS, Y)
    assert fitted.fit_result_.loss < fitted.fit_result_.loss_identity
    np.testing.assert_allclose(np.diag(fitted.weight_), 0.5, atol=0.15)
    noise = np.random.default_rng(0).integers(3, size=400)
    answers = cb.DirichletScaling().fit(PROBS, noise).predict_proba(PROBS)
    assert np.abs(answers - np.bincount(noise) / 400).mean() < 0.05


def test_logits_are_read_as_their_probabilities():
    logits = cb.DirichletScaling(1.0, input="logits").fit(np.log(PROBS) * 1.0, Y)
    probabilities = cb.DirichletScaling(1.0).fit(PROBS, Y)
    np.testing.assert_allclose(
        logits.predict_proba(np.log(PROBS)), probabilities.predict_proba(PROBS), atol=1e-6
    )


@pytest.mark.parametrize("make", BOTH)
def test_few_rows_many_classes_zeros_and_absent_classes_are_answered(make):
    rng = np.random.default_rng(0)
    many = rng.dirichlet(np.ones(40), size=120)
    hard = [
        (PROBS[:1], Y[:1]),
        (PROBS[:6], np.zeros(6, int)),
        (np.eye(3)[Y], Y),
        (np.round(PROBS, 1), Y),
        (PROBS.astype(np.float16), Y),
        (many, rng.integers(30, size=120)),
    ]
    for probs, y in hard:
        out = make().fit(probs, y).predict_proba(probs)
        assert np.isfinite(out).all()
        if not (probs == probs.astype(int)).all():
            np.testing.assert_allclose(out.sum(axis=1), 1, atol=1e-2)
    w = rng.integers(0, 3, size=400)
    weighted = make(0.5).fit(PROBS, Y, sample_weight=w).predict_proba(PROBS)
    assert np.isfinite(weighted).all()


@pytest.mark.parametrize("make", BOTH)
def test_what_means_nothing_is_refused(make):
    for regularization in (0, -1, np.nan, "strong", None, True):
        with pytest.raises(InvalidArgumentError, match="regularization"):
            make(regularization).fit(PROBS, Y)
    with pytest.raises(CalibrantError, match="one column for each class"):
        make().fit(PROBS[:, 0], Y == 0)


def test_many_classes_on_few_rows_are_left_alone_and_on_more_rows_repaired():
    def rows(n):
        z = rng.normal(size=(n, 60))
        z[np.arange(n), rng.integers(0, 60, n)] += 4
        y = (2 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
        p = np.exp(3 * z * (1 + 0.2 * np.sin(np.arange(60))))
        return p / p.sum(axis=1, keepdims=True), y

    def lost(answers, y):
        return -np.log(answers[np.arange(len(y)), y]).mean()

    rng = np.random.default_rng(5)
    p, y = rows(4000)
    few = cb.DirichletScaling().fit(*rows(200))
    assert "kept identity" in few.fit_result_.flags
    np.testing.assert_array_equal(few.predict_proba(p), p)
    many = cb.DirichletScaling().fit(*rows(3000))
    tempered = cb.TemperatureScaling().fit(*rows(3000)).predict_proba(p)
    assert lost(many.predict_proba(p), y) < lost(tempered, y) - 0.02 < lost(p, y)


@pytest.mark.parametrize("input", ["probabilities", "logits"])
def test_a_class_without_rows_is_not_ruled_out(input):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=300)
    scores = p if input == "probabilities" else np.log(p)
    for rows, labels in ((slice(300), rng.integers(0, 2, size=300)), (slice(1), [1])):
        fitted = cb.DirichletScaling(input=input).fit(scores[rows], labels)
        answers = fitted.predict_proba(scores)
        assert np.median(answers[:, 2]) > 1e-4
        assert answers[:, 2].mean() < p[:, 2].mean() + 1e-9


def test_one_class_in_a_few_rows_is_no_certainty():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=10)
    answers = cb.DirichletScaling().fit(p, np.zeros(10, int)).predict_proba(p)
    assert answers[:, 0].mean() < 0.95
