"""Fits from a table on a fine grid: as good as from rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shared import ISOTONIC, ONE_SCORE, SCALING, binary_rows, class_rows
from sklearn.base import clone

from calibrant import BinTable, Certificate, Distinct, EqualWidth, tabulate
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError, InvalidInputError
from calibrant.recalibrators import PlattScaling, ScalingBinning, TemperatureScaling, load
from calibrant.recalibrators.saving import from_json, to_dict

FITTED = [r for r in ONE_SCORE if getattr(r, "split", None) is None]


@pytest.mark.parametrize("recalibrator", FITTED, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_table_of_distinct_predictions_gives_the_fit_of_the_rows(recalibrator, weighted):
    p, y = binary_rows(2000)
    p = np.round(p, 2)
    w = np.random.default_rng(0).exponential(size=y.size) if weighted else None
    table = tabulate(y, p, bins=Distinct(), sample_weight=w)
    rows = clone(recalibrator).fit(p, y, w)
    cells = clone(recalibrator).fit_table(table)
    grid = np.unique(p)
    np.testing.assert_allclose(cells.predict_proba(grid), rows.predict_proba(grid), atol=1e-7)


@pytest.mark.parametrize("recalibrator", FITTED, ids=str)
def test_a_fine_grid_differs_by_less_than_a_cell(recalibrator):
    """4,096 cells of width 2.4e-4, on 50,000 rows; steps may move by one cell."""
    p, y = binary_rows(50_000)
    table = tabulate(y, p, bins=EqualWidth(4096))
    rows = clone(recalibrator).fit(p, y)
    cells = clone(recalibrator).fit_table(table)
    a, b = rows.predict_proba(p), cells.predict_proba(p)
    bound = 1e-4 if recalibrator in SCALING else 4e-3 if recalibrator in ISOTONIC else 1e-3
    assert np.abs(a - b).mean() < bound
    assert abs(np.mean((a - y) ** 2) - np.mean((b - y) ** 2)) < 1e-4


def test_more_cells_bring_the_fit_nearer():
    p, y = binary_rows(50_000)
    wanted = PlattScaling().fit(p, y).coef_
    errors = [
        np.abs(PlattScaling().fit_table(tabulate(y, p, bins=EqualWidth(n))).coef_ - wanted).max()
        for n in (16, 512, 4096)
    ]
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] < 5e-5


def test_tables_of_days_add_up_to_the_fit_of_the_week():
    p, y = binary_rows(7000)
    bins = EqualWidth(1000)
    days = [tabulate(y[i::7], p[i::7], bins=bins) for i in range(7)]
    week = BinTable.from_json(sum(days).to_json())
    whole = ScalingBinning().fit_table(tabulate(y, p, bins=bins))
    np.testing.assert_allclose(ScalingBinning().fit_table(week).levels_, whole.levels_, rtol=1e-9)
    assert whole.fingerprint_ is None


def test_tables_that_do_not_fit_are_refused():
    probs, labels = class_rows(100)
    several = tabulate(labels, probs, kind="marginal", bins=EqualWidth(10))
    with pytest.raises(InvalidArgumentError, match="one group"):
        PlattScaling().fit_table(several)
    one = tabulate([0, 1], [0.2, 0.8], bins=EqualWidth(10))
    with pytest.raises(InvalidArgumentError, match="split=None"):
        ScalingBinning(split=(1, 1, 1)).fit_table(one)
    with pytest.raises(InvalidArgumentError, match="probabilities"):
        TemperatureScaling(input="logits").fit_table(one)


@pytest.mark.parametrize("bins", [EqualWidth(4096), EqualWidth(2), 15, Distinct()], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_very_rows_of_the_table_are_refused(bins, weighted, tmp_path):
    p, y = binary_rows(3000)
    p = np.round(p, 3)
    w = np.random.default_rng(0).exponential(size=3000) if weighted else None
    fitted = ScalingBinning(bins=5).fit_table(tabulate(y, p, bins=bins, sample_weight=w))
    fitted.save(tmp_path / "saved.json")
    order = np.random.default_rng(0).permutation(3000)
    if weighted and len(fitted.table_fingerprint_.bins) < 20:
        pytest.skip("the counts of a few cells may agree by chance")
    for each in (fitted, load(tmp_path / "saved.json")):
        with pytest.raises(InvalidInputError, match="very rows it was fitted on"):
            each.certify(p[order], y[order], max_error=0.1)


def test_what_a_table_cannot_tell_is_an_assumption_of_the_certificate():
    p, y = binary_rows(6000)
    table = tabulate(y[:3000], p[:3000], bins=EqualWidth(100))
    certificate = ScalingBinning(bins=5).fit_table(table).certify(p[2000:], y[2000:])
    assert any("could not be checked" in said for said in certificate.assumptions)
    assert Certificate.from_json(certificate.to_json()).recheck()
    from_rows = ScalingBinning(bins=5).fit(p[:3000], y[:3000]).certify(p[3000:], y[3000:])
    assert not any("could not be checked" in said for said in from_rows.assumptions)
    assert from_rows.recheck()


def test_rows_that_are_not_those_of_the_table_are_certified():
    p, y = binary_rows(6000)
    fitted = ScalingBinning(bins=5).fit_table(tabulate(y[:3000], p[:3000], bins=EqualWidth(1)))
    y[3000:] = np.random.default_rng(0).permutation(np.resize(y[:3000], 3000))
    assert fitted.certify(p[3000:], y[3000:]).n == 3000
    refitted = fitted.fit(p[:3000], y[:3000])
    assert refitted.table_fingerprint_ is None
    assert "table" not in to_dict(refitted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bins", None),
        ("digest", "sha256:1"),
        ("digest", 3),
        ("sums", [1.0]),
        ("sums", [1.0, True, 2.0]),
        ("sums", [1.0, -1.0, 2.0]),
        ("n_cells", 0),
        ("n_cells", "3"),
        ("more", 1),
    ],
)
def test_a_damaged_note_of_the_table_is_refused(name, value):
    p, y = binary_rows(300)
    document = to_dict(PlattScaling().fit_table(tabulate(y, p, bins=EqualWidth(10))))
    assert from_json(json.dumps(document)).table_fingerprint_ is not None
    document["table"][name] = value
    with pytest.raises(InvalidDocumentError):
        from_json(json.dumps(document))


def test_what_is_no_table_is_refused():
    p, y = binary_rows(60)
    for other in (None, p, "table.json", tabulate(y, p, by=np.arange(60) % 2)):
        with pytest.raises(InvalidArgumentError, match="fit_table needs one BinTable"):
            PlattScaling().fit_table(other)
