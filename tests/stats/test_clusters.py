"""Rows in clusters: estimates of independent clusters, intervals, tests, certificates."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.sources import read
from calibrant.sources.groups import clustered_rows, one_of_each

RNG = np.random.default_rng(12)
N_CLUSTERS, SIZE = 80, 10
CLUSTER = np.repeat(np.arange(N_CLUSTERS), SIZE)
P = np.repeat(RNG.integers(1, 6, size=N_CLUSTERS) / 6, SIZE)
Y = (np.repeat(RNG.uniform(size=N_CLUSTERS), SIZE) < P).astype(int)  # all rows of one agree


def pairs_of_clusters(y, p, cluster):
    """The squared error from the definition, pair by pair."""
    total, u = 0.0, y - p
    for level in np.unique(p):
        own = np.flatnonzero(p == level)
        apart = cluster[own][:, None] != cluster[own][None, :]
        products = u[own][:, None] * u[own][None, :]
        total += own.size / y.size * products[apart].sum() / apart.sum()
    return total


def test_the_estimate_counts_pairs_of_different_clusters():
    result = cb.calibration_error(Y, P, cluster=CLUSTER, bins="distinct")
    assert result.squared == pytest.approx(pairs_of_clusters(Y, P, CLUSTER), rel=1e-10)
    assert result.n_clusters == N_CLUSTERS
    assert "n = 800 in 80 clusters" in str(result)
    assert result.to_dict()["n_clusters"] == N_CLUSTERS


def test_clusters_of_one_row_are_independent_rows():
    p = np.round(RNG.uniform(size=2000), 1)
    y = RNG.uniform(size=2000) < p**1.3
    alone = cb.calibration_error(y, p, bins="distinct")
    result = cb.calibration_error(y, p, bins="distinct", cluster=np.arange(2000))
    assert result.squared == pytest.approx(alone.squared, rel=1e-10)
    a, b = result.confidence_interval(), alone.confidence_interval()
    assert a.high - a.low == pytest.approx(b.high - b.low, rel=0.15)


def test_rows_that_repeat_each_other_widen_the_interval():
    plain = cb.calibration_error(Y, P, bins="distinct").confidence_interval()
    robust = cb.calibration_error(Y, P, bins="distinct", cluster=CLUSTER).confidence_interval()
    assert plain.low > 0  # an error that is none
    assert robust.low == 0
    assert robust.high - robust.low > 2 * (plain.high - plain.low)
    assert cb.calibration_test(Y, P, rng=0).pvalue < 0.01
    assert cb.calibration_test(Y, P, cluster=CLUSTER, rng=0).pvalue > 0.05


def test_the_test_finds_what_is_wrong():
    y = np.repeat(np.random.default_rng(1).uniform(size=N_CLUSTERS), SIZE) < P**3
    found = cb.calibration_test(y, P, cluster=CLUSTER, rng=0)
    assert found.pvalue < 0.01
    assert found.method == "clustered"
    assert found.pvalue == cb.calibration_test(y, P, cluster=CLUSTER, rng=0).pvalue


def test_several_classes_may_come_in_clusters():
    probs = np.repeat(RNG.dirichlet(np.ones(3), size=60), 5, axis=0)
    draws = np.repeat(RNG.uniform(size=60), 5)
    y = (probs.cumsum(axis=1) < draws[:, None]).sum(axis=1)
    for kind in ("top-label", "marginal"):
        cluster = np.repeat(np.arange(60), 5)
        result = cb.calibration_error(y, probs, kind=kind, bins=3, cluster=cluster)
        interval = result.confidence_interval()
        assert 0 <= interval.low <= result.value <= interval.high


def test_clusters_tell_how_the_labels_of_a_row_depend_on_each_other():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=900).round(1)
    y = (rng.uniform(size=900) < p**1.3).astype(int)
    options = {"cluster": np.arange(900), "bins": "distinct"}
    one = cb.calibration_error(y, p, **options).confidence_interval()
    both = np.stack([y, y], axis=1), np.stack([p, p], axis=1)
    two = cb.calibration_error(*both, kind="multi-label", **options).confidence_interval()
    assert (two.low, two.high) == pytest.approx((one.low, one.high), abs=5e-4)
    assert two.notes == (), "the same label twice says no more than once, and no less"


def test_few_clusters_in_a_bin_are_said():
    few = CLUSTER // 4
    assert cb.calibration_error(Y, P, cluster=few).confidence_interval().notes[-1].startswith("few")
    assert cb.calibration_error(Y, P, cluster=CLUSTER).confidence_interval().notes == ()


def test_results_with_clusters_travel():
    result = cb.calibration_error(Y, P, cluster=CLUSTER)
    again = pickle.loads(pickle.dumps(result))
    assert str(again) == str(result)


def test_clusters_are_a_column_of_the_data():
    data = {"y": Y, "p": P, "patient": CLUSTER.astype(str)}
    named = cb.calibration_error("y", "p", data=data, cluster="patient")
    assert named.squared == pytest.approx(cb.calibration_error(Y, P, cluster=CLUSTER).squared)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cluster": np.zeros(800)}, ex.InvalidArgumentError, "at least 2 are needed; got 1"),
        ({"cluster": CLUSTER[:5]}, ex.LengthMismatchError, "one value per row"),
        ({"cluster": np.where(CLUSTER == 3, np.nan, CLUSTER)}, ex.InvalidGroupsError, "10 of 800"),
        ({"cluster": CLUSTER, "norm": "l1"}, ex.NoSuchEstimatorError, "debiased l2"),
        ({"cluster": CLUSTER, "debias": False}, ex.NoSuchEstimatorError, "plug-in l2"),
        ({"cluster": CLUSTER, "by": CLUSTER % 2, "norm": "l1"}, ex.NoSuchEstimatorError, "l2"),
        ({"cluster": CLUSTER, "by": CLUSTER}, ex.InvalidGroupsError, "of 80 groups all rows are"),
        ({"cluster": CLUSTER, "sample_weight": P}, ex.InvalidWeightsError, "count alike"),
    ],
)
def test_what_clusters_cannot_do_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        cb.calibration_error(Y, P, **options)


def test_other_intervals_and_tests_take_rows_as_independent():
    result = cb.calibration_error(Y, P, cluster=CLUSTER)
    with pytest.raises(ex.NoSuchEstimatorError, match="clusters"):
        result.confidence_interval(method="box")
    with pytest.raises(ex.InvalidArgumentError, match="one test"):
        cb.calibration_test(Y, P, cluster=CLUSTER, method="cox")
    with pytest.raises(ex.InvalidArgumentError, match="n_resamples"):
        cb.calibration_test(Y, P, cluster=CLUSTER, n_resamples=0)


def test_a_certificate_rests_on_one_row_of_each_cluster():
    certificate = cb.certify(Y, P, cluster=CLUSTER, max_error=0.5)
    assert certificate.n == N_CLUSTERS
    assert any("One row of each cluster" in said for said in certificate.assumptions)
    assert certificate.recheck()
    assert cb.Certificate.from_json(certificate.to_json()).recheck()
    again = cb.certify(Y, P, cluster=CLUSTER, max_error=0.5)
    assert again.table == certificate.table
    assert again.to_json() == certificate.to_json()


def loose(n=400, size=5):
    """Return labels, predictions and clusters whose rows are independent all the same."""
    rng = np.random.default_rng(5)
    p = np.repeat(rng.integers(1, 6, size=n) / 6, size)
    return rng.uniform(size=p.size) < p, p, np.repeat(np.arange(n), size)


def test_each_bound_of_a_certificate_is_that_of_a_draw_at_its_share():
    y, p, cluster = loose()
    certificate = cb.certify(y, p, cluster=cluster, draws=4)
    bounds = []
    source = clustered_rows(read(y, p, by={"cluster": cluster}))
    for seed in range(4):
        drawn = one_of_each(source, seed).columns()
        alone = cb.certify(drawn.labels, drawn.predictions, confidence_level=1 - 0.05 / 4)
        bounds.append((alone.upper_bound, alone.lower_bound))
    upper, lower = certificate.drawn
    assert certificate.upper_bound == pytest.approx(bounds[upper][0])
    assert certificate.lower_bound == pytest.approx(bounds[lower][1])
    assert certificate.upper_bound == pytest.approx(min(bounds)[0], rel=0.05)
    once = cb.certify(y, p, cluster=cluster, draws=1)
    assert (once.drawn, once.lower_table) == ([0, 0], None)
    assert cb.certify(y, p, cluster=cluster).upper_bound < once.upper_bound


def test_the_order_of_rows_does_not_matter_to_a_certificate_of_clusters():
    y, p, cluster = loose(60)
    order = np.random.default_rng(0).permutation(y.size)
    shuffled = y[order], p[order]
    certificate = cb.certify(y, p, cluster=cluster)
    again = cb.certify(*shuffled, cluster=cluster[order])
    assert again.to_json() == certificate.to_json()
    assert cb.certify(*shuffled, cluster=cluster[order].astype(str)).table == certificate.table
    half = {"by": {"half": cluster % 2}, "draws": None}
    there = cb.certify(y, p, cluster=cluster, **half)
    back = cb.certify(*shuffled, cluster=cluster[order], by={"half": cluster[order] % 2})
    assert [back[key].to_json() for key in there] == [there[key].to_json() for key in there]


def test_every_row_of_a_cluster_is_drawn_as_often_whatever_its_label():
    # all have one prediction, so that rows are told apart by labels alone: one event of three
    y, cluster = np.tile([0, 1, 0], 3_000), np.repeat(np.arange(3_000), 3)
    source = clustered_rows(read(y, np.full(9_000, 0.3), by={"cluster": cluster}))
    draws = np.array([one_of_each(source, seed).columns().labels for seed in range(4)])
    assert draws.shape == (4, 3_000)
    assert np.abs(draws.mean(axis=1) - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 3_000)
    names = np.where(cluster < 1_500, cluster, cluster - 1_500).astype(object)
    names[cluster >= 1_500] = names[cluster >= 1_500].astype(str)
    mixed = clustered_rows(read(y, np.full(9_000, 0.3), by={"cluster": names}))
    assert one_of_each(mixed, 0).columns().labels.mean() == pytest.approx(1 / 3, abs=0.035)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_several_draws_are_checked_again_from_their_tables_and_rows(norm):
    y, p, cluster = loose()
    certificate = cb.certify(y, p, cluster=cluster, norm=norm, max_error=0.2)
    assert certificate.draws == 4
    again = cb.Certificate.from_json(certificate.to_json())
    assert again.recheck()
    assert cb.recheck(again, y, p, cluster=cluster).scope == "rows"
    assert cb.recheck(again, y, p, cluster=cluster)
    assert not cb.recheck(again, y, p)
    assert not cb.recheck(again, y, p, cluster=np.arange(y.size) % 400)


@pytest.mark.parametrize(
    "forged", [{"draws": 2}, {"draws": None}, {"drawn": None}, {"lower_table": None}]
)
def test_a_certificate_of_other_draws_is_not_believed(forged):
    certificate = cb.certify(*loose()[:2], cluster=loose()[2])
    assert len(set(certificate.drawn)) == 2
    document = json.dumps(json.loads(certificate.to_json()) | forged)
    assert not cb.Certificate.from_json(document).recheck()


def test_a_certificate_of_continuous_outputs_keeps_one_draw():
    p = np.random.default_rng(1).uniform(size=Y.size)
    certificate = cb.certify(Y, p, cluster=CLUSTER)
    assert (certificate.upper_bound, certificate.lower_table) == (1.0, None)
    assert certificate.recheck()


def test_groups_have_one_row_of_each_of_their_clusters():
    site = np.where(CLUSTER % 3 == 0, "a", "b")
    found = cb.certify(Y, P, cluster=CLUSTER, by={"site": site}, max_error=0.5)
    assert {key: part.n for key, part in found.items()} == {"a": 27, "b": 53}
    for part in found.values():
        assert part.draws == 1
        assert any("One row of each cluster" in said for said in part.assumptions)
        assert cb.Certificate.from_json(part.to_json()).recheck()
    data = {"y": Y, "p": P, "site": site, "patient": CLUSTER}
    named = cb.certify("y", "p", data=data, cluster="patient", by="site", max_error=0.5)
    assert named.to_json() == found.to_json()
    audit = cb.audit(Y, P, cluster=CLUSTER, by={"site": site}, max_error=0.5)
    assert {group.group: group.n for group in audit.groups} == {("a",): 27, ("b",): 53}
    assert any("One row of each cluster" in said for said in audit.assumptions)
    assert audit.heterogeneity is not None
    assert audit["a"].recheck()
    assert audit["a"].table == found["a"].table


@pytest.mark.parametrize("nested", [True, False])
def test_errors_of_groups_are_those_of_their_clusters(nested):
    group = CLUSTER % 2 if nested else np.arange(Y.size) % 2
    found = cb.calibration_error(Y, P, cluster=CLUSTER, by=group, bins="distinct")
    for key in (0, 1):
        rows = group == key
        alone = cb.calibration_error(Y[rows], P[rows], cluster=CLUSTER[rows], bins="distinct")
        assert found[key].squared == pytest.approx(alone.squared)
        assert found[key].n_clusters == alone.n_clusters
        assert found[key].confidence_interval().high == pytest.approx(
            alone.confidence_interval().high
        )
    assert found.estimates == pytest.approx([found[key].value for key in found])
    worst = max(found, key=lambda key: found[key].value)
    assert found.worst[0] == worst
    assert str(found)


def test_a_cluster_may_be_in_several_groups():
    """What rows of one cluster share then makes groups alike: nothing tests that they differ."""
    half = np.arange(Y.size) % 2
    audit = cb.audit(Y, P, cluster=CLUSTER, by=half, max_error=0.5)
    assert [group.n for group in audit.groups] == [N_CLUSTERS, N_CLUSTERS]
    assert audit.heterogeneity is None
    tables = cb.tabulate(Y, P, by=half, bins="distinct")
    assert cb.audit(tables, cluster=False).heterogeneity is not None
    with pytest.raises(ex.InvalidArgumentError, match="tables have none"):
        cb.audit(tables, cluster=CLUSTER)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": {"cluster": CLUSTER}}, "not both"),
        ({"by": CLUSTER % 2, "draws": 4}, "drawn once"),
    ],
)
def test_groups_of_clusters_that_cannot_be(options, message):
    with pytest.raises(ex.InvalidArgumentError, match=message):
        cb.certify(Y, P, cluster=CLUSTER, **options)


@pytest.mark.parametrize("draws", [0, 1.5, True, 5000])
def test_draws_are_a_whole_number_of_clusters(draws):
    with pytest.raises(ex.InvalidArgumentError, match="draws must be a whole number"):
        cb.certify(Y, P, cluster=CLUSTER, draws=draws)
    with pytest.raises(ex.InvalidArgumentError, match="without cluster="):
        cb.certify(Y, P, draws=2)


def test_comparisons_add_up_the_rows_of_a_cluster():
    b = np.clip(P + 0.1, 0, 1)
    plain, robust = cb.compare(Y, P, b), cb.compare(Y, P, b, cluster=CLUSTER)
    assert robust.brier.value == pytest.approx(plain.brier.value)
    ratio = (robust.brier.high - robust.brier.low) / (plain.brier.high - plain.brier.low)
    assert 2.5 < ratio < 4  # ten rows that agree are one
    assert robust.n_clusters == N_CLUSTERS
    assert "800 rows in 80 clusters" in str(robust)
    same = cb.compare(Y, P, P, cluster=CLUSTER)
    assert (same.squared_error.value, same.squared_error.high) == (0, 0)
    alone = cb.compare(Y, P, b, cluster=np.arange(Y.size))
    for one, other in zip(dict(alone).values(), dict(plain).values(), strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.high == pytest.approx(other.high, rel=0.02)


def test_intervals_cover_where_rows_of_a_cluster_agree():
    rng, covered, naive = np.random.default_rng(3), 0, 0
    for _ in range(60):
        p = np.repeat(rng.integers(1, 6, size=100) / 6, 10)
        y = np.repeat(rng.uniform(size=100), 10) < p
        cluster = np.repeat(np.arange(100), 10)
        covered += 0.0 in cb.calibration_error(y, p, cluster=cluster).confidence_interval()
        naive += 0.0 in cb.calibration_error(y, p).confidence_interval()
    assert covered >= 52  # 0.95 of 60 are 57; fewer than 52 has a probability below 0.01
    assert naive < 30


def test_a_wrong_column_of_clusters_is_called_by_its_name():
    y, p, cluster = [0, 1, 1, 0], [0.2, 0.7, 0.9, 0.4], np.array([1, 1, 2, 2])
    with pytest.raises(ex.LengthMismatchError, match=r"cluster must have one value per row"):
        cb.calibration_error(y, p, cluster=cluster[:3])
    with pytest.raises(ex.NotFiniteError, match=r"cluster must not be masked; 1 of 4"):
        cb.calibration_error(y, p, cluster=np.ma.array(cluster, mask=[0, 0, 0, 1]))
