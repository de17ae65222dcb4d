"""calibrant validate: the table of the library, as text, JSON or LaTeX."""

from __future__ import annotations

import json

import calibrant as cb
from predictions_on_disk import CLASS, COLUMNS, LABEL, NAMES, ONE, SCORE, run, same, write


def test_it_prints_what_the_library_prints(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", COLUMNS)
    code, out, _ = run(capsys, "validate", file, *ONE)
    assert (code, out.rstrip("\n")) == (0, str(cb.validate(LABEL, SCORE)))
    _, out, _ = run(capsys, "validate", file, *ONE, "--latex")
    assert out.startswith(r"\begin{tabular}")


def test_json_of_groups_and_of_clusters(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", COLUMNS)
    code, out, _ = run(capsys, "validate", file, *ONE, "--by", "animal", "--json")
    groups = cb.validate(LABEL, SCORE, by={"animal": NAMES[CLASS]})
    assert code == 0
    assert json.loads(out) == json.loads(groups.to_json())
    code, out, _ = run(capsys, "validate", file, *ONE, "--cluster", "animal", "--json")
    assert json.loads(out)["n_clusters"] == len(groups)
    _, out, _ = run(capsys, "validate", file, *ONE, "--by", "animal", "--cluster", "id", "--json")
    both = cb.validate(LABEL, SCORE, by={"animal": NAMES[CLASS]}, cluster=COLUMNS["id"])
    assert same(json.loads(out), json.loads(both.to_json()))


def test_wrong_input_has_its_exit_codes(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", COLUMNS)
    assert run(capsys, "validate", file, *ONE, "--by", "animal", "--cluster", "animal")[0] == 4
    assert run(capsys, "validate", file, "--y-true", "nothing", "--y-prob", "score")[0] == 3
