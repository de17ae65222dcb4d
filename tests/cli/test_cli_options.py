"""Every option of every command with values that mean nothing: a sentence, never a traceback."""

from __future__ import annotations

import shutil

import pytest
from predictions_on_disk import COLUMNS, LABEL, ONE, SCORE, run, write

import calibrant as cb
from calibrant.cli import main
from calibrant.cli.parser import COMMANDS, new_parser
from calibrant.cli.reference import commands_of
from calibrant.exceptions import InvalidArgumentError

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
    assert set(BASE) == set(COMMANDS)


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
