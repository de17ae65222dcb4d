"""Simulate the bands and tests of `calibrant.reliability_curve`, for docs/coverage.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_curve_tables.py --jobs 16`` from the root of the
repository. It takes some five minutes on 16 cores and replaces what stands between its markers of
the page; ``bands`` or ``tests`` makes one of the two tables.

Models are those of `make_validation_tables`. The target of bins is the mean rate of their rows, of
loess the true rates smoothed by the same weights, of the others the true rates at the points.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from blocks import simulate, standard_error, write_between
from make_validation_tables import MODELS, draw_risks

import calibrant as cb
from calibrant.stats.samples import Sample
from calibrant.stats.smoothing import Pooled, loess_weights

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- curves: start -->", "<!-- curves: end -->"
METHODS = ("bins", "isotonic", "spline", "loess")
SETTINGS = (("25%", 100), ("25%", 1000), ("3%", 300), ("3%", 1000))
RUNS, RARE_RUNS = 4_000, 400
"""Samples of a cell of bands; those at 3% take longer."""
TEST_START, TEST_END = "<!-- curve tests: start -->", "<!-- curve tests: end -->"
TEST_SETTINGS = (("25%", 100), ("25%", 1000), ("3%", 300), ("3%", 3000))


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
    """Return how often bands hold everywhere, and at a point."""
    rng = np.random.default_rng([METHODS.index(method), list(MODELS).index(model), n, seed])
    found = []
    for _ in range(runs):
        p = draw_risks(rng, risk, n)
        y = rng.uniform(size=n) < MODELS[model](p)
        row, true = [], None
        for simultaneous in (True, False):
            bins = 10 if method == "bins" else "auto"
            curve = cb.reliability_curve(y, p, method=method, bins=bins, simultaneous=simultaneous)
            true = (
                target(method, model, curve, p) if true is None else true
            )  # the points are the same
            held = (true >= curve.low - 1e-9) & (true <= curve.high + 1e-9)
            row.append(held.all() if simultaneous else held.mean())
        found.append(row)
    return np.mean(found, axis=0)


def rejections(method, model, risk, n, runs, seed=0):
    """Return how often the test rejects calibration at 5%."""
    rng = np.random.default_rng([METHODS.index(method), list(MODELS).index(model), n, 1, seed])
    found = []
    for _ in range(runs):
        p = draw_risks(rng, risk, n)
        y = rng.uniform(size=n) < MODELS[model](p)
        found.append(cb.reliability_curve(y, p, method=method).pvalue <= 0.05)
    return [np.mean(found)]


def table(share, methods, settings, runs, rare_runs, jobs, nominal) -> list[str]:
    """Return a table of shares as Markdown."""
    rows = [(model, risk, n) for risk, n in settings for model in MODELS]
    cells = [(method, *row) for row in rows for method in methods]
    each = [rare_runs if risk == "3%" else runs for _, _, risk, _ in cells]
    found = iter(simulate(share, cells, each, jobs))
    said = f"{runs:,} samples a cell (standard error {standard_error(nominal, runs)} at {nominal})"
    if rare_runs != runs:
        said += f", and {rare_runs:,} at 3% ({standard_error(nominal, rare_runs)})"
    lines = [
        f"{said}.",
        "",
        "| | " + " | ".join(methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for model, risk, n in rows:
        parts = [" / ".join(f"{x:.3f}" for x in next(found)) for _ in methods]
        lines.append(f"| {model}, {n:,} rows at {risk} | {' | '.join(parts)} |")
    return lines


def main() -> None:
    """Simulate what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tables", nargs="*", choices=["bands", "tests"])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--samples", type=int, default=RUNS, help="of each cell")
    options = parser.parse_args()
    asked = options.tables or ["bands", "tests"]
    if "bands" in asked:
        rare = min(options.samples, RARE_RUNS)
        lines = table(shares, METHODS, SETTINGS, options.samples, rare, options.jobs, 0.95)
        write_between(PAGE, START, END, lines)
    if "tests" in asked:
        runs = options.samples
        lines = table(rejections, METHODS[1:], TEST_SETTINGS, runs, runs, options.jobs, 0.05)
        write_between(PAGE, TEST_START, TEST_END, lines)


if __name__ == "__main__":
    main()
