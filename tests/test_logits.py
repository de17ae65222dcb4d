"""Logits: declared, never guessed; the same answer as from their probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import calibrant as cb
from calibrant._logits import probabilities_of
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidProbabilitiesError,
    LogitsError,
    NotFiniteError,
)
from calibrant.sources import read
from conftest import kernels, optional
from lazy_frames import lazy_frame, on_every_engine

RNG = np.random.default_rng(0)
Z = RNG.normal(scale=2, size=4000)
Y = RNG.uniform(size=Z.size) < special.expit(1.3 * Z)
WIDE = RNG.normal(scale=3, size=(4000, 7)).astype(np.float32)
CLASS = RNG.integers(7, size=4000)
CASES = {"binary": (Y, Z), "top-label": (CLASS, WIDE), "marginal": (CLASS, WIDE)}


def probabilities(z):
    return special.expit(z) if z.ndim == 1 else special.softmax(z.astype(float), axis=1)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("bins", [cb.EqualWidth(15), cb.EqualMass(11)], ids=repr)
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_logits_are_counted_as_their_probabilities(kind, bins, engine, monkeypatch):
    if engine == "compiled":
        kernels()
    monkeypatch.setenv("CALIBRANT_ENGINE", engine)
    y, z = CASES[kind]
    logits = read(y, z, kind=kind, input="logits")
    probs = read(y, probabilities(z), kind=kind)
    if isinstance(bins, cb.EqualMass):
        chosen = logits.choose(bins)
    else:
        chosen = (bins.bins,) * logits.problem.n_groups
    table, expected = logits.count(chosen), probs.count(chosen)
    np.testing.assert_array_equal(table.count, expected.count)
    for name in ("sum_y", "sum_p", "sum_pp", "sum_py"):
        np.testing.assert_allclose(getattr(table, name), getattr(expected, name), rtol=1e-12)
    if isinstance(bins, cb.EqualMass):
        for found, wanted in zip(chosen, probs.choose(bins), strict=True):
            np.testing.assert_allclose(found.edges, wanted.edges, rtol=1e-12)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize(
    "measure", [cb.calibration_error, cb.tabulate, cb.reliability_curve, cb.brier_decomposition]
)
def test_every_measure_takes_logits(kind, measure):
    y, z = CASES[kind]
    more = {"class_label": 3} if kind == "marginal" and measure is cb.reliability_curve else {}
    found = measure(y, z, kind=kind, bins=cb.EqualWidth(9), input="logits", **more)
    wanted = measure(y, probabilities(z), kind=kind, bins=cb.EqualWidth(9), **more)
    assert str(found) == str(wanted)


def test_a_diagram_takes_logits():
    shown = cb.ReliabilityDisplay.from_predictions(CLASS, WIDE, input="logits", draw=False)
    wanted = cb.ReliabilityDisplay.from_predictions(CLASS, probabilities(WIDE), draw=False)
    np.testing.assert_allclose(
        shown.curves[0].curve.event_rate, wanted.curves[0].curve.event_rate, rtol=1e-12
    )
    grid = cb.ReliabilityDisplay.grid(CLASS, WIDE, input="logits", draw=False)
    assert grid.n_panels == 7


def test_a_bootstrap_of_logits_draws_logits():
    y, z = CLASS[:300], WIDE[:300]
    result = cb.calibration_error(y, z, bins=cb.EqualWidth(5), input="logits")
    same = cb.calibration_error(y, probabilities(z), bins=cb.EqualWidth(5))
    found = result.confidence_interval(method="percentile", rng=2)
    assert found.low < result.value < found.high
    assert found.low == pytest.approx(
        same.confidence_interval(method="percentile", rng=2).low, rel=1e-9
    )


@pytest.mark.parametrize("kind", CASES)
def test_a_metric_takes_logits_however_they_are_cut(kind):
    y, z = CASES[kind]
    metric = cb.CalibrationMetric(kind, n_classes=None if kind == "binary" else 7, input="logits")
    for part in np.array_split(np.arange(len(y)), 9):
        metric.update(y[part], z[part])
    whole = cb.tabulate(y, probabilities(z), kind=kind, bins=metric.bins)
    np.testing.assert_array_equal(metric.table.count, whole.count)


def test_two_columns_of_logits_are_one_event():
    two = np.column_stack([-Z, Z / 2])
    found = cb.tabulate(Y, two, kind="binary", bins=cb.EqualWidth(9), input="logits")
    wanted = cb.tabulate(Y, special.expit(1.5 * Z), bins=cb.EqualWidth(9))
    np.testing.assert_array_equal(found.count, wanted.count)
    named = cb.tabulate(
        Y, two, kind="binary", classes=(0, 1), pos_label=0, bins=cb.EqualWidth(9), input="logits"
    )
    np.testing.assert_allclose(named.sum_p.sum(), len(Y) - wanted.sum_p.sum(), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_logits_may_be_huge(dtype):
    z = np.array([[60000, 0, -60000], [0, 60000, 60000], [7, 7, 7]]).astype(dtype)
    table = cb.tabulate([0, 1, 0], z, bins=cb.EqualWidth(4), input="logits")
    assert table.count.tolist() == [[0, 2, 0, 1]]
    assert table.sum_p[0, 3] == 1
    column = np.array([60000, -60000, 0]).astype(dtype)
    assert probabilities_of(column).tolist() == [1, 0, 0.5]


def test_a_masked_class_has_probability_zero():
    z = np.where(np.arange(7) == 2, -np.inf, WIDE)
    p = probabilities(z)
    assert (p[:, 2] == 0).all()
    for kind in ("top-label", "marginal"):
        found = cb.tabulate(CLASS, z, kind=kind, bins=cb.EqualWidth(5), input="logits")
        wanted = cb.tabulate(CLASS, p, kind=kind, bins=cb.EqualWidth(5))
        np.testing.assert_array_equal(found.count, wanted.count)


BAD = {
    "NaN": (0, 3, np.nan, r"not be missing; 1 of .* y_prob\[0, 3\] = nan"),
    "infinity": (0, 3, np.inf, r"smaller than infinity.* y_prob\[0, 3\] = inf"),
    "nothing": (5, slice(None), -np.inf, r"all of a row minus infinity.* y_prob\[5, 0\] = -inf"),
}


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize("what", BAD)
def test_bad_logits_are_named(what, kind, engine, monkeypatch):
    if engine == "compiled":
        kernels()
    monkeypatch.setenv("CALIBRANT_ENGINE", engine)
    row, column, value, words = BAD[what]
    z = WIDE.copy()
    z[row, column] = value
    for bins in (cb.EqualWidth(5), cb.EqualMass(5)):
        with pytest.raises(NotFiniteError, match=words):
            cb.tabulate(CLASS, z, kind=kind, bins=bins, input="logits")


def test_a_missing_logit_of_one_event_is_named():
    with pytest.raises(NotFiniteError, match=r"y_prob\[1\] = nan"):
        cb.tabulate([0, 1], [0.5, np.nan], input="logits")


def test_logits_that_are_not_declared_are_refused_and_others_too():
    with pytest.raises(LogitsError, match='input="logits"'):
        cb.calibration_error(Y, Z)
    with pytest.raises(InvalidArgumentError, match='"probabilities" or "logits"'):
        cb.calibration_error(Y, Z, input="scores")
    with pytest.raises(InvalidArgumentError, match='"probabilities" or "logits"'):
        cb.CalibrationMetric(input="scores")


@on_every_engine(kind=list(CASES), weight=[None, "w"])
def test_lazy_frames_give_logits(engine, kind, weight):
    y, z = CASES[kind]
    y, z, w = y[:500].astype(int), z[:500].reshape(500, -1), RNG.integers(3, size=500)
    names = [f"z{k}" for k in range(z.shape[1])]
    columns = {"y": y, "w": w, **{name: z[:, k] for k, name in enumerate(names)}}
    options = {"kind": kind, "input": "logits", "sample_weight": weight}
    found = cb.tabulate(
        "y", names, data=lazy_frame(engine, columns), bins=cb.EqualWidth(9), **options
    )
    options["sample_weight"] = None if weight is None else w
    expected = cb.tabulate(y, z, bins=cb.EqualWidth(9), **options)
    np.testing.assert_array_equal(found.count, expected.count)
    for name in ("sum_y", "sum_p", "sum_pp", "sum_py"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)


@on_every_engine()
def test_two_columns_of_logits_in_a_lazy_frame_are_one_event(engine):
    z = np.append(Z[:200], [900.0, -900.0])
    y = (z > 0).astype(int)
    columns = {"y": y, "no": z / 3, "yes": 2 * z}
    found = cb.tabulate(
        "y", ["no", "yes"], data=lazy_frame(engine, columns), bins=4, input="logits"
    )
    expected = cb.tabulate(y, np.column_stack([z / 3, 2 * z]), bins=4, input="logits")
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.sum_p, expected.sum_p, rtol=1e-12)


@on_every_engine(kind=list(CASES), bad=[np.nan, None])
def test_logits_of_a_lazy_frame_that_are_missing_are_refused(engine, kind, bad):
    z = np.zeros((10, 1 if kind == "binary" else 3))
    columns = {"y": np.arange(10) % 2, **{f"z{k}": z[:, k] for k in range(z.shape[1])}}
    columns["z0"] = [bad, *z[1:, 0].tolist()]
    data = lazy_frame(engine, columns)
    names = [name for name in columns if name != "y"]
    with pytest.raises(InvalidProbabilitiesError, match="Logits in column 'z0'.*1 rows"):
        cb.tabulate("y", names, kind=kind, data=data, bins=cb.EqualWidth(3), input="logits")


@pytest.mark.parametrize("kind", CASES)
def test_a_lazy_frame_of_logits_has_the_interval_of_its_arrays(kind):
    y, z = CASES[kind]
    z = z.reshape(len(z), -1)
    names = [f"z{k}" for k in range(z.shape[1])]
    columns = {"y": y.astype(int), **{name: z[:, k] for k, name in enumerate(names)}}
    options = {"kind": kind, "bins": cb.EqualWidth(9), "input": "logits"}
    lazy = cb.calibration_error("y", names, data=lazy_frame("polars", columns), **options)
    arrays = cb.calibration_error(y, z, **options)
    assert tuple(lazy.confidence_interval()) == pytest.approx(
        tuple(arrays.confidence_interval()), rel=1e-9
    )


VERIFY = {
    "certify": lambda y, p, **o: cb.certify(y, p, max_error=0.1, bins=9, **o).upper_bound,
    "calibration_test": lambda y, p, **o: cb.calibration_test(y, p, rng=0, **o).pvalue,
    "bin_free_bounds": lambda y, p, **o: cb.bin_free_bounds(y, p, **o).cutoff.high,
    "prequential_lower_bound": lambda y, p, **o: float(cb.prequential_lower_bound(y, p, **o)),
    "compare": lambda y, p, **o: cb.compare(y, p, p[::-1], **o).brier.low,
}


@pytest.mark.parametrize("kind", ["binary", "top-label"])
@pytest.mark.parametrize("what", VERIFY)
def test_what_is_proved_of_logits_is_proved_of_their_probabilities(what, kind):
    y, z = CASES[kind]
    y, z = y[:600], z[:600]
    found = VERIFY[what](y, z, kind=kind, input="logits")
    assert found == pytest.approx(VERIFY[what](y, probabilities(z), kind=kind), rel=1e-9)


def test_a_certificate_of_logits_is_checked_against_logits():
    z = np.round(Z[:500])
    certificate = cb.certify(Y[:500], z, max_error=0.3, input="logits")
    assert cb.recheck(certificate, Y[:500], z, input="logits")
    assert not cb.recheck(certificate, Y[:500], special.expit(z) / 2)


@pytest.mark.parametrize("kind", CASES)
def test_tensors_give_logits(kind):
    torch = optional("torch")
    from calibrant.sources.tensors import read_tensors

    device = "cuda" if torch.cuda.is_available() else "cpu"
    y, z = CASES[kind]
    source = read_tensors(
        torch.tensor(y).to(device), torch.tensor(z).to(device), kind=kind, input="logits"
    )
    bins = (cb.EqualWidth(9).bins,) * source.problem.n_groups
    found = source.count(bins)
    wanted = cb.tabulate(y, probabilities(z), kind=kind, bins=cb.EqualWidth(9))
    np.testing.assert_array_equal(found.count, wanted.count)
    np.testing.assert_allclose(found.sum_p, wanted.sum_p, rtol=1e-12)
    chosen = source.choose(cb.EqualMass(6))
    for each, own in zip(
        chosen, cb.tabulate(y, probabilities(z), kind=kind, bins=6).bins, strict=True
    ):
        np.testing.assert_allclose(each.edges, own.edges, rtol=1e-12)
    z = z.copy()
    z[3] = np.nan
    bad = read_tensors(torch.tensor(y), torch.tensor(z), kind=kind, input="logits")
    with pytest.raises(NotFiniteError):
        bad.count(bins)
