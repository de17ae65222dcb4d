"""Audits: verdicts on all groups at once."""

from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError

RNG = np.random.default_rng(6)
N = 9000
P = RNG.integers(1, 6, size=N) / 6
SITE = RNG.choice(np.array(["bad", "good", "small"]), size=N, p=[0.4, 0.58, 0.02])
Y = (RNG.uniform(size=N) < np.where(SITE == "bad", P**2, P)).astype(int)
AUDIT = cb.audit(Y, P, by={"site": SITE}, max_error=0.06)


def test_each_group_has_its_share_of_the_error_probability():
    tables = cb.tabulate(Y, P, by={"site": SITE}, bins="distinct")
    for group in AUDIT.groups:
        alone = stats.certify(tables[group.group[0]], max_error=0.06, confidence_level=1 - 0.05 / 3)
        assert (group.lower_bound, group.upper_bound) == (alone.lower_bound, alone.upper_bound)
        assert group.verdict == alone.verdict
    certificate = AUDIT["bad"]
    assert certificate.lower_bound == AUDIT.groups[0].lower_bound
    assert certificate.recheck()


def test_the_worst_group_comes_first_and_decides():
    assert [group.group[0] for group in AUDIT.groups] == list(AUDIT) == ["bad", "small", "good"]
    assert [group.verdict for group in AUDIT.groups] == ["refuted", "undecided", "certified"]
    assert AUDIT.verdict == "refuted"
    assert AUDIT.of("certified")[0].group == ("good",)


def test_the_worst_group_is_bounded_without_a_split():
    tables = cb.tabulate(Y, P, by={"site": SITE}, bins="distinct")
    alone = [stats.certify(table).upper_bound for table in tables.values()]
    assert AUDIT.upper_bound == max(alone) < max(x.upper_bound for x in AUDIT.groups)
    assert AUDIT.lower_bound == AUDIT.groups[0].lower_bound
    assert f"The worst group's error is at most {AUDIT.upper_bound:.4f}, with 95%" in str(AUDIT)
    assert AUDIT.to_dict()["upper_bound"] == AUDIT.upper_bound


@pytest.mark.slow
@pytest.mark.parametrize("off", [0.0, 0.1])
def test_the_bound_of_the_worst_group_holds(off):
    rng, missed = np.random.default_rng(4), 0
    for _ in range(40):
        p, group = rng.integers(1, 4, size=400) / 4, rng.integers(4, size=400)
        y = rng.uniform(size=400) < p + off * (group == 0)
        missed += cb.audit(y, p, by=group).upper_bound < off
    assert missed <= 6  # of 40 at 5%: more in seven of a thousand runs


def test_a_small_group_is_listed_with_the_rows_it_needs():
    (small,) = AUDIT.too_small
    assert small.group == ("small",)
    assert small.rows_needed == cb.samples_to_certify(0.06, 5, confidence_level=1 - 0.05 / 3)
    assert "too small" in str(AUDIT)
    assert f"{small.rows_needed:,} rows" in " ".join(str(AUDIT).split())


def test_facts_of_groups_are_those_of_their_rows():
    for group in AUDIT.groups:
        own = group.group[0] == SITE
        assert (group.n, group.n_events) == (own.sum(), Y[own].sum())
        bins = cb.tabulate(Y, P, bins="distinct").bins[0]
        error = cb.calibration_error(Y[own], P[own], bins=bins)
        interval = error.confidence_interval(1 - 0.05 / 3)
        assert group.error == pytest.approx(error.value, abs=1e-9)
        assert (group.low, group.high) == pytest.approx((interval.low, interval.high), abs=1e-9)


def test_without_a_limit_there_are_bounds_and_no_verdicts():
    audit = cb.audit(Y, P, by=SITE)
    assert audit.verdict is None
    assert all(group.verdict is None for group in audit.groups)
    assert "verdict" not in str(audit)


def test_an_audit_prints_travels_and_is_json():
    document = json.loads(AUDIT.to_json())
    assert document["groups"][0]["group"] == ["bad"]
    assert document["groups"][1]["is_too_small"]
    assert str(pickle.loads(pickle.dumps(AUDIT))) == str(AUDIT)
    assert repr(AUDIT).startswith(
        "<Audit: refuted: 1 refuted, 1 undecided, 1 certified of 3 groups"
    )
    assert AUDIT.assumptions[-1].startswith("The groups were chosen before")


def test_tables_counted_before_may_be_audited():
    tables = cb.tabulate(Y, P, by={"site": SITE}, bins="distinct")
    assert str(cb.audit(tables, max_error=0.06)) == str(AUDIT)
    with pytest.raises(InvalidArgumentError, match="needs groups"):
        cb.audit(Y, P, max_error=0.06)
    with pytest.raises(InvalidArgumentError, match="Tables"):
        stats.audit(tables["bad"])
    with pytest.raises(InvalidWeightsError):
        stats.audit(cb.tabulate(Y, P, by=SITE, sample_weight=P))


@pytest.mark.parametrize("wrong", [{"confidence_level": 2}, {"norm": "l9"}, {"max_error": 3}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        cb.audit(Y, P, by=SITE, **wrong)


def test_classes_and_continuous_outputs_may_be_audited():
    probs = RNG.dirichlet(np.ones(3), size=600)
    y = (probs.cumsum(axis=1) < RNG.uniform(size=(600, 1))).sum(axis=1)
    audit = cb.audit(y, probs, kind="marginal", by=np.arange(600) % 2, max_error=0.3)
    assert audit.heterogeneity is None
    assert {group.verdict for group in audit.groups} == {"undecided"}
    assert audit.groups[0].upper_bound == 1
    assert audit.too_small == ()


def test_calibrated_groups_are_rarely_refuted():
    rng, wrong, rejected = np.random.default_rng(9), 0, 0
    for _ in range(15):
        p = rng.uniform(size=2000)
        y = rng.uniform(size=2000) < p
        audit = cb.audit(y, p, by=rng.integers(25, size=2000), max_error=0.01, bins=8)
        wrong += audit.verdict == "refuted"
        rejected += min(group.adjusted_pvalue for group in audit.groups) <= 0.05
    assert wrong == 0  # docs/groups.md has the frequency in many more
    assert rejected <= 3  # of 15 at 5%: more has a probability below 0.01


def test_progress_is_told_after_each_group_and_must_be_a_function():
    told = []
    audit = cb.audit(Y, P, by={"site": SITE}, max_error=0.06, progress=told.append)
    assert str(audit) == str(AUDIT)
    np.testing.assert_allclose(told, [1 / 3, 2 / 3, 1])
    with pytest.raises(InvalidArgumentError, match="must be a function.*got 'bar'. Pass print"):
        cb.audit(Y, P, by=SITE, progress="bar")


def test_nothing_is_said_of_the_worst_group_where_labels_agree_too_well():
    p = np.repeat(np.arange(1, 10) / 10, 1000)
    y = np.concatenate([np.arange(1000) < round(1000 * each) for each in np.arange(1, 10) / 10])
    group = np.where(np.arange(9000) % 2, "odd", "even")
    y[group == "odd"] = np.random.default_rng(0).random(4500) < p[group == "odd"]
    for max_error, verdict in ((0.05, "undecided"), (None, None)):
        audit = cb.audit(y.astype(int), p, by=group, max_error=max_error)
        assert {x.group[0]: x.agrees_too_well for x in audit.groups} == {"even": True, "odd": False}
        assert (audit.verdict, audit.upper_bound) == (verdict, 1.0)
        assert "worst group" not in str(audit)
        assert "Of group even nothing can be said: labels agree with the" in str(audit)
        assert re.search(r"\neven +4,500 .* - +- +1\n", str(audit))
        even = next(x for x in audit.groups if x.agrees_too_well)
        assert "at least -, at most - " in str(even)
        assert audit["even"].agrees_too_well
        assert "<td>- (97.5%)</td>" in audit["even"]._repr_html_()
    assert not audit.too_small


@pytest.mark.parametrize("norm", ["l2", "max"])
def test_of_many_honest_groups_none_agrees_too_well(norm):
    """One in a hundred would if each group were tested as if it were the only one."""
    rng, group = np.random.default_rng(0), np.repeat(np.arange(100), 500)
    p = rng.choice(np.arange(1, 10) / 10, group.size)
    audit = cb.audit(rng.random(group.size) < p, p, by=group, norm=norm)
    assert not any(x.agrees_too_well for x in audit.groups)
    assert audit.upper_bound < 1
