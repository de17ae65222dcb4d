"""Documents that earlier versions saved are read, and give the numbers that they gave then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from documents import DOCUMENTS, numbers

import calibrant
from calibrant.recalibrators.saving import known

FILES = sorted((Path(__file__).parent / "documents").glob("*/*.json"))
LARGEST_BYTES = 40_000


def assert_same(found, expected, where=""):
    """Compare plain values; numbers to rounding, for processors and NumPy differ in the last bit."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for name, value in expected.items():
            assert_same(found[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for i, value in enumerate(expected):
            assert_same(found[i], value, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), where
    else:
        assert (type(found), found) == (type(expected), expected), where


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_document_of_an_earlier_version_gives_the_numbers_that_it_gave(path):
    kept = json.loads(path.read_text(encoding="utf-8"))
    found = json.loads(json.dumps(numbers(kept["document"])))
    assert_same(found, kept["expected"])


def test_a_document_of_every_kind_is_kept():
    """What is missing is added by ``python tests/golden/make_golden.py``."""
    kept = {path.stem for path in FILES}
    assert not [name for name in DOCUMENTS if name not in kept]
    documents = [json.loads(path.read_text(encoding="utf-8"))["document"] for path in FILES]
    saved = {document.get("recalibrator") for document in documents}
    assert not {*known()} - saved, "a recalibrator without a golden document"
    formats = {document["format"] for document in documents}
    names = (
        "recalibrator",
        "quantile_recalibrator",
        "certificate",
        "table",
        "tables",
        "monitor",
        "study",
    )
    assert {f"calibrant.{name}" for name in names} <= formats


def test_kept_documents_are_small():
    assert max(path.stat().st_size for path in FILES) < LARGEST_BYTES


def test_a_saved_file_is_loaded_from_disk_as_it_was_written(tmp_path):
    kept = json.loads(next(p for p in FILES if p.stem == "platt").read_text(encoding="utf-8"))
    path = tmp_path / "platt.json"
    path.write_text(json.dumps(kept["document"]))
    again = tmp_path / "again.json"
    calibrant.load(path).save(again)
    assert json.loads(again.read_text()) == kept["document"]
