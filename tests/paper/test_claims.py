"""Every claim of the paper has a study that can check it, and is shown with its unit."""

from __future__ import annotations

from pathlib import Path

from calibrant.paper import CLAIMS, STUDIES, Claim
from calibrant.paper.claims import show
from calibrant.paper.page import markdown_table
from calibrant.paper.verdicts import RULES

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
