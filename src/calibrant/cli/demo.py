"""calibrant demo: train on a third of the rows, repair on another, certify on the last."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.output import aligned, say
from calibrant.cli.parser import add_command

if TYPE_CHECKING:
    from calibrant._types import AnyArray, FloatArray
    from calibrant.stats import CalibrationErrorResult, Certificate

EXAMPLES = """
calibrant demo
calibrant demo -o /tmp/report.html
"""
NOTES = """
Two data sets of scikit-learn, so nothing is downloaded. A third of the rows trains a classifier, a
third repairs its confidence, a third checks the result. The report is that of the random forest
on the digits after scaling-binning.
"""
TOLERANCE = 0.15
HEAD = ("repair", "says", "is right", "error", "95% interval", f"error at most {TOLERANCE}?")


@dataclass(frozen=True)
class Model:
    """A trained classifier, and what it says of the rows that repair and check it."""

    name: str
    split: tuple[int, int, int]
    probs: dict[str, FloatArray]
    labels: dict[str, AnyArray]


@dataclass(frozen=True)
class Outcome:
    """A model after one repair (None: as it is), on the rows that check it."""

    repair: str | None
    right: AnyArray
    confidence: FloatArray
    error: CalibrationErrorResult
    certificate: Certificate


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "demo", run, "show the whole story on data that is at hand", EXAMPLES, NOTES
    )
    command.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="report.html",
        help="the report (default report.html)",
    )


def run(args: argparse.Namespace) -> int:
    """Repair three models in all ways, and write the report of the random forest."""
    from calibrant.reports import report

    page = None
    for model in models():
        outcomes = list(repaired(model))
        train, repair, check = model.split
        say(f"{model.name}: {train} rows train it, {repair} repair it, {check} check")
        say(f"{aligned([HEAD, *map(_row, outcomes)])}\n")
        if model.name.startswith("random forest"):
            last = outcomes[-1]
            page = report(
                last.right,
                last.confidence,
                max_error=TOLERANCE,
                levels=last.certificate.levels,
                title=f"{model.name}, after {last.repair}",
                command="calibrant demo",
            )
    say("undecided: too few rows, or continuous outputs, which can be refuted but never certified")
    say("intervals are two-sided and approximate; verdicts rest on exact bounds")
    if page is not None:
        page.save(args.output)
        say(f"Report: {os.path.abspath(args.output)}")
    return OK


def _row(outcome: Outcome) -> tuple[str, ...]:
    interval, certificate = outcome.error.confidence_interval(), outcome.certificate
    verdict = str(certificate.verdict)
    if verdict == "certified":
        verdict += f" (<= {certificate.upper_bound:.3f})"
    elif verdict == "refuted":
        verdict += f" (>= {certificate.lower_bound:.3f})"
    return (
        outcome.repair or "as it is",
        f"{outcome.confidence.mean():.1%}",
        f"{outcome.right.mean():.1%}",
        f"{outcome.error.value:.3f}",
        f"{interval.low:.3f} to {interval.high:.3f}",
        verdict,
    )


def models() -> Iterator[Model]:
    """Train classifiers on a third of each data set, and predict the two other thirds."""
    from sklearn.datasets import load_breast_cancer, load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB

    forest = RandomForestClassifier(n_estimators=100, random_state=0)
    yield _trained("naive Bayes on handwritten digits", GaussianNB(), load_digits())
    yield _trained("random forest on handwritten digits", forest, load_digits())
    yield _trained("naive Bayes on breast cancer", GaussianNB(), load_breast_cancer())


def _trained(name: str, classifier: Any, data: Any) -> Model:
    import numpy as np

    rows = np.random.default_rng(0).permutation(len(data.target))
    train, repair, check = np.array_split(rows, 3)
    classifier.fit(data.data[train], data.target[train])
    parts = {"repair": repair, "check": check}
    return Model(
        name,
        (train.size, repair.size, check.size),
        {part: classifier.predict_proba(data.data[rows]) for part, rows in parts.items()},
        {part: data.target[rows] for part, rows in parts.items()},
    )


def repaired(model: Model) -> Iterator[Outcome]:
    """Check the model as it is, and after each repair of the confidence in its prediction."""
    from calibrant import recalibrators
    from calibrant.verify import certify

    probs, labels = model.probs["check"], model.labels["check"]
    known = (model.probs["repair"], model.labels["repair"])
    right = probs.argmax(axis=1) == labels
    tempered = recalibrators.TemperatureScaling().fit(*known).predict_proba(probs)
    for name, confidence in ((None, probs.max(axis=1)), ("temperature", tempered.max(axis=1))):
        certificate = certify(right, confidence, max_error=TOLERANCE)
        yield _outcome(name, right, confidence, certificate)
    for name, method in {
        "isotonic": recalibrators.IsotonicCalibration(),
        "histogram-binning": recalibrators.HistogramBinning(bins=5),
        "scaling-binning": recalibrators.ScalingBinning(bins=5),
    }.items():
        fitted = recalibrators.TopLabel(method).fit(*known)
        certificate = fitted.certify(probs, labels, max_error=TOLERANCE)
        yield _outcome(name, right, fitted.predict_confidence(probs)[1], certificate)


def _outcome(
    repair: str | None, right: AnyArray, confidence: FloatArray, certificate: Certificate
) -> Outcome:
    """Measure the error in the bins that the certificate suggests."""
    from calibrant.bins import BinsLike, Distinct
    from calibrant.measure import calibration_error

    bins: BinsLike = Distinct() if certificate.table.is_binned_model else "auto"
    error = calibration_error(right, confidence, bins=bins)
    return Outcome(repair, right, confidence, error, certificate)
