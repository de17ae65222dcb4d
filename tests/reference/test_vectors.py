"""The published test vectors are what they say, and the library reproduces every one."""

from __future__ import annotations

import json

import make_vectors
import numpy as np
import pytest

from calibrant import Bins, Distinct, EqualMass, EqualWidth, calibration_error, tabulate

DOCUMENT = json.loads(make_vectors.FILE.read_text(encoding="utf-8"))
TOLERANCE = DOCUMENT["tolerance"]
RULES = {
    "equal-width": EqualWidth,
    "equal-mass": EqualMass,
    "distinct": lambda n_bins: Distinct(),
}


def ways_to_bin(case):
    """The rule of a case, and its edges where all groups share them."""
    bins = case["bins"]
    ways = [RULES[bins["rule"]](bins["n_bins"])] if bins["rule"] != "given" else []
    if all(edges == bins["edges"][0] for edges in bins["edges"]):
        ways.append(Bins(bins["edges"][0]))
    return ways


ALL = [
    pytest.param(case, bins, id=f"{case['name']}-{type(bins).__name__}")
    for case in DOCUMENT["cases"]
    for bins in ways_to_bin(case)
]


def arguments(case, bins):
    y_prob = np.array(case["y_prob"], case["dtype"])
    assert y_prob.tolist() == case["y_prob"], "the dtype holds the values exactly"
    return {"y_true": case["y_true"], "y_prob": y_prob, "kind": case["kind"], "bins": bins}


@pytest.mark.parametrize(("case", "bins"), ALL)
def test_the_table_of_a_vector_is_reproduced(case, bins):
    table, expected = tabulate(**arguments(case, bins)), case["expected"]
    for group, edges in enumerate(case["bins"]["edges"]):
        assert table.bins[group].edges.tolist() == edges
        used = len(edges) - 1
        assert table.count[group, :used].tolist() == expected["count"][group]
        assert table.sum_y[group, :used].tolist() == expected["sum_y"][group]
        assert table.sum_p[group, :used] == pytest.approx(
            np.array(expected["sum_p"][group]), rel=TOLERANCE, abs=0
        )


@pytest.mark.parametrize(("case", "bins"), ALL)
def test_the_errors_of_a_vector_are_reproduced(case, bins):
    expected = case["expected"]

    def error(norm, debias):
        return calibration_error(**arguments(case, bins), norm=norm, debias=debias)

    found = {norm: error(norm, False).value for norm in ("l1", "l2", "max")}
    found["debiased_l2_squared"] = error("l2", True).squared
    found["debiased_l1"] = error("l1", True).value
    # The library reports an error, which is clipped at 0; the vector is the signed estimate.
    wanted = {name: expected[name] for name in found}
    wanted["debiased_l1"] = max(wanted["debiased_l1"], 0.0)
    assert found == pytest.approx(wanted, rel=0, abs=TOLERANCE)


def test_the_committed_file_is_what_the_slow_definitions_give():
    assert make_vectors.FILE.read_text(encoding="utf-8") == make_vectors.document()


def test_every_vector_has_a_name_of_its_own():
    names = [case["name"] for case in DOCUMENT["cases"]]
    assert len(set(names)) == len(names)
