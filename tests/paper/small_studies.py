"""Every study on few rows and settings."""

from __future__ import annotations

from calibrant.paper import Finding, run, stand_in
from calibrant.paper.study import Output, StudyResult
from calibrant.paper.uncertainty import about, over_splits

DATA = stand_in(2000, 4, accuracy=0.8, seed=1)
SMALL = {
    "lower-bounds": {"bins": (2, 8), "resamples": 20, "splits": 2},
    "lower-bounds-l1": {"bins": (2, 8), "resamples": 20, "splits": 2},
    "calibrators-marginal": {"bins": (5, 20), "repeats": 3, "n_calibration": 300},
    "calibrators-top-label": {"bins": (5, 20), "repeats": 5, "n_calibration": 300},
    "estimators-marginal": {"repeats": 20, "n": (100, 300), "splits": 2},
    "estimators-ece": {"repeats": 20, "n": (200, 500), "splits": 2},
    "choosing-bins": {"splits": 2, "bins": (5, 20), "resamples": 10},
    "synthetic-n": {"repeats": 5, "n": (500, 1000), "cells": 5000},
    "synthetic-bins": {"repeats": 5, "bins": (5, 20), "cells": 5000},
    "synthetic-noisy": {"repeats": 5, "n": (500,), "cells": 5000},
    "beyond-calibrators": {"bins": (5,), "repeats": 2, "n_calibration": 300},
    "beyond-bounds": {"bins": (5,), "resamples": 10, "splits": 2},
    "beyond-coverage": {"repeats": 20, "certificates": 2, "bins": (5,), "n": 300},
}


def small(name, seed=0):
    """Run a study on few rows and settings."""
    return run(name, data=DATA, seed=seed, **SMALL.get(name, {}))


def result(study="synthetic-n", findings=(), data=None):
    """Return a result that holds these findings and nothing else."""
    return StudyResult(
        study, {}, 0, False, data, {"calibrant": "0"}, 1.0, Output([], [], list(findings))
    )


def splits(*values, se=0.01, authors=False):
    """Return a finding of several splits."""
    each = [[Finding("k", about(value, se), 100)] for value in values]
    (merged,) = over_splits(each, authors)
    return merged
