"""Simulate audits of a hundred groups, for docs/groups.md.

Run it as ``python tests/statistical/make_group_tables.py`` from the root of the repository. It
takes some minutes and replaces what stands between the two markers of the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pages import END, START
from scipy import special

import calibrant as cb
from calibrant.stats.certificates import verified_bounds
from calibrant.stats.group_tests import holm, log_e_values
from calibrant.stats.questions import Question

PAGE = Path(__file__).parents[2] / "docs" / "groups.md"
N_GROUPS, LIMIT, LEVEL = 100, 0.05, 0.05
RUNS = 200
ROWS = ("estimate above 0.05", "test of each group at 5%", "Holm's p below 5%", "refuted at 0.05")


@dataclass(frozen=True)
class Groups:
    """A hundred groups of about n rows each, of which some are wrong."""

    n: int
    n_wrong: int = 0
    rate: Callable[[np.ndarray], np.ndarray] = lambda p: p**1.5

    def draw(self, rng: np.random.Generator) -> cb.Tables:
        """Return the tables of one draw, in ten bins."""
        size = N_GROUPS * self.n
        group, p = rng.integers(N_GROUPS, size=size), rng.uniform(size=size)
        happened = np.where(group < self.n_wrong, self.rate(p), p)
        return cb.tabulate(rng.uniform(size=size) < happened, p, by=group, bins="width:10")


def flagged(tables: cb.Tables) -> dict[str, np.ndarray]:
    """Return which groups each way of looking at them finds fault with."""
    plug_in = cb.calibration_error(tables, norm="l1", debias=False).estimates
    log_e = log_e_values(tables)
    size, events, said, square = (
        getattr(tables, x)[:, 0] for x in ("count", "sum_y", "sum_p", "sum_pp")
    )
    chi_square = ((events - said) ** 2 / np.maximum(said - square, 1e-12)).sum(axis=1)
    pvalue = special.chdtrc((size > 0).sum(axis=1), chi_square)
    share = LEVEL / len(tables)
    refuted = []
    for table in tables.values():
        question = Question.of(table, max_error=LIMIT, confidence_level=1 - share)
        refuted.append(verified_bounds(table, question)[2] == "refuted")
    return {
        ROWS[0]: plug_in > LIMIT,
        ROWS[1]: pvalue <= LEVEL,
        ROWS[2]: holm(np.exp(np.minimum(-log_e, 0))) <= LEVEL,
        ROWS[3]: np.array(refuted),
    }


def shares(groups: Groups, runs: int, seed: int) -> dict[str, tuple[float, float, float]]:
    """Return of each way the mean number of false alarms, the share of runs with any, and of
    wrong groups the share that is found."""
    rng, found = np.random.default_rng([groups.n, groups.n_wrong, seed]), {x: [] for x in ROWS}
    for _ in range(runs):
        for name, flags in flagged(groups.draw(rng)).items():
            false, true = flags[groups.n_wrong :], flags[: groups.n_wrong]
            found[name].append((false.sum(), false.any(), true.mean() if true.size else 0.0))
    return {name: tuple(np.mean(lines, axis=0)) for name, lines in found.items()}


STUDY = {
    "calibrated, 300 rows each": Groups(300),
    "calibrated, 1,000 rows each": Groups(1_000),
    "5 of 100 wrong, 1,000 rows each": Groups(1_000, 5),
}


def main() -> None:
    """Simulate, and write the page."""
    lines = [
        "",
        "### False alarms",
        "",
        f"| | {' | '.join(STUDY)} |",
        "|---|" + "---|" * len(STUDY),
    ]
    results = {title: shares(groups, RUNS, 1) for title, groups in STUDY.items()}
    for row in ROWS:
        cells = [f"{r[row][0]:.2f} / {r[row][1]:.3f}" for r in results.values()]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    wrong = {title: r for title, r in results.items() if STUDY[title].n_wrong}
    lines += ["", "### Wrong groups found", "", f"| | {' | '.join(wrong)} |", "|---|---|"]
    lines += [
        f"| {row} | {' | '.join(f'{r[row][2]:.2f}' for r in wrong.values())} |" for row in ROWS
    ]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    text = "\n".join(lines)
    PAGE.write_text(f"{before}{START}{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
