"""Claims have studies that check them, are shown with their units, and judged by stated rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_studies import result, splits

from calibrant.paper import CLAIMS, STUDIES, Claim, Finding, judge
from calibrant.paper.claims import RULES, claim_lines, lines_of, show, tally, worded
from calibrant.paper.page import markdown_table
from calibrant.paper.uncertainty import Estimate, about, over_splits

ROOT = Path(__file__).resolve().parents[2]


def claim(**changes):
    return Claim("s", "k", "here", "it is so", **changes)


def test_every_claim_belongs_to_a_study_and_a_rule():
    assert {each.study for each in CLAIMS} <= set(STUDIES)
    assert {each.rule for each in CLAIMS} <= set(RULES)
    keys = [(each.study, each.key, each.dataset) for each in CLAIMS]
    assert len(set(keys)) == len(keys)
    covered = {each.study for each in CLAIMS}
    assert covered == {name for name, each in STUDIES.items() if not each.is_beyond}


def test_numbers_are_shown_with_three_digits_in_their_unit():
    assert show(0.0123456) == "0.0123"
    assert show(1234.5) == "1,234"
    assert show(1.5e-15) == "1.50e-15"
    assert claim(value=2.0, se=0.06, unit="x").paper == "2.00x ± 0.06x"
    assert claim(value=-0.02, se=0.07, unit="%").paper == "-2.0% ± 7%"


def test_the_page_of_documentation_has_the_table_of_all_claims_of_now():
    text = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    inside = text.split("<!-- claims -->")[1].split("<!-- end of claims -->")[0]
    table = [line for line in inside.splitlines() if line.startswith("| ")]
    assert len(table) == len(CLAIMS) + 1
    blank = markdown_table([]).splitlines()[2:]
    for written, expected in zip(table[1:], blank, strict=True):
        assert written.split(" | ")[:3] == expected.split(" | ")[:3]


@pytest.mark.parametrize(
    ("rule", "value", "estimate", "verdict"),
    [
        ("number", 2.0, about(2.15, 0.1), "agree"),
        ("number", 2.0, about(2.6, 0.1), "disagree"),
        ("above", 1.0, about(2.0, 0.1), "agree"),
        ("above", 1.0, about(1.05, 0.1), "undecided"),
        ("above", 1.0, about(0.5, 0.1), "disagree"),
        ("below", 1.0, about(0.5, 0.1), "agree"),
        ("below", 1.0, about(2.0, 0.1), "disagree"),
        ("in range", 15.0, Estimate(10, 5, 10, 20), "agree"),
        ("in range", 25.0, Estimate(10, 5, 10, 20), "disagree"),
    ],
)
def test_every_rule_has_its_verdicts(rule, value, estimate, verdict):
    assert judge(claim(rule=rule, value=value, repeats=100), Finding("k", estimate, 100)) == verdict


def test_the_paper_s_own_error_and_rounding_widen_what_agrees():
    finding = Finding("k", about(2.3, 0.1), 100)
    assert judge(claim(value=2.0, se=0.0), finding) == "disagree"
    assert judge(claim(value=2.0, se=0.2), finding) == "agree"
    assert judge(claim(value=2.0, se=0.0, rounding=0.11), finding) == "agree"


def test_rounding_widens_the_range_of_the_splits():
    finding = Finding("k", Estimate(10, 5, 10, 20), 100)
    assert judge(claim(rule="in range", value=20.4), finding) == "disagree"
    assert judge(claim(rule="in range", value=20.4, rounding=0.5), finding) == "agree"


@pytest.mark.parametrize(
    ("values", "verdict", "words"),
    [
        ([1.3] * 12, "agree", "agree, in 12 of 12 splits"),
        ([1.3] * 9 + [0.8], "agree", "agree, in 9 of 10 splits"),
        ([1.3] * 2 + [0.8] * 10, "varies", "varies, agrees in 2 of 12 splits"),
        ([1.3] + [0.8] * 9, "disagree", "disagree, agrees in 1 of 10 splits"),
        ([1.3] * 6 + [1.0] * 4, "varies", "varies, agrees in 6 of 10 splits, undecided in 4"),
        ([0.8] * 9, "undecided", "undecided, agrees in 0 of 9 splits"),
        ([0.8], "undecided", "undecided, agrees in 0 of 1 split"),
        ([1.0] * 10, "undecided", "undecided, agrees in 0 of 10 splits, undecided in 10"),
        ([1.3], "agree", "agree, in 1 of 1 split"),
    ],
)
def test_a_claim_from_one_split_is_judged_in_every_split(values, verdict, words):
    finding, about_one = splits(*values), claim(rule="above", value=1.0)
    assert judge(about_one, finding) == verdict
    assert worded(about_one, finding) == words


def test_the_other_direction_counts_the_splits_below():
    assert worded(claim(rule="below", value=1.0), splits(0.5, 1.5, 1.6)) == (
        "varies, agrees in 1 of 3 splits"
    )


def test_the_words_tell_how_the_authors_split_comes_out():
    above = claim(rule="above", value=1.0)
    mixed = [1.3, *[0.8] * 11]
    assert worded(above, splits(*mixed, authors=True)) == (
        "disagree, agrees in 1 of 12 splits, the authors' among them"
    )
    assert worded(above, splits(*mixed[::-1], authors=True)) == (
        "disagree, agrees in 1 of 12 splits, not in the authors'"
    )
    assert worded(above, splits(1.0, 1.3, 0.8, authors=True)) == (
        "varies, agrees in 1 of 3 splits, undecided in the authors', undecided in 1"
    )
    assert worded(above, splits(1.3, 1.2, authors=True)) == "agree, in 2 of 2 splits"


def test_a_number_from_one_split_is_counted_where_it_is_reached():
    paper = claim(rule="in range", value=100)
    finding = splits(20, 100, 90, 100, authors=True, se=0.0)
    assert worded(paper, finding) == "agree, at least that in 2 of 4 splits, 20.0 in the authors'"
    assert worded(paper, splits(20, 30)) == "undecided, at least that in 0 of 2 splits"
    assert worded(paper, splits(*range(20))) == "disagree, at least that in 0 of 20 splits"


def test_without_splits_the_words_are_the_verdict():
    assert worded(claim(rule="above", value=1.0), Finding("k", about(2.0, 0.1), 10)) == "agree"


def test_a_line_has_the_verdict_and_its_words():
    each = [[Finding("least-15", about(value, 0.01), 100)] for value in (1.2, 0.8, 0.9)]
    found = result("estimators-ece", over_splits(each, True), {"dataset": "cifar10"})
    (line,) = lines_of(found)
    assert (line.verdict, line.splits) == ("varies", "1 of 3")
    assert line.worded == "varies, agrees in 1 of 3 splits, the authors' among them"
    assert "| **varies**, agrees in 1 of 3 splits, the authors' among them |" in markdown_table(
        [found]
    )
    assert "1 vary with the split" in tally(claim_lines([found]))


def test_a_paper_without_an_error_is_given_that_of_its_repeats():
    finding = Finding("k", about(2.35, 0.1), 400)
    assert judge(claim(value=2.0, repeats=400), finding) == "disagree"
    assert judge(claim(value=2.0, repeats=100), finding) == "agree"


def test_claims_about_other_data_cannot_be_checked():
    found = Finding("gain", about(0.3, 0.01), 100)
    data = {"dataset": "mine"}
    lines = claim_lines([result("calibrators-marginal", [found], data)])
    line = next(each for each in lines if each.study == "calibrators-marginal")
    assert line.verdict == "cannot be checked"
    assert "CIFAR-10 predictions" in line.note


def test_findings_without_a_claim_are_beyond_the_paper():
    found = Finding("gain", about(0.3, 0.01), 100, "a number", unit="%")
    (line,) = lines_of(result("calibrators-marginal", [found], {"dataset": "mine"}))
    assert (line.verdict, line.ours) == ("beyond the paper", "30.0%")
