"""Intervals of the classes of a report hold all at once, and none is beyond chance by chance."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.reports.curves import class_findings

OUTPUTS = np.array(
    [
        [0.50, 0.20, 0.10, 0.10, 0.10],
        [0.10, 0.60, 0.10, 0.10, 0.10],
        [0.05, 0.05, 0.30, 0.30, 0.30],
        [0.20, 0.20, 0.20, 0.20, 0.20],
        [0.02, 0.03, 0.05, 0.10, 0.80],
        [0.30, 0.10, 0.40, 0.10, 0.10],
        [0.15, 0.25, 0.05, 0.35, 0.20],
    ]
)
ROWS, RUNS = 3000, 250


def true_errors(truth):
    """Return the l2 error of each class among equally frequent outputs."""
    errors = []
    for said, happens in zip(OUTPUTS.T, truth.T, strict=True):
        gaps = [happens[said == level].mean() - level for level in said]
        errors.append(np.sqrt(np.mean(np.square(gaps))))
    return np.array(errors)


@pytest.mark.slow
@pytest.mark.parametrize("timid", [0.0, 0.15, 0.5])
def test_intervals_of_classes_hold_at_once(timid):
    rng = np.random.default_rng(31)
    truth = (1 - timid) * OUTPUTS + timid / 5
    errors = true_errors(truth)
    held = false_alarms = 0
    for _ in range(RUNS):
        drawn = rng.integers(len(OUTPUTS), size=ROWS)
        y = (truth[drawn].cumsum(axis=1) < rng.uniform(size=(ROWS, 1))).sum(axis=1).clip(0, 4)
        table = cb.tabulate(y, OUTPUTS[drawn], kind="marginal", bins=cb.Distinct())
        found = class_findings(table, 0.95)
        true = errors[found.position]
        held += bool(np.all((found.low <= true) & (true <= found.high)))
        false_alarms += bool(np.any(found.beyond_chance & (true < 1e-12)))
    assert held >= (0.95 - 0.03) * RUNS  # about two standard errors of so many runs
    assert false_alarms <= 0.05 * RUNS
