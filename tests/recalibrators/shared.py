"""What several tests of recalibrators use."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from calibrant.recalibrators import (
    BetaScaling,
    DirichletScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    JointBetaScaling,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    PriorShift,
    QuadraticScaling,
    ScalingBinning,
    SplineCalibration,
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
    PlattScaling(on="probabilities"),
    PlattScaling(smoothing=0.01),
    BetaScaling(smoothing=0.5),
    QuadraticScaling(smoothing=1e-15),
    TemperatureScaling(smoothing=0.99),
]
ON_LOGITS = [
    PlattScaling(input="logits"),
    PlattScaling("squared", input="logits"),
    QuadraticScaling(input="logits"),
    TemperatureScaling(input="logits"),
]
SHIFTS = [PriorShift(), PriorShift(target_mean=0.02)]
SPLINES = [SplineCalibration(), SplineCalibration(knots=5), SplineCalibration(3, smoothing=0.01)]
SPLINE_OF_LOGITS = SplineCalibration(knots=4, input="logits")
NEWER_CLASSES = [DirichletScaling(), JointBetaScaling(), JointBetaScaling(smoothing=0.1)]
SHIFT_OF_LOGITS = PriorShift(offset=-1.5, input="logits")
BINNED = [
    HistogramBinning(),
    HistogramBinning("hybrid:4"),
    HistogramBinning("width:7", keep_order=True),
    ScalingBinning(),
    ScalingBinning("hybrid:5", BetaScaling()),
    ScalingBinning("width:5", TemperatureScaling(), keep_order=True),
    ScalingBinning(4, PlattScaling("squared"), split=(1, 1, 1), random_state=0),
]
ISOTONIC = [
    IsotonicCalibration(),
    IsotonicCalibration("step"),
    IsotonicCalibration("centred"),
    VennAbers(),
]
STEPS = [clone(r).set_params(keep_order=False) for r in BINNED] + [ISOTONIC[1]]
ONE_SCORE = [*SCALING, *BINNED, *ISOTONIC]
SEVERAL = [
    Identity(),
    TemperatureScaling(),
    VectorScaling(),
    MatrixScaling(),
    TemperatureScaling(smoothing=0.5),
    VectorScaling(smoothing=1e-30),
    OneVsRest(PlattScaling()),
    OneVsRest(ScalingBinning(bins=5), normalize=True),
    TopLabel(HistogramBinning(bins=5)),
    TopLabel(PlattScaling(), per_class=True, min_rows=20),
]
SITES = np.array(["east", "no'rth", "we\\st"])
ONE_EVENT = [
    PlattScaling(),
    BetaScaling(),
    TemperatureScaling(),
    ScalingBinning(bins=6),
    HistogramBinning(bins=6),
    IsotonicCalibration("step"),
    VennAbers(),
    Identity(),
]


def binary_rows(n=2000, seed=0, power=1.5):
    """Return predictions and labels of a miscalibrated model."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 0.8, size=n)
    return p, (rng.uniform(size=n) < p**power).astype(int)


def vote_rows(n=4500, n_trees=20):
    """Return shares of votes of a forest over 20 classes, three quarters of them 0, and labels."""
    features, y = make_classification(
        1500 + n,
        n_features=30,
        n_informative=20,
        n_redundant=0,
        n_classes=20,
        n_clusters_per_class=1,
        class_sep=3.0,
        random_state=0,
    )
    forest = RandomForestClassifier(n_trees, max_depth=8, random_state=0)
    trees = forest.fit(features[:1500], y[:1500]).estimators_
    votes = np.zeros((n, 20))
    for tree in trees:
        votes[np.arange(n), tree.predict(features[1500:]).astype(int)] += 1
    return votes / n_trees, y[1500:]


def class_rows(n=1500, n_classes=4, seed=0, temperature=0.5):
    """Return predictions and labels of an overconfident model."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, n_classes))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    e = np.exp(z / temperature)
    return e / e.sum(axis=1, keepdims=True), y


def rows_of_sites(n=1500, seed=0):
    """Return predictions, labels, sites and ages; one site is far off, the others are not."""
    rng = np.random.default_rng(seed)
    p, site, age = rng.uniform(size=n), rng.choice(SITES, size=n), rng.uniform(0, 90, size=n)
    return p, (rng.uniform(size=n) < np.where(site == "no'rth", p**2.5, p)).astype(int), site, age


def cuts_of(fitted):
    """Return where a step function jumps, as anybody could read it off the object."""
    return fitted.x_ if isinstance(fitted, IsotonicCalibration) else fitted.cuts_


def grid_of(fitted):
    """Return a grid with every cut and the floats next to it."""
    cuts = cuts_of(fitted)
    near = [cuts, np.nextafter(cuts, 2), np.nextafter(cuts, -1)]
    return np.clip(np.concatenate([*near, np.linspace(0, 1, 201), [5e-324, 1 - 1e-16]]), 0, 1)


def float64_error(fitted):
    """Return by how much an export in float64 may differ from predict_proba: an ulp of 1.

    Products of weights with logarithms are rounded, or added, in another order. Where a
    probability is not next to 0 or 1 they are of size 8 here, so that a rounding moves a logit by 4
    ulps of 1 at most, and a probability by a quarter of that: once for each that a logit has.
    """
    roundings = 1
    if isinstance(fitted, VectorScaling):
        roundings = 2  # a product and a bias
    elif isinstance(fitted, (DirichletScaling, MatrixScaling)):
        roundings = len(fitted.classes_)
    return roundings * np.finfo(float).eps


def exported_cases():
    """Return (fitted, inputs) for graphs: one of each formula, with every edge and its neighbours."""
    cases = []
    for recalibrator in (
        *SCALING[:8],
        *SHIFTS,
        *STEPS,
        ISOTONIC[0],
        ISOTONIC[2],
        VennAbers(),
        Identity(),
    ):
        fitted = clone(recalibrator).fit(*binary_rows(900))
        names = ("cuts_", "x_", "cuts0_", "cuts1_")
        edges = [getattr(fitted, n) for n in names if getattr(fitted, n, None) is not None]
        short = [edge.astype(np.float32) for edge in edges]
        near = [np.nextafter(edge, edge.dtype.type(to)) for edge in edges + short for to in (-1, 2)]
        grid = [*edges, *short, *near, np.linspace(0, 1, 101), [5e-324, 1e-300, 1e-13, 1 - 1e-16]]
        cases.append((fitted, np.clip(np.concatenate(grid), 0, 1)))
    z = np.linspace(-5, 5, 200)
    for recalibrator in (*ON_LOGITS, SHIFT_OF_LOGITS, SPLINE_OF_LOGITS, Identity(input="logits")):
        far = [-0.0, 1e6, -1e6, 800.0, -800.0]
        cases.append((clone(recalibrator).fit(z, z % 0.3 < 0.1), np.append(z * 8, far)))
    probs, y = class_rows(600)
    odd = [[0, 0, 0, 0], [1, 0, 0, 0], [0.25] * 4, [1, 1, 1, 1], [0.1, 0.3, 0.3, 0.1]]
    others = [
        OneVsRest(HistogramBinning(5), normalize=True),
        OneVsRest(IsotonicCalibration()),
        TopLabel(VennAbers(), per_class=True, min_rows=20),
        OneVsRest(VennAbers(), normalize=True),
        OneVsRest(TemperatureScaling()),
    ]
    for recalibrator in (*SEVERAL, *NEWER_CLASSES, *others):
        fitted = clone(recalibrator).fit(probs, y)
        cases.append((fitted, np.concatenate([odd, probs[:50]])))
    rows = np.random.default_rng(0).normal(size=(300, 4)) * 5
    for cls in (TemperatureScaling, VectorScaling, MatrixScaling, DirichletScaling, Identity):
        cases.append((cls(input="logits").fit(rows, rows.argmax(1)), rows))
    mixed = probs[:, :3].copy()
    mixed[:, 1] = mixed[:, 1].round(1)  # exact zeros, which are smoothed
    shares = OneVsRest(PlattScaling()).fit(mixed, np.minimum(y, 2))
    assert len({part.smoothing_ for part in shares.recalibrators_}) > 1
    cases.append((shares, mixed[:50]))
    # An optimizer that takes numbers close to 1 for 1 would change these answers.
    nearly = TemperatureScaling().fit(probs, y)
    nearly.temperature_ = 1.000004
    cases.append((nearly, probs[:50]))
    return cases
