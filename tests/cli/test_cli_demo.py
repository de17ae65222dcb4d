"""calibrant demo."""

from __future__ import annotations

import pytest

from predictions_on_disk import run


@pytest.mark.slow
def test_the_demo_fits_a_screen_and_writes_a_report(tmp_path, capsys):
    report = tmp_path / "report.html"
    code, out, err = run(capsys, "demo", "-o", report)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines[:-1])) <= 90  # the last line is a path
    assert lines[-1] == f"Report: {report}"
    assert any("as it is" in line and "refuted" in line for line in lines)
    assert any("scaling-binning" in line and "certified" in line for line in lines)
    assert any("undecided" in line for line in lines)
    page = report.read_text(encoding="utf-8")
    card = page.split('id="verdict"')[1].split("</section>")[0]
    assert "Certified" in card
    assert "before: refuted" in card
    assert card.count('class="diagram"') == 2
