"""Intervals of several classes: the spread of row influences, and where it is not known."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import special

import calibrant as cb
from calibrant.stats.influences import few_rows_notes, read_influences

RNG = np.random.default_rng(71)
N, K = 600, 3
LOGITS = 1.5 * RNG.normal(size=(N, K))
PROBS = np.round(special.softmax(1.6 * LOGITS, axis=1), 1)
LABELS = (special.softmax(LOGITS, axis=1).cumsum(axis=1) < RNG.uniform(size=(N, 1))).sum(axis=1)
WEIGHTS = RNG.exponential(size=N)
SHARES = np.array([0.5, 0.3, 0.2])
ALONE = "a table does not tell how classes depend on each other"


def measured(**options):
    options = {"kind": "marginal", "bins": cb.EqualWidth(5), **options}
    return cb.calibration_error(LABELS, PROBS, **options)


def by_rows(weights, shares, sample=False):
    """The l2 interval at 95%, row by row and bin by bin from the definitions in docs/coverage.md."""
    total = weights.sum()
    place = np.maximum(np.ceil(PROBS * 5) - 1, 0).astype(int)
    u = (LABELS[:, None] == np.arange(K)) - PROBS
    h = np.zeros(N)
    plug_in = unbiased = independent = together = 0.0
    for k in range(K):
        null = 0.0
        for j in range(5):
            own = place[:, k] == j
            w, gaps = weights[own], u[own, k]
            if not own.any():
                continue
            gap, size = np.average(gaps, weights=w), w.sum() ** 2 / (w**2).sum()
            pairs = sum(
                w[i] * w[other] * gaps[i] * gaps[other]
                for i in range(w.size)
                for other in range(w.size)
                if i != other
            )
            square = pairs / (w.sum() ** 2 - (w**2).sum())
            mass = w.sum() / total
            plug_in += shares[k] * mass * gap**2
            unbiased += shares[k] * mass * square
            h[own] += shares[k] * (2 * gap * size / (size - 1) * gaps - (1 + sample) * gap**2)
            p, rate = (
                np.average(PROBS[own, k], weights=w),
                np.average(gaps + PROBS[own, k], weights=w),
            )
            shrunk = (rate * size + 2 * p) / (size + 2)
            v = max(p * (1 - p), shrunk * (1 - shrunk))
            if np.ptp(PROBS[own, k]) > 0 or np.ptp(w) > 0:
                v = max(v, (gap**2 - square) * size)
            null += 2 * (mass * v) ** 2 / (size * (size - 1))
        independent += shares[k] ** 2 * null
        together += shares[k] * np.sqrt(null)
    centre = np.average(h, weights=weights)
    spread = (weights**2 * (h - centre) ** 2).sum() / total**2
    slope = spread / plug_in
    v0 = np.clip(slope * (plug_in - unbiased) / 2, independent, together**2)
    z = special.ndtri(0.975)
    b = 1.2 * slope * z**2
    reach = np.sqrt(b * unbiased + b**2 / 4 + z**2 * v0)
    return np.sqrt([max(unbiased + b / 2 - reach, 0), unbiased + b / 2 + reach])


@pytest.mark.parametrize("weights", [None, WEIGHTS, 1e60 * WEIGHTS, 1e-60 * WEIGHTS])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_the_interval_of_classes_is_that_of_the_definition_row_by_row(weights, target):
    result = measured(sample_weight=weights, class_weight=SHARES)
    own = np.ones(N) if weights is None else WEIGHTS
    expected = by_rows(own, SHARES, sample=target == "sample")
    assert tuple(result.confidence_interval(target=target)) == pytest.approx(expected, rel=1e-9)


def test_the_spread_is_that_of_leaving_rows_out_one_by_one():
    """The jackknife knows nothing of influences: it measures again without each row."""
    result = measured()
    sums = read_influences(result.table, result.class_weights, result.power, result.source)
    keep = ~np.eye(N, dtype=bool)
    squared = [
        cb.calibration_error(
            LABELS[own], PROBS[own], kind="marginal", bins=cb.EqualWidth(5)
        ).squared
        for own in keep[:: N // 200]
    ]
    jackknife = (N - 1) * np.var(squared)
    ours = (sums.wwaa - 2 * sums.wwam + sums.wwmm) / N**2
    assert ours == pytest.approx(jackknife, rel=0.2)  # a third of the rows were left out


def test_rows_tell_how_classes_depend_and_a_table_only_bounds_it():
    for norm in ("l1", "l2"):
        rows = measured(norm=norm)
        table = cb.stats.calibration_error(rows.table, norm=norm)
        narrow, wide = rows.confidence_interval(), table.confidence_interval()
        assert wide.low <= narrow.low <= narrow.high <= wide.high
        assert narrow.high - narrow.low < 0.9 * (wide.high - wide.low)
        assert not any(ALONE in note for note in narrow.notes)
        assert any(ALONE in note for note in wide.notes)
        assert ALONE in str(table)
        assert ALONE not in str(rows)
        assert table.to_dict()["interval_notes"] == list(wide.notes)


def test_the_interval_does_not_depend_on_the_order_of_the_rows():
    order = RNG.permutation(N)
    turned = cb.calibration_error(
        LABELS[order], PROBS[order], kind="marginal", bins=cb.EqualWidth(5)
    )
    assert tuple(turned.confidence_interval()) == pytest.approx(
        tuple(measured().confidence_interval()), rel=1e-9
    )


def test_one_class_depends_on_no_other():
    for norm in ("l1", "l2"):
        alone = measured(norm=norm, class_weight={1: 1.0})
        table = cb.stats.calibration_error(alone.table, norm=norm, class_weight={1: 1.0})
        assert alone.confidence_interval() == table.confidence_interval()
        assert not alone.confidence_interval().notes


@pytest.mark.parametrize("change", ["predictions", "labels", "a value that is no probability"])
def test_rows_that_changed_since_they_were_counted_tell_nothing(change):
    labels, probs = LABELS.copy(), PROBS.copy()
    result = cb.calibration_error(labels, probs, kind="marginal", bins=cb.EqualWidth(5))
    if change == "labels":
        labels[:10] = (labels[:10] + 1) % 3
    else:
        probs[:10] = 0.7 if change == "predictions" else np.nan
    table = cb.stats.calibration_error(result.table)
    assert result.confidence_interval() == table.confidence_interval()
    assert ALONE in str(result)


def test_rows_that_change_after_the_interval_was_asked_for_do_no_harm():
    probs = PROBS.copy()
    result = cb.calibration_error(LABELS, probs, kind="marginal", bins=cb.EqualWidth(5))
    before = result.confidence_interval()
    probs[:] = 0.5
    assert result.confidence_interval() == before
    assert result.confidence_interval(0.9).high < before.high


def test_a_pickle_takes_along_what_the_interval_needs():
    result = measured()
    copied = pickle.loads(pickle.dumps(result))
    assert copied.confidence_interval() == measured().confidence_interval()
    assert pickle.loads(pickle.dumps(copied)).confidence_interval() == copied.confidence_interval()


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.filterwarnings("ignore::calibrant.exceptions.UnresolvedWarning")
def test_few_rows_have_an_interval_and_say_that_they_are_few(n, norm):
    result = cb.calibration_error(LABELS[:n], PROBS[:n], kind="marginal", norm=norm)
    interval = result.confidence_interval()
    assert result.value in interval
    assert "fewer than 10 rows a bin: the interval may be too short" in interval.notes


# When to trust an interval


def test_an_interval_that_rests_on_few_events_says_so():
    y = np.repeat([1, 0, 0], [4, 96, 900])
    p = np.repeat([0.005, 0.005, 0.001], [4, 96, 900])
    for norm in ("l1", "l2"):
        result = cb.calibration_error(y, p, bins=cb.Distinct(), norm=norm)
        assert any("rows decide it" in note for note in result.confidence_interval().notes)
        assert "rows decide it: the interval may be too short" in str(result)


def test_an_interval_that_rests_on_many_rows_says_nothing():
    p = RNG.integers(1, 10, size=2000) / 10
    y = RNG.uniform(size=2000) < p**1.3
    for norm in ("l1", "l2"):
        for options in ({}, {"sample_weight": RNG.exponential(size=2000)}):
            result = cb.calibration_error(y, p, bins=cb.Distinct(), norm=norm, **options)
            assert result.confidence_interval().notes == ()
            assert "too short" not in str(result)


def test_few_events_that_carry_most_of_the_weight_are_noted():
    p = np.full(2000, 0.5)
    y = np.arange(2000) < 8
    weights = np.where(y, 249.0, 1.0)  # 8 events weigh as much as 1,992 rows
    result = cb.calibration_error(y, p, bins=cb.Distinct(), sample_weight=weights)
    note = "few with most of the weight decide it: the interval may be too short"
    assert any(note in each for each in result.confidence_interval().notes)


def test_fewer_than_ten_rows_a_bin_are_noted():
    p = RNG.uniform(size=200)
    y = RNG.uniform(size=200) < p
    few = cb.calibration_error(y, p, bins=25)
    assert any("fewer than 10 rows a bin" in note for note in few.confidence_interval().notes)
    enough = cb.calibration_error(y, p, bins=10)
    assert not any("rows a bin" in note for note in enough.confidence_interval().notes)


# Boxes


def test_a_box_of_the_population_is_wider_than_one_given_the_masses():
    p = np.repeat([0.2, 0.8], [300, 100])
    y = np.zeros(400)
    for norm in ("l1", "l2", 3):
        result = cb.calibration_error(y, p, bins=cb.Distinct(), norm=norm)
        population = result.confidence_interval(method="box")
        sample = result.confidence_interval(method="box", target="sample")
        assert population.low < sample.low <= sample.high < population.high
    largest = cb.calibration_error(y, p, bins=cb.Distinct(), norm="max")
    assert largest.confidence_interval() == largest.confidence_interval(target="sample")


def test_a_box_of_the_population_is_the_range_over_exact_limits():
    """Two bins: the extremes lie at the corners of the four intervals, tried one by one."""
    from scipy.stats import binomtest

    counts, events, levels = [60, 40], [50, 2], [0.5, 0.5 + 1e-9]
    y = np.concatenate([np.arange(n) < k for n, k in zip(counts, events, strict=True)])
    result = cb.calibration_error(y, np.repeat(levels, counts), bins=cb.Distinct(), norm="l1")
    delta = 0.05
    alpha = 1 - (1 - 0.9 * delta) ** 0.5
    rates = [
        binomtest(k, n).proportion_ci(1 - alpha, method="exact")
        for n, k in zip(counts, events, strict=True)
    ]
    masses = binomtest(60, 100).proportion_ci(1 - 0.1 * delta / 2, method="exact")
    errors = []
    for q in masses:
        ends = [[abs(end - 0.5) for end in ci] for ci in rates]
        errors.append(
            (q * max(ends[0]) + (1 - q) * max(ends[1]), q * min(ends[0]) + (1 - q) * min(ends[1]))
        )
    found = result.confidence_interval(method="box")
    assert found.high == pytest.approx(max(high for high, _ in errors), rel=1e-6)
    assert found.low == pytest.approx(min(low for _, low in errors), rel=1e-6)


def test_one_row_shows_no_spread_and_all_rows_are_all_of_them():
    said = str(cb.calibration_error([1], [0.3]))
    assert "the rows show no spread: the interval may be too short" in said
    assert "100% of the rows alone in their bin" in said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (0.0, "the rows show no spread"),
        (0.2, "about 1 row decides it"),
        (2.4, "about 2 rows decide it"),
    ],
)
def test_few_rows_are_named(rows, said):
    assert few_rows_notes(rows) == (f"{said}: the interval may be too short",)
