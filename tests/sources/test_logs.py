"""Evaluation logs: every way to a confidence, what is refused, and what is counted."""

from __future__ import annotations

import copy
import gzip
import json
import math
import pickle
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cb
from calibrant import exceptions as ex

sys.path.insert(0, str(Path(__file__).parent.parent))
from log_files import (
    CHOICES,
    digest,
    generated,
    inspect_sample,
    multiple_choice,
    write_inspect,
    write_lines,
    write_samples,
    zstandard,
)

RNG = np.random.default_rng(5)
N = 40
LIKELIHOODS = RNG.normal(-20, 2, size=(N, 4)).round(3)
GOLD = RNG.integers(4, size=N)


@pytest.fixture
def samples(tmp_path):
    rows = [multiple_choice(i, LIKELIHOODS[i].tolist(), GOLD[i]) for i in range(N)]
    write_samples(tmp_path, "mmlu_anatomy", rows[:25])
    write_samples(tmp_path, "mmlu_virology", rows[25:])
    return str(tmp_path / "samples_*.jsonl")


def test_choices_of_lm_eval_are_a_softmax_and_graded_by_the_harness_itself(samples):
    log = cb.read_log(samples, "lm-eval")
    np.testing.assert_allclose(log["confidence"], softmax(LIKELIHOODS, axis=1).max(axis=1))
    assert log["correct"].tolist() == (LIKELIHOODS.argmax(axis=1) == GOLD).tolist()
    assert log.tasks == ("mmlu_anatomy", "mmlu_virology")
    assert log["task"].tolist() == ["mmlu_anatomy"] * 25 + ["mmlu_virology"] * 15
    assert not log.is_repeated


def test_length_normalised_choices_are_those_of_acc_norm(samples):
    log = cb.read_log(samples, "lm-eval", normalize="characters")
    scaled = LIKELIHOODS / [*map(len, CHOICES)]
    np.testing.assert_allclose(log["confidence"], softmax(scaled, axis=1).max(axis=1))
    assert log["correct"].tolist() == (scaled.argmax(axis=1) == GOLD).tolist()
    assert "divided by characters" in " ".join(str(log).split())


def test_a_log_goes_through_the_one_door(samples):
    log = cb.read_log(samples, "lm-eval")
    plain = cb.calibration_error(log["correct"], log["confidence"], bins=5)
    assert cb.calibration_error("correct", "confidence", data=log, bins=5) == plain
    by_task = cb.calibration_error("correct", "confidence", data=log, bins=5, by="task")
    assert len(by_task.tables) == 2
    assert cb.certify("correct", "confidence", data=log, cluster="question", max_error=0.3).n == N


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
        multiple_choice(1, RNG.normal(size=1000).tolist(), 3),
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


STATED = {
    "90%": 0.9, " 90 % ": 0.9, "87.5 percent": 0.875, "9/10": 0.9, "9 out of 10": 0.9, "0.25": 0.25,
    ".5": 0.5, "1e-3": 0.001, "100%": 1.0, "0": 0.0, "Very Likely": 0.9, "hardly": 0.05,
}  # fmt: skip


@pytest.mark.parametrize("text", STATED)
def test_stated_confidences_are_read_as_they_stand(tmp_path, text):
    path = write_lines(tmp_path / "quiz.jsonl", [{"confidence": text, "correct": 1}])
    words = {"very likely": 0.9, "hardly": 0.05}
    assert cb.read_log(path, "jsonl", words=words)["confidence"] == [STATED[text]]


UNREADABLE = [
    "80 to 90%", "about 90%", "150%", "-5%", "11/10", "0/0", "9/0", "90", "high", "", "nan", "0,9",
    "1/2/3", None, True, [0.9], {"p": 1}, 1.5, -0.1, float("nan"), 10**400,
]  # fmt: skip


@pytest.mark.parametrize("value", UNREADABLE, ids=repr)
def test_what_states_no_confidence_is_refused_or_counted_but_never_guessed(tmp_path, value):
    rows = [{"confidence": 0.5, "correct": 1}, {"confidence": value, "correct": 1}]
    path = write_lines(tmp_path / "quiz.jsonl", rows)
    with pytest.raises(ex.CalibrantError, match=r"quiz.jsonl, row 2"):
        cb.read_log(path, "jsonl")
    if value != 10**400:  # more digits than Python reads: not JSON for anybody
        log = cb.read_log(path, "jsonl", unparsed="abstain")
        assert (log.n, log.declined) == (1, (1,))
        assert "first unread" in str(log)


def test_plain_numbers_are_out_of_the_declared_scale(tmp_path):
    rows = [{"confidence": x, "correct": 1} for x in (90, "75", "60%", "4/5")]
    path = write_lines(tmp_path / "quiz.jsonl", rows)
    assert cb.read_log(path, "jsonl", scale=100)["confidence"].tolist() == [0.9, 0.75, 0.6, 0.8]
    with pytest.raises(ex.InvalidInputError, match="'90' is not within 0 and 1 at scale 1"):
        cb.read_log(path, "jsonl")


def test_declined_questions_are_counted_by_task_and_left_out(tmp_path):
    rows = [
        {"q": 1, "subject": "law", "said": "Confidence: 80%", "right": True},
        {"q": 2, "subject": "law", "said": "I don't know.", "right": False},
        {"q": 3, "subject": "art", "said": "50%? No. Confidence: 60%", "right": False},
        {"q": 4, "subject": "art", "said": "Confidence: 60%", "right": None},
    ]
    log = cb.read_log(
        write_lines(tmp_path / "quiz.jsonl", rows),
        "jsonl",
        field="said",
        correct="right",
        task="subject",
        question="q",
        pattern=r"Confidence: (\S+)",
        abstain="don't know",
    )
    assert log["confidence"].tolist() == [0.8, 0.6]
    assert (log.tasks, log.declined, log.ungraded) == (("law", "art"), (1, 0), (0, 1))
    assert str(log).splitlines()[1:] == [
        "task  asked  declined  answered  right  mean confidence",
        "law       2         1         1  1.000            0.800",
        "art       2         0         1  0.000            0.600",
        "all       4         1         2  0.500            0.700",
        "left out, without a grade: 1 answer",
    ]


def test_one_number_in_two_tasks_is_two_questions(tmp_path):
    """Taken for one question asked twice, epoch=1 left out the second task without a word."""
    rows = [
        {"subject": s, "q": i, "confidence": 0.7, "correct": i > 1} for s in "ab" for i in range(4)
    ]
    path, named = write_lines(tmp_path / "quiz.jsonl", rows), {"task": "subject", "question": "q"}
    for epoch in (None, 1):
        log = cb.read_log(path, "jsonl", **named, epoch=epoch)
        assert (log.n, log.is_repeated, log.tasks) == (8, False, ("a", "b"))
    assert cb.read_log(path, "jsonl", question="q").is_repeated


def test_a_task_of_which_every_question_was_declined_is_named_beside_the_others(tmp_path):
    rows = [{"t": t, "confidence": said, "correct": True} for t, said in (("a", "90%"), ("b", "?"))]
    path = write_lines(tmp_path / "q.jsonl", rows)
    log = cb.read_log(path, "jsonl", task="t", abstain=r"\?")
    assert log.in_short().endswith("1 answer in 2 tasks, 1 declined; no answer to b")
    assert "no answer to b" in cb.report("correct", "confidence", data=log).html


def test_choices_and_votes_of_json_lines_are_in_the_named_fields(tmp_path):
    rows = [
        {"lp": {"Paris": -1.0, "Lyon": -3.0}, "votes": ["Paris", "Lyon", "Paris"], "a": "Paris"},
        {"lp": {"Paris": -2.0, "Lyon": -2.0}, "votes": ["Lyon"], "a": "Lyon"},
    ]
    path = write_lines(tmp_path / "q.jsonl", [row | {"ok": 1} for row in rows])
    log = cb.read_log(path, "jsonl", confidence="choices", field="lp", correct="ok")
    np.testing.assert_allclose(log["confidence"], [1 / (1 + math.exp(-2)), 0.5])
    log = cb.read_log(path, "jsonl", confidence="choices", field="lp", correct="ok", answer="a")
    np.testing.assert_allclose(log["confidence"], [1 / (1 + math.exp(-2)), 0.5])
    log = cb.read_log(path, "jsonl", confidence="votes", field="votes", correct="ok", answer="a")
    np.testing.assert_allclose(log["confidence"], [2 / 3, 1])
    log = cb.read_log(
        path, "jsonl", confidence="p-true", field="lp", correct="ok", true_choice="lyon"
    )
    np.testing.assert_allclose(log["confidence"], [1 / (1 + math.exp(2)), 0.5])


def test_a_pattern_takes_votes_from_texts_whatever_wrote_the_log(tmp_path):
    texts = ["So it is Paris.", "Lyon. No, it is Paris!", "It is Lyon.", "Who knows?"]
    row = {"confidence": texts, "answer": "Paris", "correct": True}
    path = write_lines(tmp_path / "q.jsonl", [row])
    read = {"confidence": "votes", "pattern": r"is (\w+)"}
    assert cb.read_log(path, "jsonl", **read)["confidence"] == [0.5]
    with pytest.raises(ex.InvalidInputError, match="none of the 4 .* pattern="):
        cb.read_log(path, "jsonl", confidence="votes")
    samples = [
        inspect_sample("q", "C" if "Paris" in text else "I", epoch, answer=text)
        for epoch, text in enumerate(texts, 1)
    ]
    path = write_inspect(tmp_path / "log.eval", samples)
    log = cb.read_log(path, "inspect", **read)
    assert (log["confidence"], log["correct"]) == ([0.5], [True])
    assert cb.read_log(path, "inspect", confidence="votes")["confidence"] == [0.25]


def test_an_answer_of_little_confidence_that_is_wrong_is_not_counted_as_right(tmp_path):
    rows = [{"confidence": 0.3, "correct": i == 0} for i in range(10)]
    log = cb.read_log(write_lines(tmp_path / "q.jsonl", rows), "jsonl")
    curve = cb.selective_curve("correct", "confidence", data=log)
    assert (curve.correct[0], curve.n) == (1, 10)
    assert cb.report("correct", "confidence", data=log).findings.selective.correct[0] == 1
    alone = cb.report("correct", "confidence", data=dict(log), given_answer=True)
    assert alone.findings.selective.correct[0] == 1
    shown = cb.SelectiveDisplay.from_predictions("correct", "confidence", data=log, draw=False)
    assert [one.correct[0] for one in shown.curves.values()] == [1]


def test_one_answer_of_each_question_is_read_from_json_lines(tmp_path):
    rows = [{"q": i // 3, "confidence": 0.1 * i, "correct": i % 2} for i in range(6)]
    path = write_lines(tmp_path / "q.jsonl", rows)
    log = cb.read_log(path, "jsonl", question="q", epoch=2)
    np.testing.assert_allclose(log["confidence"], [0.1, 0.4])
    assert not log.is_repeated


@pytest.mark.parametrize(
    ("writer", "options", "message"),
    [
        ("lm-eval", {"epoch": 1}, "epoch= is for inspect, jsonl; this is lm-eval choices"),
        ("lm-eval", {"field": "resps"}, "field= is for lm-eval stated, inspect, jsonl"),
        ("lm-eval", {"abstain": "x"}, "abstain= is for stated, votes"),
        ("lm-eval", {"pattern": "x"}, "pattern= is for stated, votes, tokens"),
        ("lm-eval", {"answer": "x", "confidence": "votes"}, "answer= is for inspect choices"),
        ("inspect", {"filter": "x"}, "filter= is for lm-eval; this is inspect stated"),
        ("inspect", {"normalize": "bytes"}, "normalize= is for choices, p-true"),
        ("jsonl", {"true_choice": "yes"}, "true_choice= is for p-true"),
        ("jsonl", {"confidence": "votes", "scale": 100}, "scale= is for stated"),
        ("jsonl", {"confidence": "votes", "words": {"sure": 1}}, "words= is for stated"),
        ("jsonl", {"confidence": "choices", "abstain": "x"}, "its field with answer="),
    ],
)
def test_options_that_a_log_has_no_use_for_are_refused(writer, options, message):
    with pytest.raises(ex.InvalidArgumentError, match=message):
        cb.read_log("absent.jsonl", writer, **options)


def test_probabilities_are_not_taken_for_log_likelihoods(tmp_path):
    for odds in ([0.7, 0.3], [1.0, 0.0, 0.0]):
        path = write_lines(tmp_path / "q.jsonl", [{"lp": odds, "correct": True}])
        with pytest.raises(ex.InvalidInputError, match="row 1: .* as probabilities do"):
            cb.read_log(path, "jsonl", confidence="choices", field="lp")


INSPECT = [
    inspect_sample("q1", "C", metadata={"confidence": "90%", "topic": "law"}),
    inspect_sample("q2", "I", metadata={"confidence": "3/5", "topic": "law"}),
    inspect_sample("q3", "N", answer=None, metadata={"topic": "art"}),
    inspect_sample("q4", "failed", metadata={"topic": "art"}),
    inspect_sample("q5", float("nan"), metadata={"topic": "art", "confidence": 0.5}),
    inspect_sample(6, 1.0, metadata={"confidence": 0.75, "topic": "art"}),
    inspect_sample("q7", True, metadata={"confidence": ".5", "topic": "art"}),
]


@pytest.mark.parametrize("name", ["log.eval", "log.json", "packed.eval"])
def test_inspect_logs_are_read_whole_or_from_their_archive(tmp_path, name):
    path = write_inspect(tmp_path / name, INSPECT)
    if name == "packed.eval":
        zstandard(path)
    log = cb.read_log(path, "inspect", field="metadata.confidence")
    assert log["confidence"].tolist() == [0.9, 0.6, 0.75, 0.5]
    assert log["correct"].tolist() == [True, False, True, True]
    assert log["question"].tolist() == ["quiz/q1", "quiz/q2", "quiz/6", "quiz/q7"]
    assert (log.declined, log.ungraded) == ((1,), (2,))
    topics = cb.read_log(path, "inspect", field="metadata.confidence", task="metadata.topic")
    assert (topics.tasks, topics.declined) == (("law", "art"), (0, 1))


def test_epochs_of_inspect_are_rows_of_one_question_or_its_votes(tmp_path):
    samples = [
        inspect_sample(id_, "C" if answer == "A" else "I", epoch, answer, completion=f"{p}%")
        for id_, answers in {"q1": "AAB", "q2": "BBB", "q3": "ABB"}.items()
        for epoch, (answer, p) in enumerate(zip(answers, (90, 80, 70), strict=True), 1)
    ]
    path = write_inspect(tmp_path / "log.eval", samples)
    log = cb.read_log(path, "inspect")
    assert log.n == 9
    assert log.is_repeated
    assert "each is a cluster, unless cluster=False" in str(log)
    error = cb.calibration_error("correct", "confidence", data=log, bins=1)
    assert error.n_clusters == 3
    assert "n = 9 in 3 clusters" in str(error)
    assert cb.read_log(path, "inspect", epoch=2)["confidence"].tolist() == [0.8] * 3
    votes = cb.read_log(path, "inspect", confidence="votes")
    np.testing.assert_allclose(votes["confidence"], [2 / 3, 1, 2 / 3])
    assert votes["correct"].tolist() == [True, False, False]
    samples[1]["scores"]["judge"]["value"] = "I"
    with pytest.raises(ex.InvalidInputError, match="'A', is right in one epoch, wrong in another"):
        cb.read_log(write_inspect(tmp_path / "b.eval", samples), "inspect", confidence="votes")


def test_choices_of_inspect_are_in_the_named_field(tmp_path):
    odds = {"True": -0.1, "False": -2.0}
    more = {"odds": odds, "list": [-1.0, -2.0, -3.0], "letters": {"B": -0.5, "A": -1.5}, "kept": 2}
    samples = [inspect_sample("q1", "C", metadata=more)]
    path = write_inspect(tmp_path / "log.eval", samples)
    log = cb.read_log(path, "inspect", confidence="p-true", field="metadata.odds")
    np.testing.assert_allclose(log["confidence"], 1 / (1 + math.exp(-1.9)))
    options = {"confidence": "choices", "field": "metadata.list"}
    log = cb.read_log(path, "inspect", **options, answer="metadata.kept")
    np.testing.assert_allclose(log["confidence"], softmax([-1.0, -2.0, -3.0])[2])
    log = cb.read_log(path, "inspect", confidence="choices", field="metadata.letters")
    np.testing.assert_allclose(log["confidence"], 1 / (1 + math.exp(1)))  # A was sampled
    for answer in (None, "metadata.topic"):
        with pytest.raises(ex.InvalidInputError, match="graded, which is not one of the choices"):
            cb.read_log(path, "inspect", **options, answer=answer)
    for field in ("metadata.topic", "id", "nothing"):
        with pytest.raises(ex.InvalidInputError, match="at least two choices .* there are 0"):
            cb.read_log(path, "inspect", confidence="choices", field=field)


def test_of_several_scorers_one_must_be_named_and_may_have_several_values(tmp_path):
    sample = inspect_sample("q1", {"right": 1, "polite": 0}, completion="60%")
    sample["scores"]["other"] = {"value": "I"}
    path = write_inspect(tmp_path / "log.json", [sample])
    with pytest.raises(ex.InvalidArgumentError, match="judge, other. Name one with correct="):
        cb.read_log(path, "inspect")
    assert cb.read_log(path, "inspect", correct="judge.right")["correct"].tolist() == [True]
    assert cb.read_log(path, "inspect", correct="other")["correct"].tolist() == [False]
    with pytest.raises(ex.InvalidInputError, match="a grade must be true or false"):
        cb.read_log(path, "inspect", correct="judge")
    with pytest.raises(ex.InvalidInputError, match="no scorer is called 'third'"):
        cb.read_log(path, "inspect", correct="third")


def test_samples_that_were_invalidated_are_left_out_and_counted(tmp_path):
    valid = [inspect_sample(i, "C", completion="90%") for i in range(3)]
    wrong = inspect_sample(9, "I", completion="10%", invalidation={"reason": "leaked"})
    log = cb.read_log(write_inspect(tmp_path / "log.eval", [*valid, wrong]), "inspect")
    assert (log.n, log["correct"].all()) == (3, True)
    assert "left out, invalidated in Inspect: 1 of the samples" in str(log).replace("\n ", "")
    with pytest.raises(ex.EmptyInputError, match="no answers.* invalidated in Inspect: 1"):
        cb.read_log(write_inspect(tmp_path / "none.json", [wrong]), "inspect")


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


def test_a_run_that_failed_before_its_answers_were_graded_is_said_to_have(tmp_path):
    path = write_inspect(tmp_path / "log.eval", [inspect_sample("q1", "failed")], status="error")
    with pytest.raises(ex.EmptyInputError, match="none has a grade .* its status is 'error'"):
        cb.read_log(path, "inspect")


def test_a_run_that_did_not_finish_is_read_and_said_so(tmp_path):
    samples = [inspect_sample("q1", "C", completion="90%")]
    path = write_inspect(tmp_path / "log.eval", samples, status="error")
    assert "did not finish; its status is 'error'" in str(cb.read_log(path, "inspect"))


@pytest.mark.parametrize("grade", ["P", 0.5, "maybe", [1], 2, -1])
def test_partial_credit_is_neither_right_nor_wrong(tmp_path, grade):
    path = write_inspect(tmp_path / "a.json", [inspect_sample("q1", grade, completion="90%")])
    with pytest.raises(ex.InvalidInputError, match="sample 1: a grade must be true or false"):
        cb.read_log(path, "inspect")
    path = write_lines(tmp_path / "a.jsonl", [{"confidence": 0.5, "correct": grade}])
    with pytest.raises(ex.InvalidInputError, match="row 1: a grade must be true or false"):
        cb.read_log(path, "jsonl")


def _damaged(tmp_path):
    good = write_inspect(tmp_path / "good.eval", INSPECT)
    packed = zstandard(write_inspect(tmp_path / "packed.eval", INSPECT))
    sample = json.dumps(multiple_choice(0, [-1.0, -2.0], 0))
    return {
        "empty": ("lm-eval", b""),
        "blank": ("jsonl", b"\n\n"),
        "cut line": ("lm-eval", f"{sample}\n{sample[:200]}".encode()),
        "a list": ("jsonl", b"[1]\n"),
        "deep": ("jsonl", b'{"a":' + b"[" * 200 + b"]" * 200 + b"}"),
        "another log": ("lm-eval", b'{"confidence": 0.5, "correct": true}'),
        "no question": ("lm-eval", sample.replace('"doc_id": 0', '"doc_id": null').encode()),
        "no responses": ("lm-eval", sample.replace('"filtered_resps"', '"f"').encode()),
        "not text": ("lm-eval", b"\xff\xfe\x00"),
        "cut archive": ("inspect", good.read_bytes()[:700]),
        "archive of nothing": ("inspect", b"PK\x05\x06" + bytes(18)),
        "changed archive": ("inspect", packed.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\0" * 4)),
        "cut document": ("inspect", b'{"eval": {"task": "quiz"}, "samples": [{"id"'),
        "no samples": ("inspect", b'{"eval": {"task": "quiz"}}'),
        "no task": ("inspect", b'{"eval": {}, "samples": []}'),
        "no id": ("inspect", b'{"eval": {"task": "t"}, "samples": [{}]}'),
        "deep document": ("inspect", b"[" * 10_000),
        "a number": ("inspect", b"3"),
        "odd scores": ("inspect", b'{"eval":{"task":"t"},"samples":[{"id":1,"scores":[1]}]}'),
        "odd epoch": ("inspect", b'{"eval":{"task":"t"},"samples":[{"id":1,"epoch":"x"}]}'),
    }


@pytest.mark.parametrize("what", range(20))
def test_damaged_logs_are_refused_by_name(tmp_path, what):
    name, (format_, content) = [*_damaged(tmp_path).items()][what]
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with pytest.raises(ex.CalibrantError, match="log.jsonl") as error:
        cb.read_log(path, format_)
    assert len(str(error.value)) < 600, name


def test_a_question_that_comes_twice_is_two_runs(tmp_path):
    rows = [multiple_choice(i, [-1.0, -2.0], 0) for i in range(3)]
    write_samples(tmp_path, "t", rows)
    write_samples(tmp_path, "t", rows, date="2026-11-17T10-04-12.000000")
    with pytest.raises(ex.InvalidInputError, match=r"was there before \(.*files of one run"):
        cb.read_log(str(tmp_path / "*.jsonl"), "lm-eval")


def test_packed_json_lines_are_read(tmp_path):
    rows = [multiple_choice(i, [-1.0, -2.0], 0) for i in range(3)]
    path = write_samples(tmp_path, "t", rows)
    packed = tmp_path / f"{path.name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    log = cb.read_log(packed, "lm-eval")
    assert (log.n, log.tasks) == (3, ("t",))


def test_two_models_are_paired_by_question_each_with_its_own_grades(tmp_path):
    likelihoods = RNG.normal(-5, 2, size=(N, 4))
    rows = [multiple_choice(i, likelihoods[i].tolist(), GOLD[i]) for i in range(N)]
    a = cb.read_log(
        write_samples(
            tmp_path / "a", "t",
            [multiple_choice(i, LIKELIHOODS[i].tolist(), GOLD[i]) for i in range(N - 3)],
        ),
        "lm-eval",
    )  # fmt: skip
    b = cb.read_log(write_samples(tmp_path / "b", "t", rows[:1:-1]), "lm-eval")
    pairs = a.paired(b)
    assert (pairs.n, pairs.unmatched) == (N - 5, (2, 3))
    assert pairs["correct_a"].tolist() == a["correct"][2:].tolist()
    assert pairs["confidence_b"].tolist() == b["confidence"][::-1][: N - 5].tolist()
    result = cb.compare(
        "correct_a", "confidence_a", "confidence_b", y_true_b="correct_b", data=pairs
    )
    direct = cb.compare(
        pairs["correct_a"], pairs["confidence_a"], pairs["confidence_b"],
        y_true_b=pairs["correct_b"],
    )  # fmt: skip
    assert result.brier.value == direct.brier.value
    assert "2 of a alone, 3 of b alone" in " ".join(str(pairs).split())
    other = [row | {"doc_hash": digest(i + 99)} for i, row in enumerate(rows)]
    c = cb.read_log(write_samples(tmp_path / "c", "t", other), "lm-eval")
    with pytest.raises(ex.InvalidInputError, match="share 0 questions"):
        a.paired(c)
    with pytest.raises(ex.InvalidArgumentError, match="EvaluationLog too; got dict"):
        a.paired({})


def test_one_row_and_a_pickle(tmp_path):
    path = write_lines(tmp_path / "q.jsonl", [{"confidence": 0.5, "correct": True}])
    log = pickle.loads(pickle.dumps(cb.read_log(path, "jsonl")))
    assert (log.n, repr(log)) == (1, "<EvaluationLog: 1 answer in 1 task, 0 declined>")
    with pytest.raises(ValueError, match="read-only"):
        log["confidence"][0] = 1
    with pytest.raises(KeyError):
        log["meaning"]
    assert log == log


def test_many_tasks_are_printed_in_few_lines(tmp_path):
    rows = [{"confidence": 0.5, "correct": True, "t": f"task {i}"} for i in range(100)]
    log = cb.read_log(write_lines(tmp_path / "q.jsonl", rows), "jsonl", task="t")
    assert "and 60 more tasks" in str(log)
    assert len(str(log).splitlines()) < 50


OF_ONE = {
    "lm-eval": [multiple_choice(i, [-1.0 - i, -2.0, -3.0], i % 3) for i in range(3)],
    "inspect": [inspect_sample(f"q{i}", "CI"[i % 2], completion="80%") for i in range(3)],
    "jsonl": [{"confidence": "80%", "correct": i % 2, "q": i} for i in range(3)],
}
HOSTILE = [
    None, True, 0, -1, 1.5, math.nan, math.inf, -math.inf, 1e308, 10**30, "", "x", "nan", "-inf",
    "a" * 5000, [], [1], [[]], [["1", "2"]], [None, None], {}, {"a": 1}, {"value": "C"}, "\ud800",
]  # fmt: skip


def mutated(value, rng, depth=0):
    """Return a copy with one member changed, added or left out."""
    if not isinstance(value, dict | list) or not value or (depth and rng.random() < 0.2):
        return copy.deepcopy(rng.choice(HOSTILE))
    changed = copy.copy(value)
    key = rng.choice(range(len(value)) if isinstance(value, list) else list(value))
    if rng.random() < 0.15:
        del changed[key]
    else:
        changed[key] = mutated(value[key], rng, depth + 1)
    return changed


@pytest.mark.parametrize("format_", OF_ONE)
def test_whatever_a_log_holds_it_is_read_or_refused(tmp_path, format_):
    rng = random.Random(5)
    path = tmp_path / "log.json"
    refused = longest = 0
    for case in range(250):
        rows = [*OF_ONE[format_][:2], mutated(OF_ONE[format_][2], rng)]
        if format_ == "inspect":
            write_inspect(path, rows)
        else:
            write_lines(path, rows)
        try:
            log = cb.read_log(path, format_)
        except ex.CalibrantError as error:
            refused += 1
            longest = max(longest, len(str(error)))
            continue
        assert ((log["confidence"] >= 0) & (log["confidence"] <= 1)).all(), case
        json.dumps(log.to_dict(), allow_nan=False)
        assert str(log), case
    assert 10 < refused < 240
    assert longest < 1000


@pytest.fixture(scope="module")
def repeated(tmp_path_factory):
    """Two models that answered 40 questions three times, the second with the same grades."""
    rng = np.random.default_rng(0)
    logs = []
    for model in ("a", "b"):
        rows = [
            {"id": i, "confidence": round(float(p), 1), "correct": bool(rng.uniform() < p)}
            for i, p in enumerate(rng.uniform(0.2, 0.9, size=40))
            for _ in range(3)
        ]
        path = tmp_path_factory.mktemp("logs") / f"{model}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        logs.append(cb.read_log(path, "jsonl", question="id", task="id"))
    return logs


def test_repeated_questions_are_clusters_unless_switched_off(repeated):
    log, pairs = repeated[0], repeated[0].paired(repeated[1])
    assert pairs.is_repeated
    names = {"y_true": "correct", "y_prob": "confidence"}
    two = {"prob_a": "confidence_a", "prob_b": "confidence_b", "y_true_b": "correct_b"}
    for function in (cb.calibration_error, cb.validate, cb.skill_score):
        assert function(**names, data=log).n_clusters == 40, function
        assert function(**names, data=log, cluster=False).n_clusters is None, function
    assert cb.compare("correct_a", data=pairs, **two).n_clusters == 40
    assert cb.compare("correct_a", data=pairs, cluster=False, **two).n_clusters is None
    chosen = cb.calibration_test(**names, data=log, rng=0)
    asked = cb.calibration_test(**names, data=dict(log), cluster="question", rng=0)
    assert chosen.pvalue == asked.pvalue
    with pytest.raises(ex.InvalidArgumentError, match="or pass cluster=False"):
        cb.calibration_test(**names, data=log, method="cox")
    assert cb.calibration_test(**names, data=log, method="cox", cluster=False).pvalue > 0


def test_a_certificate_of_repeated_questions_draws_one_answer_of_each(repeated):
    names = {"y_true": "correct", "y_prob": "confidence", "data": repeated[0]}
    certificate = cb.certify(**names, max_error=0.9)
    assert certificate.n == 40
    assert any("One row of each cluster" in text for text in certificate.assumptions)
    assert cb.recheck(certificate, **names).scope == "rows"
    other = {**repeated[0], "correct": ~repeated[0]["correct"]}
    assert not cb.recheck(certificate, **names | {"data": other}, cluster="question")
    every = cb.certify(**names, max_error=0.9, cluster=False)
    assert every.n == 120
    assert cb.recheck(every, **names, cluster=False)


def test_questions_are_clusters_within_the_groups_of_a_validation(repeated):
    log = repeated[0]
    tables = cb.validate("correct", "confidence", data=log, by="epoch")
    for epoch in tables:
        own = log["epoch"] == epoch
        alone = cb.validate(
            log["correct"][own], log["confidence"][own], cluster=log["question"][own]
        )
        assert tables[epoch].n_clusters == alone.n_clusters == np.unique(log["question"][own]).size
        assert tables[epoch]["slope"].low == alone["slope"].low


@pytest.mark.parametrize(
    "function",
    [
        cb.tabulate,
        cb.audit,
        cb.reliability_curve,
        cb.report,
        cb.brier_decomposition,
        cb.decision_curve,
        cb.bin_free_bounds,
        lambda *names, data: cb.calibration_error(*names, data=data, by="task"),
        lambda *names, data: cb.certify(*names, data=data, by="task"),
    ],
)
def test_functions_that_need_independent_rows_refuse_repeated_questions(function, repeated):
    with pytest.raises(ex.InvalidArgumentError, match=r"asked questions several times.*dict\(log"):
        function("correct", "confidence", data=repeated[0])


def test_repeated_questions_can_be_declared_independent_anywhere(repeated):
    assert cb.tabulate("correct", "confidence", data=dict(repeated[0])).n == 120


def tokens(*parts):
    """Return tokens as Inspect logs them; a dict holds the alternatives of the last of its keys."""
    content = []
    for part in parts:
        odds = {part: 1.0} if isinstance(part, str) else part
        own = list(odds)[-1]
        numbers = {text: float(np.log(p)) for text, p in odds.items()}
        others = [{"token": t, "logprob": x, "bytes": None} for t, x in numbers.items()]
        content.append({"token": own, "logprob": numbers[own], "top_logprobs": others})
    return {"model": "m", "choices": [{"logprobs": {"content": content}}], "completion": ""}


def token_log(path, *samples, choices=("w", "x", "y", "z")):
    made = [
        inspect_sample(f"q{i}", value, answer=answer, choices=list(choices), output=output)
        for i, (value, answer, output) in enumerate(samples)
    ]
    return write_inspect(path, made)


def test_tokens_of_inspect_give_the_probability_of_the_graded_letter(tmp_path):
    path = token_log(
        tmp_path / "log.eval",
        # "A" in the text is an article; the last token that is the letter is the answer
        (
            "C",
            "A",
            tokens("A", " guess", ". ANSWER:", {" B": 0.2, " C": 0.1, " D": 0.1, " A": 0.6}),
        ),
        ("I", "B", tokens({"(A": 0.3, "A": 0.1, "the": 0.2, "C": 0.05, "D": 0.05, " B)": 0.2})),
        ("C", "C", tokens({"A": 0.05, "C": 0.9})),
    )
    log = cb.read_log(path, "inspect", confidence="tokens")
    assert log["confidence"] == pytest.approx([0.6, 0.2 / 0.7, 0.9 / 0.95])
    assert log["correct"].tolist() == [True, False, True]
    (note,) = log.notes
    assert "of 1 of 3 answers not every choice is among the logged tokens" in note
    assert "0.05 at most" in note
    assert "at the token of the answer" in " ".join(str(log).split())


def test_a_pattern_finds_the_token_of_the_answer(tmp_path):
    odds = {"A": 0.75, "B": 0.25}
    said = tokens("ANSWER", ": ", {"B": 0.5, "A": 0.5}, "\n", "or", " ", {"B": 0.25, "A": 0.75})
    path = token_log(tmp_path / "log.json", ("C", "A", said), choices=("x", "y"))
    read = {"format": "inspect", "confidence": "tokens"}
    assert cb.read_log(path, **read)["confidence"].tolist() == pytest.approx([odds["A"]])
    log = cb.read_log(path, **read, pattern=r"ANSWER: (\w)")
    assert log["confidence"].tolist() == pytest.approx([0.5])
    with pytest.raises(ex.InvalidInputError, match="the pattern is not in"):
        cb.read_log(path, **read, pattern="FINAL: (.)")


def test_answers_without_tokens_or_letters_are_refused(tmp_path):
    read, fine = {"format": "inspect", "confidence": "tokens"}, tokens({"B": 0.5, "A": 0.5})
    wrong = {
        "--top-logprobs 20": ("C", "A", {"completion": "A", "choices": []}),
        "which is not one of the choices A, B": ("C", "A,B", fine),
        "no token is the graded choice": ("C", "A", tokens("B")),
    }
    for i, (words, sample) in enumerate(wrong.items()):
        path = token_log(tmp_path / f"{i}.json", sample, choices=("x", "y"))
        with pytest.raises(ex.InvalidInputError, match=words):
            cb.read_log(path, **read)
    path = token_log(tmp_path / "one.json", ("C", "A", fine), choices=("x",))
    with pytest.raises(ex.InvalidInputError, match="a question of several choices"):
        cb.read_log(path, **read)
    with pytest.raises(ex.InvalidArgumentError, match="the tokens that Inspect logs"):
        cb.read_log(path, "jsonl", confidence="tokens")
    both = token_log(tmp_path / "b.json", ("C", "A", fine), ("C", "A", tokens("B")), choices="xy")
    log = cb.read_log(both, **read, unparsed="abstain")
    assert log["confidence"].tolist() == [0.5]
