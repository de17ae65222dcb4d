"""Columns: what a recalibrator was fitted on is what it answers for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from shared import ONE_SCORE, binary_rows, class_rows
from sklearn.base import clone

from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidShapeError,
)
from calibrant.recalibrators import (
    Identity,
    MatrixScaling,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
    best_recalibrator,
    load,
)
from calibrant.recalibrators.selection import recalibrator_scores

ANY_WIDTH = [Identity(), TemperatureScaling()]
COLUMNS_ONLY = [VectorScaling(), MatrixScaling()]


def both(p):
    return np.column_stack((1 - p, p))


@pytest.mark.parametrize("recalibrator", [*ANY_WIDTH, *COLUMNS_ONLY], ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_a_fit_on_four_columns_refuses_any_other_number(recalibrator, width, tmp_path):
    probs, y = class_rows(300)
    fitted = clone(recalibrator).fit(probs, y)
    fitted.save(tmp_path / "saved.json")
    other, labels = probs[:, 0] if width == 1 else np.full((300, width), 1 / width), y % 2
    for each in (fitted, load(tmp_path / "saved.json")):
        for answer in (each.predict_proba, each.predict):
            with pytest.raises(InvalidShapeError):
                answer(other)
        for answer in (each.score, each.certify):
            with pytest.raises(InvalidShapeError):
                answer(other, labels)


def test_the_refusal_says_what_was_fitted_what_came_and_what_to_do():
    fitted = TemperatureScaling().fit(*class_rows(300))
    with pytest.raises(InvalidShapeError) as caught:
        fitted.predict_proba(np.full(300, 0.5))
    for part in ("fitted on 4 classes", "1 column (shape (300,))", "columns of all classes"):
        assert part in str(caught.value)
    with pytest.raises(InvalidShapeError, match=r"both columns, \(n, 2\)"):
        TemperatureScaling().fit(*binary_rows(300)).predict_proba(np.full((3, 4), 0.25))


@pytest.mark.parametrize("recalibrator", [*ANY_WIDTH, *COLUMNS_ONLY, PlattScaling()], ids=str)
@pytest.mark.parametrize(
    "shape", [[[0.1, 0.2], [0.3]], 0.5, np.zeros((2, 2, 2)), [[], []]], ids=str
)
def test_what_is_no_table_is_refused_before_and_after_the_fit(recalibrator, shape):
    rows = binary_rows(300) if isinstance(recalibrator, PlattScaling) else class_rows(300)
    with pytest.raises(InvalidShapeError):
        clone(recalibrator).fit(shape, [0, 1])
    with pytest.raises(InvalidShapeError):
        clone(recalibrator).fit(*rows).predict_proba(shape)


@pytest.mark.parametrize("recalibrator", ANY_WIDTH, ids=str)
def test_what_reads_one_column_refuses_a_fit_on_several(recalibrator):
    fitted = clone(recalibrator).fit(*class_rows(300))
    frame = pd.DataFrame({"score": [0.1, 0.9]})
    with pytest.raises(InvalidShapeError, match="depend on all their columns"):
        fitted.apply_to_frame(frame, "score")
    with pytest.raises(InvalidShapeError, match="depend on all their columns"):
        fitted.to_expression("score")


def test_no_sql_of_one_column_is_written_for_a_fit_on_several():
    with pytest.raises(InvalidShapeError, match="to_sql reads one column"):
        TemperatureScaling().fit(*class_rows(300)).to_sql("score")
    two = TemperatureScaling().fit(both(binary_rows(300)[0]), binary_rows(300)[1])
    assert two.to_sql("score") == TemperatureScaling().fit(*binary_rows(300)).to_sql("score")


@pytest.mark.parametrize(
    "recalibrator", [Identity(), *[r for r in ONE_SCORE if not getattr(r, "split", None)]], ids=str
)
def test_one_column_and_two_are_the_same_event(recalibrator):
    p, y = binary_rows(600)
    one = clone(recalibrator).fit(p[:300], y[:300])
    two = clone(recalibrator).fit(both(p[:300]), y[:300])
    for fitted in (one, two):
        event = fitted.predict_proba(p)
        np.testing.assert_array_equal(event, one.predict_proba(p))
        np.testing.assert_allclose(fitted.predict_proba(both(p)), both(event), rtol=0, atol=1e-15)
        np.testing.assert_array_equal(fitted.predict(both(p)), fitted.predict(p))
        assert fitted.score(both(p), y) == fitted.score(p, y)
        assert str(fitted.certify(both(p[300:]), y[300:])) == str(fitted.certify(p[300:], y[300:]))


def test_rows_of_the_fit_are_known_in_one_column_and_in_two():
    p, y = binary_rows(300)
    with pytest.raises(ValueError, match="very rows it was fitted on"):
        TemperatureScaling().fit(p, y).certify(both(p), y)


@pytest.mark.parametrize("recalibrator", COLUMNS_ONLY, ids=str)
def test_two_columns_of_a_vector_scaling_are_certified_as_one_event(recalibrator):
    p, y = binary_rows(600)
    fitted = clone(recalibrator).fit(both(p[:300]), y[:300])
    assert fitted.certify(both(p[300:]), y[300:]).table.problem.kind == "binary"
    top = fitted.certify(both(p[300:]), y[300:], kind="top-label")
    assert top.table.problem.kind == "top-label"
    with pytest.raises(InvalidShapeError):
        fitted.predict_proba(p)


@pytest.mark.parametrize("kind", ["probabilities", "logits"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", ["right", "wrong", "noisy", "shifted"])
def test_temperatures_of_one_column_and_two_agree(kind, weighted, labels):
    rng = np.random.default_rng(3)
    z = rng.normal(size=40)
    happened = {
        "right": z > 0,
        "wrong": z < 0,
        "noisy": rng.uniform(size=40) < 1 / (1 + np.exp(-z)),
        "shifted": z > 0.5,
    }[labels]
    w = rng.exponential(size=40) if weighted else None
    one, two = z, np.column_stack((np.full(40, 2.0), z + 2))
    if kind == "probabilities":
        one = 1 / (1 + np.exp(-z))
        two = both(one)
    narrow = TemperatureScaling(kind).fit(one, happened, w)
    wide = TemperatureScaling(kind).fit(two, happened, w)
    assert wide.temperature_ == pytest.approx(narrow.temperature_, rel=1e-9)
    assert wide.fit_result_.flags == narrow.fit_result_.flags
    assert ("separable" in narrow.fit_result_.flags) == (labels == "right")


def test_a_choice_for_two_columns_is_that_for_the_event():
    p, y = binary_rows(2000)
    one, two = recalibrator_scores(y, p), recalibrator_scores(y, both(p))
    np.testing.assert_allclose(two.loss, one.loss, rtol=1e-9)
    assert str(best_recalibrator(y, both(p))) == str(best_recalibrator(y, p))
    columns = [PlattScaling(), VectorScaling(), MatrixScaling()]
    assert np.isfinite(recalibrator_scores(y, both(p), columns).loss).all()


@pytest.mark.parametrize(
    ("fitted_as", "told"),
    [(["n", "y"], ["y", "n"]), (["n", "y"], ["y", "x"]), (None, [1, 0]), ([1, 2], [2, 1])],
    ids=str,
)
def test_the_labels_of_the_fit_in_another_order_are_refused(fitted_as, told):
    p, y = binary_rows(300)
    names = [0, 1] if fitted_as is None else fitted_as
    fitted = ScalingBinning(bins=5).fit(p, np.take(names, y), classes=fitted_as)
    other, codes = binary_rows(300, seed=1)
    with pytest.raises(InvalidArgumentError, match="in the order of the fit"):
        fitted.certify(other, np.take(told, 1 - codes), classes=told)
    same = fitted.certify(other, np.take(names, codes), classes=names)
    renamed = fitted.certify(other, np.take(["no", "yes"], codes), classes=["no", "yes"])
    assert renamed.upper_bound == same.upper_bound


class Broken:
    """A recalibrator of one's own whose fit fails half-way."""

    def fit(self, X, y):
        raise RuntimeError("half-way")

    def predict_proba(self, X):
        return X[:, 0]


def test_a_fit_that_fails_leaves_the_one_before_as_it_was():
    probs, y = class_rows(200)
    frame = pd.DataFrame(probs, columns=[*"abcd"])
    fitted = TopLabel(PlattScaling()).fit(frame, y)
    before = {name: value for name, value in vars(fitted).items() if name != "recalibrator"}
    fitted.recalibrator = Broken()
    with pytest.raises(RuntimeError, match="half-way"):
        fitted.fit(probs[:, :3], y % 3)
    for wrong in (None, y + 7):
        with pytest.raises(InvalidLabelsError):
            fitted.fit(probs, wrong)
    assert {name: value for name, value in vars(fitted).items() if name != "recalibrator"} == before
    with pytest.raises(InvalidInputError, match="in the order of the fit"):
        fitted.predict_proba(frame[[*"bacd"]])
