"""Check values of three small samples, from the statistical specification of the project.

Each sample is small enough for paper and pencil. The values were computed once, apart from this
library, from the formulas named beside them; where nine digits or more are given they must be met to
1e-9, else to half a unit of the last digit.

References: Kumar, Liang, Ma (2019), Verified uncertainty calibration; Broecker (2012), Estimating
reliability and resolution of probability forecasts; Ferro and Fricker (2012), A bias-corrected
decomposition of the Brier score; Sun et al. (2024), arXiv 2408.08998.
"""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import (
    Distinct,
    EqualMass,
    EqualWidth,
    brier_decomposition,
    calibration_error,
    reliability_curve,
    tabulate,
)
from calibrant.stats.estimators import cells_of, null_variance

DIGITS = 1e-9


def rows_of(levels, sizes, events):
    """Return (y_true, y_prob) of a model that said levels[j] sizes[j] times, events[j] came true."""
    y_true = [int(i < k) for n, k in zip(sizes, events, strict=True) for i in range(n)]
    return np.array(y_true), np.repeat(levels, sizes)


def near(value, within=DIGITS):
    return pytest.approx(value, rel=0, abs=within)


class TestThreeLevels:
    """Predictions .2, .5, .9, made 5, 4 and 6 times; the event came 2, 1 and 5 times."""

    y_true, y_prob = rows_of([0.2, 0.5, 0.9], [5, 4, 6], [2, 1, 5])

    def error(self, norm, debias):
        return calibration_error(
            self.y_true, self.y_prob, bins=Distinct(), norm=norm, debias=debias
        )

    def test_plug_in_errors_are_weighted_power_means_of_the_gaps(self):
        # Gaps .2, .25, .0667 with masses 5/15, 4/15, 6/15.
        assert self.error("l2", False).squared == near(0.0317777778)
        assert self.error("l2", False).value == near(0.1782632261)
        assert self.error("l1", False).value == near(0.16)
        assert self.error("max", None).value == near(0.25)

    def test_the_debiased_square_is_the_u_statistic(self):
        # Both as the plug-in less x (1 - x) / (N - 1) in each bin (Broecker 2012) and as the sum
        # over pairs of rows (Sun et al. 2024). It is negative, so the error reads 0.
        assert self.error("l2", True).squared == near(-0.016)
        assert self.error("l2", True).value == 0

    def test_the_debiased_l1_subtracts_a_folded_normal_mean(self):
        # The expectation that Kumar et al. (2019, appendix G) simulate; 2e6 draws gave
        # 0.20796 +- 0.00006 for the sum of p_j E|s_j - R_j|.
        value = self.error("l1", True).value
        assert value == near(0.1120910243)
        assert 2 * self.error("l1", False).value - value == near(0.2079089757)

    def test_the_brier_score_splits_into_three_terms(self):
        # Murphy's decomposition, which is exact for a binned model.
        parts = brier_decomposition(self.y_true, self.y_prob, bins=Distinct())
        assert parts.value == near(0.2173333333)
        assert parts.miscalibration == near(0.0317777778)
        assert parts.discrimination == near(0.0633333333)
        assert parts.uncertainty == near(0.2488888889)

    def test_the_corrected_brier_terms_keep_their_sum(self):
        # Ferro and Fricker (2012).
        parts = brier_decomposition(self.y_true, self.y_prob, bins=Distinct(), debias=True)
        assert parts.value == near(0.2173333333)
        assert parts.miscalibration == near(-0.016)
        assert parts.discrimination == near(0.0333333333)
        assert parts.uncertainty == near(0.2666666667)

    def test_the_variance_at_calibration(self):
        # 2 sum_j p_j^2 v_j^2 / (N_j (N_j - 1)) with v = s (1 - s).
        cells = cells_of(tabulate(self.y_true, self.y_prob, bins=Distinct()))
        found = null_variance(cells, cells.mean * (1 - cells.mean))
        assert found == near([0.0011115852])

    def test_the_event_rates_have_simultaneous_clopper_pearson_limits(self):
        # 95% in all three bins together, each at 1 - .95^(1/3) (Sidak).
        curve = reliability_curve(self.y_true, self.y_prob, bins=Distinct(), simultaneous=True)
        assert curve.low == near(np.array([0.0300075976, 0.0021258225, 0.2841038594]))
        assert curve.high == near(np.array([0.9003458619, 0.8669762699, 0.9985822824]))

    def test_the_box_interval_ends_at_the_farthest_corner_of_those_limits(self):
        assert self.error("max", None).confidence_interval(method="box").high == near(0.7003458619)
        box = self.error("l2", True).confidence_interval(method="box", target="sample")
        assert box.high == near(0.6175167881)


class TestTenRows:
    """Ten distinct predictions, five events."""

    y_prob = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9])
    y_true = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1])

    def test_the_error_in_five_equal_width_bins(self):
        # Right-closed bins: .2, .4, .6 and .8 belong to the bin below.
        result = calibration_error(
            self.y_true, self.y_prob, bins=EqualWidth(5), norm="l1", debias=False
        )
        assert result.table.count.tolist() == [[2, 3, 2, 2, 1]]
        assert result.value == near(0.18)

    def test_the_debiased_square_in_two_equal_mass_bins(self):
        # Sun et al. (2024): all the variance of y - p is removed. Removing only that of the
        # labels, as Kumar et al. (2019) write it, would give -.0315.
        result = calibration_error(self.y_true, self.y_prob, bins=EqualMass(2))
        assert result.squared == near(-0.032)

    def test_the_brier_score(self):
        assert brier_decomposition(self.y_true, self.y_prob, bins=5).value == near(0.1705)


class TestTenLevels:
    """Predictions .05, .15, ..., .95, each made 100 times.

    The two-sided score interval at 90% ends where the one-sided bound at 95% does. The box is the
    square root of the largest squared error in the simultaneous Clopper-Pearson limits.
    """

    levels = (np.arange(10) + 0.5) / 10

    @pytest.mark.parametrize(
        ("events", "plug_in", "debiased", "two_sided", "one_sided", "box"),
        [
            pytest.param(
                [7, 12, 28, 31, 49, 51, 68, 71, 83, 97],
                *(0.00103, -0.00066667, 0.056751, 0.045663, 0.151234),
                id="as near as chance allows",
            ),
            pytest.param(
                [10, 20, 30, 40, 45, 55, 60, 70, 80, 90],
                *(0.002, 0.00008586, 0.068051, 0.058880, 0.175906),
                id="off by .05 in most bins",
            ),
        ],
    )
    def test_errors_and_intervals(self, events, plug_in, debiased, two_sided, one_sided, box):
        y_true, y_prob = rows_of(self.levels, [100] * 10, events)
        naive = calibration_error(y_true, y_prob, bins=Distinct(), debias=False)
        result = calibration_error(y_true, y_prob, bins=Distinct())
        assert naive.squared == near(plug_in)
        assert result.squared == near(debiased, 0.5e-8)
        assert tuple(result.confidence_interval(0.95, "score")) == near((0, two_sided), 0.5e-6)
        assert result.confidence_interval(0.90, "score").high == near(one_sided, 0.5e-6)
        given_masses = result.confidence_interval(0.95, "box", target="sample")
        assert tuple(given_masses) == near((0, box), 0.5e-6)
