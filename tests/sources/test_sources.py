"""A table counted before stands in place of labels and predictions."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError
from calibrant.sources import read

RNG = np.random.default_rng(0)
P = np.round(RNG.uniform(size=2000), 1)
Y = RNG.uniform(size=P.size) < P**1.2
PROBS = RNG.dirichlet(np.ones(3), size=1500)
CLASS = RNG.integers(3, size=1500)
TABLE = cb.tabulate(Y, P, bins="distinct")

MEASURES = {
    "calibration_error": lambda *rows, **o: cb.calibration_error(*rows, **o).to_dict(),
    "reliability_curve": lambda *rows, **o: cb.reliability_curve(*rows, **o).to_dict(),
    "brier_decomposition": lambda *rows, **o: cb.brier_decomposition(*rows, **o).to_dict(),
    "tabulate": lambda *rows, **o: cb.tabulate(*rows, **o).to_dict(),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_table_gives_the_numbers_of_its_rows(name):
    assert MEASURES[name](TABLE) == MEASURES[name](Y, P, bins="distinct")


def test_a_table_is_certified_as_its_rows_are():
    of_table, of_rows = cb.certify(TABLE, max_error=0.2), cb.certify(Y, P, max_error=0.2)
    assert of_table.verdict == of_rows.verdict
    assert of_table.upper_bound == of_rows.upper_bound
    assert of_table.lower_bound == of_rows.lower_bound
    assert of_table.digests.rows is None


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_a_table_of_continuous_outputs_is_certified_in_its_own_bins(kind):
    table = cb.tabulate(CLASS, PROBS, kind=kind, bins=7)
    certificate = cb.certify(table, max_error=0.01)
    assert certificate.table == table
    assert (
        certificate.verdict == cb.certify(CLASS, PROBS, kind=kind, bins=7, max_error=0.01).verdict
    )


def test_the_interval_of_several_classes_says_that_rows_would_tell_more():
    table = cb.tabulate(CLASS, PROBS, kind="marginal")
    assert "how classes depend on each other" in str(cb.calibration_error(table))


def test_the_bins_of_a_table_cannot_be_changed():
    for bins in ("auto", "distinct", TABLE.bins[0]):
        assert cb.tabulate(TABLE, bins=bins) == TABLE
    for bins in (5, "width:10"):
        with pytest.raises(InvalidArgumentError, match="in the bins it was counted in, 11 .*Leave"):
            cb.tabulate(TABLE, bins=bins)
    continuous = cb.tabulate(CLASS, PROBS)
    with pytest.raises(InvalidArgumentError, match="count the rows again"):
        cb.tabulate(continuous, bins="distinct")


@pytest.mark.parametrize(
    ("beside", "name"),
    [
        ({"y_prob": P}, "y_prob"),
        ({"kind": "binary"}, "kind"),
        ({"classes": (0, 1)}, "classes"),
        ({"pos_label": 1}, "pos_label"),
        ({"data": {"y": Y}}, "data"),
        ({"input": "logits"}, "input"),
    ],
)
def test_what_a_table_already_knows_is_refused_beside_it(beside, name):
    with pytest.raises(InvalidArgumentError, match=f"{name}= came beside it. Leave it out"):
        cb.calibration_error(TABLE, **beside)


def test_labels_without_predictions_are_refused():
    with pytest.raises(InvalidArgumentError, match="only ndarray came. Pass the predictions"):
        cb.calibration_error(Y)


def test_the_bootstrap_of_a_table_of_levels_needs_no_rows():
    result = cb.calibration_error(TABLE)
    interval = result.confidence_interval(method="percentile", rng=0, n_resamples=20)
    again = cb.calibration_error(Y, P, bins="distinct")
    assert interval == again.confidence_interval(method="percentile", rng=0, n_resamples=20)


def test_a_source_of_a_table_has_no_rows():
    source = read(TABLE)
    assert not source.has_rows
    assert source.problem == TABLE.problem
    assert source.count(TABLE.bins) is TABLE
