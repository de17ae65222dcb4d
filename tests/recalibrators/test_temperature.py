"""Temperature scaling, one number for all classes, and the identity."""

from __future__ import annotations

import numpy as np
import pytest
from shared import Y, Z, binary_rows

from calibrant.recalibrators import Identity, TemperatureScaling


def test_temperatures_equal_the_reference_values():
    assert TemperatureScaling().fit(Z, Y).temperature_ == pytest.approx(0.7429131944, abs=1e-8)
    rows = [(2, 0, -1), (0, 1, 0), (1, 1.5, -0.5), (-1, 0, 2), (3, 0, 0), (0, 0.5, 1)]
    several = TemperatureScaling(input="logits").fit(rows, [0, 1, 0, 2, 0, 1])
    assert 1 / several.temperature_ == pytest.approx(1.6024353206, abs=1e-8)
    assert several.fit_result_.loss == pytest.approx(0.4919191069, abs=1e-9)


def test_one_column_and_two_classes_have_the_same_temperature():
    p, y = binary_rows()
    one = TemperatureScaling().fit(p, y)
    two = TemperatureScaling().fit(np.column_stack((1 - p, p)), y)
    assert one.temperature_ == pytest.approx(two.temperature_, rel=1e-9)


def test_the_identity_returns_what_it_got():
    p, y = binary_rows(50)
    np.testing.assert_array_equal(Identity().fit(p, y).predict_proba(p), p)
