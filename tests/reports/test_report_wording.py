"""The first sentence of a report, for each verdict."""

from __future__ import annotations

import re

import numpy as np
import pytest
import report_data

from calibrant import ReliabilityDisplay, normal_quantiles, report, tabulate
from calibrant.reports.wording import percent, points
from calibrant.table import describe_bins


@pytest.fixture
def quick_plans(monkeypatch):
    """Plan for one limit instead of three: each takes a second."""
    monkeypatch.setattr("calibrant.reports.findings.TOLERANCES", (0.05,))


def test_a_certified_model():
    certified = report_data.certified()
    first, *rest = certified.summary.splitlines()
    assert first.startswith("Certified: The predicted probabilities are off by at most ")
    assert (
        "in the root mean square over all rows, within the limit of 4.0. This holds with" in first
    )
    assert "In no group of rows does what happened leave the range that chance allows." in rest


def test_a_refuted_model():
    refuted = report_data.refuted()
    first, *rest = refuted.summary.splitlines()
    assert first.startswith("Refuted: The predicted probabilities are off by at least ")
    assert "more than the limit of 2.0" in first
    assert rest[1].startswith("On average it said ")
    assert rest[2].startswith("Where it matters most: in ")


@pytest.mark.usefixtures("quick_plans")
def test_too_few_rows():
    rng = np.random.default_rng(0)
    p = rng.integers(1, 4, size=200) / 4
    made = report(rng.uniform(size=200) < p, p, max_error=0.02)
    assert made.summary.startswith("Undecided: 200 rows are not enough to decide.")


def test_continuous_outputs_that_are_not_refuted():
    made = report(*report_data.event_rows(500, 1.0, 1), max_error=0.2)
    assert made.summary.startswith("Undecided: These rows do not show that the limit of 20.0 ")
    assert "outputs are continuous" in made.summary
    assert "ScalingBinning(bins=10)" in made.html


@pytest.mark.usefixtures("quick_plans")
def test_labels_that_agree_too_well():
    p = np.repeat(np.arange(1, 40) / 40, 4000)
    y = np.concatenate([np.arange(4000) % 40 < k for k in range(1, 40)])
    made = report(y, p, max_error=0.02)
    assert made.summary.startswith("Undecided: The labels agree with the predictions better than")
    unlimited = report(y, p)
    assert unlimited.summary.startswith("Measured: The labels agree with the predictions better")


def test_without_a_limit_the_error_is_measured():
    marginal = report_data.marginal()
    first, *_, last = marginal.summary.splitlines()
    assert first.startswith(
        "Measured: In groups of similar predictions, the predicted probabilities of the classes"
    )
    assert "the true error may be larger" in marginal.summary
    assert "95% interval" in first
    assert last.endswith("off by more than chance allows.")


def test_a_calibrated_model_without_a_limit():
    made = report(*report_data.event_rows(2000, 1.0, 3))
    assert made.summary.startswith("Measured: No error can be told from chance.")


@pytest.mark.usefixtures("quick_plans")
def test_the_error_of_a_model_of_few_outputs_is_not_called_a_lower_bound():
    made = report([0, 1, 1, 1] * 500, [0.25, 0.5] * 1000)
    assert made.summary.startswith("Measured: The predicted probabilities are off by about ")
    assert "may be larger" not in made.summary


def test_answers_of_several_classes():
    made = report(*report_data.class_rows(2000, 4, 2.0, 4), max_error=0.01)
    assert "The model's stated confidence in its answers is off by at least" in made.summary
    assert "Its average confidence is " in made.summary


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0312, "3.1"), (0.0012, "0.12"), (0.00004, "0.004"), (0, "0"), (1, "100.0")],
)
def test_errors_in_percentage_points(value, expected):
    assert points(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, "50%"), (0.999, "99.9%"), (0, "0%"), (0.0042, "0.42%"), (1e-7, "<0.001%")],
)
def test_shares_in_percent(value, expected):
    assert percent(value) == expected


def test_the_representation_is_one_line_and_in_a_notebook_it_is_escaped():
    refuted = report_data.refuted()
    assert repr(refuted).startswith("<Report: Refuted: ")
    assert "\n" not in repr(refuted)
    assert refuted._repr_html_().startswith("<pre>Refuted: ")
    assert refuted._repr_html_().count("<svg ") == 1


@pytest.mark.usefixtures("quick_plans")
def test_the_verdict_says_which_groups_it_does_not_hold_for():
    rng = np.random.default_rng(0)
    p = rng.integers(1, 4, size=20_000) / 4
    site = np.where(np.arange(p.size) % 20 == 0, "north", "south")
    small = np.where(np.arange(p.size) < 30, "west", site)
    right, wrong = rng.uniform(size=p.size) < p, site == "north"
    y = np.where(wrong, rng.uniform(size=p.size) < p**3, right)
    first = report(y, p, max_error=0.1, by={"site": small}).summary.splitlines()[0]
    assert first.startswith("Certified: ")
    assert "Not every group is certified: of 3 groups by site, 1 is refuted and 1 is undec" in first
    assert "the worst, north, is off by at least " in first
    even = report(right, p, max_error=0.1, by={"site": site}).summary.splitlines()[0]
    assert even.endswith("Each of the 2 groups by site is certified by itself, all at once.")


KINDS = {"multi-label": "label", "ordinal": "threshold", "quantile": "level"}


def several_events(kind, n=300):
    rng = np.random.default_rng(0)
    if kind == "quantile":
        levels = (0.1, 0.5, 0.9)
        q = normal_quantiles(np.zeros(n), 0.7, levels)
        return rng.normal(size=n), q, {"kind": kind, "classes": levels}
    p = rng.dirichlet(np.ones(4), size=n)
    if kind == "multi-label":
        return (rng.uniform(size=p.shape) < p).astype(int), p, {"kind": kind}
    return (p.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1), p, {"kind": kind}


@pytest.mark.parametrize(("kind", "part"), KINDS.items())
@pytest.mark.usefixtures("quick_plans")
def test_labels_thresholds_and_levels_are_not_called_classes(kind, part):
    y, p, options = several_events(kind)
    made = report(y, p, **options)
    shown = re.sub(r"<(style|script)\b.*?</\1>|<[^>]*>", " ", made.html, flags=re.DOTALL)
    assert f"Each {part}" in shown
    assert f"{part.capitalize()}s beyond chance" in shown
    words = re.findall(r"\bclass(?:es)?\b(?! or a lower)", shown, flags=re.IGNORECASE)
    assert words == ["classes"] * (kind == "ordinal"), "those that are ordered"
    assert f"per {part}" in describe_bins(tabulate(y, p, bins=3, **options)) or kind == "quantile"
    grid = ReliabilityDisplay.grid(y, p, draw=False, **options)
    assert grid.by == f"{part}s"


def test_a_grid_of_labels_is_titled_so():
    y, p, options = several_events("multi-label")
    grid = ReliabilityDisplay.grid(y, p, n_max=2, **options)
    assert grid.figure_.get_suptitle().startswith("2 worst of 4 labels: ")
    assert grid.axes_[0, 0].get_title().startswith("label ")
    assert grid.figure_.get_supxlabel() == "predicted probability of the label"


def test_no_verdict_is_said_to_hold_that_was_not_reached(quick_plans):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=500)
    made = report(rng.uniform(size=500) < p, p, max_error=0.01)
    assert made.findings.certificate.verdict == "undecided"
    headings = re.findall("<h2[^>]*>([^<]*)", made.html)
    assert "What these numbers rest on" in headings
    assert not any("hold" in heading for heading in headings)


@pytest.mark.parametrize(
    ("n_small", "told"),
    [
        (1, "1 group has too few rows to be certified even if calibrated: "),
        (2, "2 groups have too few rows to be certified even if calibrated: up to "),
    ],
)
def test_groups_that_are_too_small_are_told_in_grammar(n_small, told):
    rng = np.random.default_rng(0)
    p = rng.integers(1, 4, size=4000) / 4
    site = np.repeat([0, *range(1, n_small + 1)], [4000 - 50 * n_small, *[50] * n_small])
    made = report(rng.uniform(size=4000) < p, p, max_error=0.1, by={"site": site})
    assert told in made.html
