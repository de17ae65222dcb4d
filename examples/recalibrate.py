"""Repair a naive Bayes classifier on embedded data: scikit-learn's digits, in a few seconds."""

from __future__ import annotations

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.recalibrators import (
    HistogramBinning,
    Identity,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
    best_recalibrator,
)

CHOICES = [
    Identity(),
    TemperatureScaling(),
    VectorScaling(),
    MatrixScaling(),
    OneVsRest(PlattScaling(), normalize=True),
    OneVsRest(ScalingBinning(bins=10)),
    OneVsRest(HistogramBinning(bins=10)),
    TopLabel(ScalingBinning(bins=10)),
]


def main() -> None:
    features, digits = load_digits(return_X_y=True)
    x_train, x_rest, y_train, y_rest = train_test_split(
        features, digits, train_size=0.4, random_state=0
    )
    probs = GaussianNB().fit(x_train, y_train).predict_proba(x_rest)
    half = len(y_rest) // 2
    print(f"Naive Bayes on digits: {half} rows to recalibrate on, {len(y_rest) - half} to measure.")
    print(f"\n{'recalibrator':<58}{'top-label':>10}{'marginal':>10}{'Brier':>8}")
    for choice in CHOICES:
        fitted = choice.fit(probs[:half], y_rest[:half])
        after = fitted.predict_proba(probs[half:])
        errors = [
            calibrant.calibration_error(y_rest[half:], after, kind=kind, bins=10).value
            for kind in ("top-label", "marginal")
        ]
        brier = -fitted.score(probs[half:], y_rest[half:])
        print(f"{choice!s:<58}{errors[0]:>10.4f}{errors[1]:>10.4f}{brier:>8.4f}")
    best = best_recalibrator(y_rest[:half], probs[:half])
    print(f"\nChosen by cross-validation: {best}")
    print("Levels of digit 0 after scaling-binning:", CHOICES[5].recalibrators_[0].levels_.round(3))


if __name__ == "__main__":
    main()
