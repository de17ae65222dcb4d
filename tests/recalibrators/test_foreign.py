"""Estimators of other libraries: in wrappers, and fold by fold under a recalibrator."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from calibrant import (
    RecalibratedClassifier,
    best_recalibrator,
    calibration_error,
    load,
    tabulate,
)
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
    TemperatureScaling,
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
    """Takes any keyword, and uses the weights among them."""

    def fit(self, X, y, **options):
        self.rate_ = np.average(y, weights=options.get("sample_weight"))
        return self


class Swallowing(Unweighted):
    """Takes any keyword, and makes no use of it."""

    def fit(self, X, y, **options):
        return super().fit(X, y)


class PassingOn(Unweighted):
    """Takes any keyword, and passes all on to a fit that takes no weights."""

    def fit(self, X, y, **options):
        KNeighborsClassifier().fit(X, y, **options)
        return super().fit(X, y)


class Positional(Unweighted):
    """Takes weights by position alone."""

    def fit(self, X, y, sample_weight=None, /):
        return super().fit(X, y)


WITHOUT_WEIGHTS = [
    Unweighted(),
    Swallowing(),
    PassingOn(),
    Positional(),
    GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [5]}, cv=2),
]
ONE_P, ONE_Y = cubed(200, 0)
ONE_SITE = np.where(np.arange(200) % 3, "a", "b")
MANY_P, MANY_Y = class_rows(200, 3)
FITS = {
    "OneVsRest": lambda own, w: OneVsRest(own).fit(MANY_P, MANY_Y, w),
    "TopLabel": lambda own, w: TopLabel(own, per_class=True).fit(MANY_P, MANY_Y, w),
    "MultiLabel": lambda own, w: MultiLabel(own).fit(MANY_P, MANY_Y[:, None] == range(3), w),
    "ScalingBinning": lambda own, w: ScalingBinning(5, own).fit(ONE_P, ONE_Y, w),
    "shifts": lambda own, w: ByGroup(own, own="shift").fit(ONE_P, ONE_Y, w, by=ONE_SITE),
    "maps": lambda own, w: ByGroup(own, pool=0, own="map").fit(ONE_P, ONE_Y, w, by=ONE_SITE),
    "of several": lambda own, w: ByGroup(OneVsRest(own), pool=0).fit(
        MANY_P, MANY_Y, w, by=ONE_SITE
    ),
    "classifier": lambda own, w: RecalibratedClassifier(GaussianNB(), own, cv=2).fit(
        ONE_P[:, None], ONE_Y, w
    ),
    "best": lambda own, w: best_recalibrator(ONE_Y, ONE_P, [Identity(), own], sample_weight=w),
    "best of several": lambda own, w: best_recalibrator(
        MANY_Y, MANY_P, [Identity(), OneVsRest(own)], sample_weight=w
    ),
}


@pytest.mark.parametrize("wrapper", FITS)
def test_weights_that_a_fit_does_not_take_or_use_are_not_dropped(wrapper):
    fit, weights = FITS[wrapper], np.linspace(1, 2, 200)
    for own in WITHOUT_WEIGHTS:
        with pytest.raises(InvalidArgumentError, match=f"fit of {type(own).__name__} takes none"):
            fit(own, weights)
        fit(own, None)
    fit(Anything(), weights)


@pytest.mark.parametrize("own", WITHOUT_WEIGHTS, ids=lambda own: type(own).__name__)
def test_groups_are_pooled_by_weights_that_a_fit_must_take(own):
    """A fit that dropped them had the rows of the pool count like those of the group."""
    for repair, p, y in (
        (ByGroup(own), ONE_P, ONE_Y),
        (ByGroup(own, pool=20, own="map"), ONE_P, ONE_Y),
        (ByGroup(ScalingBinning(5, own)), ONE_P, ONE_Y),
        (ByGroup(OneVsRest(own)), MANY_P, MANY_Y),
    ):
        for weights in (None, np.linspace(1, 2, 200)):
            with pytest.raises(InvalidArgumentError, match="takes no sample_weight or makes no"):
                repair.fit(p, y, weights, by=ONE_SITE)


def test_a_map_without_pooling_is_that_of_the_rows_of_the_group_where_no_weights_are_taken():
    own = ONE_SITE == "a"
    alone = Unweighted().fit(ONE_P[own][:, None], ONE_Y[own]).predict_proba(ONE_P[:, None])
    fitted = ByGroup(Unweighted(), pool=0, own="map").fit(ONE_P, ONE_Y, by=ONE_SITE)
    np.testing.assert_array_equal(fitted.predict_proba(ONE_P[own], by=ONE_SITE[own]), alone[own])


def test_a_table_needs_an_own_scaler_that_uses_weights():
    table = tabulate(ONE_Y, ONE_P.round(1), bins="distinct")
    with pytest.raises(InvalidArgumentError, match="fit of Swallowing takes none"):
        ScalingBinning("width:5", Swallowing()).fit_table(table)


def test_a_search_gets_the_weights_under_the_name_that_its_estimator_has():
    weights = np.random.default_rng(1).exponential(size=200)
    line = LogisticRegression(tol=1e-10)
    piped = GridSearchCV(make_pipeline(line), {"logisticregression__C": [1.0]}, cv=2)
    for search in (GridSearchCV(line, {"C": [1.0]}, cv=2), piped):
        found, plain = (ScalingBinning(5, own).fit(ONE_P, ONE_Y, weights) for own in (search, line))
        np.testing.assert_allclose(found.levels_, plain.levels_, atol=1e-8)


class Refusing(GaussianNB):
    """Names weights, and fails on them, as estimators around others do."""

    def fit(self, X, y, sample_weight=None):
        if sample_weight is not None:
            raise TypeError("the inner estimator takes no weights.")
        return super().fit(X, y)


def test_a_fit_that_names_weights_and_fails_on_them_is_refused_in_words():
    weights = np.linspace(1, 2, 200)
    said = r"fit of Refusing failed with them: the inner .* no weights\. If it cannot take"
    for fit in FITS.values():
        with pytest.raises(InvalidArgumentError, match=said):
            fit(Refusing(), weights)
    with pytest.raises(InvalidArgumentError, match=said):
        RecalibratedClassifier(Refusing(), cv=2).fit(ONE_P[:, None], ONE_Y, weights)


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


X, Y = make_classification(2000, 20, random_state=0)
FIT, FRESH = slice(0, 1000), slice(1000, None)
IRIS = load_iris(return_X_y=True)


def fitted_on(cv):
    return RecalibratedClassifier(GaussianNB(), PlattScaling(), cv).fit(X[FIT], Y[FIT])


SPLITTERS = {
    "time series": (TimeSeriesSplit(3), 750),
    "shuffle": (ShuffleSplit(3, test_size=0.2, random_state=0), None),
    "repeated": (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), 1000),
    "stratified": (StratifiedKFold(4), 1000),
    "predefined": (PredefinedSplit(np.repeat([-1, 0, 1], [400, 300, 300])), 600),
    "pairs": ([(np.arange(500), np.arange(500, 1000))], 500),
    "masks": ([(np.arange(1000) < 500, np.arange(1000) >= 500)], 500),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_only_rows_that_a_fold_tests_are_fitted_on(name):
    cv, n_tested = SPLITTERS[name]
    model = fitted_on(cv)
    plain = GaussianNB().fit(X[FIT], Y[FIT])
    error = calibration_error(Y[FRESH], model.predict_proba(X[FRESH])[:, 1]).value
    assert error < 0.06 < calibration_error(Y[FRESH], plain.predict_proba(X[FRESH])[:, 1]).value
    assert model.n_tested_ + model.n_untested_ == 1000
    assert n_tested is None or model.n_tested_ == n_tested
    assert model.recalibrator_.fingerprint_.n == model.n_tested_


def test_groups_reach_the_splitter():
    groups = np.arange(1000) // 10
    model = RecalibratedClassifier(GaussianNB(), cv=GroupKFold(5))
    model.fit(X[FIT], Y[FIT], groups=groups)
    assert model.n_untested_ == 0
    with pytest.raises(ValueError, match="groups"):
        RecalibratedClassifier(GaussianNB(), cv=GroupKFold(5)).fit(X[FIT], Y[FIT])


@pytest.mark.parametrize(
    ("cv", "labels", "message"),
    [
        (TimeSeriesSplit(3), np.repeat([0, 1], [60, 40]), "training rows of fold 1 must hold"),
        (KFold(2), np.repeat([0, 1], 50), r"training rows of fold 1 must hold.*first: 0"),
        (5, np.repeat(["a", "b", "c"], [50, 49, 1]), r"training rows of fold . .*first: 'c'"),
        (LeaveOneOut(), np.repeat([0, 1], [99, 1]), "training rows of fold 100 must hold"),
        ([(np.arange(50), np.arange(50, 60))], np.r_[np.arange(50) % 2, [1] * 50], "10 rows that"),
        ([(np.arange(50), np.arange(0))], np.arange(100) % 2, "The 0 rows that the folds test"),
    ],
)
def test_folds_without_a_class_are_refused(cv, labels, message):
    with pytest.raises(InvalidLabelsError, match=message):
        RecalibratedClassifier(GaussianNB(), cv=cv).fit(X[:100], labels)


def test_folds_that_test_their_own_training_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="fold 1 of cv shares 10"):
        fitted_on([(np.arange(100), np.arange(90, 200))])
    for cv in (1, 0, -3, True):
        with pytest.raises(InvalidArgumentError, match="2 folds or more"):
            fitted_on(cv)


def test_weights_that_the_estimator_does_not_take_are_used_for_the_recalibrator_with_a_warning():
    w = np.random.default_rng(0).exponential(size=1000)
    model = RecalibratedClassifier(KNeighborsClassifier(), cv=StratifiedKFold(3))
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight") as caught:
        model.fit(X[FIT], Y[FIT], sample_weight=w)
    assert [one.filename for one in caught] == [__file__]
    plain = RecalibratedClassifier(KNeighborsClassifier(), cv=StratifiedKFold(3))
    assert (plain.fit(X[FIT], Y[FIT]).recalibrator_.coef_ != model.recalibrator_.coef_).all()


@pytest.mark.parametrize("cv", [3, "prefit"])
def test_no_warning_where_weights_are_taken_or_nothing_is_fitted(cv):
    estimator = LogisticRegression() if cv == 3 else KNeighborsClassifier().fit(X[FRESH], Y[FRESH])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RecalibratedClassifier(estimator, cv=cv).fit(X[FIT], Y[FIT], np.ones(1000))
    assert model.n_tested_ == 1000


def test_decision_scores_of_pairs_of_classes_are_refused():
    with pytest.raises(InvalidArgumentError, match="Use 'ovr'"):
        RecalibratedClassifier(SVC(decision_function_shape="ovo")).fit(*IRIS)


class Reversed(ClassifierMixin, BaseEstimator):
    """A classifier whose classes are in falling order."""

    def __init__(self, method="predict_proba"):
        self.method = method

    def fit(self, X, y):
        self.inner_ = LogisticRegression(max_iter=1000).fit(X, y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def __getattr__(self, name):
        if name == vars(self).get("method"):
            return lambda x: self.said(name, x)
        raise AttributeError(name)

    def said(self, method, x):
        if method == "predict_proba":
            return self.inner_.predict_proba(x)[:, ::-1]
        scores = self.inner_.decision_function(x)
        return -scores if scores.ndim == 1 else scores[:, ::-1]


@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
@pytest.mark.parametrize("data", [(X[FIT], Y[FIT]), IRIS], ids=["two classes", "three classes"])
def test_the_order_of_the_estimators_classes_does_not_matter(method, data):
    x, y = data
    recalibrator = TemperatureScaling(input="probabilities")
    plain = LogisticRegression(max_iter=1000)
    expected = RecalibratedClassifier(plain, recalibrator, cv=3).fit(x, y)
    model = RecalibratedClassifier(Reversed(method), recalibrator, cv=3).fit(x, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    np.testing.assert_allclose(model.predict_proba(x), expected.predict_proba(x), atol=1e-6)
    prefit = RecalibratedClassifier(Reversed(method).fit(x, y), recalibrator, cv="prefit")
    prefit.fit(x, y)
    np.testing.assert_array_equal(prefit.classes_, np.unique(y)[::-1])
    assert prefit.score(x, y) > 0.8


class Percent(GaussianNB):
    """A classifier that predicts percentages."""

    def predict_proba(self, X):
        return 100 * super().predict_proba(X)


def test_predictions_that_are_no_probabilities_are_refused_and_not_clipped():
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        RecalibratedClassifier(Percent()).fit(X[FIT], Y[FIT])
