"""The gate of docs/recipe-ci.md: its commands run as they are written, and write JUnit files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from calibrant.cli import main

PAGE = Path(__file__).parents[2] / "docs/recipe-ci.md"


def commands_of_the_workflow() -> list[list[str]]:
    """Return the calibrant commands of the first workflow on the page."""
    yaml = pytest.importorskip("yaml")
    block = re.search(r"```yaml\n(name: .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    steps = yaml.safe_load(block)["jobs"]["gate"]["steps"]
    runs = [shlex.split(step["run"]) for step in steps if "run" in step]
    return [words[1:] for words in runs if words[0] == "calibrant"]


@pytest.mark.parametrize(("shift", "code", "failures"), [(0.0, 0, "0"), (0.1, 1, "1")])
def test_the_commands_of_the_gate_run_as_they_are_written(
    tmp_path, monkeypatch, capsys, shift, code, failures
):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    score = rng.integers(2, 9, size=40_000) / 10
    label = (rng.uniform(size=score.size) < score - shift).astype(int)
    pandas.DataFrame({"label": label, "score": score}).to_parquet("holdout.parquet")
    gate, report = commands_of_the_workflow()
    assert main(gate) == code
    suite = ElementTree.parse("gate.xml").getroot()
    suite = suite if suite.tag == "testsuite" else suite.find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("1", failures)
    assert main(report) == 0
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    capsys.readouterr()
