"""The library gives the numbers of `slow.py`, the definitions written out, to 1e-12."""

from __future__ import annotations

import math

import numpy as np
import pytest
import slow

from calibrant import (
    Bins,
    Distinct,
    EqualMass,
    EqualWidth,
    brier_decomposition,
    calibration_error,
    tabulate,
)

TOLERANCE = 1e-12
POWERS = {"l1": 1, "l2": 2, "max": math.inf, 1.5: 1.5, 3: 3}
GIVEN_EDGES = [0.0, 0.05, 0.3, 0.31, 0.9, 1.0]
RULES = {
    "equal-width 1": (EqualWidth(1), lambda values: slow.equal_width_edges(1)),
    "equal-width 10": (EqualWidth(10), lambda values: slow.equal_width_edges(10)),
    "equal-width 150": (EqualWidth(150), lambda values: slow.equal_width_edges(150)),
    "equal-mass 4": (EqualMass(4), lambda values: slow.equal_mass_edges(values, 4)),
    "equal-mass 10": (EqualMass(10), lambda values: slow.equal_mass_edges(values, 10)),
    "distinct": (Distinct(), slow.distinct_edges),
    "given": (Bins(GIVEN_EDGES), lambda values: GIVEN_EDGES),
}
PROBLEMS = {
    "binary": ("binary", 2),
    **{f"top-label K={k}": ("top-label", k) for k in (2, 3, 6)},
    **{f"marginal K={k}": ("marginal", k) for k in (2, 3, 4, 5, 6)},
}

every_rule = pytest.mark.parametrize(("bins", "rule"), RULES.values(), ids=RULES)
every_problem = pytest.mark.parametrize(("kind", "n_classes"), PROBLEMS.values(), ids=PROBLEMS)


def awkward_probabilities(rng, shape, dtype=np.float64):
    """Draw predictions of which most are ties, ends, edges or the floats beside an edge."""
    tenths = np.arange(11) / 10
    beside = np.concatenate([np.nextafter(tenths[1:], 0), np.nextafter(tenths[:-1], 1)])
    pools = [tenths, beside, np.array([0.0, 1.0]), rng.uniform(size=5), rng.uniform(size=1000)]
    choice = rng.integers(len(pools), size=shape)
    drawn = np.select([choice == i for i in range(5)], [rng.choice(pool, shape) for pool in pools])
    return drawn.astype(dtype)


def draw(seed, kind, n_classes, n=37, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shape = n if kind == "binary" else (n, n_classes)
    return rng.integers(n_classes, size=n), awkward_probabilities(rng, shape, dtype)


def check_counts(table, groups):
    """Counts are equal; the sums of events and predictions agree."""
    for g, bins in enumerate(groups):
        used = len(bins)
        assert len(table.bins[g]) == used
        assert table.count[g, :used].tolist() == [len(rows) for rows in bins]
        assert table.sum_y[g, :used].tolist() == [slow.sum_y(rows) for rows in bins]
        expected = [float(slow.sum_p(rows)) for rows in bins]
        np.testing.assert_allclose(table.sum_p[g, :used], expected, rtol=TOLERANCE, atol=0)
        assert not table.count[g, used:].any()


def check_errors(measure, groups, class_weight=None):
    """`measure(norm, debias)` agrees with the definitions for every norm and estimator."""
    for norm, power in POWERS.items():
        result = measure(norm, False)
        assert abs(result.value - slow.plugin_error(groups, power, class_weight)) < TOLERANCE
        check_per_class(result, [slow.plugin_error([bins], power) for bins in groups])
    check_debiased_l2(measure("l2", True), groups, class_weight)
    result = measure("l1", True)
    assert abs(result.value - max(slow.debiased_l1(groups, class_weight), 0)) < TOLERANCE
    check_per_class(result, [max(slow.debiased_l1_of(bins), 0) for bins in groups])


def check_debiased_l2(result, groups, class_weight):
    squares = [slow.debiased_square_of(bins) for bins in groups]
    expected = slow.class_mean(squares, class_weight)
    assert abs(result.squared - expected) < TOLERANCE
    # The root of a square that is 0 up to rounding is not small, so squares are compared.
    assert abs(result.value**2 - max(expected, 0)) < TOLERANCE
    if result.per_class is not None:
        for value, square in zip(result.per_class.values(), squares, strict=True):
            assert abs(value**2 - max(square, 0)) < TOLERANCE


def check_per_class(result, expected):
    if result.per_class is not None:
        values = list(result.per_class.values())
        np.testing.assert_allclose(values, expected, rtol=0, atol=TOLERANCE)


def check_agreement(y_true, y_prob, kind, bins, rule, class_weight=None):
    groups = slow.groups_of(y_true.tolist(), y_prob.tolist(), kind, rule)
    check_counts(tabulate(y_true, y_prob, kind=kind, bins=bins), groups)

    def measure(norm, debias):
        return calibration_error(
            y_true,
            y_prob,
            kind=kind,
            bins=bins,
            norm=norm,
            debias=debias,
            class_weight=class_weight,
        )

    check_errors(measure, groups, class_weight)


@every_rule
@every_problem
def test_errors_agree_on_ties_ends_and_edges(kind, n_classes, bins, rule):
    y_true, y_prob = draw(1, kind, n_classes)
    check_agreement(y_true, y_prob, kind, bins, rule)


@every_rule
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("kind", "n_classes"), [("binary", 2), ("top-label", 4), ("marginal", 3)])
def test_errors_agree_on_short_floats(kind, n_classes, dtype, bins, rule):
    y_true, y_prob = draw(2, kind, n_classes, dtype=dtype)
    check_agreement(y_true, y_prob, kind, bins, rule)


@every_rule
@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
def test_errors_agree_at_any_number_of_rows(n, bins, rule):
    check_agreement(*draw(n, "binary", 2, n), "binary", bins, rule)
    check_agreement(*draw(n, "marginal", 3, n), "marginal", bins, rule)


@every_rule
@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_errors_agree_where_classes_are_absent(kind, bins, rule):
    _, y_prob = draw(3, kind, 5)
    y_true = np.random.default_rng(3).choice([1, 3], size=len(y_prob))
    check_agreement(y_true, y_prob, kind, bins, rule)


@every_rule
@pytest.mark.parametrize("label", [0, 1])
def test_errors_agree_where_all_labels_are_the_same(label, bins, rule):
    _, y_prob = draw(4, "binary", 2)
    check_agreement(np.full(len(y_prob), label), y_prob, "binary", bins, rule)


@every_rule
def test_errors_agree_where_the_top_is_tied(bins, rule):
    rng = np.random.default_rng(5)
    y_prob = rng.choice([0.2, 0.5, 0.9], size=(40, 4))
    assert any(len(set(row)) < 4 and row.count(max(row)) > 1 for row in y_prob.tolist())
    check_agreement(rng.integers(4, size=40), y_prob, "top-label", bins, rule)


def test_errors_agree_where_bins_are_empty_or_hold_one_row():
    y_true, y_prob = np.array([1, 0, 1, 1]), np.array([0.05, 0.55, 0.58, 0.97])
    bins, rule = RULES["equal-width 10"]
    table = tabulate(y_true, y_prob, bins=bins)
    assert set(table.count[0].tolist()) == {0.0, 1.0, 2.0}
    check_agreement(y_true, y_prob, "binary", bins, rule)


@pytest.mark.parametrize("class_weight", [[1, 1, 1], [0.2, 0.5, 0.3], [0, 3, 1], [0, 0, 7]])
def test_errors_agree_with_class_weights(class_weight):
    y_true, y_prob = draw(6, "marginal", 3)
    for bins, rule in (RULES["equal-width 10"], RULES["equal-mass 4"]):
        check_agreement(y_true, y_prob, "marginal", bins, rule, class_weight)


def test_a_class_weight_by_name_is_the_weight_of_that_class():
    y_true, y_prob = draw(7, "marginal", 3)
    names = ["cat", "dog", "eel"]
    result = calibration_error(
        np.take(names, y_true),
        y_prob,
        kind="marginal",
        classes=names,
        bins=EqualWidth(10),
        class_weight={"eel": 2.0, "cat": 6.0},
    )
    groups = slow.groups_of(y_true, y_prob, "marginal", RULES["equal-width 10"][1])
    assert abs(result.squared - slow.debiased_square(groups, [6, 0, 2])) < TOLERANCE


@pytest.mark.parametrize(("kind", "n_classes"), [("binary", 2), ("top-label", 4), ("marginal", 3)])
def test_named_labels_give_the_errors_of_their_indices(kind, n_classes):
    y_true, y_prob = draw(8, kind, n_classes)
    # Not in alphabetical order: the columns, not the alphabet, say which class is which.
    names = ["no", "yes", "maybe", "ask"][:n_classes]
    groups = slow.groups_of(y_true, y_prob, kind, RULES["equal-mass 4"][1])

    def measure(norm, debias):
        named = np.take(names, y_true)
        return calibration_error(
            named, y_prob, kind=kind, bins=4, norm=norm, debias=debias, classes=names
        )

    check_errors(measure, groups)


def test_a_binary_problem_reads_the_second_of_two_columns():
    y_true, y_prob = draw(9, "marginal", 2)
    groups = slow.groups_of(y_true, y_prob[:, 1], "binary", RULES["equal-width 10"][1])

    def measure(norm, debias):
        return calibration_error(
            y_true, y_prob, kind="binary", bins=EqualWidth(10), norm=norm, debias=debias
        )

    check_errors(measure, groups)


@pytest.mark.parametrize("n_bins", [2, 5, 12, 14, 20, 30])
@pytest.mark.parametrize("n", [21, 50, 54, 75])
def test_a_tie_between_two_equal_mass_cuts_goes_to_the_lower(n, n_bins):
    y_prob = np.linspace(0.01, 0.99, n)
    table = tabulate(np.zeros(n), y_prob, bins=EqualMass(n_bins))
    assert table.bins[0].edges.tolist() == slow.equal_mass_edges(y_prob.tolist(), n_bins)


@pytest.mark.parametrize("name", ["equal-width 10", "equal-mass 10"])
@every_problem
def test_whole_weights_give_the_plug_in_errors_of_repeated_rows(kind, n_classes, name):
    bins, rule = RULES[name]
    y_true, y_prob = draw(10, kind, n_classes)
    times = np.random.default_rng(10).integers(0, 5, size=len(y_true))
    y_rows, p_rows = (slow.repeated(rows.tolist(), times) for rows in (y_true, y_prob))
    groups = slow.groups_of(y_rows, p_rows, kind, rule)
    for norm, power in POWERS.items():
        result = calibration_error(
            y_true, y_prob, kind=kind, bins=bins, norm=norm, debias=False, sample_weight=times
        )
        assert abs(result.value - slow.plugin_error(groups, power)) < TOLERANCE
    for g, group in enumerate(groups):
        shares = [len(rows) for rows in group]
        assert result.table.sum_w[g, : len(shares)].tolist() == shares


@pytest.mark.parametrize("scale", [1e-6, 1 / 3, 7.0, 1e6])
@pytest.mark.parametrize("bins", [EqualWidth(10), EqualMass(10)], ids=str)
@every_problem
def test_the_scale_of_weights_changes_no_error(kind, n_classes, bins, scale):
    y_true, y_prob = draw(11, kind, n_classes)
    weights = np.random.default_rng(11).uniform(0.1, 5, size=len(y_true))
    for norm in POWERS:
        for debias in (False, True) if norm in ("l1", "l2") else (False,):
            plain, scaled = (
                calibration_error(
                    y_true,
                    y_prob,
                    kind=kind,
                    bins=bins,
                    norm=norm,
                    debias=debias,
                    sample_weight=w,
                )
                for w in (weights, scale * weights)
            )
            power = 2 if norm == "l2" else 1
            assert abs(scaled.value**power - plain.value**power) < TOLERANCE
            if norm == "l2":
                assert abs(scaled.squared - plain.squared) < TOLERANCE


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_equal_weights_give_the_errors_of_no_weights(scale):
    for kind, n_classes in PROBLEMS.values():
        y_true, y_prob = draw(12, kind, n_classes)
        bins, rule = RULES["equal-width 10"]
        groups = slow.groups_of(y_true, y_prob, kind, rule)

        def measure(norm, debias, y_true=y_true, y_prob=y_prob, kind=kind, bins=bins):
            return calibration_error(
                y_true,
                y_prob,
                kind=kind,
                bins=bins,
                norm=norm,
                debias=debias,
                sample_weight=np.full(len(y_true), scale),
            )

        check_errors(measure, groups)


def check_parts(parts, expected):
    found = (parts.value, parts.miscalibration, parts.discrimination, parts.uncertainty)
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(5))
def test_the_brier_decomposition_agrees_for_a_binned_model(seed):
    rng = np.random.default_rng(seed)
    y_prob = rng.permutation(np.repeat(rng.choice([0.0, 0.1, 0.3, 0.35, 0.8, 1.0], 9), 4))
    y_true = rng.integers(2, size=len(y_prob))
    (bins,) = slow.groups_of(y_true, y_prob, "binary", slow.distinct_edges)
    check_parts(brier_decomposition(y_true, y_prob, bins=Distinct()), slow.brier_parts(bins))
    corrected = brier_decomposition(y_true, y_prob, bins=Distinct(), debias=True)
    check_parts(corrected, slow.corrected_brier_parts(bins))


@every_rule
def test_the_brier_decomposition_adds_up_where_bins_mix_predictions(bins, rule):
    y_true, y_prob = draw(13, "marginal", 3)
    groups = slow.groups_of(y_true, y_prob, "marginal", rule)
    weight = [0.5, 0.2, 0.3]
    score, rel, _, unc = (
        slow.class_mean(part, weight)
        for part in zip(*(slow.brier_parts(each) for each in groups), strict=True)
    )
    parts = brier_decomposition(y_true, y_prob, kind="marginal", bins=bins, class_weight=weight)
    check_parts(parts, (score, rel, rel + unc - score, unc))


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize(
    ("bins", "rule"),
    [
        (EqualWidth(15), lambda values: slow.equal_width_edges(15)),
        (EqualMass(15), lambda values: slow.equal_mass_edges(values, 15)),
    ],
    ids=["equal-width 15", "equal-mass 15"],
)
def test_errors_agree_on_the_papers_cifar10_predictions(cifar10, kind, bins, rule):
    y_true, y_prob = cifar10
    groups = slow.groups_of(y_true.tolist(), y_prob.tolist(), kind, rule)
    check_counts(tabulate(y_true, y_prob, kind=kind, bins=bins), groups)
    for norm in ("l1", "l2"):
        result = calibration_error(y_true, y_prob, kind=kind, bins=bins, norm=norm, debias=False)
        assert abs(result.value - slow.plugin_error(groups, POWERS[norm])) < TOLERANCE
        check_per_class(result, [slow.plugin_error([group], POWERS[norm]) for group in groups])
