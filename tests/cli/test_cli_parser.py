"""Options and help: what means nothing is refused in a sentence, never a traceback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

import calibrant as cb
from calibrant.cli import main
from calibrant.cli.parser import new_parser
from calibrant.cli.reference import commands_of
from calibrant.exceptions import InvalidArgumentError
from predictions_on_disk import (
    COLUMNS,
    LABEL,
    MANY,
    ONE,
    SCORE,
    run,
    same,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

HOSTILE = (
    *("0", "-1", "1", "2", "1.5", "1e9", "1e11", "1000000000", "100000000000", "9" * 5000),
    *("nan", "inf", "-inf", "1e400", "1e-300", "5e-324", "1e-17", "1e-14", "-0.0"),
    *("0.9999999999999999", "0.99999999999999"),
    *("", " ", "²", "٣", "1_000", "0x10", "1,5", "90%", "None", "\udcff"),
)


RULES = tuple(f"{rule}:{value}" for rule in ("mass", "width", "hybrid") for value in HOSTILE)


NAMES = ("", "-1", "nan", "no\x1bthing", "\udcff")
"""For options that take a file or a column, of which most numbers are as good a name as any."""


BASE = {
    "measure": ("preds.csv", *ONE),
    "certify": ("preds.csv", *ONE, "--max-error", "0.1"),
    "recheck": ("certificate.json", "--data", "preds.csv", *ONE),
    "plan": ("--max-error", "0.1", "--n-bins", "3"),
    "fit": ("preds.csv", *ONE, "-o", "fitted.json"),
    "apply": ("cal.json", "preds.csv", "--y-prob", "score", "-o", "out.csv"),
    "compare": ("preds.csv", *ONE, "--versus", "squared"),
    "audit": ("preds.csv", *ONE, "--by", "squared=0,0.5,1"),
    "validate": ("preds.csv", *ONE),
    "grades": ("preds.csv", *ONE, "--bins", "mass:3"),
    "watch": ("state.json", "preds.csv", *ONE, "--max-error", "0.1"),
    "merge": ("table.json", "-o", "sum.json"),
    "report": ("preds.csv", *ONE),
    "demo": (),
    "reproduce": ("--list",),
    "completion": ("bash",),
}


SLOW = ("demo",)
"""Its one option names a file."""


def options_to_try():
    for command in commands_of(new_parser()):
        for option in command.options:
            if option.takes_value and not option.choices and command.name not in SLOW:
                yield command.name, option.flags[0], option.metavar


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Make a small file of each kind, once."""
    folder = tmp_path_factory.mktemp("options")
    preds = str(folder / "preds.csv")
    write(folder / "preds.csv", {name: column[:60] for name, column in COLUMNS.items()})
    cb.Identity().fit(SCORE, LABEL).save(folder / "cal.json")
    assert main(["measure", preds, *ONE, "--table", str(folder / "table.json")]) == 0
    # a tolerance that is kept: a recheck of "undecided" plans how many more rows would decide
    certificate = str(folder / "certificate.json")
    assert main(["certify", preds, *ONE, "--max-error", "0.9", "-o", certificate]) == 0
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """Work in a folder with a small file of each kind."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


def test_every_command_is_tried():
    assert set(BASE) == {command.name for command in commands_of(new_parser())}


@pytest.mark.parametrize(("command", "flag", "metavar"), [*options_to_try()])
def test_a_value_that_means_nothing_is_refused_in_a_sentence(
    folder, command, flag, metavar, capsys
):
    values = NAMES if metavar in ("FILE", "COLUMN", "FOLDER", "TEXT", "SUFFIX") else HOSTILE
    base = list(BASE[command])
    if flag == "--rows":
        base = base[2:]  # instead of --max-error
    for value in (*values, *(RULES if (command, flag) == ("measure", "--bins") else ())):
        code, _, err = run(capsys, command, *base, f"{flag}={value}")
        assert code in (0, 1, 2, 3, 4), (value, err)
        assert "Traceback" not in err, value
        lines = [line for line in err.splitlines() if not line.startswith("See calibrant")]
        assert len(lines) <= (0 if code < 3 and "written to" not in err else 1) or (
            lines[0].startswith("calibrant: warning") and code < 3
        ), (value, err)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("measure", "preds.csv", *ONE, "--bins", "width:100000000000"), "at most 1,000,000"),
        (("measure", "preds.csv", *ONE, "--bins", "mass:1000000000000"), "at most 1,000,000"),
        (("measure", "preds.csv", *ONE, "--bins", "hybrid:100000"), "at most 1,000"),
        (("fit", "preds.csv", *ONE, "--bins", "100000000000", "-o", "x"), "at most 1,000,000"),
        (("plan", "--max-error", "0.1", "--n-bins", "1000000000"), "at most 1,000,000"),
        (("plan", "--max-error", "1e-300", "--n-bins", "3"), "1e15 rows"),
        (("plan", "--max-error", "0.1", "--n-bins", "9" * 30), "expected a whole number"),
    ],
)
def test_numbers_that_no_machine_can_serve_say_what_is_possible(folder, argv, words, capsys):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (4, "")
    assert words in err


@pytest.mark.parametrize("max_error", ["1e-300", "5e-324", "1e-17"])
def test_a_tolerance_that_no_rows_can_certify_is_undecided_or_refuted(folder, max_error, capsys):
    code, _, err = run(capsys, "certify", "preds.csv", *ONE, "--max-error", max_error)
    assert code in (1, 2)
    assert err == ""


@pytest.mark.parametrize(
    "rule", [cb.EqualWidth, cb.EqualMass, cb.Hybrid, int], ids=["width", "mass", "hybrid", "int"]
)
def test_python_refuses_as_many_bins_with_the_same_words(rule):
    with pytest.raises(InvalidArgumentError, match="at most"):
        cb.tabulate(LABEL, SCORE, bins=rule(10**11))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("mesure", "x.csv"), "invalid choice: 'mesure'"),
        (("certify", "x.csv"), "--max-error"),
        (("measure", "--y-prob", "score", "x.csv"), "Files come before --y-prob"),
        (("certify", "x.csv", "--max-error", "2"), "expected a number between 0 and 1; got '2'"),
        (("measure", "x.csv", "--bins", "many"), 'must be a number of bins, "auto", "mass:15", "width:15", "hybrid:15", "distinct", or edges'),
        (("measure", "x.csv", "--bins", "0"), "must be a whole number >= 1"),
        (("measure", "x.csv", "--bins", "0,0.5"), "run from 0 to 1"),
        (("measure", "x.csv", "--bins", "0,x,1"), "expected numbers between commas"),
        (("measure", "x.csv", "--norm", "0.5"), "expected l1, l2, max or a number of at least 1"),
        (("measure", "x.csv", "--confidence-level", "95"), "expected a number between 0 and 1"),
        (("measure", "x.csv", "--nom", "l1"), "unrecognized arguments"),
        (("plan", "--n-bins", "10"), "one of the arguments --max-error --rows is required"),
        (("plan", "--n-bins", "-3", "--rows", "10"), "expected a whole number of at least 1"),
        (("completion", "tcsh"), "invalid choice: 'tcsh'"),
        (("compare", "x.csv", *ONE), "Give two files, or one file and --versus"),
        (("fit", "x.csv", *ONE, "--method", "platt", "--bins", "5", "-o", "y"), "--bins is for scaling-binning"),
        (("apply", "{cal}", "{csv}", "--y-prob", "score", "--suffix", "", "-o", "{folder}/y.csv"), "already has a column 'score'"),
        (("apply", "{cal}", "{csv}", "--y-prob", "score", "-o", "{folder}/y.csv.gz"), "Compressed files are read, not written"),
        (("fit", "{csv}", *MANY, "--method", "vector", "--kind", "marginal", "-o", "y"), "leave --kind out"),
        (("measure", "{csv}", *MANY, "--classes", "cat,dog"), "classes must name every one of the 3 classes"),
    ],
)  # fmt: skip
def test_usage_errors_are_exit_code_four(tmp_path, argv, words, capsys):
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    places = {
        "csv": write(tmp_path / "preds.csv"),
        "cal": tmp_path / "cal.json",
        "folder": tmp_path,
    }
    code, out, err = run(capsys, *(each.format(**places) for each in argv))
    assert (code, out) == (4, "")
    assert words in err


@pytest.mark.parametrize(
    "line",
    ["certify x.csv --max-error 0.1 --calibrator", "certify x.csv --max-error 0.1 -o",
     "certify x.csv --max-error 0.1 --junit", "certify x.csv --max-error 0.1 --levels",
     "measure x.csv --table", "measure x.csv --cluster", "measure x.csv --sample-weight",
     "compare x.csv y.csv --key", "compare x.csv y.csv --y-true-b", "watch s.json --reference",
     "watch s.json --metrics", "watch s.json --page", "recheck c.json --calibrator",
     "report x.csv -o", "merge t.json -o", "fit x.csv -o", "reproduce -o", "demo -o"],
)  # fmt: skip
def test_an_empty_name_is_refused_and_not_ignored(line, capsys):
    """An unset variable of a script leaves one: raw rows would be certified, nothing be saved."""
    code, out, err = run(capsys, *line.split(), "")
    assert (code, out) == (4, "")
    assert "expected a name; got ''" in err


def test_every_command_has_help_with_examples(capsys):
    for command in commands_of(new_parser()):
        name = command.name
        code, out, _ = run(capsys, name, "--help")
        assert code == 0
        assert "examples:\n  " in out
        assert "calibrant" in out.split("examples:")[1]


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom calibrant.cli import main\n"
        "try: main(['measure', '--help'])\n"
        "except SystemExit: print(' '.join(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "sklearn", "pyarrow", "matplotlib", "narwhals"}
    assert heavy & set(done.stderr.split()) == set()


@pytest.mark.parametrize("edges", ["0,1", "0,0.25,0.5,1"])
def test_bins_may_be_edges(csv, edges, capsys):
    code, out, _ = run(capsys, "measure", csv, *ONE, "--bins", edges, "--json")
    assert code == 0
    expected = cb.calibration_error(LABEL, SCORE, bins=[float(e) for e in edges.split(",")])
    assert same(json.loads(out)["value"], expected.value)
