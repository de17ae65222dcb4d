"""validate: its numbers are those of R, scikit-learn and relplot, and it always has an answer."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.samples import Sample
from calibrant.stats.validation import c_limits, c_statistic
from validated import ROW, TABLE, P, Y

W = 1 + ROW % 3

# R 4.2.2, rms 6.5.0, pROC, sandwich:
#   i <- 0:199; p <- (((i*7919) %% 200 + 0.5)/200)^1.5; u <- ((i*104729 + 13) %% 997)/997
#   y <- as.numeric(u < plogis(0.2 + 0.8*qlogis(p)))
#   val.prob(p, y, pl=FALSE)[c("C (ROC)", "Brier", "Intercept", "Slope")]; lrm(y ~ qlogis(p))
#   glm(y ~ offset(qlogis(p)), family=binomial)                               # in the large
#   l <- loess(y ~ p, control=loess.control(surface="direct"))
#   d <- abs(predict(l, data.frame(p=p)) - p); mean(d); median(d); quantile(d, .9); max(d)
R = {
    "c_statistic": 0.8167830752,
    "brier": 0.1786502194,
    "intercept": 0.2128976554,
    "slope": 0.7974345602,
    "in_the_large": 0.2967529654,
    "ici": 0.05982697022,
    "e50": 0.04755964908,
    "emax": 0.1259132753,
}
# glm(..., weights = 1 + i %% 3), loess(..., weights = 1 + i %% 3)
R_WEIGHTED = {
    "intercept": 0.2136556233,
    "slope": 0.7587724376,
    "in_the_large": 0.3183745841,
    "ici": 0.06522002107,
}
# sqrt(diag(sandwich::vcovHC(glm(...), type = "HC3"))), of a sum of squares over n - 1 here
R_ERRORS = {"intercept": 0.1848294032, "slope": 0.1180488892, "in_the_large": 0.1950842751}
# sqrt(diag(sandwich::vcovCL(glm(y ~ qlogis(p), ...), cluster = i %/% 4, type = "HC0")))
R_CLUSTERED = {"intercept": 0.2464030051, "slope": 0.1220717872}


@pytest.mark.parametrize("name", R)
def test_estimates_are_those_of_rms_and_loess(name):
    assert TABLE[name].value == pytest.approx(R[name], abs=2e-9)


@pytest.mark.parametrize("name", R_WEIGHTED)
def test_weighted_estimates_are_those_of_glm_and_loess(name):
    assert cb.validate(Y, P, sample_weight=W)[name].value == pytest.approx(
        R_WEIGHTED[name], abs=2e-9
    )


@pytest.mark.parametrize("name", R_ERRORS)
def test_intervals_of_logistic_fits_are_robust_ones(name):
    reach = 1.9719565 * R_ERRORS[name] * math.sqrt(200 / 199)  # qt(.975, 199)
    assert TABLE[name].high - TABLE[name].value == pytest.approx(reach, rel=1e-5)


@pytest.mark.parametrize("name", R_CLUSTERED)
def test_intervals_of_clusters_are_those_of_sandwich(name):
    table = cb.validate(Y, P, cluster=ROW // 4)
    reach = 2.0095752 * R_CLUSTERED[name]  # qt(.975, 49)
    # leverages are allowed for here, as by HC3
    assert table[name].high - table[name].value == pytest.approx(reach, rel=0.02)
    assert "in 50 clusters" in str(table)


def test_scores_are_those_of_scikit_learn():
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    for weight in (None, W):
        table = cb.validate(Y, P, sample_weight=weight)
        expected = [f(Y, P, sample_weight=weight) for f in (log_loss, brier_score_loss)]
        assert [table[x].value for x in ("log_loss", "brier")] == pytest.approx(expected)
        area = roc_auc_score(Y, P, sample_weight=weight)
        assert table["c_statistic"].value == pytest.approx(area)


def test_the_slope_is_that_of_probcal():
    # probcal 0.4.0: metrics.calibration_slope(Y, P), metrics.calibration_intercept(Y, P)
    assert TABLE["slope"].value == pytest.approx(0.7974345607150667, abs=1e-9)
    assert TABLE["in_the_large"].value == pytest.approx(0.2967529654334112, abs=1e-9)


def test_separated_events_have_firths_fit_and_its_profile_interval():
    # R: optim of the log-likelihood + log(det(information)) / 2, its profile by uniroot
    table = cb.validate([0] * 4 + [1] * 4, [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
    slope = table["slope"]
    assert slope.value == pytest.approx(1.882262985, abs=1e-6)
    assert (slope.low, slope.high) == pytest.approx((0.2447130371, 7.9282753860), abs=1e-5)
    assert any("separates events" in note for note in table.notes)
    assert any(note.startswith("C is 1: limits of scores") for note in table.notes)
    assert table["c_statistic"].low < 0.6, "eight rows do not show that C is 1"


HARD = {
    "one row": ([1], [0.3]),
    "no events": ([0] * 30, np.linspace(0.01, 0.2, 30)),
    "no non-events": ([1] * 30, np.linspace(0.01, 0.2, 30)),
    "one event": ([1] + [0] * 99, np.linspace(0.01, 0.2, 100)),
    "one prediction": ([0, 1] * 20, [0.5] * 40),
    "two predictions": ([0, 1, 0, 1] * 20, [0.4, 0.6] * 40),
    "certain": ([0, 1] * 20, [0.0, 1.0] * 20),
    "certain and wrong": ([0, 1, 1] * 20, [0.0, 1.0, 0.0] * 20),
    "next to certain": ([0, 1] * 20, [5e-324, 1 - 1e-16] * 20),
    "all zero": ([0] * 20, [0.0] * 20),
    "float16": (Y, P.astype(np.float16)),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_cases_have_an_answer_and_a_note_where_they_have_none(case):
    table = cb.validate(*HARD[case])
    for m in table.measures:
        assert not math.isinf(m.value) or m.name == "log_loss", m
        assert math.isnan(m.low) or m.low <= m.value <= m.high or math.isnan(m.value), m
    if any(math.isnan(m.value) for m in table.measures):
        assert table.notes
    json.dumps(table.to_dict(), allow_nan=False)
    assert max(map(len, str(table).splitlines())) <= 80


@pytest.mark.parametrize("case", ["no events", "no non-events", "one event"])
def test_few_events_have_finite_logistic_fits(case):
    table = cb.validate(*HARD[case])
    for name in ("in_the_large", "intercept", "slope"):
        assert math.isfinite(table[name].value)
        assert table[name].low < table[name].value < table[name].high
    assert table["oe_ratio"].high > table["oe_ratio"].value


def test_equal_predictions_are_separated_by_no_threshold():
    table = cb.validate([1] * 30 + [0] * 70, [0.2] * 100)
    # maximum likelihood has a closed form there
    assert table["in_the_large"].value == pytest.approx(logit(0.3) - logit(0.2), abs=1e-9)
    assert table.notes[0].startswith("all predictions are equal")


def test_predictions_that_were_never_wrong_may_be_wrong_yet():
    y = np.arange(200) % 2
    table = cb.validate(y, y.astype(float))
    worst = 1 - 0.025 ** (1 / 200)  # Clopper-Pearson's limit of 0 among 200
    for name in ("brier", "smooth_ece"):
        assert (table[name].value, table[name].low) == pytest.approx((0, 0), abs=1e-12)
        assert table[name].high == pytest.approx(worst)
    assert table["scaled_brier"].low == pytest.approx(1 - 4 * worst)
    assert (table["log_loss"].low, table["log_loss"].high) == (0, np.inf)
    assert 0.9 < table["oe_ratio"].low < 1 < table["oe_ratio"].high
    assert "no prediction was wrong" in str(table)
    clusters = cb.validate(y, y.astype(float), cluster=np.arange(200) // 10)
    assert clusters["brier"].high == pytest.approx(1 - 0.025 ** (1 / 20))
    assert min(clusters["emax"].high, clusters["l2_error"].high) > 0.02


def test_a_row_of_most_of_the_weight_is_noted():
    weights = np.where(ROW == 0, 1e6, 1.0)
    table = cb.validate(Y, P, sample_weight=weights)
    assert "weights leave about 1 of 200 rows: intervals may be too short" in table.notes
    assert not any("weights leave" in note for note in cb.validate(Y, P, sample_weight=W).notes)


def test_one_row_without_a_logit_is_one_row():
    table = cb.validate([0, 1, 0, 1], [0.0, 0.6, 0.3, 0.2])
    assert "1 row predicted with 0 or 1 has no logit" in " ".join(table.notes)


def test_one_row_has_no_interval_that_rests_on_the_spread_of_rows():
    table = cb.validate([1], [0.3])
    for name in ("mean_prediction", "brier", "log_loss", "smooth_ece"):
        assert math.isnan(table[name].low), name
        assert math.isnan(table[name].high), name
    assert table["observed_rate"].low == pytest.approx(0.025)
    assert any("one row has no spread" in note for note in table.notes)


EDGES = [0, 0.2, 0.4, 0.6, 0.8, 1]


def same(a, b, names=None, rel=1e-9):
    for name in names or a:
        ends = [(m.value, m.low, m.high) for m in (a[name], b[name])]
        assert ends[0] == pytest.approx(ends[1], rel=rel, nan_ok=True), name


@pytest.mark.parametrize("n_events", [0, 3, 60])
@pytest.mark.parametrize("shift", [30.0, 650.0, 712.0, 740.0])
def test_predictions_next_to_zero_move_calibration_in_the_large_and_nothing_breaks(shift, n_events):
    p, y = np.exp(logit(P) - shift), (n_events > ROW) * 1
    y, p = y[p > 0], p[p > 0]  # the least numbers there are have few digits, and some are 0
    moved = cb.validate(y, p)["in_the_large"]
    at_home = cb.validate(y, expit(np.log(p) + shift))["in_the_large"]
    assert [moved.value - shift, moved.low - shift, moved.high - shift] == pytest.approx(
        [at_home.value, at_home.low, at_home.high], abs=1e-5
    )
    assert cb.validate(y, p)["oe_ratio"].value == pytest.approx(float(y.mean()) / float(p.mean()))


def test_clusters_within_groups_are_those_of_the_rows_of_each_group():
    site, patient = np.where(ROW % 3 == 0, "a", "b"), ROW // 5  # patients have rows at both sites
    for weights in (None, W):
        tables = cb.validate(Y, P, by=site, cluster=patient, sample_weight=weights)
        assert list(tables) == ["a", "b"]
        for name in tables:
            own = site == name
            part = None if weights is None else weights[own]
            same(
                tables[name], cb.validate(Y[own], P[own], cluster=patient[own], sample_weight=part)
            )
    data = {"y": Y, "p": P, "site": site, "age": ROW % 90, "who": patient}
    named = cb.validate("y", "p", data=data, by="site", cluster="who")
    same(named["b"], cb.validate(Y, P, by=site, cluster=patient)["b"])
    cut = cb.validate("y", "p", data=data, by={"site": None, "age": [0, 45, 90]}, cluster="who")
    assert len(cut) == 4
    arrays = cb.validate(Y, P, by={"age": (ROW % 90, [0, 45, 90])}, cluster=patient)
    assert list(arrays) == ["[0, 45]", "(45, 90]"]


def test_equal_weights_in_clusters_change_nothing():
    weighed = cb.validate(Y, P, cluster=ROW // 4, sample_weight=np.full(Y.size, 3.0))
    same(weighed, cb.validate(Y, P, cluster=ROW // 4))
    assert "have weights" not in str(weighed)
    unequal = cb.validate(Y, P, cluster=ROW // 4, sample_weight=W)
    assert any("91% to 96% of simulated samples" in note for note in unequal.notes)


def test_a_weight_of_two_is_a_row_twice_in_its_cluster():
    twice = np.repeat(np.arange(Y.size), 1 + ROW % 2)
    weighed = cb.validate(Y, P, cluster=ROW // 4, sample_weight=1.0 + ROW % 2, bins=EDGES)
    again = cb.validate(Y[twice], P[twice], cluster=ROW[twice] // 4, bins=EDGES)
    exact = ("mean_prediction", "observed_rate", "oe_ratio", "brier", "scaled_brier", "log_loss")
    same(weighed, again, exact)
    same(weighed, again, ("intercept", "slope", "in_the_large"), rel=0.02)  # of HC3's leverage
    assert weighed["l2_error"].value == pytest.approx(again["l2_error"].value, rel=1e-9)


def test_rows_of_no_weight_are_no_rows_of_a_cluster():
    used = ROW % 7 > 0
    weighed = cb.validate(Y, P, cluster=ROW // 4, sample_weight=used.astype(float))
    same(weighed, cb.validate(Y[used], P[used], cluster=ROW[used] // 4))
    assert weighed.n_clusters == np.unique(ROW[used] // 4).size


def test_repeated_rows_in_one_cluster_are_no_news():
    once = cb.validate(Y, P)
    again = cb.validate(np.repeat(Y, 3), np.repeat(P, 3), cluster=np.repeat(ROW, 3))
    for name in ("oe_ratio", "slope", "c_statistic", "brier", "log_loss"):
        assert again[name].value == pytest.approx(once[name].value)
        assert again[name].high - again[name].low == pytest.approx(
            once[name].high - once[name].low, rel=0.03
        )
    assert again["ici"].ideal == pytest.approx(once["ici"].ideal, rel=0.15)


def test_the_scale_of_weights_and_rows_without_weight_change_nothing():
    plain = cb.validate(Y, P, sample_weight=W).to_dict()
    scaled = cb.validate(Y, P, sample_weight=7.0 * W).to_dict()
    more = cb.validate(
        np.append(Y, 1),
        np.append(P, 0.01),
        sample_weight=np.append(W, 0),
        bins=np.linspace(0, 1, 9),
    )
    fewer = cb.validate(Y, P, sample_weight=W, bins=np.linspace(0, 1, 9))
    for name, measure in plain["measures"].items():
        assert scaled["measures"][name]["value"] == pytest.approx(measure["value"], rel=1e-6)
        if name != "noise_floor":
            assert more[name].value == pytest.approx(fewer[name].value, rel=1e-9), name


def test_logits_and_frames_and_top_labels_are_read_like_anywhere():
    frame = pd.DataFrame({"y": Y, "p": P, "score": logit(P)})
    expected = str(TABLE)
    assert str(cb.validate("y", "p", data=frame)) == expected
    logits = cb.validate("y", "score", data=frame, input="logits")
    assert logits["slope"].value == pytest.approx(TABLE["slope"].value)
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.ones(3), size=300), rng.integers(3, size=300)
    top = cb.validate(labels, probs)
    assert top.kind == "top-label"
    right = (probs.argmax(axis=1) == labels).astype(int)
    assert top["slope"].value == cb.validate(right, probs.max(axis=1))["slope"].value


def test_what_validate_cannot_measure_is_refused():
    probs = np.full((6, 3), 1 / 3)
    with pytest.raises(ex.InvalidArgumentError, match=r'got kind="marginal" with 3 classes\. Val'):
        cb.validate([0, 1, 2] * 2, probs, kind="marginal")
    with pytest.raises(ex.InvalidArgumentError, match="needs the predictions and labels"):
        cb.validate(cb.tabulate(Y, P))
    with pytest.raises(ex.InvalidArgumentError, match="into groups or into clusters"):
        cb.validate("y", "p", cluster="r", by="r", data={"y": Y, "p": P, "r": ROW})
    with pytest.raises(ex.InvalidGroupsError, match=r"every group needs 2.*first: \(3,\)"):
        cb.validate(Y, P, cluster=np.where(ROW % 4 == 3, -1, ROW), by=ROW % 4)
    with pytest.raises(ex.NotFiniteError):
        cb.validate(Y, np.where(ROW == 3, np.nan, P))
    with pytest.raises(ex.EmptyInputError):
        cb.validate([], [])
    with pytest.raises(ex.InvalidArgumentError, match=r"Write 0\.95"):
        cb.validate(Y, P, confidence_level=95)


def test_a_higher_level_has_wider_intervals():
    wider = cb.validate(Y, P, confidence_level=0.99)
    for m in TABLE.measures:
        if not math.isnan(m.low):
            assert wider[m.name].low <= m.low
            assert wider[m.name].high >= m.high


def few_values(n=10_000):
    """Rows predicted 0 or 1, with events at 15% of the zeros and 45% of the ones: ICI is 0.29."""
    p = (np.arange(n) % 20 >= 13).astype(float)
    place = np.arange(n) // 20 % 100
    return (place < np.where(p == 1, 45, 15)).astype(int), p


def test_intervals_of_few_different_predictions_are_around_the_estimate():
    # the rows of each count: 44% of 95% intervals held the ICI when the values counted alike
    for name in ("ici", "smooth_ece"):
        measure = cb.validate(*few_values())[name]
        assert measure.value == pytest.approx(0.29)
        assert 0.005 < measure.value - measure.low < 0.012, name
        assert 0.005 < measure.high - measure.value < 0.012, name


def test_weights_count_in_the_interval_of_the_ici():
    rng = np.random.default_rng(5)
    p = rng.uniform(0.05, 0.95, size=4000)
    y = (rng.uniform(size=p.size) < np.where(p > 0.5, p - 0.3, p)).astype(int)
    measure = cb.validate(y, p, sample_weight=np.where(p > 0.7, 20.0, 1.0))["ici"]
    assert abs((measure.low + measure.high) / 2 - measure.value) < 0.01


def test_limits_of_a_brier_score_stay_between_0_and_1():
    table = cb.validate([1, 0], [0.7, 0.7])
    assert table["brier"].high == 1
    assert math.isfinite(table["scaled_brier"].low)


def test_delongs_interval_is_that_of_proc_on_the_log_odds_scale():
    # pROC: auc(roc(y, p)), var(roc(y, p))
    area = 0.8167830752
    reach = 1.9719565 * math.sqrt(0.000850432733) / (area * (1 - area))
    assert TABLE["c_statistic"].high == pytest.approx(expit(logit(area) + reach), abs=5e-4)


def test_it_is_the_share_of_pairs_in_which_the_event_ranks_higher():
    rng = np.random.default_rng(1)
    p, y, w = rng.uniform(size=60).round(1), rng.integers(2, size=60), rng.uniform(size=60)
    above = np.subtract.outer(p[y == 1], p[y == 0])
    pairs = np.outer(w[y == 1], w[y == 0])
    expected = (pairs * ((above > 0) + (above == 0) / 2)).sum() / pairs.sum()
    area, influence = c_statistic(Sample.of(y.astype(float), p, w))
    assert area == pytest.approx(expected)
    assert w @ influence == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("right", [True, False])
def test_perfect_ranks_have_an_interval_that_is_not_a_point(right):
    y = np.repeat([0.0, 1.0], 6)
    sample = Sample.of(y, np.arange(12) / 12 if right else 1 - np.arange(12) / 12)
    area, influence = c_statistic(sample)
    low, high, method = c_limits(sample, area, influence, 0.95)
    assert (area, method) == (float(right), "Newcombe")
    assert high - low > 0.3
    assert low <= area <= high


def test_turning_predictions_round_turns_the_interval_round():
    limits = []
    for p in (P, 1 - P):
        sample = Sample.of(Y.astype(float), p)
        limits.append(c_limits(sample, *c_statistic(sample), 0.9))
    assert limits[0][:2] == pytest.approx((1 - limits[1][1], 1 - limits[1][0]))
    assert limits[0][2] == limits[1][2] == "DeLong"
