"""Every public function serves multi-label, ordinal and quantile problems, or says what to do."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import calibrant
from calibrant.exceptions import InvalidArgumentError

rng = np.random.default_rng(3)
N, LEVELS = 600, (0.1, 0.5, 0.9)
SCORES = rng.integers(1, 10, size=(N, 3)) / 10
MARKS = (rng.uniform(size=(N, 1)) < SCORES).astype(int)
PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]])[rng.integers(2, size=N)]
GRADES = (PROBS.cumsum(axis=1) < rng.uniform(size=(N, 1))).sum(axis=1)
OUTCOMES = rng.normal(size=N)
QUANTILES = np.tile([-1.2816, 0.0, 1.2816], (N, 1))
ROWS = {
    "multi-label": (MARKS, SCORES, {"kind": "multi-label"}),
    "ordinal": (GRADES, PROBS, {"kind": "ordinal"}),
    "quantile": (OUTCOMES, QUANTILES, {"kind": "quantile", "classes": LEVELS}),
}
SITE = np.array(["a", "b"])[np.arange(N) % 2]
BESIDE = {"audit": {"by": SITE}, "certify_label_shift": {"target_rate": 0.3}}
SERVED = {
    "multi-label": {
        "audit", "brier_decomposition", "calibration_error", "certify", "compare", "report",
        "tabulate", "CalibrationMetric", "ReliabilityDisplay", "recheck",
    },
}  # fmt: skip
SERVED["ordinal"] = SERVED["multi-label"] | {"ranked_probability_score"}
SERVED["quantile"] = SERVED["multi-label"] - {"brier_decomposition", "compare"}
TAKES_LATER = {"CalibrationMetric": ["y_true"], "CalibrationMonitor": ["y_true"]}
WITH_KIND = [
    name
    for name in calibrant.__all__
    if callable(getattr(calibrant, name))
    and {"kind", "y_true"}
    <= {*inspect.signature(getattr(calibrant, name)).parameters, *TAKES_LATER.get(name, ())}
]


def called(name, kind):
    """Call a public function with rows of this kind."""
    y, p, options = ROWS[kind]
    function = getattr(calibrant, name)
    if name == "CalibrationMetric":
        metric = function(**options, n_classes=p.shape[1])
        metric.update(y, p)
        return metric.compute()
    if name == "CalibrationMonitor":
        return function(max_error=0.1, **options).update(y, p)
    if name == "compare":
        return function(y, p, p, **options)
    return function(y, p, **options, **BESIDE.get(name, {}))


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("name", WITH_KIND)
def test_every_function_of_predictions_serves_a_kind_or_refuses_it_with_advice(name, kind):
    if name in SERVED[kind]:
        result = called(name, kind)
        assert str(result)
        assert str(pickle.loads(pickle.dumps(result))) == str(result)
    elif name == "reliability_curve":
        y, p, options = ROWS[kind]
        with pytest.raises(InvalidArgumentError, match="class_label must be one of"):
            called(name, kind)
        label = 0.5 if kind == "quantile" else 1
        assert len(calibrant.reliability_curve(y, p, class_label=label, **options)) >= 1
    else:
        with pytest.raises(InvalidArgumentError, match=kind) as refusal:
            called(name, kind)
        assert str(refusal.value).count(". ") >= 1  # what was wrong, then what to do


@pytest.mark.parametrize("kind", ROWS)
def test_certificates_are_rechecked_against_themselves_and_their_rows(kind):
    y, p, options = ROWS[kind]
    certificate = calibrant.certify(y, p, max_error=0.2, **options)
    assert certificate.verdict == "certified"
    again = calibrant.Certificate.from_json(certificate.to_json())
    assert again.recheck()
    assert calibrant.recheck(again, y[::-1], p[::-1])
    changed = np.array(y)
    changed[0] = 1 - changed[0] if kind == "multi-label" else 2 - changed[0]
    assert not calibrant.recheck(again, changed, p)


@pytest.mark.parametrize("kind", ROWS)
def test_the_error_of_all_is_the_mean_over_events_of_squared_errors(kind):
    y, p, options = ROWS[kind]
    result = calibrant.calibration_error(y, p, bins="distinct", **options)
    alone = {
        "multi-label": [(MARKS[:, k], SCORES[:, k]) for k in range(3)],
        "ordinal": [(k >= GRADES, PROBS[:, : k + 1].sum(axis=1)) for k in range(2)],
        "quantile": [
            (QUANTILES[:, k] >= OUTCOMES, np.full(N, level)) for k, level in enumerate(LEVELS)
        ],
    }[kind]
    squares = [calibrant.calibration_error(*rows, bins="distinct").squared for rows in alone]
    assert result.squared == pytest.approx(np.mean(squares), rel=1e-9)
    assert list(result.per_class) == {"ordinal": [0, 1], "quantile": list(LEVELS)}.get(
        kind, [0, 1, 2]
    )
    weighted = calibrant.calibration_error(
        y, p, bins="distinct", class_weight={next(iter(result.per_class)): 1.0}, **options
    )
    assert weighted.squared == pytest.approx(squares[0], rel=1e-9)


def test_a_repair_of_classes_is_certified_for_their_order():
    repair = calibrant.OneVsRest(calibrant.HistogramBinning(bins=2), normalize=True)
    repair.fit(PROBS[:300], GRADES[:300])
    certificate = repair.certify(PROBS[300:], GRADES[300:], kind="ordinal", max_error=0.3)
    assert certificate.table.problem.kind == "ordinal"
    assert repair.recheck(certificate, PROBS[300:], GRADES[300:])
    with pytest.raises(calibrant.exceptions.InvalidInputError, match="multi-label"):
        repair.certify(PROBS[300:], GRADES[300:], kind="multi-label")


def test_a_metric_of_batches_is_that_of_all_rows():
    for kind, (y, p, options) in ROWS.items():
        metric = calibrant.CalibrationMetric(**options, n_classes=p.shape[1], bins="width:10")
        for part in np.array_split(np.arange(N), 3):
            metric.update(np.asarray(y)[part], p[part])
        whole = calibrant.calibration_error(y, p, bins="width:10", **options)
        assert float(metric.compute()) == pytest.approx(float(whole), rel=1e-9), kind


def test_tables_that_no_rows_can_have_are_refused():
    for kind in ("ordinal", "quantile"):
        y, p, options = ROWS[kind]
        document = calibrant.tabulate(y, p, bins="width:1", **options).to_dict()
        for name in ("sum_y", "sum_py"):
            document[name][0], document[name][1] = document[name][1], document[name][0]
        document["sum_py"] = [
            [events * total / count for events, total, count in zip(*rows, strict=True)]
            for rows in zip(document["sum_y"], document["sum_p"], document["count"], strict=True)
        ]
        with pytest.raises(calibrant.exceptions.InvalidDocumentError, match="must not fall"):
            calibrant.BinTable.from_dict(document)


def test_the_log_loss_of_several_labels_counts_those_that_are_not_there():
    base = np.full_like(SCORES, 0.5)
    result = calibrant.compare(MARKS, SCORES, base, kind="multi-label")
    expected = -np.mean(MARKS * np.log(SCORES) + (1 - MARKS) * np.log1p(-SCORES))
    assert result.log_loss.a == pytest.approx(expected)
    assert result.log_loss.b == pytest.approx(np.log(2))
