"""calibrant demo: train on a third of the rows, repair on another, certify on the last."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from calibrant.cli import OK
from calibrant.cli.output import aligned, say
from calibrant.cli.parser import add_command, add_option

if TYPE_CHECKING:
    from calibrant._types import AnyArray, FloatArray
    from calibrant.stats import Certificate

EXAMPLES = """
calibrant demo
calibrant demo -o /tmp/report.html
"""
NOTES = """
Simulated rows and two data sets of scikit-learn, so nothing is downloaded. A third of the rows
trains a classifier, a third repairs its probabilities, a third checks the result. The report shows
naive Bayes on the simulated rows before and after scaling-binning.
"""
HEAD = ("repair", "says", "true", "error", "95% interval", "error at most {}?")
SIMULATED = 30_000
"""Rows: a third each to train, to repair and to certify."""


class Outcome(NamedTuple):
    """A model after one repair (None: as it is), on the rows that check it.

    With two classes it is judged by the probability of the second, with more by the confidence
    in its prediction.
    """

    repair: str | None
    events: AnyArray
    predicted: FloatArray
    certificate: Certificate


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "demo", run, "measure, repair and certify on built-in data", EXAMPLES, NOTES
    )
    about = "the report (default report.html)"
    add_option(command, "--output", default="report.html", help=about)


def run(args: argparse.Namespace) -> int:
    """Repair three models in all ways, and write the report of the first, before and after."""
    import numpy as np

    from calibrant.reports import report

    page = None
    for name, max_error, classifier, inputs, target in models():
        rows = np.random.default_rng(0).permutation(len(target))
        train, repair, check = np.array_split(rows, 3)
        classifier.fit(inputs[train], target[train])
        known, fresh = (
            (classifier.predict_proba(inputs[part]), target[part]) for part in (repair, check)
        )
        outcomes = list(repaired(known, *fresh, max_error))
        head = (*HEAD[:-1], HEAD[-1].format(max_error))
        say(
            f"{name}: {train.size:,} rows train, {repair.size:,} repair, {check.size:,} check it\n"
            f"{aligned([head, *map(_row, outcomes)])}\n"
        )
        if page is None:
            first, last = outcomes[0], outcomes[-1]
            page = report(
                last.events,
                last.predicted,
                max_error=max_error,
                levels=last.certificate.levels,
                title="Naive Bayes, before and after repair",
                command="calibrant demo",
                before=first.predicted,
            )
    say("undecided: too few rows, or continuous outputs, which can never be certified")
    say("intervals are two-sided and approximate; verdicts rest on exact bounds")
    if page is not None:
        page.save(args.output)
        say(f"Report: {os.path.abspath(args.output)}")
    return OK


def _row(outcome: Outcome) -> tuple[str, ...]:
    """Measure the error in the bins that the certificate suggests."""
    from calibrant.bins import BinsLike, Distinct
    from calibrant.measure import calibration_error

    repair, events, predicted, certificate = outcome
    bins: BinsLike = Distinct() if certificate.table.is_binned_model else "auto"
    error = calibration_error(events, predicted, bins=bins)
    low, high = error.confidence_interval()
    verdict = str(certificate.verdict)
    if verdict == "certified":
        verdict += f" (<= {certificate.upper_bound:.3f})"
    elif verdict == "refuted":
        verdict += f" (>= {certificate.lower_bound:.3f})"
    shares = (f"{predicted.mean():.1%}", f"{events.mean():.1%}")
    return repair or "as it is", *shares, f"{error.value:.3f}", f"{low:.3f} to {high:.3f}", verdict


def models() -> Iterator[tuple[str, float, Any, FloatArray, AnyArray]]:
    """Yield the name, the tolerated error, the classifier and the data of each model."""
    from sklearn.datasets import load_digits
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB

    digits = load_digits(return_X_y=True)
    forest = RandomForestClassifier(n_estimators=100, random_state=0)
    yield "naive Bayes on simulated rows", 0.03, GaussianNB(), *simulated()
    yield "naive Bayes on handwritten digits", 0.15, GaussianNB(), *digits
    yield "random forest on handwritten digits", 0.15, forest, *digits


def simulated() -> tuple[FloatArray, AnyArray]:
    """Return rows with six readings of the same sign: naive Bayes counts its evidence six times."""
    import numpy as np

    rng = np.random.default_rng(0)
    happened = rng.uniform(size=SIMULATED) < 0.4
    sign = rng.normal(loc=happened)
    return sign[:, None] + rng.normal(scale=0.8, size=(SIMULATED, 6)), happened.astype(np.int64)


def repaired(
    known: tuple[FloatArray, AnyArray], probs: FloatArray, labels: AnyArray, max_error: float
) -> Iterator[Outcome]:
    """Check a model as it is, and after each repair of its probability or confidence."""
    from calibrant import recalibrators
    from calibrant.verify import certify

    several = probs.shape[1] > 2
    events = probs.argmax(axis=1) == labels if several else labels == 1
    tempered = recalibrators.TemperatureScaling().fit(*known).predict_proba(probs)
    for name, outputs in ((None, probs), ("temperature", tempered)):
        predicted = outputs.max(axis=1) if several else outputs[:, 1]
        yield Outcome(name, events, predicted, certify(events, predicted, max_error=max_error))
    few = 5 if several else 12  # 599 rows certify a few outputs, 10,000 more of them
    for name, method in {
        "isotonic": recalibrators.IsotonicCalibration(),
        "histogram-binning": recalibrators.HistogramBinning(bins=few),
        "scaling-binning": recalibrators.ScalingBinning(bins=few),
    }.items():
        if several:
            top = recalibrators.TopLabel(method).fit(*known)
            certificate = top.certify(probs, labels, max_error=max_error)
            predicted = top.predict_confidence(probs)[1]
        else:
            method.fit(known[0][:, 1], known[1])
            certificate = method.certify(probs[:, 1], labels, max_error=max_error)
            predicted = method.predict_proba(probs[:, 1])
        yield Outcome(name, events, predicted, certificate)
