"""Choosing bins: the least squared error under a bound."""

from __future__ import annotations

import numpy as np

from calibrant.paper.choosing import best_allowed


def test_the_best_allowed_is_the_least_squared_error_under_the_bound():
    bounds, brier = np.array([0.01, 0.02, 0.03]), np.array([3.0, 2.0, 1.0])
    assert best_allowed(bounds, brier, 0.02) == 1
    assert best_allowed(bounds, brier, 0.001) == 0
