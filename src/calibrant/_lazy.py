"""What is loaded when it is first asked for: names of a package, read from its stub, and packages.

Importing a heavy package takes longer than most calls, and none of these is needed by every call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa
    import pyarrow.compute as pc
    import torch

__all__ = ["Later", "attach", "nw", "pa", "pc", "torch"]


class Later:
    """A module that is imported when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._module), name)
        setattr(self, name, value)
        return value


if not TYPE_CHECKING:
    nw, pa, pc = Later("narwhals"), Later("pyarrow"), Later("pyarrow.compute")
    torch = Later("torch")


def attach(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package with an ``__init__.pyi``.

    Lines of the stub are "from HOME import NAME as NAME": type checkers read them too, so that no
    name is listed twice. The loader reads the file, so that zipped packages work.
    """
    module: Any = sys.modules[package]
    stub = module.__loader__.get_data(f"{module.__path__[0]}/__init__.pyi").decode()
    homes = {
        line.split()[3]: line.split()[1]
        for line in stub.splitlines()
        if line.startswith("from ") and "import __" not in line
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes}), sorted(homes)
