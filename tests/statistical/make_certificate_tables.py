"""Simulate how often certificates hold and how tight they are, for docs/certificates.md.

Run it as ``python tests/statistical/make_certificate_tables.py --jobs 16`` from the root of the
repository. It takes about a quarter of an hour of one core, shared out to processes cell by cell, and
replaces what stands between the two markers of the page. Name some tables (``... "Rows needed"``) to
replace only those. Every cell has a seed of its own: numbers do not depend on the processes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from blocks import processes, tables_and_jobs
from certificate_limit import limit
from make_coverage_table import PAGE as COVERAGE_PAGE
from make_coverage_table import rng_of
from pages import END, START
from peers import (
    bootstrap_bca,
    bootstrap_percentile,
    masses_and_clopper_pearson,
    sun_2024,
)
from simulate import BinnedModel, calibrated, cells_of_counts, estimates, mild, strong
from simulate_certificates import (
    DELTA,
    MODELS,
    SETTINGS,
    certified,
    evidence_of_counts,
    miss_rates,
)

from calibrant import samples_to_certify
from calibrant.stats.intervals import score_interval as score
from calibrant.stats.questions import Setting
from calibrant.stats.tail_bounds import sharp_lower_bound
from calibrant.stats.tail_tuning import Absolute, Squared

PAGE = COVERAGE_PAGE.with_name("certificates.md")
RESAMPLES = 200
COLUMNS = [(300, 10), (1_000, 10), (10_000, 10), (10_000, 100)]

TIGHT_COLUMNS = COLUMNS
RIVALS = {
    "Clopper-Pearson with masses": masses_and_clopper_pearson,
    "Sun et al. 2024": sun_2024,
    "bootstrap, percentile": partial(bootstrap_percentile, resamples=RESAMPLES),
    "bootstrap, BCa": partial(bootstrap_bca, resamples=RESAMPLES),
}
TIGHTNESS = {"calibrated": calibrated, "mild": mild, "strong": strong}

# Coverage


def coverage_cell(model: BinnedModel, n: int, setting: Setting, scale: float, key: tuple):
    """Return the shares of samples in which the upper and in which the lower bound holds."""
    n_counts, n_labels = round(scale * (20 if model.levels.size <= 10 else 6)), 1000
    rng = rng_of("coverage", *key, scale)
    misses = np.zeros(2)
    for size in rng.multinomial(n, model.masses, size=max(n_counts, 3)):
        misses += miss_rates(model, size, setting, n_labels, rng)
    return tuple(1 - misses / max(n_counts, 3))


# Tightness


def tightness_column(model: BinnedModel, n: int, scale: float, key: tuple):
    """Return the bounds of every method on the same samples: a few counts, many labels each."""
    n_counts, n_labels = (8, 120)
    n_counts = max(2, round(scale * n_counts))
    rng = rng_of("tightness", *key, scale)
    size = rng.multinomial(n, model.masses, size=n_counts)
    events = rng.binomial(size[:, None], model.rates, (n_counts, n_labels, size.shape[1]))
    found = {
        f"certificate, {name}": np.concatenate(
            [
                certified(model, *each, make(model.levels.size))
                for each in zip(size, events, strict=True)
            ]
        )
        for name, make in SETTINGS.items()
    }
    every, events = np.repeat(size, n_labels, axis=0), events.reshape(-1, size.shape[1])
    cells = cells_of_counts(every[:, None], events[:, None], model.levels)
    rivals = {name: rival(every, events, model.levels, DELTA) for name, rival in RIVALS.items()}
    return (
        found
        | rivals
        | {
            "score interval": score(cells, model.weights, 1 - 2 * DELTA)[1],
            "debiased estimate": estimates(cells, model.weights, 2.0, debiased=True),
        }
    )


def lower_column(model: BinnedModel, n: int, scale: float, key: tuple):
    """Return lower bounds of the l2 and l1 error."""
    rng = rng_of("lower", *key, scale)
    found: dict[str, list[float]] = {}
    n_samples = 60 if model.levels.size <= 10 else 10
    for size in rng.multinomial(n, model.masses, size=max(4, round(n_samples * scale))):
        evidence = evidence_of_counts(model, size, rng.binomial(size, model.rates))
        for name, error in (("l2", Squared), ("l1", Absolute)):
            bound = sharp_lower_bound(evidence, Setting("population", DELTA), error)
            found.setdefault(name, []).append(bound)
    return {name: np.array(each) for name, each in found.items()}


# The page

Cell = tuple[float, ...]
Table = dict[str, dict[str, Cell]]


Run = Callable[..., Iterator]
"""`map`, or that of a pool of processes."""


def coverage_of(setting: str, name: str, column: tuple[int, int], scale: float) -> Cell:
    n, b = column
    return coverage_cell(MODELS[name](b), n, SETTINGS[setting](b), scale, (name, n, b))


def coverage_table(setting: str, scale: float, run: Run = map) -> Table:
    places = [(name, column) for name in MODELS for column in COLUMNS]
    cells = run(partial(coverage_of, setting, scale=scale), *zip(*places, strict=True))
    table: Table = {}
    for (name, (n, b)), cell in zip(places, cells, strict=True):
        table.setdefault(name, {})[f"n={n:,} B={b}"] = cell
    return table


def tightness_of(name: str, column: tuple[int, int], scale: float) -> dict[str, Cell]:
    n, b = column
    model = TIGHTNESS[name](b)
    cells: dict[str, Cell] = {
        method: (float(np.mean(bound)), float(np.mean(bound >= model.error(2.0))))
        for method, bound in tightness_column(model, n, scale, (name, n, b)).items()
    }
    if name == "calibrated":
        for target in ("population", "sample"):
            cells[f"no valid method can fall below, {target}"] = (limit(n, b, target),)
    return cells


def tightness_table(name: str, scale: float, run: Run = map) -> Table:
    return by_columns(TIGHT_COLUMNS, run(partial(tightness_of, name, scale=scale), TIGHT_COLUMNS))


def lower_of(column: tuple[int, int], scale: float) -> dict[str, Cell]:
    n, b = column
    cells: dict[str, Cell] = {}
    for name, bound in lower_column(strong(b), n, scale, (n, b)).items():
        truth = strong(b).error(2.0 if name == "l2" else 1.0)
        cells[name] = (float(bound.mean()), float(np.mean(bound <= truth)))
        cells[f"the {name} error itself"] = (truth,)
    return cells


def lower_table(scale: float, run: Run = map) -> Table:
    return by_columns(COLUMNS, run(partial(lower_of, scale=scale), COLUMNS))


def by_columns(columns: list[tuple[int, int]], found: Iterator[dict[str, Cell]]) -> Table:
    table: Table = {}
    for (n, b), cells in zip(columns, found, strict=True):
        for row, cell in cells.items():
            table.setdefault(row, {})[f"n={n:,} B={b}"] = cell
    return table


def rows_table(scale: float, run: Run = map) -> Table:
    return {
        f"{error:g}": {f"{b} bins": (samples_to_certify(error, b),) for b in (5, 10, 20)}
        for error in (0.1, 0.05, 0.02, 0.01)
    }


def study() -> dict[str, Callable[..., Table]]:
    """Return every table of the page, not yet computed: call it with 1 for the page's runs."""
    tables: dict[str, Callable[..., Table]] = {
        f"Coverage, {name}": partial(coverage_table, name) for name in SETTINGS
    }
    tables |= {f"Mean bound, {name}": partial(tightness_table, name) for name in TIGHTNESS}
    return tables | {"Mean lower bound, strong": lower_table, "Rows needed": rows_table}


def shown(cell: Cell) -> str:
    whole = len(cell) == 1 and cell[0] >= 1
    return f"{cell[0]:,.0f}" if whole else " / ".join(f"{value:.4f}" for value in cell)


def rendered(title: str, table: Table) -> str:
    columns = list(next(iter(table.values())))
    lines = [f"### {title}", "", f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row, cells in table.items():
        lines.append(f"| {row} | {' | '.join(shown(cells[c]) for c in columns)} |")
    return "\n".join(lines)


def sections(page: str) -> dict[str, str]:
    """Return the tables of the page by title, as they are written."""
    body = page.split(START)[1].split(END)[0]
    parts = (part.strip() for part in body.split("### ")[1:])
    return {part.split("\n")[0]: f"### {part}" for part in parts}


def parsed(section: str) -> Table:
    """Read one table back."""
    head, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    columns = [part.strip() for part in head.strip("|").split("|")[1:]]
    table: Table = {}
    for line in rows:
        row, *cells = (part.strip() for part in line.strip("|").split("|"))
        values = (tuple(float(x.replace(",", "")) for x in cell.split(" / ")) for cell in cells)
        table[row] = dict(zip(columns, values, strict=True))
    return table


def main(chosen: list[str], jobs: int) -> None:
    titles = [title for title in study() if not chosen or title in chosen]
    with processes(jobs) as (run, run_tables):
        made = run_tables(lambda title: study()[title](1.0, run), titles)
        for title, table in zip(titles, made, strict=True):
            print(title, file=sys.stderr, flush=True)
            page = PAGE.read_text(encoding="utf-8")
            head, tail = page.split(START)[0], page.split(END)[1]
            known = sections(page) | {title: rendered(title, table)}
            body = "\n\n".join(known[each] for each in study() if each in known)
            PAGE.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(*tables_and_jobs(__doc__))
