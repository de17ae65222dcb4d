"""Confidences: as stated, as votes, as likelihoods of choices, and as tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from log_files import (
    inspect_sample,
    write_inspect,
    write_lines,
)

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


def test_probabilities_are_not_taken_for_log_likelihoods(tmp_path):
    for odds in ([0.7, 0.3], [1.0, 0.0, 0.0]):
        path = write_lines(tmp_path / "q.jsonl", [{"lp": odds, "correct": True}])
        with pytest.raises(ex.InvalidInputError, match="row 1: .* as probabilities do"):
            cb.read_log(path, "jsonl", confidence="choices", field="lp")


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
