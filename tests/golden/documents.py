"""Saved documents of every kind, and the numbers that they must give for ever.

The rows are made by whole-number arithmetic, so that they are the same with every version of NumPy.
"""

from __future__ import annotations

import json
import warnings

import numpy as np

import calibrant as cb
from calibrant.paper import STUDIES
from calibrant.paper.study import StudyResult
from calibrant.recalibrators.saving import from_json as recalibrator_from_json
from calibrant.recalibrators.saving import to_json as recalibrator_to_json

N, K = 400, 3
ROW = np.arange(N)
P = ((ROW * 7919) % 997 + 0.5) / 997
Y = (((ROW * 104729) % 1009) / 1009 < P**1.4).astype(int)
ROUNDED = np.round(P, 1)
WEIGHTS = 0.5 + (ROW * 31 % 17) / 17
GROUP = np.where(ROW % 3 > 0, "north", "south")
PROBS = np.column_stack([(ROW * step) % 101 + 1.0 for step in (37, 53, 71)])
PROBS /= PROBS.sum(axis=1, keepdims=True)
CLASS = np.where(ROW % 4 > 0, PROBS.argmax(axis=1), ROW % 3)
NAMES = np.array(["cat", "dog", "owl"])[CLASS]
GRID = np.array([0.0, 1e-12, 0.01, 0.1, 0.25, 1 / 3, 0.5, 0.6180339887, 0.75, 0.9, 0.99, 1.0])
CLASS_GRID = np.array(
    [[1.0, 0, 0], [0.2, 0.3, 0.5], [1 / 3, 1 / 3, 1 / 3], [0.05, 0.9, 0.05], [0.6, 0.4, 0]]
)
LOGITS = np.log(P / (1 - P))
LABELS = (((ROW[:, None] * [104729, 7919, 31]) % 1009) / 1009 < PROBS).astype(int)
OUTCOME = P + (ROW * 31 % 101) / 101 - 0.5
QUANTILES = np.column_stack([P - 0.3, P, P + 0.25])
QUANTILE_LEVELS = [0.1, 0.5, 0.9]
LEVELS = [float(x) for x in np.unique(ROUNDED)]


def fit(recalibrator, *rows, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return recalibrator_to_json(recalibrator.fit(*(rows or (P, Y)), **options))


def fit_classes(recalibrator):
    return fit(recalibrator, PROBS, NAMES, classes=["cat", "dog", "owl"])


def certificate(y=Y, p=ROUNDED, **options):
    return cb.certify(y, p, **{"max_error": 0.2, **options}).to_json()


class Cube:
    """A scaler of somebody's own, of which a document holds the steps."""

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return 0.1 + 0.8 * X[:, 0] ** 3


def repair_of_quantiles(repair):
    return json.dumps(repair.fit(QUANTILES, OUTCOME, classes=QUANTILE_LEVELS).to_dict())


def monitor(**options):
    made = cb.CalibrationMonitor(**options)
    for day in range(4):
        rows = slice(100 * day, 100 * (day + 1))
        made.update(Y[rows], P[rows], name=f"day {day}")
    return made.to_json()


def metric(group=None, **rows):
    made = cb.CalibrationMetric(bins="width:5", **({} if group is None else {"by": group}))
    made.update(Y, P, **rows)
    return json.dumps({"format": "metric", "by": group, "state": made.state_dict()})


RECALIBRATORS = {
    "identity": lambda: fit(cb.Identity()),
    "platt": lambda: fit(cb.PlattScaling()),
    "platt-logits": lambda: fit(cb.PlattScaling(input="logits"), LOGITS, Y),
    "platt-weighted": lambda: fit(cb.PlattScaling(), P, Y, WEIGHTS),
    "beta": lambda: fit(cb.BetaScaling()),
    "quadratic": lambda: fit(cb.QuadraticScaling()),
    "temperature": lambda: fit(cb.TemperatureScaling()),
    "temperature-classes": lambda: fit_classes(cb.TemperatureScaling()),
    "prior-shift": lambda: fit(cb.PriorShift(target_mean=0.2)),
    "isotonic": lambda: fit(cb.IsotonicCalibration()),
    "venn-abers": lambda: fit(cb.VennAbers(), P[:60], Y[:60]),
    "histogram-binning": lambda: fit(cb.HistogramBinning(bins=8)),
    "histogram-binning-width": lambda: fit(cb.HistogramBinning(bins="width:5")),
    "scaling-binning": lambda: fit(cb.ScalingBinning(bins=8)),
    "scaling-binning-beta": lambda: fit(
        cb.ScalingBinning(bins="hybrid:6", scaler=cb.BetaScaling())
    ),
    "vector": lambda: fit_classes(cb.VectorScaling()),
    "matrix": lambda: fit_classes(cb.MatrixScaling()),
    "one-vs-rest": lambda: fit_classes(cb.OneVsRest(cb.PlattScaling())),
    "one-vs-rest-bins": lambda: fit_classes(
        cb.OneVsRest(cb.ScalingBinning(bins=5), normalize=False)
    ),
    "multi-label": lambda: fit(cb.MultiLabel(cb.ScalingBinning(bins=5)), PROBS, LABELS),
    "top-label": lambda: fit_classes(cb.TopLabel(cb.HistogramBinning(bins=5))),
    "scaling-binning-steps": lambda: recalibrator_to_json(
        cb.ScalingBinning(bins=6, scaler=Cube()).fit(P, Y).as_steps()
    ),
    "spline": lambda: fit(cb.SplineCalibration()),
    "dirichlet": lambda: fit_classes(cb.DirichletScaling()),
    "joint-beta": lambda: fit_classes(cb.JointBetaScaling()),
    "one-vs-rest-spline": lambda: fit_classes(cb.OneVsRest(cb.SplineCalibration(), normalize=True)),
    "by-group": lambda: fit(cb.ByGroup(cb.PlattScaling()), by=GROUP),
    "by-group-map": lambda: fit(
        cb.ByGroup(cb.HistogramBinning(bins=4), pool=20, own="map"), by=GROUP
    ),
    "quantile-recalibration": lambda: repair_of_quantiles(cb.QuantileRecalibration()),
    "variance-scaling": lambda: repair_of_quantiles(cb.VarianceScaling()),
    "from-table": lambda: recalibrator_to_json(
        cb.PlattScaling().fit_table(cb.tabulate(Y, P, bins="width:50"))
    ),
}
CERTIFICATES = {
    **{
        f"certificate-{norm}-{target}": lambda norm=norm, target=target: certificate(
            norm=norm, target=target
        )
        for norm in ("l1", "l2", "max")
        for target in ("population", "sample")
    },
    "certificate-refuted": lambda: certificate(1 - Y, max_error=0.05),
    "certificate-undecided": lambda: certificate(max_error=0.07),
    "certificate-no-verdict": lambda: certificate(max_error=None),
    "certificate-continuous": lambda: certificate(p=P, max_error=0.02),
    "certificate-levels": lambda: certificate(levels=LEVELS),
    "certificate-looks": lambda: certificate(looks=5, confidence_level=0.9),
    "certificate-mass": lambda: certificate(min_bin_mass=0.02),
    "certificate-mass-learned": lambda: certificate(min_bin_mass="learned"),
    "certificate-clusters": lambda: certificate(cluster=ROW // 2, draws=1),
    "certificate-draws": lambda: certificate(cluster=ROW // 2, draws=4),
    "certificate-marginal": lambda: certificate(
        NAMES, np.round(PROBS, 1) / np.round(PROBS, 1).sum(1, keepdims=True),
        kind="marginal", classes=["cat", "dog", "owl"], bins=4,
    ),
    "certificate-top-label": lambda: certificate(CLASS, PROBS, bins=4),
    "certificate-multi-label": lambda: certificate(LABELS, PROBS, kind="multi-label", bins=4),
    "certificate-ordinal": lambda: certificate(CLASS, PROBS, kind="ordinal", bins=4),
    "certificate-quantile": lambda: certificate(
        OUTCOME, QUANTILES, kind="quantile", classes=QUANTILE_LEVELS
    ),
    "certificate-of-a-repair": lambda: cb.HistogramBinning(bins=4)
    .fit(P[::2], Y[::2])
    .certify(P[1::2], Y[1::2], max_error=0.3)
    .to_json(),
}  # fmt: skip
TABLES = {
    "table": lambda: cb.tabulate(Y, P, bins=7).to_json(),
    "table-levels": lambda: cb.tabulate(Y, ROUNDED, bins="distinct").to_json(),
    "table-weighted": lambda: cb.tabulate(Y, P, bins=7, sample_weight=WEIGHTS).to_json(),
    "table-pos-label": lambda: cb.tabulate(
        np.where(Y, "yes", "no"), P, pos_label="yes", bins="width:4"
    ).to_json(),
    "table-marginal": lambda: cb.tabulate(CLASS, PROBS, kind="marginal", bins=4).to_json(),
    "table-multi-label": lambda: cb.tabulate(LABELS, PROBS, kind="multi-label", bins=4).to_json(),
    "table-ordinal": lambda: cb.tabulate(CLASS, PROBS, kind="ordinal", bins=4).to_json(),
    "table-quantile": lambda: cb.tabulate(
        OUTCOME, QUANTILES, kind="quantile", classes=QUANTILE_LEVELS
    ).to_json(),
    "table-top-label": lambda: cb.tabulate(CLASS, PROBS, bins=4).to_json(),
    "tables-by-group": lambda: cb.tabulate(Y, P, bins=4, by=GROUP).to_json(),
    "tables-by-cuts": lambda: cb.tabulate(
        Y, P, bins=4, by={"region": GROUP, "age": (ROW % 90, [0, 40, 65, 120])}
    ).to_json(),
}
OTHERS = {
    "monitor": lambda: monitor(max_error=0.05),
    "monitor-reference": lambda: monitor(reference=cb.tabulate(Y[::-1], P[::-1], bins=5)),
    "monitor-digest": lambda: monitor(max_error=0.05),
    "monitor-reference-digest": lambda: monitor(
        reference=cb.tabulate(Y[::-1], P[::-1], bins=5), confidence_level=0.9
    ),
    "metric": metric,
    "metric-weighted": lambda: metric(sample_weight=WEIGHTS),
    "metric-by-group": lambda: metric("region", by=GROUP),
    "study": lambda: STUDIES["example-3-1"].run(quick=True).to_json(),
}
DOCUMENTS = {**RECALIBRATORS, **CERTIFICATES, **TABLES, **OTHERS}


def numbers(document):
    """Return the numbers that a document gives, by what it says that it is."""
    text = json.dumps(document)
    return {
        "calibrant.recalibrator": _of_recalibrator,
        "calibrant.quantile_recalibrator": _of_quantiles,
        "calibrant.certificate": _of_certificate,
        "calibrant.table": lambda text: _of_table(cb.BinTable.from_json(text)),
        "calibrant.tables": _of_tables,
        "calibrant.monitor": _of_monitor,
        "calibrant.study": _of_study,
        "metric": _of_metric,
    }[document["format"]](text)


def _of_recalibrator(text):
    made = recalibrator_from_json(text)
    rows = GRID if made.classes_.size == 2 else CLASS_GRID
    if made.input == "logits":
        rows = np.array([-800.0, -3.0, -0.1, 0.0, 0.7, 4.0, 800.0])
    by = {"by": np.resize(["north", "south"], len(rows))} if isinstance(made, cb.ByGroup) else {}
    return {
        "predictions": made.predict_proba(rows, **by).tolist(),
        "classes": made.classes_.tolist(),
        "own rows": _verdict_on_own_rows(made),
        "again": recalibrator_from_json(recalibrator_to_json(made))
        .predict_proba(rows, **by)
        .tolist(),
    }


def _of_quantiles(text):
    made = recalibrator_from_json(text)
    return {"levels": made.levels_.tolist(), "quantiles": made.predict(QUANTILES[:5]).tolist()}


def _verdict_on_own_rows(made):
    """Say whether the rows of the fit are still known again, by the fingerprint of the document."""
    p, y = (LOGITS if made.input == "logits" else P, Y)
    if made.classes_.size > 2:
        p, y = PROBS, NAMES
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            made.certify(p, y, **({"by": GROUP} if isinstance(made, cb.ByGroup) else {}))
    except (cb.exceptions.CalibrantError, UserWarning) as error:
        return type(error).__name__
    return "accepted"


def _of_certificate(text):
    made = cb.Certificate.from_json(text)
    again = made.recheck()
    return {
        "verdict": made.verdict,
        "upper_bound": made.upper_bound,
        "lower_bound": made.lower_bound,
        "recheck": again.agrees,
        "differences": list(again.differences),
        "again": [  # a later version may prove more, never less
            max(made.upper_bound, again.certificate.upper_bound),
            min(made.lower_bound, again.certificate.lower_bound),
        ],
    }


def _of_table(table):
    """Estimates and an interval; what may be proved of a table is for later versions to sharpen."""
    errors = {norm: cb.calibration_error(table, norm=norm) for norm in ("l1", "l2", "max")}
    low, high = errors["l2"].confidence_interval()
    return {
        "n": table.n,
        **{norm: error.value for norm, error in errors.items()},
        "interval": [low, high],
        "doubled": cb.calibration_error(table + table, debias=False).value,
    }


def _of_tables(text):
    tables = cb.Tables.from_json(text)
    return {str(key): _of_table(tables[key]) for key in tables}


def _of_monitor(text):
    made = cb.CalibrationMonitor.from_json(text)
    before = [made.alarm, len(made.batches)]
    made.update(Y[::-1], P[::-1] ** 3)
    return {"before": before, "alarm": made.alarm, "since": made.since}


def _of_metric(text):
    document = json.loads(text)
    by = document["by"]
    made = cb.CalibrationMetric(bins="width:5", **({} if by is None else {"by": by}))
    made.load_state_dict(document["state"])
    groups = {} if by is None else {str(k): e.value for k, e in made.compute_by().items()}
    before = made.compute().value
    made.update(Y, P, **({} if by is None else {"by": GROUP}))
    return {"before": before, "after": made.compute().value, **groups}


def _of_study(text):
    made = StudyResult.from_json(text)
    return {"rows": made.rows, "findings": [one.estimate.value for one in made.output.findings]}
