"""The front door for another base rate: a certificate carried over to it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal

import numpy as np

from calibrant import stats
from calibrant._options import generator, is_among, is_real
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.hypotheses import check_one_event
from calibrant.problem import Input, Kind, Label
from calibrant.sources import read
from calibrant.sources.arrays import as_array, called
from calibrant.stats.label_shift import carried
from calibrant.stats.questions import Question
from calibrant.table import BinTable
from calibrant.tables import Tables
from calibrant.verify import tabulate_outputs


def certify_label_shift(
    y_true: Any,
    y_prob: Any = None,
    *,
    target_rate: float | None = None,
    target_prob: Any = None,
    max_error: float | None = None,
    norm: Literal["l1", "l2"] = "l2",
    confidence_level: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.LabelShiftCertificate:
    """Certify a model for a population with another base rate, from labels of this one.

    Outputs are moved to the new rate, ``expit(logit(p) + result.offset)``, and their calibration
    error there is bounded. That holds if only the rates of the labels differ, and not what inputs
    look like given their label (label shift). The proof is in `calibrant.stats.label_shift`.

    Parameters
    ----------
    target_rate : float
        The base rate of the target, if it is known; the bounds are then exact.
    target_prob : array-like or BinTable
        Otherwise predictions of the target, without labels. Its base rate is estimated with an
        interval, which the bounds allow for; and whether they can have come about by a label shift
        is tested: if not (p < 0.01), this is refused.
    max_error, norm, confidence_level
        As in `certify`.
    rng : numpy Generator or int, optional
        Draws, out of the labelled rows, a sample of the target: the same for a seed and the same
        rows, another for other rows.
    y_true, y_prob, kind, classes, pos_label, data, input
        The labelled rows, as in `calibration_error`: one event, and finitely many outputs.

    Returns
    -------
    LabelShiftCertificate
        With `offset`, the base rate or its interval, and a verdict if `max_error` was given.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    certify : for the population that the labels are from.

    Notes
    -----
    At the base rate q, odds are those of the source times the ratio of the odds of both rates:
    ``offset = logit(q) - logit(share of events in the labelled rows)``, of which half a row more of
    either kind keeps the last term finite. A sample of the target is drawn from the labelled rows,
    events with probability q, and `certify` holds for it.

    References
    ----------
    Saerens, Latinne, Decaestecker (2002), Adjusting the outputs of a classifier to new a priori
    probabilities, Neural Computation 14.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=20_000) / 10
    >>> y = rng.uniform(size=20_000) < p
    >>> print(repr(certify_label_shift(y, p, target_rate=0.2, max_error=0.03)))
    <LabelShiftCertificate: certified: with 95% confidence the l2 error at a base rate of 0.2 ...
    """
    if (target_rate is None) == (target_prob is None):
        raise InvalidArgumentError(
            "Give target_rate= if the base rate of the target is known, or target_prob= to "
            f"estimate it; got {'neither' if target_rate is None else 'both'}."
        )
    if target_rate is not None and not (is_real(target_rate) and 0 < target_rate < 1):
        raise InvalidArgumentError(
            f"target_rate must lie between 0 and 1; got {target_rate!r:.60}. Write 0.1 for 10%."
        )
    if not is_among(norm, ("l1", "l2")):
        raise InvalidArgumentError(f'norm must be "l1" or "l2"; got {norm!r:.60}.')
    source = read(y_true, y_prob, kind, input, classes, pos_label, data=data)
    check_one_event("certify_label_shift", source)
    table = tabulate_outputs(source)
    options: dict[str, Any] = {"max_error": max_error, "norm": norm}
    options |= {"confidence_level": confidence_level}
    draw = generator("rng", rng)
    if isinstance(rng, Integral):
        # A seed by itself would draw the same number of events for everybody, lucky or not: seed 0
        # that of bounds which held in 90% of samples of 300 rows. So the counts are part of it.
        counts = np.concatenate([table.count[0], table.sum_y[0]])
        draw = np.random.default_rng([int(rng), *counts.astype(np.int64)])
    Question.of(table, **options)
    if target_rate is not None:
        return carried(table, float(target_rate), draw, **options)
    if isinstance(target_prob, BinTable | Tables):
        if target_prob.is_weighted or isinstance(target_prob, Tables):
            what = "groups" if isinstance(target_prob, Tables) else "sample weights"
            raise InvalidArgumentError(
                "target_prob= as a table is one BinTable of rows that count alike; this one has "
                f"{what}. Count the predictions of the target without them."
            )
        target = read(target_prob).count(table.bins)
    else:
        target = _count_unlabelled(target_prob, source.problem.kind, input, table)
    _check_outputs(table, target)
    return carried(table, target.count[0], draw, **options)


def _count_unlabelled(target_prob: Any, kind: Kind, input: Input, table: BinTable) -> BinTable:
    """Count predictions of the target; their labels are set to 0, and nothing looks at them."""
    shape = getattr(target_prob, "shape", ())  # tensors stay on their device
    n = shape[0] if shape else len(as_array(target_prob, "target_prob"))
    with called("target_prob"):
        return read(np.zeros(n, np.int64), target_prob, kind, input).count(table.bins)


def _check_outputs(table: BinTable, target: BinTable) -> None:
    """Refuse predictions of the target that the labelled rows do not have."""
    known = (table.count[0] > 0) & (target.level[0] == table.level[0])
    other = (target.count[0] > 0) & ~known
    if table.is_binned_model and other.any():
        raise InvalidInputError(
            "Outputs of the target must be among those of the labelled rows; there are others in "
            f"{int(other.sum()):,} of {other.size:,} bins, which hold "
            f"{target.count[0][other].sum():,.0f} of its {target.n:,} rows. Apply the same "
            "recalibrator to both."
        )
