"""calibrant: verified probability calibration.

Public names are listed in ``__init__.pyi`` and nowhere else. They are loaded when they are first
asked for: importing calibrant loads nothing, not even NumPy.
"""

from __future__ import annotations

from importlib import import_module

from calibrant._lazy import attach
from calibrant._version import __version__ as __version__

_load, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> object:
    # Not in __all__: a star import must not hide the package of that name.
    return import_module("calibrant.torch") if name == "torch" else _load(name)
