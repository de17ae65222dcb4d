"""calibrant audit: every group at once, and the verdict is an exit code."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import CLASS, COLUMNS, LABEL, NAMES, ONE, SCORE, run, same, write

WRONG = np.where(CLASS == 1, 1 - LABEL, LABEL)
BY = ("--by", "animal")


@pytest.fixture(params=[".csv"])
def file(request, tmp_path):
    return write(tmp_path / f"preds{request.param}", COLUMNS | {"label": WRONG})


def test_an_audit_says_what_the_library_says(file, capsys):
    code, out, _ = run(capsys, "audit", file, *ONE, *BY, "--max-error", "0.3", "--json")
    expected = cb.audit(WRONG, SCORE, by={"animal": NAMES[CLASS]}, max_error=0.3)
    assert code == 1
    assert same(json.loads(out), json.loads(expected.to_json()))
    assert json.loads(out)["groups"][0]["group"] == ["dog"]


@pytest.mark.parametrize(("limit", "code"), [("0.3", 0), ("0.01", 2)])
def test_the_verdict_is_the_exit_code(limit, code, tmp_path, capsys):
    file, junit = write(tmp_path / "p.csv"), tmp_path / "gate.xml"
    options = ("--max-error", limit, "--junit", junit, "-o", tmp_path / "audit.json")
    found, out, _ = run(capsys, "audit", file, *ONE, *BY, *options)
    assert found == code
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.get("failures") == ("0" if code == 0 else suite.get("tests"))
    saved = json.loads((tmp_path / "audit.json").read_text())
    assert out.startswith(saved["verdict"])


@pytest.mark.parametrize("command", ["audit", "certify"])
def test_every_group_is_a_test_of_its_own_in_junit(command, file, tmp_path, capsys):
    junit = tmp_path / "gate.xml"
    code, _, _ = run(capsys, command, file, *ONE, *BY, "--max-error", "0.3", "--junit", junit)
    suite = ElementTree.parse(junit).getroot()[0]
    groups = cb.audit(WRONG, SCORE, by={"animal": NAMES[CLASS]}, max_error=0.3).groups
    names = [case.get("name") for case in suite]
    first = f"{command} {file}"
    assert (code, names[0], suite.get("tests")) == (1, first, str(1 + len(groups)))
    assert sorted(names[1:]) == sorted(f"{first}: {group.group[0]}" for group in groups)
    dog = suite[names.index(f"{first}: dog")]
    assert (dog[0].tag, dog[0].get("type"), "dog" in dog.get("name")) == (
        "failure",
        "refuted",
        True,
    )
    failures = sum(case[0].tag == "failure" for case in suite)
    assert failures == int(suite.get("failures")) < len(suite)


def test_tables_of_groups_are_audited_in_place_of_rows(tmp_path, capsys):
    file, table = write(tmp_path / "p.csv"), tmp_path / "t.json"
    run(capsys, "measure", file, *ONE, *BY, "--bins", "distinct", "--table", table)
    code, out, _ = run(capsys, "audit", table, "--max-error", "0.3")
    assert (code, out) == run(capsys, "audit", file, *ONE, *BY, "--max-error", "0.3")[:2]


def test_a_long_audit_shows_how_far_it_is_on_a_terminal(tmp_path, capsys, monkeypatch):
    file = write(tmp_path / "p.csv")
    assert "auditing" not in run(capsys, "audit", file, *ONE, *BY, "--max-error", "0.3")[2]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("calibrant.cli.output.REDRAW_SECONDS", 0)
    monkeypatch.setenv("TERM", "xterm")
    _, _, shown = run(capsys, "audit", file, *ONE, *BY, "--max-error", "0.3")
    assert "auditing [#######-------------]  33%  of the groups" in shown
    assert shown.endswith("\033[K")


def test_groups_are_needed(tmp_path, capsys):
    code, _, message = run(capsys, "audit", write(tmp_path / "p.csv"), *ONE, "--max-error", "0.3")
    assert code == 4
    assert "An audit needs groups" in message
