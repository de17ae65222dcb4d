"""calibrant: verified probability calibration."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from calibrant import exceptions, stats
    from calibrant.bins import Bins, Distinct, EqualMass, EqualWidth, Hybrid
    from calibrant.measure import (
        brier_decomposition,
        calibration_error,
        reliability_curve,
        tabulate,
    )
    from calibrant.metric import CalibrationMetric
    from calibrant.table import BinTable

_HOME = {
    "BinTable": "table",
    "Bins": "bins",
    "CalibrationMetric": "metric",
    "Distinct": "bins",
    "EqualMass": "bins",
    "EqualWidth": "bins",
    "Hybrid": "bins",
    "brier_decomposition": "measure",
    "calibration_error": "measure",
    "exceptions": "",
    "reliability_curve": "measure",
    "stats": "",
    "tabulate": "measure",
}

__all__ = [
    "BinTable",
    "Bins",
    "CalibrationMetric",
    "Distinct",
    "EqualMass",
    "EqualWidth",
    "Hybrid",
    "brier_decomposition",
    "calibration_error",
    "exceptions",
    "reliability_curve",
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
