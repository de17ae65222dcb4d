"""Simulate how often the intervals cover, and write the tables of docs/coverage.md.

Run it as ``python tests/statistical/make_coverage_table.py --jobs 16`` from the root of the
repository. It takes some minutes on as many cores and replaces what stands between the two markers of the page, nothing else.
Beginnings of titles, ``... make_coverage_table.py Several Weights``, draw those tables alone.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from blocks import processes, tables_and_jobs
from pages import END, START, tables_of
from scipy import special
from simulate import (
    BINARY,
    BinnedModel,
    ContinuousModel,
    MarginalModel,
    WeightedModel,
    calibrated,
    coverage,
    grid,
    mean_width,
    mild,
    rare_classes,
    sloped,
    softmax_model,
    strong,
    top_label_model,
)

from calibrant.stats.estimators import error_of, raw_error
from calibrant.stats.influences import FEWEST_INFLUENTIAL, influential_rows_of
from calibrant.stats.intervals import (
    bootstrap_interval,
    bootstrap_values,
    box_interval,
    normal_interval,
    score_interval,
)

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
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
        digits = 3 if self.width >= 0.01 or self.width == 0 else 4
        return f"{self.share:.3f} / {self.width:.{digits}f}"


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
    error = partial(error_of, weights=model.weights, power=2.0, debiased=True)
    values = bootstrap_values(table, error, RESAMPLES, rng, None)
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


def of_classes(column: str, level: float, model: MarginalModel, n: int, key: tuple) -> Cell:
    """One column of the tables of several classes: from rows, from a table alone, or an oracle."""
    method, _, source = column.partition(" of ")
    method = method if method in INTERVALS else "score"
    power, interval = INTERVALS[method]

    def cell(runs: int) -> Covered:
        rng = rng_of(*key, runs)
        if method == "box" or source:
            limits = interval(model.draw(n, runs, rng), model.weights, level)
        else:
            cells, spread, _ = model.draw_with_influences(n, runs, rng, power)
            if column == "oracle":
                found = covered(oracle(cells, model, level), model.error(power))
                # all limits move with one standard deviation, known as well as the runs tell it
                return replace(found, width_sd=math.hypot(found.width_sd, found.width))
            limits = interval(cells, model.weights, level, spread=spread)
        return covered(limits, model.error(power))

    return cell


def oracle(cells, model, level: float):
    """Normal limits of the square with its true standard deviation, which nobody knows."""
    squared = raw_error(cells, model.weights, 2.0, debiased=True)
    reach = special.ndtri((1 + level) / 2) * squared.std()
    return tuple(np.sqrt(np.clip(squared.clip(0) + side * reach, 0, 1)) for side in (-1, 1))


CLASS_COLUMNS = ("score", "oracle", "score of a table", "normal", "normal of a table", "box")


def class_table(level: float) -> Table:
    models = {
        f"{n_classes} classes, {name}, n={n:,}": (softmax_model(n_classes, sharpen), n)
        for n_classes in (2, 3, 10, 30, 100)
        for name, sharpen in (("calibrated", 1.0), ("sharpened 1.5 times", 1.5))
        for n in (1_000, 10_000)
    } | {
        f"{n_classes} classes, {n_classes - 1} rare, {name}, n={n:,}": (
            rare_classes(n_classes, factor),
            n,
        )
        for n_classes, n in ((5, 10_000), (20, 3_000), (100, 3_000))
        for name, factor in (("calibrated", 1.0), ("a third", 0.3), ("threefold", 3.0))
    }
    return {
        row: {c: of_classes(c, level, model, n, (row, c, level)) for c in CLASS_COLUMNS}
        for row, (model, n) in models.items()
    }


def weighted(n_bins: int, weight: float, slope: float, scale: float = 1.0) -> WeightedModel:
    return WeightedModel(scale * grid(n_bins), scale * sloped(grid(n_bins), slope), weight)


def weight_table(level: float) -> Table:
    models = {
        f"events weigh {weight:g}, slope {slope:g}, {n_bins} bins, n={n:,}": (
            weighted(n_bins, weight, slope),
            n,
        )
        for weight in (10.0, 0.1)
        for slope in (1.0, 0.8, 0.45)
        for n_bins, n in ((2, 1_000), (10, 1_000), (10, 10_000))
    } | {
        f"events weigh 10, below 0.1, slope {slope:g}, 10 bins, n=10,000": (
            weighted(10, 10.0, slope, 0.1),
            10_000,
        )
        for slope in (1.0, 0.45)
    }
    return {
        row: {m: closed_form(m, level, model, n, (row, m, level)) for m in ("score", "normal")}
        for row, (model, n) in models.items()
    }


def other_table(level: float) -> Table:
    top = {
        f"top label of {n_classes} classes, {name}, n={n:,}": (
            closed_form,
            top_label_model(n_classes, sharpen),
            n,
        )
        for n_classes in (3, 10, 100)
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
        for row, (cell, model, n) in (top | continuous).items()
    }


def surprise(n_bins: int, rate: float, n_wrong: int) -> BinnedModel:
    """All predictions below 0.02; in the first `n_wrong` bins the event rate is `rate`."""
    levels = 0.02 * grid(n_bins)
    return BinnedModel(levels, np.where(np.arange(n_bins) < n_wrong, rate, levels))


FAILING = {
    f"{n_bins} bins, rate {rate:g} in {n_wrong}": surprise(n_bins, rate, n_wrong)
    for n_bins, rate, n_wrong in (
        (2, 0.35, 1), (2, 0.15, 1), (2, 0.06, 2), (10, 0.35, 1), (10, 0.15, 1),
    )
}  # fmt: skip


def failing_table(level: float, cell) -> Table:
    return {
        row: {
            f"{method}, {size} rows a bin": cell(
                method, level, model, size * model.levels.size, (row, method, level, size)
            )
            for method in ("score", "normal")
            for size in (10, 20, 100)
        }
        for row, model in FAILING.items()
    }


def announced(method: str, level: float, model, n: int, key: tuple) -> Cell:
    """Count intervals that hold the truth or say that they may not, and how many say so."""
    power, interval = INTERVALS[method]

    def cell(runs: int) -> Covered:
        cells = model.draw(n, runs, rng_of(*key, runs))
        low, high = interval(cells, model.weights, level)
        noted = influential_rows_of(cells, power) < FEWEST_INFLUENTIAL
        held = (low <= model.error(power)) & (model.error(power) <= high)
        wary = (noted.sum() + 2) / (runs + 4)  # a share of 0 or 1 is not known to be one
        spread = math.sqrt(wary * (1 - wary))
        return Covered(float(np.mean(held | noted)), float(noted.mean()), spread)

    return cell


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
        tables[f"Several classes, {level:.0%}"] = class_table(level)
    for level in (0.9, 0.95):
        tables[f"Top labels and continuous predictions, {level:.0%}"] = other_table(level)
    for level in (0.9, 0.95):
        tables[f"Weights that depend on the label, {level:.0%}"] = weight_table(level)
    some = {"calibrated": calibrated, "mild": mild, "strong": strong}
    for method in ("percentile", "basic"):
        title = f"Bootstrap, {method}, of the debiased l2 error, 95%"
        tables[title] = binary_table(bootstrap, method, 0.95, some)
    tables["Where they fall short: few events, 90%"] = failing_table(0.9, closed_form)
    tables["Held, or announced that it may not / announced, 90%"] = failing_table(0.9, announced)
    return tables


def runs_of(title: str, row: str, runs: int) -> int:
    """Return how many tables a row gets: fewer where they are large, made from rows or resampled."""
    if title.startswith("Bootstrap"):
        return runs // 10
    if title.startswith("Several classes"):
        return runs // (20 if row.startswith("100 ") else 5)
    return runs // 5 if row.startswith("continuous") else runs


def cell_of(title: str, row: str, column: str) -> str:
    """Simulate one cell: processes that make it have a study of their own."""
    return str(_own_study()[title][row][column](runs_of(title, row, RUNS)))


_own_study = cache(study)


def rendered(title: str, table: Table, run=map) -> str:
    columns = list(next(iter(table.values())))
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    rows = [row for row in table for _ in columns]
    cells = run(partial(cell_of, title), rows, columns * len(table))
    for row in table:
        lines.append(f"| {row} | {' | '.join(next(cells) for _ in columns)} |")
    return "\n".join(lines)


def preface() -> str:
    """Say how many tables stand behind each number and how far chance can move it."""
    error = 100 * math.sqrt(0.09 / RUNS)
    return (
        f"Each cell: coverage / mean width. {RUNS:,} simulated tables a cell, {RUNS // 5:,} for\n"
        f"continuous predictions and several classes, {RUNS // 20:,} for a hundred classes, "
        f"{RUNS // 10:,} for the\nbootstrap ({RESAMPLES} resamples each). At a coverage of 0.9 "
        f"the Monte-Carlo standard error is {error:.1f}\npoints, {error * math.sqrt(5):.1f}, "
        f"{error * math.sqrt(20):.1f} and {error * math.sqrt(10):.1f}; closer to 1 it is smaller."
    )


def parsed(page: str) -> dict[str, dict[str, dict[str, Covered]]]:
    """Read the tables of the page back."""
    return {
        title: {
            row: {column: Covered(*pair) for column, pair in cells.items()}
            for row, cells in rows.items()
        }
        for title, rows in tables_of(page).items()
    }


def main(beginnings: list[str], jobs: int) -> None:
    """Write all tables, or those whose titles begin so and whatever is not on the page yet."""
    head, rest = PAGE.read_text(encoding="utf-8").split(START)
    body, tail = rest.split(END)
    written = {part.split("\n")[0]: f"### {part.strip()}" for part in body.split("### ")[1:]}
    tables = study()
    kept = {
        t for t in tables if beginnings and t in written and not t.startswith(tuple(beginnings))
    }
    titles = [title for title in tables if title not in kept]
    with processes(jobs) as (run, run_tables):
        made = run_tables(lambda title: rendered(title, tables[title], run), titles)
        for title, section in zip(titles, made, strict=True):
            print(title, file=sys.stderr, flush=True)
            written[title] = section
    body = "\n\n".join([preface(), *(written[title] for title in tables)])
    PAGE.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(*tables_and_jobs(__doc__))
