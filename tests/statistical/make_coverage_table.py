"""Simulate how often the intervals cover, and write the tables of docs/coverage.md.

Run it as ``python tests/statistical/make_coverage_table.py`` from the root of the repository. It
takes some minutes and replaces what stands between the two markers of the page, nothing else.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from simulate import (
    BINARY,
    BinnedModel,
    ContinuousModel,
    calibrated,
    coverage,
    grid,
    mean_width,
    mild,
    softmax_model,
    strong,
)

from calibrant.stats.intervals import (
    bootstrap_interval,
    bootstrap_values,
    box_interval,
    normal_interval,
    score_interval,
)

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- tables: start -->", "<!-- tables: end -->"
RUNS, RESAMPLES, SEED = 10_000, 200, 2019
ROWS, N_BINS = (300, 1_000, 10_000), (10, 100)
COLUMNS = [(n, b) for b in N_BINS for n in ROWS]


@dataclass(frozen=True)
class Covered:
    """How often the intervals of one cell held the truth, and how wide they were."""

    share: float
    width: float
    width_sd: float = 0.0

    def __str__(self) -> str:
        return f"{self.share:.3f} / {self.width:.3f}"


Cell = Callable[[int], Covered]
Table = dict[str, dict[str, Cell]]

INTERVALS = {
    "score": (2.0, score_interval),
    "normal": (1.0, normal_interval),
    "box": (math.inf, lambda c, w, level: box_interval(c, w, math.inf, level)),
}


def covered(limits, truth) -> Covered:
    return Covered(
        coverage(limits, truth), mean_width(limits), float(np.std(limits[1] - limits[0]))
    )


def rng_of(*key) -> np.random.Generator:
    """Return a stream of its own for each cell, so that no cell depends on the others."""
    return np.random.default_rng([SEED, zlib.crc32(repr(key).encode())])


def closed_form(method: str, level: float, model, n: int, key: tuple) -> Cell:
    power, interval = INTERVALS[method]

    def cell(runs: int) -> Covered:
        cells = model.draw(n, runs, rng_of(*key, runs))
        return covered(interval(cells, model.weights, level), model.error(power))

    return cell


def equal_mass(method: str, level: float, model: ContinuousModel, n: int, key: tuple) -> Cell:
    power, interval = INTERVALS[method]

    def cell(runs: int) -> Covered:
        cells, edges = model.draw_equal_mass(n, runs, rng_of(*key, runs))
        return covered(interval(cells, model.weights, level), model.error_in(edges, power))

    return cell


def bootstrap(method: str, level: float, model: BinnedModel, n: int, key: tuple) -> Cell:
    def cell(runs: int) -> Covered:
        rng = rng_of(*key, runs)
        limits = [bootstrap_limits(method, level, model, n, rng) for _ in range(runs)]
        return covered(np.array(limits).T, model.error(2.0))

    return cell


def bootstrap_limits(method, level, model, n, rng):
    size, events = (counts[0] for counts in model.draw_counts(n, 1, rng))
    table = model.table(size, events)
    values = bootstrap_values(table, model.weights, 2.0, True, RESAMPLES, rng, None)
    estimate = model.estimate(size, events)
    return bootstrap_interval(values, estimate, level, method)


def binary_table(cell, method: str, level: float, models) -> Table:
    return {
        name: {
            f"n={n:,} B={b}": cell(method, level, make(b), n, (method, level, name, n, b))
            for n, b in COLUMNS
        }
        for name, make in models.items()
    }


def other_table(level: float) -> Table:
    marginal = {
        f"10 classes, {name}, n={n:,}": (closed_form, softmax_model(10, sharpen), n)
        for name, sharpen in (("calibrated", 1.0), ("sharpened 1.5 times", 1.5))
        for n in (1_000, 10_000)
    }
    continuous = {
        f"continuous, slope {slope:g}, {b} bins, n={n:,}": (
            equal_mass,
            ContinuousModel(slope, b),
            n,
        )
        for slope in (1.0, 0.8, 0.45)
        for n, b in ((300, 10), (1_000, 10), (1_000, 100), (10_000, 20))
    }
    return {
        row: {method: cell(method, level, model, n, (row, method, level)) for method in INTERVALS}
        for row, (cell, model, n) in (marginal | continuous).items()
    }


def surprise(n_bins: int, rate: float, n_wrong: int) -> BinnedModel:
    """All predictions below 0.02; in the first `n_wrong` bins the event rate is `rate`."""
    levels = 0.02 * grid(n_bins)
    return BinnedModel(levels, np.where(np.arange(n_bins) < n_wrong, rate, levels))


def failing_table(level: float) -> Table:
    models = {
        f"{n_bins} bins, rate {rate:g} in {n_wrong}": surprise(n_bins, rate, n_wrong)
        for n_bins, rate, n_wrong in (
            (2, 0.35, 1), (2, 0.15, 1), (2, 0.06, 2), (10, 0.35, 1), (10, 0.15, 1),
        )
    }  # fmt: skip
    return {
        row: {
            f"{method}, {size} rows a bin": closed_form(
                method, level, model, size * model.levels.size, (row, method, level, size)
            )
            for method in ("score", "normal")
            for size in (10, 20, 100)
        }
        for row, model in models.items()
    }


def study() -> dict[str, Table]:
    """Return every table of the page, not yet simulated."""
    tables = {}
    for name, method in (
        ("Score interval, l2 error", "score"),
        ("Normal interval, l1 error", "normal"),
        ("Box interval, largest error", "box"),
    ):
        for level in (0.9, 0.95):
            tables[f"{name}, {level:.0%}"] = binary_table(closed_form, method, level, BINARY)
    for level in (0.9, 0.95):
        tables[f"Several classes and continuous predictions, {level:.0%}"] = other_table(level)
    some = {"calibrated": calibrated, "mild": mild, "strong": strong}
    for method in ("percentile", "basic"):
        title = f"Bootstrap, {method}, of the debiased l2 error, 95%"
        tables[title] = binary_table(bootstrap, method, 0.95, some)
    tables["Where they fall short: few events, 90%"] = failing_table(0.9)
    return tables


def runs_of(title: str, row: str, runs: int) -> int:
    """Return how many tables a row gets: fewer where they are made from rows or resampled."""
    if title.startswith("Bootstrap"):
        return runs // 10
    return runs // 5 if row.startswith("continuous") else runs


def rendered(title: str, table: Table) -> str:
    columns = list(next(iter(table.values())))
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row, cells in table.items():
        runs = runs_of(title, row, RUNS)
        lines.append(f"| {row} | {' | '.join(str(cells[c](runs)) for c in columns)} |")
    return "\n".join(lines)


def preface() -> str:
    """Say how many tables stand behind each number and how far chance can move it."""
    error = 100 * math.sqrt(0.09 / RUNS)
    return (
        f"Each cell: coverage / mean width. {RUNS:,} simulated tables a cell, {RUNS // 5:,} for\n"
        f"continuous predictions, {RUNS // 10:,} for the bootstrap ({RESAMPLES} resamples each). "
        f"At a coverage of 0.9\nthe Monte-Carlo standard error is {error:.1f} points, "
        f"{error * math.sqrt(5):.1f} and {error * math.sqrt(10):.1f}; closer to 1 it is smaller."
    )


def parsed(page: str) -> dict[str, dict[str, dict[str, Covered]]]:
    """Read the tables of the page back."""
    tables: dict[str, dict[str, dict[str, Covered]]] = {}
    columns: list[str] = []
    for line in page.split(START)[1].split(END)[0].splitlines():
        if line.startswith("### "):
            tables[line[4:]], columns = {}, []
        elif line.startswith("| |"):
            columns = [part.strip() for part in line.strip("|").split("|")[1:]]
        elif line.startswith("| "):
            row, *cells = (part.strip() for part in line.strip("|").split("|"))
            pairs = (map(float, cell.split(" / ")) for cell in cells)
            values = (Covered(*pair) for pair in pairs)
            list(tables.values())[-1][row] = dict(zip(columns, values, strict=True))
    return tables


def main() -> None:
    head, rest = PAGE.read_text(encoding="utf-8").split(START)
    tail = rest.split(END)[1]
    parts = [preface()]
    for title, table in study().items():
        print(title, file=sys.stderr, flush=True)
        parts.append(rendered(title, table))
    body = "\n\n".join(parts)
    PAGE.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
