"""What is installed is said, and a missing extension is no error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import calibrant
from calibrant.cli import main
from conftest import kernels

WITHOUT = """
import sys
sys.modules["calibrant._kernels"] = None  # as if it had not been built
import calibrant
calibrant.show_versions()
print(calibrant.calibration_error([0, 1, 1], [0.2, 0.6, 0.9], bins=2).n)
"""


def run(code, **environment):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CALIBRANT_")} | environment
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)


def test_versions_name_the_engine_and_the_packages(capsys):
    kernels()
    calibrant.show_versions()
    first, python, *packages = capsys.readouterr().out.splitlines()
    assert first == f"calibrant {calibrant.__version__}, compiled engine ({kernels().form()})"
    assert python.startswith("Python 3.")
    assert [line.split()[0] for line in packages[:4]] == [
        "numpy",
        "scipy",
        "scikit-learn",
        "narwhals",
    ]


def test_the_command_says_the_same_in_one_line(capsys, monkeypatch):
    monkeypatch.setenv("CALIBRANT_ENGINE", "numpy")
    with pytest.raises(SystemExit, match="^0$"):
        main(["--version"])
    expected = f"calibrant {calibrant.__version__}, NumPy engine (CALIBRANT_ENGINE=numpy)\n"
    assert capsys.readouterr().out == expected


def test_without_the_extension_numpy_counts_and_says_so():
    done = run(WITHOUT)
    assert done.returncode == 0
    assert "NumPy engine (the C extension was not built" in done.stdout
    assert done.stdout.endswith("\n3\n")


def test_an_extension_that_is_asked_for_and_missing_is_an_error():
    done = run(WITHOUT, CALIBRANT_ENGINE="compiled")
    assert (
        "MissingDependencyError: CALIBRANT_ENGINE=compiled needs the compiled loops" in done.stderr
    )
