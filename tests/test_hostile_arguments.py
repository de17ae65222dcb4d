"""Any option may be given any value: it is understood, or refused by an exception of calibrant."""

from __future__ import annotations

import inspect
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import CalibrantError

RNG = np.random.default_rng(0)
P = np.round(RNG.uniform(size=80), 1)
Y = (RNG.uniform(size=80) < P).astype(int)
P3 = RNG.dirichlet(np.ones(3), size=80)
Y3 = RNG.integers(3, size=80)
TABLE = cb.tabulate(Y, P, bins=cb.Distinct())
X = P[:, None]
FITTED = LogisticRegression().fit(X, Y)
PLATT = cb.PlattScaling().fit(P, Y)
FRAME = pd.DataFrame({"p": P})
LOG = Path(__file__).parent / "evaluation.jsonl"
MARGINAL = cb.tabulate(Y3, P3, kind="marginal", bins=cb.EqualWidth(4))

HOSTILE = {
    "text": "nonsense",
    "percent": "90%",
    "no text": "",
    "bytes": b"l2",
    "empty list": [],
    "list": [1, 2],
    "empty dict": {},
    "dict": {"a": 1},
    "set": {1, 2},
    "None": None,
    "object": object(),
    "type": int,
    "function": len,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "-1": -1,
    "0": 0,
    "1": 1,
    "1.5": 1.5,
    "tiny": 1e-320,
    "huge float": 1e308,
    "huge": 10**30,
    "large": 2**62,
    "too many": 2**40,
    "huge negative": -(10**30),
    "beyond floats": 10**400,
    "complex": 1j,
    "True": True,
    "False": False,
    "array": np.array([1, 2]),
    "0-d array": np.array(0.5),
    "0-d text": np.array("l2"),
    "empty array": np.array([]),
    "nan array": np.array([np.nan, np.nan, np.nan]),
    "object array": np.array([object(), None, "a"], object),
    "NumPy scalar": np.float32(0.5),
    "NaT": np.datetime64("NaT", "s"),
}


def fitted(recalibrator, p=P, y=Y):
    return recalibrator.fit(p, y).predict_proba(p)


def error_of(**options):
    return cb.calibration_error(Y, P, bins=cb.EqualWidth(5)).confidence_interval(**options)


def of_metric(**options):
    metric = cb.CalibrationMetric(**options)
    metric.update(Y, P)
    return metric.compute()


def of_monitor(**options):
    given = {} if "reference" in options else {"max_error": 0.1}
    monitor = cb.CalibrationMonitor(**{**given, **options})
    monitor.update(Y, P)
    return monitor.to_json()


def update_of_monitor(**options):
    return cb.CalibrationMonitor(max_error=0.1).update(Y, P, **options)


def with_usual(function, **usual):
    """Return the function with arguments that any option replaces, also a positional one."""
    return lambda **options: function(**{**usual, **options})


def classified(**options):
    return cb.RecalibratedClassifier(**{"cv": 2, **options}).fit(X, Y).predict_proba(X)


def drawn(function):
    def call(**options):
        plt = pytest.importorskip("matplotlib.pyplot")
        try:
            return function(**options)
        finally:
            plt.close("all")

    return call


PREDICTIONS = {
    "calibration_error": cb.calibration_error,
    "tabulate": cb.tabulate,
    "reliability_curve": cb.reliability_curve,
    "validate": cb.validate,
    "brier_decomposition": cb.brier_decomposition,
    "certify": cb.certify,
    "grade_backtest": cb.grade_backtest,
    "skill_score": cb.skill_score,
    "selective_curve": cb.selective_curve,
    "decision_curve": cb.decision_curve,
    "calibration_test": cb.calibration_test,
    "bin_free_bounds": cb.bin_free_bounds,
    "prequential_lower_bound": cb.prequential_lower_bound,
}
REAL, LEVELS = RNG.normal(size=80), (0.1, 0.5, 0.9)
QUANTILES = cb.normal_quantiles(np.zeros(80), 1.0, LEVELS)
FUNCTIONS = {
    **{
        name: with_usual(partial(getattr(cb, name), REAL, QUANTILES), classes=LEVELS)
        for name in ("certify_coverage", "pit_histogram", "pinball_loss")
    },
    "crps": with_usual(partial(cb.crps, REAL), mean=0.0, std=1.0),
    "crps of samples": with_usual(partial(cb.crps, REAL), samples=QUANTILES),
    "normal_quantiles": with_usual(cb.normal_quantiles, mean=[0.0], std=[1.0], levels=LEVELS),
    "sample_quantiles": with_usual(cb.sample_quantiles, samples=[[1.0, 2.0]], levels=[0.5]),
    "certify of labels": with_usual(partial(cb.certify, P3 > 0.5, P3, bins=4), kind="multi-label"),
    "certify of quantiles": with_usual(
        partial(cb.certify, REAL, QUANTILES, kind="quantile"), classes=LEVELS
    ),
    "QuantileRecalibration.fit": with_usual(
        cb.QuantileRecalibration().fit, y_prob=QUANTILES, y_true=REAL, classes=LEVELS
    ),
    "VarianceScaling.predict": with_usual(
        cb.VarianceScaling().fit(QUANTILES, REAL, classes=LEVELS).predict, y_prob=QUANTILES
    ),
    "PitDisplay()": with_usual(cb.PitDisplay),
    "PitDisplay.plot": drawn(
        cb.PitDisplay.from_predictions(REAL, QUANTILES, classes=LEVELS, draw=False).plot
    ),
    **{f"{name} of one event": partial(each, Y, P) for name, each in PREDICTIONS.items()},
    "calibration_error of classes": partial(cb.calibration_error, Y3, P3, kind="marginal"),
    "tabulate of classes": partial(cb.tabulate, Y3, P3),
    "certify of classes": partial(cb.certify, Y3, P3, kind="marginal", bins=4),
    "calibration_error of groups": partial(cb.calibration_error, Y, P, by=np.arange(len(Y)) % 2),
    "audit": partial(cb.audit, Y, P, by=np.arange(len(Y)) % 2, bins=4),
    "compare": partial(cb.compare, Y, P, P**2),
    "compare of classes": partial(cb.compare, Y3, P3, P3[::-1], kind="marginal"),
    "interval": error_of,
    "CalibrationMetric": of_metric,
    "CalibrationMonitor": of_monitor,
    "CalibrationMonitor.update": update_of_monitor,
    "stats.calibration_error": partial(stats.calibration_error, MARGINAL),
    "stats.reliability_curve": partial(stats.reliability_curve, MARGINAL, class_label=1),
    "stats.brier_decomposition": partial(stats.brier_decomposition, MARGINAL),
    "ranked_probability_score": partial(cb.ranked_probability_score, Y3, P3),
    "stats.corp_decomposition": partial(stats.corp_decomposition, TABLE),
    "CorpDecomposition.confidence_interval": stats.corp_decomposition(TABLE).confidence_interval,
    "stats.prudent_pds": with_usual(stats.prudent_pds, count=[5, 5], defaults=[0, 1]),
    "BinTable.from_counts": with_usual(
        cb.BinTable.from_counts, prediction=[0.1], count=[5], events=[1]
    ),
    "stats.certify": partial(stats.certify, TABLE),
    "stats.isotonic_curve": partial(stats.isotonic_curve, MARGINAL, class_label=1),
    "stats.consistency_limits": partial(stats.consistency_limits, TABLE),
    "ReliabilityDisplay": partial(cb.ReliabilityDisplay.from_predictions, Y, P, draw=False),
    "ReliabilityDisplay.from_table": partial(cb.ReliabilityDisplay.from_table, TABLE, draw=False),
    "ReliabilityDisplay.grid": partial(cb.ReliabilityDisplay.grid, Y3, P3, draw=False),
    "SelectiveDisplay": partial(cb.SelectiveDisplay.from_predictions, Y, P, draw=False),
    "SelectiveDisplay()": with_usual(cb.SelectiveDisplay),
    "SelectiveDisplay.plot": drawn(cb.SelectiveDisplay.from_predictions(Y, P, draw=False).plot),
    "SelectiveCurve.certificate": with_usual(cb.selective_curve(Y, P).certificate, threshold=0.8),
    "SelectiveCurve.threshold_for": cb.selective_curve(Y, P).threshold_for,
    "certify_label_shift": with_usual(partial(cb.certify_label_shift, Y, P), target_rate=0.4),
    "certify_label_shift of predictions": partial(cb.certify_label_shift, Y, P),
    "recommended_bins": partial(cb.recommended_bins, n=1000),
    "samples_to_balance": partial(stats.samples_to_balance, n_bins=10),
    "samples_to_calibrate": partial(cb.samples_to_calibrate, max_error=0.1),
    "samples_to_certify": partial(cb.samples_to_certify, max_error=0.5, n_bins=2),
    "smallest_certifiable_error": partial(cb.smallest_certifiable_error, n=1000, n_bins=5),
    "best_recalibrator": with_usual(
        partial(cb.best_recalibrator, Y, P), candidates=[cb.Identity()]
    ),
    "compare_tables": with_usual(cb.compare_tables, a=MARGINAL, b=MARGINAL),
    "load": cb.load,
    "read_log": with_usual(cb.read_log, path=LOG, format="jsonl"),
    "report": partial(cb.report, [0, 1] * 10, [0.25, 0.75] * 10),
    "calibration_scorer": lambda **options: cb.calibration_scorer(**options)(FITTED, X, Y),
    "recheck": with_usual(
        cb.recheck,
        certificate=cb.certify([0, 1] * 10, [0.25, 0.75] * 10, max_error=0.9),
        y_true=[0, 1] * 10,
        y_prob=[0.25, 0.75] * 10,
    ),
    "resolution_report": with_usual(
        cb.recalibrators.resolution_report, recalibrator=PLATT, y_prob=P, y_true=Y
    ),
    "apply_to_frame": with_usual(PLATT.apply_to_frame, data=FRAME, column="p"),
    "inverse": with_usual(PLATT.inverse, p=[0.5]),
    "RecalibratedClassifier": classified,
    "RecalibratedClassifier of prefit": with_usual(classified, cv="prefit", estimator=FITTED),
    "RecalibratedClassifier.fit": partial(cb.RecalibratedClassifier(cv=2).fit, X, Y),
    "ReliabilityDisplay()": cb.ReliabilityDisplay,
    "ReliabilityDisplay.plot": drawn(cb.ReliabilityDisplay.from_predictions(Y, P, draw=False).plot),
    "ReliabilityDisplay.draw": drawn(partial(cb.ReliabilityDisplay.from_predictions, Y, P)),
    "ReliabilityDisplay.of_table": with_usual(cb.ReliabilityDisplay.from_table, draw=False),
    "ReliabilityDisplay.from_estimator": with_usual(
        cb.ReliabilityDisplay.from_estimator, estimator=FITTED, X=X, y=Y, draw=False
    ),
    "ReliabilityGrid.plot": drawn(cb.ReliabilityDisplay.grid(Y3, P3, n_max=1, draw=False).plot),
    "Bins": lambda **options: cb.Bins(**{"edges": [0, 0.5, 1], **options}),
}
RULES = (cb.EqualMass, cb.EqualWidth, cb.Hybrid)
RECALIBRATORS = (
    cb.BetaScaling,
    cb.HistogramBinning,
    cb.IsotonicCalibration,
    cb.PlattScaling,
    cb.PriorShift,
    cb.QuadraticScaling,
    cb.ScalingBinning,
    cb.SplineCalibration,
    cb.TemperatureScaling,
)
OF_CLASSES = (cb.DirichletScaling, cb.JointBetaScaling, cb.MatrixScaling, cb.VectorScaling)
WRAPPERS = (cb.OneVsRest, cb.TopLabel)


def rule_call(rule):
    return lambda **options: cb.tabulate(Y, P, bins=rule(**options))


def recalibrator_call(made):
    return lambda **options: fitted(made(**options))


def classes_call(made):
    return lambda **options: fitted(made(**options), P3, Y3)


def wrapper_call(made):
    return lambda **options: fitted(made(**{"recalibrator": cb.PlattScaling(), **options}), P3, Y3)


def by_group_call(**options):
    made = cb.ByGroup(**{"recalibrator": cb.PlattScaling(), **options})
    groups = np.arange(len(Y)) % 2
    return made.fit(P, Y, by=groups).predict_proba(P, by=groups)


def labels_call(**options):
    made = cb.MultiLabel(**{"recalibrator": cb.PlattScaling(), **options})
    return fitted(made, P3, np.eye(3, dtype=int)[Y3])


MADE = {
    "MultiLabel": (cb.MultiLabel, labels_call),
    "ByGroup": (cb.ByGroup, by_group_call),
    **{each.__name__: (each, rule_call(each)) for each in RULES},
    **{each.__name__: (each, recalibrator_call(each)) for each in RECALIBRATORS},
    **{each.__name__: (each, classes_call(each)) for each in OF_CLASSES},
    **{each.__name__: (each, wrapper_call(each)) for each in WRAPPERS},
}
LEFT_OUT = {
    "y_true",
    "y_prob",
    "prob_a",
    "prob_b",
    "table",
    "self",
    "draw",
    "ax",
    "command",
    "title",
    "progress",  # a function, whose own exceptions are its caller's
    # Not for users to set: what the library notes about a certificate, and about bins it made.
    "digests",
    "overlap_unchecked",
    "origin",
    "rule",
    "requested",
}
PLOT_OPTIONS = ["band", "consistency", "counts", "error", "legend", "line_kw"]
PLOT_OPTIONS += ["scale", "zoom", "climatology"]
# Where a signature does not tell, where data come as options, or where what others sweep is slow.
NAMED = {
    "best_recalibrator": ["candidates", "cv", "scoring", "sample_weight", "classes"],
    "compare_tables": ["a", "b", "class_weight", "confidence_level"],
    "recheck": ["certificate", "y_true", "y_prob", "classes", "pos_label", "data"],
    "report": [
        "kind",
        "classes",
        "max_error",
        "confidence_level",
        "title",
        "command",
        "data",
        "before",
    ],
    "calibration_scorer": ["norm", "bins", "kind", "debias", "squared"],
    "resolution_report": ["recalibrator", "y_prob", "y_true", "sample_weight"],
    "apply_to_frame": ["data", "column", "output"],
    "RecalibratedClassifier": ["estimator", "recalibrator", "cv"],
    "RecalibratedClassifier of prefit": ["estimator", "recalibrator"],
    "RecalibratedClassifier.fit": ["sample_weight"],
    "ReliabilityDisplay.plot": ["ax", *PLOT_OPTIONS],
    "ReliabilityDisplay.draw": ["draw", "method"],
    "ReliabilityDisplay.of_table": ["table"],
    "ReliabilityDisplay.from_estimator": ["estimator", "y", "name"],
    "ReliabilityGrid.plot": PLOT_OPTIONS,
    "SelectiveDisplay": ["name", "draw", "band", "thresholds", "kind", "by"],
    "SelectiveDisplay()": ["curves"],
    "certify_coverage": ["classes", "confidence_level", "simultaneous", "data", "by", "cluster"],
    "pit_histogram": ["classes", "confidence_level", "simultaneous", "data"],
    "pinball_loss": ["classes", "sample_weight", "data"],
    "crps": ["mean", "std", "sample_weight"],
    "crps of samples": ["samples"],
    "normal_quantiles": ["mean", "std", "levels"],
    "sample_quantiles": ["samples", "levels"],
    "ranked_probability_score": ["classes", "sample_weight", "data", "input"],
    "certify of labels": ["classes", "class_weight", "kind", "input"],
    "certify of quantiles": ["classes", "class_weight", "bins", "target", "norm", "input"],
    "QuantileRecalibration.fit": ["y_prob", "y_true", "classes", "sample_weight"],
    "VarianceScaling.predict": ["y_prob"],
    "PitDisplay()": ["histogram"],
    "PitDisplay.plot": ["ax", "band"],
    "certify_label_shift": [
        "target_rate",
        "max_error",
        "norm",
        "confidence_level",
        "rng",
        "kind",
        "classes",
        "pos_label",
    ],
    "certify_label_shift of predictions": ["target_prob"],
    "SelectiveDisplay.plot": ["ax", "band"],
    "SelectiveCurve.certificate": ["threshold", "simultaneous"],
    "stats.prudent_pds": ["count", "defaults", "confidence_level", "correlation"],
    "BinTable.from_counts": ["prediction", "count", "events"],
}
OPTIONS = {
    "read_log": cb.read_log,
    "interval": cb.calibration_error(Y, P).confidence_interval,
    "CalibrationMetric": cb.CalibrationMetric,
    "CalibrationMonitor": cb.CalibrationMonitor,
    "CalibrationMonitor.update": cb.CalibrationMonitor.update,
    "Bins": cb.Bins,
}


def options_of(function):
    """Return the names of the options of a function that may have any value."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        name
        for name, option in inspect.signature(function).parameters.items()
        if option.kind in kinds and name not in LEFT_OUT
    ]


CASES = [
    *(
        (name, option)
        for name, f in FUNCTIONS.items()
        for option in NAMED.get(name) or options_of(OPTIONS.get(name, f))
    ),
    *((name, option) for name, (made, _) in MADE.items() for option in options_of(made)),
]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_any_value_is_understood_or_refused(name, option):
    call = FUNCTIONS[name] if name in FUNCTIONS else MADE[name][1]
    wrong = []
    for what, value in HOSTILE.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                call(**{option: value})
            except CalibrantError as error:
                if len(str(error)) > 1000:
                    wrong.append(f"{what}: a message of {len(str(error)):,} letters")
            except OSError:
                if name != "load":  # a file that is not there is said as Python says it
                    raise
            except Exception as error:
                wrong.append(f"{what}: {type(error).__name__}: {error!s:.150}")
    assert not wrong, "\n".join(wrong)


def test_folds_that_are_none_are_refused_with_their_number():
    rows = np.arange(80)
    folds = {
        "fold 1": [[1, 2]],
        "fold 2": [(rows[::2], rows[1::2]), (rows, [80])],
        "got <class": type(cb),
    }
    for message, cv in folds.items():
        with pytest.raises(CalibrantError, match=message):
            classified(cv=cv)


def test_there_are_no_more_folds_than_rows():
    rows, labels, weights = X[:12], Y[:12], [1] * 10 + [0, 0]
    cb.RecalibratedClassifier(cv=10).fit(rows, labels, weights)
    for cv in (11, 2**40, 10**400):
        with pytest.raises(CalibrantError, match="at most the number of rows with a weight, 10"):
            cb.RecalibratedClassifier(cv=cv).fit(rows, labels, weights)


def test_a_plan_for_very_many_outputs_is_answered():
    """The work does not grow with the number of outputs."""
    many = cb.smallest_certifiable_error(10**8, n_bins=10**6)
    assert 0.02 < many < 0.04


def test_a_tolerance_of_almost_1_is_refused_after_few_steps():
    near = 1 - 1e-15
    with pytest.raises(CalibrantError, match="More than 1e15 rows"):
        cb.samples_to_certify(near, levels=[0.0], power=near, true_error=near * (1 - 1e-12))


@pytest.mark.parametrize("power", [1e-320, 1e-15, 1 - 1e-16])
def test_a_power_that_is_no_plan_is_refused(power):
    with pytest.raises(CalibrantError, match="nine times in ten"):
        cb.samples_to_certify(0.05, n_bins=1000, power=power)


@pytest.mark.parametrize("balance", [np.nextafter(1, 2), 1 + 1e-12])
def test_a_balance_that_no_rows_reach_is_refused(balance):
    with pytest.raises(CalibrantError, match="larger balance"):
        stats.samples_to_balance(10, balance=float(balance))
