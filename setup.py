"""Builds the C extension; everything else is declared in pyproject.toml.

The extension is optional: without a C compiler calibrant installs all the same and counts with
NumPy. It uses the stable ABI, so one wheel of a platform serves Python 3.11 and all later ones.
"""

import os
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

STABLE_ABI = not sysconfig.get_config_var("Py_GIL_DISABLED")  # which builds without a lock lack
EXTENSION = Extension(
    "calibrant._kernels",
    sorted(glob("src/kernels/*.c")),
    depends=sorted(glob("src/kernels/*.h")),
    optional="CALIBRANT_REQUIRE_EXTENSION" not in os.environ,
    py_limited_api=STABLE_ABI,
)


class BuildExtension(build_ext):
    """Adds the flags of the compiler at hand."""

    def build_extensions(self) -> None:
        """Compile with flags that keep every rounding."""
        # A fused product and sum rounds once, where two operations round twice: without these
        # flags a processor that has one would give other bits than one that does not.
        if self.compiler.compiler_type == "msvc":
            EXTENSION.extra_compile_args += ["/O2", "/fp:precise", "/std:c11"]
        else:
            EXTENSION.extra_compile_args += [
                "-O3",
                "-std=c11",
                "-ffp-contract=off",
                "-fno-math-errno",
                "-fno-trapping-math",
                "-fvisibility=hidden",
                "-g0",
            ]
        super().build_extensions()


setup(
    ext_modules=[EXTENSION] if sys.maxsize > 2**32 else [],  # indices are of 64 bits
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE_ABI else {},
)
