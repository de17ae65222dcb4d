"""Files as data=: every format, in bounded memory, and the same numbers as from arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
    NotFiniteError,
)
from calibrant.sources import read
from predictions_on_disk import CLASS, COLUMNS, LABEL, NAMES, PROBS, SCORE, SUFFIXES, write

pytestmark = pytest.mark.usefixtures("small_chunks")

RULES = [7, "auto", "width:10", "hybrid:4", "distinct", [0, 0.2, 0.5, 1]]
SUMS = ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww", "sum_wwuu")
WEIGHT = np.random.default_rng(1).exponential(size=LABEL.size)
LOGITS = np.log(PROBS)
ALL = COLUMNS | {"weight": WEIGHT, "odds": np.log(0.01 + SCORE) - np.log(1.01 - SCORE)}
ALL |= {f"logit_{k}": LOGITS[:, k] for k in range(3)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write all rows in every format, and in three parts."""
    folder = tmp_path_factory.mktemp("files")
    for suffix in SUFFIXES:
        write(folder / f"all{suffix}", ALL)
    for i, rows in enumerate((slice(0, 400), slice(400, 410), slice(410, None))):
        write(folder / f"part-{i}.parquet", ALL, rows)
    return folder


PROBLEMS = {
    "binary": ({"y_true": "label", "y_prob": "score"}, (LABEL, SCORE), {}),
    "weighted": (
        {"y_true": "label", "y_prob": "raw", "sample_weight": "weight"},
        (LABEL, COLUMNS["raw"]),
        {"sample_weight": WEIGHT},
    ),
    "top-label": ({"y_true": "animal", "y_prob": "prob_*"}, (NAMES[CLASS], PROBS), {}),
    "marginal": (
        {"y_true": "animal", "y_prob": ["prob_0", "prob_1", "prob_2"], "kind": "marginal"},
        (NAMES[CLASS], PROBS),
        {"kind": "marginal"},
    ),
    "logits": (
        {"y_true": "label", "y_prob": "odds", "input": "logits"},
        (LABEL, ALL["odds"]),
        {"input": "logits"},
    ),
    "logits of classes": (
        {"y_true": "animal", "y_prob": "logit_*", "input": "logits"},
        (NAMES[CLASS], LOGITS),
        {"input": "logits"},
    ),
}


def both(problem, data):
    """Return the arguments for files and for arrays."""
    by_name, arrays, options = PROBLEMS[problem]
    names = {"classes": ("cat", "dog", "eel")} if by_name["y_true"] == "animal" else {}
    return by_name | names | {"data": data}, (*arrays,), options | names


def assert_same_table(table, expected):
    assert (table.problem, table.bins) == (expected.problem, expected.bins)
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.level, expected.level)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(table, name), getattr(expected, name), rtol=1e-12, atol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_files_in_parts_are_counted_as_arrays(folder, problem, rule):
    named, arrays, options = both(problem, str(folder / "part-*.parquet"))
    assert_same_table(cb.tabulate(**named, bins=rule), cb.tabulate(*arrays, **options, bins=rule))


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_counted_as_arrays(folder, suffix, problem):
    named, arrays, options = both(problem, folder / f"all{suffix}")
    assert_same_table(cb.tabulate(**named), cb.tabulate(*arrays, **options))


@pytest.mark.parametrize("problem", PROBLEMS)
def test_columns_bring_home_the_rows_and_digests_know_them(folder, problem):
    named, arrays, options = both(problem, folder / "all.csv")
    source, expected = read(**named), read(*arrays, **options)
    np.testing.assert_allclose(
        source.columns().predictions, expected.columns().predictions, rtol=1e-15
    )
    np.testing.assert_array_equal(source.columns().codes(), expected.columns().codes())
    named["data"] = folder / "all.npz"  # bit by bit, where text may round logits
    source = read(**named)
    assert source.digest() == expected.digest()
    source = read(**named)
    source.keep_digest()
    source.tabulate("auto")
    assert source.digest() == expected.digest()


FUNCTIONS = {
    "calibration_error": lambda **given: cb.calibration_error(**given).value,
    "reliability_curve": lambda **given: cb.reliability_curve(**given).event_rate.tolist(),
    "brier_decomposition": lambda **given: cb.brier_decomposition(**given).value,
    "certify": lambda **given: cb.certify(**given, max_error=0.2).upper_bound,
    "calibration_test": lambda **given: cb.calibration_test(**given, method="exact", rng=0).pvalue,
    "report": lambda **given: cb.report(**given).summary,
    "display": lambda **given: (
        cb.ReliabilityDisplay.from_predictions(**given, draw=False)
        .curves[0]
        .curve.event_rate.tolist()
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("problem", ["binary", "top-label", "logits"])
def test_every_function_takes_files(folder, function, problem):
    named, (y_true, y_prob), options = both(problem, folder / "part-*.parquet")
    got = FUNCTIONS[function](**named)
    expected = FUNCTIONS[function](y_true=y_true, y_prob=y_prob, **options)
    assert got == (expected if function == "report" else pytest.approx(expected, rel=1e-9))


def test_a_list_of_names_and_paths_may_mix_formats(folder, tmp_path):
    first = write(tmp_path / "first.csv", ALL, slice(0, 700))
    data = [first, Path(write(tmp_path / "second.jsonl", ALL, slice(700, None)))]
    table = cb.tabulate("label", "score", data=data, bins="distinct")
    assert_same_table(table, cb.tabulate(LABEL, SCORE, bins="distinct"))


def test_models_in_files_are_compared(folder):
    got = cb.compare("label", "raw", "squared", data=folder / "part-*.parquet")
    expected = cb.compare(LABEL, COLUMNS["raw"], COLUMNS["squared"])
    assert got.brier.value == pytest.approx(expected.brier.value, rel=1e-12)


def test_the_best_recalibrator_is_chosen_from_files(folder):
    named = {"y_true": "animal", "y_prob": "prob_*", "classes": ("cat", "dog", "eel")}
    candidates = [cb.Identity(), cb.TemperatureScaling()]
    got = cb.best_recalibrator(**named, data=folder / "part-*.parquet", candidates=candidates)
    expected = cb.best_recalibrator(
        NAMES[CLASS], PROBS, classes=("cat", "dog", "eel"), candidates=candidates
    )
    assert str(got.scores_) == str(expected.scores_)


def test_a_certificate_of_files_is_that_of_the_rows(folder):
    certificate = cb.certify("label", "score", data=folder / "part-*.parquet", max_error=0.2)
    assert certificate.digests.rows == cb.certify(LABEL, SCORE).digests.rows
    shuffled = np.random.default_rng(0).permutation(LABEL.size)
    assert cb.recheck(certificate, LABEL[shuffled], SCORE[shuffled])
    assert cb.recheck(certificate, "label", "score", data=folder / "all.csv")
    assert not cb.recheck(certificate, "label", "raw", data=folder / "all.csv")
    named = {"y_true": "animal", "y_prob": "prob_*", "classes": ("cat", "dog", "eel")}
    pattern = cb.certify(**named, data=folder / "all.csv")
    explicit = cb.certify(**named | {"y_prob": ["prob_0", "prob_1", "prob_2"]}, data=dict(COLUMNS))
    assert pattern.digests == explicit.digests


def test_an_interval_by_resampling_reads_the_files_once_more(folder, monkeypatch):
    named, arrays, options = both("binary", folder / "all.parquet")
    got = cb.calibration_error(**named).confidence_interval(method="percentile", rng=0)
    expected = cb.calibration_error(*arrays, **options).confidence_interval(
        method="percentile", rng=0
    )
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high), rel=1e-9)


BAD = {
    "a NaN": ("score", 712, np.nan, NotFiniteError, "row 713 = nan"),
    "a percentage": ("score", 712, 50.0, InvalidProbabilitiesError, "row 713 = 50"),
    "a label 2": ("label", 712, 2, InvalidLabelsError, "column 'label', row 713 = 2"),
    "a weight below 0": ("weight", 712, -1.0, InvalidWeightsError, "rows "),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("what", BAD)
def test_a_bad_value_is_named_with_file_column_and_row_in_one_reading(
    tmp_path, what, suffix, monkeypatch
):
    column, row, value, exception, words = BAD[what]
    columns = {name: ALL[name].copy() for name in ("label", "score", "weight")}
    columns[column][row] = value
    file = write(tmp_path / f"bad{suffix}", columns)
    import calibrant.sources.files as module

    reads, original = [], module.read_chunks

    def counted(file, *rest):
        for chunk in original(file, *rest):
            reads.append(chunk.start)
            yield chunk

    monkeypatch.setattr(module, "read_chunks", counted)
    with pytest.raises(exception, match=words) as raised:
        cb.tabulate("label", "score", sample_weight="weight", data=file, bins="width:5")
    assert f"bad{suffix}, rows " in str(raised.value)
    assert max(reads) == reads[-1]  # the chunk that holds the value is the last one read
    assert reads.count(reads[-1]) == 1


def test_what_is_no_column_or_file_is_refused(folder, tmp_path):
    file = str(folder / "all.csv")
    with pytest.raises(InvalidInputError, match="no file"):
        cb.tabulate("label", "score", data=tmp_path / "none-*.csv")
    with pytest.raises(InvalidInputError, match="no column 'lable'; perhaps 'label' is meant"):
        cb.tabulate("lable", "score", data=file)
    with pytest.raises(InvalidArgumentError, match="names of columns; got array"):
        cb.tabulate(LABEL, "score", data=file)
    with pytest.raises(InvalidArgumentError, match="names of columns"):
        cb.tabulate("label", [], data=file)
    with pytest.raises(EmptyInputError, match="no rows"):
        cb.tabulate("label", "score", data=write(tmp_path / "empty.csv", ALL, slice(0, 0)))


def test_the_first_rows_fix_the_order_of_the_columns(tmp_path):
    names = ("prob_0", "prob_1", "prob_2")
    write(tmp_path / "part-0.parquet", ALL, slice(0, 500))
    turned = {"animal": ALL["animal"]} | {name: ALL[name] for name in names[::-1]}
    write(tmp_path / "part-1.parquet", turned, slice(500, None))
    named = {"y_true": "animal", "y_prob": "prob_*", "classes": tuple(NAMES), "kind": "marginal"}
    table = cb.tabulate(**named, data=tmp_path / "part-*.parquet", bins="width:9")
    expected = cb.tabulate(NAMES[CLASS], PROBS, classes=NAMES, kind="marginal", bins="width:9")
    assert_same_table(table, expected)


def test_an_event_that_no_row_has_is_refused_with_the_labels_there_are(folder):
    with pytest.raises(InvalidLabelsError, match="'bird' is the label of no row .labels: "):
        cb.tabulate("animal", "score", pos_label="bird", data=folder / "all.parquet")


def test_more_outputs_than_the_limit_are_taken_as_continuous(folder, monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.MOST_OUTPUTS", 5)
    certificate = cb.certify("label", "score", data=folder / "all.parquet")
    assert certificate.table.bins[0].rule == "uniform-mass"


@pytest.mark.parametrize("rule", ["distinct", "mass:40"])
def test_edges_made_of_logits_hold_the_rows_that_they_were_made_of(folder, rule):
    """One confidence, to the last bit, where edges are chosen and where rows are counted."""
    named, _, _ = both("logits of classes", str(folder / "part-*.parquet"))
    table = cb.tabulate(**named, bins=rule)
    if rule == "distinct":
        assert table.is_binned_model
        assert (table.count > 0).all()
    else:
        assert np.ptp(table.count) <= 1
