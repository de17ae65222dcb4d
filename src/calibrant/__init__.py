"""calibrant: verified probability calibration."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__ as __version__

if TYPE_CHECKING:
    from calibrant import exceptions, paper, recalibrators, stats
    from calibrant.bins import (
        Bins,
        Distinct,
        EqualMass,
        EqualWidth,
        Hybrid,
    )
    from calibrant.display import ReliabilityDisplay
    from calibrant.measure import (
        brier_decomposition,
        calibration_error,
        reliability_curve,
        tabulate,
    )
    from calibrant.metric import (
        CalibrationMetric,
    )
    from calibrant.recalibrators import (
        BetaScaling,
        HistogramBinning,
        Identity,
        IsotonicCalibration,
        MatrixScaling,
        OneVsRest,
        PlattScaling,
        QuadraticScaling,
        RecalibratedClassifier,
        ScalingBinning,
        TemperatureScaling,
        TopLabel,
        VectorScaling,
        VennAbers,
        apply_to_frame,
        best_recalibrator,
        load,
        recalibrator_scores,
        resolution_report,
    )
    from calibrant.reports import report
    from calibrant.stats import (
        Certificate,
        compare_tables,
        recommended_bins,
        samples_to_balance,
        samples_to_calibrate,
        samples_to_certify,
        smallest_certifiable_error,
    )
    from calibrant.table import (
        BinTable,
    )
    from calibrant.verify import (
        bin_free_bounds,
        calibration_test,
        certify,
        compare,
        prequential_lower_bound,
        recheck,
    )

_HOME = {
    "BetaScaling": "recalibrators",
    "BinTable": "table",
    "Bins": "bins",
    "CalibrationMetric": "metric",
    "Certificate": "stats",
    "Distinct": "bins",
    "EqualMass": "bins",
    "EqualWidth": "bins",
    "HistogramBinning": "recalibrators",
    "Hybrid": "bins",
    "Identity": "recalibrators",
    "IsotonicCalibration": "recalibrators",
    "MatrixScaling": "recalibrators",
    "OneVsRest": "recalibrators",
    "PlattScaling": "recalibrators",
    "QuadraticScaling": "recalibrators",
    "RecalibratedClassifier": "recalibrators",
    "ReliabilityDisplay": "display",
    "ScalingBinning": "recalibrators",
    "TemperatureScaling": "recalibrators",
    "TopLabel": "recalibrators",
    "VectorScaling": "recalibrators",
    "VennAbers": "recalibrators",
    "apply_to_frame": "recalibrators",
    "best_recalibrator": "recalibrators",
    "bin_free_bounds": "verify",
    "brier_decomposition": "measure",
    "calibration_error": "measure",
    "calibration_test": "verify",
    "certify": "verify",
    "compare": "verify",
    "compare_tables": "stats",
    "exceptions": "",
    "load": "recalibrators",
    "paper": "",
    "prequential_lower_bound": "verify",
    "recalibrator_scores": "recalibrators",
    "recalibrators": "",
    "recheck": "verify",
    "recommended_bins": "stats",
    "reliability_curve": "measure",
    "report": "reports",
    "resolution_report": "recalibrators",
    "samples_to_balance": "stats",
    "samples_to_calibrate": "stats",
    "samples_to_certify": "stats",
    "smallest_certifiable_error": "stats",
    "stats": "",
    "tabulate": "measure",
}

__all__ = [
    "BetaScaling",
    "BinTable",
    "Bins",
    "CalibrationMetric",
    "Certificate",
    "Distinct",
    "EqualMass",
    "EqualWidth",
    "HistogramBinning",
    "Hybrid",
    "Identity",
    "IsotonicCalibration",
    "MatrixScaling",
    "OneVsRest",
    "PlattScaling",
    "QuadraticScaling",
    "RecalibratedClassifier",
    "ReliabilityDisplay",
    "ScalingBinning",
    "TemperatureScaling",
    "TopLabel",
    "VectorScaling",
    "VennAbers",
    "apply_to_frame",
    "best_recalibrator",
    "bin_free_bounds",
    "brier_decomposition",
    "calibration_error",
    "calibration_test",
    "certify",
    "compare",
    "compare_tables",
    "exceptions",
    "load",
    "paper",
    "prequential_lower_bound",
    "recalibrator_scores",
    "recalibrators",
    "recheck",
    "recommended_bins",
    "reliability_curve",
    "report",
    "resolution_report",
    "samples_to_balance",
    "samples_to_calibrate",
    "samples_to_certify",
    "smallest_certifiable_error",
    "stats",
    "tabulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'calibrant' has no attribute {name!r}")
    home = _HOME[name]
    value = (
        getattr(import_module(f"calibrant.{home}"), name)
        if home
        else import_module(f"calibrant.{name}")
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
