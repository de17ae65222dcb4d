"""What the counts mean: every measure takes a `BinTable` and returns numbers."""

from __future__ import annotations

from calibrant.stats.audits import Audit, AuditedGroup, audit, heterogeneity_test
from calibrant.stats.bin_free import BinFreeBounds, bin_free_bounds
from calibrant.stats.certificates import Certificate, certify, one_line_ece_bound
from calibrant.stats.comparison import Comparison, Comparisons, Difference, compare_errors
from calibrant.stats.curves import ReliabilityCurve, consistency_limits, reliability_curve
from calibrant.stats.group_results import (
    GroupCertificates,
    GroupCurves,
    GroupErrors,
    GroupSelectiveCurves,
    group_certificates,
    group_curves,
    group_errors,
    group_selective_curves,
)
from calibrant.stats.hypothesis_tests import (
    CalibrationTestResult,
    CoxTestResult,
    calibration_test,
)
from calibrant.stats.intervals import ConfidenceInterval
from calibrant.stats.isotonic_curve import (
    IsotonicCurve,
    isotonic_curve,
)
from calibrant.stats.label_shift import LabelShiftCertificate
from calibrant.stats.monitor_records import MonitoredBatch
from calibrant.stats.planning import samples_to_certify, smallest_certifiable_error
from calibrant.stats.prequential import MiscalibrationBound, prequential_lower_bound
from calibrant.stats.rechecks import Recheck
from calibrant.stats.results import CalibrationErrorResult, calibration_error
from calibrant.stats.sample_sizes import (
    histogram_binning_bound,
    recommended_bins,
    samples_to_balance,
    samples_to_calibrate,
)
from calibrant.stats.scores import ScoreDecomposition, brier_decomposition
from calibrant.stats.selective import SelectiveCertificate, SelectiveCurve, selective_curve
from calibrant.stats.table_comparison import TableComparison, compare_tables

__all__ = [
    "Audit",
    "AuditedGroup",
    "BinFreeBounds",
    "CalibrationErrorResult",
    "CalibrationTestResult",
    "Certificate",
    "Comparison",
    "Comparisons",
    "ConfidenceInterval",
    "CoxTestResult",
    "Difference",
    "GroupCertificates",
    "GroupCurves",
    "GroupErrors",
    "GroupSelectiveCurves",
    "IsotonicCurve",
    "LabelShiftCertificate",
    "MiscalibrationBound",
    "MonitoredBatch",
    "Recheck",
    "ReliabilityCurve",
    "ScoreDecomposition",
    "SelectiveCertificate",
    "SelectiveCurve",
    "TableComparison",
    "audit",
    "bin_free_bounds",
    "brier_decomposition",
    "calibration_error",
    "calibration_test",
    "certify",
    "compare_errors",
    "compare_tables",
    "consistency_limits",
    "group_certificates",
    "group_curves",
    "group_errors",
    "group_selective_curves",
    "heterogeneity_test",
    "histogram_binning_bound",
    "isotonic_curve",
    "one_line_ece_bound",
    "prequential_lower_bound",
    "recommended_bins",
    "reliability_curve",
    "samples_to_balance",
    "samples_to_calibrate",
    "samples_to_certify",
    "selective_curve",
    "smallest_certifiable_error",
]
