"""Logs of Inspect: documents and archives, epochs, scorers, and runs that did not finish."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import softmax

import calibrant as cb
from calibrant import exceptions as ex
from log_files import (
    INSPECT,
    inspect_sample,
    write_inspect,
    zstandard,
)


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


def test_a_run_that_failed_before_its_answers_were_graded_is_said_to_have(tmp_path):
    path = write_inspect(tmp_path / "log.eval", [inspect_sample("q1", "failed")], status="error")
    with pytest.raises(ex.EmptyInputError, match="none has a grade .* its status is 'error'"):
        cb.read_log(path, "inspect")


def test_a_run_that_did_not_finish_is_read_and_said_so(tmp_path):
    samples = [inspect_sample("q1", "C", completion="90%")]
    path = write_inspect(tmp_path / "log.eval", samples, status="error")
    assert "did not finish; its status is 'error'" in str(cb.read_log(path, "inspect"))
