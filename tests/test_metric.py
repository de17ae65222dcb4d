"""A stream of batches gives the answer of one batch."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex

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


@pytest.mark.parametrize("bins", ["auto", 10, cb.EqualMass(10), cb.Distinct(), cb.Hybrid(3)])
def test_bins_that_depend_on_the_rows_to_come_are_refused(bins):
    with pytest.raises(ex.InvalidArgumentError, match="do not depend on the rows to come"):
        cb.CalibrationMetric(bins=bins)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "marginal"}, "needs n_classes= or classes="),
        ({"kind": "top-label", "n_classes": 1}, "at least 2"),
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
    with pytest.raises(ex.InvalidShapeError, match="has 4 classes; the batch has 3 columns"):
        metric.update(np.zeros(10), PROBS[:10, :3])


def test_metrics_of_other_problems_do_not_merge():
    with pytest.raises(ex.IncompatibleTablesError, match="same problem and bins"):
        cb.CalibrationMetric().merge(cb.CalibrationMetric(bins=cb.EqualWidth(3)))
