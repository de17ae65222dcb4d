"""Results of groups: those of each group alone, worst first, made when asked for."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import InvalidArgumentError

RNG = np.random.default_rng(5)
N = 4000
P = RNG.integers(1, 4, size=N) / 4
GROUP = RNG.choice(["good", "bad", "fair"], size=N)
Y = (RNG.uniform(size=N) < np.where(GROUP == "bad", P**2, P)).astype(int)
OWN = {name: name == GROUP for name in ("bad", "fair", "good")}


def test_errors_of_groups_are_those_of_their_rows_in_the_shared_bins():
    errors = cb.calibration_error(Y, P, by=GROUP, bins=10)
    bins = cb.tabulate(Y, P, bins=10).bins[0]
    for key, own in OWN.items():
        alone = cb.calibration_error(Y[own], P[own], bins=bins)
        assert errors[key].value == pytest.approx(alone.value, rel=1e-12)
        interval, expected = errors[key].confidence_interval(), alone.confidence_interval()
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert list(errors) == list(OWN)
    assert errors.estimates == pytest.approx([float(errors[key]) for key in OWN])


@pytest.mark.parametrize("norm", ["l1", "l2", "max", 3])
@pytest.mark.parametrize("kind", ["binary", "marginal"])
def test_values_of_all_groups_are_those_of_each(kind, norm):
    y, p, weight = Y, P, None
    if kind == "marginal":
        y, p = RNG.integers(3, size=N), RNG.dirichlet(np.ones(3), size=N)
        weight = [1, 2, 3]
    options = {"kind": kind, "norm": norm, "class_weight": weight, "bins": 5}
    errors = cb.calibration_error(y, p, by=GROUP, **options)
    assert errors.estimates == pytest.approx([errors[key].value for key in errors], rel=1e-12)


def test_the_worst_group_comes_first():
    errors = cb.calibration_error(Y, P, by=GROUP)
    assert errors.worst[0] == "bad"
    assert str(errors).splitlines()[1].startswith("bad ")
    assert errors.to_dict()["groups"][0]["group"] == ["bad"]
    curves = cb.reliability_curve(Y, P, by=GROUP)
    assert curves.worst[0] == "bad"
    assert len(curves["bad"]) == 3


def test_certificates_of_groups_are_those_of_their_tables():
    certificates = cb.certify(Y, P, by=GROUP, max_error=0.06)
    tables = cb.tabulate(Y, P, by=GROUP, bins="distinct")
    alone = stats.certify(tables["bad"], max_error=0.06)
    assert certificates["bad"].upper_bound == alone.upper_bound
    assert certificates["bad"].recheck()
    assert certificates.worst[0] == "bad"
    assert certificates["bad"].verdict == "refuted"
    assert "refuted" in str(certificates).splitlines()[1]


def test_tables_counted_before_stand_in_place_of_rows():
    tables = cb.tabulate(Y, P, by=GROUP, bins="distinct")
    assert cb.calibration_error(tables).worst == cb.calibration_error(Y, P, by=GROUP).worst
    assert cb.certify(tables, max_error=0.06)["bad"].verdict == "refuted"
    assert cb.tabulate(tables) is tables
    for refused in ({"by": GROUP}, {"bins": 3}, {"sample_weight": P}):
        with pytest.raises(InvalidArgumentError):
            cb.calibration_error(tables, **refused)


def test_one_table_has_no_groups():
    with pytest.raises(InvalidArgumentError, match="by= came beside it"):
        cb.calibration_error(cb.tabulate(Y, P), by=GROUP)


@pytest.mark.parametrize(
    "wrong", [{"norm": "l9"}, {"debias": 3}, {"class_weight": [1]}, {"shared_bins": 1}]
)
def test_wrong_options_are_refused_before_any_group_is_printed(wrong):
    with pytest.raises(InvalidArgumentError):
        cb.calibration_error(Y, P, by=GROUP, **wrong)


def test_wrong_options_of_curves_and_certificates_are_refused_at_once():
    with pytest.raises(InvalidArgumentError):
        cb.reliability_curve(Y, P, by=GROUP, confidence_level=2)
    with pytest.raises(InvalidArgumentError):
        cb.certify(Y, P, by=GROUP, max_error=-1)


def test_one_row_and_one_group_will_do():
    errors = cb.calibration_error([1], [0.5], by=["only"])
    assert errors.worst == ["only"]
    assert errors["only"].n == 1


def test_results_are_read_as_any_mapping():
    errors = cb.calibration_error(Y, P, by=GROUP)
    assert [result.n for result in errors.values()] == [int(own.sum()) for own in OWN.values()]
    assert dict(errors)["bad"].value == errors["bad"].value
    assert errors.get("nowhere") is None
    with pytest.raises(KeyError, match="'nowhere' is not a group"):
        errors["nowhere"]
