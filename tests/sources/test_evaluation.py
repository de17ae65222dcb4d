"""Evaluation logs as sources: by task, in pairs, and with questions asked several times."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from log_files import (
    LIKELIHOODS,
    N,
    digest,
    multiple_choices,
    two_tasks,
    write_lines,
    write_samples,
)


def test_a_log_goes_through_the_one_door(tmp_path):
    log = cb.read_log(two_tasks(tmp_path), "lm-eval")
    plain = cb.calibration_error(log["correct"], log["confidence"], bins=5)
    assert cb.calibration_error("correct", "confidence", data=log, bins=5) == plain
    by_task = cb.calibration_error("correct", "confidence", data=log, bins=5, by="task")
    assert len(by_task.tables) == 2
    assert cb.certify("correct", "confidence", data=log, cluster="question", max_error=0.3).n == N


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


def test_a_task_of_which_every_question_was_declined_is_named_beside_the_others(tmp_path):
    rows = [{"t": t, "confidence": said, "correct": True} for t, said in (("a", "90%"), ("b", "?"))]
    path = write_lines(tmp_path / "q.jsonl", rows)
    log = cb.read_log(path, "jsonl", task="t", abstain=r"\?")
    assert log.in_short().endswith("1 answer in 2 tasks, 1 declined; no answer to b")
    assert "no answer to b" in cb.report("correct", "confidence", data=log).html


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


def test_two_models_are_paired_by_question_each_with_its_own_grades(tmp_path):
    rows = multiple_choices(np.random.default_rng(6).normal(-5, 2, size=(N, 4)))
    a = cb.read_log(
        write_samples(tmp_path / "a", "t", multiple_choices(LIKELIHOODS)[: N - 3]), "lm-eval"
    )
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


def test_a_log_equals_itself_alone_and_never_compares_its_arrays(tmp_path):
    path = write_lines(tmp_path / "q.jsonl", [{"confidence": 0.5, "correct": True}] * 2)
    log, again = (cb.read_log(path, "jsonl") for _ in range(2))
    assert {log: 1} == {log: 1}
    assert log != again


def test_many_tasks_are_printed_in_few_lines(tmp_path):
    rows = [{"confidence": 0.5, "correct": True, "t": f"task {i}"} for i in range(100)]
    log = cb.read_log(write_lines(tmp_path / "q.jsonl", rows), "jsonl", task="t")
    assert "and 60 more tasks" in str(log)
    assert len(str(log).splitlines()) < 50


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
