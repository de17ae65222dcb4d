"""Predictions are read from every format, checked, and recognised."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.exceptions import InvalidInputError, InvalidLabelsError, InvalidProbabilitiesError
from calibrant.paper import Predictions, read_predictions, stand_in
from conftest import optional

PROBS = np.random.default_rng(0).dirichlet(np.ones(4), size=30)
LABELS = np.arange(30) % 4


def write(path, kind):
    if kind == "npz":
        np.savez(path, probs=PROBS, labels=LABELS)
    else:
        pa = optional("pyarrow")
        columns = {"labels": LABELS, **{f"prob_{k}": PROBS[:, k] for k in range(4)}}
        table = pa.table(columns)
        if kind == "csv":
            optional("pyarrow.csv").write_csv(table, path)
        else:
            optional("pyarrow.parquet").write_table(table, path)
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_every_format_gives_the_same_rows(kind, tmp_path):
    data = read_predictions(write(tmp_path / f"a.{kind}", kind))
    np.testing.assert_allclose(data.probs, PROBS, rtol=1e-15)
    np.testing.assert_array_equal(data.labels, LABELS)
    assert data.name == "a"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match="nowhere"):
        read_predictions(tmp_path / "nowhere.npz")


def test_wrong_values_are_refused():
    with pytest.raises(InvalidProbabilitiesError):
        Predictions(PROBS * 2, LABELS)
    with pytest.raises(InvalidLabelsError):
        Predictions(PROBS, LABELS + 1)


def test_the_top_prediction_is_the_first_largest():
    data = Predictions(np.array([[0.4, 0.4, 0.2], [0.1, 0.2, 0.7]]), np.array([1, 2]))
    assert data.confidence.tolist() == [0.4, 0.7]
    assert data.right.tolist() == [False, True]


def test_the_paper_s_file_is_known_by_shape_and_accuracy(cifar10):
    labels, probs = cifar10
    assert Predictions(probs, labels, "x").dataset == "cifar10"
    worse = np.random.default_rng(0).permutation(labels)
    assert Predictions(probs, worse, "A file/<b>").dataset == "a-file-b"
    assert Predictions(probs, worse, "cifar10").dataset == "cifar10-file"


def test_a_change_of_one_value_changes_the_digest():
    other = PROBS.copy()
    other[3, 1] += 1e-9
    assert Predictions(PROBS, LABELS).digest == Predictions(PROBS.copy(), LABELS).digest
    assert Predictions(PROBS, LABELS).digest != Predictions(other, LABELS).digest


def test_the_stand_in_has_its_shape_and_adds_up_to_one():
    data = stand_in(3000, 50, accuracy=0.7, seed=3)
    assert data.probs.shape == (3000, 50)
    np.testing.assert_allclose(data.probs.sum(axis=1), 1, atol=1e-5)
    assert abs(data.accuracy - 0.7) < 0.05
    assert data.dataset == "stand-in"
