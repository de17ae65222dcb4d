"""fit and apply, end to end: what the library does, in any pair of formats."""

from __future__ import annotations

import json
from pathlib import Path

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
    PROBS,
    SCORE,
    SUFFIXES,
    N,
    pa,
    run,
    write,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make every file several chunks."""
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 16)


@pytest.fixture
def csv(tmp_path):
    return write(tmp_path / "preds.csv")


METHODS = {
    "scaling-binning": cb.ScalingBinning(),
    "histogram-binning": cb.HistogramBinning(),
    "platt": cb.PlattScaling(),
    "beta": cb.BetaScaling(),
    "quadratic": cb.QuadraticScaling(),
    "temperature": cb.TemperatureScaling(),
    "isotonic": cb.IsotonicCalibration(),
    "venn-abers": cb.VennAbers(),
    "identity": cb.Identity(),
}


@pytest.mark.parametrize("method", METHODS)
def test_fit_and_apply_are_what_the_library_does(tmp_path, csv, method, capsys):
    saved, out = tmp_path / "cal.json", tmp_path / "out.parquet"
    options = ("--y-true", "label", "--y-prob", "raw", "--method", method)
    assert run(capsys, "fit", csv, *options, "-o", saved)[0] == 0
    assert run(capsys, "apply", saved, csv, "--y-prob", "raw", "-o", out)[0] == 0
    raw = COLUMNS["raw"]
    expected = METHODS[method].fit(raw, LABEL).predict_proba(raw)
    got = pa.parquet.read_table(out).column("raw_calibrated").to_numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--kind", "marginal"), cb.OneVsRest(cb.ScalingBinning())),
        (("--kind", "top-label"), cb.TopLabel(cb.ScalingBinning())),
        (("--bins", "hybrid:6"), cb.TopLabel(cb.ScalingBinning(bins="hybrid:6"))),
        (("--method", "temperature"), cb.TemperatureScaling()),
        (("--method", "vector"), cb.VectorScaling()),
        (("--method", "matrix"), cb.MatrixScaling()),
    ],
)
def test_fit_repairs_several_classes_as_the_kind_says(tmp_path, csv, options, expected, capsys):
    saved, out = tmp_path / "cal.json", tmp_path / "out.arrow"
    assert run(capsys, "fit", csv, *MANY, *options, "-o", saved)[0] == 0
    fitted = expected.fit(PROBS, NAMES[CLASS], classes=NAMES)
    assert repr(cb.load(saved)) == repr(fitted)
    code, _, _ = run(capsys, "apply", saved, csv, "--y-prob", "prob_*", "--replace", "-o", out)
    assert code == 0
    table = pa.feather.read_table(out)
    got = np.column_stack([table.column(f"prob_{k}").to_numpy() for k in range(3)])
    np.testing.assert_allclose(got, fitted.predict_proba(PROBS), rtol=1e-9)


TWO_COLUMNS = {"label": LABEL, "no": 1 - COLUMNS["raw"], "yes": COLUMNS["raw"]}


def test_two_columns_are_one_event_in_every_command(tmp_path, capsys):
    file, saved = write(tmp_path / "two.csv", TWO_COLUMNS), tmp_path / "cal.json"
    two, one = (("--y-true", "label", "--y-prob", *names) for names in (("no", "yes"), ("yes",)))
    for command in ("measure", "certify"):
        assert run(capsys, command, file, *two) == run(capsys, command, file, *one)
    assert run(capsys, "fit", file, *two, "--method", "platt", "-o", saved)[0] == 0
    expected = cb.PlattScaling().fit(COLUMNS["raw"], LABEL).predict_proba(COLUMNS["raw"])
    out = tmp_path / "out.arrow"
    assert run(capsys, "apply", saved, file, "--y-prob", "no", "yes", "-o", out)[0] == 0
    got = pa.feather.read_table(out).column("yes_calibrated").to_numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_fit_refuses_two_columns_whose_first_is_the_event(tmp_path, capsys):
    file, saved = write(tmp_path / "two.csv", TWO_COLUMNS), tmp_path / "cal.json"
    options = ("--y-true", "label", "--y-prob", "yes", "no", "--classes", "1,0")
    code, _, err = run(capsys, "fit", file, *options, "--pos-label", "1", "-o", saved)
    assert code == 4
    assert "the second must be the event's" in err


def test_fit_takes_weights_and_names_of_the_event(tmp_path, capsys):
    weight = np.random.default_rng(3).integers(0, 3, size=N)
    words = np.where(LABEL, "yes", "no")
    columns = {"label": words, "raw": COLUMNS["raw"], "weight": weight}
    file, saved = write(tmp_path / "weighted.csv", columns), tmp_path / "cal.json"
    options = ("--y-true", "label", "--y-prob", "raw", "--sample-weight", "weight")
    for named in (("--pos-label", "yes"), ("--classes", "no,yes")):
        assert run(capsys, "fit", file, *options, *named, "--method", "platt", "-o", saved)[0] == 0
        expected = cb.PlattScaling().fit(COLUMNS["raw"], LABEL, sample_weight=weight)
        got = cb.load(saved).predict_proba(COLUMNS["raw"])
        np.testing.assert_allclose(got, expected.predict_proba(COLUMNS["raw"]), rtol=1e-9)


@pytest.mark.parametrize("before", SUFFIXES)
@pytest.mark.parametrize("after", [".csv", ".tsv", ".parquet", ".jsonl", ".arrow"])
def test_apply_keeps_every_other_column_in_any_pair_of_formats(tmp_path, before, after, capsys):
    file = write(tmp_path / f"preds{before}")
    saved, out = tmp_path / "cal.json", tmp_path / f"out{after}"
    cb.ScalingBinning(bins=5).fit(COLUMNS["raw"], LABEL).save(saved)
    code, said, err = run(capsys, "apply", saved, file, "--y-prob", "raw", "-o", out)
    assert (code, said, err) == (0, "", f"calibrant: 1,500 rows written to {out}")
    kept = read(out)
    assert list(kept) == [*COLUMNS, "raw_calibrated"]
    assert kept["animal"] == COLUMNS["animal"].tolist()
    assert kept["score"] == pytest.approx(SCORE.tolist(), rel=1e-15)
    assert len(set(kept["raw_calibrated"])) == 5
    is_text = ".csv" in file or ".tsv" in file
    assert kept["id"][7] == (7 if is_text and after not in (".csv", ".tsv") else "00007")


def read(path):
    """Read a table back by other means."""
    import pyarrow.csv as pa_csv

    if path.suffix in (".csv", ".tsv"):
        parse = pa_csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        convert = pa_csv.ConvertOptions(column_types={"id": pa.string()})
        return pa_csv.read_csv(path, parse_options=parse, convert_options=convert).to_pydict()
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return {name: [row[name] for row in rows] for name in rows[0]}
    read_table = pa.parquet.read_table if path.suffix == ".parquet" else pa.feather.read_table
    return read_table(path).to_pydict()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_text_formats_are_copied_as_they_stand(tmp_path, suffix, capsys):
    """Leading zeros, dates, big numbers, blanks and odd fields survive."""
    saved, out = tmp_path / "cal.json", tmp_path / f"out{suffix}"
    cb.Identity().fit(SCORE, LABEL).save(saved)
    odd = ["007", "2020-01-01", "12345678901234567890", "", "NA", "=1+1", 'a "b", c', "1e5"]
    columns = {"p": np.full(8, 0.5), "odd": np.array(odd)}
    before = write(tmp_path / f"in{suffix}", columns)
    assert run(capsys, "apply", saved, before, "--y-prob", "p", "--replace", "-o", out)[0] == 0
    if suffix == ".jsonl":
        assert [json.loads(line)["odd"] for line in out.read_text().splitlines()] == odd
    else:
        import csv as csv_module

        rows = csv_module.reader(
            out.read_text().splitlines(), delimiter="\t" if suffix == ".tsv" else ","
        )
        assert [row[1] for row in rows] == ["odd", *odd]


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


@pytest.fixture
def animals(tmp_path, monkeypatch):
    """Two halves of the rows: one to fit on, one to certify on."""
    monkeypatch.chdir(tmp_path)
    fresh = slice(N // 2, N)
    columns = COLUMNS | {"word": np.where(LABEL == 1, "spam", "ham"), "flipped": 1 - LABEL}
    write(tmp_path / "old.csv", columns, slice(0, N // 2))
    write(tmp_path / "new.csv", columns, fresh)
    return {"new": fresh, "old": slice(0, N // 2)}


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


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("apply", "--replace", "--suffix", "_new", "-o", "out.csv"), "--replace adds none"),
        (("apply", "--escape-formulas", "-o", "out.parquet"), "--escape-formulas is for CSV"),
        (("apply", "--escape-formulas", "-o", "out.jsonl"), "--escape-formulas is for CSV"),
        (("compare", "--versus", "squared"), "--versus says how rows are read"),
        (("fit", "--confidence-level", "0.9", "-o", "x.json"), "unrecognized arguments"),
    ],
)
def test_options_that_would_change_nothing_are_refused(animals, argv, words, capsys):
    one = ("--y-true", "label", "--y-prob", "score")
    run(capsys, "fit", "old.csv", *one, "-o", "cal.json")
    run(capsys, "measure", "old.csv", *one, "--bins", "width:3", "--table", "table.json")
    command, *options = argv
    files = {
        "apply": ("cal.json", "old.csv", "--y-prob", "score"),
        "compare": ("table.json", "table.json"),
        "fit": ("old.csv", *one),
    }
    code, _, err = run(capsys, command, *files[command], *options)
    assert (code, words in err) == (4, True), err
    assert not any(Path(name).exists() for name in ("out.csv", "out.parquet", "out.jsonl"))
