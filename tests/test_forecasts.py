"""The front door for forecasters: references, classes, clusters and frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidShapeError

RNG = np.random.default_rng(0)
P = RNG.uniform(0.01, 0.99, size=400)
Y = (RNG.uniform(size=400) < P).astype(int)
PROBS = RNG.dirichlet(np.ones(4), size=400)
CLASS = np.array([RNG.choice(4, p=row) for row in PROBS])


def test_skills_are_ratios_of_the_scores_of_scikit_learn():
    base = np.full(400, Y.mean())
    brier = 1 - brier_score_loss(Y, P) / brier_score_loss(Y, base)
    assert cb.skill_score(Y, P).value == pytest.approx(brier, rel=1e-12)
    logs = 1 - log_loss(Y, P) / log_loss(Y, P**2)
    assert cb.skill_score(Y, P, P**2, score="log").value == pytest.approx(logs, rel=1e-12)
    constant = 1 - brier_score_loss(Y, P) / brier_score_loss(Y, np.full(400, 0.3))
    assert cb.skill_score(Y, P, reference=0.3).value == pytest.approx(constant, rel=1e-12)
    of_classes = 1 - log_loss(CLASS, PROBS) / log_loss(
        CLASS, np.tile(np.bincount(CLASS) / 400, (400, 1))
    )
    assert cb.skill_score(CLASS, PROBS, score="log").value == pytest.approx(of_classes, rel=1e-9)


def test_the_ranked_probability_score_is_the_sum_of_brier_scores_of_cumulated_events():
    """By hand: the event of a category is "this or one before", and squares are summed."""
    expected = sum(
        brier_score_loss(k >= CLASS, np.clip(PROBS[:, : k + 1].sum(axis=1), 0, 1)) for k in range(3)
    )
    assert float(cb.ranked_probability_score(CLASS, PROBS)) == pytest.approx(expected, rel=1e-12)
    assert float(cb.ranked_probability_score(Y, P)) == pytest.approx(
        brier_score_loss(Y, P), rel=1e-12
    )
    skill = cb.skill_score(CLASS, PROBS, score="rps")
    assert skill.score == pytest.approx(expected, rel=1e-12)
    assert 0 < skill.confidence_interval().low < skill.value < 1


def test_columns_clusters_and_logits_are_read_as_everywhere():
    day = np.arange(400) // 8
    frame = pd.DataFrame({"y": Y, "p": P, "q": P**2, "day": day})
    by_name = cb.skill_score("y", "p", "q", data=frame, cluster="day")
    by_array = cb.skill_score(Y, P, P**2, cluster=day)
    assert by_name.to_dict() == by_array.to_dict()
    assert by_array.n_clusters == 50
    logits = cb.skill_score(Y, np.log(P / (1 - P)), np.log(P**2 / (1 - P**2)), input="logits")
    assert logits.value == pytest.approx(by_array.value, rel=1e-9)
    both = cb.skill_score(Y, np.column_stack([1 - P, P]))
    assert both.value == pytest.approx(cb.skill_score(Y, P).value, rel=1e-12)
    named = cb.skill_score(np.where(Y, "rain", "dry"), P, pos_label="rain")
    assert named.value == pytest.approx(cb.skill_score(Y, P).value, rel=1e-12)


def test_weights_are_importance():
    w = RNG.integers(0, 3, size=400)
    weighted = cb.skill_score(Y, P, sample_weight=w)
    repeated = cb.skill_score(np.repeat(Y, w), np.repeat(P, w))
    assert weighted.value == pytest.approx(repeated.value, rel=1e-12)


def test_what_cannot_be_a_reference_is_refused():
    for reference in (1.5, -0.1, np.nan, True):
        with pytest.raises(InvalidArgumentError, match="probability of one event"):
            cb.skill_score(Y, P, reference)
    with pytest.raises(InvalidArgumentError, match="several classes"):
        cb.skill_score(CLASS, PROBS, 0.3)
    with pytest.raises(InvalidShapeError, match="the same columns"):
        cb.skill_score(CLASS, PROBS, np.column_stack([PROBS / 2, PROBS / 2]))
    with pytest.raises(CalibrantError, match="y_true and reference must have the same number"):
        cb.skill_score(Y, P, P[:7])
    with pytest.raises(
        CalibrantError, match=r"reference must not be missing.*reference\[0\] = nan"
    ):
        cb.skill_score(Y, P, P * np.nan)
    with pytest.raises(InvalidShapeError, match="one column per class; reference has shape"):
        cb.skill_score(CLASS, PROBS, PROBS[:, 0])
    with pytest.raises(InvalidArgumentError, match='score must be "brier"'):
        cb.skill_score(Y, P, score="crps")
    with pytest.raises(InvalidArgumentError, match="not in a table"):
        cb.skill_score(cb.tabulate(Y, P), None)


@pytest.mark.parametrize("score", [cb.skill_score, cb.ranked_probability_score])
def test_scores_of_rows_refuse_a_table_in_their_place(score):
    table = cb.tabulate([0, 1, 1], [0.2, 0.6, 0.9], bins="distinct")
    with pytest.raises(InvalidArgumentError, match="table (of|holds) sums"):
        score(table)
