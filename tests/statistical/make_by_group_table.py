"""Compare ways to repair by group, for docs/groups.md.

Run it as ``python tests/statistical/make_by_group_table.py`` from the root of the repository, with
probcal 0.4.0 installed. It takes some minutes and replaces what stands between the two markers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import calibrant as cb

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
START, END = "<!-- by group: start -->", "<!-- by group: end -->"
RUNS, FRESH = 6, 40_000
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


def losses(world: World, runs: int, seed: int) -> dict[str, np.ndarray]:
    """Return the excess of each way in each run."""
    rng, found = np.random.default_rng([world.n_groups, world.rows, seed]), []
    for _ in range(runs):
        truth = world.truth(rng)
        fitting = world.draw(rng, truth, world.n_groups * world.rows)
        fresh = world.draw(rng, truth, FRESH)
        answers = answers_of(fitting, fresh)
        found.append({name: excess(fresh[3], out) for name, out in answers.items()})
    return {name: np.array([each[name] for each in found]) for name in found[0]}


def table() -> str:
    """Return the table as Markdown: the mean excess in thousandths."""
    lines = ["| groups, rows in each | " + " | ".join(ROWS) + " |", "|---" * 5 + "|"]
    for name, world in STUDY.items():
        found = losses(world, RUNS, seed=0)
        cells = " | ".join(f"{1000 * found[row].mean():.2f}" for row in ROWS)
        off = found[OURS] - found[PEER]
        print(name, cells, f"{1000 * off.mean():+.3f} s.e. {1000 * off.std() / RUNS**0.5:.3f}")
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    head, tail = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{head}{START}\n{table()}\n{END}{tail}", encoding="utf-8")
