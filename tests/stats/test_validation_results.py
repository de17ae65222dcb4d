"""What validate returns: tables that print, travel, and become frames and LaTeX."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import calibrant as cb
from validated import ROW, TABLE, P, Y


def test_nothing_prints_as_minus_zero():
    assert str(cb.stats.Measure("x", "x", -1e-9, -2e-9, 1.0)) == "x 0.0000 [0.0000, 1.0000]"


def test_a_table_reads_as_a_mapping_prints_and_travels():
    assert list(TABLE)[:2] == ["n", "events"]
    assert float(TABLE["n"]) == 200
    with pytest.raises(KeyError):
        _ = TABLE["nothing"]
    lines = str(TABLE).splitlines()
    assert len(lines) == 1 + len(TABLE)
    assert max(map(len, lines)) <= 80
    assert "<table>" in TABLE._repr_html_()
    frame = TABLE.to_frame()
    assert list(frame.columns) == ["name", "label", "value", "low", "high", "ideal"]
    assert frame["value"][7] == TABLE["slope"].value
    latex = TABLE.to_latex()
    assert r"95\% interval" in latex
    assert latex.count(r"\\") == 1 + len(TABLE)
    assert pickle.loads(pickle.dumps(TABLE)).to_dict() == TABLE.to_dict()


def test_groups_are_validated_one_by_one():
    group = np.where(ROW % 3 > 0, "a", "b")
    tables = cb.validate(Y, P, by={"ward": group})
    assert list(tables) == ["a", "b"]
    assert tables["b"].to_dict() == cb.validate(Y[group == "b"], P[group == "b"]).to_dict()
    assert str(tables).splitlines()[0].split()[:3] == ["ward", "rows", "events"]
    frame = tables.to_frame()
    assert len(frame) == 2 * len(TABLE)
    assert tables.to_latex().count(r"\\") == 3
    json.dumps(tables.to_dict(), allow_nan=False)
    with pytest.raises(KeyError):
        _ = tables["c"]
