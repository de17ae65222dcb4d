"""Measure three classifiers on embedded data: the digits set of scikit-learn, in a few seconds."""

from __future__ import annotations

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import calibrant

MODELS = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(n_estimators=100, random_state=0),
    "logistic regression": LogisticRegression(C=0.01, max_iter=2000),
}


def main() -> None:
    features, digits = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        features, digits, test_size=0.5, random_state=0
    )
    print(f"Handwritten digits: {len(y_train)} rows to train on, {len(y_test)} to measure on.\n")
    for name, model in MODELS.items():
        probs = model.fit(x_train, y_train).predict_proba(x_test)
        right = (probs.argmax(axis=1) == y_test).mean()
        print(f"{name}: {right:.1%} right, says {probs.max(axis=1).mean():.1%} on average")
        for kind in ("top-label", "marginal"):
            print("  ", calibrant.calibration_error(y_test, probs, kind=kind))
        print("  ", calibrant.brier_decomposition(y_test, probs), "(top label)\n")
    print("What naive Bayes said of its top digit, and what happened:")
    probs = MODELS["naive Bayes"].predict_proba(x_test)
    print(calibrant.reliability_curve(y_test, probs, bins=calibrant.EqualWidth(5)))


if __name__ == "__main__":
    main()
