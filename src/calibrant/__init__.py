"""calibrant: verified probability calibration."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant._version import __version__ as __version__

if TYPE_CHECKING:
    from calibrant import exceptions, stats
    from calibrant.bins import Bins, Distinct, EqualMass, EqualWidth, Hybrid
    from calibrant.measure import (
        brier_decomposition,
        calibration_error,
        certify,
        reliability_curve,
        tabulate,
    )
    from calibrant.metric import CalibrationMetric
    from calibrant.stats import (
        Certificate,
        recommended_bins,
        samples_to_balance,
        samples_to_calibrate,
        samples_to_certify,
        smallest_certifiable_error,
    )
    from calibrant.table import BinTable

_HOME = {
    "BinTable": "table",
    "Bins": "bins",
    "CalibrationMetric": "metric",
    "Certificate": "stats",
    "Distinct": "bins",
    "EqualMass": "bins",
    "EqualWidth": "bins",
    "Hybrid": "bins",
    "brier_decomposition": "measure",
    "calibration_error": "measure",
    "certify": "measure",
    "exceptions": "",
    "recommended_bins": "stats",
    "reliability_curve": "measure",
    "samples_to_balance": "stats",
    "samples_to_calibrate": "stats",
    "samples_to_certify": "stats",
    "smallest_certifiable_error": "stats",
    "stats": "",
    "tabulate": "measure",
}

__all__ = [
    "BinTable",
    "Bins",
    "CalibrationMetric",
    "Certificate",
    "Distinct",
    "EqualMass",
    "EqualWidth",
    "Hybrid",
    "brier_decomposition",
    "calibration_error",
    "certify",
    "exceptions",
    "recommended_bins",
    "reliability_curve",
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
