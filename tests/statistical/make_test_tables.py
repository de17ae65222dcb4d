"""Simulate sizes and powers of the tests of calibration, and write docs/calibration-tests.md.

Run it as ``python tests/statistical/make_test_tables.py`` from the root of the repository. It
takes ten minutes and replaces what stands between the two markers of the page, nothing else. Name
titles ("Size") to draw only these tables anew.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pages import END, START
from scipy import special

from calibrant import calibration_test

PAGE = Path(__file__).parents[2] / "docs" / "calibration-tests.md"
ROWS, LEVELS, SEED = (100, 1_000, 10_000), (0.05, 0.01), 2026
RUNS = {"size": 4_000, "power": 400}
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

    def shares(self, runs: int) -> list[float]:
        """Return the shares of p-values at each level or below."""
        key = zlib.crc32(repr((self.scores, self.method, self.n, self.key)).encode())
        rng = np.random.default_rng([SEED, key])
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


def shown(cell: Cell, title: str) -> str:
    if title == "Size":
        return " / ".join(f"{share:.3f}" for share in cell.shares(RUNS["size"]))
    return f"{cell.shares(RUNS['power'])[0]:.2f}"


def rendered(title: str, table: dict[str, dict[str, Cell]]) -> str:
    columns = list(next(iter(table.values())))
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row, cells in table.items():
        print(title, row, file=sys.stderr, flush=True)
        lines.append(f"| {row} | {' | '.join(shown(cells[c], title) for c in columns)} |")
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


def main(chosen: list[str]) -> None:
    """Write the tables whose titles were named, or all."""
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(START)
    old, tail = rest.split(END)
    kept = {part.split("\n", 1)[0]: part.strip() for part in old.split("### ")[1:]}
    parts = [
        f"### {kept[title]}" if chosen and title not in chosen else rendered(title, table)
        for title, table in study().items()
    ]
    body = "\n\n".join([preface(), *parts])
    PAGE.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
