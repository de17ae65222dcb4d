"""Torch modules give the answers of predict_proba."""

from __future__ import annotations

import numpy as np
import pytest
from shared import ON_LOGITS, SCALING, STEPS, binary_rows, class_rows, grid_of
from sklearn.base import clone

from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.recalibrators import (
    Identity,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    QuadraticScaling,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
    VennAbers,
)
from conftest import optional


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


def test_what_has_no_torch_form_is_refused():
    optional("torch")
    with pytest.raises(InvalidArgumentError, match="no form in torch"):
        VennAbers().fit(*binary_rows(50)).to_torch()


def test_without_torch_the_message_says_so(monkeypatch):
    import calibrant.recalibrators.export_torch as export

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(MissingDependencyError, match="pip install torch"):
        PlattScaling().fit(*binary_rows(50)).to_torch()


def test_a_part_that_has_no_torch_form_is_refused_when_the_module_is_made():
    optional("torch")
    for wrapper in (OneVsRest(VennAbers()), TopLabel(VennAbers(), per_class=True, min_rows=5)):
        with pytest.raises(InvalidArgumentError, match="VennAbers has no form in torch"):
            wrapper.fit(*class_rows(100)).to_torch()


def test_a_thousand_classes_are_recalibrated_by_a_module():
    torch = optional("torch")
    probs, y = class_rows(300, 1000)
    for recalibrator in (TemperatureScaling(), TopLabel(PlattScaling())):
        fitted = recalibrator.fit(probs.astype(np.float32), y)
        found = fitted.to_torch()(torch.tensor(probs[:20])).numpy()
        np.testing.assert_allclose(found, fitted.predict_proba(probs[:20]), rtol=0, atol=1e-15)
