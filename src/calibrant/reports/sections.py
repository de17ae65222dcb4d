"""The sections of the page, from the verdict to where it all comes from."""

from __future__ import annotations

import platform
from importlib.metadata import version

import numpy as np

from calibrant._html import (
    Content,
    Element,
    bullets,
    element,
    scrolling,
    section,
    short,
    shown,
    table,
)
from calibrant._svg_bars import ErrorBar, error_bar
from calibrant._version import __version__
from calibrant.recalibrators.selection import RecalibratorScores
from calibrant.reports.findings import FOLDS, Findings
from calibrant.reports.verdict import bounds_words, error_bar_words, figures, key_figures
from calibrant.reports.wording import percent, points
from calibrant.table import describe_bins

PACKAGES = ("numpy", "scipy", "scikit-learn")
COMMAND_LENGTH = 4000  # a command may name hundreds of files
SHARES = np.array([1.0, 0.9, 0.75, 0.5, 0.25, 0.1])
"""Of rows answered, in the section on confident rows."""
PROBLEMS = {
    "binary": "the probability of one event",
    "top-label": "confidence in the top answer of {:,} classes",
    "marginal": "the probabilities of {:,} classes",
    "multi-label": "the probabilities of {:,} labels",
    "ordinal": "the probabilities of {:,} ordered classes",
    "quantile": "{:,} quantiles of a real outcome",
}


def error(findings: Findings) -> Element:
    """Return the error on one scale with its interval, its bounds and chance alone."""
    result, proof, (low, high) = findings.error, findings.certificate, findings.interval
    bounds = None if proof.agrees_too_well else (proof.lower_bound, proof.upper_bound)
    bar = ErrorBar(result.value, (low, high), result.noise_floor, bounds, proof.max_error)
    note = (
        "To scale, in percentage points: the dot is the estimate, the bar its interval, the "
        "grey box what chance alone would give"
    )
    note += "; the bracket below is what is proved." if bounds else "."
    words = [
        "The number is known as the l2 calibration error, with its bias removed. It was measured "
        f"in {describe_bins(result.table)}."
    ]
    if not result.table.is_binned_model:
        words.append(
            "Groups mix different predictions, so that errors within a group can cancel: the "
            "number is a lower bound of the model's error."
        )
    if result.unresolved_mass > 0:
        words.append(
            f"{percent(result.unresolved_mass)} of the rows sit alone in their group, where "
            "error and chance cannot be told apart."
        )
    words += [f"{remark[0].upper()}{remark[1:]}." for remark in findings.interval.notes]
    return section(
        "error",
        "How large the error is",
        error_bar(bar, points, error_bar_words(findings)),
        element("p", note, class_="note"),
        element("p", bounds_words(findings)) if bounds else None,
        element("p", " ".join(words)),
        figures(key_figures(findings)),
    )


def selective(findings: Findings) -> Element | None:
    """Return how often the model is right where it is confident."""
    curve = findings.selective
    if curve is None:
        return None
    rows = (
        (
            f"the {percent(curve.coverage[place])} above {curve.threshold[place]:.6g}",
            f"{curve.count[place]:,.0f}",
            percent(curve.accuracy[place]),
            percent(curve.low[place]),
        )
        for place in curve.places_at(SHARES)
    )
    caption = "Accuracy of the most confident rows"
    low, high = curve.aurc_interval
    level = percent(curve.confidence_level)
    note = (
        f"A row counts as answered above a confidence. The limits hold for all thresholds at once, "
        f"with {level} confidence, so one may be chosen from this table. The area under the "
        f"risk-coverage curve (AURC) is {curve.aurc:.4f}, in [{low:.4f}, {high:.4f}]."
    )
    return section(
        "selective",
        "Where it is sure",
        scrolling(caption, table(caption, ("answered", "rows", "right", "at least"), rows)),
        element("p", note, class_="note"),
    )


def brier(findings: Findings) -> Element:
    """Return the Brier score as a sum: what can be repaired, what is achieved, what is given."""
    parts = findings.brier
    rows = [
        (
            "",
            "Miscalibration",
            parts.miscalibration,
            "lost because probabilities are off; 0 is best",
        ),
        ("−", "Discrimination", parts.discrimination, "won by telling rows apart; more is better"),
        ("+", "Uncertainty", parts.uncertainty, "given by how often the event happens"),
        ("=", "Brier score", parts.value, "mean squared distance to the outcome; less is better"),
    ]
    largest = max(abs(value) for _, _, value, _ in rows) or 1.0
    return section(
        "brier",
        "What the score is made of",
        element(
            "table",
            element("caption", "Brier decomposition, corrected for chance", class_="unseen"),
            element("tbody", *(_brier_row(*row, largest) for row in rows)),
            class_="sum",
        ),
    )


def _brier_row(sign: str, name: str, value: float, note: str, largest: float) -> Element:
    bar = element(
        "svg",
        element("path", d=f"M0 5h{100 * abs(value) / largest:.1f}", class_="bar"),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        class_="bar-box",
        aria_hidden="true",
    )
    return element(
        "tr",
        element("td", sign, class_="sign"),
        element("th", name, element("span", note, class_="note"), scope="row"),
        element("td", f"{value:.4f}", class_="value"),
        element("td", bar, class_="wide"),
    )


def repair(findings: Findings) -> Element:
    """Say what recalibration would gain, on rows that it was not fitted on."""
    gain, heading = findings.gain, "What recalibration would gain"
    if gain is None:
        why = (
            "This report was made from a table of sums, which has no rows to try a recalibrator "
            "on. Make it from the rows to see what one would gain."
        )
        return section("repair", heading, element("p", why))
    if gain.scores is None:
        why = f"{gain.n:,} rows are too few to try it by cross-validation."
        return section("repair", heading, element("p", why))
    amount, spread = gain.amount
    best = gain.scores.candidates[gain.scores.chosen]
    first: Content = "Nothing that can be told from chance: leave the predictions as they are."
    if gain.is_worthwhile:
        first = [
            element("code", str(best)),
            f" would lower the log loss by about {amount:.4f} (standard error {spread:.4f}). "
            "Fit it on these rows, and check the result on others.",
        ]
    how = f"Log loss on held-out rows, {FOLDS}-fold cross-validation; less is better."
    part = f" On {gain.n_used:,} of the {gain.n:,} rows, drawn at random." * (gain.n_used < gain.n)
    words = (element("p", first), element("p", how + part, class_="note"))
    return section("repair", heading, words, _candidates(gain.scores))


def _candidates(scores: RecalibratorScores) -> Element:
    heads = ("Recalibrator", "Log loss", "Above the best", "Standard error")
    names: list[list[Content]] = [[element("code", str(c))] for c in scores.candidates]
    names[0] = ["leave it as it is"]
    names[scores.chosen].append(element("strong", " ← choice"))
    columns = zip(names, scores.loss, scores.excess, scores.standard_error, strict=True)
    rows = ((name, *(f"{value:.4f}" for value in values)) for name, *values in columns)
    listed = table("Recalibrators, from the simplest on", heads, rows)
    return scrolling("Recalibrators compared", listed)


def rows_needed(findings: Findings) -> Element:
    """Say how many rows a certificate needs, and what to do where none is possible."""
    plan, level = findings.plan, percent(findings.confidence_level)
    rows = (
        (points(limit), f"{n:,}", "enough" if n <= plan.n else f"{n - plan.n:,} more needed")
        for limit, n in plan.needed
    )
    heads = ("Limit, points", "Rows", "At hand")
    return section(
        "rows",
        "How many rows a certificate needs",
        _plan_words(findings),
        table("Rows for each limit", heads, rows, class_="narrow"),
        element(
            "p",
            f"For a calibrated model with {plan.n_outputs:,} equally frequent outputs, {level} "
            "confidence, and a chance of 90% to obtain the certificate. As many rows as these, "
            f"{plan.n:,}, could certify a limit of about {points(plan.smallest)} points. To "
            "certify again with more rows is a second look, to be planned before the first.",
            class_="note",
        ),
    )


def _plan_words(findings: Findings) -> Element:
    plan, table = findings.plan, findings.certificate.table
    if not table.is_binned_model:
        return element(
            "p",
            "This model's outputs are continuous. Such a model can be refuted but never "
            "certified, however many rows there are. To certify it, let it answer with a few "
            "fixed probabilities, for example by ",
            element("code", f"ScalingBinning(bins={plan.n_outputs})"),
            ", fitted on other rows. Then these numbers apply:",
        )
    if not plan.is_own:
        outputs = int((table.count > 0).sum(axis=1).max())
        return element(
            "p",
            f"This model has {outputs:,} distinct outputs. Fewer need fewer rows; for "
            f"{plan.n_outputs:,}:",
        )
    return element("p", f"This model has {plan.n_outputs:,} distinct outputs.")


def assumptions(findings: Findings) -> Element:
    """Say what must be true for the statements to hold."""
    level = percent(findings.confidence_level)
    sentences = [
        *findings.certificate.assumptions,
        f"“{level} confidence” means: of many reports made in this way, at most "
        f"{percent(1 - findings.confidence_level)} would make a wrong statement of that kind.",
        "The interval of the error is an approximation that needs about ten rows in a group and "
        "ten that carry its spread, and says so where they are fewer; verdicts and their bounds "
        "are exact.",
        "Calibration is about groups of rows. It does not say that the model tells rows apart, "
        "nor that it serves every subgroup equally well.",
    ]
    return section("assumptions", "What these numbers rest on", bullets(sentences))


def provenance(findings: Findings, command: str, columns: str | None, made: str) -> Element:
    """Return the data, the versions and the command, so that the report can be made again."""
    problem, table, mark = findings.table.problem, findings.table, findings.fingerprint
    sums, repeats = None, None
    note = "Made from a table of sums: which rows were counted cannot be told."
    if mark is not None:
        note = "The same rows in any order have the same fingerprint."
        sums = element("code", f"{mark.checksum:016x}")
        # of few outputs different rows look alike; shares below 10% are within the estimate's error
        if mark.distinct_share < 0.9 and not (problem.kind == "binary" and table.is_binned_model):
            repeats = f"about {percent(1 - mark.distinct_share)}"
    what: list[tuple[str, Content]] = [
        ("Rows", f"{table.n:,}"),
        ("Problem", PROBLEMS[problem.kind].format(problem.n_classes)),
        ("Columns", columns and shown(columns, 400)),
        ("Event", None if problem.pos_label is None else shown(problem.pos_label)),
        ("Fingerprint", sums),
        ("Repeated rows", repeats),
        ("calibrant", __version__),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in PACKAGES),
        ("Made on", made),
    ]
    return section(
        "provenance",
        "Where this comes from",
        element(
            "dl",
            *(element("div", element("dt", k), element("dd", v)) for k, v in what if v),
            class_="facts",
        ),
        element("p", note, class_="note"),
        element("h3", "Made by"),
        element("pre", element("code", short(command, COMMAND_LENGTH)), tabindex=0),
    )
