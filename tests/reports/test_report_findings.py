"""The numbers on the page are those of the library."""

from __future__ import annotations

import numpy as np
import pytest
import report_data

import calibrant
from calibrant import Distinct, EqualWidth, report, stats
from calibrant.exceptions import InvalidArgumentError, InvalidProbabilitiesError
from calibrant.reports.findings import gain_of
from conftest import optional


@pytest.fixture
def quick_plans(monkeypatch):
    """Plan for one limit instead of three: each takes a second."""
    monkeypatch.setattr("calibrant.reports.findings.TOLERANCES", (0.05,))


@pytest.mark.usefixtures("quick_plans")
def test_error_interval_and_verdict_are_those_of_the_library():
    y, p = report_data.event_rows(3000, 1.5, 4)
    found = report(y, p, max_error=0.03, confidence_level=0.9).findings
    direct = calibrant.calibration_error(y, p)
    assert found.error.value == direct.value
    assert tuple(found.interval) == tuple(direct.confidence_interval(0.9))
    proof = calibrant.certify(y, p, max_error=0.03, confidence_level=0.9)
    assert found.certificate.to_dict() == proof.to_dict()


@pytest.mark.usefixtures("quick_plans")
def test_declared_outputs_sharpen_bounds_and_plans_as_in_certify():
    rng = np.random.default_rng(0)
    levels = np.array([0.002, 0.01, 0.03])
    p = rng.choice(levels, size=2000)
    y = rng.uniform(size=2000) < p
    plain = report(y, p, max_error=0.05).findings
    made = report(y, p, max_error=0.05, levels=levels)
    proof = calibrant.certify(y, p, max_error=0.05, levels=levels)
    assert made.findings.certificate.to_dict() == proof.to_dict()
    assert proof.upper_bound < plain.certificate.upper_bound
    needed = stats.samples_to_certify(0.05, levels=levels)
    assert made.findings.plan.needed == [(0.05, needed)] != plain.plan.needed
    assert "levels=[0.002, 0.01, 0.03]" in made.html


def test_few_distinct_outputs_are_their_own_bins():
    certified = report_data.certified()
    assert certified.findings.error.is_lower_bound is False
    assert len(certified.findings.curve) == 9
    assert certified.findings.certificate.verdict == "certified"


def test_bins_that_were_asked_for_are_used_for_the_error_and_not_for_the_verdict():
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, size=2000) / 10
    found = report(rng.uniform(size=2000) < p, p, bins=EqualWidth(3), max_error=0.5).findings
    assert len(found.curve) == 3
    assert found.certificate.verdict == "certified"


def test_classes_come_worst_first_with_the_errors_of_the_library():
    marginal = report_data.marginal()
    found = marginal.findings.classes
    per_class = marginal.findings.error.per_class
    assert [per_class[label] for label in found.labels] == found.error.tolist()
    assert (np.diff(found.error) <= 0).all()
    level = 1 - 0.05 / (2 * 6)  # for all six classes at once, each by two intervals
    for label, low, high in zip(found.labels, found.low, found.high, strict=True):
        table = marginal.findings.table
        alone = stats.calibration_error(table, class_weight={label: 1.0}).confidence_interval(level)
        assert high == pytest.approx(alone.high, abs=1e-12)
        assert low == 0 or low >= alone.low - 1e-12


def test_a_top_label_report_has_the_answers_and_every_class():
    labels, probs = report_data.class_rows(1500, 5, 1.5, 5)
    found = report(labels, probs).findings
    assert found.curve is not None
    assert len(found.classes) == 5
    marginal_error = calibrant.calibration_error(labels, probs, kind="marginal").per_class
    assert max(found.classes.error) == max(marginal_error.values())


def test_calibrated_classes_are_not_called_beyond_chance():
    labels, probs = report_data.class_rows(4000, 8, 1.0, 6)
    assert report(labels, probs, kind="marginal").findings.classes.beyond_chance.sum() == 0


def test_recalibration_is_tried_on_a_part_of_many_rows(monkeypatch):
    monkeypatch.setattr("calibrant.reports.findings.MOST_ROWS", 500)
    y, p = report_data.event_rows(2000, 2.0, 9)
    found = gain_of(p, y.astype(int))
    assert (found.n_used, found.n) == (500, 2000)
    assert found.is_worthwhile
    assert found.amount[0] > 0


def test_too_few_rows_are_not_cross_validated():
    found = gain_of(np.array([0.2, 0.7]), np.array([0, 1]))
    assert found.scores is None
    assert not found.is_worthwhile


@pytest.mark.parametrize("n_classes", [3, 101])
def test_only_temperature_is_tried_for_very_many_classes(n_classes):
    labels, probs = report_data.class_rows(200, n_classes, 1.2, 10)
    names = [str(each) for each in gain_of(probs, labels).scores.candidates]
    assert ("VectorScaling()" in names) is (n_classes <= 100)


def test_the_plan_is_for_the_outputs_of_the_model():
    certified = report_data.certified()
    plan = certified.findings.plan
    assert (plan.n_outputs, plan.is_own) == (9, True)
    assert dict(plan.needed)[0.04] == calibrant.samples_to_certify(0.04, 9)
    assert [limit for limit, _ in plan.needed] == [0.05, 0.04, 0.02, 0.01]


def test_the_plan_of_continuous_outputs_is_for_ten_bins():
    refuted = report_data.refuted()
    assert (refuted.findings.plan.n_outputs, refuted.findings.plan.is_own) == (10, False)


def test_the_fingerprint_does_not_depend_on_the_order_of_rows():
    y, p = report_data.event_rows(300, 1.0, 11)
    a, b = report(y, p).findings, report(y[::-1], p[::-1]).findings
    assert a.fingerprint.same_rows(b.fingerprint)


@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([1], [0.5]),
        ([0, 1], [0.0, 1.0]),
        ([1, 1, 1], [0.2, 0.2, 0.2]),
        ([0] * 60, [0.5] * 60),
        ([0, 1] * 40, [0.0] * 80),
    ],
)
@pytest.mark.usefixtures("quick_plans")
def test_the_smallest_and_strangest_inputs_have_a_report(y, p):
    made = report(y, p, max_error=0.1)
    assert made.html.startswith("<!doctype html>")
    assert made.summary


def test_an_absent_class_is_reported_too():
    labels, probs = report_data.class_rows(200, 4, 1.0, 12)
    made = report(np.where(labels == 3, 0, labels), probs, kind="marginal")
    assert len(made.findings.classes) == 4


def test_wrong_input_is_the_usual_exception():
    with pytest.raises(InvalidProbabilitiesError):
        report([0, 1], [0.5, 1.5])
    with pytest.raises(InvalidArgumentError, match="max_error"):
        report([0, 1], [0.5, 0.5], max_error=2)


@pytest.mark.usefixtures("quick_plans")
def test_columns_of_a_frame_are_named_on_the_page():
    frame = {"<label>": [0, 1] * 20, "score": [0.2, 0.8] * 20}
    made = report("<label>", "score", data=frame, bins=Distinct())
    assert "&lt;label&gt;; score" in made.html
    assert "<label>" not in made.html


def test_a_lazy_frame_gives_the_report_of_its_rows():
    polars = optional("polars")
    y, p = report_data.event_rows(300, 1.2, 13)
    frame = polars.DataFrame({"label": y, "score": p}).lazy()
    lazy, direct = report("label", "score", data=frame).findings, report(y, p).findings
    assert lazy.error.value == pytest.approx(direct.error.value)
    assert lazy.fingerprint.same_rows(direct.fingerprint)


@pytest.mark.usefixtures("quick_plans")
def test_a_table_gives_the_numbers_of_its_rows_and_says_what_needs_rows():
    y, p = report_data.event_rows(2000, 1.5, 14)
    table = calibrant.tabulate(y, p, bins=20)
    made, direct = report(table, max_error=0.03), report(y, p, bins=20, max_error=0.03)
    assert made.findings.error.value == direct.findings.error.value
    assert tuple(made.findings.interval) == tuple(direct.findings.interval)
    assert made.findings.fingerprint is None
    assert "has no rows to try a recalibrator" in made.html
    assert "calibrant.report(table, max_error=0.03)" in made.html


def test_options_about_rows_are_refused_beside_a_table():
    table = calibrant.tabulate([0, 1], [0.2, 0.9], bins=1)
    for options in ({"y_prob": [0.2, 0.9]}, {"kind": "binary"}, {"bins": 5}, {"data": {}}):
        with pytest.raises(InvalidArgumentError, match=f"{next(iter(options))}="):
            report(table, **options)


@pytest.mark.usefixtures("quick_plans")
@pytest.mark.parametrize("n_classes", [1, 4])
def test_logits_give_the_report_of_their_probabilities(n_classes):
    if n_classes == 1:
        y, p = report_data.event_rows(400, 1.3, 15)
        logits = np.log(p / (1 - p))
    else:
        y, p = report_data.class_rows(400, n_classes, 1.3, 15)
        logits = np.log(p) + 3.0
    direct = report(y, p).findings
    made = report(y, logits, input="logits")
    assert made.findings.error.value == pytest.approx(direct.error.value, rel=1e-6)
    assert made.findings.gain.scores.loss == pytest.approx(direct.gain.scores.loss, rel=1e-4)
    assert "input=&#x27;logits&#x27;" in made.html
