"""Simulate intervals and tests of rows in clusters, for docs/groups.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_cluster_table.py --jobs 16`` from the root
of the repository. It replaces what stands between its two markers of the page, and takes about 15
minutes of one core.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy import stats as scipy_stats

import calibrant as cb

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
START, END = "<!-- clusters: start -->", "<!-- clusters: end -->"
LEVELS = np.arange(1, 11) / 11
SHAPES = {1: 600, 5: 200, 20: 150, 50: 120}
"""Clusters of each size."""
CORRELATIONS = (0.0, 0.3, 0.6, 0.9)
POWERS = {"calibrated": 1.0, "off by 0.1": 1.5}
RUNS = 2000
"""Samples of a cell: standard errors are 0.5 points at 0.95 and at 0.05."""


def draw(rng, size, correlation, power):
    """Return labels, predictions and clusters; all rows of a cluster have one prediction.

    Labels have the rates p^power, and normal scores that are correlated within clusters.
    """
    n_clusters = SHAPES[size]
    p = np.repeat(rng.choice(LEVELS, size=n_clusters), size)
    shared = np.repeat(rng.normal(size=n_clusters), size)
    own = rng.normal(size=p.size)
    score = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    y = scipy_stats.norm.cdf(score) < p**power
    return y, p, np.repeat(np.arange(n_clusters), size)


def shares(size, correlation, power, runs, seed=0):
    """Return how often intervals cover, without clusters and with, and how often the test rejects."""
    rng = np.random.default_rng([size, round(10 * correlation), round(10 * power), seed])
    truth = float(np.sqrt(np.mean((LEVELS**power - LEVELS) ** 2)))
    found = []
    for _ in range(runs):
        y, p, cluster = draw(rng, size, correlation, power)
        plain = cb.calibration_error(y, p, bins="distinct")
        robust = cb.calibration_error(y, p, bins="distinct", cluster=cluster)
        rejected = False
        if power == 1:
            options = {"bins": "distinct", "n_resamples": 199, "rng": rng}
            rejected = cb.calibration_test(y, p, cluster=cluster, **options).pvalue <= 0.05
        found.append(
            (truth in plain.confidence_interval(), truth in robust.confidence_interval(), rejected)
        )
    return np.mean(found, axis=0)


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    cells = [
        (size, correlation, power, RUNS)
        for size in SHAPES
        for correlation in CORRELATIONS[: 1 if size == 1 else None]
        for power in POWERS.values()
    ]
    with ProcessPoolExecutor(parser.parse_args().jobs) as pool:
        found = list(pool.map(shares, *zip(*cells, strict=True)))
    lines = [
        "",
        f"{RUNS:,} samples a cell.",
        "",
        "| rows a cluster | correlation | calibrated | off by 0.1 | test rejects |",
        "|---|---|---|---|---|",
    ]
    pairs = zip(cells[::2], found[::2], found[1::2], strict=True)  # calibrated, and off by 0.1
    for (size, correlation, *_), a, b in pairs:
        shown = [f"{plain:.3f} / {robust:.3f}" for plain, robust, _ in (a, b)]
        lines.append(f"| {size} | {correlation:g} | {' | '.join(shown)} | {a[2]:.3f} |")
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{START}{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
