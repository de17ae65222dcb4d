"""Sums of a document: those of any rows are believed, those of no rows are not."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import InvalidDocumentError

RNG = np.random.default_rng(9)
N = 60
LABELS = {
    "binary": RNG.integers(2, size=N),
    "multi-label": RNG.integers(2, size=(N, 3)),
    "quantile": RNG.normal(size=N),
}
WEIGHTS = {
    "none": None,
    "zeros": RNG.choice([0.0, 1.0, 2.5], N),
    "equal": np.full(N, 1e-90),
    "ratios": RNG.choice([1e-30, 1.0, 1e30], N),
    "all sizes": 10.0 ** RNG.uniform(-99, 99, N),
}
PREDICTIONS = {
    "spread": RNG.dirichlet(np.ones(3), size=N),
    "sure": np.eye(3)[RNG.integers(3, size=N)],
    "tiny": np.column_stack([np.full(N, 1e-200), np.full(N, 5e-324), np.ones(N)]),
}


@pytest.mark.parametrize("given", PREDICTIONS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(
    "kind", ["binary", "top-label", "marginal", "ordinal", "multi-label", "quantile"]
)
def test_sums_of_rows_are_believed(kind, weights, given):
    probs, levels = PREDICTIONS[given], {}
    if kind == "binary":
        probs = probs[:, 0]
    elif kind == "quantile":
        probs, levels = np.sort(probs, axis=1), {"classes": (0.1, 0.5, 0.9)}
    labels = LABELS.get(kind, RNG.integers(3, size=N))
    edges = [0, 1e-200, 0.3, np.nextafter(0.3, 1), 1]
    table = cb.tabulate(
        labels, probs, kind=kind, bins=edges, sample_weight=WEIGHTS[weights], **levels
    )
    assert cb.BinTable.from_json(table.to_json()) == table


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("count", 0.5, "counts must be whole"),
        ("count", -90, "must not be negative"),
        ("sum_y", 0.5, "event counts must be whole"),
        ("sum_y", 90, "more events than rows"),
        ("sum_p", 60, "mean prediction lies outside its bin"),
        ("sum_py", 60, "mean prediction of the events lies outside its bin"),
        ("sum_pp", 30, "sum_pp is larger than predictions in this bin allow"),
        ("sum_pp", -8, "sum_pp is smaller than its mean predictions allow"),
    ],
)
def test_a_sum_that_no_rows_have_is_refused(name, change, words):
    document = cb.tabulate(LABELS["binary"], RNG.uniform(size=N), bins=1).to_dict()
    document[name][0][0] += change
    with pytest.raises(InvalidDocumentError, match=f"contradict each other.*{words}"):
        cb.BinTable.from_dict(document)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sum_w", 0, "a bin with rows must have a weight"),
        ("sum_w", 1e151, "weights are too large"),
        ("sum_ww", 1e9, "sum_ww is not possible"),
        ("sum_wwuu", 1e9, "sum_wwuu is not possible"),
        ("level", 0.5, "is not what its level gives"),
    ],
)
def test_a_weighted_sum_that_no_rows_have_is_refused(name, value, words):
    weights = RNG.uniform(1, 2, size=N)
    table = cb.tabulate(LABELS["binary"], RNG.uniform(size=N), bins=1, sample_weight=weights)
    document = table.to_dict()
    document[name][0][0] = value
    with pytest.raises(InvalidDocumentError, match=words):
        cb.BinTable.from_dict(document)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["ordinal", "quantile"])
def test_events_of_a_higher_threshold_or_level_are_not_fewer(kind, weighted):
    probs = np.sort(PREDICTIONS["spread"], axis=1)
    levels = {"classes": (0.1, 0.5, 0.9)} if kind == "quantile" else {}
    labels = np.full(N, 0.3) if levels else RNG.integers(3, size=N)
    weights = RNG.uniform(1, 2, size=N) if weighted else None
    table = cb.tabulate(labels, probs, kind=kind, bins=1, sample_weight=weights, **levels)
    document = table.to_dict()
    for name in ("sum_y", "sum_py", *(["sum_wwuu"] if weighted else [])):
        document[name] = document[name][::-1]
    with pytest.raises(InvalidDocumentError, match="contradict each other"):
        cb.BinTable.from_dict(document)
    assert cb.BinTable.from_dict(table.to_dict()) == table


def test_classes_have_the_same_rows_and_their_events_add_up_to_them():
    table = cb.tabulate(RNG.integers(3, size=N), PREDICTIONS["spread"], kind="marginal", bins=1)
    document = table.to_dict()
    document["sum_y"][0][0] -= 1
    with pytest.raises(InvalidDocumentError, match="contradict each other"):
        cb.BinTable.from_dict(document)
