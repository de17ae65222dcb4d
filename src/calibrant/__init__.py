"""calibrant: verified probability calibration.

Public names are listed in ``__init__.pyi`` and nowhere else. They are loaded when they are first
asked for: importing calibrant loads nothing, not even NumPy.
"""

from __future__ import annotations

from importlib import import_module

from calibrant._version import __version__ as __version__

# Lines are "from HOME import NAME as NAME". The loader reads them, so that zipped packages work.
_stub = __loader__.get_data(f"{__path__[0]}/__init__.pyi").decode()
_homes = {
    line.split()[3]: line.split()[1]
    for line in _stub.splitlines()
    if line.startswith("from ") and "import __" not in line
}
__all__ = sorted(_homes)


def __getattr__(name: str) -> object:
    if name == "torch":  # not in __all__: a star import must not hide the package of that name
        return import_module("calibrant.torch")
    if name not in _homes:
        raise AttributeError(f"module 'calibrant' has no attribute {name!r}")
    home = _homes[name]
    if home == "calibrant":
        return import_module(f"calibrant.{name}")
    globals()[name] = getattr(import_module(home), name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
