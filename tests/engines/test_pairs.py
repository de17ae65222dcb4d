"""Tensors on a device without float64: counted and repaired there, to the digits of the host.

The device is an instrument (`fake_device`), not a Mac: it refuses what MPS refuses, and counts what
is read from it.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import calibrant as cb
from calibrant.engines import pairs
from calibrant.exceptions import InvalidArgumentError, InvalidLabelsError, NotFiniteError
from conftest import optional

torch = optional("torch")
from fake_device import DEVICE, FakeDevice, bare, is_there  # noqa: E402

RNG = np.random.default_rng(0)
N, K = 4000, 4
Z = (3 * RNG.normal(size=(N, K))).astype(np.float32)
LABELS = (Z * 0.4 + RNG.gumbel(size=(N, K))).argmax(axis=1)
SHARES = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
P = RNG.beta(0.5, 0.7, size=N).astype(np.float32)
Y = (RNG.uniform(size=N) < P**1.3).astype(np.int64)
WEIGHTS = RNG.exponential(size=N) * (RNG.uniform(size=N) < 0.95)
LEVELS = (0.1, 0.5, 0.9)
FORECASTS = np.sort(RNG.normal(size=(N, 3)), axis=1).astype(np.float32)
SUMS = ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww")
ROWS = N * 4
"""Bytes of one column: tables are smaller."""


@pytest.fixture
def device():
    with FakeDevice() as entered:
        yield entered


PROBLEMS = {
    "binary": (Y, P, {}),
    "binary logits": (Y, Z[:, 0], {"input": "logits"}),
    "two columns": (Y, np.column_stack([1 - P, P]), {}),
    "two columns of logits": (Y, Z[:, :2], {"input": "logits", "kind": "binary"}),
    "top-label": (LABELS, SHARES.astype(np.float32), {}),
    "top-label logits": (LABELS, Z, {"input": "logits"}),
    "marginal": (LABELS, SHARES.astype(np.float32), {"kind": "marginal"}),
    "marginal logits": (LABELS, Z, {"kind": "marginal", "input": "logits"}),
    "multi-label": (Z > 1, SHARES.astype(np.float32), {"kind": "multi-label"}),
    "multi-label logits": (Z > 1, Z, {"kind": "multi-label", "input": "logits"}),
    "ordinal": (LABELS, SHARES.astype(np.float32), {"kind": "ordinal"}),
    "ordinal logits": (LABELS, Z, {"kind": "ordinal", "input": "logits"}),
    "quantile": (
        RNG.normal(size=N).astype(np.float32),
        FORECASTS,
        {"kind": "quantile", "classes": LEVELS},
    ),
}


def assert_same_table(found, expected):
    """Counts are equal; sums are to 1e-12, and edges of predictions that were computed too."""
    for own, bins in zip(found.bins, expected.bins, strict=True):
        np.testing.assert_allclose(own.edges, bins.edges, rtol=1e-12, atol=1e-18)
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.level, expected.level, rtol=1e-12)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-12, err_msg=name
        )


@pytest.mark.parametrize("what", PROBLEMS)
@pytest.mark.parametrize("bins", ["width:15", "mass:15"])
def test_rows_are_counted_where_they_are(device, what, bins):
    y, p, given = PROBLEMS[what]
    found = cb.tabulate(device.move(y), device.move(p), bins=bins, **given)
    assert device.read < ROWS * p.ndim**2
    assert_same_table(found, cb.tabulate(y, p, bins=bins, **given))


@pytest.mark.parametrize("what", PROBLEMS)
@pytest.mark.parametrize("where", ["beside", "on the host"])
def test_weighted_rows_are_counted_where_they_are(device, what, where):
    y, p, given = PROBLEMS[what]
    weights = WEIGHTS.astype(np.float32) if where == "beside" else WEIGHTS
    given = given | {"bins": "width:15"}
    moved = device.move(weights) if where == "beside" else weights
    found = cb.tabulate(device.move(y), device.move(p), sample_weight=moved, **given)
    assert device.read < ROWS
    assert_same_table(found, cb.tabulate(y, p, sample_weight=weights, **given))


@pytest.mark.parametrize("rule", ["mass:7", "hybrid:7", "distinct"])
@pytest.mark.parametrize("what", ["binary", "top-label logits"])
def test_rules_that_list_every_value_are_those_of_the_host(device, what, rule):
    y, p, given = PROBLEMS[what]
    given = given | {"bins": rule, "sample_weight": WEIGHTS}
    found = cb.tabulate(device.move(y), device.move(p), **given)
    assert_same_table(found, cb.tabulate(y, p, **given))


@pytest.mark.parametrize("what", ["binary", "top-label logits", "marginal logits"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_groups_are_counted_where_they_are(device, what, weights):
    y, p, given = PROBLEMS[what]
    by = {"site": np.array(["a", "b", "c"])[np.arange(N) % 3]}
    given = given | {"bins": "width:10", "sample_weight": weights, "by": by}
    found = cb.tabulate(device.move(y), device.move(p), **given)
    assert device.read < ROWS
    for key, table in cb.tabulate(y, p, **given).items():
        assert_same_table(found[key], table)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_types_are_the_numbers_they_are(device, dtype):
    p = torch.tensor(P).to(getattr(torch, dtype))
    found = cb.tabulate(device.move(Y), device.move(p), bins="width:15")
    assert_same_table(found, cb.tabulate(Y, p.float().numpy(), bins="width:15"))
    z = torch.tensor(Z).to(getattr(torch, dtype))
    found = cb.tabulate(device.move(LABELS), device.move(z), bins="mass:9", input="logits")
    assert_same_table(found, cb.tabulate(LABELS, z.float().numpy(), bins="mass:9", input="logits"))


@pytest.mark.parametrize("what", ["binary", "top-label logits", "marginal logits", "marginal"])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_errors_and_intervals_are_those_of_the_host(device, what, weights):
    y, p, given = PROBLEMS[what]
    given = given | {"sample_weight": weights}
    found = cb.calibration_error(device.move(y), device.move(p), **given)
    expected = cb.calibration_error(y, p, **given)
    assert found.value == pytest.approx(expected.value, rel=1e-11)
    intervals = [x.confidence_interval() for x in (found, expected)]
    assert intervals[0].low == pytest.approx(intervals[1].low, rel=1e-9)
    assert intervals[0].high == pytest.approx(intervals[1].high, rel=1e-9)


def test_edges_and_the_floats_beside_them_are_told_apart(device):
    edges = np.linspace(0, 1, 11)
    near = edges.astype(np.float32)
    p = np.concatenate([near, np.nextafter(near, np.float32(2)), np.nextafter(near, np.float32(0))])
    p = np.concatenate([p[(p >= 0) & (p <= 1)], np.float32([0.0, 1.0, 1e-45, 1e-40, 1e-30])])
    y = np.arange(p.size) % 2
    found = cb.tabulate(device.move(y), device.move(p), bins=edges)
    assert_same_table(found, cb.tabulate(y, p, bins=edges))


def test_extreme_logits_are_certain_and_wrong_ones_refused(device):
    z = np.array([-2000.0, -100, -50, 0, 30, 100, 2000, np.inf, -np.inf], np.float32)
    y = np.arange(z.size) % 2
    found = cb.tabulate(device.move(y), device.move(z), input="logits", bins="width:5")
    expected = cb.tabulate(y, z, input="logits", bins="width:5")
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.sum_p, expected.sum_p, rtol=1e-12)
    given = {"input": "logits", "bins": [0, 1e-30, 1e-23, 1e-15, 1]}
    found = cb.tabulate(device.move(y), device.move(z / 2), **given)
    np.testing.assert_allclose(found.sum_p, cb.tabulate(y, z / 2, **given).sum_p, rtol=1e-12)
    z[3] = np.nan
    with pytest.raises(NotFiniteError, match=r"y_prob\[3\]"):
        cb.tabulate(device.move(y), device.move(z), input="logits", bins="width:5")
    rows = Z[:5].copy()
    rows[2, 1] = np.inf
    with pytest.raises(NotFiniteError):
        cb.tabulate(device.move(LABELS[:5]), device.move(rows), input="logits", bins="width:5")


def test_labels_of_any_type_are_compared_as_on_the_host(device):
    for labels in (Y.astype(float), Y.astype(np.float32), Y == 1, Y.astype(np.uint8)):
        device.read = 0
        found = cb.tabulate(labels, device.move(P), bins="width:5")
        assert device.read < ROWS
        assert_same_table(found, cb.tabulate(Y, P, bins="width:5"))
    with pytest.raises(InvalidLabelsError, match=r"y_true\[0\]"):
        cb.tabulate(device.move(P * 0 + np.float32(0.5)), device.move(P), bins="width:5")
    with pytest.raises(InvalidLabelsError):  # 0.1 is no float32
        cb.tabulate(device.move(P * 0 + np.float32(0.1)), device.move(P), classes=(0, 0.1))


def test_weights_that_pairs_cannot_square_are_read_on_the_host(device):
    weights = 1e20 * WEIGHTS
    given = {"sample_weight": weights, "bins": "width:5"}
    found = cb.tabulate(device.move(Y), device.move(P), **given)
    assert device.read > ROWS
    assert_same_table(found, cb.tabulate(Y, P, **given))


@pytest.mark.parametrize("what", ["binary", "binary logits", "top-label logits", "marginal logits"])
def test_a_metric_of_torch_stays_on_the_device(device, what):
    from calibrant.torch import CalibrationError

    y, p, given = PROBLEMS[what]
    kind = given.get("kind", "binary" if p.ndim == 1 else "top-label")
    given = {"kind": kind, "input": given.get("input", "probabilities"), "norm": "l1"}
    given |= {"n_classes": 2 if kind == "binary" else K}
    metric = CalibrationError(**given, ignore_index=-100).to("mps")
    y = np.where(np.arange(N) % 10 == 0, -100, y)
    for part in np.array_split(np.arange(N), 3):
        metric.update(device.move(p[part]), device.move(y[part]))
    assert device.read == 0
    found = metric.compute()
    assert is_there(found)
    assert found.dtype == torch.float32
    used = y >= 0
    del given["n_classes"], given["norm"]
    expected = cb.calibration_error(y[used], p[used], bins="width:15", norm="l1", **given)
    assert metric.result().value == pytest.approx(expected.value, rel=1e-12)


def test_a_metric_of_batches_reads_no_rows(device):
    metric = cb.CalibrationMetric("top-label", n_classes=K, input="logits")
    for part in np.array_split(np.arange(N), 3):
        weights = device.move(WEIGHTS[part].astype(np.float32))
        metric.update(device.move(LABELS[part]), device.move(Z[part]), sample_weight=weights)
    assert device.read < ROWS
    weights = WEIGHTS.astype(np.float32)
    given = {"input": "logits", "bins": metric.bins, "sample_weight": weights}
    assert_same_table(metric.table, cb.tabulate(LABELS, Z, **given))


ONE = {
    "Platt": cb.PlattScaling(),
    "Platt of logits": cb.PlattScaling(input="logits"),
    "beta": cb.BetaScaling(),
    "temperature": cb.TemperatureScaling(),
    "temperature of logits": cb.TemperatureScaling(input="logits"),
    "histogram": cb.HistogramBinning(),
    "scaling-binning": cb.ScalingBinning(bins=15),
    "temperature of classes": cb.TemperatureScaling(input="logits"),
    "vector": cb.VectorScaling(),
    "top label": cb.TopLabel(cb.ScalingBinning(bins=10)),
    "one versus rest": cb.OneVsRest(cb.ScalingBinning(bins="mass:10")),
    "histograms": cb.OneVsRest(cb.HistogramBinning(bins=5)),
}


def rows_for(what, recalibrator):
    if what in list(ONE)[:7]:
        return (np.log(P / (1 - P)) if recalibrator.input == "logits" else P), Y
    return (Z if recalibrator.input == "logits" else SHARES.astype(np.float32)), LABELS


@pytest.mark.parametrize("what", ONE)
def test_recalibrators_are_fitted_and_answer_where_rows_are(device, what, monkeypatch):
    """Parameters to 1e-7 of the host's, and the very float32 that the host would round to."""
    x, y = rows_for(what, ONE[what])

    def refuse(*args, **kwargs):
        raise AssertionError("rows came to the host")

    with monkeypatch.context() as patched:
        patched.setattr("calibrant.recalibrators.base.read_labelled", refuse)
        patched.setattr("calibrant.recalibrators.base.read_unlabelled", refuse)
        found = clone(ONE[what]).fit(device.move(x), device.move(y))
        device.read = 0
        out = found.predict_proba(device.move(x))
        assert device.read == 1
        half = found.predict_proba(device.move(x, torch.float16))
    assert (is_there(out), out.dtype, tuple(out.shape)) == (True, torch.float32, x.shape)
    assert (is_there(half), half.dtype) == (True, torch.float16)
    expected = clone(ONE[what]).fit(x, y)
    np.testing.assert_array_equal(bare(out).numpy(), found.predict_proba(x).astype(np.float32))
    np.testing.assert_allclose(bare(out).numpy(), expected.predict_proba(x), rtol=1e-7, atol=1e-7)
    assert found.fingerprint_.same_rows(expected.fingerprint_)
    assert found.fit_result_.flags == expected.fit_result_.flags
    assert found.fit_result_.loss == pytest.approx(expected.fit_result_.loss, rel=1e-8)


def test_exact_zeros_are_smoothed_as_on_the_host(device):
    rows = np.where(SHARES < 0.05, 0, SHARES).astype(np.float32)
    found = cb.TemperatureScaling().fit(device.move(rows), device.move(LABELS))
    expected = cb.TemperatureScaling().fit(rows, LABELS)
    assert found.smoothing_ == expected.smoothing_ > 0
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    assert found.fit_result_.loss_identity == expected.fit_result_.loss_identity == np.inf


@pytest.mark.parametrize(
    "recalibrator",
    [cb.MatrixScaling(), cb.DirichletScaling(), cb.TopLabel(cb.IsotonicCalibration())],
)
def test_modules_follow_a_model_to_the_device(device, recalibrator):
    x = SHARES.astype(np.float32)[:500]
    fitted = recalibrator.fit(SHARES, LABELS)
    module = torch.nn.Sequential(torch.nn.Identity(), fitted.to_torch()).to("mps")
    out = module(device.move(x))
    assert is_there(out)
    np.testing.assert_allclose(bare(out).numpy(), fitted.predict_proba(x), rtol=2e-7, atol=1e-12)
    wrong = x.copy()
    wrong[3, 1] = np.nan
    assert bare(module(device.move(wrong)))[3].isnan().all()


def test_float64_answers_are_refused(device):
    module = cb.PlattScaling().fit(P, Y).to_torch(dtype=torch.float64)
    with pytest.raises(InvalidArgumentError, match=r"does not have.*to_torch\(\)"):
        module(device.move(P))


def test_pairs_hold_thirteen_digits(device):
    x, y = 20 * RNG.normal(size=(2, 3000))
    x, y = (pairs.on_host(pairs.wide_array(z, device.move(P).device)) for z in (x, y))
    a, b = (pairs.wide_array(z, DEVICE) for z in (x, y))
    small = a * 0.5
    for found, expected in {
        "sum": (a + b, x + y),
        "product": (a * b, x * y),
        "ratio": (a / b, x / y),
        "exp": (small.exp(), np.exp(pairs.on_host(small))),
        "log": ((a * a).log(), np.log(x * x)),
        "log1p": ((a * a).log1p(), np.log1p(x * x)),
        "total": (a.sum(), x.sum()),
        "endless": ((0.0 * a).log().sum(), -np.inf),
    }.values():
        np.testing.assert_allclose(pairs.on_host(found), expected, rtol=3e-13, atol=3e-13)


def test_the_instrument_refuses_what_a_device_without_float64_does(device):
    p = device.move(P)
    for work in (p.double, lambda: torch.zeros(3, dtype=torch.float64, device=p.device)):
        with pytest.raises(TypeError, match="doesn't support float64"):
            work()
    with pytest.raises(TypeError, match="doesn't support float64"):
        torch.tensor(P, dtype=torch.float64).to(p.device)
    with pytest.raises(TypeError, match="to numpy"):
        p.numpy()
    with pytest.raises(RuntimeError, match="same device"):
        p + torch.tensor(P)
    assert (p.device.type, device.read) == ("mps", 0)
    assert (p[:3].cpu().numpy() == P[:3]).all()
    assert device.read == 12
