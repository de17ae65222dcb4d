"""How to repair: recalibrators, scikit-learn estimators of probabilities from probabilities."""

from __future__ import annotations

from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binning import HistogramBinning
from calibrant.recalibrators.by_group import ByGroup
from calibrant.recalibrators.certifying import OverlapWarning, RepeatedRowsWarning
from calibrant.recalibrators.classifier import RecalibratedClassifier
from calibrant.recalibrators.dirichlet import DirichletScaling, JointBetaScaling
from calibrant.recalibrators.fingerprint import Fingerprint
from calibrant.recalibrators.isotonic import IsotonicCalibration, VennAbers
from calibrant.recalibrators.matrix import MatrixScaling, VectorScaling
from calibrant.recalibrators.multiclass import AccuracyWarning, MultiLabel, OneVsRest
from calibrant.recalibrators.quantiles import (
    QuantileRecalibration,
    QuantileRepair,
    VarianceScaling,
)
from calibrant.recalibrators.saving import load
from calibrant.recalibrators.scaling import (
    BetaScaling,
    PlattScaling,
    PriorShift,
    QuadraticScaling,
)
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.scores import FitResult, ResolutionReport, resolution_report
from calibrant.recalibrators.selection import RecalibratorScores, best_recalibrator
from calibrant.recalibrators.spline import SplineCalibration
from calibrant.recalibrators.temperature import Identity, TemperatureScaling
from calibrant.recalibrators.top_label import TopLabel

__all__ = [
    "AccuracyWarning",
    "BetaScaling",
    "ByGroup",
    "DirichletScaling",
    "Fingerprint",
    "FitResult",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "JointBetaScaling",
    "MatrixScaling",
    "MultiLabel",
    "OneVsRest",
    "OverlapWarning",
    "PlattScaling",
    "PriorShift",
    "QuadraticScaling",
    "QuantileRecalibration",
    "QuantileRepair",
    "RecalibratedClassifier",
    "Recalibrator",
    "RecalibratorScores",
    "RepeatedRowsWarning",
    "ResolutionReport",
    "ScalingBinning",
    "SplineCalibration",
    "TemperatureScaling",
    "TopLabel",
    "VarianceScaling",
    "VectorScaling",
    "VennAbers",
    "best_recalibrator",
    "load",
    "resolution_report",
]
