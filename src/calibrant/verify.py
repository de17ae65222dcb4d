"""The other front door: what can be proved of predictions, and whether two models differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant import stats
from calibrant._digests import Digests, RowDigest, digest_of_columns
from calibrant._types import FloatArray
from calibrant.bins import BinsLike, Distinct, EqualWidth
from calibrant.engines import engine_for
from calibrant.exceptions import InvalidArgumentError
from calibrant.measure import read_data, tabulate_rows
from calibrant.problem import Kind, Label, Rows
from calibrant.stats.bounds import Target
from calibrant.stats.estimators import ClassWeight, Norm, cells_of, class_weights
from calibrant.stats.hypothesis_tests import TestMethod
from calibrant.stats.results import UNRESOLVED_LIMIT
from calibrant.stats.verdicts import MinBinMass
from calibrant.table import BinTable

MANY_OUTPUTS = 1 << 20
MOSTLY = 0.5


def certify(
    y_true: Any,
    y_prob: Any,
    *,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    bins: BinsLike | None = None,
    target: Target = "population",
    min_bin_mass: MinBinMass = None,
    levels: ArrayLike | None = None,
    looks: int = 1,
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
) -> stats.Certificate:
    """Certify, refute, or leave undecided that a calibration error is at most `max_error`.

    The bounds hold at any sample size, without approximation, under the assumptions that the
    certificate lists: independent rows whose labels were not used to make the model's outputs.
    A model with finitely many outputs can be certified or refuted. One with continuous outputs can
    only be refuted, because no number of bins bounds its error from above (Example 3.1).

    Parameters
    ----------
    max_error : float, optional
        The tolerance; without it there is no verdict, only bounds.
    norm : {"l2", "l1", "max"}
    confidence_level : float
        Of each bound by itself: whatever the truth, only one of the two can mislead a verdict.
    bins : optional
        By default `Distinct()`: each distinct output its own bin. If more than 5% of the rows have
        an output that no other row has, the outputs are taken as continuous and counted in
        ``"auto"`` bins (for many classes also if most of the first million values differ).
    target : {"population", "sample"}
        The error in the population that the rows come from, or on inputs like these rows. With
        many classes the second has by far the lower bound (not for ``norm="max"``).
    min_bin_mass : float or "learned", optional
        A known lower bound of the probability of every output, or "learned" if the table has all
        outputs and the bound may be inferred from the counts. Either sharpens the bound.
    levels : array-like, optional
        All outputs that the model can give, such as ``recalibrator.levels_``, if they were known
        before these rows. Then bounds are tuned to them: outputs near 0 and 1 have little label
        noise, and few outputs are easier than many. Never pass the outputs that the rows happen to
        show, unless no others exist.
    looks : int
        How often these rows will be certified as they grow, this time included; it divides the
        error probability. Give k at each of k looks; or i * (i + 1) at the i-th of any number,
        since 1/2 + 1/6 + 1/12 + ... = 1. The numbers of rows must be fixed before the first look.
        Certifying a growing sample with ``looks=1`` until it passes proves less than it says.
    y_true, y_prob, kind, class_weight, classes, pos_label, data
        As in `calibration_error`.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=20_000) / 10
    >>> y = rng.uniform(size=20_000) < p
    >>> print(certify(y, p, max_error=0.03))
    certified: with 95% confidence the binary error is at most 0.0059 <= 0.03 (n = 20,000, ...
    """
    rows = read_data(y_true, y_prob, kind, classes, pos_label, None, data)
    table = tabulate_outputs(rows) if bins is None else tabulate_rows(rows, bins)
    return stats.certify(
        table,
        max_error=max_error,
        norm=norm,
        confidence_level=confidence_level,
        target=target,
        min_bin_mass=min_bin_mass,
        levels=levels,
        looks=looks,
        class_weight=class_weight,
        digests=Digests(digest_of_rows(rows), columns=_digest_of_names(data, y_true, y_prob)),
    )


def certify_answers(
    digests: Digests, y_true: Any, y_prob: Any, *, bins: BinsLike | None = None, **options: Any
) -> stats.Certificate:
    """Certify the answers of a recalibrator, as `certify` does, with digests from before it."""
    meaning = {name: options.pop(name, None) for name in ("kind", "classes", "pos_label")}
    rows = read_data(y_true, y_prob, sample_weight=None, data=None, **meaning)
    table = tabulate_outputs(rows) if bins is None else tabulate_rows(rows, bins)
    return stats.certify(table, digests=digests, **options)


def recheck(
    certificate: stats.Certificate,
    y_true: Any,
    y_prob: Any,
    *,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
) -> stats.Recheck:
    """Check a certificate against its own table, and its table against the rows themselves.

    The rows are counted again in the bins of the certificate: counts and levels must be equal, sums
    up to rounding. If the certificate carries a digest of rows, that of these rows must be
    the same. Rows may come in any order.

    Parameters
    ----------
    certificate : Certificate
    y_true, y_prob, data
        As in `certify`. What a recalibrator answered is checked by `Recalibrator.recheck`.
    classes, pos_label : optional
        As they were given to `certify`; by default those that the certificate names.

    Returns
    -------
    Recheck
        True if all agrees; as text it says what does not.

    Examples
    --------
    >>> y, p = [0, 1, 0, 1] * 100, [0.25, 0.5, 0.5, 0.75] * 100
    >>> certificate = certify(y, p, max_error=0.5)
    >>> print(recheck(certificate, y[::-1], p[::-1]))
    agrees: the table proves what the certificate says, and these are its rows
    >>> bool(recheck(certificate, [1, *y[1:]], p))
    False
    """
    names = _digest_of_names(data, y_true, y_prob)
    rows = _rows_for(certificate, y_true, y_prob, classes, pos_label, data)
    return _recheck_rows(certificate, rows, Digests(digest_of_rows(rows), columns=names))


def recheck_answers(
    certificate: stats.Certificate,
    digests: Digests,
    y_true: Any,
    y_prob: Any,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
) -> stats.Recheck:
    """Check a certificate against the answers of a recalibrator, as `recheck` does."""
    rows = _rows_for(certificate, y_true, y_prob, classes, pos_label, None)
    return _recheck_rows(certificate, rows, digests)


def _rows_for(
    certificate: stats.Certificate,
    y_true: Any,
    y_prob: Any,
    classes: Sequence[Label] | None,
    pos_label: Label | None,
    data: Any,
) -> Rows:
    """Read rows as the certificate's problem."""
    if not isinstance(certificate, stats.Certificate):
        raise InvalidArgumentError(
            "certificate must be a Certificate, such as certify gives or Certificate.from_json "
            f"reads; got {certificate!r:.60}."
        )
    problem = certificate.table.problem
    if classes is None and pos_label is None:
        classes, pos_label = problem.classes, problem.pos_label
    return read_data(y_true, y_prob, problem.kind, classes, pos_label, None, data)


def _recheck_rows(certificate: stats.Certificate, rows: Rows, digests: Digests) -> stats.Recheck:
    own = certificate.table
    if rows.problem != own.problem:
        check = certificate.recheck()
        other = f"the rows pose another problem: {rows.problem}, the certificate {own.problem}"
        return replace(check, agrees=False, differences=(*check.differences, other))
    return certificate.recheck(engine_for(rows).tabulate(rows, own.bins), digests)


def digest_of_rows(rows: Rows) -> str | None:
    """Return the digest of rows in memory; None for lazy frames and tensors on a device."""
    if type(rows) is not Rows:
        return None
    digest = RowDigest()
    digest.update(rows.probs, rows.codes())
    return str(digest)


def _digest_of_names(data: Any, y_true: Any, y_prob: Any) -> str | None:
    """Return the digest of the columns' names; arrays have none."""
    if data is None:
        return None
    several = isinstance(y_prob, list | tuple)
    return digest_of_columns(str(y_true), [str(name) for name in (y_prob if several else [y_prob])])


def tabulate_outputs(rows: Rows) -> BinTable:
    """Count each distinct output in its own bin, or continuous outputs in ``"auto"`` bins.

    Outputs are continuous if more than 5% of the rows have one that no other row has. Of many
    classes with many rows, some rows are looked at first: where most of them differ in a class, a
    table of all distinct outputs would be as large as the data, and none is made.
    """
    n_groups = rows.problem.n_groups
    if type(rows) is Rows and n_groups > 1 and rows.probs.size > MANY_OUTPUTS:
        probe = rows.take(slice(0, max(MANY_OUTPUTS // n_groups, 2)))
        if _alone(tabulate_rows(probe, Distinct())) > MOSTLY:
            return tabulate_rows(rows, "auto")
    table = tabulate_rows(rows, Distinct())
    return table if _alone(table) <= UNRESOLVED_LIMIT else tabulate_rows(rows, "auto")


def _alone(table: BinTable) -> float:
    return float(cells_of(table).unresolved_mass.max())


def calibration_test(
    y_true: Any,
    y_prob: Any,
    *,
    method: TestMethod = "exact",
    bins: BinsLike = "auto",
    n_resamples: int = 1999,
    rng: np.random.Generator | int | None = None,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
) -> stats.CalibrationTestResult:
    """Test whether labels are what perfectly calibrated predictions would produce.

    A binary or top-label problem; for one class k of several pass ``y_true == k`` and its
    column. `method`, `bins`, `n_resamples` and `rng` are those of
    `calibrant.stats.calibration_test`, the others those of `calibration_error`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> calibration_test(rng.uniform(size=1000) < p, p, method="spiegelhalter").pvalue > 0.01
    True
    """
    y, p = _events(read_data(y_true, y_prob, kind, classes, pos_label, None, data))
    return stats.calibration_test(y, p, method, bins, n_resamples, rng)


def bin_free_bounds(
    y_true: Any,
    y_prob: Any,
    *,
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
) -> stats.BinFreeBounds:
    """Bound the cumulative, cutoff and smooth calibration errors of any model, without bins.

    These are not the l1 or l2 calibration error, which no finite sample bounds for a
    continuous model; see `calibrant.stats.bin_free_bounds`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=10_000)
    >>> bin_free_bounds(rng.uniform(size=10_000) < p, p).cutoff.high < 0.05
    True
    """
    rows = read_data(y_true, y_prob, kind, classes, pos_label, None, data)
    return stats.bin_free_bounds(*_events(rows), confidence_level)


def prequential_lower_bound(
    y_true: Any,
    y_prob: Any,
    *,
    norm: Literal["l1", "l2"] = "l2",
    confidence_level: float = 0.95,
    method: Literal["mixture", "betting", "normal"] = "mixture",
    rng: np.random.Generator | int | None = 0,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
) -> stats.MiscalibrationBound:
    """Prove miscalibration of any model: bound its true calibration error from below.

    Curves fitted to the past bet on the next labels, and likelihood ratios look at 1, 2, 4, ..., 64
    bins, under one error probability; see `calibrant.stats.prequential_lower_bound`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.uniform(size=10_000)
    >>> float(prequential_lower_bound(rng.uniform(size=10_000) < p**2, p)) > 0.1
    True
    """
    rows = read_data(y_true, y_prob, kind, classes, pos_label, None, data)
    return stats.prequential_lower_bound(*_events(rows), norm, confidence_level, method, rng)


def compare(
    y_true: Any,
    prob_a: Any,
    prob_b: Any,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    confidence_level: float = 0.95,
    data: Any = None,
) -> stats.Comparison:
    """Compare two models on the same rows: calibration error, Brier score, log loss.

    Differences are paired, so what both models share cancels, and each has an interval; if it
    holds 0, the answer is "no difference that these rows can show". For top-label problems the
    event of each model is that its own choice was right. See `calibrant.stats.compare_errors`;
    the other parameters are those of `calibration_error`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.uniform(size=3000) < p
    >>> compare(y, p, p**2).brier.verdict
    'a is better'
    """
    rows = [
        read_data(y_true, prob, kind, classes, pos_label, None, data) for prob in (prob_a, prob_b)
    ]
    if rows[0].problem != rows[1].problem:
        raise InvalidArgumentError(
            "Both models must predict the same classes; these are "
            f"{rows[0].problem} and {rows[1].problem}."
        )
    weights = class_weights(class_weight, rows[0].problem)
    (y_a, p_a), (y_b, p_b) = (_columns(each) for each in rows)
    return stats.compare_errors(
        y_a,
        p_a,
        p_b,
        y_b=y_b,
        bins_a=bins,
        bins_b=bins,
        weights=weights,
        confidence_level=confidence_level,
    )


def _columns(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return events and predictions, one column for each group, checked."""
    if rows.problem.kind != "marginal":
        return _events(rows)
    tabulate_rows(rows, EqualWidth(1))
    one_hot = rows.codes()[:, None] == np.arange(rows.problem.n_classes)
    return one_hot.astype(np.float64), rows.probs.astype(np.float64)


def _events(rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Return events and predictions of a binary or top-label problem, checked."""
    if rows.problem.kind == "marginal":
        raise InvalidArgumentError(
            'This looks at one event at a time; kind is "marginal". For class k pass '
            "y_true == k and y_prob[:, k]."
        )
    tabulate_rows(rows, EqualWidth(1))  # checks every value
    codes = rows.codes()
    if rows.problem.kind == "binary":
        return codes.astype(np.float64), rows.probs.astype(np.float64)
    top = rows.probs.argmax(axis=1)
    confidence = rows.probs[np.arange(top.size), top].astype(np.float64)
    return (codes == top).astype(np.float64), confidence
