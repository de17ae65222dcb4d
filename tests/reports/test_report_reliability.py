"""The diagram of a report, and its tables and diagrams of classes and of groups."""

from __future__ import annotations

import numpy as np
import pytest
import report_data

import calibrant
from calibrant import report


@pytest.mark.slow
def test_a_thousand_classes_with_endless_names_stay_under_two_megabytes():
    labels, probs = report_data.class_rows(1200, 1000, 1.2, 6)
    names = [f"{i}" + "<&'\"\u202e好" * 2000 for i in range(1000)]
    made = report(np.array(names, object)[labels], probs, kind="marginal", classes=names)
    assert len(made.findings.classes) == 1000
    assert len(made.html.encode()) < 2_000_000


def test_beyond_a_thousand_classes_the_worst_are_shown(monkeypatch):
    monkeypatch.setattr("calibrant.reports.curves.MOST_CLASSES", 3)
    labels, probs = report_data.class_rows(400, 5, 1.2, 7)
    made = report(labels, probs, kind="marginal")
    assert len(made.findings.classes) == 3
    assert "of the largest error are shown." in made.html


def test_groups_have_a_table_and_diagrams_of_the_worst_six():
    made = report_data.grouped()
    audit = made.findings.audit
    part = made.html.split('id="groups"')[1].split("</section>")[0]
    assert audit.verdict == "refuted"
    assert audit.groups[0].group == (report_data.HOSTILE[1],)
    assert part.count("<figure>") == 6
    assert part.count("<tr>") == 1 + len(audit)
    assert "1 refuted" in part
    assert f"all {len(audit)} groups at once" in part
    assert made.to_dict()["audit"]["verdict"] == "refuted"
    assert "by=[" in made.html


def test_tables_of_groups_make_a_report_without_rows():
    rng = np.random.default_rng(3)
    p = rng.integers(1, 4, size=900) / 4
    y = rng.uniform(size=900) < p
    tables = calibrant.tabulate(y, p, by={"site": np.arange(900) % 2}, bins="distinct")
    made = report(tables)
    assert made.findings.error.n == 900
    assert [group.n for group in made.findings.audit.groups] == [450, 450]
    assert "Verdict</th>" not in made.html.split('id="groups"')[1].split("</section>")[0]


def test_the_marginal_view_opens_with_the_six_worst_classes():
    made = report_data.hostile()
    labels, probs = report_data.class_rows(2000, 9, 1.4, 3)
    part = report(labels, probs, kind="marginal").html.split('id="diagram"')[1].split("<h2")[1]
    assert part.count("<figcaption><bdi>") == 6
    assert "The 6 classes that are off most" in part
    assert part.index("The 6 classes") < part.index('id="diagram-svg"')
    assert 'class="panels"' not in made.html  # a top-label report opens with all answers


def test_rare_events_have_a_closer_look_and_others_have_none():
    assert 'id="closer"' in report_data.rare().html
    assert 'id="closer"' not in report_data.refuted().html
    curve = report_data.rare().findings.curve
    rows = sum(part.sum() for part in vars(curve.frame.histogram).values())
    assert rows == (report_data.rare().findings.curve.alone.count.sum())
    closer = sum(part.sum() for part in vars(curve.closer.histogram).values())
    assert 2 / 3 * rows <= closer < rows
