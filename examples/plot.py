"""Draw the pictures of the gallery on scikit-learn's digits and breast-cancer sets.

Usage: python examples/plot.py [folder]        (a temporary folder without an argument)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_friedman1
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import (
    Distinct,
    EqualWidth,
    PitDisplay,
    ReliabilityDisplay,
    ScalingBinning,
    TemperatureScaling,
    VarianceScaling,
    normal_quantiles,
)


def split(data: Any, train_size: float) -> Any:
    features, labels = data(return_X_y=True)
    return train_test_split(features, labels, train_size=train_size, random_state=0)


def digits() -> dict[str, Any]:
    """Confidence in the predicted digit, before and after; the worst digits; no bins at all."""
    x_train, x_rest, y_train, y_rest = split(load_digits, 0.3)
    forest = RandomForestClassifier(n_estimators=200, random_state=0).fit(x_train, y_train)
    probs = forest.predict_proba(x_rest)
    fit, held_out = slice(0, None, 3), np.arange(len(y_rest)) % 3 > 0
    repaired = TemperatureScaling().fit(probs[fit], y_rest[fit]).predict_proba(probs)
    y = y_rest[held_out]
    models = {"random forest": probs[held_out], "after temperature scaling": repaired[held_out]}
    draw = ReliabilityDisplay.from_predictions
    return {
        "reliability": draw(y, models, bins=8),
        "reliability-grid": ReliabilityDisplay.grid(
            y, probs[held_out], bins=EqualWidth(5), n_max=6
        ),
        "reliability-isotonic": draw(y, probs[held_out], name="random forest", isotonic=True),
    }


def tumours() -> dict[str, Any]:
    """Naive Bayes on tumours, certain where it should not be, and binned."""
    x_train, x_rest, y_train, y_rest = split(load_breast_cancer, 0.3)
    said = GaussianNB().fit(x_train, y_train).predict_proba(x_rest)[:, 1]
    fit = np.arange(len(y_rest)) % 2 == 0
    binned = ScalingBinning(bins=5).fit(said[fit], y_rest[fit]).predict_proba(said[~fit])
    draw = ReliabilityDisplay.from_predictions
    return {
        "reliability-before": draw(y_rest[~fit], said[~fit], name="naive Bayes", bins=6),
        "reliability-consistency": draw(
            y_rest[~fit],
            binned,
            name="after scaling-binning",
            bins=Distinct(),
            consistency=True,
        ),
    }


def sites() -> dict[str, Any]:
    """A model that is wrong in the south, for everyone there."""
    rng, n = np.random.default_rng(1), 24_000
    score = rng.integers(1, 10, size=n) / 10
    site = rng.choice(["east", "north", "south", "west"], size=n)
    age = rng.integers(18, 95, size=n)
    label = rng.uniform(size=n) < np.where(site == "south", score**1.4, score)
    by = {"site": site, "age": (age, [18, 40, 65, 95])}
    return {"groups": ReliabilityDisplay.grid(label, score, by=by, bins=Distinct(), n_max=6)}


def spreads() -> dict[str, Any]:
    """Forecasts whose spread was taken from the rows of the fit, before and after its repair."""
    x, y = make_friedman1(n_samples=6000, noise=2.0, random_state=0)
    model = GradientBoostingRegressor(n_estimators=200, max_depth=4, random_state=0)
    mean = model.fit(x[:1000], y[:1000]).predict(x)
    levels = np.arange(1, 10) / 10
    said = normal_quantiles(mean, np.std(y[:1000] - mean[:1000]), levels)[1000:]
    fit, held_out = slice(0, 2500), slice(2500, None)
    repair = VarianceScaling().fit(said[fit], y[1000:][fit], classes=levels)
    forecasts = {"as fitted": said, "after VarianceScaling": repair.predict(said)}
    _, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", sharey=True)
    for ax, (title, quantiles) in zip(axes, forecasts.items(), strict=True):
        drawn = PitDisplay.from_predictions(
            y[1000:][held_out], quantiles[held_out], classes=levels, ax=ax
        )
        ax.set_title(title)
    return {"pit": drawn}


DARK = ["dark_background", {"figure.facecolor": "#14181e", "axes.facecolor": "#14181e"}]


def main(folder: Path) -> None:
    for style, ending in ([], ""), (DARK, "-dark"):  # the site shows what suits the reader's theme
        with plt.style.context(style):
            for name, drawn in (digits() | tumours() | sites() | spreads()).items():
                path = folder / f"{name}{ending}.png"
                drawn.figure_.savefig(path, dpi=110)
                print("wrote", path)
        plt.close("all")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
