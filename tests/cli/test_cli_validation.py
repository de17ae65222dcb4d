"""calibrant validate and grades: tables and backtests of the library, as text and exit codes."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import (
    CLASS,
    COLUMNS,
    LABEL,
    NAMES,
    ONE,
    SCORE,
    SUFFIXES,
    run,
    same,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

SCALE = {"AA": 0.001, "A": 0.01, "BB": 0.05, "C": 0.2}
PAIRS = [f"{name}={pd}" for name, pd in SCALE.items()]
RNG = np.random.default_rng(5)
GRADE = RNG.choice(list(SCALE), size=3000, p=[0.4, 0.3, 0.25, 0.05])
PD = np.array([SCALE[name] for name in GRADE])
DEFAULT = (RNG.uniform(size=PD.size) < PD).astype(int)
MANY_DEFAULTS = np.where(np.arange(PD.size) < 60, GRADE == "AA", DEFAULT).astype(int)
BOOK = {"default": DEFAULT, "grade": GRADE, "pd": PD, "worse": MANY_DEFAULTS}
BY_NAME = ("--y-true", "default", "--y-prob", "grade", "--grades", *PAIRS)


@pytest.fixture
def book(tmp_path):
    return write(tmp_path / "book.csv", BOOK)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_and_pds_of_files_are_backtested_as_arrays_are(suffix, tmp_path, capsys):
    file = write(tmp_path / f"book{suffix}", BOOK)
    expected = json.loads(json.dumps(cb.grade_backtest(DEFAULT, GRADE, grades=SCALE).to_dict()))
    for column in ("grade", "pd"):
        options = ("--y-true", "default", "--y-prob", column, "--grades", *PAIRS, "--json")
        code, out, _ = run(capsys, "grades", file, *options)
        assert code == 0
        assert same(json.loads(out), expected)


def test_a_backtest_is_the_one_of_the_library(book, capsys):
    options = ("--y-true", "default", "--y-prob", "pd", "--each", "--correlation", "0.12")
    code, out, _ = run(capsys, "grades", book, *options, "--confidence-level", "0.9")
    expected = cb.grade_backtest(
        DEFAULT, PD, simultaneous=False, correlation=0.12, confidence_level=0.9
    )
    assert (code, out) == (0, str(expected))


def test_edges_make_a_master_scale(book, capsys):
    options = (
        "--y-true",
        "default",
        "--y-prob",
        "pd",
        "--bins",
        "0,0.02,1",
        "--grades",
        "lo",
        "hi",
    )
    _, out, _ = run(capsys, "grades", book, *options)
    assert out == str(cb.grade_backtest(DEFAULT, PD, bins=[0, 0.02, 1], grades=["lo", "hi"]))


@pytest.mark.parametrize(("limit", "code"), [("0.2", 0), ("0.001", 1), ("0.01", 2)])
def test_the_verdict_on_the_whole_scale_is_the_exit_code(limit, code, book, tmp_path, capsys):
    saved, junit = tmp_path / "c.json", tmp_path / "gate.xml"
    options = ("--max-error", limit, "-o", saved, "--junit", junit)
    got, out, _ = run(capsys, "grades", book, *BY_NAME, *options)
    expected = cb.grade_backtest(DEFAULT, GRADE, grades=SCALE).certify(max_error=float(limit))
    assert got == code
    assert out.endswith(f"{expected.verdict}: an l2 error of at most {limit}")
    assert cb.Certificate.from_json(saved.read_text()).upper_bound == expected.upper_bound
    failures = ElementTree.parse(junit).getroot()[0].get("failures")
    assert failures == ("0" if code == 0 else "1")


@pytest.mark.parametrize(
    ("column", "alarm", "code"),
    [("default", "red", 0), ("worse", "red", 1), ("worse", "amber", 1), ("worse", None, 0)],
)
def test_an_alarm_is_a_light(column, alarm, code, book, capsys):
    options = ("--y-true", column, "--y-prob", "pd", *(("--alarm", alarm) if alarm else ()))
    got, out, _ = run(capsys, "grades", book, *options)
    assert got == code
    assert ("alarm: a light is" in out) == bool(code)


def test_a_saved_table_stands_in_place_of_rows(book, tmp_path, capsys):
    table, columns = tmp_path / "t.json", ("--y-true", "default", "--y-prob", "pd")
    run(capsys, "measure", book, *columns, "--bins", "distinct", "--table", table)
    assert run(capsys, "grades", table) == run(capsys, "grades", book, *columns)
    assert run(capsys, "grades", table, *BY_NAME)[0] == 4


def test_names_that_are_digits_come_before_numbers(tmp_path, capsys):
    columns = {"default": DEFAULT, "grade": np.where(PD < 0.02, "1", "0.2")}
    file = write(tmp_path / "digits.csv", columns)
    options = ("--y-true", "default", "--y-prob", "grade", "--grades", "1=0.01", "2=0.2", "--json")
    _, out, _ = run(capsys, "grades", file, *options)
    assert [g["pd"] for g in json.loads(out)["grades"]] == [0.01, 0.2]


def test_what_is_wrong_with_grades_is_said_with_its_exit_code(tmp_path, book, capsys):
    strange = np.where(np.arange(PD.size) == 1233, "D", GRADE)
    file = write(tmp_path / "strange.csv", BOOK | {"grade": strange})
    code, _, err = run(capsys, "grades", file, *BY_NAME)
    assert code == 3
    assert "column 'grade', row 1,234 is 'D'; expected one of AA, A, BB, C, or a number" in err
    assert "Add it to --grades" in err
    columns = ("--y-true", "default", "--y-prob", "pd")
    for scale in (["A=0.1", "B"], ["A=1%"], ["A=0.1", "A=0.2"], ["A=2"], ["A=0.1", "B=0.1"]):
        assert run(capsys, "grades", book, *columns, "--grades", *scale)[0] == 4
    assert run(capsys, "grades", book, *columns, "--kind", "marginal")[0] == 4
    assert run(capsys, "grades", book, *columns, "--correlation", "1.2")[0] == 4


def test_a_validation_is_the_one_of_the_library(tmp_path, capsys):
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


def test_wrong_input_of_a_validation_has_its_exit_codes(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", COLUMNS)
    assert run(capsys, "validate", file, *ONE, "--by", "animal", "--cluster", "animal")[0] == 4
    assert run(capsys, "validate", file, "--y-true", "nothing", "--y-prob", "score")[0] == 3
