"""Names of a package that are loaded when they are first asked for, read from its stub."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


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
