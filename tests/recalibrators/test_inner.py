"""Estimators of other libraries stand in wrappers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from calibrant import RecalibratedClassifier, best_recalibrator, load, tabulate
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
)
from calibrant.paper import STUDIES, population
from calibrant.paper.predictions import Predictions
from calibrant.recalibrators import (
    ByGroup,
    Identity,
    MultiLabel,
    OneVsRest,
    PlattScaling,
    ScalingBinning,
    TopLabel,
)


class Share:
    """Answers with the share of events, and is nobody's estimator."""

    def __init__(self, answer=None):
        self.answer = answer

    def fit(self, x, y):
        self.share = y.mean()
        return self

    def predict_proba(self, x):
        return np.full(len(x), self.share) if self.answer is None else self.answer(len(x))


class Root:
    """Answers with the square root of the score, and keeps nothing as it got it."""

    def fit(self, x, y, sample_weight=None):
        for own in (x, y, sample_weight):
            if own is not None:
                own *= 0
        return self

    def predict_proba(self, x):
        x **= 0.5
        return x


def test_an_estimator_that_changes_its_arguments_in_place_changes_nothing_else():
    """The scores were the caller's own array, from which bins were then made."""
    probs, y = binary_rows(500)
    weights = np.random.default_rng(0).exponential(size=500)
    before = [own.copy() for own in (probs, y, weights)]
    fitted = ScalingBinning(bins=5, scaler=Root()).fit(probs, y, weights)
    for own, same in zip((probs, y, weights), before, strict=True):
        np.testing.assert_array_equal(own, same)
    rooted = ScalingBinning(bins=5, scaler=Identity()).fit(np.sqrt(probs), y, weights)
    np.testing.assert_allclose(fitted.levels_, rooted.levels_, rtol=1e-12)


def test_answers_that_depend_on_the_rows_beside_are_refused():
    """A rank is no map of a score: seventeen levels were fitted, and one of them answered."""

    class Rank(Root):
        def predict_proba(self, x):
            return x.ravel().argsort().argsort() / len(x)

    with pytest.raises(InvalidProbabilitiesError, match="by the score alone; .* Rank gave"):
        ScalingBinning(scaler=Rank()).fit(*binary_rows(500))


def test_one_versus_rest_takes_a_classifier_of_scikit_learn():
    probs, y = class_rows(600)
    w = np.random.default_rng(0).exponential(size=600)
    line = LogisticRegression(C=np.inf, tol=1e-10)
    fitted = OneVsRest(line).fit(probs, y, w)
    for k in range(4):
        expected = clone(line).fit(probs[:, [k]], y == k, w).predict_proba(probs[:, [k]])[:, 1]
        np.testing.assert_allclose(fitted.predict_proba(probs)[:, k], expected, atol=1e-5)
    assert fitted.score(probs, y) > -0.7
    certificate = fitted.certify(*class_rows(600, seed=1))
    assert certificate.table.problem.kind == "marginal"


def test_the_top_label_takes_anything_with_fit_and_predict_proba():
    probs, y = class_rows(600)
    fitted = TopLabel(Share()).fit(probs, y)
    top, confidence = fitted.predict_confidence(probs)
    np.testing.assert_array_equal(top, probs.argmax(axis=1))
    np.testing.assert_allclose(confidence, (top == y).mean())


def test_a_classifier_is_recalibrated_by_another():
    x, y = load_iris(return_X_y=True)
    for rows in (y < 3, y < 2):
        model = RecalibratedClassifier(GaussianNB(), LogisticRegression(), cv=3)
        model = clone(model).fit(x[rows], y[rows])
        out = pickle.loads(pickle.dumps(model)).predict_proba(x[rows])
        np.testing.assert_allclose(out.sum(axis=1), 1)
        assert model.score(x[rows], y[rows]) > 0.9


def test_what_it_cannot_do_is_refused(tmp_path):
    probs, y = class_rows(200)
    fitted = OneVsRest(LogisticRegression()).fit(probs, y)
    with pytest.raises(InvalidArgumentError, match="Only calibrant's own recalibrators"):
        fitted.save(tmp_path / "a.json")
    with pytest.raises(InvalidLabelsError, match="with and without the event"):
        OneVsRest(LogisticRegression()).fit(probs, np.zeros(200, int))
    for nothing in (LogisticRegression, "platt", 3):
        with pytest.raises(InvalidArgumentError, match="scaler must be a recalibrator"):
            ScalingBinning(scaler=nothing).fit(*binary_rows(50))
    for nothing in (LogisticRegression, "platt", 3, None):
        with pytest.raises(InvalidArgumentError, match="recalibrator must be"):
            OneVsRest(nothing).fit(probs, y)


class Cube:
    """Thirty lines, or eight: the cube of the score, between two shares that it learns."""

    def fit(self, X, y, sample_weight=None):
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        self.slope_, self.share_ = np.polyfit(X[:, 0] ** 3, y, 1, w=np.sqrt(w))
        return self

    def predict_proba(self, X):
        p = np.clip(self.share_ + self.slope_ * X[:, 0] ** 3, 0, 1)
        return np.column_stack([1 - p, p])


def cubed(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return p, (rng.uniform(size=n) < 0.1 + 0.8 * p**3).astype(int)


@pytest.mark.parametrize("made", [Cube(), LogisticRegression()], ids=["own", "scikit-learn"])
def test_the_scaler_of_scaling_binning_may_be_anybodys(made, tmp_path):
    p, y = cubed(3000, 0)
    fitted = clone(ScalingBinning(bins=8, scaler=made)).fit(p, y)
    assert fitted.levels_.size == 8
    rows = cubed(3000, 1)
    assert fitted.certify(*rows, max_error=0.1).verdict == "certified"
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(p), fitted.predict_proba(p))
    with pytest.raises(InvalidArgumentError, match=r"cannot be saved|can be saved.*as_steps\(\)"):
        fitted.save(tmp_path / "own.json")
    steps = fitted.as_steps()
    steps.save(tmp_path / "steps.json")
    loaded = load(tmp_path / "steps.json")
    edges = np.concatenate([fitted.cuts_, np.nextafter(fitted.cuts_, 1), [0.0, 1.0], p])
    for each in (steps, loaded):
        np.testing.assert_array_equal(each.predict_proba(edges), fitted.predict_proba(edges))
    with pytest.raises(InvalidInputError, match="same rows|very rows|fitted on"):
        loaded.certify(p, y)
    assert loaded.to_sql("p") == fitted.to_sql("p")
    assert isinstance(fitted.scaler_.estimator_, type(made)), "the original keeps its scaler"


def test_the_cells_of_a_table_are_rows_with_and_without_the_event_for_an_own_scaler():
    p, y = cubed(2000, 0)
    p = p.round(2)
    table = tabulate(y, p, bins="distinct")
    for made in (
        Cube(),
        LogisticRegression(tol=1e-10),
        make_pipeline(LogisticRegression(tol=1e-10)),
    ):
        from_rows = ScalingBinning("width:8", made).fit(p, y).predict_proba(p)
        from_table = ScalingBinning("width:8", made).fit_table(table).predict_proba(p)
        np.testing.assert_allclose(from_table, from_rows, atol=1e-6)


class Sigmoid:
    """Reads logits, and says so."""

    input = "logits"

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return 1 / (1 + np.exp(-X[:, 0] / 2))


def test_the_steps_of_an_own_scaler_of_logits_are_steps_of_logits(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=2000) * 3
    fitted = ScalingBinning(bins=5, scaler=Sigmoid()).fit(z, rng.uniform(size=2000) < 0.5)
    fitted.as_steps().save(tmp_path / "steps.json")
    for each in (fitted, fitted.as_steps(), load(tmp_path / "steps.json")):
        assert each.input == "logits"
        np.testing.assert_array_equal(each.predict_proba(z), fitted.predict_proba(z))


class MyPlatt(PlattScaling):
    """A scaler of one's own that is derived from one of calibrant's."""


def test_scalers_derived_from_calibrants_are_left_out_of_steps_too(tmp_path):
    p, y = cubed(1000, 0)
    for scaler in (MyPlatt(), ScalingBinning(bins=20, scaler=Cube())):
        fitted = ScalingBinning(bins=5, scaler=scaler).fit(p, y)
        with pytest.raises(InvalidArgumentError, match=r"as_steps\(\)"):
            fitted.save(tmp_path / "own.json")
        fitted.as_steps().save(tmp_path / "steps.json")
        out = load(tmp_path / "steps.json").predict_proba(p)
        np.testing.assert_array_equal(out, fitted.predict_proba(p))
    probs, labels = class_rows(300)
    several = OneVsRest(ScalingBinning(bins=5, scaler=MyPlatt())).fit(probs, labels)
    several.as_steps().save(tmp_path / "several.json")
    out = load(tmp_path / "several.json").predict_proba(probs)
    np.testing.assert_array_equal(out, several.predict_proba(probs))


class Dip:
    """Rises, but for one narrow dip that a look at few scores does not meet."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return np.where(np.abs(X[:, 0] - 0.5034) < 1e-3, 0.1, X[:, 0])


def test_a_narrow_dip_of_an_own_scaler_is_no_rise():
    p = np.linspace(0, 1, 4001)
    fitted = ScalingBinning(bins=10, scaler=Dip()).fit(p, np.arange(4001) % 2)
    assert fitted.cuts_ is None
    assert fitted.predict_proba([0.5034])[0] == pytest.approx(0.1, abs=0.06)


class Backwards(LogisticRegression):
    """Has its classes in the other order, and answers in that order."""

    def fit(self, X, y, sample_weight=None):
        super().fit(X, y, sample_weight)
        self.inner_, self.classes_ = clone(LogisticRegression()).fit(X, y), np.array([1, 0])
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)[:, ::-1]


def test_columns_of_answers_stand_in_the_order_of_the_classes_of_their_estimator():
    p, y = cubed(1000, 0)
    own, other = (
        ScalingBinning(bins=5, scaler=scaler).fit(p, y)
        for scaler in (Backwards(), LogisticRegression())
    )
    np.testing.assert_allclose(own.predict_proba(p), other.predict_proba(p))


def test_a_pipeline_gets_the_weights_of_rows_in_its_last_step():
    p, y = cubed(600, 0)
    w = np.random.default_rng(1).exponential(size=600)
    line = LogisticRegression(tol=1e-10)
    site = np.where(np.arange(600) % 3, "a", "b")
    for wrap in (
        lambda own: ScalingBinning(5, own).fit(p, y, w),
        lambda own: ByGroup(own).fit(p, y, w, by=site).pooled_,
    ):
        piped, plain = wrap(make_pipeline(line)), wrap(line)
        np.testing.assert_allclose(piped.predict_proba(p), plain.predict_proba(p), atol=1e-8)
    unweighted = make_pipeline(KNeighborsClassifier())
    with pytest.raises(InvalidArgumentError, match="fit of Pipeline takes none"):
        ScalingBinning(5, unweighted).fit(p, y, w)
    with pytest.raises(InvalidArgumentError, match="takes no sample_weight"):
        ByGroup(unweighted).fit(p, y, by=site)


def wrapped(name, inner):
    """Return a fitted wrapper, and what it answers for other rows."""
    rng = np.random.default_rng(5)
    p, y = cubed(3000, 0)
    if name == "ByGroup":
        site = np.where(rng.uniform(size=p.size) < 0.5, "a", "b")
        y = np.where(site == "a", y, 0)
        fitted = ByGroup(inner, own="map", pool=1.0).fit(p, y, by={"site": site})
        assert len(fitted.recalibrators_) == 2
        return fitted, lambda own: own.predict_proba(p, by={"site": site})
    probs = rng.dirichlet(np.ones(3), size=1500)
    if name == "MultiLabel":
        fitted = MultiLabel(inner).fit(probs, rng.uniform(size=probs.shape) < probs**2)
    else:
        labels = (probs.cumsum(axis=1) < rng.uniform(size=(1500, 1))).sum(axis=1)
        made = {"OneVsRest": OneVsRest(inner), "TopLabel": TopLabel(inner, per_class=True)}
        fitted = made[name].fit(probs, labels)
    return fitted, lambda own: own.predict_proba(probs)


@pytest.mark.parametrize("name", ["OneVsRest", "TopLabel", "MultiLabel", "ByGroup"])
def test_a_wrapper_of_own_scalers_is_saved_as_steps(name, tmp_path):
    fitted, answers = wrapped(name, ScalingBinning(bins=4, scaler=Cube()))
    with pytest.raises(InvalidArgumentError, match=r"as_steps\(\)"):
        fitted.save(tmp_path / "own.json")
    fitted.as_steps().save(tmp_path / "steps.json")
    for each in (fitted.as_steps(), load(tmp_path / "steps.json")):
        np.testing.assert_array_equal(answers(each), answers(fitted))
    assert isinstance(fitted.recalibrator.scaler, Cube), "the original keeps its scaler"


def test_a_wrapper_of_continuous_answers_has_no_steps_to_save(tmp_path):
    fitted, _ = wrapped("OneVsRest", Cube())
    with pytest.raises(InvalidArgumentError, match="Cube is not one of them"):
        fitted.as_steps().save(tmp_path / "own.json")


def test_steps_are_refused_where_there_are_none():
    p, y = cubed(500, 0)
    falling = ScalingBinning(bins=5, scaler=LogisticRegression()).fit(p, 1 - y)
    assert falling.cuts_ is None
    with pytest.raises(InvalidArgumentError, match="not increasing"):
        falling.as_steps()
    tied = ScalingBinning(bins=5, scaler=Cube(), keep_order=True).fit(p, y)
    with pytest.raises(InvalidArgumentError, match="keep_order is True"):
        tied.as_steps()
    own = ScalingBinning(bins=5).fit(p, y)
    assert own.as_steps() is own


def test_a_weight_of_a_row_is_as_good_as_the_row_twice():
    p, y = cubed(400, 0)
    w = np.random.default_rng(1).integers(1, 4, size=400).astype(float)
    twice = np.repeat(np.arange(400), w.astype(int))
    a = ScalingBinning(bins="width:5", scaler=Cube()).fit(p, y, w).predict_proba(p)
    b = ScalingBinning(bins="width:5", scaler=Cube()).fit(p[twice], y[twice]).predict_proba(p)
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_the_best_recalibrator_may_be_ones_own():
    p, y = cubed(3000, 0)
    candidates = [Identity(), PlattScaling(), Cube()]
    best = best_recalibrator(y, p, candidates)
    assert repr(best) == "Cube()"
    np.testing.assert_allclose(
        best.predict_proba(p), Cube().fit(p[:, None], y).predict_proba(p[:, None])[:, 1]
    )
    assert "Cube() " in str(best.scores_)
    probs, labels = class_rows(300)
    several = best_recalibrator(labels, probs, [Identity(), OneVsRest(Cube(), normalize=True)])
    assert several.predict_proba(probs).shape == probs.shape
    with pytest.raises(InvalidArgumentError, match="candidates must be a sequence"):
        best_recalibrator(y, p, [Identity(), Cube])


def test_every_wrapper_takes_ones_own():
    probs, y = class_rows(300)
    for wrapper in (OneVsRest(Cube(), normalize=True), TopLabel(Cube())):
        out = clone(wrapper).fit(probs, y).predict_proba(probs)
        np.testing.assert_allclose(out.sum(axis=1), 1)
    p, happened = cubed(600, 0)
    site = np.where(np.arange(600) % 3, "a", "b")
    own = ByGroup(Cube()).fit(p, happened, by=site).predict_proba(p, by=site)
    assert np.abs(own - (0.1 + 0.8 * p**3)).max() < 0.2
    binned = ByGroup(ScalingBinning(bins=5, scaler=Cube())).fit(p, happened, by=site)
    assert np.unique(binned.predict_proba(p, by=site)).size <= 10
    classifier = RecalibratedClassifier(GaussianNB(), Cube(), cv=3).fit(p[:, None], happened)
    assert classifier.predict_proba(p[:, None]).shape == (600, 2)


def test_the_studies_of_the_paper_take_a_method_of_ones_own(monkeypatch):
    monkeypatch.setitem(population.METHODS, "cube", population.Method(Cube))
    p, y = cubed(1000, 0)
    data = Predictions(np.column_stack([1 - p, p]), y)
    result = STUDIES["calibrators-marginal"].run(
        data=data, methods=("histogram", "scaling-binning", "cube"), bins=(5,), repeats=3,
        n_calibration=300,
    )  # fmt: skip
    errors = {row["method"]: row["squared_error"] for row in result.rows}
    assert errors["cube"] == pytest.approx(0.01, abs=0.009)


def test_one_column_may_be_a_table_of_one_column():
    flat, table = (Share(lambda n, shape=shape: np.full((n, *shape), 0.3)) for shape in ((), (1,)))
    probs, y = class_rows(100)
    first, second = (OneVsRest(own).fit(probs, y).predict_proba(probs) for own in (flat, table))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda n: np.full(n, 1.5), InvalidProbabilitiesError),
        (lambda n: np.full(n, np.nan), InvalidProbabilitiesError),
        (lambda n: np.ones((n, 3)), InvalidShapeError),
        (lambda n: np.ones(n + 1), InvalidShapeError),
        (lambda n: np.ma.masked_less(np.linspace(0, 1, n), 0.5), InvalidProbabilitiesError),
    ],
    ids=["above 1", "NaN", "three columns", "too many", "masked"],
)
def test_answers_that_are_no_probabilities_are_refused(answer, error):
    with pytest.raises(error, match="Share"):
        OneVsRest(Share(answer)).fit(*class_rows(100))


class Unweighted:
    def fit(self, X, y):
        self.rate_ = np.mean(y)
        return self

    def predict_proba(self, X):
        return (X[:, 0] + self.rate_) / 2


class Anything(Unweighted):
    def fit(self, X, y, **options):
        assert options["sample_weight"].size == len(X)
        return super().fit(X, y)


@pytest.mark.parametrize("wrapper", [OneVsRest, TopLabel])
def test_weights_that_a_fit_does_not_take_are_not_dropped(wrapper):
    p, y = class_rows(300, 3)
    weights = np.linspace(1, 2, 300)
    with pytest.raises(InvalidArgumentError, match="fit of Unweighted takes none"):
        wrapper(Unweighted()).fit(p, y, sample_weight=weights)
    wrapper(Unweighted()).fit(p, y)
    wrapper(Anything()).fit(p, y, sample_weight=weights)


def test_candidates_in_wrappers_are_printed_without_addresses():
    p, y = class_rows(300, 3)
    best = best_recalibrator(y, p, [Identity(), OneVsRest(Unweighted())])
    assert "OneVsRest(recalibrator=Unweighted())" in str(best.scores_)


class Words(Unweighted):
    def predict_proba(self, X):
        return np.full(len(X), "likely")


def test_answers_in_words_are_refused():
    p, y = binary_rows(100)
    with pytest.raises(InvalidProbabilitiesError, match="predict_proba of Words gave values of"):
        ScalingBinning(bins=3, scaler=Words()).fit(p, y)


def test_messages_name_the_class_that_was_passed(tmp_path):
    p, y = cubed(300, 0)
    probs, labels = class_rows(300)
    with pytest.raises(InvalidShapeError, match="Cube recalibrates one event"):
        best_recalibrator(labels, probs, [Identity(), Cube()])
    best = best_recalibrator(y, p, [Cube()])
    with pytest.raises(InvalidShapeError, match="This Cube was fitted on 2 classes"):
        best.predict_proba(probs)
    with pytest.raises(InvalidArgumentError, match="Cube is not one of them"):
        best.save(tmp_path / "cube.json")
