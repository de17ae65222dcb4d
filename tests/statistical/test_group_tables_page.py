"""What docs/groups.md says of audits and clusters is what was simulated, and what is promised."""

from __future__ import annotations

import make_by_group_table
import make_cluster_certificates
import make_cluster_table
import make_group_tables
import numpy as np
import pytest
from pages import tables_of

PAGE = make_group_tables.PAGE.read_text(encoding="utf-8")


def test_audits_raise_no_more_false_alarms_than_they_promise():
    alarms = tables_of(PAGE)["False alarms"]
    assert list(alarms) == list(make_group_tables.ROWS)
    for row in make_group_tables.ROWS[2:]:
        assert all(share <= 0.05 for _, share in alarms[row].values())
    assert all(share > 0.7 for _, share in alarms[make_group_tables.ROWS[0]].values())


def test_wrong_groups_are_found():
    assert tables_of(PAGE)["Wrong groups found"]["Holm's p below 5%"] == {
        "5 of 100 wrong, 1,000 rows each": [1.0]
    }


def cluster_rows():
    part = PAGE.split(make_cluster_table.START)[1].split(make_cluster_table.END)[0]
    table = [line for line in part.splitlines() if line.startswith("|")][2:]
    lines = [line.strip("|").split("|") for line in table]
    return [[cell.strip() for cell in line] for line in lines]


def test_intervals_of_clusters_cover():
    rows = cluster_rows()
    assert len(rows) == 1 + 3 * len(make_cluster_table.CORRELATIONS)
    for *_, calibrated, off, rejected in rows:
        for cell in (calibrated, off):
            assert float(cell.split(" / ")[1]) >= 0.95 - 3.5 * (0.05 * 0.95 / 400) ** 0.5
        assert float(rejected) <= 0.05 + 3.5 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("power", make_cluster_table.POWERS.values())
@pytest.mark.parametrize(("size", "correlation"), [(1, 0.0), (5, 0.3), (50, 0.9)])
def test_certificates_of_clusters_are_seldom_wrong(size, correlation, power):
    found = make_cluster_certificates.shares(size, correlation, power, 40, seed=1)
    # 0.05 of 40 are 2; more than 7 has a probability below 0.002
    assert max(found[[0, 1, 4, 5]]) <= 7 / 40


@pytest.mark.slow
@pytest.mark.parametrize(("size", "correlation"), [(5, 0.6), (50, 0.9)])
def test_the_page_reports_what_a_fresh_simulation_gives(size, correlation):
    row = next(x for x in cluster_rows() if x[:2] == [str(size), f"{correlation:g}"])
    said = [float(x) for x in row[2].split(" / ")]
    found = make_cluster_table.shares(size, correlation, 1.0, 100, seed=1)
    assert found[:2] == pytest.approx(said, abs=0.12)


def by_group_rows():
    part = PAGE.split(make_by_group_table.START)[1].split(make_by_group_table.END)[0]
    lines = [line.strip("|").split("|") for line in part.strip().splitlines()[2:]]
    return {name.strip(): [float(cell) for cell in cells[:4]] for name, *cells in lines}


def test_repair_by_group_is_no_worse_than_the_others():
    rows = by_group_rows()
    assert list(rows) == list(make_by_group_table.STUDY)
    for pooled, alone, peer, ours in rows.values():
        assert ours <= min(pooled, 1.1 * alone) + 0.1
        assert ours <= 1.02 * peer + 0.05


@pytest.mark.slow
def test_repair_by_group_finds_shifts_and_slopes():
    for name in ("10 shifted, 1,000 rows", "10 of other slopes, 1,000 rows"):
        found = make_by_group_table.losses(make_by_group_table.STUDY[name], 3, seed=1)
        ours, pooled = (found[row].mean() for row in make_by_group_table.ROWS[::-3])
        assert ours < 0.3 * pooled


def test_worlds_that_nothing_was_tuned_on_can_be_drawn():
    for world in make_by_group_table.FRESH_STUDY.values():
        rng = np.random.default_rng(0)
        p, y, group, q = world.draw(rng, world.truth(rng), 2_000)
        assert set(y) == {0, 1}
        assert group.max() < world.n_groups
        assert abs(y.mean() - q.mean()) < 0.05
        assert ((p > 0) & (p < 1)).all()
