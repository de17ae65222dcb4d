"""Evaluation logs of every format: what is refused, and that no content does harm."""

from __future__ import annotations

import copy
import gzip
import json
import math
import random

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from log_files import (
    INSPECT,
    inspect_sample,
    multiple_choice,
    write_inspect,
    write_lines,
    write_samples,
    zstandard,
)


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


def test_one_answer_of_each_question_is_read_from_json_lines(tmp_path):
    rows = [{"q": i // 3, "confidence": 0.1 * i, "correct": i % 2} for i in range(6)]
    path = write_lines(tmp_path / "q.jsonl", rows)
    log = cb.read_log(path, "jsonl", question="q", epoch=2)
    np.testing.assert_allclose(log["confidence"], [0.1, 0.4])
    assert not log.is_repeated


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
