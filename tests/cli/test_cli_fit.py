"""calibrant fit: what the library fits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import (
    CLASS,
    COLUMNS,
    LABEL,
    MANY,
    NAMES,
    PROBS,
    N,
    pa,
    run,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")


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
    "prior-shift": cb.PriorShift(),
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
    ("target", "expected"),
    [
        (("--target-mean", "0.2"), cb.PriorShift(target_mean=0.2)),
        (("--offset", "-0.5"), cb.PriorShift(offset=-0.5)),
    ],
)
def test_a_prior_shift_is_fitted_with_and_without_labels(tmp_path, csv, target, expected, capsys):
    saved, shift = tmp_path / "shift.json", ("--method", "prior-shift", *target)
    offset = expected.fit(COLUMNS["raw"]).offset_
    for labels in (("--y-true", "label"), ("--no-labels",)):
        code, out, _ = run(capsys, "fit", csv, *labels, "--y-prob", "raw", *shift, "-o", saved)
        assert code == 0
        assert f"log-odds {offset:+.4g}" in out
        assert cb.load(saved).offset_ == pytest.approx(offset, rel=1e-12)
        assert (cb.load(saved).fingerprint_ is None) == (labels == ("--no-labels",))


def test_a_prior_shift_refuses_what_means_nothing(tmp_path, csv, capsys):
    saved, raw = tmp_path / "shift.json", ("--y-true", "label", "--y-prob", "raw")
    shift = ("--method", "prior-shift")
    for options in (
        ("--target-mean", "0.2"),
        ("--method", "platt", "--no-labels"),
        (*shift, "--no-labels"),
        (*shift, "--no-labels", "--offset", "1", "--by", "animal"),
        (*shift, "--target-mean", "0.2", "--offset", "1"),
        (*shift, "--target-mean", "20"),
    ):
        assert run(capsys, "fit", csv, *raw, *options, "-o", saved)[0] == 4
    many = ("--y-prob", "prob_*", *shift, "--offset", "1", "--no-labels")
    assert run(capsys, "fit", csv, *many, "-o", saved)[0] == 4
    assert not saved.exists()


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


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_groups_are_repaired_by_the_columns_of_the_file(tmp_path, suffix, capsys):
    raw, site = COLUMNS["raw"], np.array(["east", "no'rth", None], object)[np.arange(N) % 3]
    age = np.arange(N) % 90 + 0.5
    file = write(tmp_path / f"sites.{suffix}", {**COLUMNS, "site": site, "age": age})
    saved, out = tmp_path / "cal.json", tmp_path / "out.parquet"
    options = ("--y-true", "label", "--y-prob", "raw", "--method", "platt", "--by", "site")
    code, said, _ = run(capsys, "fit", file, *options, "age=0,40,inf", "-o", saved)
    assert code == 0
    assert "4 groups by site and age" in said
    assert run(capsys, "apply", saved, file, "--y-prob", "raw", "-o", out)[0] == 0
    by = {"site": site, "age": (age, [0, 40, np.inf])}
    expected = cb.ByGroup(cb.PlattScaling()).fit(raw, LABEL, by=by).predict_proba(raw, by=by)
    got = pa.parquet.read_table(out).column("raw_calibrated").to_numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    other = write(tmp_path / f"none.{suffix}")
    code, _, complaint = run(capsys, "apply", saved, other, "--y-prob", "raw", "-o", out)
    assert code == 4
    assert "has no column 'site'" in complaint


def test_labels_are_fitted_applied_and_certified(tmp_path, capsys):
    names = [f"{letter}_{k}" for letter in "yp" for k in range(3)]
    values = np.column_stack([np.random.default_rng(3).uniform(size=PROBS.shape) < PROBS, PROBS])
    columns = {name: values[:, i] for i, name in enumerate(names)}
    columns |= {name: columns[name].astype(int) for name in names[:3]}
    file, fresh = (
        write(tmp_path / name, columns, rows)
        for name, rows in (("old.csv", slice(0, 800)), ("new.csv", slice(800, None)))
    )
    saved, out = tmp_path / "cal.json", tmp_path / "out.parquet"
    labels = ("--y-true", "y_*", "--y-prob", "p_*", "--kind", "multi-label")
    assert run(capsys, "fit", file, *labels, "--bins", "4", "-o", saved)[0] == 0
    expected = cb.MultiLabel(cb.ScalingBinning(bins="4")).fit(values[:800, 3:], values[:800, :3])
    assert run(capsys, "apply", saved, fresh, "--y-prob", "p_*", "-o", out)[0] == 0
    got = pa.parquet.read_table(out)
    repaired = np.column_stack([got.column(f"p_{k}_calibrated").to_numpy() for k in range(3)])
    np.testing.assert_allclose(repaired, expected.predict_proba(values[800:, 3:]), rtol=1e-12)
    options = ("--calibrator", saved, "--max-error", "0.3")
    code, text, _ = run(capsys, "certify", fresh, *labels, *options)
    assert code == 0
    assert "multi-label" in text


@pytest.mark.parametrize("kind", [(), ("--kind", "marginal")])
def test_logits_of_several_classes_need_a_method_that_reads_all_at_once(
    tmp_path, csv, kind, capsys
):
    line = ("fit", csv, *MANY, *kind, "--input", "logits", "-o", tmp_path / "cal.json")
    code, _, err = run(capsys, *line)
    assert (code, "Use temperature, vector or matrix, or apply a softmax" in err) == (4, True)


OWN = """
import numpy as np

class Cube:
    def fit(self, X, y, sample_weight=None):
        cube = X[:, 0] ** 3
        self.rate_ = np.average(y, weights=sample_weight) / max(np.average(cube), 1e-12)
        return self

    def predict_proba(self, X):
        return np.clip(self.rate_ * X[:, 0] ** 3, 0, 1)

class Falling(Cube):
    def predict_proba(self, X):
        return 1 - super().predict_proba(X)

class Unfinished:
    def fit(self, X, y):
        return self

class Costly:
    def __init__(self, slope):
        self.slope = slope

class Leaving(Cube):
    def fit(self, X, y):
        raise SystemExit(0)

class Broken(Cube):
    def predict_proba(self, X):
        return self.curve_
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    return path


def own_class(name):
    space = {}
    exec(OWN, space)
    return space[name]()


def test_a_scaler_of_ones_own_is_fitted_applied_and_certified(tmp_path, csv, own, capsys):
    saved, out = tmp_path / "cal.json", tmp_path / "out.parquet"
    columns = ("--y-true", "label", "--y-prob", "raw")
    code, text, _ = run(
        capsys, "fit", csv, *columns, "--bins", "6", "--scaler", f"{own}:Cube", "-o", saved
    )
    assert code == 0
    assert "6 different outputs" in text
    assert run(capsys, "apply", saved, csv, "--y-prob", "raw", "-o", out)[0] == 0
    raw = COLUMNS["raw"]
    expected = cb.ScalingBinning(bins=6, scaler=own_class("Cube")).fit(raw, LABEL)
    got = pa.parquet.read_table(out).column("raw_calibrated").to_numpy()
    np.testing.assert_array_equal(got, expected.predict_proba(raw))
    limit = ("--calibrator", saved, "--max-error", "0.1")
    code, _, err = run(capsys, "certify", csv, *columns, *limit)
    assert code == 3, "rows of the fit are known to be those"
    assert "fitted on" in err


@pytest.mark.parametrize("kind", ["marginal", "top-label"])
def test_a_scaler_of_ones_own_works_on_classes(tmp_path, csv, own, kind, capsys):
    saved = tmp_path / "cal.json"
    options = (*MANY, "--kind", kind, "--scaler", f"{own}:Cube", "--bins", "4")
    assert run(capsys, "fit", csv, *options, "-o", saved)[0] == 0
    inner = cb.ScalingBinning(bins=4, scaler=own_class("Cube"))
    made = cb.OneVsRest(inner) if kind == "marginal" else cb.TopLabel(inner)
    expected = made.fit(PROBS, NAMES[CLASS], classes=NAMES).predict_proba(PROBS)
    np.testing.assert_array_equal(cb.load(saved).predict_proba(PROBS), expected)


def test_a_scaler_of_ones_own_may_import_its_neighbours(tmp_path, csv, own, capsys):
    (tmp_path / "scalers.py").write_text("from own import Cube\n", encoding="utf-8")
    columns = ("--y-true", "label", "--y-prob", "raw", "--scaler", f"{tmp_path}/scalers.py:Cube")
    path = [*sys.path]
    assert run(capsys, "fit", csv, *columns, "-o", tmp_path / "cal.json")[0] == 0
    assert sys.path == path


@pytest.mark.parametrize(("name", "scaler"), [("beta", cb.BetaScaling()), ("platt", None)])
def test_a_scaler_has_a_name(tmp_path, csv, name, scaler, capsys):
    saved = tmp_path / "cal.json"
    columns = ("--y-true", "label", "--y-prob", "raw", "--scaler", name)
    assert run(capsys, "fit", csv, *columns, "-o", saved)[0] == 0
    expected = cb.ScalingBinning(scaler=scaler).fit(COLUMNS["raw"], LABEL)
    found = cb.load(saved).predict_proba(COLUMNS["raw"])
    np.testing.assert_allclose(found, expected.predict_proba(COLUMNS["raw"]), rtol=1e-12)


@pytest.mark.parametrize(
    ("scaler", "others", "says"),
    [
        ("FILE:Falling", (), "not increasing"),
        ("FILE:Unfinished", (), "Unfinished of .* has no predict_proba"),
        ("FILE:Costly", (), "made without arguments.*slope"),
        ("FILE:Absent", (), "got 'Absent'. Its classes are Cube, Falling, Unfinished, Costly,"),
        ("FILE:Leaving", (), "raised SystemExit: 0 in line 27"),
        ("FILE:Broken", (), "no attribute 'curve_' in line 31"),
        ("no_such_file.py:Cube", (), "FileNotFoundError"),
        ("no_such_package:Cube", (), "ModuleNotFoundError"),
        ("plat", (), "name of a method or FILE.py:CLASS"),
        ("matrix", (), "recalibrator of one score"),
        ("FILE:Cube", ("--method", "platt"), "--scaler is for scaling-binning, not for platt"),
        ("FILE:Cube", ("--input", "logits"), "reads probabilities; got --input logits"),
    ],
)
def test_a_scaler_that_cannot_serve_is_refused(tmp_path, csv, own, scaler, others, says, capsys):
    columns = ("--y-true", "label", "--y-prob", "raw", *others)
    given = scaler.replace("FILE", str(own))
    saved = tmp_path / "cal.json"
    code, _, err = run(capsys, "fit", csv, *columns, "--scaler", given, "-o", saved)
    assert code == 4
    assert re.search(says, " ".join(err.split()))
    assert not saved.exists()
