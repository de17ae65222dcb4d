"""Simulate certificates of rows in clusters, for docs/groups.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_cluster_certificates.py --jobs 16`` from
the root of the repository. It replaces what stands between its two markers of the page;
``--samples`` are those of each cell.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from blocks import simulate, standard_error, write_between
from make_cluster_table import CORRELATIONS, LEVELS, POWERS
from scipy import special

import calibrant as cb

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
START, END = "<!-- cluster certificates: start -->", "<!-- cluster certificates: end -->"
SIZES = (1, 2, 5, 20, 50)
N_CLUSTERS = 500
SAMPLES = 1000
DRAWS = (1, 4)
CELLS = [(size, rho) for size in SIZES for rho in CORRELATIONS[: 1 if size == 1 else None]]


def draw(rng, size, correlation, power):
    """Return labels, predictions and clusters; rows of a cluster have predictions of their own.

    Labels have the rates p^power, and normal scores that are correlated within clusters.
    """
    p = rng.choice(LEVELS, size=(N_CLUSTERS, size))
    shared, own = rng.normal(size=(N_CLUSTERS, 1)), rng.normal(size=(N_CLUSTERS, size))
    score = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    y = special.ndtr(score) < p**power
    return y.ravel(), p.ravel(), np.repeat(np.arange(N_CLUSTERS), size)


def shares(size, correlation, power, runs, seed=0):
    """Return for 1 and 4 draws: how often each bound is wrong, and its mean."""
    rng = np.random.default_rng([size, round(10 * correlation), round(10 * power), seed])
    truth = float(np.sqrt(np.mean((LEVELS**power - LEVELS) ** 2)))
    found = []
    for _ in range(runs):
        y, p, cluster = draw(rng, size, correlation, power)
        row = []
        for draws in DRAWS:
            result = cb.certify(y, p, cluster=cluster, draws=draws)
            upper, lower = result.upper_bound, result.lower_bound
            row += [upper < truth, lower > truth, upper, lower]
        found.append(row)
    return np.mean(found, axis=0)


def main() -> None:
    """Simulate, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="of each cell")
    options = parser.parse_args()
    cells = [(*cell, power) for cell in CELLS for power in POWERS.values()]
    means = simulate(shares, cells, options.samples, options.jobs)
    error = standard_error(0.05, options.samples)
    lines = [
        f"{options.samples:,} samples a cell (standard error {error} at 0.05).",
        "",
        "| rows a cluster | correlation | wrong, calibrated | wrong, off by 0.1 "
        "| at most, calibrated | at least, off by 0.1 |",
        "|---|---|---|---|---|---|",
    ]
    for (size, rho), calibrated, off in zip(CELLS, means[::2], means[1::2], strict=True):
        wrong = [" / ".join(f"{x[i] + x[i + 1]:.3f}" for i in (0, 4)) for x in (calibrated, off)]
        bounds = [
            " / ".join(f"{x[i]:.4f}" for i in places)
            for x, places in ((calibrated, (2, 6)), (off, (3, 7)))
        ]
        lines.append(f"| {size} | {rho:g} | {' | '.join([*wrong, *bounds])} |")
    write_between(PAGE, START, END, lines)


if __name__ == "__main__":
    main()
