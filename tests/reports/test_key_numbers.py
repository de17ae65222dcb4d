"""Events, O/E, slope and AUC on the page are those of other programs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import report_data
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import calibrant
from calibrant import report


def test_auc_and_slope_are_those_of_scikit_learn():
    y, p = report_data.event_rows(4000, 1.5, 1)  # the rows of `refuted`
    found = report_data.refuted().findings.key_numbers
    assert (found.n, found.events) == (4000, y.sum())
    assert found.expected == pytest.approx(p.sum())
    assert found.auc == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    logit = np.log(p / (1 - p))[:, None]
    fitted = LogisticRegression(C=np.inf, tol=1e-10).fit(logit, y)
    assert found.slope == pytest.approx(fitted.coef_[0, 0], rel=1e-4)
    assert found.slope_low < found.slope < found.slope_high
    whole = calibrant.validate(y, p)
    assert (found.low, found.high) == (whole["oe_ratio"].low, whole["oe_ratio"].high)
    assert (found.slope_low, found.auc_high) == (whole["slope"].low, whole["c_statistic"].high)
    html = report_data.refuted().html
    for shown in (f"{y.sum():,}", f"{y.sum() / p.sum():.2f}", f"{found.auc:.3f}"):
        assert f'<span class="number">{shown}</span>' in html


def test_the_answers_of_several_classes_are_the_events_of_a_top_label_report():
    labels, probs = report_data.class_rows(800, 4, 1.5, 5)
    found = report(labels, probs).findings.key_numbers
    right = probs.argmax(axis=1) == labels
    assert found.events == right.sum()
    assert found.auc == pytest.approx(roc_auc_score(right, probs.max(axis=1)), abs=1e-12)


def test_a_table_has_events_and_no_auc():
    y, p = report_data.event_rows(500, 1.0, 3)
    found = report(calibrant.tabulate(y, p, bins=10)).findings.key_numbers
    assert found.events == y.sum()
    assert found.observed_to_expected == pytest.approx(y.sum() / p.sum())
    assert found.low < found.observed_to_expected < found.high
    assert (found.auc, found.slope) == (None, None)


@pytest.mark.parametrize(
    ("y", "p"), [([1], [0.5]), ([0, 1], [0.0, 1.0]), ([1, 1], [0.2, 0.2]), ([0, 1], [0.0, 0.0])]
)
def test_what_has_no_slope_or_auc_goes_without(y, p):
    made = report(y, p)
    found = made.findings.key_numbers
    assert found.events == sum(y)
    assert (found.auc is None) == (len(set(y)) == 1)
    assert not re.search(r"\bnan\b", made.html.split("<main>")[1], re.IGNORECASE)


def test_errors_of_rare_events_are_relative_too():
    made = report_data.rare()
    found = made.findings
    share = found.error.value / found.key_numbers.event_rate
    assert found.key_numbers.is_rare
    assert f"{100 * share:.1f}% of the event rate of " in made.html
    assert "of the event rate of" not in report_data.refuted().html


def test_the_card_says_how_sure_observed_over_expected_is():
    made = report_data.refuted()
    found = made.findings.key_numbers
    card = made.html.split('id="verdict"')[1].split("</section>")[0]
    assert found.high < 1  # too few happened, which the estimate alone would not tell
    assert f"95% interval {found.low:.2f} to {found.high:.2f}; 870 events" in card


def test_rows_of_a_model_with_few_outputs_are_not_called_copies():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2000)
    copied = report(np.tile(rng.uniform(size=2000) < p, 3), np.tile(p, 3))
    assert "Repeated rows" in copied.html
    assert report_data.certified().findings.fingerprint.distinct_share < 0.1
    assert "Repeated rows" not in report_data.certified().html


def test_the_numbers_are_in_the_dictionary_of_the_report():
    numbers = report_data.refuted().to_dict()["key_numbers"]
    assert numbers["events"] == 870
    assert report_data.marginal().to_dict()["key_numbers"] is None
