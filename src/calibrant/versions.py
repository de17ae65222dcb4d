"""What is installed: for reports of bugs."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from calibrant._compiled import engine_in_words
from calibrant._threads import cores
from calibrant._version import __version__

NEEDED = ("numpy", "scipy", "scikit-learn", "narwhals")
OPTIONAL = (
    "pandas",
    "polars",
    "pyarrow",
    "duckdb",
    "dask",
    "ibis-framework",
    "pyspark",
    "torch",
    "matplotlib",
)


def show_versions() -> None:
    """Print the versions of calibrant, its engine, Python and the packages it works with.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.show_versions()  # doctest: +ELLIPSIS
    calibrant 0.1.0, ... engine (...)
    Python ... on ..., ... core...
    numpy ...
    """
    lines = [
        f"calibrant {__version__}, {engine_in_words()}",
        f"Python {platform.python_version()} on {platform.platform()}, {cores()} cores",
        *(f"{name} {_version(name) or 'is missing'}" for name in NEEDED),
        *(f"{name} {installed}" for name in OPTIONAL if (installed := _version(name))),
    ]
    sys.stdout.write("\n".join(lines) + "\n")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
