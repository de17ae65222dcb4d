"""The documentation site builds without a warning: no broken link, no page left out."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_site_builds_strictly_and_holds_every_page(tmp_path):
    if importlib.util.find_spec("material") is None and not os.environ.get("CI"):
        pytest.skip("mkdocs-material is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in tmp_path.glob("*.html")}
    assert "not included in the" not in built.stderr
    assert "fonts.googleapis" not in (tmp_path / "index.html").read_text(encoding="utf-8")
