"""calibrant plan."""

from __future__ import annotations

import json

import pytest

import calibrant as cb
from predictions_on_disk import (
    LABEL,
    SCORE,
    run,
)


def test_levels_may_be_those_of_a_saved_calibrator(tmp_path, csv, capsys):
    fitted = cb.HistogramBinning().fit(SCORE, LABEL)
    fitted.save(tmp_path / "cal.json")
    cb.PlattScaling().fit(SCORE, LABEL).save(tmp_path / "platt.json")
    expected = cb.samples_to_certify(0.05, levels=fitted.levels_)
    code, out, _ = run(
        capsys, "plan", "--max-error", "0.05", "--levels", tmp_path / "cal.json", "--json"
    )
    assert (code, json.loads(out)["rows"]) == (0, expected)
    for file, words in (("platt.json", "finitely many"), ("none.json", "none.json")):
        code, _, err = run(capsys, "plan", "--rows", "9", "--levels", tmp_path / file)
        assert code in (3, 4)
        assert words in err


@pytest.mark.parametrize(
    ("question", "rows", "error"),
    [
        (("--max-error", "0.05"), cb.samples_to_certify(0.05, 10), 0.05),
        (("--rows", "2000"), 2000, cb.smallest_certifiable_error(2000, 10)),
    ],
)
def test_plan_answers_both_questions(question, rows, error, capsys):
    code, out, _ = run(capsys, "plan", *question, "--n-bins", "10", "--json")
    assert code == 0
    answer = json.loads(out)
    assert (answer["rows"], answer["max_error"]) == (rows, error)
    code, out, _ = run(capsys, "plan", *question, "--n-bins", "10")
    assert out.startswith(f"{rows:,} rows certify an error of at most {error:.4g}")


@pytest.mark.parametrize("question", [("--max-error", "0.1"), ("--rows", "1000")])
def test_an_output_that_is_given_twice_is_one_output(question, capsys):
    """The library takes distinct levels, so the plan is that of two outputs and says so."""
    answers = {}
    for levels in ("0.1,0.5,0.1", "0.1,0.5"):
        text = run(capsys, "plan", *question, "--levels", levels)[1]
        document = json.loads(run(capsys, "plan", *question, "--levels", levels, "--json")[1])
        answers[levels] = (text, document)
    assert answers["0.1,0.5,0.1"] == answers["0.1,0.5"]
    assert "the model has 2 outputs" in " ".join(text.split())
    assert (document["n_bins"], document["levels"]) == (2, [0.1, 0.5])
