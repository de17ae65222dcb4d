"""How to repair: recalibrators, scikit-learn estimators of probabilities from probabilities."""

from __future__ import annotations

from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binning import HistogramBinning
from calibrant.recalibrators.choosing import (
    RecalibratorScores,
    best_recalibrator,
    recalibrator_scores,
)
from calibrant.recalibrators.classifier import RecalibratedClassifier
from calibrant.recalibrators.document import load
from calibrant.recalibrators.expressions import apply_to_frame, to_expression
from calibrant.recalibrators.fingerprint import Fingerprint, OverlapWarning, RepeatedRowsWarning
from calibrant.recalibrators.isotonic import IsotonicCalibration, VennAbers
from calibrant.recalibrators.matrix import MatrixScaling, VectorScaling
from calibrant.recalibrators.multiclass import AccuracyWarning, OneVsRest, TopLabel
from calibrant.recalibrators.newton import FitReport
from calibrant.recalibrators.resolution import ResolutionReport, resolution_report
from calibrant.recalibrators.scaling import (
    BetaScaling,
    Identity,
    PlattScaling,
    QuadraticScaling,
)
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.temperature import TemperatureScaling

__all__ = [
    "AccuracyWarning",
    "BetaScaling",
    "Fingerprint",
    "FitReport",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "MatrixScaling",
    "OneVsRest",
    "OverlapWarning",
    "PlattScaling",
    "QuadraticScaling",
    "RecalibratedClassifier",
    "Recalibrator",
    "RecalibratorScores",
    "RepeatedRowsWarning",
    "ResolutionReport",
    "ScalingBinning",
    "TemperatureScaling",
    "TopLabel",
    "VectorScaling",
    "VennAbers",
    "apply_to_frame",
    "best_recalibrator",
    "load",
    "recalibrator_scores",
    "resolution_report",
    "to_expression",
]
