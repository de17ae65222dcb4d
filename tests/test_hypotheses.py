"""Hypotheses of a table are tested as those of its rows."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError

RNG = np.random.default_rng(0)
P = np.round(RNG.uniform(size=2000), 1)
Y = RNG.uniform(size=P.size) < P**1.2
TABLE = cb.tabulate(Y, P, bins="distinct")


def test_what_needs_rows_says_so():
    with pytest.raises(InvalidArgumentError, match="a table holds sums of them .2,000 rows"):
        cb.prequential_lower_bound(TABLE)


@pytest.mark.parametrize("method", ["exact", "adaptive", "l2", "kuiper", "spiegelhalter", "cox"])
def test_a_table_of_distinct_predictions_is_tested_as_its_rows_are(method):
    how = {"method": method, "rng": 0, "n_resamples": 99}
    assert cb.calibration_test(TABLE, **how) == cb.calibration_test(Y, P, **how)


def test_bounds_without_bins_need_distinct_predictions_and_no_rows():
    assert cb.bin_free_bounds(TABLE) == cb.bin_free_bounds(Y, P)


@pytest.mark.parametrize("call", [cb.calibration_test, cb.bin_free_bounds])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        (cb.tabulate(Y, P, bins=2), "different predictions in one bin, of 2 uniform-mass bins"),
        (cb.tabulate(Y, P, bins="distinct", sample_weight=P + 1), "sample weights"),
        (
            cb.tabulate([0, 1, 2], np.eye(3), kind="marginal", bins="distinct"),
            "several classes",
        ),
    ],
)
def test_tables_that_mix_what_must_be_told_apart_are_refused(call, table, message):
    with pytest.raises(InvalidArgumentError, match=f'{message}. Count with bins="distinct"'):
        call(table)
