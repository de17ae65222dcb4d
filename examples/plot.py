"""Draw a random forest before and after recalibration, and its worst classes, on digits.

Usage: python examples/plot.py [folder]        (a temporary folder without an argument)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from calibrant import EqualWidth, ReliabilityDisplay
from calibrant.recalibrators import TemperatureScaling


def main(folder: Path) -> None:
    features, digits = load_digits(return_X_y=True)
    x_train, x_rest, y_train, y_rest = train_test_split(
        features, digits, train_size=0.3, random_state=0
    )
    forest = RandomForestClassifier(n_estimators=200, random_state=0).fit(x_train, y_train)
    probs = forest.predict_proba(x_rest)
    fit, held_out = slice(0, None, 3), [i for i in range(len(y_rest)) if i % 3]
    repaired = TemperatureScaling().fit(probs[fit], y_rest[fit]).predict_proba(probs)

    y = y_rest[held_out]
    models = {"random forest": probs[held_out], "after temperature scaling": repaired[held_out]}
    both = ReliabilityDisplay.from_predictions(y, models, bins=8)
    grid = ReliabilityDisplay.grid(y, models["random forest"], bins=EqualWidth(5), n_max=6)
    for curve in both.curves:
        print(f"{curve.name}: {curve.error}")
    for name, drawn in (("reliability.png", both), ("reliability-grid.png", grid)):
        drawn.figure_.savefig(folder / name, dpi=110)
        print("wrote", folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
