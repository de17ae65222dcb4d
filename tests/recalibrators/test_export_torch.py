"""Torch modules give the answers of predict_proba."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from shared import (
    ON_LOGITS,
    SCALING,
    STEPS,
    binary_rows,
    class_rows,
    exported_cases,
    float64_error,
    grid_of,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.recalibrators import (
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
)
from conftest import optional


@contextmanager
def silent_loggers():
    """Keep the exporter from writing about packages that it could use too."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("recalibrator", STEPS, ids=str)
def test_torch_modules_of_bins_answer_bit_for_bit(recalibrator):
    torch = optional("torch")
    fitted = clone(recalibrator).fit(*binary_rows(900))
    grid = grid_of(fitted)
    found = fitted.to_torch()(torch.tensor(grid)).numpy()
    np.testing.assert_array_equal(found, fitted.predict_proba(grid))


@pytest.mark.parametrize("recalibrator", [*SCALING, Identity()], ids=str)
def test_torch_modules_of_scaling_answer_to_one_ulp_of_one(recalibrator):
    torch = optional("torch")
    fitted = clone(recalibrator).fit(*binary_rows(900))
    grid = np.concatenate((np.linspace(0, 1, 401), [5e-324, 1e-300, 1e-13, 1 - 1e-16]))
    found = fitted.to_torch()(torch.tensor(grid)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(grid), rtol=0, atol=np.finfo(float).eps)


@pytest.mark.parametrize("recalibrator", ON_LOGITS, ids=str)
def test_torch_modules_take_logits(recalibrator):
    torch = optional("torch")
    z, y = np.linspace(-5, 5, 200), np.arange(200) % 3 == 0
    fitted = clone(recalibrator).fit(z, y)
    found = fitted.to_torch()(torch.tensor(z)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(z), rtol=0, atol=np.finfo(float).eps)


@pytest.mark.parametrize("cls", [TemperatureScaling, VectorScaling, MatrixScaling])
def test_torch_modules_take_rows(cls):
    torch = optional("torch")
    probs, y = class_rows(300)
    fitted = cls().fit(probs, y)
    found = fitted.to_torch()(torch.tensor(probs)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(probs), rtol=0, atol=1e-15)


def test_the_state_of_a_torch_module_is_its_buffers():
    torch = optional("torch")
    p, y = binary_rows(200)
    a = QuadraticScaling().fit(p, y).to_torch()
    b = QuadraticScaling().fit(p, p < 0.3).to_torch()
    b.load_state_dict(a.state_dict())
    x = torch.linspace(0, 1, 50)
    assert torch.equal(a(x), b(x))


def test_without_torch_the_message_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "calibrant.recalibrators.exports.torch", raising=False)
    with pytest.raises(MissingDependencyError, match="pip install torch"):
        PlattScaling().fit(*binary_rows(50)).to_torch()


def test_estimators_of_other_libraries_have_no_torch_form():
    optional("torch")
    for wrapper in (
        OneVsRest(LogisticRegression()),
        TopLabel(LogisticRegression(), per_class=True, min_rows=5),
    ):
        with pytest.raises(InvalidArgumentError, match="LogisticRegression has no form in torch"):
            wrapper.fit(*class_rows(100)).to_torch()


def test_a_thousand_classes_are_recalibrated_by_a_module():
    torch = optional("torch")
    probs, y = class_rows(300, 1000)
    for recalibrator in (TemperatureScaling(), TopLabel(PlattScaling())):
        fitted = recalibrator.fit(probs.astype(np.float32), y)
        found = fitted.to_torch()(torch.tensor(probs[:20])).numpy()
        np.testing.assert_allclose(found, fitted.predict_proba(probs[:20]), rtol=0, atol=1e-15)


CASES = exported_cases()
EXPORTED = [pytest.param(*case, id=str(case[0])) for case in CASES]
GRAPHS = {
    "PlattScaling()",
    "HistogramBinning(bins='hybrid:4')",
    "IsotonicCalibration()",
    "OneVsRest(recalibrator=IsotonicCalibration())",
    "TopLabel(recalibrator=HistogramBinning(bins=5))",
    "VectorScaling(input='logits')",
}
"""A compiler takes seconds for each, so these stand for all: the operations are the same."""
FEW = [
    pytest.param(*case, id=str(case[0]))
    for case in CASES
    if str(case[0]) in GRAPHS or case is CASES[-1]
]


@pytest.mark.parametrize(("fitted", "x"), EXPORTED)
def test_modules_in_float64_answer_to_an_ulp_of_one(fitted, x):
    torch = optional("torch")
    found = fitted.to_torch(dtype=torch.float64)(torch.tensor(x)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(x), rtol=0, atol=float64_error(fitted))


@pytest.mark.parametrize(("fitted", "x"), EXPORTED)
def test_modules_in_float32_answer_to_one_ulp_and_can_be_pickled_and_copied(fitted, x):
    torch = optional("torch")
    module, short = fitted.to_torch(), torch.tensor(x, dtype=torch.float32)
    found, exact = module(short), fitted.predict_proba(short.numpy()).astype(np.float32)
    np.testing.assert_array_max_ulp(found.numpy(), exact, 1)
    for same in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert torch.equal(same(short), found)


@pytest.mark.parametrize(("fitted", "x"), FEW)
def test_modules_are_exported_and_compiled_without_a_change(fitted, x):
    torch = optional("torch")
    module, short = fitted.to_torch(), torch.tensor(x, dtype=torch.float32)
    expected = module(short)
    program = torch.export.export(
        module, (short,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},)
    )
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for same in (program.module(), compiled):
        assert torch.equal(same(short), expected)
        assert torch.equal(same(short[:3]), expected[:3])
    torch.compiler.reset()


@pytest.mark.parametrize(("fitted", "x"), FEW)
def test_the_default_onnx_exporter_of_torch_gives_the_answers_of_predict_proba(fitted, x):
    torch, runtime = optional("torch"), pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    short = torch.tensor(x, dtype=torch.float32)
    with warnings.catch_warnings(), silent_loggers():
        warnings.simplefilter("ignore")  # of the exporter's own packages
        program = torch.onnx.export(
            fitted.to_torch(),
            (short,),
            dynamic_shapes=({0: torch.export.Dim("n", min=2)},),
            verbose=False,
        )
    session = runtime.InferenceSession(program.model_proto.SerializeToString())
    for rows in (short.numpy(), short[:3].numpy()):
        (found,) = session.run(None, {session.get_inputs()[0].name: rows})
        exact = fitted.predict_proba(rows).astype(np.float32)
        np.testing.assert_array_max_ulp(found, exact, 1)
    rows = short[:3].numpy().copy()
    rows[1] = np.nan
    (found,) = session.run(None, {session.get_inputs()[0].name: rows})
    assert np.isnan(found).reshape(3, -1).all(axis=1).tolist() == [False, True, False]


def test_a_module_answers_in_the_type_of_its_input_or_in_the_one_asked_for():
    torch = optional("torch")
    fitted = PlattScaling().fit(*binary_rows(200))
    module = fitted.to_torch()
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert module(torch.tensor([0.25], dtype=dtype)).dtype == dtype
        assert (
            fitted.to_torch(dtype=torch.float64)(torch.tensor([0.25], dtype=dtype)).dtype
            == torch.float64
        )
    whole = module(torch.tensor([0, 1, 2]))
    assert whole.dtype == torch.float32
    assert whole.isnan().tolist() == [False, False, True]


def test_both_columns_of_one_event_are_exported_too():
    torch = optional("torch")
    both = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=torch.float32)
    for recalibrator in (HistogramBinning(5), Identity(), PlattScaling()):
        fitted = clone(recalibrator).fit(*binary_rows(200))
        module = fitted.to_torch()
        found = torch.export.export(module, (both,)).module()(both)
        exact = fitted.predict_proba(both.numpy()).astype(np.float32)
        np.testing.assert_array_max_ulp(found.numpy(), exact, 1)


def test_identity_leaves_both_columns_as_they_came():
    torch = optional("torch")
    both = torch.tensor([[0.3, 0.6], [0.1, 0.2]])
    assert torch.equal(Identity().fit(*binary_rows(50)).to_torch()(both), both)


def test_no_row_and_one_row_are_answered():
    torch = optional("torch")
    for fitted, x in CASES[::4]:
        module, short = fitted.to_torch(), torch.tensor(x, dtype=torch.float32)
        assert module(short[:0]).shape == short[:0].shape
        assert torch.equal(module(short[:1]), module(short)[:1])


def test_gradients_are_finite_where_answers_are_extreme_or_missing():
    torch = optional("torch")
    z = np.linspace(-5, 5, 200)
    module = PlattScaling(input="logits").fit(z, z % 0.3 < 0.1).to_torch()
    x = torch.tensor([-1e5, -900.0, 0.0, 900.0, 1e5, torch.nan, torch.inf], requires_grad=True)
    module(x).nansum().backward()
    assert x.grad.isfinite().all()
    assert x.grad[2] != 0


def test_logits_whose_difference_is_infinite_have_no_answer():
    torch = optional("torch")
    z = np.linspace(-5, 5, 200)
    module = PlattScaling(input="logits").fit(z, z % 0.3 < 0.1).to_torch()
    far = torch.tensor([[-1.7e308, 1.7e308], [0.0, 1.0]], dtype=torch.float64)
    assert module(far).isnan().all(dim=1).tolist() == [True, False]


def test_graphs_of_many_classes_are_small():
    optional("torch")
    probs, y = class_rows(2000, 40, temperature=1.0)
    for recalibrator in (PlattScaling(), IsotonicCalibration()):
        module = OneVsRest(recalibrator).fit(probs, y).to_torch()
        assert len(module.formula.graph.nodes) < 100
