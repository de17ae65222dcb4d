"""Simulate intervals and certificates of labels, ordered classes and quantiles, for docs/coverage.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_event_tables.py --jobs 16`` from the root of the
repository. It takes some four minutes on 16 cores and replaces what stands between its two
markers of the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from blocks import jobs_of_command_line, simulate, standard_error, write_between
from scipy import special

import calibrant as cb

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- events: start -->", "<!-- events: end -->"
RUNS, PROOFS, ROWS = 4_000, 1_000, 1000
"""Samples for intervals and for bounds, which take longer; and rows of each."""
OUTPUTS = np.arange(1, 10) / 10
TYPES = np.array(
    [[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25], [0.4, 0.3, 0.2, 0.1], [0.05, 0.6, 0.3, 0.05]]
)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
COLUMNS = (
    "l2 interval",
    "l1 interval",
    "l2 bounds",
    "l2 bounds, these rows",
    "l1 bounds",
    "max bounds",
)


@dataclass(frozen=True)
class Rows:
    """Rows of one draw: what is measured, and the true errors of every event and output."""

    y: np.ndarray
    p: np.ndarray
    options: dict
    mass: np.ndarray
    """Of each output in the population, (events, outputs)."""
    seen: np.ndarray
    """The share of the drawn rows with each output."""
    off: np.ndarray
    """True rate less prediction."""


def labels(rng, n, dependence, power):
    """Draw five labels a row; all from one uniform number, in pairs against it, or each its own."""
    at = rng.integers(OUTPUTS.size, size=(n, 5))
    if dependence != "independent":
        at = np.repeat(at[:, :1], 5, axis=1)  # one prediction for all labels of a row
    u = rng.uniform(size=(n, 5))
    if dependence != "independent":
        u = np.repeat(u[:, :1], 5, axis=1)
    if dependence == "opposed":
        u[:, ::2] = 1 - u[:, ::2]
    p = OUTPUTS[at]
    seen = np.stack([np.bincount(column, minlength=OUTPUTS.size) / n for column in at.T])
    mass = np.full_like(seen, 1 / OUTPUTS.size)
    off = np.tile(OUTPUTS**power - OUTPUTS, (5, 1))
    return Rows((u < p**power).astype(int), p, {"kind": "multi-label"}, mass, seen, off)


def grades(rng, n, _, power):
    """Draw one of four ordered classes a row, whose cumulative probabilities have this power."""
    at = rng.integers(len(TYPES), size=n)
    up_to = np.cumsum(TYPES, axis=1)[:, :3]
    y = (rng.uniform(size=(n, 1)) > up_to[at] ** power).sum(axis=1)
    seen = np.tile(np.bincount(at, minlength=len(TYPES)) / n, (3, 1))
    mass = np.full_like(seen, 1 / len(TYPES))
    return Rows(y, TYPES[at], {"kind": "ordinal"}, mass, seen, (up_to**power - up_to).T)


def quantiles(rng, n, _, power):
    """Draw normal outcomes; quantiles are those of a spread of 1 / power."""
    mean = rng.normal(size=n)
    q = cb.normal_quantiles(mean, 1 / power, LEVELS)
    covered = special.ndtr(special.ndtri(np.array(LEVELS)) / power)
    one = np.ones((len(LEVELS), 1))
    off = (covered - LEVELS)[:, None]
    return Rows(
        mean + rng.normal(size=n), q, {"kind": "quantile", "classes": LEVELS}, one, one, off
    )


CASES = {
    "5 labels, independent": (labels, "independent"),
    "5 labels, one draw for all": (labels, "together"),
    "5 labels, opposed": (labels, "opposed"),
    "4 ordered classes": (grades, None),
    "5 quantiles": (quantiles, None),
}
POWERS = {"calibrated": 1.0, "off": 1.3}


def true_error(rows, mass, power):
    """Return the error that these masses and true rates make."""
    if np.isinf(power):
        return float(np.abs(rows.off).max())
    return float(np.mean(np.sum(mass * np.abs(rows.off) ** power, axis=1)) ** (1 / power))


def covered(rng, draw, dependence, power):
    """Return which intervals cover, in the order of `COLUMNS`."""
    rows = draw(rng, ROWS, dependence, power)
    found = []
    for norm, p in (("l2", 2.0), ("l1", 1.0)):
        result = cb.calibration_error(rows.y, rows.p, norm=norm, bins="distinct", **rows.options)
        found.append(true_error(rows, rows.mass, p) in result.confidence_interval())
    return found


def held(rng, draw, dependence, power):
    """Return which pairs of bounds hold, in the order of `COLUMNS`."""
    rows, found = draw(rng, ROWS, dependence, power), []
    l1, l2, largest = (true_error(rows, rows.mass, p) for p in (1.0, 2.0, np.inf))
    table = cb.tabulate(rows.y, rows.p, bins="distinct", **rows.options)
    here = true_error(rows, rows.seen, 2.0)
    asked = [("l2", "population", l2), ("l2", "sample", here), ("l1", "population", l1)]
    for norm, target, truth in [*asked, ("max", "population", largest)]:
        proof = cb.certify(table, norm=norm, target=target)
        found.append(proof.lower_bound <= truth <= proof.upper_bound)
    return found


def shares(case, power, what, runs, seed=0):
    """Return how often each interval covers, or each pair of bounds holds."""
    rng = np.random.default_rng([list(CASES).index(case), round(10 * power), seed])
    return np.mean([what(rng, *CASES[case], power) for _ in range(runs)], axis=0)


def main() -> None:
    """Simulate, and write the page."""
    rows = [(case, name) for case in CASES for name in POWERS]
    cells = [(case, POWERS[name], what) for case, name in rows for what in (covered, held)]
    runs = [RUNS, PROOFS] * len(rows)
    found = iter(simulate(shares, cells, runs, jobs_of_command_line(__doc__)))
    lines = [
        f"{RUNS:,} samples a cell of intervals (standard error {standard_error(0.95, RUNS)} at 0.95), "
        f"{PROOFS:,} of bounds ({standard_error(0.9, PROOFS)} at 0.9).",
        "",
        f"| {ROWS:,} rows | {' | '.join(COLUMNS)} |",
        "|---|" + "---|" * len(COLUMNS),
    ]
    for case, name in rows:
        parts = [f"{share:.3f}" for share in [*next(found), *next(found)]]
        lines.append(f"| {case}, {name} | {' | '.join(parts)} |")
    write_between(PAGE, START, END, lines)


if __name__ == "__main__":
    main()
