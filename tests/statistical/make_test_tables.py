"""Simulate sizes and powers of the tests of calibration, and write docs/calibration-tests.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_test_tables.py --jobs 16`` from the root of the
repository. It takes some two minutes on 16 cores and replaces what stands between its two
markers of the page.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from blocks import jobs_of_command_line, simulate, write_between
from pages import END, START
from scipy import special

from calibrant import calibration_test

PAGE = Path(__file__).parents[2] / "docs" / "calibration-tests.md"
ROWS, LEVELS, SEED = (100, 1_000, 10_000), (0.05, 0.01), 2026
RUNS = {"size": 10_000, "power": 2_000}
RESAMPLES = 199  # 200 places for the observed statistic: levels of 5% and 1% are met exactly
N_VALUES = 100  # distinct predictions; draws then cost the same for any number of rows
METHODS = ("exact", "adaptive", "l2", "hosmer-lemeshow", "kuiper", "spiegelhalter", "cox")
EXACT = METHODS[:5]

QUANTILES = (np.arange(N_VALUES) + 0.5) / N_VALUES
SCORES = {
    "spread": QUANTILES,
    "rare": special.betaincinv(0.5, 30, QUANTILES),
    "confident": special.betaincinv(0.2, 0.2, QUANTILES),
}


def bump(p):
    """Rates whose log-odds are 1 too low in 15 neighbours of a hundred."""
    return np.where((QUANTILES > 0.6) & (QUANTILES < 0.75), special.expit(special.logit(p) + 1), p)


ALTERNATIVES: dict[str, Callable] = {
    "slope 0.8": lambda p: special.expit(0.8 * special.logit(p)),
    "shift 0.3": lambda p: special.expit(special.logit(p) + 0.3),
    "bump": bump,
}


@dataclass(frozen=True)
class Cell:
    """The rejections of one test of `n` predictions whose events happen at the rates given."""

    scores: str
    method: str
    n: int
    rate: Callable
    key: str

    def shares(self, runs: int, seed: int = 0) -> list[float]:
        """Return the shares of p-values at each level or below."""
        key = zlib.crc32(repr((self.scores, self.method, self.n, self.key)).encode())
        rng = np.random.default_rng([SEED, key, seed])
        p = np.repeat(SCORES[self.scores], self.n // N_VALUES)
        rates = np.repeat(self.rate(SCORES[self.scores]), self.n // N_VALUES)
        values = [
            calibration_test(
                rng.uniform(size=self.n) < rates,
                p,
                method=self.method,
                n_resamples=RESAMPLES,
                rng=rng,
            ).pvalue
            for _ in range(runs)
        ]
        return [float(np.mean(np.array(values) <= level)) for level in LEVELS]


def study() -> dict[str, dict[str, dict[str, Cell]]]:
    """Return every table of the page, not yet simulated: the first of sizes, the others powers."""
    tables = {
        "Size": {
            method: {
                f"{scores} {n:,}": Cell(scores, method, n, lambda p: p, "null")
                for scores in SCORES
                for n in ROWS
            }
            for method in METHODS
        }
    }
    for scores in SCORES:
        tables[f"Power, {scores} predictions"] = {
            method: {
                f"{name} {n:,}": Cell(scores, method, n, rate, name)
                for name, rate in ALTERNATIVES.items()
                for n in ROWS
            }
            for method in METHODS
        }
    return tables


def rejected(title: str, row: str, column: str, runs: int, seed: int) -> list[float]:
    """Return the shares rejected in one cell of one table."""
    return study()[title][row][column].shares(runs, seed)


def rendered(title: str, shares: dict[tuple[str, str, str], np.ndarray]) -> str:
    """Return a table: of sizes both levels, of powers the first."""
    table = study()[title]
    columns = list(next(iter(table.values())))
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in table:
        own = [shares[title, row, column] for column in columns]
        both = [" / ".join(f"{x:.3f}" for x in pair) for pair in own]
        cells = both if title == "Size" else [f"{pair[0]:.2f}" for pair in own]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def preface() -> str:
    """Say how many samples stand behind each number and how far chance can move it."""
    return (
        f"Size: shares of calibrated samples rejected at 5% / at 1%, {RUNS['size']:,} samples a cell\n"
        f"(standard errors {(0.05 * 0.95 / RUNS['size']) ** 0.5:.4f} and "
        f"{(0.01 * 0.99 / RUNS['size']) ** 0.5:.4f}). Power: shares rejected at 5%, "
        f"{RUNS['power']:,} samples a cell (standard error at\nmost "
        f"{0.5 / RUNS['power'] ** 0.5:.3f}). Columns: what the rows are, and how many."
    )


def main() -> None:
    """Simulate, and write the page."""
    cells = [
        (t, row, column) for t, rows in study().items() for row in rows for column in rows[row]
    ]
    runs = [RUNS["size" if title == "Size" else "power"] for title, *_ in cells]
    found = simulate(rejected, cells, runs, jobs_of_command_line(__doc__))
    shares = dict(zip(cells, found, strict=True))
    body = "\n\n".join([preface(), *(rendered(title, shares) for title in study())])
    write_between(PAGE, START, END, ["", body, ""])


if __name__ == "__main__":
    main()
