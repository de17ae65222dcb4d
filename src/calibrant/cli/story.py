"""The story of `calibrant demo`: train, repair on other rows, certify on yet others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB

from calibrant import measure, verify
from calibrant._types import AnyArray, FloatArray
from calibrant.bins import BinsLike, Distinct
from calibrant.recalibrators import (
    HistogramBinning,
    IsotonicCalibration,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
)

if TYPE_CHECKING:
    from calibrant.stats import CalibrationErrorResult, Certificate

TOLERANCE = 0.15
REPAIRS: dict[str, Any] = {
    "isotonic": IsotonicCalibration,
    "histogram-binning": lambda: HistogramBinning(n_bins=5),
    "scaling-binning": lambda: ScalingBinning(n_bins=5),
}


@dataclass(frozen=True)
class Scene:
    """A classifier on a data set, and what it said of the rows that repair and check it."""

    data: str
    model: str
    split: tuple[int, int, int]
    probs: dict[str, FloatArray]
    labels: dict[str, AnyArray]


@dataclass(frozen=True)
class Outcome:
    """A model after one repair (None: as it is), on the rows that check it."""

    scene: Scene
    repair: str | None
    right: AnyArray
    confidence: FloatArray
    error: CalibrationErrorResult
    certificate: Certificate


def scenes() -> Iterator[Scene]:
    """Train classifiers on a third of each data set, and predict the two other thirds."""
    forest = RandomForestClassifier(n_estimators=100, random_state=0)
    yield _scene("handwritten digits", load_digits(), "naive Bayes", GaussianNB())
    yield _scene("handwritten digits", load_digits(), "random forest", forest)
    yield _scene("breast cancer", load_breast_cancer(), "naive Bayes", GaussianNB())


def _scene(name: str, data: Any, model_name: str, model: Any) -> Scene:
    rows = np.random.default_rng(0).permutation(len(data.target))
    train, repair, check = np.array_split(rows, 3)
    model.fit(data.data[train], data.target[train])
    parts = {"repair": repair, "check": check}
    return Scene(
        name,
        model_name,
        (train.size, repair.size, check.size),
        {part: model.predict_proba(data.data[i]) for part, i in parts.items()},
        {part: data.target[i] for part, i in parts.items()},
    )


def outcomes(scene: Scene) -> Iterator[Outcome]:
    """Check the model as it is, and after each repair of the confidence in its prediction."""
    probs, labels = scene.probs["check"], scene.labels["check"]
    known = (scene.probs["repair"], scene.labels["repair"])
    right = probs.argmax(axis=1) == labels
    yield _outcome(scene, None, right, probs.max(axis=1))
    tempered = TemperatureScaling().fit(*known).predict_proba(probs)
    yield _outcome(scene, "temperature", right, tempered.max(axis=1))
    for name, make in REPAIRS.items():
        repaired = TopLabel(make()).fit(*known)
        certificate = repaired.certify(probs, labels, max_error=TOLERANCE)
        confidence = repaired.predict_confidence(probs)[1]
        yield _outcome(scene, name, right, confidence, certificate)


def _outcome(
    scene: Scene,
    repair: str | None,
    right: AnyArray,
    confidence: FloatArray,
    certificate: Certificate | None = None,
) -> Outcome:
    certificate = certificate or verify.certify(right, confidence, max_error=TOLERANCE)
    bins: BinsLike = Distinct() if certificate.table.is_binned_model else "auto"
    error = measure.calibration_error(right, confidence, bins=bins)
    return Outcome(scene, repair, right, confidence, error, certificate)
