"""calibrant measure: what the library says, of files of any format."""

from __future__ import annotations

import json

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

pytestmark = pytest.mark.usefixtures("small_chunks")

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


def test_rows_alone_in_their_bin_are_a_share_and_lines_fit_into_a_terminal(tmp_path, capsys):
    columns = {"label": [0, 1, 1], "raw": [0.2, 0.3, 0.7]}
    file = write(tmp_path / "three.csv", columns)
    names = ("--y-true", "label", "--y-prob", "raw")
    _, out, _ = run(capsys, "measure", file, *names, "--bins", "width:2")
    assert "\n33.3% of the rows sit alone in their bin" in out
    assert "bins mix different predictions" in " ".join(out.split())
    assert max(map(len, out.splitlines())) < 80


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


def test_groups_are_measured_as_by_the_library(file, capsys):
    code, out, _ = run(capsys, "measure", file, *ONE, "--by", "animal", "--json", "--bins", "7")
    expected = cb.calibration_error(LABEL, SCORE, by={"animal": NAMES[CLASS]}, bins=7)
    assert code == 0
    assert same(json.loads(out), json.loads(expected.to_json()))
    code, out, _ = run(capsys, "measure", file, *ONE, "--by", "animal", "raw=0,0.5,1")
    assert code == 0
    assert out.splitlines()[0].split()[:4] == ["animal", "and", "raw", "rows"]
    assert "(0.5, 1]" in out


def test_tables_of_groups_are_saved_added_and_measured(tmp_path, capsys):
    for part, rows in (("a", slice(0, 700)), ("b", slice(700, N))):
        file = write(tmp_path / f"{part}.csv", COLUMNS, rows)
        options = ("--bins", "width:5", "--by", "animal", "--table", tmp_path / f"{part}.json")
        assert run(capsys, "measure", file, *ONE, *options)[0] == 0
    week = tmp_path / "week.json"
    code, out, _ = run(capsys, "merge", tmp_path / "[ab].json", "-o", week)
    assert code == 0
    assert "1,500 rows" in out
    by = {"animal": NAMES[CLASS]}
    expected = cb.calibration_error(LABEL, SCORE, by=by, bins="width:5")
    assert cb.calibration_error(cb.Tables.from_json(week.read_text())).estimates == pytest.approx(
        expected.estimates
    )
    code, out, _ = run(capsys, "measure", week)
    assert (code, out) == (0, str(expected))
    assert run(capsys, "measure", week, "--by", "animal")[0] == 4
    plain = tmp_path / "plain.json"
    run(capsys, "measure", write(tmp_path / "c.csv"), *ONE, "--bins", "width:5", "--table", plain)
    code, _, message = run(capsys, "merge", week, plain, "-o", tmp_path / "no.json")
    assert code == 3
    assert "or none of them" in message


def test_groups_that_are_counted_resume_after_a_crash(tmp_path, capsys, monkeypatch):
    from calibrant.cli.resume import Checkpoints

    files = [write(tmp_path / f"{i}.csv", COLUMNS, slice(i * 300, i * 300 + 300)) for i in range(5)]
    options = (*ONE, "--bins", "width:5", "--by", "animal", "--table", tmp_path / "out.json")
    saves, save = [], Checkpoints.save_table

    def killed(self, i, table):
        save(self, i, table)
        saves.append(i)
        if len(saves) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "save_table", killed)
    run(capsys, "measure", *files, *options)
    run(capsys, "measure", *files, *options)
    assert saves == [0, 1, 2, 3, 4]
    tables = cb.Tables.from_json((tmp_path / "out.json").read_text())
    assert tables.n == N


@pytest.mark.parametrize("cuts", ["score=0,x", "score=1,0"])
def test_cuts_that_make_no_sense_are_refused(cuts, tmp_path, capsys):
    code, _, message = run(capsys, "measure", write(tmp_path / "p.csv"), *ONE, "--by", cuts)
    assert code == 4
    assert "numbers" in message


def test_a_table_of_clustered_rows_says_that_it_holds_none(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", COLUMNS | {"patient": np.arange(LABEL.size) // 3})
    table = tmp_path / "t.json"
    for cluster in ((), ("--cluster", "patient")):
        code, _, err = run(capsys, "measure", file, *ONE, *cluster, "--table", table)
        assert code == 0
        assert ("takes all rows as independent" in err) == bool(cluster)
