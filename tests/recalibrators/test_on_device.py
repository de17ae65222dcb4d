"""Fits on a device: the parameters of the host, tensors in and tensors out, no row copied."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant.exceptions import InvalidLabelsError, NotFiniteError
from calibrant.recalibrators import on_device
from conftest import optional

torch = optional("torch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RNG = np.random.default_rng(0)
N, K = 6000, 5
LOGITS = RNG.normal(size=(N, K)) * 2
LABELS = (LOGITS * 0.6 + [0.5, 0, 0, 0, -0.5] + RNG.gumbel(size=(N, K))).argmax(axis=1)
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
P = RNG.beta(0.5, 0.7, size=N)
Y = (RNG.uniform(size=N) < P**1.3).astype(np.int64)


@pytest.fixture(autouse=True)
def device_for_all(monkeypatch):
    """Take tensors on the host for tensors on a device, where there is none."""
    if DEVICE == "cpu":
        monkeypatch.setattr(on_device, "is_on_device", lambda values: hasattr(values, "detach"))


@pytest.fixture
def no_rows_on_the_host(monkeypatch):
    """Refuse to read rows on the host."""

    def refuse(*args, **kwargs):
        raise AssertionError("rows came to the host")

    monkeypatch.setattr("calibrant.recalibrators.base.read_labelled", refuse)


def moved(array, dtype=None):
    tensor = torch.tensor(np.asarray(array)).to(DEVICE)
    return tensor if dtype is None else tensor.to(dtype)


ONE = {
    "Platt": cb.PlattScaling(),
    "Platt of logits": cb.PlattScaling(input="logits"),
    "squared error": cb.PlattScaling(loss="squared"),
    "beta": cb.BetaScaling(),
    "quadratic": cb.QuadraticScaling(),
    "temperature": cb.TemperatureScaling(),
    "temperature of logits": cb.TemperatureScaling(input="logits"),
    "histogram": cb.HistogramBinning(),
    "scaling-binning": cb.ScalingBinning(bins=15),
    "hybrid": cb.ScalingBinning(bins="hybrid:8"),
}
SEVERAL = {
    "temperature": cb.TemperatureScaling(),
    "temperature of logits": cb.TemperatureScaling(input="logits"),
    "vector": cb.VectorScaling(),
    "vector of logits": cb.VectorScaling(input="logits"),
    "top label": cb.TopLabel(cb.ScalingBinning(bins=10)),
    "one versus rest": cb.OneVsRest(cb.ScalingBinning(bins="mass:10")),
    "histograms": cb.OneVsRest(cb.HistogramBinning(bins=5)),
}
LEARNED = ("coef_", "temperature_", "weight_", "bias_", "levels_", "smoothing_")


def assert_same_parameters(found, expected):
    for name in LEARNED:
        if hasattr(expected, name):
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-6, err_msg=name
            )
    if hasattr(expected, "bins_"):
        np.testing.assert_allclose(found.bins_.edges, expected.bins_.edges, rtol=1e-6)
    for name in ("recalibrators_", "pooled_", "scaler_"):
        parts = getattr(expected, name, [])
        many = parts if isinstance(parts, list) else [parts]
        own = getattr(found, name, [])
        for a, b in zip(own if isinstance(own, list) else [own], many, strict=True):
            assert_same_parameters(a, b)
    assert found.fit_result_.flags == expected.fit_result_.flags
    assert found.fit_result_.loss == pytest.approx(expected.fit_result_.loss, rel=1e-6)


@pytest.mark.parametrize("what", ONE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_event_has_the_parameters_of_the_host(what, dtype, no_rows_on_the_host, monkeypatch):
    recalibrator = ONE[what]
    x = (np.log(P / (1 - P)) if recalibrator.input == "logits" else P).astype(dtype)
    found = cb_clone(recalibrator).fit(moved(x), moved(Y))
    monkeypatch.undo()
    expected = cb_clone(recalibrator).fit(x, Y)
    assert_same_parameters(found, expected)
    assert found.fingerprint_.same_rows(expected.fingerprint_)


@pytest.mark.parametrize("what", SEVERAL)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_several_classes_have_the_parameters_of_the_host(
    what, dtype, no_rows_on_the_host, monkeypatch
):
    recalibrator = SEVERAL[what]
    x = (LOGITS if recalibrator.input == "logits" else PROBS).astype(dtype)
    found = cb_clone(recalibrator).fit(moved(x), moved(LABELS))
    monkeypatch.undo()
    expected = cb_clone(recalibrator).fit(x, LABELS)
    assert_same_parameters(found, expected)
    assert found.fingerprint_.same_rows(expected.fingerprint_)
    assert found.classes_.tolist() == expected.classes_.tolist()


def cb_clone(recalibrator):
    from sklearn.base import clone

    return clone(recalibrator)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", ["(n,)", "(n, 2)", "(n, K)"])
def test_answers_to_a_tensor_are_a_tensor_beside_it(shape, dtype):
    x = {"(n,)": P, "(n, 2)": np.column_stack([1 - P, P]), "(n, K)": PROBS}[shape]
    labels = LABELS if shape == "(n, K)" else Y
    fitted = cb.TemperatureScaling().fit(moved(x, dtype), moved(labels))
    out = fitted.predict_proba(moved(x, dtype))
    assert (out.dtype, out.device.type, tuple(out.shape)) == (dtype, DEVICE, x.shape)
    expected = fitted.predict_proba(moved(x, dtype).double().cpu().numpy())
    close = {torch.float16: 1e-3, torch.float32: 1e-7, torch.float64: 1e-14}[dtype]
    np.testing.assert_allclose(out.double().cpu().numpy(), expected, rtol=0, atol=close)


def test_a_recalibrator_that_needs_rows_takes_them_from_the_device():
    found = cb.IsotonicCalibration().fit(moved(P), moved(Y))
    out = found.predict_proba(moved(P))
    np.testing.assert_allclose(
        out.cpu().numpy(), cb.IsotonicCalibration().fit(P, Y).predict_proba(P), rtol=1e-12
    )


def test_wrong_values_are_refused_with_the_words_of_the_host():
    x, y = P.copy(), Y.copy()
    x[3] = np.nan
    with pytest.raises(NotFiniteError, match=r"y_prob\[3\]"):
        cb.PlattScaling().fit(moved(x), moved(Y))
    y[5] = 7
    with pytest.raises(InvalidLabelsError, match=r"y_true\[5\] = 7"):
        cb.PlattScaling().fit(moved(P), moved(y))
    fitted = cb.PlattScaling().fit(moved(P), moved(Y))
    with pytest.raises(NotFiniteError, match=r"y_prob\[3\]"):
        fitted.predict_proba(moved(x))


def test_exact_zeros_are_smoothed_as_on_the_host():
    x = np.where(P < 0.2, 0.0, np.round(P, 2))
    for recalibrator in (cb.PlattScaling(), cb.BetaScaling(), cb.TemperatureScaling()):
        found = cb_clone(recalibrator).fit(moved(x), moved(Y))
        assert_same_parameters(found, cb_clone(recalibrator).fit(x, Y))
    rows = np.where(PROBS < 0.02, 0.0, PROBS)
    found = cb.TemperatureScaling().fit(moved(rows), moved(LABELS))
    assert_same_parameters(found, cb.TemperatureScaling().fit(rows, LABELS))


@pytest.mark.parametrize("labels", [np.zeros(N, int), np.ones(N, int), (P > 0.5).astype(int)])
def test_one_class_and_separable_rows_are_fitted_as_on_the_host(labels):
    for recalibrator in (cb.PlattScaling(), cb.TemperatureScaling(), cb.HistogramBinning(bins=5)):
        found = cb_clone(recalibrator).fit(moved(P), moved(labels))
        expected = cb_clone(recalibrator).fit(P, labels)
        assert set(found.fit_result_.flags) == set(expected.fit_result_.flags)
        np.testing.assert_allclose(
            found.predict_proba(moved(P)).cpu().numpy(), expected.predict_proba(P), atol=1e-5
        )


def test_many_rows_are_fitted_to_six_digits():
    """So many that no cell of the sketch has a single prediction."""
    rng = np.random.default_rng(1)
    p = rng.beta(0.4, 0.6, size=300_000).astype(np.float32)
    y = (rng.uniform(size=p.size) < p**1.3).astype(np.int64)
    for recalibrator in (cb.PlattScaling(), cb.BetaScaling()):
        found = cb_clone(recalibrator).fit(moved(p), moved(y))
        assert_same_parameters(found, cb_clone(recalibrator).fit(p, y))


def test_the_rows_of_the_fit_are_known_again():
    fitted = cb.PlattScaling().fit(moved(P), moved(Y))
    with pytest.raises(cb.exceptions.InvalidInputError, match="has not seen"):
        fitted.certify(P, Y, max_error=0.1)


class Curve:
    """A scaler of one's own, whose fit takes no weights."""

    def fit(self, X, y):
        self.share_ = y.mean()
        return self

    def predict_proba(self, X):
        return 2 * self.share_ * np.square(X[:, 0]) / (1 + np.square(X[:, 0]))


@pytest.mark.parametrize(
    "scaler", [Curve(), LogisticRegression(tol=1e-10)], ids=["own", "scikit-learn"]
)
def test_own_scalers_are_fitted_from_tensors_with_and_without_weights(scaler):
    repair = cb.ScalingBinning(bins="width:6", scaler=scaler)
    host = clone(repair).fit(P, Y)
    fitted = clone(repair).fit(moved(P), moved(Y))
    np.testing.assert_allclose(fitted.levels_, host.levels_, atol=1e-6)
    found = fitted.predict_proba(moved(P[:100])).cpu().numpy()
    np.testing.assert_allclose(found, host.predict_proba(P[:100]), atol=1e-6)


@pytest.mark.parametrize("far", [1e3, 1e4, 1e30])
def test_a_few_far_logits_do_not_blur_the_others(far):
    z = RNG.normal(size=N) * 2
    y = (RNG.uniform(size=N) < 1 / (1 + np.exp(-0.6 * z - 0.4))).astype(np.int64)
    z[:3], y[:3] = -far, 0
    for recalibrator in (cb.TemperatureScaling(input="logits"), cb.PlattScaling(input="logits")):
        expected = clone(recalibrator).fit(z, y)
        found = clone(recalibrator).fit(moved(z), moved(y))
        assert_same_parameters(found, expected)
        assert found.fit_result_.loss == pytest.approx(expected.fit_result_.loss, rel=1e-6)
