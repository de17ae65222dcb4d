"""What the counts mean: every measure takes a `BinTable` and returns numbers."""

from __future__ import annotations

from calibrant.stats.intervals import ConfidenceInterval
from calibrant.stats.measures import brier_decomposition, calibration_error, reliability_curve
from calibrant.stats.results import BrierDecomposition, CalibrationErrorResult, ReliabilityCurve

__all__ = [
    "BrierDecomposition",
    "CalibrationErrorResult",
    "ConfidenceInterval",
    "ReliabilityCurve",
    "brier_decomposition",
    "calibration_error",
    "reliability_curve",
]
