"""Simulate the bands and tests of `calibrant.reliability_curve`, for docs/coverage.md.

Run it as ``python tests/statistical/make_curve_tables.py`` from the root of the repository. It takes
some minutes and replaces what stands between its two markers of the page.

Models are those of `make_validation_tables`. The target of bins is the mean rate of their rows, of
loess the true rates smoothed by the same weights, of the others the true rates at the points.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from make_validation_tables import MODELS, draw_risks

import calibrant as cb
from calibrant.stats.samples import Sample
from calibrant.stats.smoothing import Pooled, loess_weights

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- curves: start -->", "<!-- curves: end -->"
METHODS = ("bins", "isotonic", "spline", "loess")
SETTINGS = (("25%", 100), ("25%", 1000))
RUNS = 200
SLOW = {"isotonic": 4, "spline": 2}
"""Of which fewer runs must do; the isotonic band holds by a theorem."""


def target(method, model, curve, p):
    """Return what the curve estimates at its points."""
    rate = MODELS[model]
    if method == "bins":
        place = np.searchsorted(curve.right[:-1], p)
        return np.bincount(place, rate(p)) / np.bincount(place)
    if method == "loess":
        pooled = Pooled.of(Sample.of(np.zeros(p.size), p))
        return (loess_weights(pooled, curve.mean_prediction) @ rate(pooled.x)).clip(0, 1)
    return rate(curve.mean_prediction)


def shares(method, model, risk, n, runs, seed=0):
    """Return how often bands hold everywhere, and at a point; and how often the test rejects."""
    rng = np.random.default_rng([METHODS.index(method), list(MODELS).index(model), n, seed])
    found = []
    for _ in range(runs):
        p = draw_risks(rng, risk, n)
        y = rng.uniform(size=n) < MODELS[model](p)
        row = []
        for simultaneous in (True, False):
            curve = cb.reliability_curve(y, p, method=method, bins=10, simultaneous=simultaneous)
            true = target(method, model, curve, p)
            held = (true >= curve.low - 1e-9) & (true <= curve.high + 1e-9)
            row.append(held.all() if simultaneous else held.mean())
        found.append([*row, curve.pvalue is not None and curve.pvalue <= 0.05])
    return np.mean(found, axis=0)


def rows_of_page(runs):
    """Yield the rows of the table."""
    for risk, n in SETTINGS:
        for model in MODELS:
            cells = []
            for method in METHODS:
                everywhere, somewhere, rejected = shares(
                    method, model, risk, n, runs // SLOW.get(method, 1)
                )
                last = f" / {rejected:.3f}" if method != "bins" else ""
                cells.append(f"{everywhere:.3f} / {somewhere:.3f}{last}")
            row = f"| {model}, {n:,} rows at {risk} | {' | '.join(cells)} |"
            print(row, file=sys.stderr, flush=True)
            yield row


def main() -> None:
    """Simulate, and write the page."""
    lines = ["", "| | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    lines += rows_of_page(RUNS)
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{START}{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
