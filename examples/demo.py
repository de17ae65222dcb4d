"""Measure, repair and certify classifiers on embedded data, in a few seconds.

The handwritten digits of scikit-learn: a third of the rows trains the classifiers, a third
repairs their confidence, a third certifies the result.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant import ScalingBinning, TopLabel

TOLERANCE = 0.15
MODELS = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(n_estimators=100, random_state=0),
    "logistic regression": LogisticRegression(C=0.01, max_iter=2000),
}


def main() -> None:
    features, digits = load_digits(return_X_y=True)
    train, repair, check = np.array_split(np.random.default_rng(0).permutation(len(digits)), 3)
    print(f"Handwritten digits: {len(train)} rows train, {len(repair)} repair, {len(check)} check.")
    for name, model in MODELS.items():
        probs = model.fit(features[train], digits[train]).predict_proba(features)
        right = (probs[check].argmax(axis=1) == digits[check]).mean()
        says = probs[check].max(axis=1).mean()
        print(f"\n{name}: says {says:.1%} on average, is right {right:.1%}")
        print("  before:", calibrant.calibration_error(digits[check], probs[check]))
        fixed = TopLabel(ScalingBinning(n_bins=5)).fit(probs[repair], digits[repair])
        _, confidence = fixed.predict_confidence(probs[check])
        hit = probs[check].argmax(axis=1) == digits[check]
        print("  after: ", calibrant.calibration_error(hit, confidence, bins=calibrant.Distinct()))
        print("  ", fixed.certify(probs[check], digits[check], max_error=TOLERANCE))
    print("\nWhat naive Bayes said of its top digit, and what happened:")
    probs = MODELS["naive Bayes"].predict_proba(features[check])
    print(calibrant.reliability_curve(digits[check], probs, bins=calibrant.EqualWidth(5)))


if __name__ == "__main__":
    main()
