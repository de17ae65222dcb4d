"""Documents that earlier versions saved are read, and give the numbers that they gave then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from documents import DOCUMENTS, OUTCOME, QUANTILES, numbers

import calibrant
from calibrant.exceptions import InvalidDocumentError, InvalidInputError
from calibrant.paper.study import StudyResult
from calibrant.recalibrators.saving import from_json as recalibrator_from_json
from calibrant.recalibrators.saving import known

FILES = sorted((Path(__file__).parent / "documents").glob("*/*.json"))
LARGEST_BYTES = 40_000
READERS = {
    "calibrant.recalibrator": recalibrator_from_json,
    "calibrant.quantile_recalibrator": recalibrator_from_json,
    "calibrant.certificate": calibrant.Certificate.from_json,
    "calibrant.table": calibrant.BinTable.from_json,
    "calibrant.tables": calibrant.Tables.from_json,
    "calibrant.monitor": calibrant.CalibrationMonitor.from_json,
    "calibrant.study": StudyResult.from_json,
}


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


def damages(document):
    """Yield documents without one of the entries, and of another schema."""
    for name in document:
        if name not in ("table", "processor_seconds"):  # which not every document has
            yield {k: v for k, v in document.items() if k != name}
        if name != "version":  # of calibrant, which is only shown
            yield document | {name: [[]]}
    yield document | {"schema": 99}
    yield document | {"schema": "1"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_document_that_lacks_an_entry_or_is_of_another_schema_is_refused(path):
    document = json.loads(path.read_text(encoding="utf-8"))["document"]
    if document["format"] == "metric":  # its state is a table
        document = document["state"]["table"]
    read = READERS[document["format"]]
    read(json.dumps(document))
    for damaged in damages(document):
        with pytest.raises(InvalidDocumentError):
            read(json.dumps(damaged))


def test_kept_documents_are_small():
    assert max(path.stat().st_size for path in FILES) < LARGEST_BYTES


def test_a_saved_file_is_loaded_from_disk_as_it_was_written(tmp_path):
    kept = json.loads(next(p for p in FILES if p.stem == "platt").read_text(encoding="utf-8"))
    path = tmp_path / "platt.json"
    path.write_text(json.dumps(kept["document"]))
    again = tmp_path / "again.json"
    calibrant.load(path).save(again)
    assert json.loads(again.read_text()) == kept["document"]


@pytest.mark.parametrize("name", ["quantile-recalibration", "variance-scaling"])
def test_a_saved_repair_of_quantiles_knows_the_rows_of_its_fit(name):
    path = next(path for path in FILES if path.stem == name)
    repair = recalibrator_from_json(json.dumps(json.loads(path.read_text())["document"]))
    with pytest.raises(InvalidInputError, match="very rows"):
        repair.certify(QUANTILES, OUTCOME)
    assert repair.certify(QUANTILES + 1e-9, OUTCOME, max_error=0.9).verdict == "certified"
