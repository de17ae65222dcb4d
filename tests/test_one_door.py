"""One door: whatever reads predictions takes ``data=`` and ``input=``, or says here why not."""

from __future__ import annotations

import argparse
import inspect

import numpy as np
import pytest
from scipy import special

import calibrant as cb
from calibrant.cli.parser import new_parser
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    InvalidBinsError,
    InvalidWeightsError,
)
from conftest import optional

pl = optional("polars")

PREDICTIONS = {"y_prob", "prob_a", "mean", "samples", "std"}
QUANTILES = "quantiles and distributions are values of the outcome: they have no logits"
FORWARDS = "**options are those of the function that it draws"
AT_HOME = "said once, when the object is made"
NO_INPUT = {
    "certify_coverage": QUANTILES,
    "crps": QUANTILES,
    "normal_quantiles": QUANTILES,
    "pinball_loss": QUANTILES,
    "pit_histogram": QUANTILES,
    "sample_quantiles": QUANTILES,
    "CalibrationMetric.update": AT_HOME,
    "CalibrationMonitor.update": AT_HOME,
    "DecisionDisplay.from_predictions": FORWARDS,
    "PitDisplay.from_predictions": FORWARDS,
    "SelectiveDisplay.from_predictions": FORWARDS,
}
NO_DATA = {
    "normal_quantiles": "makes an array for those who hold arrays; crps(data=) scores columns",
    "sample_quantiles": "makes an array for those who hold arrays; crps(data=) scores columns",
    "DecisionDisplay.from_predictions": FORWARDS,
    "PitDisplay.from_predictions": FORWARDS,
    "SelectiveDisplay.from_predictions": FORWARDS,
}


def readers():
    """Yield the name and the parameters of every public function that reads predictions.

    Not those of recalibrators: scikit-learn's estimators take arrays, ``input`` is a parameter of
    the constructor, and `apply_to_frame` and the exports work where data live.
    """
    for name in cb.__all__:
        public = getattr(cb, name)
        if inspect.isclass(public) and not issubclass(public, cb.recalibrators.Recalibrator):
            members = inspect.getmembers(public, callable)
            functions = {f"{name}.{own}": f for own, f in members if not own.startswith("_")}
        else:
            functions = {name: public} if inspect.isfunction(public) else {}
        for title, function in functions.items():
            parameters = set(inspect.signature(function).parameters)
            if parameters & PREDICTIONS:
                yield title, parameters


READERS = {
    name: parameters
    for name, parameters in readers()
    if not name.startswith(("QuantileRecalibration.", "VarianceScaling."))
}


def test_the_walk_finds_the_functions():
    assert {"calibration_error", "certify", "best_recalibrator", "crps", "report"} <= set(READERS)
    assert len(READERS) >= 30


@pytest.mark.parametrize(("word", "reasons"), [("input", NO_INPUT), ("data", NO_DATA)])
def test_whatever_reads_predictions_takes_input_and_data(word, reasons):
    lacking = {name for name, parameters in READERS.items() if word not in parameters}
    assert lacking == set(reasons)
    for name in lacking:
        if reasons[name] == FORWARDS:
            assert "options" in READERS[name]
        if reasons[name] == AT_HOME:
            made = getattr(cb, name.split(".")[0])
            assert word in inspect.signature(made).parameters


def test_every_command_that_reads_predictions_takes_input():
    (commands,) = (
        action for action in new_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    read = {
        name: set(command._option_string_actions)
        for name, command in commands.choices.items()
        if any(
            option.startswith(("--y-prob", "--prob")) for option in command._option_string_actions
        )
    }
    assert len(read) >= 10
    # reproduce runs the paper's studies, whose predictions are probabilities.
    lacking = {name for name, options in read.items() if "--input" not in options}
    assert lacking == {"reproduce"}


RNG = np.random.default_rng(0)
Z = RNG.normal(scale=2, size=(900, 3))
Y = (special.softmax(Z / 2, axis=1).cumsum(axis=1) < RNG.uniform(size=(900, 1))).sum(axis=1)
EVENT = (RNG.uniform(size=900) < special.expit(Z[:, 0] / 2)).astype(int)
FRAME = pl.DataFrame({"y": Y, "event": EVENT, "w": np.ones(900), "half": np.arange(900) % 2})
FRAME = FRAME.with_columns(pl.Series(f"z{k}", Z[:, k]) for k in range(3))
TWO = np.column_stack([np.zeros(900), Z[:, 0]])


@pytest.fixture(params=["frame", "lazy", "dict", "csv", "parquet"])
def home(request, tmp_path):
    if request.param in ("csv", "parquet"):
        path = tmp_path / f"rows.{request.param}"
        getattr(FRAME, f"write_{request.param}")(path)
        return path
    ways = {"frame": FRAME, "lazy": FRAME.lazy(), "dict": FRAME.to_dict(as_series=False)}
    return ways[request.param]


def test_the_best_repair_of_logits_reads_logits(home):
    found = cb.best_recalibrator("y", ["z0", "z1", "z2"], data=home, input="logits")
    wanted = cb.best_recalibrator(Y, Z, input="logits")
    assert repr(found) == repr(wanted) == "TemperatureScaling(input='logits')"
    assert wanted.temperature_ == pytest.approx(2, rel=0.2)
    np.testing.assert_array_equal(found.predict_proba(Z), wanted.predict_proba(Z))
    assert list(found.feature_names_in_) == ["z0", "z1", "z2"]
    event = cb.best_recalibrator("event", "z0", data=home, input="logits", sample_weight="w")
    assert str(event.scores_) == str(cb.best_recalibrator(EVENT, TWO, input="logits").scores_)


def test_logits_are_compared_as_their_probabilities_are():
    named = [cb.Identity(), cb.TemperatureScaling(smoothing=0.0)]
    of_logits = [cb.Identity(input="logits"), cb.TemperatureScaling(input="logits")]
    found = cb.best_recalibrator(Y, Z, of_logits, input="logits").scores_
    wanted = cb.best_recalibrator(Y, special.softmax(Z, axis=1), named).scores_
    np.testing.assert_allclose(found.loss, wanted.loss, rtol=1e-6)


@pytest.mark.parametrize("own", [cb.PlattScaling(), cb.OneVsRest(cb.PlattScaling())])
def test_a_candidate_that_reads_something_else_is_refused(own):
    with pytest.raises(InvalidArgumentError, match="must read what input= says.*reads prob"):
        cb.best_recalibrator(EVENT, Z[:, 0], [own], input="logits")
    with pytest.raises(InvalidArgumentError, match=r"reads logits\. Give it input"):
        cb.best_recalibrator(EVENT, special.expit(Z[:, 0]), [cb.PlattScaling(input="logits")])
    with pytest.raises(InvalidArgumentError, match='"probabilities" or "logits"'):
        cb.best_recalibrator(EVENT, Z[:, 0], input="scores")


def test_identity_of_logits_is_their_probability_and_is_saved(tmp_path):
    for x, y in ((Z, Y), (TWO, EVENT), (Z[:, 0], EVENT)):
        own = cb.Identity(input="logits").fit(x, y)
        wanted = special.expit(x) if x.ndim == 1 else special.softmax(x, axis=1)
        np.testing.assert_allclose(own.predict_proba(x), wanted, rtol=1e-12)
        own.save(tmp_path / "own.json")
        same = cb.load(tmp_path / "own.json")
        assert repr(same) == "Identity(input='logits')"
        np.testing.assert_array_equal(same.predict_proba(x), own.predict_proba(x))
    with pytest.raises(InvalidArgumentError, match="input"):
        cb.Identity(input="scores").fit(Z, Y)


def test_identity_of_logits_is_exported(tmp_path):
    torch = pytest.importorskip("torch")
    for x, y in ((Z, Y), (TWO, EVENT), (Z[:, 0], EVENT)):
        own = cb.Identity(input="logits").fit(x, y)
        np.testing.assert_allclose(
            own.to_torch()(torch.tensor(x)).numpy(), own.predict_proba(x), rtol=1e-12
        )
    added = own.apply_to_frame(FRAME, "z0")["calibrated"].to_numpy()
    np.testing.assert_allclose(added, own.predict_proba(Z[:, 0]), rtol=1e-12)


def test_the_crps_of_columns_is_that_of_arrays(home):
    normal = cb.crps(Z[:, 0], mean=Z[:, 1], std=2.0)
    assert cb.crps("z0", mean="z1", std=2.0, data=home, sample_weight="w").value == normal.value
    with pytest.raises(InvalidArgumentError, match="must name a column.*as an array"):
        cb.crps("z0", mean=0.5, std=2, data=home)
    draws = cb.crps(Z[:, 0], samples=Z[:, 1:]).value
    assert cb.crps("z0", samples=["z1", "z2"], data=home).value == draws
    assert cb.crps("z0", samples="z[12]", data=home).value == draws
    with pytest.raises(CalibrantError, match="nothing"):
        cb.crps("z0", mean="nothing", std=1.0, data=home)
    with pytest.raises(CalibrantError, match="above 0"):
        cb.crps("z0", mean="z1", std="z2", data=home)


def test_a_metric_reads_columns(home):
    metric = cb.CalibrationMetric(bins="width:5", input="logits", by="half")
    metric.update("event", "z0", data=home)
    wanted = cb.CalibrationMetric(bins="width:5", input="logits", by="half")
    wanted.update(EVENT, Z[:, 0], by=np.arange(900) % 2)
    assert metric.compute().value == pytest.approx(wanted.compute().value, rel=1e-12)
    assert list(map(str, metric.compute_by())) == ["0", "1"]  # a CSV file has text
    with pytest.raises(InvalidArgumentError, match="read from the columns half"):
        metric.update("event", "z0", data=home, by="half")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_grades_are_read_from_files(ending, tmp_path):
    path = tmp_path / f"book.{ending}"
    book = FRAME.select("event").with_columns(
        pl.Series("pd", np.where(Z[:, 0] > 0, 0.4, 0.2)),
        pl.Series("grade", np.where(Z[:, 0] > 0, "B", "A")),
    )
    getattr(book, f"write_{ending}")(path)
    for column in ("pd", "grade"):
        options = {"grades": {"A": 0.2, "B": 0.4}}
        found = cb.grade_backtest("event", column, data=path, **options)
        assert str(found) == str(cb.grade_backtest(EVENT, book[column].to_numpy(), **options))


def test_a_report_refuses_weights_and_names_what_takes_them():
    with pytest.raises(InvalidWeightsError, match="independent rows.*got sample_weight.*validate"):
        cb.report(EVENT, special.expit(Z[:, 0]), sample_weight=np.ones(900))


def parts_of_a_table(kind):
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.ones(4), 600)
    if kind == "binary":
        p = p[:, 0]
        return (rng.random(600) < p).astype(int), p
    return np.array([rng.choice(4, p=row) for row in p]), p


@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
@pytest.mark.parametrize("home", ["arrays", "tensors", "frames", "files"])
def test_later_rows_are_counted_in_the_bins_of_an_earlier_table(kind, home, tmp_path):
    y, p = parts_of_a_table(kind)
    half = len(y) // 2
    first = cb.tabulate(y[:half], p[:half], kind=kind, bins="mass:7")
    columns = [f"p{k}" for k in range(p.shape[1])] if p.ndim == 2 else ["p0"]
    if home == "tensors":
        torch = pytest.importorskip("torch")
        second = cb.tabulate(
            torch.tensor(y[half:]), torch.tensor(p[half:]), kind=kind, bins=first.bins
        )
    elif home == "arrays":
        second = cb.tabulate(y[half:], p[half:], kind=kind, bins=first.bins)
    else:
        frame = pl.DataFrame(
            {"y": y[half:]} | dict(zip(columns, p.reshape(600, -1)[half:].T, strict=True))
        )
        data: object = frame.lazy()
        if home == "files":
            data = tmp_path / "later.parquet"
            frame.write_parquet(data)
        y_prob = columns if p.ndim == 2 else "p0"
        second = cb.tabulate("y", y_prob, data=data, kind=kind, bins=first.bins)
    both = first + second
    assert both.bins == first.bins
    assert both.n == len(y)
    whole = cb.tabulate(y, p, kind=kind, bins=first.bins)
    np.testing.assert_array_equal(both.sum_y, whole.sum_y)
    np.testing.assert_allclose(both.sum_p, whole.sum_p, rtol=1e-13)


def test_later_groups_are_counted_in_the_bins_of_earlier_ones():
    y, p = parts_of_a_table("binary")
    site = np.where(np.arange(600) % 3 == 0, "a", "b")
    first = cb.tabulate(y[:300], p[:300], by=site[:300], bins="mass:7")
    both = first + cb.tabulate(y[300:], p[300:], by=site[300:], bins=first.bins)
    assert both["a"].n + both["b"].n == 600
    metric = cb.CalibrationMetric(bins=first["a"].bins)
    metric.update(y, p)
    assert metric.compute().table.bins == first["a"].bins
    own = cb.tabulate(y, p, by=site, bins="mass:7", shared_bins=False)
    with pytest.raises(InvalidBinsError, match=r"got the bins of 2 groups. Pass those of one"):
        cb.tabulate(y, p, by=site, bins=own.bins)
    assert cb.tabulate(y, p, bins=own["a"].bins).bins == own["a"].bins
    with pytest.raises(InvalidBinsError, match=r"got 1 for 4\. Pass table\.bins"):
        cb.tabulate(*parts_of_a_table("marginal"), kind="marginal", bins=own["a"].bins)
