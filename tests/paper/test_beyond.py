"""Beyond the paper: models whose error is known, and bounds that are above it."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.paper.beyond import MODELS, Coverage, coverage_bounds, known_models

CALIBRATED, BINNED, ONE_OFF = MODELS


@pytest.mark.parametrize("n_bins", [1, 5, 20])
def test_the_error_of_a_known_model_is_that_of_its_definition(n_bins):
    models = known_models(n_bins, np.random.default_rng(0))
    off = models[ONE_OFF].mass[models[ONE_OFF].mass.size // 2]
    assert models[CALIBRATED].error == 0
    assert models[BINNED].error > 0
    assert models[ONE_OFF].error == pytest.approx(0.25 * np.sqrt(off))
    for model in models.values():
        assert model.mass.sum() == pytest.approx(1)
        assert (model.levels >= 0).all()
        assert (model.levels <= 1).all()


def test_drawn_rows_add_up_and_events_are_among_them():
    model = known_models(5, np.random.default_rng(0))[BINNED]
    rows, events = model.draw(np.random.default_rng(1), 300, 4)
    assert rows.shape == events.shape == (4, model.mass.size)
    assert rows.sum(axis=1).tolist() == [300] * 4
    assert (events <= rows).all()


def test_bounds_of_a_table_are_above_its_error_and_those_of_certificates_above_the_score_bound():
    model = known_models(5, np.random.default_rng(0))[ONE_OFF]
    settings = Coverage(n=300, repeats=20, certificates=3, resamples=20)
    approximate, exact = coverage_bounds(settings, model, np.random.default_rng(1))
    assert (approximate.shape, exact.shape) == ((3, 20), (3,))
    assert (exact > model.error).all()
    assert (exact > approximate[2, :3]).all()
