"""A stream of batches gives the answer of one batch."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import threading

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.sources import read

RNG = np.random.default_rng(11)
PROBS = RNG.dirichlet(np.ones(4), size=1000)
LABELS = RNG.integers(4, size=1000)


def batches(*cuts):
    return zip(np.split(LABELS, cuts), np.split(PROBS, cuts), strict=True)


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize("cuts", [(), (1,), (500, 501, 900), tuple(range(1, 1000, 37))])
def test_any_cut_of_the_stream_gives_the_same_answer(kind, cuts):
    metric = cb.CalibrationMetric(kind, cb.EqualWidth(12), n_classes=4)
    for y, p in batches(*cuts):
        metric.update(y, p)
    one = cb.calibration_error(LABELS, PROBS, kind=kind, bins=cb.EqualWidth(12))
    assert metric.compute().squared == pytest.approx(one.squared, rel=1e-11, abs=1e-15)
    assert metric.compute().is_lower_bound == one.is_lower_bound
    assert metric.table.count.tolist() == one.table.count.tolist()


def test_merged_workers_agree_with_one():
    whole = cb.CalibrationMetric("marginal", n_classes=4)
    whole.update(LABELS, PROBS)
    workers = [cb.CalibrationMetric("marginal", n_classes=4) for _ in range(3)]
    for worker, (y, p) in zip(workers, batches(200, 700), strict=True):
        worker.update(y, p)
    empty = cb.CalibrationMetric("marginal", n_classes=4)
    merged = empty.merge(workers[0]).merge(workers[1]).merge(workers[2])
    assert merged is empty
    assert merged.merge(cb.CalibrationMetric("marginal", n_classes=4)) is empty
    assert merged.compute().value == pytest.approx(whole.compute().value, rel=1e-12)


def test_the_state_does_not_grow_with_the_rows():
    metric = cb.CalibrationMetric(bins=cb.EqualWidth(10))
    metric.update(LABELS > 1, PROBS[:, 0])
    size = len(json.dumps(metric.state_dict()))
    for _ in range(20):
        metric.update(LABELS > 1, PROBS[:, 0])
    assert len(json.dumps(metric.state_dict())) < 1.5 * size


def test_the_state_survives_json():
    metric = cb.CalibrationMetric(
        "marginal", classes=list("abcd"), norm="l1", class_weight={"a": 1}
    )
    metric.update(np.array(list("abcd"))[LABELS], PROBS)
    again = cb.CalibrationMetric("marginal", classes=list("abcd"), norm="l1", class_weight={"a": 1})
    again.load_state_dict(json.loads(json.dumps(metric.state_dict())))
    assert again.compute().value == metric.compute().value
    again.load_state_dict(cb.CalibrationMetric().state_dict())
    with pytest.raises(ex.EmptyInputError, match="No rows yet"):
        again.compute()


def test_a_state_of_other_bins_is_refused():
    metric = cb.CalibrationMetric(bins=cb.EqualWidth(10))
    metric.update([0, 1], [0.2, 0.3])
    with pytest.raises(ex.IncompatibleTablesError, match="This state belongs to"):
        cb.CalibrationMetric(bins=cb.EqualWidth(11)).load_state_dict(metric.state_dict())


def test_reset_forgets_all_rows():
    metric = cb.CalibrationMetric()
    metric.update([0, 1], [0.2, 0.3])
    metric.reset()
    with pytest.raises(ex.EmptyInputError, match=r"call update\(y_true, y_prob\)"):
        metric.compute()


def test_weights_are_streamed_too():
    w = RNG.exponential(size=1000)
    metric = cb.CalibrationMetric("top-label", n_classes=4)
    for i in range(0, 1000, 300):
        part = slice(i, i + 300)
        metric.update(LABELS[part], PROBS[part], sample_weight=w[part])
    one = cb.calibration_error(LABELS, PROBS, bins=cb.EqualWidth(15), sample_weight=w)
    assert metric.compute().squared == pytest.approx(one.squared, rel=1e-11)


def test_a_bad_batch_changes_nothing():
    metric = cb.CalibrationMetric()
    metric.update([0, 1], [0.2, 0.3])
    with pytest.raises(ex.InvalidProbabilitiesError):
        metric.update([0, 1], [0.2, 1.3])
    assert metric.compute().n == 2


@pytest.mark.parametrize("bins", ["width:4", [0, 0.25, 0.5, 0.75, 1], np.arange(5) / 4], ids=str)
def test_fixed_bins_are_said_as_everywhere(bins):
    assert cb.CalibrationMetric(bins=bins).bins == cb.EqualWidth(4).bins


@pytest.mark.parametrize(
    "bins", ["auto", "mass:5", "distinct", 10, cb.EqualMass(10), cb.Distinct(), cb.Hybrid(3)]
)
def test_bins_that_depend_on_the_rows_to_come_are_refused(bins):
    with pytest.raises(ex.InvalidArgumentError, match="do not depend on the rows to come"):
        cb.CalibrationMetric(bins=bins)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "marginal"}, "needs n_classes= or classes="),
        ({"kind": "top-label", "n_classes": 1}, "whole number >= 2"),
        ({"kind": "binary", "n_classes": 3}, "must be 2"),
        ({"norm": "l0"}, "norm must be"),
        ({"norm": "max", "debias": True}, "No debiased estimator"),
        ({"class_weight": [1, 2]}, "class_weight applies to"),
    ],
)
def test_bad_settings_are_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        cb.CalibrationMetric(**options)


def test_batches_of_another_width_are_refused():
    metric = cb.CalibrationMetric("marginal", n_classes=4)
    with pytest.raises(ex.InvalidShapeError, match="has 4 columns of predictions; the batch has 3"):
        metric.update(np.zeros(10), PROBS[:10, :3])


def test_metrics_of_other_problems_do_not_merge():
    with pytest.raises(ex.IncompatibleTablesError, match="same problem, bins and groups"):
        cb.CalibrationMetric().merge(cb.CalibrationMetric(bins=cb.EqualWidth(3)))


@pytest.mark.parametrize("weighted", [False, True])
def test_empty_batches_and_batches_without_weight_do_not_matter(weighted):
    weights = RNG.integers(3, size=1000) * 1.0 if weighted else np.ones(1000)
    weights[300:600] = 0
    whole, cut = (cb.CalibrationMetric("top-label", n_classes=4) for _ in range(2))
    whole.update(LABELS, PROBS, weights)
    for part in np.split(np.arange(1000), [0, 300, 450, 450, 600]):
        cut.update(LABELS[part], PROBS[part], weights[part])
    assert cut.compute().value == pytest.approx(whole.compute().value, rel=1e-12)
    assert cut.table.count.tolist() == whole.table.count.tolist()


def test_a_batch_of_no_dimension_is_refused():
    metric = cb.CalibrationMetric("binary")
    with pytest.raises(ex.CalibrantError):
        metric.update(np.array(1), np.array(0.5))


def test_a_stream_of_empty_batches_has_no_rows():
    metric = cb.CalibrationMetric()
    metric.update([], [])
    metric.update(np.empty(0), np.empty(0), np.empty(0))
    with pytest.raises(ex.EmptyInputError):
        metric.compute()


@pytest.mark.parametrize("weight", [0.0, 1e-150])
def test_a_stream_without_weight_is_refused_when_it_is_computed(weight):
    metric = cb.CalibrationMetric()
    metric.update([0, 1], [0.2, 0.7], [weight, weight])
    with pytest.raises(ex.InvalidWeightsError, match="zero on every row|divide all weights"):
        metric.compute()
    metric.update([0, 1], [0.2, 0.7], [1, 2])
    assert metric.compute().n == (4 if weight else 2)


def test_groups_without_weight_are_refused_when_they_are_computed():
    metric = cb.CalibrationMetric(by="g")
    metric.update([0, 1], [0.2, 0.7], [0, 0], by=["a", "b"])
    for ask in (metric.compute, metric.compute_by):
        with pytest.raises(ex.InvalidWeightsError, match="zero on every row"):
            ask()
    metric.update([0, 1], [0.2, 0.7], [1, 0], by=["a", "b"])
    assert list(metric.compute_by()) == ["a"]


def test_an_event_may_be_missing_in_batches_and_not_in_the_stream():
    metric = cb.CalibrationMetric(pos_label="yes")
    metric.update(["no", "no"], [0.2, 0.7])
    with pytest.raises(ex.InvalidLabelsError, match="'yes' is the label of no row"):
        metric.compute()
    metric.update(["no", "yes"], [0.2, 0.7])
    assert metric.table.sum_y.sum() == 1
    assert metric.compute().n == 4


def test_two_columns_are_one_event_of_a_metric_with_names():
    metric = cb.CalibrationMetric(pos_label=1)
    metric.update(LABELS > 1, np.column_stack([1 - PROBS[:, 0], PROBS[:, 0]]))
    metric.update(LABELS > 1, PROBS[:, 0])
    assert metric.table.n == 2000


@pytest.mark.parametrize(
    "named",
    [
        {"classes": ("yes", "no"), "pos_label": "yes"},
        {"classes": ("no", "yes"), "pos_label": "no"},
        {"classes": ("yes", "no")},
        {"classes": (1, 0), "pos_label": 1},
        {"pos_label": 0},
    ],
)
def test_the_event_of_two_columns_is_the_one_that_is_measured_without_a_metric(named):
    happened = LABELS > 1
    labels = np.where(happened, "yes", "no") if "yes" in str(named) else happened.astype(int)
    both = np.column_stack([PROBS[:, 0], 1 - PROBS[:, 0]])
    whole = cb.tabulate(labels, both, bins="width:15", **named)
    metric = copy.deepcopy(cb.CalibrationMetric(**named))
    other = pickle.loads(pickle.dumps(metric))
    metric.update(labels[:400], both[:400])
    other.update(labels[400:], both[400:])
    table = metric.merge(other).table
    np.testing.assert_allclose(table.sum_p, whole.sum_p, rtol=1e-12)
    np.testing.assert_allclose(table.sum_py, whole.sum_py, rtol=1e-12)


def test_threads_lose_no_rows():
    metric = cb.CalibrationMetric(bins=cb.EqualWidth(10))
    interval = sys.getswitchinterval()

    def work():
        for start in range(0, 1000, 5):
            some = slice(start, start + 5)
            metric.update(LABELS[some] > 1, PROBS[some, 0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert metric.table.n == 8000


def test_metrics_are_pickled_and_copied_with_their_rows():
    metric = cb.CalibrationMetric(bins=cb.EqualWidth(10))
    metric.update(LABELS > 1, PROBS[:, 0])
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), copy.copy(metric)):
        other.update(LABELS > 1, PROBS[:, 0])
        assert (other.table.n, metric.table.n) == (2000, 1000)


@pytest.mark.parametrize(
    "state", [{}, None, [], "table", {"table": 3}, {"table": {}}, {"tabel": None}, 7]
)
def test_what_is_no_state_is_refused_and_changes_nothing(state):
    metric = cb.CalibrationMetric()
    metric.update([0, 1], [0.2, 0.7])
    with pytest.raises(ex.InvalidDocumentError):
        metric.load_state_dict(state)
    assert metric.table.n == 2


def test_a_state_with_other_bins_in_a_later_class_is_refused():
    metric = cb.CalibrationMetric("marginal", cb.EqualWidth(4), n_classes=4)
    metric.update(LABELS, PROBS)
    state = metric.state_dict()
    other = cb.tabulate(LABELS, PROBS, kind="marginal", bins=4)
    mixed = (metric.bins, *other.bins[1:])
    table = read(LABELS, PROBS, kind="marginal").count(mixed)
    with pytest.raises(ex.IncompatibleTablesError):
        metric.load_state_dict({"table": table.to_dict()})
    metric.load_state_dict(state)


@pytest.mark.parametrize("other", [None, 3, {}, "metric"])
def test_only_metrics_are_merged(other):
    with pytest.raises(ex.InvalidArgumentError, match="CalibrationMetric"):
        cb.CalibrationMetric().merge(other)


def test_the_state_of_rows_without_weight_survives():
    metric = cb.CalibrationMetric(kind="binary", bins=cb.EqualWidth(5))
    metric.update([0, 1], [0.2, 0.8], sample_weight=[0, 0])
    other = cb.CalibrationMetric(kind="binary", bins=cb.EqualWidth(5))
    other.load_state_dict(metric.state_dict())
    other.update([0, 1], [0.2, 0.8])
    assert other.table.n == 2


def test_weights_of_an_empty_batch_are_refused():
    metric = cb.CalibrationMetric(bins="width:4")
    metric.update([], [], [])
    with pytest.raises(ex.LengthMismatchError, match="the batch has no rows"):
        metric.update([], [], [1.0, 2.0])


def test_groups_of_a_stream_are_those_of_all_rows():
    rng = np.random.default_rng(8)
    p, site, age = rng.uniform(size=900), rng.choice(["a", "b"], 900), rng.integers(0, 99, 900)
    y = rng.uniform(size=900) < p
    metric = cb.CalibrationMetric(by={"site": None, "age": [0, 50, 100]}, bins="width:5")
    other = pickle.loads(pickle.dumps(metric))
    for part in (slice(0, 10), slice(10, 700)):
        metric.update(y[part], p[part], by={"site": site[part], "age": age[part]})
    other.update(y[700:], p[700:], by={"site": site[700:], "age": age[700:]})
    state = json.loads(json.dumps(metric.merge(other).state_dict()))
    loaded = cb.CalibrationMetric(by={"site": None, "age": [0, 50, 100]}, bins="width:5")
    loaded.load_state_dict(state)
    by = {"site": site, "age": (age, [0, 50, 100])}
    whole = cb.calibration_error(y, p, by=by, bins="width:5")
    assert loaded.compute_by().estimates == pytest.approx(whole.estimates, rel=1e-12)
    assert list(loaded.compute_by()) == list(whole)
    assert loaded.compute().value == pytest.approx(cb.calibration_error(y, p, bins="width:5").value)


@pytest.mark.parametrize("by", [None, {"age": [1]}, {"site": [1], "age": [2]}])
def test_every_batch_says_which_group_its_rows_are_in(by):
    metric = cb.CalibrationMetric(by="site", bins="width:5")
    with pytest.raises(ex.InvalidArgumentError, match="needs by=: the values of 'site'"):
        metric.update([1], [0.5], by=by)
    metric.update([1], [0.5], by=["x"])
    assert list(metric.compute_by()) == ["x"]


def test_a_metric_without_groups_takes_none():
    metric = cb.CalibrationMetric(bins="width:5")
    with pytest.raises(ex.InvalidArgumentError, match="needs by=: none"):
        metric.update([1], [0.5], by=["x"])
    metric.update([1], [0.5])
    with pytest.raises(ex.InvalidArgumentError, match="make it with by="):
        metric.compute_by()
    with pytest.raises(ex.IncompatibleTablesError, match="groups"):
        metric.merge(cb.CalibrationMetric(bins="width:5", by="site"))
