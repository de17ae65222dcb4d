"""Simulate intervals of skill scores, CORP parts and rating grades, for docs/coverage.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_score_tables.py --jobs 16`` from the root of the
repository. It takes some three minutes on 16 cores and replaces what stands between its two
markers of the page.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from blocks import jobs_of_command_line, simulate, standard_error, write_between
from scipy import special

import calibrant as cb
from calibrant import stats

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- scores: start -->", "<!-- scores: end -->"
MANY = 2_000_000
"""Rows that stand for the population."""
RUNS = {"skill": 10_000, "CORP": 4_000, "grades": 10_000}
PARTS = ("miscalibration", "discrimination", "uncertainty")


def logistic(z):
    return 1 / (1 + np.exp(-z))


def spread(rng, n):
    p = rng.uniform(0.01, 0.99, size=n)
    return p, p**1.3, np.clip(p + rng.normal(scale=0.1, size=n), 0.01, 0.99)


def sharp(rng, n):
    z = rng.normal(scale=3, size=n)
    return logistic(z), logistic(0.8 * z), logistic(0.5 * z)


def rare(rng, n):
    p = rng.beta(1, 30, size=n) * 0.98 + 0.001
    return p, p, p**1.2


FORECASTS = {"spread": spread, "sharp": sharp, "rare, 3%": rare}
SIZES = {"spread": (100, 400), "sharp": (400, 800), "rare, 3%": (2000, 8000)}
UNIFORM, SKEWED = (1, 1), (1, 9)
"""Parameters of beta distributions of the predictions."""
CURVES = {
    "calibrated": (UNIFORM, lambda p: p),
    "p^1.5": (UNIFORM, lambda p: p**1.5),
    "half as steep": (UNIFORM, lambda p: 0.25 + p / 2),
    "no skill": (UNIFORM, lambda p: np.full_like(p, 0.5)),
    "skewed, calibrated": (SKEWED, lambda p: p),
    "skewed, p^1.5": (SKEWED, lambda p: p**1.5),
    "skewed, half as steep": (SKEWED, lambda p: 0.05 + p / 2),
    "skewed, no skill": (SKEWED, lambda p: np.full_like(p, 0.1)),
}
PD = np.array([0.0005, 0.002, 0.01, 0.03, 0.1, 0.25])
BOOK = np.array([400, 900, 700, 500, 300, 100])
"""Obligors of each grade."""


@cache
def true_skill(name, rule):
    """Return the skill against climatology and against a model in the population."""
    rng = np.random.default_rng(1)
    p, q, other = FORECASTS[name](rng, MANY)
    y = rng.uniform(size=MANY) < q
    return [cb.skill_score(y, p, r, score=rule).value for r in (None, other)]


def skill_shares(name, n, rule, runs, seed=0):
    """Return how often 95% intervals hold the skill against climatology and against a model."""
    rng = np.random.default_rng([n, seed])
    truth, held = true_skill(name, rule), np.zeros(2)
    for _ in range(runs):
        p, q, other = FORECASTS[name](rng, n)
        y = rng.uniform(size=n) < q
        skills = [cb.skill_score(y, p, r, score=rule) for r in (None, other)]
        held += [x in s.confidence_interval() for x, s in zip(truth, skills, strict=True)]
    return held / runs


@cache
def true_parts(curve):
    """Return the three parts of the Brier score in the population."""
    (a, b), rate = CURVES[curve]
    p = special.betaincinv(a, b, (np.arange(MANY) + 0.5) / MANY)
    q = rate(p)
    return ((p - q) ** 2).mean(), q.var(), q.mean() * (1 - q.mean())


def corp_shares(curve, n, runs, seed=0):
    """Return how often 95% intervals hold the three parts of the Brier score."""
    rng = np.random.default_rng([list(CURVES).index(curve), n, seed])
    predictions, rate = CURVES[curve]
    held = np.zeros(3)
    for _ in range(runs):
        p = rng.beta(*predictions, size=n)
        y = rng.uniform(size=n) < rate(p)
        parts = cb.brier_decomposition(y, p, method="corp")
        pairs = zip(true_parts(curve), PARTS, strict=True)
        held += [x in parts.confidence_interval(part) for x, part in pairs]
    return held / runs


def grade_shares(size, runs, seed=0):
    """Return how often limits hold in all grades, lights are all green, and prudent PDs hold."""
    rng = np.random.default_rng([size, seed])
    held = np.zeros(3)
    for _ in range(runs):
        counts = BOOK * size // 100
        table = cb.BinTable.from_counts(PD, counts, rng.binomial(counts, PD))
        result = stats.grade_backtest(table)
        limits = ((result.low <= PD) & (result.high >= PD)).all()
        green = set(result.light) == {"green"}
        held += [limits, green, (result.prudent_pd >= PD).mean()]
    return held / runs


def about(what):
    runs = RUNS[what]
    return f"{runs:,} samples a cell (standard error {standard_error(0.95, runs)} at 0.95)."


def skill_lines(jobs):
    """Return the table of skill scores."""
    rows = [(name, n) for name in FORECASTS for n in SIZES[name]]
    cells = [(*row, rule) for row in rows for rule in ("brier", "log")]
    found = iter(simulate(skill_shares, cells, RUNS["skill"], jobs))
    yield from ["### Skill scores", "", about("skill"), ""]
    yield from ["| | rows | Brier | log loss |", "|---|---:|---:|---:|"]
    for name, n in rows:
        text = " | ".join(" / ".join(f"{x:.3f}" for x in next(found)) for _ in range(2))
        yield f"| {name} | {n:,} | {text} |"


def corp_lines(jobs):
    """Return the table of the parts of the Brier score."""
    cells = [(curve, n) for curve in CURVES for n in (200, 1000, 5000)]
    found = simulate(corp_shares, cells, RUNS["CORP"], jobs)
    yield from ["", "### CORP", "", about("CORP"), ""]
    yield from [f"| | rows | {' | '.join(PARTS)} |", "|---|---:|---:|---:|---:|"]
    for (curve, n), shares in zip(cells, found, strict=True):
        yield f"| {curve} | {n:,} | {' | '.join(f'{x:.3f}' for x in shares)} |"


def grade_lines(jobs):
    """Return the table of rating grades."""
    sizes = [(100,), (1000,)]
    found = simulate(grade_shares, sizes, RUNS["grades"], jobs)
    yield from ["", "### Grades", "", about("grades"), ""]
    yield "| obligors | limits of all grades | all lights green | prudent PD |"
    yield "|---:|---:|---:|---:|"
    for (size,), shares in zip(sizes, found, strict=True):
        total = int((BOOK * size // 100).sum())
        yield f"| {total:,} | {' | '.join(f'{x:.3f}' for x in shares)} |"


def main() -> None:
    """Simulate, and write the page."""
    jobs = jobs_of_command_line(__doc__)
    lines = [*skill_lines(jobs), *corp_lines(jobs), *grade_lines(jobs)]
    write_between(PAGE, START, END, lines)


if __name__ == "__main__":
    main()
