"""Tensors: read from any device and of any type, counted where they are, refused in one way."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import (
    EmptyInputError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidShapeError,
    InvalidWeightsError,
    LengthMismatchError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.sources import read
from calibrant.sources.arrays import read_arrays
from calibrant.sources.tensors import TensorSource, read_tensors
from conftest import optional

torch = optional("torch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
RNG = np.random.default_rng(0)
P = RNG.beta(0.5, 0.8, size=5000)
Y = (RNG.uniform(size=P.size) < P**1.2).astype(np.int64)
TABLE = RNG.dirichlet(np.ones(4), size=2000)
CLASS = RNG.integers(4, size=2000)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_a_tensor_gives_the_error_of_the_array(kind, device):
    y, p = (Y, P) if kind == "binary" else (CLASS, TABLE)
    expected = cb.calibration_error(y, p, kind=kind)
    found = cb.calibration_error(torch.tensor(y).to(device), torch.tensor(p).to(device), kind=kind)
    assert found.table.bins == expected.table.bins
    assert found.value == pytest.approx(expected.value, rel=1e-9)
    assert found.n == expected.n


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_with_a_gradient_is_read(device):
    p = torch.tensor(P).to(device).requires_grad_()
    assert cb.tabulate(torch.tensor(Y).to(device), p).n == P.size


@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_is_read_as_the_number_it_is(device):
    p = torch.tensor(P).to(torch.bfloat16).to(device)
    table = cb.tabulate(torch.tensor(Y).to(device), p, bins=cb.EqualWidth(10))
    expected = cb.tabulate(Y, p.float().cpu().numpy(), bins=cb.EqualWidth(10))
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_allclose(table.sum_p, expected.sum_p, rtol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_a_metric_takes_tensors(device):
    metric = cb.CalibrationMetric("top-label", n_classes=4)
    for part in np.array_split(np.arange(2000), 7):
        metric.update(torch.tensor(CLASS[part]).to(device), torch.tensor(TABLE[part]).to(device))
    whole = cb.tabulate(CLASS, TABLE, bins=metric.bins)
    np.testing.assert_array_equal(metric.table.count, whole.count)


@pytest.mark.parametrize("device", DEVICES)
def test_a_recalibrator_and_a_certificate_take_tensors(device):
    y, p = torch.tensor(Y).to(device), torch.tensor(P).to(device).requires_grad_()
    fitted = cb.PlattScaling().fit(p[:2500], y[:2500])
    out = torch.as_tensor(fitted.predict_proba(p[2500:])).cpu().numpy()
    expected = cb.PlattScaling().fit(P[:2500], Y[:2500]).predict_proba(P[2500:])
    np.testing.assert_allclose(out, expected, rtol=1e-12 if device == "cpu" else 1e-6)
    verdict = cb.certify(y[2500:], p[2500:], max_error=0.5, bins=cb.EqualWidth(5))
    assert verdict.n == 2500


def source_of(y, p, **given):
    return read_tensors(torch.as_tensor(y), torch.as_tensor(p), **given)


@pytest.mark.parametrize(
    ("columns", "given", "column"),
    [(1, {}, 0), (2, {"kind": "binary"}, 1), (2, {"classes": (0, 1), "pos_label": 0}, None)],
)
def test_columns_are_chosen_as_from_arrays(columns, given, column):
    p = TABLE[:, :columns]
    given = {"kind": "binary", **given}
    source = source_of(CLASS % 2, p, **given)
    arrays = read_arrays(CLASS % 2, p, **given)
    assert isinstance(source, TensorSource)
    assert source.problem == arrays.problem
    columns = source.columns()
    np.testing.assert_array_equal(columns.predictions, arrays.predictions)
    np.testing.assert_array_equal(columns.labels, arrays.labels)
    assert columns.weights is None


def test_logits_of_events_stay_logits_and_are_explained_as_of_arrays():
    events, z = TABLE > 0.3, 4 * TABLE - 1
    given = {"kind": "multi-label", "input": "logits", "classes": ("a", "b", "c", "d")}
    source = source_of(events, z, **given)
    assert source.tensors.are_logits
    np.testing.assert_allclose(source.columns().predictions, 1 / (1 + np.exp(-z)), rtol=1e-15)
    for bins in ("width:15", "mass:15"):
        found, expected = source.tabulate(bins), cb.tabulate(events, z, bins=bins, **given)
        np.testing.assert_array_equal(found.count, expected.count)
        np.testing.assert_allclose(found.sum_p, expected.sum_p, rtol=1e-12)
    z[7, 2] = np.nan
    with pytest.raises(NotFiniteError) as as_array:
        cb.tabulate(events, z, **given)
    with pytest.raises(NotFiniteError) as as_tensor:
        source_of(events, z, **given).tabulate(5)
    assert str(as_tensor.value) == str(as_array.value)


def test_weights_come_along():
    w = RNG.exponential(size=P.size)
    columns = source_of(Y, P, sample_weight=w).columns()
    np.testing.assert_array_equal(columns.weights, w)
    np.testing.assert_array_equal(columns.take(slice(3)).weights, w[:3])


@pytest.mark.parametrize("given", [{"classes": ("no", "yes")}, {"pos_label": "yes"}])
def test_labels_that_are_text_are_counted_on_the_host(given):
    names = np.array(["no", "yes"])[Y]
    found = read_tensors(names, torch.tensor(P), **given).count((cb.EqualWidth(5).bins,))
    np.testing.assert_array_equal(found.sum_y, cb.tabulate(Y, P, bins=cb.EqualWidth(5)).sum_y)


REFUSED = {
    "no rows": (np.empty(0), np.empty(0), {}, EmptyInputError),
    "one value": (np.array(1), np.array(0.5), {}, InvalidShapeError),
    "lengths": (Y[:5], P[:4], {}, LengthMismatchError),
    "swapped": (TABLE, Y[:2000], {}, SwappedArgumentsError),
    "one-hot": (np.eye(4)[CLASS], TABLE, {}, InvalidLabelsError),
    "images": (Y[:2], np.ones((2, 3, 4)), {}, InvalidShapeError),
    "three columns": (CLASS, TABLE, {"kind": "binary"}, InvalidShapeError),
    "names for numbers": (Y, P, {"classes": ("no", "yes")}, InvalidLabelsError),
    "weights too few": (Y, P, {"sample_weight": P[:-1]}, LengthMismatchError),
    "a negative weight": (Y, P, {"sample_weight": P - 0.5}, InvalidWeightsError),
    "a NaN weight": (Y, P, {"sample_weight": P * np.nan}, InvalidWeightsError),
    "no weight": (Y, P, {"sample_weight": P * 0}, InvalidWeightsError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_shapes_are_refused_as_arrays_are(what):
    y, p, given, error = REFUSED[what]
    with pytest.raises(error) as as_array:
        read(y, p, **given).tabulate(5)
    with pytest.raises(error) as as_tensor:
        source_of(y, p, **given).tabulate(5)
    assert str(as_tensor.value) == str(as_array.value)


TWO = np.column_stack([1 - P, P])


@pytest.mark.parametrize("given", [{}, {"pos_label": 0}, {"classes": (0, 1), "pos_label": 0}])
def test_two_columns_are_one_event_as_of_arrays(given):
    found, expected = (
        source_of(Y, TWO, **given).tabulate(5),
        cb.tabulate(Y, TWO, bins=5, **given),
    )
    assert (found.problem, found.bins) == (expected.problem, expected.bins)
    np.testing.assert_array_equal(found.sum_y, expected.sum_y)
    np.testing.assert_allclose(found.sum_p, expected.sum_p, rtol=1e-12)


@pytest.mark.parametrize("how", ["probabilities", "logits"])
@pytest.mark.parametrize("column", [0, 1])
def test_both_of_two_columns_are_checked_as_of_arrays(column, how):
    two = TWO.copy()
    two[3, column] = np.nan
    with pytest.raises(NotFiniteError, match=f"\\[3, {column}\\]"):
        source_of(Y, two, input=how)


def test_rows_of_a_chunk_are_enough(monkeypatch):
    """A table in many chunks is that in one."""
    from calibrant.engines import exact_sums

    bins = tuple(cb.EqualWidth(k + 2).bins for k in range(4))
    source = source_of(CLASS, TABLE, kind="marginal")
    whole = source.count(bins)
    monkeypatch.setattr(exact_sums, "CHUNK_VALUES", 37)
    parts = source.count(bins)
    assert parts == whole


@pytest.mark.parametrize("n", [1, 2, 3, 50, 4000])
@pytest.mark.parametrize("n_bins", [1, 2, 7, 100])
@pytest.mark.parametrize("decimals", [1, 2, 16])
def test_uniform_mass_edges_are_those_of_all_distinct_values(n, n_bins, decimals):
    probs = np.round(np.random.default_rng(n).beta(0.4, 0.4, size=(n, 3)), decimals)
    source = source_of(np.zeros(n), probs, kind="marginal")
    rule = cb.EqualMass(n_bins)
    for bins, column in zip(source.choose(rule), probs.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        assert bins == rule.choose(values, counts.astype(float))


@pytest.mark.parametrize("named", [{"classes": (2**53, 2**53 + 1)}, {"pos_label": 2**53 + 1}])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_floats_cannot_tell_apart_are_told_apart(named, dtype):
    labels = (2**53 + Y).astype(dtype)
    assert source_of(labels, P, **named).tabulate(5).sum_y.sum() == Y.sum()


def test_integers_are_not_compared_with_floats_of_fewer_digits():
    labels = 2**24 + Y
    table = source_of(labels, P, pos_label=2.0**24).tabulate(5)
    assert table.sum_y.sum() == (Y == 0).sum()


def test_an_event_that_never_occurs_is_refused():
    with pytest.raises(InvalidLabelsError, match="labels: 0, 1|labels: 1, 0"):
        source_of(Y, P, pos_label=2).tabulate(5)


@pytest.mark.parametrize("place", range(3))
def test_complex_numbers_are_refused_as_of_arrays(place):
    rows = [torch.tensor([0.0, 1.0]), torch.tensor([0.2, 0.9]), torch.tensor([1.0, 2.0])]
    rows[place] = rows[place] + 1j
    for reader in (read, read_tensors):
        with pytest.raises(InvalidInputError):
            reader(*rows[:2], sample_weight=rows[2]).columns()


def test_masks_beside_tensors_are_refused():
    masked = np.ma.array(Y, mask=Y == 1)
    with pytest.raises(InvalidLabelsError, match="must not be masked"):
        read_tensors(masked, torch.tensor(P))
    with pytest.raises(InvalidWeightsError, match="must not be masked"):
        read_tensors(Y, torch.tensor(P), sample_weight=masked)


@pytest.mark.parametrize("weight", [0.0, 1e-101, 1e101])
def test_weights_that_cannot_be_squared_are_refused_as_of_arrays(weight):
    with pytest.raises(InvalidWeightsError, match="largest|zero on every row"):
        source_of(Y, P, sample_weight=P * weight).tabulate(5)
