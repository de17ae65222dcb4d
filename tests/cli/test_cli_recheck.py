"""A certificate and the file that it was made from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from predictions_on_disk import (
    COLUMNS,
    MANY,
    ONE,
    N,
    run,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

SHUFFLED = np.random.default_rng(3).permutation(N)


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv")
    return tmp_path


@pytest.mark.parametrize(
    "options", [ONE, (*MANY, "--kind", "marginal"), MANY, ("--y-true", "label", "--y-prob", "raw")]
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_certificate_is_that_of_its_rows_in_any_order_and_format(place, options, suffix, capsys):
    certified = run(capsys, "certify", "rows.csv", *options, "--max-error", "0.2", "-o", "c.json")
    assert certified[0] in (0, 1, 2)
    write(place / f"shuffled{suffix}", rows=SHUFFLED)
    columns = options[:4]
    code, out, err = run(capsys, "recheck", "c.json", "--data", f"shuffled{suffix}", *columns)
    assert (code, err) == (0, "")
    assert out.startswith("agrees")


def test_other_rows_are_not_the_certified_ones(place, capsys):
    run(capsys, "certify", "rows.csv", *ONE, "--max-error", "0.2", "-o", "c.json")
    flipped = COLUMNS["label"].copy()
    flipped[[7, 8]] = 1 - flipped[[7, 8]]
    others = {
        "fewer.csv": write(place / "fewer.csv", rows=slice(0, N - 1)),
        "flipped.csv": write(place / "flipped.csv", COLUMNS | {"label": flipped}),
    }
    for file in others.values():
        code, out, _ = run(capsys, "recheck", "c.json", "--data", file, *ONE)
        assert code == 1
        assert "does NOT agree" in out
    write(place / "halves-1.csv", rows=slice(0, 500))
    write(place / "halves-2.csv", rows=slice(500, None))
    assert run(capsys, "recheck", "c.json", "--data", "halves-?.csv", *ONE)[0] == 0


def test_the_calibrator_is_checked_with_the_rows(place, capsys):
    write(place / "old.csv", rows=slice(0, 700))
    write(place / "new.csv", rows=slice(700, None))
    for name, bins in (("cal.json", "5"), ("other.json", "4")):
        assert run(capsys, "fit", "old.csv", *ONE, "--bins", bins, "-o", name)[0] == 0
    options = (*ONE, "--calibrator", "cal.json")
    run(capsys, "certify", "new.csv", *options, "--max-error", "0.2", "-o", "c.json")
    assert run(capsys, "recheck", "c.json", "--data", "new.csv", *options)[0] == 0
    assert run(capsys, "recheck", "c.json", "--data", "old.csv", *options)[0] == 1
    code, out, _ = run(
        capsys, "recheck", "c.json", "--data", "new.csv", *ONE, "--calibrator", "other.json"
    )
    assert (code, "another recalibrator" in " ".join(out.split())) == (1, True)


def test_columns_without_data_are_a_usage_error(place, capsys):
    run(capsys, "certify", "rows.csv", *ONE, "--max-error", "0.2", "-o", "c.json")
    code, _, err = run(capsys, "recheck", "c.json", *ONE)
    assert code == 4
    assert "name their file with --data" in err


def test_a_forged_certificate_does_not_pass_a_recheck(tmp_path, csv, capsys):
    saved = tmp_path / "certificate.json"
    run(capsys, "certify", csv, *ONE, "--norm", "l1", "--max-error", "0.001", "-o", saved)
    saved.write_text(saved.read_text().replace('"undecided"', '"certified"'))
    code, out, _ = run(capsys, "recheck", saved)
    assert code == 1
    assert out.startswith("does NOT agree: verdict is 'certified' in the document")


def test_a_certificate_of_clusters_is_checked_with_the_same_row_of_each(place, capsys):
    write(place / "rows.csv", COLUMNS | {"patient": np.arange(N) // 2})
    words = (*ONE, "--cluster", "patient")
    run(capsys, "certify", "rows.csv", *words, "--max-error", "0.2", "-o", "c.json")
    assert run(capsys, "recheck", "c.json", "--data", "rows.csv", *words)[0] == 0
    assert run(capsys, "recheck", "c.json", "--data", "rows.csv", *ONE)[0] == 1
    run(capsys, "certify", "rows.csv", *words, "--max-error", "0.2", "--draws", "3", "-o", "c.json")
    assert json.loads(Path("c.json").read_text())["draws"] == 3
    assert run(capsys, "recheck", "c.json", "--data", "rows.csv", *words)[0] == 0


def test_certificates_of_groups_are_rechecked_one_by_one(place, capsys):
    limit = ("--by", "animal", "--max-error", "0.2", "-o", "c.json")
    assert run(capsys, "certify", "rows.csv", *ONE, *limit)[0] in (0, 1, 2)
    code, out, err = run(capsys, "recheck", "c.json")
    assert (code, err) == (0, "")
    assert sorted(line.partition(":")[0] for line in out.splitlines()) == ["cat", "dog", "eel"]
    assert out.count(": agrees") == 3
    document = json.loads(Path("c.json").read_text())
    document["groups"][1]["upper_bound"] /= 2
    Path("edited.json").write_text(json.dumps(document))
    code, out, _ = run(capsys, "recheck", "edited.json")
    assert code == 1
    assert (out.count(": agrees"), out.count("does NOT agree")) == (2, 1)
    code, _, err = run(capsys, "recheck", "c.json", "--data", "rows.csv", *ONE)
    assert (code, "those of 3 groups" in err) == (4, True)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs a device without an end")
@pytest.mark.parametrize(
    "line",
    ["recheck endless.json", "watch endless.json x.csv", "watch s.json --reference endless.json"],
)
def test_a_document_without_an_end_is_refused(line, tmp_path, monkeypatch, capsys):
    """Read whole, it would take all memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("calibrant._documents.MOST_BYTES", 1 << 20)
    os.symlink("/dev/zero", "endless.json")
    code, out, err = run(capsys, *line.split())
    assert (code, out) == (3, "")
    assert "endless.json: " in err
    assert "is not read" in err
