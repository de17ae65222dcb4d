"""Simulate false alarms and delays of monitors, for docs/monitoring.md.

Run it as ``python tests/statistical/make_monitor_tables.py`` from the root of the repository. It
takes about an hour and replaces what stands between the two markers of the page. Without the
package probcal, version 0.4, its rows stay as they are.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from pages import END, START, tables_of
from scipy import special

import calibrant as cb
from calibrant.stats.monitor_records import MonitorState
from calibrant.stats.monitoring import (
    REFERENCE_SHARE,
    Batch,
    Reference,
    Tolerance,
    alternative_weights,
    learned_gaps,
    log_e_values,
    remembered,
)

PAGE = Path(__file__).parents[2] / "docs" / "monitoring.md"
ROWS, YEAR, CHANGE = 1000, 365, 30
"""Rows a day, looks, and the days before a drift begins."""
RUNS = {"years": 200, "delays": 40, "theirs": 10, "theirs, other shapes": 6}
DRIFTS = (0.02, 0.05, 0.1)
SPREAD, RARE = (2, 3), (1, 12)
"""Parameters of beta distributions of the predictions."""
GRID = (np.arange(200_000) + 0.5) / 200_000

Rate = Callable[[np.ndarray], np.ndarray]
SHAPES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "shift": lambda p, size: special.expit(special.logit(p) + size),
    "slope": lambda p, size: special.expit(special.logit(p) * np.exp(-size)),
    "one bin": lambda p, size: np.where((p > 0.4) & (p <= 0.5), p + size, p),
}


def drifted(shape: str, error: float, spread: tuple[int, int] = SPREAD) -> Rate:
    """Return event rates that differ from predictions by this l2 error, in this shape."""
    p = special.betaincinv(*spread, GRID)
    low, high = 0.0, 3.0 if shape != "one bin" else 0.5
    for _ in range(40):
        middle = (low + high) / 2
        off = np.sqrt(np.mean((SHAPES[shape](p, middle) - p) ** 2))
        low, high = (middle, high) if off < error else (low, middle)
    return lambda p: SHAPES[shape](p, low)


def calibrated(p: np.ndarray) -> np.ndarray:
    return p


def crooked(p: np.ndarray) -> np.ndarray:
    """Rates of the model that the reference was counted of: an error of 0.06."""
    return 0.2 + 0.6 * p


def days(rng: np.random.Generator, rate: Rate, spread: tuple[int, int]) -> Iterator[tuple]:
    """Yield the events and predictions of one day after another."""
    while True:
        p = rng.beta(*spread, size=ROWS)
        yield (rng.uniform(size=ROWS) < rate(p)).astype(float), p


class Ours:
    """What CalibrationMonitor does, less its records; a test compares their evidence."""

    def __init__(self, max_error: float = 0.0, reference: cb.BinTable | None = None) -> None:
        self.max_error, self.state = max_error, None
        self.reference, self.bins = None, None
        delta = 0.05
        if reference is not None:
            self.reference, self.bins = Reference(Batch.of(reference), delta), reference.bins[0]
            delta *= 1 - REFERENCE_SHARE
        self.aim, self.is_on_alarm = -np.log(delta), False

    @classmethod
    def with_reference(cls, rng: np.random.Generator, n: int) -> Ours:
        p = rng.beta(*SPREAD, size=n)
        return cls(reference=cb.tabulate(rng.uniform(size=n) < crooked(p), p, bins=10))

    def look(self, y: np.ndarray, p: np.ndarray) -> bool:
        if self.bins is None:
            self.bins = cb.tabulate(y, p, bins=10).bins[0]
        place, n_bins = self.bins.index(p), len(self.bins)
        sums = (np.bincount(place, x, n_bins) for x in (np.ones(p.size), y, p))
        batch, state = Batch(*sums), self.state or MonitorState.new(n_bins)
        hypothesis = self.reference or Tolerance(self.max_error, state.past)
        process = state.process.after(log_e_values(batch, hypothesis, learned_gaps(state.recent)))
        recent = remembered(state.recent, batch, hypothesis.centre(batch))
        self.state = MonitorState(process, state.past + batch, recent)
        self.log_evidence = process.log_total(alternative_weights(n_bins))
        self.is_on_alarm |= self.log_evidence >= self.aim
        return self.is_on_alarm


class Repeated:
    """The chi-square test of all rows so far or of the day, in bins of equal mass, at a level."""

    def __init__(self, level: float, is_cumulative: bool) -> None:
        self.level, self.is_cumulative = level, is_cumulative
        self.sums = np.zeros((3, 10))

    def look(self, y: np.ndarray, p: np.ndarray) -> bool:
        spread = SPREAD if p.mean() > 0.2 else RARE
        place = np.minimum((10 * special.betainc(*spread, p)).astype(int), 9)
        new = np.array([np.bincount(place, x, 10) for x in (y, p, p * (1 - p))])
        self.sums = self.sums * self.is_cumulative + new
        events, said, variance = self.sums[:, self.sums[2] > 0]
        return special.chdtrc(events.size, np.sum((events - said) ** 2 / variance)) < self.level


class LogOdds:
    """The monitor of probcal 0.4 that tests a shift of all log-odds; it refits to a month."""

    def __init__(self) -> None:
        from probcal.monitor import CalibrationMonitor

        self.monitor = CalibrationMonitor(components=("offset",), plug_in_window=30)

    def look(self, y: np.ndarray, p: np.ndarray) -> bool:
        return self.monitor.update(y, p).alarm


MONITORS: dict[str, Callable[[np.random.Generator], Ours | Repeated | LogOdds]] = {
    "CalibrationMonitor(max_error=0)": lambda rng: Ours(),
    "CalibrationMonitor(max_error=0.01)": lambda rng: Ours(0.01),
    "CalibrationMonitor(reference=), 50,000 rows": lambda rng: Ours.with_reference(rng, 50_000),
    "test of the day, every day": lambda rng: Repeated(0.05, False),
    "test of all rows so far, every day": lambda rng: Repeated(0.05, True),
    "test of the day, Bonferroni": lambda rng: Repeated(0.05 / YEAR, False),
    "probcal 0.4, shift of log-odds": lambda rng: LogOdds(),
}
THEIRS = "probcal 0.4, shift of log-odds"


def base_of(name: str) -> Rate:
    return crooked if "reference" in name else calibrated


def years_with_alarm(name: str, rate: Rate, spread: tuple[int, int], runs: int) -> float:
    """Return the share of years in which there was any alarm, though nothing was wrong."""
    alarms = 0
    for run in range(runs):
        rng = np.random.default_rng((1, run))
        monitor, stream = MONITORS[name](rng), days(rng, rate, spread)
        alarms += any(monitor.look(*next(stream)) for _ in range(YEAR))
    return alarms / runs


def mean_delay(name: str, shape: str, error: float, before: int, runs: int) -> float:
    """Return the mean number of days from the first of the drift to an alarm, a year at most."""
    base, drift, delays = base_of(name), drifted(shape, error), []
    for run in range(runs):
        rng = np.random.default_rng((2, run))
        monitor, delay = MONITORS[name](rng), 0
        stream = days(rng, base, SPREAD)
        early = [monitor.look(*next(stream)) for _ in range(before)]
        if any(early) and isinstance(monitor, Ours | LogOdds):
            continue  # these stay on alarm; a false one is no detection
        stream = days(rng, lambda p: np.clip(base(p) + drift(p) - p, 0, 1), SPREAD)
        alarm = False
        while not alarm and delay < YEAR:
            alarm, delay = monitor.look(*next(stream)), delay + 1
        delays.append(delay)
    return float(np.mean(delays))


def study() -> dict[str, dict[str, dict[str, Callable[[int], float]]]]:
    """Return for each cell of each table what simulates it in so many runs."""
    at_limit = drifted("shift", 0.01)
    calm = {
        "calibrated": (calibrated, SPREAD),
        "calibrated, rare events": (calibrated, RARE),
        "error of 0.01": (at_limit, SPREAD),
    }
    holds = {
        name: [column for column in calm if column != "error of 0.01" or "0.01" in name]
        for name in MONITORS
        if name != THEIRS and "reference" not in name
    }
    alarms = {
        name: {
            column: lambda runs, name=name, column=column: years_with_alarm(
                name, *calm[column], runs
            )
            for column in columns
        }
        for name, columns in holds.items()
    }
    own = "CalibrationMonitor(reference=), 50,000 rows"
    alarms[own] = {"as the reference": lambda runs: years_with_alarm(own, crooked, SPREAD, runs)}

    def delays(before: int, shapes: tuple[str, ...]) -> dict:
        return {
            name: {
                f"{shape} {error}": lambda runs, case=(name, shape, error, before): mean_delay(
                    *case, runs
                )
                for shape in shapes
                for error in DRIFTS
            }
            for name in MONITORS
        }

    return {
        "Years with a false alarm": alarms,
        "Days to an alarm, drift from day 31 on": delays(CHANGE, ("shift", "slope", "one bin")),
        "Days to an alarm, drift from the first day on": delays(0, ("shift",)),
    }


def runs_of(title: str, name: str, column: str) -> int:
    """Return how often a cell is simulated; probcal takes minutes for a year without an alarm."""
    if "Years" in title:
        return RUNS["years"]
    if name != THEIRS:
        return RUNS["delays"]
    return RUNS["theirs" if column.startswith("shift") else "theirs, other shapes"]


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    old, lines = tables_of(page), []
    is_there = importlib.util.find_spec("probcal") is not None
    for title, table in study().items():
        columns = list(dict.fromkeys(column for row in table.values() for column in row))
        lines += [
            f"### {title}",
            "",
            f"| | {' | '.join(columns)} |",
            "|---" * (len(columns) + 1) + "|",
        ]
        for name, row in table.items():
            cells = []
            for column in columns:
                if column not in row:
                    cells.append("")
                elif name == THEIRS and not is_there:
                    cells.append(f"{old[title][name][column][0]:g}")
                else:
                    cells.append(f"{row[column](runs_of(title, name, column)):.3g}")
            print(title, name, cells, flush=True)
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{START}\n{chr(10).join(lines)}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
