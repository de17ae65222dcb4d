"""Laws that hold for any input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import calibrant as cb

unit = st.floats(0, 1, allow_subnormal=False) | st.sampled_from([0.0, 0.1, 0.5, 1.0])


@st.composite
def binary(draw, least=1):
    n = draw(st.integers(least, 40))
    p = draw(hnp.arrays(np.float64, n, elements=unit))
    return draw(hnp.arrays(np.bool_, n)), p


@st.composite
def marginal(draw):
    n, k = draw(st.integers(1, 20)), draw(st.integers(2, 5))
    p = draw(hnp.arrays(np.float64, (n, k), elements=unit))
    return draw(hnp.arrays(np.intp, n, elements=st.integers(0, k - 1))), p


def tables(rows, cuts, **kw):
    y, p = rows
    edges = [0, *sorted(c % len(y) for c in cuts), len(y)]
    parts = [(y[a:b], p[a:b]) for a, b in itertools.pairwise(edges) if b > a]
    return [cb.tabulate(*part, bins=cb.EqualWidth(4), **kw) for part in parts]


def close(a, b):
    return (
        a.problem == b.problem
        and np.array_equal(a.count, b.count)
        and np.array_equal(a.level, b.level, equal_nan=True)
        and all(
            np.allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-300)
            for name in ("sum_y", "sum_p", "sum_pp", "sum_py")
        )
    )


@given(binary(), st.lists(st.integers(0, 100), max_size=4))
def test_addition_of_parts_is_the_whole_in_any_order(rows, cuts):
    parts = tables(rows, cuts)
    whole = cb.tabulate(*rows, bins=cb.EqualWidth(4))
    assert close(sum(parts), whole)
    assert close(sum(reversed(parts)), whole)


@given(marginal(), st.lists(st.integers(0, 100), max_size=3))
def test_addition_of_marginal_parts_is_the_whole(rows, cuts):
    whole = cb.tabulate(*rows, kind="marginal", bins=cb.EqualWidth(4))
    assert close(sum(tables(rows, cuts, kind="marginal")), whole)


@given(binary(), st.sampled_from([3, cb.EqualWidth(3), cb.Distinct(), cb.Hybrid(3)]))
def test_tables_survive_json(rows, bins):
    table = cb.tabulate(*rows, bins=bins)
    assert cb.BinTable.from_json(table.to_json()) == table


@given(binary(), st.sampled_from(["l1", "l2", "max", 1.5, 4]))
def test_errors_are_between_zero_and_one_and_mirror_the_event(rows, norm):
    y, p = rows
    value = cb.calibration_error(y, p, bins=cb.Distinct(), norm=norm, debias=False).value
    assert 0 <= value <= 1
    # 1 - p must not merge predictions that p tells apart
    if np.unique(1 - p).size == np.unique(p).size:
        mirrored = cb.calibration_error(~y, 1 - p, bins=cb.Distinct(), norm=norm, debias=False)
        assert mirrored.value == pytest.approx(value, abs=1e-12)


@given(binary())
def test_norms_are_ordered(rows):
    values = [
        cb.calibration_error(*rows, bins=3, norm=norm, debias=False).value
        for norm in (1, 1.5, 2, 3, "max")
    ]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(values))


@given(binary(least=2), st.booleans())
def test_the_brier_decomposition_adds_up_exactly(rows, debias):
    y, p = rows
    parts = cb.brier_decomposition(y, p, bins=3, debias=debias)
    assert parts.value == pytest.approx(np.mean((y - p) ** 2), abs=1e-14)
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert total == pytest.approx(parts.value, abs=1e-14)


@given(binary(), st.floats(1e-6, 1e6))
def test_the_scale_of_weights_does_not_matter(rows, scale):
    y, p = rows
    w = np.arange(1, len(y) + 1.0)
    a, b = (
        cb.calibration_error(y, p, bins=cb.EqualWidth(3), sample_weight=s * w) for s in (1.0, scale)
    )
    assert a.squared == pytest.approx(b.squared, rel=1e-9, abs=1e-12)


@given(binary(), st.data())
def test_whole_weights_are_repeated_rows_for_plug_in_errors(rows, data):
    y, p = rows
    w = data.draw(hnp.arrays(np.intp, len(y), elements=st.integers(0, 3)))
    w[0] = 1
    for bins in (cb.EqualWidth(3), 3, cb.Distinct()):
        for norm in ("l1", "l2", "max"):
            options = {"bins": bins, "norm": norm, "debias": False}
            weighted = cb.calibration_error(y, p, sample_weight=w, **options)
            repeated = cb.calibration_error(np.repeat(y, w), np.repeat(p, w), **options)
            assert weighted.value == pytest.approx(repeated.value, abs=1e-12)


@given(binary())
def test_equal_weights_are_no_weights(rows):
    plain = cb.calibration_error(*rows, bins=3)
    weighted = cb.calibration_error(*rows, bins=3, sample_weight=np.full(len(rows[0]), 7.0))
    assert weighted.squared == pytest.approx(plain.squared, abs=1e-12)
    assert weighted.noise_floor == pytest.approx(plain.noise_floor, abs=1e-9)


@given(binary(), st.sampled_from(["l1", "l2", "max"]))
def test_every_result_prints_and_holds_numbers_only(rows, norm):
    result = cb.calibration_error(*rows, bins=2, norm=norm)
    assert "nan" not in str(result)
    assert np.isfinite(result.noise_floor)
