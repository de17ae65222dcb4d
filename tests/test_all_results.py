"""Every public result prints, reads as its number, and can be copied, pickled and sent elsewhere."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import pickle
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant import report, stats
from calibrant.paper import STUDIES

RNG = np.random.default_rng(77)
P = RNG.uniform(size=400)
Y = (RNG.uniform(size=400) < P**1.4).astype(int)
LEVELS = np.round(P, 1)
PROBS = RNG.dirichlet(np.ones(3), size=400)
CLASS = RNG.integers(3, size=400)
WEIGHTS = RNG.exponential(size=400) + 0.1
REAL = P + RNG.normal(size=400) / 2
QUANTILES = cb.normal_quantiles(P, 0.4, (0.05, 0.5, 0.95))
LOG = Path(__file__).parent / "evaluation.jsonl"
GROUP = np.where(np.arange(400) % 3 > 0, "a", "b")


def _metric():
    metric = cb.CalibrationMetric(bins=cb.EqualWidth(5))
    metric.update(Y, P)
    return metric


def _monitor():
    monitor = cb.CalibrationMonitor(max_error=0.02)
    monitor.update(Y, P, name="Monday")
    return monitor


MADE = {
    "error": lambda: cb.calibration_error(Y, P),
    "error of levels": lambda: cb.calibration_error(Y, LEVELS, bins=cb.Distinct(), norm="l1"),
    "error of classes": lambda: cb.calibration_error(
        CLASS, PROBS, kind="marginal", class_weight=[1, 2, 3], sample_weight=WEIGHTS
    ),
    "interval": lambda: cb.calibration_error(Y, P).confidence_interval(),
    "table": lambda: cb.tabulate(Y, P, bins=7),
    "table of classes": lambda: cb.tabulate(
        CLASS, PROBS, kind="marginal", classes=[0, 1, 2], sample_weight=WEIGHTS
    ),
    "tables of groups": lambda: cb.tabulate(Y, P, bins=7, by=GROUP),
    "errors of groups": lambda: cb.calibration_error(Y, P, by=GROUP),
    "curves of groups": lambda: cb.reliability_curve(Y, P, by=GROUP),
    "certificates of groups": lambda: cb.certify(Y, LEVELS, max_error=0.2, by=GROUP),
    "audit": lambda: cb.audit(Y, LEVELS, by=GROUP, max_error=0.2),
    "validation": lambda: cb.validate(Y, P),
    "validations of groups": lambda: cb.validate(Y, P, by=GROUP),
    "measure of a validation": lambda: make("validation")["slope"],
    "bins": lambda: cb.tabulate(Y, P, bins=7).bins[0],
    "problem": lambda: cb.tabulate(CLASS, PROBS, kind="marginal").problem,
    "rule": lambda: cb.Hybrid(4),
    "curve": lambda: cb.reliability_curve(Y, P),
    "isotonic curve": lambda: stats.isotonic_curve(cb.tabulate(Y, P, bins=7)),
    "Brier": lambda: cb.brier_decomposition(Y, P),
    "CORP": lambda: cb.brier_decomposition(Y, P, method="corp"),
    "skill": lambda: cb.skill_score(Y, P),
    "backtest of grades": lambda: cb.grade_backtest(Y, LEVELS),
    "certificate": lambda: cb.certify(Y, LEVELS, max_error=0.2),
    "certificate of classes": lambda: cb.certify(CLASS, PROBS, kind="marginal", max_error=0.2),
    "recheck": lambda: cb.certify(Y, LEVELS, max_error=0.2).recheck(),
    "test": lambda: cb.calibration_test(Y, P, rng=0),
    "Cox test": lambda: cb.calibration_test(Y, P, method="cox"),
    "comparison": lambda: cb.compare(Y, P, LEVELS),
    "comparisons": lambda: cb.compare(Y, {"a": P, "b": LEVELS, "c": P**2}),
    "error of clusters": lambda: cb.calibration_error(Y, P, cluster=np.arange(400) // 4),
    "difference": lambda: cb.compare(Y, P, LEVELS).brier,
    "comparison of tables": lambda: cb.compare_tables(
        cb.tabulate(Y[:200], P[:200]), cb.tabulate(Y[200:], P[200:])
    ),
    "bin-free bounds": lambda: cb.bin_free_bounds(Y, P),
    "bin-free bound": lambda: cb.bin_free_bounds(Y, P).cutoff,
    "lower bound": lambda: cb.prequential_lower_bound(Y, P),
    "certificate of another rate": lambda: cb.certify_label_shift(Y, LEVELS, target_rate=0.3),
    "coverage": lambda: cb.certify_coverage(REAL, QUANTILES, classes=(0.05, 0.5, 0.95)),
    "coverage of groups": lambda: cb.certify_coverage(
        REAL, QUANTILES, classes=(0.05, 0.5, 0.95), by=np.arange(len(REAL)) % 3
    ),
    "PIT": lambda: cb.pit_histogram(REAL, QUANTILES, classes=(0.05, 0.5, 0.95)),
    "PIT display": lambda: cb.PitDisplay.from_predictions(
        REAL, QUANTILES, classes=(0.05, 0.5, 0.95), draw=False
    ),
    "pinball": lambda: cb.pinball_loss(REAL, QUANTILES, classes=(0.05, 0.5, 0.95)),
    "CRPS": lambda: cb.crps(REAL, mean=P, std=0.4),
    "RPS": lambda: cb.ranked_probability_score(CLASS, PROBS),
    "recalibrator of quantiles": lambda: cb.QuantileRecalibration().fit(
        QUANTILES, REAL, classes=(0.05, 0.5, 0.95)
    ),
    "selective curve": lambda: cb.selective_curve(Y, P),
    "decision curve": lambda: cb.decision_curve(Y, P),
    "decision display": lambda: cb.DecisionDisplay.from_predictions(Y, P, draw=False),
    "selective certificate": lambda: cb.selective_curve(Y, P).certificate(0.9),
    "selective display": lambda: cb.SelectiveDisplay.from_predictions(Y, P, draw=False),
    "evaluation log": lambda: cb.read_log(LOG, "jsonl", question="question"),
    "evaluation pairs": lambda: make("evaluation log").paired(make("evaluation log")),
    "report": lambda: report(Y, P),
    "report of classes": lambda: report(CLASS, PROBS),
    "scores": lambda: cb.best_recalibrator(Y, P, cv=3).scores_,
    "fit report": lambda: cb.PlattScaling().fit(P, Y).fit_result_,
    "resolution": lambda: cb.recalibrators.resolution_report(
        cb.ScalingBinning(bins=5).fit(P, Y), P, Y
    ),
    "study": lambda: STUDIES["example-3-1"].run(quick=True),
    "metric": _metric,
    "monitor": _monitor,
    "monitored batch": lambda: _monitor().batches[0],
    "display": lambda: cb.ReliabilityDisplay.from_predictions(Y, P, isotonic=True, draw=False),
    "recalibrator": lambda: cb.ScalingBinning(bins=5).fit(P, Y),
    "recalibrator of classes": lambda: cb.OneVsRest(cb.HistogramBinning(bins=5)).fit(PROBS, CLASS),
}
make = cache(lambda name: MADE[name]())


RESULTS = [
    "error", "error of levels", "error of classes", "interval", "curve", "isotonic curve", "Brier",
    "CORP", "skill", "backtest of grades", "certificate", "certificate of classes", "recheck", "test", "Cox test", "comparison",
    "difference", "comparison of tables", "bin-free bounds", "bin-free bound", "lower bound",
    "monitored batch", "selective curve", "decision curve", "selective certificate", "certificate of another rate",
    "evaluation log", "evaluation pairs", "validation", "measure of a validation",
    "coverage", "coverage of groups", "PIT", "pinball", "CRPS", "RPS", "scores", "resolution",
]  # fmt: skip
NUMBERS = [
    "error", "error of levels", "error of classes", "Brier", "CORP", "skill", "difference", "bin-free bound",
    "lower bound", "measure of a validation", "pinball", "CRPS", "RPS",
]  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_print_readable_lines_one_line_html_and_json(name):
    result = make(name)
    assert not re.search(r"\w+\(\w+=|array\(", str(result)), "written for people"
    assert "\n" not in repr(result)
    assert repr(result).startswith(f"<{type(result).__name__}: ")
    assert re.match("<(table|pre)>", result._repr_html_())
    assert json.loads(result.to_json()) == json.loads(json.dumps(result.to_dict(), allow_nan=False))


@pytest.mark.parametrize("name", MADE)
def test_whatever_is_made_has_a_repr_of_one_line(name):
    assert "\n" not in repr(make(name))


@pytest.mark.parametrize("name", MADE)
def test_what_is_printed_fits_into_a_terminal_of_80_columns(name):
    made = make(name)
    if name != "monitored batch" and type(made).__str__ is not object.__str__:
        assert max(map(len, str(made).splitlines())) <= 80


LONG = [f"the {place} ward of the university hospital, {city}" for city in ("east", "west")
        for place in ("surgical", "medical")]  # fmt: skip
WIDE = {
    "audit": lambda: cb.audit(Y, LEVELS, by={"ward": np.array(LONG)[np.arange(400) % 4], "sex": GROUP}, max_error=0.2),
    "errors": lambda: cb.calibration_error(Y, P, by=np.array(LONG)[np.arange(400) % 4]),
    "validations": lambda: cb.validate(Y, P, by=np.array(LONG)[np.arange(400) % 4]),
    "grades": lambda: cb.grade_backtest(Y, LEVELS, grades=[f"a grade with the long name {i}" for i in range(11)]),
}  # fmt: skip


@pytest.mark.parametrize("name", WIDE)
def test_tables_of_long_names_keep_every_number_in_80_columns(name):
    made = WIDE[name]()
    lines = str(made).splitlines()
    assert max(map(len, lines)) <= 80
    if name == "audit":
        for group in made.groups:
            for number in (f"{group.n:,}", f"{group.error:.4f}", f"{group.upper_bound:.4f}"):
                assert number in str(made)
            words = " ".join(str(made).split())
            assert " ".join(map(str, group.group[1:])) in words


def test_several_sentences_end_with_a_period_and_a_phrase_does_not():
    several = cb.certify(Y, P, max_error=0.9)
    assert several.verdict == "undecided"
    assert "ScalingBinning.\n" in str(several)
    assert repr(several).endswith("ScalingBinning.>")
    assert repr(make("certificate")).endswith("bins)>")
    advised = cb.certify(Y, LEVELS, max_error=0.1)
    assert str(advised).partition("\nThe bounds hold if")[0].endswith(" of any number.")


@pytest.mark.parametrize(
    "name",
    [
        "error",
        "error of levels",
        "error of classes",
        "curve",
        "certificate",
        "comparison",
        "report",
    ],
)
def test_a_notebook_draws_a_picture(name):
    assert make(name)._repr_html_().count("<svg ") == 1


@pytest.mark.parametrize("name", NUMBERS)
def test_results_that_are_a_number_read_as_their_value(name):
    result = make(name)
    value = result.value
    assert (float(result), round(result, 3), f"{result:.3f}") == (
        value,
        round(value, 3),
        f"{value:.3f}",
    )
    assert value - 1 < result < value + 1
    assert result == value
    assert result == WAYS["copy"](result)
    assert result.to_dict()["value"] == value


@pytest.mark.parametrize(
    "name", ["difference", "bin-free bound", "error", "error of classes", "skill"]
)
def test_a_printed_estimate_lies_in_its_own_printed_interval(name):
    value, low, high = map(float, re.findall(r"[-+]?\d\.\d+", str(make(name)))[:3])
    assert low <= value <= high


def test_results_of_different_measures_cannot_be_ordered():
    with pytest.raises(ex.InvalidArgumentError, match="same norm and kind .* Difference and l2"):
        assert make("difference") < make("error")


LATER = ("noise_floor", "is_lower_bound", "unresolved_mass", "per_class")


@pytest.mark.parametrize("name", ["error", "error of classes"])
def test_what_the_value_does_not_need_is_computed_when_it_is_asked_for(name):
    read, unread = (cb.calibration_error(make(name).table) for _ in range(2))
    assert not set(LATER) & set(vars(read))
    answers = {each: getattr(read, each) for each in LATER}
    assert set(LATER) <= set(vars(read)), "and kept"
    for result in (read, unread):  # before they are asked for, and after
        copied = pickle.loads(pickle.dumps(result))
        assert {each: getattr(copied, each) for each in LATER} == answers
    document = unread.to_dict()
    assert (document["noise_floor"], document["unresolved_mass"]) == (
        answers["noise_floor"],
        answers["unresolved_mass"],
    )
    assert read == unread
    assert repr(read) == repr(unread)
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.unresolved_mass = 0.0


def test_threads_that_ask_at_once_get_the_same_answers():
    table, threads = make("error of classes").table, 8
    result, begin = cb.calibration_error(table), threading.Barrier(threads)

    def ask():
        begin.wait()
        return [getattr(result, each) for each in LATER]

    with ThreadPoolExecutor(threads) as pool:
        answers = [asked.result() for asked in [pool.submit(ask) for _ in range(threads)]]
    assert answers == [[getattr(cb.calibration_error(table), each) for each in LATER]] * threads


def through_joblib(value):
    """Write and read as joblib does between processes and in caches."""
    stream = io.BytesIO()
    joblib.dump(value, stream)
    stream.seek(0)
    return joblib.load(stream)


WAYS = {
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "joblib": through_joblib,
    **{
        f"pickle {protocol}": lambda value, protocol=protocol: pickle.loads(
            pickle.dumps(value, protocol)
        )
        for protocol in (2, pickle.HIGHEST_PROTOCOL)
    },
}


def answers(value):
    """Return everything an object holds, as plain values that can be compared."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return {name: answers(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [answers(member) for member in value]
    if isinstance(value, stats.CalibrationErrorResult):
        value = {**vars(value), "source": None}  # the rows stay behind
        return ("CalibrationErrorResult", answers(value))
    if hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        return (type(value).__qualname__, answers(vars(value)))
    return "a function" if callable(value) else repr(value)


def answers_without_rows(value):
    """Return the same, less the lock of a metric or a monitor."""
    if isinstance(value, cb.CalibrationMetric):  # each has a lock of its own
        return answers(value.state_dict()), str(value.compute())
    if isinstance(value, cb.CalibrationMonitor):
        return value.to_json()
    return answers(value)


def arrays_of(value):
    """Yield every array that can be reached from a frozen object."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from arrays_of(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from arrays_of(member)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from arrays_of(vars(value))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_a_copy_gives_the_same_answers(name, way):
    original = make(name)
    copied = WAYS[way](original)
    assert type(copied) is type(original)
    assert answers_without_rows(copied) == answers_without_rows(original)
    if type(original).__str__ is not object.__str__:
        assert str(copied) == str(original)
    if hasattr(original, "to_dict"):
        assert copied.to_dict() == original.to_dict()
    if hasattr(original, "predict_proba"):
        rows = PROBS if "classes" in name else P
        assert np.array_equal(copied.predict_proba(rows), original.predict_proba(rows))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MADE)
def test_no_array_of_a_result_can_be_written_in_any_copy(name, way):
    for each in (make(name), WAYS[way](make(name))):
        if dataclasses.is_dataclass(each):
            assert all(not array.flags.writeable for array in arrays_of(each))


@pytest.mark.parametrize("name", [name for name in MADE if "recalibrator" not in name])
def test_a_result_cannot_be_changed(name):
    result = make(name)
    if not dataclasses.is_dataclass(result):
        assert name in (
            "metric",
            "monitor",
            "display",
            "selective display",
            "decision display",
            "PIT display",
        ), "everything else is a frozen record"
        return
    for field in dataclasses.fields(result):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(result, field.name, None)


@pytest.mark.parametrize(
    "name", ["table", "table of classes", "bins", "problem", "interval", "Brier"]
)
def test_copies_are_equal(name):
    assert all(way(make(name)) == make(name) for way in WAYS.values())


def test_a_deep_copy_of_a_table_shares_nothing_and_can_be_added():
    table = make("table")
    copied = copy.deepcopy(table)
    assert not np.shares_memory(copied.count, table.count)
    assert (copied + table).n == 2 * table.n
    with pytest.raises(ValueError, match="read-only"):
        copied.count[0, 0] = 7


def test_an_error_gives_the_same_intervals_after_a_pickle():
    result = make("error of classes")
    copied = pickle.loads(pickle.dumps(result))
    for method in ("auto", "box", "score"):
        assert copied.confidence_interval(method=method) == result.confidence_interval(
            method=method
        )


def test_a_pickled_error_leaves_its_rows_behind_and_says_so():
    rng = np.random.default_rng(1)
    p = rng.uniform(size=200_000)
    result = cb.calibration_error(rng.uniform(size=p.size) < p, p)
    pickled = pickle.dumps(result)
    assert len(pickled) < p.nbytes / 10
    with pytest.raises(
        ex.NoSuchEstimatorError, match=r"pickled has left them behind\. Call calibr"
    ):
        pickle.loads(pickled).confidence_interval(method="percentile")


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copies_in_process_keep_what_a_bootstrap_needs(way):
    result = make("error")
    limits = [
        each.confidence_interval(method="percentile", rng=0, n_resamples=20)
        for each in (result, way(result))
    ]
    assert limits[0] == limits[1]


def test_a_bootstrap_that_needs_no_rows_survives_a_pickle():
    result = make("error of levels")
    copied = pickle.loads(pickle.dumps(result))
    assert result.confidence_interval(method="basic", rng=0) == copied.confidence_interval(
        method="basic", rng=0
    )


def test_a_result_is_read_by_a_process_that_has_imported_nothing(tmp_path):
    (tmp_path / "result.pickle").write_bytes(pickle.dumps(make("error")))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')))"
    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "result.pickle"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == str(make("error"))
