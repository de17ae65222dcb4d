"""The second front door: kinds, labels and columns for tests, comparisons and bounds."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant import verify
from calibrant.sources import arrays, read

RNG = np.random.default_rng(61)
P = RNG.uniform(size=2000)
Y = RNG.uniform(size=2000) < P
PROBS = RNG.dirichlet(np.ones(3), size=2000)
LABELS = (PROBS.cumsum(axis=1) < RNG.uniform(size=(2000, 1))).sum(axis=1)
NAMES = np.array(["cat", "dog", "eel"])
METHODS = ["exact", "adaptive", "l2", "kuiper", "spiegelhalter", "hosmer-lemeshow", "cox"]


@pytest.mark.parametrize("method", METHODS)
def test_every_test_accepts_a_calibrated_and_rejects_a_broken_model(method):
    options = {"method": method, "rng": 0, "n_resamples": 199}
    assert cb.calibration_test(Y, P, **options).pvalue > 0.01
    assert cb.calibration_test(Y, P**3, **options).pvalue < 0.01


def test_a_top_label_problem_is_the_event_of_being_right():
    top = cb.calibration_test(NAMES[LABELS], PROBS, classes=NAMES, method="cox")
    right = PROBS.argmax(axis=1) == LABELS
    assert top == cb.calibration_test(right, PROBS.max(axis=1), method="cox")


def test_column_names_work_here_too():
    data = {"y": Y, "p": P, "q": P**2}
    assert cb.compare("y", "p", "q", data=data) == cb.compare(Y, P, P**2)
    assert cb.bin_free_bounds("y", "p", data=data) == cb.bin_free_bounds(Y, P)


@pytest.mark.parametrize(
    "call", [cb.calibration_test, cb.bin_free_bounds, cb.prequential_lower_bound]
)
def test_one_event_at_a_time(call):
    with pytest.raises(ex.InvalidArgumentError, match="needs a binary or top-label problem"):
        call(LABELS, PROBS, kind="marginal")
    with pytest.raises(ex.NotFiniteError):
        call(Y, np.where(P > 0.9, np.nan, P))


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_models_of_several_classes_are_compared(kind):
    sharp = PROBS**3 / (PROBS**3).sum(axis=1, keepdims=True)
    result = cb.compare(LABELS, PROBS, sharp, kind=kind)
    assert {difference.verdict for _, difference in result} == {"a is better"}
    same = cb.compare(LABELS, PROBS, PROBS, kind=kind)
    assert {d.verdict for _, d in same} == {"no difference that these rows can show"}
    assert "no difference that these rows can show" in str(same)


def test_models_of_other_classes_are_not_compared():
    with pytest.raises(ex.InvalidArgumentError, match="same classes"):
        cb.compare(Y.astype(int), PROBS, PROBS[:, :2], kind="marginal")


def test_a_broken_continuous_model_is_proved_broken_without_bins():
    assert float(cb.prequential_lower_bound(Y, P**3)) > 0.1
    assert float(cb.prequential_lower_bound(Y, P)) < 0.02
    bounds = cb.bin_free_bounds(Y, P**3)
    assert bounds.cutoff.low > 0.1


def test_scaling_binning_is_certified_end_to_end_on_the_papers_predictions(cifar10):
    labels, probs = cifar10
    order = np.random.default_rng(0).permutation(len(labels))
    fit, check = order[:3000], order[3000:]
    raw = cb.certify(labels[check], probs[check], max_error=0.03)
    assert raw.verdict == "refuted", "the model of the paper is overconfident"
    repaired = cb.OneVsRest(cb.ScalingBinning(bins=10)).fit(probs[fit], labels[fit])
    certificate = repaired.certify(probs[check], labels[check], max_error=0.04)
    assert (certificate.verdict, certificate.table.problem.kind) == ("certified", "marginal")
    assert cb.Certificate.from_json(certificate.to_json()).recheck()
    broken = np.round(np.clip(probs[check] ** 4, 0, 1), 1)
    assert cb.certify(labels[check], broken, max_error=0.03).verdict == "refuted"
    with pytest.raises(ValueError, match="the very rows it was fitted on"):
        repaired.certify(probs[fit], labels[fit], max_error=0.04)


@pytest.mark.parametrize(("n_outputs", "rule"), [(10**9, "uniform-mass"), (20, "distinct-value")])
def test_outputs_of_many_classes_are_judged_by_some_rows_first(monkeypatch, n_outputs, rule):
    rng = np.random.default_rng(0)
    p = rng.integers(n_outputs, size=(500, 30)) / n_outputs
    monkeypatch.setattr(arrays, "MANY_OUTPUTS", 3000)
    source = read(rng.integers(30, size=500), p, kind="marginal")
    assert source.looks_continuous() == (rule == "uniform-mass")
    assert verify.tabulate_outputs(source).bins[0].rule == rule
