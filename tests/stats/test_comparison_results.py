"""What a comparison says: verdicts, tables, names of models, and notes on few rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.comparison import compare_errors

RNG = np.random.default_rng(11)
Q = RNG.uniform(size=800)
Y = (RNG.uniform(size=800) < Q).astype(float)


def test_a_clear_difference_has_a_verdict_and_a_page():
    result = compare_errors(Y, Q, Q**3)
    assert [d.verdict for _, d in result] == ["a is better"] * 3
    assert [d.verdict for _, d in compare_errors(Y, Q**3, Q)] == ["b is better"] * 3
    lines = str(result).splitlines()
    assert len(lines) == 5
    assert max(map(len, lines)) <= 120
    assert "95% interval" in lines[0]
    assert "n = 800 rows" in lines[-1]
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document["brier"]["verdict"] == "a is better"


def test_pairs_say_by_its_name_which_model_is_better():
    rng = np.random.default_rng(32)
    p = rng.uniform(size=1500)
    y = rng.uniform(size=1500) < p
    printed = str(cb.compare(y, {"b": p, "a": p**2, "c": p**4})).splitlines()
    pair = printed.index("a = a, b = c")
    assert [line.split()[-1] for line in printed[pair + 1 : pair + 5]] == ["better", "a", "a", "a"]
    assert [line.split()[-1] for line in printed[3:7]] == ["better", "b", "b", "b"]
    long = str(cb.compare(y, {"a model of long name": p, "bad": p**2, "c": p**4}))
    assert max(map(len, long.splitlines())) <= 80


def test_models_may_be_numbered_and_labels_have_the_names_of_the_models():
    rng = np.random.default_rng(32)
    p = rng.uniform(size=1500)
    y = rng.uniform(size=1500) < p
    found = cb.compare(y, {1: p, 2: p**2})
    assert found.models == (1, 2)
    assert "a = 1, b = 2" in str(found)
    with pytest.raises(InvalidArgumentError, match="labels of 1, 3 and models 1, 2"):
        cb.compare({1: y, 3: y}, {1: p, 2: p**2})


def test_few_rows_or_events_are_said():
    assert cb.compare(Y, Q, Q**1.1).notes == ()
    few = cb.compare(Y[:250], Q[:250], Q[:250] ** 1.1)
    assert "250 rows, fewer than 300" in " ".join(str(few).split())
    rare = np.arange(2000) < 60
    p = np.full(2000, 0.03)
    (note,) = cb.compare(rare, p, p * 1.1).notes
    assert note.startswith("60 events or non-events, fewer than 100: ")
    assert note in " ".join(str(cb.compare(rare, {"one": p, "two": p * 1.1})).split())
    assert note in cb.compare(rare, p, p * 1.1).to_dict()["notes"]
    tables = cb.tabulate(rare, p), cb.tabulate(np.arange(2000) < 600, p)
    assert note in " ".join(str(cb.compare_tables(*tables)).split())
    labels = np.arange(2000) % 200  # ten rows of each class: many events
    probs = np.full((2000, 200), 1 / 200)
    assert cb.compare(labels, probs, probs, kind="marginal").notes == ()
