"""Logs of lm-eval: its choices, its own grades, and its filters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cb
from calibrant import exceptions as ex
from log_files import (
    CHOICES,
    GOLD,
    LIKELIHOODS,
    generated,
    multiple_choice,
    two_tasks,
    write_samples,
)


def test_choices_of_lm_eval_are_a_softmax_and_graded_by_the_harness_itself(tmp_path):
    log = cb.read_log(two_tasks(tmp_path), "lm-eval")
    np.testing.assert_allclose(log["confidence"], softmax(LIKELIHOODS, axis=1).max(axis=1))
    assert log["correct"].tolist() == (LIKELIHOODS.argmax(axis=1) == GOLD).tolist()
    assert log.tasks == ("mmlu_anatomy", "mmlu_virology")
    assert log["task"].tolist() == ["mmlu_anatomy"] * 25 + ["mmlu_virology"] * 15
    assert not log.is_repeated


def test_length_normalised_choices_are_those_of_acc_norm(tmp_path):
    log = cb.read_log(two_tasks(tmp_path), "lm-eval", normalize="characters")
    scaled = LIKELIHOODS / [*map(len, CHOICES)]
    np.testing.assert_allclose(log["confidence"], softmax(scaled, axis=1).max(axis=1))
    assert log["correct"].tolist() == (scaled.argmax(axis=1) == GOLD).tolist()
    assert "divided by characters" in " ".join(str(log).split())


def test_a_grade_that_contradicts_the_likelihoods_is_refused(tmp_path):
    row = multiple_choice(0, [-1.0, -9.0, -30.0, -30.0], 0)
    path = write_samples(tmp_path, "t", [row | {"acc": 0.0}])
    with pytest.raises(ex.InvalidInputError, match=r"row 1: choice 0 is the likeliest .* grade s"):
        cb.read_log(path, "lm-eval")


def test_a_target_may_be_the_text_of_a_choice_or_be_unknown(tmp_path):
    rows = [
        multiple_choice(0, [-1.0, -9.0], 0, target="Paris"),
        multiple_choice(1, [-1.0, -9.0], 1, target="[1, 0]"),
    ]
    assert cb.read_log(write_samples(tmp_path, "t", rows), "lm-eval")["correct"].tolist() == [1, 0]


def test_the_number_of_choices_may_vary_and_some_may_be_impossible(tmp_path):
    rows = [
        multiple_choice(0, ["-inf", -1.0], 1),
        multiple_choice(1, np.random.default_rng(5).normal(size=1000).tolist(), 3),
        multiple_choice(2, [-800.0, -805.0, -900.0], 0),
    ]
    log = cb.read_log(write_samples(tmp_path, "t", rows), "lm-eval")
    assert log["confidence"][0] == 1.0
    assert log["confidence"][2] == pytest.approx(1 / (1 + math.exp(-5)))
    assert log.n == 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([-1.0], "at least two choices .* there are 1"),
        (["-inf", "-inf"], "every choice has the log-likelihood -inf"),
        (["nan", -1.0], "must be a number or -inf; got 'nan'"),
        (["inf", -1.0], "must be a number or -inf; got 'inf'"),
        (["x", -1.0], "must be a number or -inf; got 'x'"),
    ],
)
def test_likelihoods_without_a_softmax_are_refused_with_their_row(tmp_path, values, said):
    good = multiple_choice(0, [-1.0, -2.0], 0)
    bad = multiple_choice(1, [-1.0] * len(values), 0)
    bad["filtered_resps"] = [[str(x), "False"] for x in values]
    with pytest.raises(ex.InvalidInputError, match=f"samples_t.*, row 2: .*{said}"):
        cb.read_log(write_samples(tmp_path, "t", [good, bad]), "lm-eval")


def test_mutual_information_leaves_its_unconditional_half_out(tmp_path):
    row = multiple_choice(0, [-1.0, -3.0, -0.1, -0.2], 0)
    row |= {"acc_mutual_info": 1.0, "target": "0", "acc": 1.0}
    log = cb.read_log(write_samples(tmp_path, "t", [row]), "lm-eval")
    assert log["confidence"][0] == pytest.approx(1 / (1 + math.exp(-2)))


def test_p_true_is_the_probability_of_true_and_the_event_that_it_is(tmp_path):
    likelihoods = [[-0.1, -3.0], [-2.0, -0.5], [-0.2, -1.0], [-4.0, -0.1]]
    gold = [0, 0, 1, 1]  # 0: the proposed answer is true
    rows = [multiple_choice(i, likelihoods[i], gold[i], texts=("True", "False")) for i in range(4)]
    log = cb.read_log(write_samples(tmp_path, "t", rows), "lm-eval", confidence="p-true")
    np.testing.assert_allclose(log["confidence"], softmax(likelihoods, axis=1)[:, 0])
    assert log["correct"].tolist() == [True, True, False, False]
    with pytest.raises(ex.InvalidInputError, match="one choice must be 'yes'.* 'True', 'False'"):
        cb.read_log(str(tmp_path / "*"), "lm-eval", confidence="p-true", true_choice="yes")


def test_votes_are_the_share_that_agrees_with_the_graded_answer(tmp_path):
    texts = ["The answer is 18.", "The answer is 18.", "so the answer is 7.", "no idea"]
    rows = [
        generated(0, texts, "18", True, filter_name="maj@4"),
        generated(1, ["The answer is 5."] * 4, "5", False, filter_name="maj@4"),
        generated(2, ["no idea"] * 4, "[invalid]", False, filter_name="maj@4"),
    ]
    path = write_samples(tmp_path, "gsm8k", rows)
    options = {"confidence": "votes", "pattern": r"answer is (\d+)"}
    log = cb.read_log(path, "lm-eval", **options, unparsed="abstain")
    assert log["confidence"].tolist() == [0.5, 1.0]
    assert (log["correct"].tolist(), log.declined) == ([True, False], (1,))
    with pytest.raises(ex.InvalidInputError, match="row 3: .* no answer was found in the sam"):
        cb.read_log(path, "lm-eval", **options)
    with pytest.raises(ex.InvalidInputError, match=r"'18' was graded, .* is that .* pattern="):
        cb.read_log(path, "lm-eval", confidence="votes")


def test_one_filter_of_several_must_be_chosen(tmp_path):
    rows = [
        generated(0, ["Confidence: 90%"], "18", True, filter_name=name)
        for name in ("strict-match", "flexible-extract")
    ]
    path = write_samples(tmp_path, "gsm8k", rows)
    options = {"confidence": "stated", "pattern": "Confidence: (.+)"}
    with pytest.raises(ex.InvalidArgumentError, match=r"flexible-extract, strict-match.* filter="):
        cb.read_log(path, "lm-eval", **options)
    assert cb.read_log(path, "lm-eval", **options, filter="strict-match")["confidence"] == [0.9]
    with pytest.raises(ex.EmptyInputError, match="there are no answers of this filter; at least"):
        cb.read_log(path, "lm-eval", **options, filter="strict")


def test_of_several_texts_the_one_that_was_graded_must_be_named(tmp_path):
    path = write_samples(tmp_path, "t", [generated(0, ["90%", "50%"], "18", True)])
    with pytest.raises(ex.InvalidInputError, match="wrote 2 texts.* field='resps.0.0'"):
        cb.read_log(path, "lm-eval", confidence="stated")
    log = cb.read_log(path, "lm-eval", confidence="stated", field="resps.0.1")
    assert log["confidence"] == [0.5]


@pytest.mark.parametrize("field", ["filtered_resps", "resps", "arguments"])
def test_a_question_that_has_lost_a_choice_is_refused(field, tmp_path):
    row = multiple_choice(0, [-1.0, -2.0, -3.0], 0)
    if field == "arguments":
        row[field].popitem()
    else:
        row[field].pop()
    path = write_samples(tmp_path, "t", [row])
    with pytest.raises(ex.InvalidDocumentError, match=r"row 1: every choice .* there are [23]"):
        cb.read_log(path, "lm-eval")
