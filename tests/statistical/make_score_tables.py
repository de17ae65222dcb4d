"""Simulate intervals of skill scores, CORP parts and rating grades, for docs/coverage.md.

Run it as ``python tests/statistical/make_score_tables.py`` from the root of the repository. It
takes some minutes and replaces what stands between its two markers of the page.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import calibrant as cb
from calibrant import stats

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- scores: start -->", "<!-- scores: end -->"
MANY = 2_000_000
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
CURVES = {
    "calibrated": lambda p: p,
    "p^1.5": lambda p: p**1.5,
    "half as steep": lambda p: 0.25 + p / 2,
    "no skill": lambda p: np.full_like(p, 0.5),
}
PD = np.array([0.0005, 0.002, 0.01, 0.03, 0.1, 0.25])
BOOK = np.array([400, 900, 700, 500, 300, 100])
"""Obligors of each grade."""


def skill_shares(name, n, rule, runs, seed=0):
    """Return how often 95% intervals hold the skill against climatology and against a model."""
    rng = np.random.default_rng([n, seed])
    p, q, other = FORECASTS[name](rng, MANY)
    y = rng.uniform(size=MANY) < q
    truth = [cb.skill_score(y, p, r, score=rule).value for r in (None, other)]
    held = np.zeros(2)
    for _ in range(runs):
        p, q, other = FORECASTS[name](rng, n)
        y = rng.uniform(size=n) < q
        skills = [cb.skill_score(y, p, r, score=rule) for r in (None, other)]
        held += [x in s.confidence_interval() for x, s in zip(truth, skills, strict=True)]
    return held / runs


def corp_shares(curve, n, runs, seed=0):
    """Return how often 95% intervals hold the three parts of the Brier score."""
    rng = np.random.default_rng([n, seed])
    p = rng.uniform(size=MANY)
    q = CURVES[curve](p)
    truth = (((p - q) ** 2).mean(), q.var(), q.mean() * (1 - q.mean()))
    held = np.zeros(3)
    for _ in range(runs):
        p = rng.uniform(size=n)
        y = rng.uniform(size=n) < CURVES[curve](p)
        parts = cb.brier_decomposition(y, p, method="corp")
        pairs = zip(truth, PARTS, strict=True)
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


def skill_lines(runs: int = 4000) -> list[str]:
    """Return the table of skill scores."""
    lines = ["", "### Skill scores", "", "| | rows | Brier | log loss |", "|---|---:|---:|---:|"]
    for name in FORECASTS:
        for n in SIZES[name]:
            cells = [skill_shares(name, n, rule, runs) for rule in ("brier", "log")]
            text = " | ".join(f"{a:.3f} / {b:.3f}" for a, b in cells)
            lines.append(f"| {name} | {n:,} | {text} |")
    return lines


def corp_lines(curves=tuple(CURVES), runs: int = 600) -> list[str]:
    """Return the table of the parts of the Brier score."""
    lines = ["", "### CORP", "", f"| | rows | {' | '.join(PARTS)} |", "|---|---:|---:|---:|---:|"]
    for curve in curves:
        for n in (200, 1000, 5000):
            shares = corp_shares(curve, n, runs if n < 5000 else runs // 3)
            lines.append(f"| {curve} | {n:,} | {' | '.join(f'{x:.3f}' for x in shares)} |")
    return lines


def grade_lines(runs: int = 2000) -> list[str]:
    """Return the table of rating grades."""
    head = "| obligors | limits of all grades | all lights green | prudent PD |"
    lines = ["", "### Grades", "", head, "|---:|---:|---:|---:|"]
    for size in (100, 1000):
        shares = grade_shares(size, runs)
        total = int((BOOK * size // 100).sum())
        lines.append(f"| {total:,} | {' | '.join(f'{x:.3f}' for x in shares)} |")
    return lines


def main() -> None:
    """Simulate, and write the page."""
    lines = [*skill_lines(), *corp_lines(), *grade_lines()]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{START}{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
