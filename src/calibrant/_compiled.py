"""Whether the compiled loops are there and used: `compiles`, and `engine_in_words` for people.

They are an extension in C, `calibrant._kernels`, which wheels have and an installation from source
builds where it finds a C compiler. Everything works without it, on NumPy.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import InvalidArgumentError, MissingDependencyError

ENGINE = "CALIBRANT_ENGINE"
FORM = "CALIBRANT_SIMD"


def compiles() -> bool:
    """Return whether the compiled loops count arrays.

    They do where they were built. The environment variable CALIBRANT_ENGINE, "numpy" or
    "compiled", forces one of the two.
    """
    forced = os.environ.get(ENGINE, "")
    if forced not in ("", "numpy", "compiled"):
        raise InvalidArgumentError(f'{ENGINE} must be "numpy" or "compiled"; got {forced!r}.')
    if forced == "numpy":
        return False
    why_not = _why_absent()
    if forced and why_not:
        raise MissingDependencyError(
            f"{ENGINE}=compiled needs the compiled loops; {why_not}. "
            "Install a wheel, or from source with a C compiler; or unset the variable."
        )
    return not why_not


def engine_in_words() -> str:
    """Say which engine counts arrays, and why it is not the other one."""
    if compiles():
        from calibrant import _kernels

        return f"compiled engine ({_kernels.form()})"
    forced = os.environ.get(ENGINE) == "numpy"
    return f"NumPy engine ({f'{ENGINE}=numpy' if forced else _why_absent()})"


def native(values: AnyArray) -> AnyArray:
    """Return values in a type that the compiled loops read, each exactly as it was."""
    if values.dtype.char in "fd" and values.dtype.isnative:
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


@cache
def _why_absent() -> str:
    """Return why there are no compiled loops; nothing where there are."""
    if find_spec("calibrant._kernels") is None:
        return "the C extension was not built when calibrant was installed"
    try:
        from calibrant import _kernels
    except ImportError as error:
        return f"the C extension cannot be loaded: {error}"
    form = os.environ.get(FORM)
    if form:  # for tests: vector code for a plainer processor than this one
        try:
            _kernels.use_form(form)
        except ValueError:
            forms = ", ".join(_kernels.forms())
            raise InvalidArgumentError(
                f"{FORM} must be one of the forms that run here ({forms}); got {form!r}."
            ) from None
    return ""
