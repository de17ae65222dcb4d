"""Parts of SciPy that are imported when one of their functions is first used.

Importing `scipy.special` takes ten times as long as measuring a million rows, and most errors are
measured without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import optimize as optimize
    from scipy import signal as signal
    from scipy import sparse as sparse
    from scipy import special as special
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module(self._name), name)
            setattr(self, name, value)
            return value

    optimize, signal, sparse, special = (
        _Later(f"scipy.{name}") for name in ("optimize", "signal", "sparse", "special")
    )
