"""Tables of groups: a mapping, a sum of parts, a document."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

from calibrant import BinTable, Tables, tabulate
from calibrant.exceptions import IncompatibleTablesError, InvalidDocumentError

RNG = np.random.default_rng(0)
N = 600
P = np.round(RNG.uniform(size=N), 2)
Y = (RNG.uniform(size=N) < P).astype(int)
SITE = RNG.choice(["east", "north", "west"], size=N)
AGE = np.where(RNG.uniform(size=N) < 0.1, np.nan, RNG.uniform(0, 100, size=N))


def part(rows, **options):
    """Return the tables of some rows."""
    by = {"site": SITE[rows], "age": (AGE[rows], [0, 50, np.inf])}
    return tabulate(Y[rows], P[rows], by=by, bins="width:5", **options)


ALL = part(slice(None))
OWN = tabulate(Y, P, by=SITE, bins=4, shared_bins=False)
WEIGHTED = part(slice(None), sample_weight=RNG.exponential(size=N))
MARGINAL = tabulate(
    RNG.integers(3, size=N), RNG.dirichlet(np.ones(3), size=N), kind="marginal", by=SITE
)
EACH = {"cut": ALL, "own bins": OWN, "weighted": WEIGHTED, "marginal": MARGINAL}


def test_keys_are_labels_and_of_several_columns_tuples():
    assert list(OWN) == ["east", "north", "west"]
    assert list(ALL)[:3] == [("east", "[0, 50]"), ("east", "(50, inf]"), ("east", None)]
    assert isinstance(OWN["west"], BinTable)
    assert OWN["west"].n == (SITE == "west").sum()
    with pytest.raises(KeyError, match="'south' is not a group by group"):
        OWN["south"]
    assert "south" not in OWN


def test_groups_add_up_to_the_table_of_all_rows():
    whole = tabulate(Y, P, bins="width:5")
    pooled = ALL.pooled()
    np.testing.assert_array_equal(pooled.count, whole.count)
    np.testing.assert_array_equal(pooled.level, whole.level)
    np.testing.assert_allclose(pooled.sum_pp, whole.sum_pp, rtol=1e-14)
    with pytest.raises(IncompatibleTablesError, match="shared_bins=True"):
        OWN.pooled()


def test_parts_with_different_groups_add_up_to_the_whole():
    order = np.argsort(SITE, kind="stable")
    added = sum(part(order[i : i + 50]) for i in range(0, N, 50))
    assert added.labels == ALL.labels
    np.testing.assert_array_equal(added.count, ALL.count)
    np.testing.assert_array_equal(added.level, ALL.level)
    np.testing.assert_allclose(added.sum_py, ALL.sum_py, rtol=1e-13)


def test_groups_with_bins_of_their_own_are_added_one_by_one():
    twice = OWN + OWN
    assert twice["east"] == OWN["east"] + OWN["east"]
    other = tabulate(Y[:300], P[:300], by=SITE[:300], bins=4, shared_bins=False)
    with pytest.raises(IncompatibleTablesError, match="same bins"):
        OWN + other


def test_tables_of_other_groups_or_cuts_are_not_added():
    with pytest.raises(IncompatibleTablesError, match="by site and age and .* by group"):
        ALL + tabulate(Y, P, by=SITE, bins="width:5")
    by = {"site": SITE, "age": (AGE, [0, 60, np.inf])}
    with pytest.raises(IncompatibleTablesError, match="cut elsewhere"):
        ALL + tabulate(Y, P, by=by, bins="width:5")
    with pytest.raises(TypeError):
        ALL + tabulate(Y, P, bins="width:5")


@pytest.mark.parametrize("tables", EACH.values(), ids=EACH)
def test_tables_survive_json_pickles_and_copies(tables):
    assert Tables.from_json(tables.to_json()) == tables
    for other in (pickle.loads(pickle.dumps(tables)), copy.copy(tables), copy.deepcopy(tables)):
        assert other == tables
        assert not other.count.flags.writeable


DAMAGES = {
    "no such format": lambda d: d.update(format="calibrant.table"),
    "no groups": lambda d: d.update(groups=[]),
    "a group twice": lambda d: d["groups"].__setitem__(1, d["groups"][0]),
    "a label beyond the cuts": lambda d: d["groups"].__setitem__(0, ["east", "[0, 5]"]),
    "a label too few": lambda d: d["groups"].__setitem__(0, ["east"]),
    "cuts that fall": lambda d: d["by"][1].update(cuts=[5, 0]),
    "cuts that are text": lambda d: d["by"][1].update(cuts=["a", "b"]),
    "cuts that are a number": lambda d: d["by"][1].update(cuts=7.0),
    "a name that is none": lambda d: d["by"][0].update(name=3),
    "more events than rows": lambda d: d["sum_y"][0].__setitem__(0, 1e6),
    "a table too few": lambda d: d["count"].pop(),
    "an empty group": lambda d: [d[k].__setitem__(0, [0.0] * 5) for k in d if k.startswith("sum")],
    "another entry": lambda d: d.update(more=1),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_documents_are_refused(damage):
    document = json.loads(ALL.to_json())
    damage(document)
    with pytest.raises(InvalidDocumentError):
        Tables.from_json(json.dumps(document))


def test_printed_groups_are_the_largest_and_the_others_are_counted():
    many = tabulate(Y, P, by=np.arange(N) // 20, bins="width:2")
    lines = str(many).splitlines()
    assert lines[0].split() == ["group", "rows", "events", "mean", "prediction"]
    assert len(lines) == 22
    assert lines[-1] == "... and 10 more groups"
    assert repr(many) == "<Tables: binary, 30 groups by group, n = 600>"
    assert "missing" in str(ALL)


def test_a_hundred_thousand_groups_are_a_few_arrays():
    n = 200_000
    g = np.random.default_rng(1).integers(100_000, size=n)
    p = (np.arange(n) % 7) / 7
    tables = tabulate(np.arange(n) % 2, p, by=g, bins="width:3")
    assert len(tables) == np.unique(g).size
    assert tables.n == n
    assert tables[int(g[5])].n == (g == g[5]).sum()
