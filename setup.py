"""Builds the C extension and what the package index shows; the rest is declared in pyproject.toml.

The extension is optional: without a C compiler calibrant installs all the same and counts with
NumPy. It uses the stable ABI, so one wheel of a platform serves Python 3.11 and all later ones.

With SOURCE_DATE_EPOCH two builds have the same bytes: wheels by setuptools itself, source
distributions by `SourceDistribution`.
"""

import gzip
import os
import re
import sys
import sysconfig
import tarfile
import tomllib
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

with open("pyproject.toml", "rb") as pyproject:
    ADDRESSES = tomllib.load(pyproject)["tool"]["calibrant"]["addresses"]

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
        if sys.platform == "linux":
            # Names and frames that only a debugger reads (nothing here throws), 9 KB of a wheel
            # that stays under 1 MB; and 15 KB of unrolled loops, which as loops are about as fast.
            EXTENSION.extra_compile_args += [
                "-fno-unwind-tables",
                "-fno-asynchronous-unwind-tables",
                "--param=max-completely-peeled-insns=30",
            ]
            EXTENSION.extra_link_args += ["-Wl,--strip-all"]
        super().build_extensions()


class SourceDistribution(sdist):
    """Writes the archive in one order, of nobody's, and at one time where one is given."""

    def make_archive(self, base_name, format, *args, **options):  # noqa: A002
        """Make the archive."""
        day = os.environ.get("SOURCE_DATE_EPOCH")
        if format != "gztar" or day is None:
            return super().make_archive(base_name, format, *args, **options)

        def plain(member):
            member.mtime = int(day)
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.mode & 0o100 else 0o644
            return member

        name, folder = f"{base_name}.tar.gz", Path(options["base_dir"])
        with (
            open(name, "wb") as stream,
            gzip.GzipFile("", "wb", mtime=int(day), fileobj=stream) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                archive.add(path, filter=plain)
        return name


def readme() -> str:
    """Return README.md for the package index, which has no other file to show or to link to.

    Links into the repository lead to it where its address is known, and are plain words otherwise.
    """
    text = Path("README.md").read_text(encoding="utf-8")
    repository = ADDRESSES["repository"]

    def resolved(found):
        words, target = found.groups()
        if "://" in target or target.startswith("#"):
            return found[0]
        return f"[{words}]({repository}/blob/HEAD/{target})" if repository else words

    file = r"(?!https?:)"
    pictures = rf'(?:!\[[^]]*\]\({file}[^)]*\)|<img [^>]*src="{file}[^>]*>)\n*'
    text = re.sub(pictures, "", text)
    return re.sub(r"\[([^]]*)\]\(([^)\s]*)\)", resolved, text)


setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    project_urls={name.capitalize(): address for name, address in ADDRESSES.items() if address},
    ext_modules=[EXTENSION] if sys.maxsize > 2**32 else [],  # indices are of 64 bits
    cmdclass={"build_ext": BuildExtension, "sdist": SourceDistribution},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE_ABI else {},
)
