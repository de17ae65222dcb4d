"""Home, Quickstart and a recipe, followed with the wheel that is built from this tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import optional

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["index.md", "quickstart.md", "recipe-class-weights.md"]


@pytest.mark.slow
def test_every_block_runs_with_the_wheel_installed(tmp_path):
    """As scripts/newcomer, whose environment is empty; here NumPy and the others are at hand."""
    optional("setuptools")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "wheel", *options, "-w", tmp_path / "dist", ROOT], check=True)
    (wheel,) = (tmp_path / "dist").glob("calibrant-*.whl")
    subprocess.run([*pip, "install", *options, "--target", tmp_path / "own", wheel], check=True)
    followed = subprocess.run(
        [
            sys.executable,
            ROOT / "tests/docs/newcomer.py",
            *(ROOT / "docs" / page for page in PAGES),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path / "own")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert followed.returncode == 0, followed.stdout + followed.stderr
    lines = followed.stdout.splitlines()
    assert lines[0].startswith(str(tmp_path / "own"))
    assert [line.split(":")[0] for line in lines[1:]] == PAGES
