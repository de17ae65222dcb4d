"""Every command, end to end on files of every format, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import calibrant as cb
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
    pa,
    run,
    same,
    write,
)

RULES = {
    "auto": "auto",
    "7": 7,
    "mass:7": cb.EqualMass(7),
    "width:10": cb.EqualWidth(10),
    "hybrid:5": cb.Hybrid(5),
    "distinct": cb.Distinct(),
}


@pytest.fixture(params=SUFFIXES)
def file(request, tmp_path):
    return write(tmp_path / f"preds{request.param}")


@pytest.fixture
def csv(tmp_path):
    return write(tmp_path / "preds.csv")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make every file several chunks."""
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 16)


@pytest.mark.parametrize("bins", ["auto", "width:10", "distinct"])
def test_measure_says_what_the_library_says_of_any_format(file, bins, capsys):
    code, out, err = run(capsys, "measure", file, *ONE, "--bins", bins, "--json")
    expected = cb.calibration_error(LABEL, SCORE, bins=RULES[bins])
    assert (code, err) == (0, "")
    assert same(json.loads(out), expected.to_dict())


@pytest.mark.parametrize(("bins", "norm"), [*zip(RULES, ["l1", "max", "3"] * 2, strict=True)])
def test_measure_takes_every_rule_and_norm(csv, bins, norm, capsys):
    code, out, _ = run(capsys, "measure", csv, *ONE, "--bins", bins, "--norm", norm, "--json")
    named = float(norm) if norm.isdigit() else norm
    expected = cb.calibration_error(LABEL, SCORE, bins=RULES[bins], norm=named)
    assert code == 0
    assert json.loads(out)["value"] == pytest.approx(expected.value, rel=1e-9)


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize("bins", ["auto", "5", "width:10"])
def test_patterns_name_the_columns_of_many_classes(file, kind, bins, capsys):
    code, out, _ = run(capsys, "measure", file, *MANY, "--kind", kind, "--bins", bins, "--json")
    expected = cb.calibration_error(
        NAMES[CLASS], PROBS, kind=kind, classes=NAMES, bins=RULES.get(bins, 5)
    )
    assert code == 0
    assert same(json.loads(out), expected.to_dict())


def test_people_get_a_table_with_the_worst_classes_first(csv, capsys):
    code, out, _ = run(capsys, "measure", csv, *MANY, "--kind", "marginal", "--norm", "l1")
    lines = out.splitlines()
    expected = cb.calibration_error(NAMES[CLASS], PROBS, kind="marginal", classes=NAMES, norm="l1")
    assert code == 0
    assert lines[0].split()[:3] == ["l1", "error", f"{expected.value:.4f}"]
    worst = sorted(expected.per_class, key=expected.per_class.get, reverse=True)
    assert [line.split()[0] for line in lines[-3:]] == worst


def test_weights_are_read_from_their_column(tmp_path, capsys):
    weight = np.random.default_rng(2).integers(0, 3, size=N)
    file = write(tmp_path / "weighted.csv", COLUMNS | {"weight": weight})
    code, out, _ = run(
        capsys, "measure", file, *ONE, "--sample-weight", "weight", "--bins", "5", "--json"
    )
    expected = cb.calibration_error(LABEL, SCORE, bins=5, sample_weight=weight)
    assert code == 0
    assert json.loads(out)["value"] == pytest.approx(expected.value, rel=1e-9)


def test_an_archive_with_a_table_of_probabilities_needs_no_column_names(tmp_path, capsys):
    for name, probs in (("c", PROBS), ("fortran", np.asfortranarray(PROBS))):
        np.savez(tmp_path / f"{name}.npz", probs=probs, labels=CLASS)
        code, out, _ = run(capsys, "measure", tmp_path / f"{name}.npz", "--json")
        assert code == 0
        value = cb.calibration_error(CLASS, PROBS).value
        assert json.loads(out)["value"] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow"])
def test_a_column_of_lists_is_a_table_of_probabilities(tmp_path, suffix, capsys):
    import pyarrow.feather as pa_feather
    import pyarrow.parquet as pa_parquet

    table = pa.table({"labels": CLASS, "probs": PROBS.tolist()})
    path = tmp_path / f"lists{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
    else:
        {".parquet": pa_parquet.write_table, ".arrow": pa_feather.write_feather}[suffix](
            table, path
        )
    code, out, _ = run(capsys, "measure", path, "--kind", "marginal", "--json")
    assert code == 0
    value = cb.calibration_error(CLASS, PROBS, kind="marginal").value
    assert json.loads(out)["value"] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("column", ["flag", "word", "code"])
def test_labels_may_be_booleans_words_or_numbers(tmp_path, column, capsys):
    labels = {"flag": LABEL == 1, "word": np.where(LABEL, "yes", "no"), "code": 7 + 2 * LABEL}
    named = {"flag": (), "word": ("--pos-label", "yes"), "code": ("--classes", "7,9")}
    values = []
    for suffix in (".csv", ".jsonl", ".parquet"):
        file = write(tmp_path / f"{column}{suffix}", {column: labels[column], "p": SCORE})
        options = ("--y-true", column, "--y-prob", "p", *named[column], "--json")
        code, out, _ = run(capsys, "measure", file, *options)
        assert code == 0
        values.append(json.loads(out)["value"])
    assert values == pytest.approx([cb.calibration_error(LABEL, SCORE).value] * 3, rel=1e-9)


def test_formats_can_be_mixed_and_files_repeated_count_once(tmp_path, csv, capsys):
    for i, suffix in enumerate((".csv", ".parquet", ".jsonl")):
        write(tmp_path / f"part-{i}{suffix}", rows=slice(500 * i, 500 * (i + 1)))
    whole = run(capsys, "measure", csv, *ONE)
    parts = run(capsys, "measure", tmp_path / "part-*", tmp_path / "part-1.parquet", *ONE)
    assert parts == whole


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
    assert (got, out.splitlines()[0]) == (code, f"{verdict}: {expected.reason}")
    assert out.split(":")[0] == verdict
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


@pytest.mark.parametrize("edges", ["0,1", "0,0.25,0.5,1"])
def test_bins_may_be_edges(csv, edges, capsys):
    code, out, _ = run(capsys, "measure", csv, *ONE, "--bins", edges, "--json")
    assert code == 0
    expected = cb.calibration_error(LABEL, SCORE, bins=[float(e) for e in edges.split(",")])
    assert same(json.loads(out)["value"], expected.value)


def test_a_forged_certificate_does_not_pass_a_recheck(tmp_path, csv, capsys):
    saved = tmp_path / "certificate.json"
    run(capsys, "certify", csv, *ONE, "--norm", "l1", "--max-error", "0.001", "-o", saved)
    saved.write_text(saved.read_text().replace('"undecided"', '"certified"'))
    code, out, _ = run(capsys, "recheck", saved)
    assert code == 1
    assert out.startswith("does NOT agree: verdict is 'certified' in the document")


@pytest.mark.parametrize(("most", "rule"), [(1000, "distinct-value"), (50, "uniform-mass")])
def test_more_outputs_than_the_limit_are_taken_as_continuous(
    tmp_path, most, rule, capsys, monkeypatch
):
    monkeypatch.setattr("calibrant.sources.files.MOST_OUTPUTS", most)
    file = write(tmp_path / "preds.csv", {"label": LABEL, "score": COLUMNS["raw"].round(2)})
    _, out, _ = run(capsys, "certify", file, *ONE, "--max-error", "0.1", "--json")
    assert json.loads(out)["table"]["bins"][0]["rule"] == rule


def test_compare_reads_two_files_or_two_columns(tmp_path, csv, capsys):
    expected = cb.compare(LABEL, SCORE, COLUMNS["squared"]).to_dict()
    other = write(tmp_path / "b.parquet", {"label": LABEL, "score": COLUMNS["squared"]})
    code, out, _ = run(capsys, "compare", csv, other, *ONE, "--json")
    assert code == 0
    assert same(json.loads(out), expected)
    code, out, _ = run(capsys, "compare", csv, *ONE, "--versus", "squared")
    assert code == 0
    assert out.startswith(f"a = {csv}, score\nb = {csv}, squared\n")
    assert out.count("a is better") == 3


def test_tables_are_saved_and_merged(tmp_path, csv, capsys):
    one = ("--bins", "width:10", *ONE)
    for name in ("a", "b"):
        assert run(capsys, "measure", csv, *one, "--table", tmp_path / f"{name}.json")[0] == 0
    code, out, _ = run(capsys, "merge", tmp_path / "[ab].json", "-o", tmp_path / "ab.json")
    assert code == 0
    assert f"2 tables, 3,000 rows written to {tmp_path}/ab.json" in out
    merged = cb.BinTable.from_json((tmp_path / "ab.json").read_text())
    table = cb.tabulate(LABEL, SCORE, bins=cb.EqualWidth(10))
    assert merged.count.tolist() == (table + table).count.tolist()


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


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".arrow", ".npz"])
def test_standard_input_may_have_any_format(tmp_path, suffix, capsys, monkeypatch):
    with open(write(tmp_path / f"preds{suffix}"), encoding="latin-1") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        format_ = () if suffix == ".csv" else ("--format", suffix[1:])
        code, out, err = run(capsys, "measure", "-", *ONE, *format_, "--json")
    assert (code, err) == (0, "")
    assert same(json.loads(out), cb.calibration_error(LABEL, SCORE).to_dict())


def test_the_module_is_the_command(csv):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "calibrant",
            "certify",
            csv,
            *ONE,
            "--norm",
            "l1",
            "--max-error",
            "0.001",
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.split(":")[0], done.stderr) == (2, "undecided", "")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("bins", ["auto", "width:10"])
def test_a_chunk_without_weight_or_without_the_event_is_fine(tmp_path, suffix, bins, capsys):
    weight = np.where(np.arange(N) < 700, 0.0, 1.0)
    words = np.where((LABEL == 1) & (np.arange(N) >= 700), "yes", "no")
    file = write(tmp_path / f"w{suffix}", {"y": words, "p": SCORE, "w": weight})
    options = ("--y-true", "y", "--y-prob", "p", "--pos-label", "yes", "--bins", bins, "--json")
    code, out, _ = run(capsys, "measure", file, *options, "--sample-weight", "w")
    expected = cb.calibration_error(
        words, SCORE, pos_label="yes", sample_weight=weight, bins=RULES[bins]
    )
    assert code == 0
    assert same(json.loads(out), expected.to_dict())


def test_files_without_any_weight_or_event_are_refused(tmp_path, capsys):
    file = write(
        tmp_path / "w.csv", {"y": np.where(LABEL, "yes", "no"), "p": SCORE, "w": 0 * SCORE}
    )
    options = (file, "--y-true", "y", "--y-prob", "p")
    for bins in ("auto", "width:10", "distinct"):
        weighed = ("--sample-weight", "w", "--classes", "no,yes", "--bins", bins)
        code, _, err = run(capsys, "measure", *options, *weighed)
        assert (code, "zero on every row" in err) == (3, True)
    for command in ("measure", "certify", "report", "fit"):
        more = ("--max-error", "0.1") if command == "certify" else ()
        more = ("-o", tmp_path / "out") if command in ("report", "fit") else more
        code, _, err = run(capsys, command, *options, "--pos-label", "Yes", *more)
        assert (code, "--pos-label 'Yes' is the label of no row" in err, "'no'" in err) == (
            3,
            True,
            True,
        )
