"""Parts of SciPy that are imported when one of their functions is first used.

Importing `scipy.special` takes ten times as long as measuring a million rows, and most errors are
measured without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant._lazy import Later

if TYPE_CHECKING:
    from scipy import optimize as optimize
    from scipy import signal as signal
    from scipy import sparse as sparse
    from scipy import special as special
else:
    optimize, signal, sparse, special = (
        Later(f"scipy.{name}") for name in ("optimize", "signal", "sparse", "special")
    )
