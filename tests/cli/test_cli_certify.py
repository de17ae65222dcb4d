"""calibrant certify and audit: a verdict is an exit code."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant as cb
from calibrant.recalibrators import load
from predictions_on_disk import (
    CLASS,
    COLUMNS,
    LABEL,
    MANY,
    NAMES,
    ONE,
    PROBS,
    SCORE,
    SUFFIXES,
    N,
    run,
    same,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.fixture(params=SUFFIXES)
def file(request, tmp_path):
    return write(tmp_path / f"preds{request.param}")


@pytest.mark.parametrize(
    ("column", "norm", "max_error", "code", "verdict"),
    [
        ("score", "l2", 0.2, 0, "certified"),
        ("squared", "l2", 0.05, 1, "refuted"),
        ("score", "l1", 0.001, 2, "undecided"),
        ("prob_0", "max", 0.05, 1, "refuted"),
        ("prob_0", "max", 0.9, 2, "undecided"),
    ],
)
def test_certify_has_an_exit_code_for_each_verdict(
    tmp_path, file, capsys, column, norm, max_error, code, verdict
):
    saved = tmp_path / "certificate.json"
    options = ("--y-true", "label", "--y-prob", column, "--max-error", max_error, "--norm", norm)
    got, out, _ = run(capsys, "certify", file, *options, "-o", saved)
    expected = cb.certify(LABEL, COLUMNS[column], max_error=max_error, norm=norm)
    statement = " ".join(out.split()).partition(" For comparison: ")[0]
    period = "." if ". " in expected.reason else ""
    assert (got, statement) == (code, f"{verdict}: {expected.reason}{period}")
    assert run(capsys, "recheck", saved)[0] == 0


def test_looks_are_planned_on_the_command_line(tmp_path, csv, capsys):
    saved = tmp_path / "certificate.json"
    gate = ("certify", csv, *ONE, "--norm", "l1", "--max-error", "0.2", "--looks")
    code, out, _ = run(capsys, *gate, "5", "-o", saved)
    assert code == 0
    assert "over 5 looks" in out
    assert cb.Certificate.from_json(saved.read_text()).looks == 5
    assert run(capsys, "recheck", saved)[0] == 0
    assert run(capsys, *gate, "0")[0] == 4
    code, _, err = run(capsys, *gate, "2000000")
    assert code == 4
    assert "looks must be a whole number from 1 to 1,000,000" in err
    code, out, _ = run(capsys, "plan", "--rows", "2000", "--n-bins", "10", "--looks", "5")
    assert (code, "in one look of 5" in out) == (0, True)


def test_levels_target_and_masses_are_those_of_the_library(csv, capsys):
    levels = np.arange(11) / 10
    options = ("--levels", ",".join(map(str, levels)), "--target", "sample")
    for mass in ("0.01", "learned"):
        argv = ("certify", csv, *ONE, "--max-error", "0.2", "--json", "--min-bin-mass", mass)
        expected = cb.certify(
            LABEL, SCORE, max_error=0.2, levels=levels, target="sample",
            min_bin_mass=mass if mass == "learned" else float(mass),
        )  # fmt: skip
        code, out, _ = run(capsys, *argv, *options)
        assert code == 0
        assert json.loads(out)["upper_bound"] == expected.upper_bound
        assert json.loads(out)["assumptions"] == list(expected.assumptions)


@pytest.mark.parametrize(("most", "rule"), [(1000, "distinct-value"), (50, "uniform-mass")])
def test_more_outputs_than_the_limit_are_taken_as_continuous(
    tmp_path, most, rule, capsys, monkeypatch
):
    monkeypatch.setattr("calibrant.sources.files.MOST_OUTPUTS", most)
    file = write(tmp_path / "preds.csv", {"label": LABEL, "score": COLUMNS["raw"].round(2)})
    _, out, _ = run(capsys, "certify", file, *ONE, "--max-error", "0.1", "--json")
    assert json.loads(out)["table"]["bins"][0]["rule"] == rule


def test_a_calibrator_by_group_is_applied_and_audited(tmp_path, csv, capsys):
    cal = tmp_path / "cal.json"
    site = np.where(np.arange(N) % 2, "a", "b")
    cb.ByGroup(cb.PlattScaling()).fit(SCORE, LABEL, by=site).save(cal)
    code, _, err = run(capsys, "certify", csv, *ONE, "--calibrator", cal, "--max-error", "0.1")
    assert (code, "calibrant audit --by" in err) == (4, True)


def test_a_calibrator_can_be_certified_on_fresh_rows_only(tmp_path, capsys):
    half = write(tmp_path / "half.csv", rows=slice(0, N // 2))
    rest = write(tmp_path / "rest.csv", rows=slice(N // 2, N))
    saved = tmp_path / "cal.json"
    options = ("--y-true", "label", "--y-prob", "raw")
    assert run(capsys, "fit", half, *options, "--bins", "5", "-o", saved)[0] == 0
    gate = (*options, "--calibrator", saved, "--max-error", "0.1")
    code, out, _ = run(capsys, "certify", rest, *gate)
    assert (code, out.split(":")[0]) == (0, "certified")
    code, _, err = run(capsys, "certify", half, *gate)
    assert code == 3
    assert "the very rows it was fitted on" in err


def certified(capsys, *options):
    """Certify the fresh rows with cal.json, check them again, and return the certificate."""
    about_rows = ("--calibrator", "cal.json", *options)
    gate = ("certify", "new.csv", *about_rows, "--max-error", "0.9", "-o", "c.json")
    code, _, err = run(capsys, *gate)
    assert code in (0, 2), err
    return json.loads(Path("c.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_the_kind_of_a_certificate_of_a_calibrator_is_the_one_asked_for(animals, kind, capsys):
    run(capsys, "fit", "old.csv", *MANY, "--method", "temperature", "-o", "cal.json")
    found = certified(capsys, *MANY, "--kind", kind, "--bins", "width:3")
    own = load("cal.json").certify(
        PROBS[animals["new"]],
        NAMES[CLASS[animals["new"]]],
        max_error=0.9,
        kind=kind,
        bins=cb.EqualWidth(3),
    )
    assert found["lower_bound"] == pytest.approx(own.lower_bound, rel=1e-9)
    assert found["table"]["problem"]["kind"] == kind
    assert own.table.bins[0] == cb.EqualWidth(3).bins
    again = ("recheck", "c.json", "--data", "new.csv", *MANY, "--calibrator", "cal.json")
    assert run(capsys, *again)[0] == 0


def test_a_calibrator_of_the_top_label_certifies_no_other_kind(animals, capsys):
    run(capsys, "fit", "old.csv", *MANY, "--kind", "top-label", "-o", "cal.json")
    plain, named = certified(capsys, *MANY), certified(capsys, *MANY, "--kind", "top-label")
    assert named["upper_bound"] == plain["upper_bound"]
    gate = ("certify", "new.csv", *MANY, "--calibrator", "cal.json", "--max-error", "0.9")
    code, _, err = run(capsys, *gate, "--kind", "marginal")
    assert (code, "speaks of the top-label error" in err) == (4, True)


@pytest.mark.parametrize(("column", "event"), [("word", "spam"), ("flipped", "0")])
def test_the_event_of_a_certificate_of_a_calibrator_is_the_one_named(
    animals, column, event, capsys
):
    options = ("--y-true", column, "--y-prob", "score", "--pos-label", event)
    run(capsys, "fit", "old.csv", *options, "--bins", "5", "-o", "cal.json")
    found = certified(capsys, *options)
    new = animals["new"]
    own = load("cal.json").certify(SCORE[new], LABEL[new], max_error=0.9)
    assert found["upper_bound"] == pytest.approx(own.upper_bound, rel=1e-9)
    again = ("recheck", "c.json", "--data", "new.csv", *options, "--calibrator", "cal.json")
    assert run(capsys, *again)[0] == 0


def test_the_event_of_a_calibrator_with_named_classes_is_its_second_class(animals, capsys):
    options = ("--y-true", "word", "--y-prob", "score")
    named = (*options, "--classes", "ham,spam")
    run(capsys, "fit", "old.csv", *named, "--bins", "5", "-o", "cal.json")
    by_event = certified(capsys, *options, "--pos-label", "spam")
    assert by_event["upper_bound"] == certified(capsys, *named)["upper_bound"]
    gate = ("certify", "new.csv", *options, "--calibrator", "cal.json", "--max-error", "0.9")
    code, _, err = run(capsys, *gate, "--pos-label", "ham")
    assert (code, "its event is spam; got --pos-label ham" in err) == (4, True)
    code, _, err = run(capsys, *gate, "--classes", "spam,ham")
    assert (code, "ham,spam, in this order; got --classes spam,ham" in err) == (4, True)


def test_groups_are_certified_and_one_that_is_refuted_decides(tmp_path, capsys):
    wrong = np.where(CLASS == 1, 1 - LABEL, LABEL)
    file = write(tmp_path / "p.csv", COLUMNS | {"label": wrong})
    code, out, _ = run(capsys, "certify", file, *ONE, "--max-error", "0.2", "--by", "animal")
    assert code == 1
    assert out.splitlines()[1].startswith("dog ")
    assert "calibrant audit" in out
    assert max(map(len, out.splitlines())) < 80
    file = write(tmp_path / "q.csv")
    code, out, _ = run(capsys, "certify", file, *ONE, "--max-error", "0.4", "--by", "animal")
    assert code == 0
    code, _, message = run(
        capsys, "certify", file, *ONE, "--max-error", "0.4", "--by", "animal", "--calibrator", file
    )
    assert code == 4
    assert "calibrant apply" in message


WRONG = np.where(CLASS == 1, 1 - LABEL, LABEL)
BY = ("--by", "animal")


@pytest.fixture
def wrong_for_dogs(tmp_path):
    return write(tmp_path / "preds.csv", COLUMNS | {"label": WRONG})


def test_an_audit_says_what_the_library_says(wrong_for_dogs, capsys):
    code, out, _ = run(capsys, "audit", wrong_for_dogs, *ONE, *BY, "--max-error", "0.3", "--json")
    expected = cb.audit(WRONG, SCORE, by={"animal": NAMES[CLASS]}, max_error=0.3)
    assert code == 1
    assert same(json.loads(out), json.loads(expected.to_json()))
    assert json.loads(out)["groups"][0]["group"] == ["dog"]


@pytest.mark.parametrize(("limit", "code"), [("0.3", 0), ("0.01", 2)])
def test_the_verdict_of_an_audit_is_its_exit_code(limit, code, tmp_path, capsys):
    file, junit = write(tmp_path / "p.csv"), tmp_path / "gate.xml"
    options = ("--max-error", limit, "--junit", junit, "-o", tmp_path / "audit.json")
    found, out, _ = run(capsys, "audit", file, *ONE, *BY, *options)
    assert found == code
    suite = ElementTree.parse(junit).getroot()[0]
    assert suite.get("failures") == ("0" if code == 0 else suite.get("tests"))
    saved = json.loads((tmp_path / "audit.json").read_text())
    assert out.startswith(saved["verdict"])


@pytest.mark.parametrize("command", ["audit", "certify"])
def test_every_group_is_a_test_of_its_own_in_junit(command, wrong_for_dogs, tmp_path, capsys):
    junit = tmp_path / "gate.xml"
    file = wrong_for_dogs
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


def test_an_audit_needs_groups(tmp_path, capsys):
    code, _, message = run(capsys, "audit", write(tmp_path / "p.csv"), *ONE, "--max-error", "0.3")
    assert code == 4
    assert "An audit needs groups" in message
