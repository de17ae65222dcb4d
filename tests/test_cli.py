"""The command line, end to end on files of every format."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import calibrant as cb
from calibrant.cli import main
from conftest import optional

pa = optional("pyarrow")

RNG = np.random.default_rng(51)
SCORE = np.round(RNG.uniform(size=3000), 1)
LABEL = (RNG.uniform(size=3000) < SCORE).astype(int)
PROBS = RNG.dirichlet(np.ones(3), size=3000)
CLASS = RNG.integers(3, size=3000)


def frame():
    columns = {"label": LABEL, "score": SCORE, "animal": np.array(["cat", "dog", "eel"])[CLASS]}
    return pa.table(columns | {f"prob_{k}": PROBS[:, k] for k in range(3)})


def write(path, suffix):
    import pyarrow.csv as pa_csv
    import pyarrow.feather as pa_feather
    import pyarrow.parquet as pa_parquet

    target = path / f"preds{suffix}"
    if suffix == ".csv":
        pa_csv.write_csv(frame(), target)
    elif suffix == ".parquet":
        pa_parquet.write_table(frame(), target)
    elif suffix == ".arrow":
        pa_feather.write_feather(frame(), target)
    else:
        rows = (json.dumps(row) for row in frame().to_pylist())
        target.write_text("\n".join(rows), encoding="utf-8")
    return str(target)


@pytest.fixture(params=[".csv", ".parquet", ".jsonl", ".arrow"])
def file(request, tmp_path):
    return write(tmp_path, request.param)


@pytest.fixture
def csv(tmp_path):
    return write(tmp_path, ".csv")


def run(capsys, *argv):
    code = main([str(each) for each in argv])
    captured = capsys.readouterr()
    return code, captured.out.strip(), captured.err.strip()


@pytest.mark.parametrize("bins", ["auto", "7", "width:10", "hybrid:5", "distinct"])
def test_measure_prints_what_the_library_says(file, bins, capsys):
    code, out, _ = run(
        capsys, "measure", file, "--y-true", "label", "--y-prob", "score", "--bins", bins
    )
    rules = {
        "auto": "auto",
        "7": 7,
        "width:10": cb.EqualWidth(10),
        "hybrid:5": cb.Hybrid(5),
        "distinct": cb.Distinct(),
    }
    assert (code, out) == (0, str(cb.calibration_error(LABEL, SCORE, bins=rules[bins])))


def test_patterns_name_many_columns(file, capsys):
    options = (
        "--y-true",
        "animal",
        "--y-prob",
        "prob_*",
        "--classes",
        "cat,dog,eel",
        "--kind",
        "marginal",
    )
    code, out, _ = run(capsys, "measure", file, *options, "--json")
    names = np.array(["cat", "dog", "eel"])
    expected = cb.calibration_error(names[CLASS], PROBS, kind="marginal", classes=names)
    assert code == 0
    assert json.loads(out)["value"] == pytest.approx(expected.value, rel=1e-9)


def test_npz_needs_no_column_names(tmp_path, capsys):
    np.savez(tmp_path / "preds.npz", probs=PROBS, labels=CLASS)
    code, out, _ = run(capsys, "measure", tmp_path / "preds.npz")
    assert (code, out) == (0, str(cb.calibration_error(CLASS, PROBS)))


def test_pickled_arrays_are_never_loaded(tmp_path, capsys):
    np.savez(tmp_path / "bad.npz", probs=np.array([{"a": 1}], object), labels=[1])
    code, _, err = run(capsys, "measure", tmp_path / "bad.npz")
    assert code == 3
    assert "cannot be read as .npz" in err


def test_many_files_are_one(tmp_path, csv, capsys):
    for i in range(3):
        part = frame().slice(1000 * i, 1000)
        import pyarrow.parquet as pa_parquet

        pa_parquet.write_table(part, tmp_path / f"part-{i}.parquet")
    options = ("--y-true", "label", "--y-prob", "score", "--bins", "width:10")
    whole = run(capsys, "measure", csv, *options)
    parts = run(capsys, "measure", tmp_path / "part-*.parquet", *options)
    assert parts[0] == 0
    assert parts[1] == whole[1]


def test_tables_are_saved_and_merged(tmp_path, csv, capsys):
    for name in ("a", "b"):
        run(capsys, "measure", csv, "--y-true", "label", "--y-prob", "score", "--bins", "width:10",
            "--table", tmp_path / f"{name}.json")  # fmt: skip
    code, out, _ = run(
        capsys, "merge", tmp_path / "a.json", tmp_path / "b.json", "-o", tmp_path / "ab.json"
    )
    assert code == 0
    assert "n = 6,000" in out
    merged = cb.BinTable.from_json((tmp_path / "ab.json").read_text())
    one = cb.tabulate(LABEL, SCORE, bins=cb.EqualWidth(10))
    assert merged.count.tolist() == (one + one).count.tolist()
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "a.json",
        "ab.json",
        "b.json",
        "preds.csv",
    ]


@pytest.mark.parametrize(
    ("column", "max_error", "code", "verdict"),
    [
        ("score", 0.1, 0, "certified"),
        ("prob_0", 0.05, 1, "refuted"),
        ("score", 0.001, 2, "undecided"),
    ],
)
def test_certify_has_an_exit_code_for_each_verdict(
    tmp_path, csv, capsys, column, max_error, code, verdict
):
    saved = tmp_path / "certificate.json"
    got, out, _ = run(
        capsys,
        "certify",
        csv,
        "--y-true",
        "label",
        "--y-prob",
        column,
        "--max-error",
        max_error,
        "-o",
        saved,
    )
    assert (got, out.split(":")[0]) == (code, verdict)
    assert run(capsys, "recheck", saved)[0] == 0
    saved.write_text(
        saved.read_text()
        .replace(f'"{verdict}"', '"certified"')
        .replace('level": 0.95', 'level": 0.5')
    )
    assert run(capsys, "recheck", saved)[0] == 1


def test_plan_says_how_many_rows(capsys):
    code, out, _ = run(capsys, "plan", "--max-error", 0.05, "--n-bins", 10)
    assert code == 0
    assert out.startswith(f"{cb.samples_to_certify(0.05, 10):,} rows certify")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("measure", "missing.csv"), "no file 'missing.csv'"),
        (("measure", "{csv}", "--y-true", "nope", "--y-prob", "score"), "has no column 'nope'; its columns are label, score"),
        (("measure", "{csv}", "--y-true", "score", "--y-prob", "label", "--bins", "width:3"), "Swap the two arguments"),
        (("measure", "{csv}", "--y-true", "animal", "--y-prob", "score", "--bins", "width:3"), "preds.csv, rows 0 to 2,999: Labels of a binary"),
        (("measure", "{csv}", "--y-true", "label", "--y-prob", "score", "--bins", "many"), "--bins must be"),
        (("measure", "{csv}", "--y-true", "label", "--y-prob", "score", "--norm", "big"), "Expected a number"),
        (("recheck", "{csv}"), "valid JSON"),
        (("merge", "{csv}", "-o", "x.json"), "valid JSON"),
    ],
)  # fmt: skip
def test_bad_input_is_exit_code_three_with_a_message(csv, capsys, argv, words):
    code, out, err = run(capsys, *(each.format(csv=csv) for each in argv))
    assert (code, out) == (3, "")
    assert words in err


def test_usage_errors_are_exit_code_four(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["certify", "preds.csv"])
    assert caught.value.code == 4
    assert "--max-error" in capsys.readouterr().err


def test_a_failed_write_leaves_the_old_file(tmp_path, csv, capsys):
    target = tmp_path / "folder"
    target.mkdir()
    code, _, err = run(
        capsys, "measure", csv, "--y-true", "label", "--y-prob", "score", "--table", target
    )
    assert code == 3
    assert "folder" in err
    assert list(target.iterdir()) == []


def test_standard_input_and_the_module_work(csv):
    with open(csv, "rb") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "calibrant", "measure", "-", "--y-true", "label", "--y-prob", "score"],
            stdin=stream, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout.strip() == str(cb.calibration_error(LABEL, SCORE))
    assert done.stderr == ""
