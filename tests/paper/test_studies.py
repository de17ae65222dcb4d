"""Every study runs, is seeded, and shows what the paper reports at a small scale."""

from __future__ import annotations

import json

import numpy as np
import pytest
from small_studies import DATA, SMALL, small

from calibrant.exceptions import InvalidInputError
from calibrant.paper import STUDIES, Predictions, run, stand_in
from calibrant.paper.claims import lines_of


@pytest.fixture(scope="module")
def cifar10_claims(cifar10):
    """Return quick results of the studies that split the paper's own file, on few settings."""
    labels, probs = cifar10
    file = Predictions(probs, labels, "cifar10-vgg16")
    return [
        run("lower-bounds", data=file, bins=(2, 128), resamples=100, splits=2),
        run("lower-bounds-l1", data=file, bins=(2, 128), resamples=100, splits=2),
        run("estimators-ece", data=file, repeats=300, n=(2000, 7000), splits=3),
        run("estimators-marginal", data=file, repeats=50, n=(2000, 7000), splits=2),
        run("choosing-bins", data=file, splits=2, bins=(15, 100), resamples=20),
    ]


def test_on_the_paper_s_predictions_the_authors_split_bears_out_their_claims(cifar10_claims):
    l2, l1, ece, marginal, _ = cifar10_claims
    assert l2.finding("growth").splits[0].low > 0
    assert l1.finding("gap-width").splits[0].high < 0, "inconclusive, as the paper says"
    least, small_n = ece.finding("least-15"), ece.finding("small-n-100")
    assert least.splits[0].value > 1, "the debiased ECE is closer in the authors' split"
    assert min(one.value for one in least.splits[1:]) < 1, "and not in every other"
    assert small_n.estimate.value > 1, "more so for small n, from 2,000 rows to 7,000"
    assert marginal.finding("least-100").splits[0].low > 2


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")
@pytest.mark.parametrize("name", ["calibrators-marginal", "calibrators-top-label", "choosing-bins"])
def test_predictions_in_which_there_is_nothing_to_compare_are_refused(name):
    """They ended in a division by zero, or in NaN that JSON does not have."""
    perfect = Predictions(np.eye(3)[np.arange(300) % 3], np.arange(300) % 3, "perfect")
    with pytest.raises(InvalidInputError, match="in perfect there is nothing to compare"):
        run(name, data=perfect, quick=True)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_and_gives_finite_numbers(name):
    result = small(name)
    json.loads(result.to_json())
    assert result.rows
    assert all(panel.title for panel in result.output.panels)
    assert result.output.panels
    assert result.output.findings
    for finding in result.output.findings:
        assert np.isfinite(finding.estimate.value)
        assert finding.estimate.low <= finding.estimate.value <= finding.estimate.high


@pytest.mark.parametrize(
    "name", ["synthetic-bins", "calibrators-top-label", "estimators-ece", "lower-bounds-l1"]
)
def test_the_seed_decides_every_number(name):
    first, again, other = small(name), small(name), small(name, seed=1)
    assert first.rows == again.rows
    assert first.output == again.output
    assert first.rows != other.rows


SPLIT = ("lower-bounds", "lower-bounds-l1", "estimators-marginal", "estimators-ece",
         "choosing-bins", "beyond-bounds")  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_a_study_that_splits_the_rows_gives_the_number_of_every_split(name):
    result = small(name)
    assert {row["split"] for row in result.rows} == {0, 1}
    for finding in result.output.findings:
        assert len(finding.splits) == 2
        assert finding.estimate.value == np.median([one.value for one in finding.splits])
        assert not finding.has_authors_split


@pytest.mark.parametrize("name", SPLIT)
def test_more_splits_do_not_change_the_first(name):
    one = run(name, data=DATA, **{**SMALL[name], "splits": 1})
    two = run(name, data=DATA, **{**SMALL[name], "splits": 2})
    first = [row for row in two.rows if row["split"] == 0]
    assert first == one.rows


def test_every_claim_from_one_split_of_the_paper_is_judged_in_several(cifar10_claims):
    for result in cifar10_claims:
        for line in lines_of(result):
            if line.verdict != "beyond the paper":
                assert " splits" in line.worded, line.statement


def test_a_quick_look_never_asks_for_more_than_the_study():

    many = stand_in(n=2000, n_classes=200)
    for each in STUDIES.values():
        quick, whole = each.settings_for(many, quick=True), each.settings_for(many)
        for name in each.quick:
            small, full = getattr(quick, name), getattr(whole, name)
            assert (len(small) <= len(full)) if isinstance(small, tuple) else (small <= full)


def test_every_quick_setting_exists():
    for each in STUDIES.values():
        settings = each.settings_for(DATA, quick=True)
        assert all(getattr(settings, name) == value for name, value in each.quick.items())
