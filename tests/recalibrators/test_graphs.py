"""Formulas as graphs: every operation that one asks for, evaluated by NumPy, answers as it does."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from shared import BINNED, ISOTONIC, SCALING, SEVERAL, SHIFTS, SPLINES, binary_rows, class_rows
from sklearn.base import clone

from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.exports.graphs import Value, formula

OPERATIONS = {
    "add": operator.add,
    "column": lambda x, k: x[:, k],
    "columns": lambda x, index: x[:, index],
    "concatenate": lambda *parts: np.concatenate(parts, axis=1),
    "divide": operator.truediv,
    "entry": lambda x, k: x[k : k + 1],
    "equal": operator.eq,
    "exp": np.exp,
    "flat": np.ravel,
    "greater": operator.gt,
    "largest": lambda x: x.max(axis=1, keepdims=True),
    "log": np.log,
    "log of complement": lambda x: np.log1p(-x),
    "matmul": operator.matmul,
    "multiply": operator.mul,
    "negative": operator.neg,
    "row": operator.getitem,
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True),
    "subtract": operator.sub,
    "sums": lambda x: x.sum(axis=1, keepdims=True),
    "table": lambda x: x[:, None],
    "take": operator.getitem,
    "top": lambda x: x.argmax(axis=1).astype(np.float64),
    "transpose": np.transpose,
    "where": np.where,
}


class NumPyGraph:
    """A graph that is computed while it is written; it counts its nodes."""

    target = "a graph of NumPy"

    def __init__(self):
        self.n_nodes, self.constants = 0, {}

    def constant(self, name, array):
        if name is not None:
            assert name not in self.constants, "a learned constant is written once"
            self.constants[name] = array
        return np.asarray(array)

    def node(self, op, *args):
        self.n_nodes += 1
        return OPERATIONS[op](*args)


def evaluated(fitted, x):
    graph = NumPyGraph()
    return formula(fitted, Value(graph, x)).result, graph


@pytest.mark.parametrize("recalibrator", [*SCALING, *BINNED, *ISOTONIC, *SHIFTS, *SPLINES], ids=str)
def test_formulas_of_one_event_answer_as_predict_proba_does(recalibrator):
    p, y = binary_rows(900)
    fitted = clone(recalibrator).fit(p, y)
    if getattr(fitted, "keep_order", False):
        with pytest.raises(InvalidArgumentError, match="keep_order"):
            evaluated(fitted, p)
        return
    np.testing.assert_allclose(evaluated(fitted, p)[0], fitted.predict_proba(p), atol=1e-12)


@pytest.mark.parametrize("recalibrator", SEVERAL, ids=str)
def test_formulas_of_several_classes_answer_as_predict_proba_does(recalibrator):
    probs, y = class_rows(600)
    fitted = clone(recalibrator).fit(probs, y)
    np.testing.assert_allclose(evaluated(fitted, probs)[0], fitted.predict_proba(probs), atol=1e-12)


def test_a_hundred_classes_of_one_form_are_written_as_few_nodes():
    from calibrant.recalibrators import OneVsRest, PlattScaling

    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(100), size=500)
    few, many = (
        evaluated(OneVsRest(PlattScaling()).fit(x, rng.integers(x.shape[1], size=500)), x)[1]
        for x in (probs[:, :3] / probs[:, :3].sum(axis=1, keepdims=True), probs)
    )
    assert many.n_nodes <= few.n_nodes + 10
