"""Compare ways to repair by group, for docs/groups.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_by_group_table.py tuned fresh --jobs 16``
from the root of the repository, with probcal 0.4.0 where Python finds it. It replaces what stands
between the markers of the tables that are named, both if none is.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

import calibrant as cb

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
START, END = "<!-- by group: start -->", "<!-- by group: end -->"
FRESH_START, FRESH_END = "<!-- by group, fresh: start -->", "<!-- by group, fresh: end -->"
RUNS = {"tuned": 6, "fresh": 40}
FRESH = 40_000
"""Rows that answers are compared on."""
OURS, PEER = "`ByGroup`", "probcal's segmented"
ROWS = ("one repair for all", "each group alone", PEER, OURS)


@dataclass(frozen=True)
class World:
    """Groups whose true log-odds are ``(1 + b_g) z + a_g``, with z the log-odds that are said.

    Their sizes are even, or fall as 1 / rank. `shift` and `slope` are the standard deviations of
    a_g and b_g; with `odd` only that share of groups differs from the others, and by so much.
    """

    n_groups: int
    rows: int
    shift: float = 0.0
    slope: float = 0.0
    odd: float = 1.0
    uneven: bool = False

    def truth(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the shift, the slope and the share of rows of each group."""
        differs = np.arange(self.n_groups) < np.ceil(self.odd * self.n_groups)
        shift = differs * rng.normal(scale=self.shift, size=self.n_groups)
        slope = 0.8 + differs * rng.normal(scale=self.slope, size=self.n_groups)
        share = 1 / np.arange(1, self.n_groups + 1) if self.uneven else np.ones(self.n_groups)
        return shift, slope, share / share.sum()

    def draw(self, rng, truth, n) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return what was said, what happened, the group, and what was true."""
        shift, slope, share = truth
        group = rng.choice(self.n_groups, p=share, size=n)
        z = rng.normal(-1.0, 1.5, size=n)
        q = 1 / (1 + np.exp(-(slope[group] * z + shift[group] - 0.2)))
        return 1 / (1 + np.exp(-z)), (rng.uniform(size=n) < q).astype(int), group, q


STUDY = {
    "10 alike, 1,000 rows": World(10, 1000),
    "200 alike, 50 rows": World(200, 50),
    "10 shifted, 1,000 rows": World(10, 1000, shift=0.5),
    "50 shifted, 100 rows": World(50, 100, shift=0.5),
    "500 shifted, 20 rows": World(500, 20, shift=0.5),
    "10 of other slopes, 1,000 rows": World(10, 1000, shift=0.3, slope=0.3),
    "50 of other slopes, 400 rows, uneven": World(50, 400, shift=0.3, slope=0.3, uneven=True),
    "2 of 40 odd, 200 rows": World(40, 200, shift=1.5, slope=0.5, odd=0.05),
}


@dataclass(frozen=True)
class FreshWorld:
    """Groups of kinds that nothing was tuned on.

    True log-odds are ``(1 + b_g) f(z) + a_g``. The map f of all groups has a slope and an intercept
    that every run draws anew; a_g and b_g have the standard deviations `shift` and `slope`, and tails
    of a t-distribution with `tails` degrees of freedom. With `bend`, what happens has probability
    ``p ** exp(c_g)``, which is neither a shift nor a slope. Groups differ in the predictions they
    get, too. `rate` is about the share of events. Sizes are even, or Pareto's with index `pareto`,
    as customers, sites and words have. With `odd` only so many groups differ. With `by_size` the
    effects of small groups are larger: the model was made for the large ones.
    """

    n_groups: int
    rows: int
    rate: float = 0.3
    shift: float = 0.0
    slope: float = 0.0
    bend: float = 0.0
    tails: float = np.inf
    odd: int | None = None
    pareto: float = np.inf
    by_size: bool = False

    def truth(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Return shift, slope, bend, mean score and share of each group, and the map of all."""
        n = self.n_groups
        share = rng.pareto(self.pareto, n) + 1 if np.isfinite(self.pareto) else np.ones(n)
        differs = np.ones(n) if self.odd is None else (np.arange(n) < self.odd).astype(float)
        if self.by_size:
            differs = np.sqrt(np.median(share) / share)
        draws = rng.standard_normal((3, n))
        if np.isfinite(self.tails):
            draws = draws / np.sqrt(rng.chisquare(self.tails, (3, n)) / self.tails)
        shift, slope, bend = differs * draws * np.array([[self.shift], [self.slope], [self.bend]])
        centre = special.logit(self.rate) + rng.normal(scale=0.5, size=n)
        return shift, slope, bend, centre, share / share.sum(), rng.normal((1, 0), (0.2, 0.3))

    def draw(self, rng, truth, n) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return what was said, what happened, the group, and what was true."""
        shift, slope, bend, centre, share, (steep, up) = truth
        group = rng.choice(self.n_groups, p=share, size=n)
        z = centre[group] + 1.2 * rng.standard_normal(n)
        q = special.expit((1 + slope[group]) * (steep * z + up) + shift[group])
        q = np.clip(q ** np.exp(bend[group]), 1e-9, 1 - 1e-9)
        return special.expit(z), (rng.uniform(size=n) < q).astype(int), group, q


FRESH_STUDY = {
    "3 alike, 400 rows": FreshWorld(3, 400),
    "30 alike, 2,000 rows, 1% events": FreshWorld(30, 2000, rate=0.01),
    "1,000 alike, 12 rows, heavy-tailed sizes": FreshWorld(1000, 12, rate=0.1, pareto=1.2),
    "15 shifted, 20 rows": FreshWorld(15, 20, rate=0.5, shift=0.7),
    "4 shifted a little, 5,000 rows": FreshWorld(4, 5000, shift=0.15),
    "80 shifted far, 150 rows, heavy-tailed sizes": FreshWorld(80, 150, shift=1.0, pareto=1.2),
    "300 shifted, 300 rows, 2% events, heavy-tailed sizes": FreshWorld(
        300, 300, rate=0.02, shift=0.4, pareto=1.5
    ),
    "25 shifted, 300 rows, heavy-tailed shifts": FreshWorld(25, 300, shift=0.4, tails=2.5),
    "60 shifted, small ones more, 200 rows, heavy-tailed sizes": FreshWorld(
        60, 200, shift=0.4, pareto=1.5, by_size=True
    ),
    "20 of other slopes only, 500 rows": FreshWorld(20, 500, rate=0.15, slope=0.3),
    "150 of other slopes only, 200 rows, heavy-tailed sizes": FreshWorld(
        150, 200, rate=0.5, slope=0.4, pareto=1.2
    ),
    "6 of other shifts and slopes, 300 rows": FreshWorld(6, 300, shift=0.5, slope=0.3),
    "100 of other shifts and slopes, 1,000 rows, 5% events, heavy-tailed sizes": FreshWorld(
        100, 1000, rate=0.05, shift=0.4, slope=0.2, pareto=1.5
    ),
    "30 bent, 600 rows": FreshWorld(30, 600, rate=0.4, bend=0.4),
    "1 of 12 odd, 800 rows": FreshWorld(12, 800, rate=0.2, shift=2.0, odd=1),
    "1 of 300 odd, 60 rows": FreshWorld(300, 60, rate=0.2, shift=2.0, slope=0.5, odd=1),
}


def excess(truth, answers) -> float:
    """Return the mean Kullback-Leibler divergence: the log loss beyond that of the truth."""
    q, p = truth, np.clip(answers, 1e-12, 1 - 1e-12)
    return float((q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))).mean())


def answers_of(fitting, fresh) -> dict[str, np.ndarray]:
    """Return what each way of repair answers for fresh rows."""
    (p, y, group, _), (new, _, new_group, _) = fitting, fresh
    beta = cb.BetaScaling()
    out = {
        ROWS[0]: beta.fit(p, y).predict_proba(new),
        ROWS[1]: cb.ByGroup(beta, pool=0, own="map").fit(p, y, by=group),
        OURS: cb.ByGroup(beta).fit(p, y, by=group),
    }
    for name in (ROWS[1], OURS):
        out[name] = out[name].predict_proba(new, by=new_group)
    try:
        from probcal import SegmentedCalibrator
    except ImportError:
        return out
    peer = SegmentedCalibrator().fit(p, y, segments=group)  # of its own beta calibration
    return out | {PEER: peer.predict_proba(new, segments=new_group)}


def losses_of_run(world: World | FreshWorld, seed: tuple[int, ...]) -> dict[str, float]:
    """Return the excess of each way in one run."""
    rng = np.random.default_rng(seed)
    truth = world.truth(rng)
    fitting = world.draw(rng, truth, world.n_groups * world.rows)
    fresh = world.draw(rng, truth, FRESH)
    return {name: excess(fresh[3], out) for name, out in answers_of(fitting, fresh).items()}


def losses(world: World | FreshWorld, runs: int, seed: int, pool=None) -> dict[str, np.ndarray]:
    """Return the excess of each way in each run."""
    seeds = [(world.n_groups, world.rows, seed, run) for run in range(runs)]
    found = list((pool.map if pool else map)(losses_of_run, [world] * runs, seeds))
    return {name: np.array([each[name] for each in found]) for name in found[0]}


def table(study: dict[str, World | FreshWorld], runs: int, seed: int, pool=None) -> str:
    """Return the table as Markdown: the mean excess in thousandths.

    The last column is the mean difference of runs, ours less the peer's, and its standard error.
    """
    columns = ("groups, rows in each", *ROWS, "difference from probcal's")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name, world in study.items():
        found = losses(world, runs, seed, pool)
        off = 1000 * (found[OURS] - found[PEER])
        cells = [f"{1000 * found[row].mean():.2f}" for row in ROWS]
        cells.append(f"{off.mean():+.3f} ± {off.std(ddof=1) / runs**0.5:.3f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


TABLES = {
    "tuned": (STUDY, 0, START, END),
    "fresh": (FRESH_STUDY, 2026, FRESH_START, FRESH_END),
}


def main() -> None:
    """Simulate what was asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=list(TABLES))
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        for name in options.tables or TABLES:
            study, seed, start, end = TABLES[name]
            lines = table(study, RUNS[name], seed, pool)
            page = PAGE.read_text(encoding="utf-8")
            head, tail = page.split(start)[0], page.split(end)[1]
            PAGE.write_text(f"{head}{start}\n{lines}\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
