"""Simulate how much of the error of continuous models is proved, for docs/certificates.md.

Run it as ``python tests/statistical/make_refutation_tables.py --jobs 16`` from the root of the
repository. It takes some minutes and replaces what stands between its two markers of the page. Name some models
(``... rare``) to draw only those anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from blocks import processes, tables_and_jobs
from make_certificate_tables import PAGE, Table, parsed
from make_coverage_table import rng_of
from scipy import special

import calibrant as cb
from calibrant.stats.estimators import cells_of
from calibrant.stats.intervals import clopper_pearson, score_interval

START, END = "<!-- lower bounds: start -->", "<!-- lower bounds: end -->"
DELTA = 0.05
GRID = (np.arange(1_000_000) + 0.5) / 1_000_000


@dataclass(frozen=True)
class Model:
    """A continuous model: the quantiles of its predictions, the event rates, rows and runs."""

    quantile: Callable[[np.ndarray], np.ndarray]
    rate: Callable[[np.ndarray], np.ndarray]
    n: int
    runs: int

    def error(self, norm: str) -> float:
        """Return the error of the population."""
        p, power = self.quantile(GRID), {"l1": 1, "l2": 2}[norm]
        return float(np.mean(np.abs(self.rate(p) - p) ** power) ** (1 / power))

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return events and predictions."""
        p = self.quantile(rng.uniform(size=self.n))
        return (rng.uniform(size=self.n) < self.rate(p)).astype(float), p


def uniform(u):
    return u


def rarely(u):
    """Predictions of rare events, 0.032 in the mean."""
    return special.betaincinv(0.42, 12.7, u)


def sloped(slope: float):
    """Return rates whose log-odds are `slope` times those of the predictions."""
    return lambda p: special.expit(slope * special.logit(p))


MODELS = {
    "calibrated": Model(uniform, uniform, 1_000, 200),
    "nearly": Model(uniform, sloped(0.9), 1_000, 200),
    "p^1.2": Model(uniform, lambda p: p**1.2, 20_000, 30),
    "p^2": Model(uniform, lambda p: p**2, 500, 200),
    "slope 0.6": Model(uniform, sloped(0.6), 2_000, 100),
    "wave": Model(uniform, lambda p: np.clip(p + 0.1 * np.sin(30 * p), 0, 1), 20_000, 30),
    "rare": Model(rarely, lambda p: np.minimum(1.406 * p, 1), 40_000, 60),
}


def one_bin(y, p) -> float:
    """Return the least gap between the mean prediction and an exact interval of the event rate."""
    low, high = clopper_pearson(y.sum(), np.array(float(y.size)), DELTA)
    return max(float(low) - p.mean(), p.mean() - float(high), 0.0)


def bounds_of(y, p, norm: str) -> dict[str, float]:
    """Return the lower bounds of all methods."""
    found = {
        f"certificate, {target}": cb.certify(y, p, norm=norm, target=target).lower_bound
        for target in ("population", "sample")
    }
    found["with bets"] = cb.prequential_lower_bound(y, p, norm=norm).value
    found["bets alone"] = cb.prequential_lower_bound(y, p, norm=norm, method="betting").value
    found["one bin, Clopper-Pearson"] = one_bin(y, p)
    if norm == "l2":
        cells = cells_of(cb.tabulate(y, p))
        found["score interval"] = float(score_interval(cells, np.ones(1), 1 - 2 * DELTA)[0])
    return found


def column(name: str, norm: str, runs: int) -> dict[str, np.ndarray]:
    """Return the bounds of all methods in every run, and the error of the rows as "rows"."""
    model, rng = MODELS[name], rng_of("refutation", name, norm, runs)
    power, found = {"l1": 1, "l2": 2}[norm], []
    for _ in range(runs):
        y, p = model.draw(rng)
        gaps = np.abs(model.rate(p) - p)
        rows = float(np.mean(gaps**power) ** (1 / power))
        found.append({"rows": rows} | bounds_of(y, p, norm))
    return {method: np.array([each[method] for each in found]) for method in found[0]}


def tabulated(norm: str, table: Table, chosen: list[str], run=map) -> Table:
    """Return mean bound and share of samples in which it held, for each method and model."""
    names = [name for name in MODELS if not chosen or name in chosen]
    runs = [MODELS[name].runs for name in names]
    for name, bounds in zip(names, run(column, names, repeat(norm), runs), strict=True):
        model = MODELS[name]
        title, truth = f"{name}, n={model.n:,}", model.error(norm)
        table.setdefault("true error", {})[title] = (truth,)
        rows = bounds.pop("rows")
        for method, low in bounds.items():
            given = method.endswith("sample") or method.startswith("one bin")
            held = float(np.mean(low <= (rows if given else truth) + 1e-12))
            table.setdefault(method, {})[title] = (float(low.mean()), held)
        print(norm, name, {method: cells[title] for method, cells in table.items()}, flush=True)
    return table


def shown(cell: tuple[float, ...]) -> str:
    return " / ".join([f"{cell[0]:.4f}", *(f"{held:.2f}" for held in cell[1:])])


def rendered(norm: str, table: Table) -> str:
    columns = list(table["true error"])
    lines = [f"### Lower bound, {norm}", "", f"| | {' | '.join(columns)} |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for method, cells in table.items():
        lines.append(f"| {method} | {' | '.join(shown(cells[c]) for c in columns)} |")
    return "\n".join(lines)


def lower_bounds(page: str) -> dict[str, Table]:
    """Read the tables of the page back, by norm."""
    parts = page.split(START)[1].split(END)[0].split("### ")[1:]
    return {part.split("\n")[0][-2:]: parsed(part) for part in parts}


def main(chosen: list[str], jobs: int) -> None:
    page = PAGE.read_text(encoding="utf-8")
    known = lower_bounds(page) if chosen else {}
    with processes(jobs) as (run, run_tables):
        made = run_tables(
            lambda norm: rendered(norm, tabulated(norm, known.get(norm, {}), chosen, run)),
            ("l2", "l1"),
        )
        body = "\n\n".join(made)
    head, tail = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{head}{START}\n\n{body}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(*tables_and_jobs(__doc__))
