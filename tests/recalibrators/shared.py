"""What several tests of recalibrators use."""

from __future__ import annotations

import numpy as np

from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    QuadraticScaling,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
    VennAbers,
)

Z = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9])
Y = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1])

SCALING = [
    PlattScaling(),
    PlattScaling(loss="squared"),
    BetaScaling(),
    BetaScaling("log-odds"),
    QuadraticScaling(),
    TemperatureScaling(),
]
ON_LOGITS = [
    PlattScaling(input="logits"),
    PlattScaling("squared", input="logits"),
    QuadraticScaling(input="logits"),
    TemperatureScaling(input="logits"),
]
BINNED = [
    HistogramBinning(),
    HistogramBinning(4, "hybrid"),
    HistogramBinning(7, "width", keep_order=True),
    ScalingBinning(),
    ScalingBinning(BetaScaling(), n_bins=5, bins="hybrid"),
    ScalingBinning(TemperatureScaling(), n_bins=5, bins="width", keep_order=True),
    ScalingBinning(PlattScaling("squared"), n_bins=4, split=(1, 1, 1), random_state=0),
]
ISOTONIC = [
    IsotonicCalibration(),
    IsotonicCalibration("step"),
    IsotonicCalibration("centred"),
    VennAbers(),
]
ONE_SCORE = [*SCALING, *BINNED, *ISOTONIC]
SEVERAL = [
    Identity(),
    TemperatureScaling(),
    VectorScaling(),
    MatrixScaling(),
    OneVsRest(PlattScaling()),
    OneVsRest(ScalingBinning(n_bins=5), normalize=True),
    TopLabel(HistogramBinning(n_bins=5)),
    TopLabel(PlattScaling(), per_class=True, min_rows=20),
]


def binary_rows(n=2000, seed=0, power=1.5):
    """Return predictions and labels of a miscalibrated model."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 0.8, size=n)
    return p, (rng.uniform(size=n) < p**power).astype(int)


def class_rows(n=1500, n_classes=4, seed=0, temperature=0.5):
    """Return predictions and labels of an overconfident model."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    e = np.exp(z / temperature)
    return e / e.sum(axis=1, keepdims=True), y
