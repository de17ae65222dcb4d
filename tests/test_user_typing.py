"""Type checkers see through the lazy names: what users write is checked, and misspelt names are found."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIGHT = """
from typing import assert_type

import numpy as np

import calibrant
from calibrant import CalibrationMetric, ScalingBinning, calibration_error, certify, tabulate
from calibrant.stats import Audit, CalibrationErrorResult, GroupErrors

y, p = np.array([0, 1, 1]), np.array([0.2, 0.6, 0.9])
assert_type(calibration_error(y, p), CalibrationErrorResult)
assert_type(calibration_error(y, p, by={"site": y}), GroupErrors)
assert_type(certify(y, p, max_error=0.1), calibrant.Certificate)
assert_type(tabulate(y, p), calibrant.BinTable)
assert_type(calibrant.audit(y, p, by={"site": y}), Audit)
assert_type(ScalingBinning(bins=15).fit(p, y), ScalingBinning)
assert_type(calibrant.report(y, p).html, str)
assert_type(CalibrationMetric().update(y, p), None)
"""
WRONG = {
    "calibrant.calibration_eror(y, p)": 'no attribute "calibration_eror"',
    "calibrant.certify(y, p, max_eror=0.1)": '"max_eror"',
    'calibrant.calibration_error(y, p, kind="multiclass")': "No overload variant",
    "calibrant.report(y, p).htlm": 'no attribute "htlm"',
}


@pytest.mark.slow
def test_user_code_is_checked_through_the_lazy_names(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.chdir(ROOT)  # where the cache of `scripts/lint` is
    script = tmp_path / "script.py"
    wrong_lines = RIGHT.splitlines()
    first = len(wrong_lines) + 1
    script.write_text("\n".join([*wrong_lines, *WRONG]) + "\n", encoding="utf-8")
    out, err, _ = api.run(["--config-file", "pyproject.toml", "--no-pretty", str(script)])
    assert err == ""
    complaints = [line for line in out.splitlines() if ": error:" in line]
    assert all("script.py" in line for line in complaints), out
    for number, expected in enumerate(WRONG.values(), first):
        own = [line for line in complaints if f"script.py:{number}:" in line]
        assert any(expected in line for line in own), out
    assert {int(line.split(":")[1]) for line in complaints} == set(range(first, first + len(WRONG)))
