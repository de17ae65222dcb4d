"""What an option is for, and what a grade is."""

from __future__ import annotations

import pytest

import calibrant as cb
from calibrant import exceptions as ex
from log_files import (
    inspect_sample,
    write_inspect,
    write_lines,
)


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


@pytest.mark.parametrize("grade", ["P", 0.5, "maybe", [1], 2, -1])
def test_partial_credit_is_neither_right_nor_wrong(tmp_path, grade):
    path = write_inspect(tmp_path / "a.json", [inspect_sample("q1", grade, completion="90%")])
    with pytest.raises(ex.InvalidInputError, match="sample 1: a grade must be true or false"):
        cb.read_log(path, "inspect")
    path = write_lines(tmp_path / "a.jsonl", [{"confidence": 0.5, "correct": grade}])
    with pytest.raises(ex.InvalidInputError, match="row 1: a grade must be true or false"):
        cb.read_log(path, "jsonl")
