"""``calibrant report``: files in, one page out."""

from __future__ import annotations

import json
from html import unescape

import numpy as np
import pytest
import report_data

from calibrant.cli import main
from conftest import optional


@pytest.fixture
def scores(tmp_path):
    """A CSV file of 400 rows with nine outputs."""
    optional("pyarrow")
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, size=400) / 10
    y = (rng.uniform(size=400) < p).astype(int)
    lines = ["label,score", *(f"{a},{b}" for a, b in zip(y, p, strict=True))]
    (tmp_path / "preds.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "preds.csv"


def run(*arguments: object) -> int:
    return main(["report", *map(str, arguments)])


def test_a_page_is_written_and_the_summary_printed(scores, tmp_path, capsys):
    out = tmp_path / "page.html"
    code = run(scores, "--y-true", "label", "--y-prob", "score", "--title", "A <b>", "-o", out)
    assert code == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Measured: ")
    assert printed.endswith(f"written to {out}\n")
    text = out.read_text(encoding="utf-8")
    assert "<title>A &lt;b&gt;</title>" in text
    assert f"calibrant report {scores} --y-true label --y-prob score --title 'A <b>'" in unescape(
        text
    )


def test_declared_outputs_are_in_the_command_that_is_shown(scores, tmp_path):
    out = tmp_path / "page.html"
    levels = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"
    columns = ["--y-true", "label", "--y-prob", "score"]
    assert run(scores, *columns, "--max-error", 0.3, "--levels", levels, "-o", out) == 0
    text = unescape(out.read_text(encoding="utf-8"))
    assert f"--levels {levels}" in text
    assert "9 that were declared" in text


@pytest.mark.parametrize(("limit", "code"), [(0.3, 0), (0.02, 2)])
def test_the_exit_code_is_the_verdict(scores, tmp_path, limit, code):
    columns = ["--y-true", "label", "--y-prob", "score"]
    assert run(scores, *columns, "--max-error", limit, "-o", tmp_path / "page.html") == code


def test_a_refuted_model_leaves_with_one_and_still_has_a_page(tmp_path, capsys):
    labels, probs = report_data.class_rows(1000, 3, 3.0, 1)
    np.savez(tmp_path / "preds.npz", labels=labels, probs=probs)
    out = tmp_path / "page.html"
    code = run(tmp_path / "preds.npz", "--max-error", "0.01", "--kind", "marginal", "-o", out)
    assert code == 1
    assert capsys.readouterr().out.startswith("Refuted: ")
    assert "Refuted</h2>" in out.read_text(encoding="utf-8")


def test_json_has_the_main_numbers(scores, tmp_path, capsys):
    columns = ["--y-true", "label", "--y-prob", "score"]
    run(scores, *columns, "--max-error", 0.3, "--json", "-o", tmp_path / "page.html")
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "certified"
    assert found["error"]["n"] == 400
    assert found["upper_bound"] <= 0.3
    assert set(found["brier"]) >= {"value", "miscalibration", "discrimination", "uncertainty"}


def test_bad_input_is_named_by_file_and_row_and_leaves_the_old_page(scores, tmp_path, capsys):
    scores.write_text("label,score\n1,0.5\n0,1.5\n", encoding="utf-8")
    out = tmp_path / "page.html"
    out.write_text("old", encoding="utf-8")
    assert run(scores, "--y-true", "label", "--y-prob", "score", "-o", out) == 3
    said = capsys.readouterr().err
    assert "preds.csv" in said
    assert "1.5" in said
    assert out.read_text(encoding="utf-8") == "old"


def test_a_folder_that_is_not_there_is_said(scores, tmp_path, capsys):
    columns = ["--y-true", "label", "--y-prob", "score"]
    assert run(scores, *columns, "-o", tmp_path / "no" / "page.html") == 3
    assert "No such file or directory" in capsys.readouterr().err
