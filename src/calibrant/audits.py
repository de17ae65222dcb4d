"""The front door for audits: what can be proved of every group at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibrant import stats
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Kind, Label
from calibrant.sources import read
from calibrant.sources.groups import clustered_rows, one_of_each_by_group, read_clustered
from calibrant.stats.estimators import ClassWeight, Norm, Target
from calibrant.verify import tabulate_groups


def audit(
    y_true: Any,
    y_prob: Any = None,
    *,
    by: Any = None,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    bins: BinsLike | None = None,
    shared_bins: bool = True,
    target: Target = "population",
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    cluster: Any = None,
    rng: np.random.Generator | int | None = 0,
    progress: Callable[[float], object] | None = None,
) -> stats.Audit:
    """Ask of every group whether its calibration error is at most `max_error`, all at once.

    With probability `confidence_level` none of the verdicts is wrong, however many groups there
    are: the error probability is split evenly among them. p-values against perfect calibration are
    adjusted by Holm's method, and one test asks whether the error is the same in all groups.

    Parameters
    ----------
    by
        What puts rows into groups, as in `calibration_error`; a column of several values that
        overlap is not one group but several audits.
    max_error : float, optional
        The tolerance; without it there are bounds and tests, and no verdicts.
    confidence_level : float
        Of all verdicts together.
    bins, shared_bins
        As in `certify` and `calibration_error`.
    cluster : array_like or column name, optional
        As in `certify`: one row of each cluster of a group is drawn, and all is said of these. A
        cluster may be in several groups; then there is no test whether groups differ.
    rng : numpy Generator or int
        Of the test whether groups differ.
    progress : callable, optional
        Called with the share of groups that are done, after each of them.
    y_true, y_prob, norm, kind, target, class_weight, classes, pos_label, data, input
        As in `certify`; `Tables` may stand in place of `y_true`, `y_prob` and `by`.

    Returns
    -------
    Audit
        A mapping from the key of a group to its certificate; the worst group is printed first.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    certify : one statement; with ``by=`` one for each group, each by itself.
    calibration_error : with ``by=`` the estimates of all groups.

    Notes
    -----
    Of G groups each has the error probability (1 - `confidence_level`) / G, so that by the union
    bound no verdict is wrong with probability `confidence_level`, whatever the dependence of
    groups. Holm's adjusted p-value of the k-th smallest of G is the largest of (G - i + 1) p_(i)
    over i <= k, at most 1.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=30_000) / 10
    >>> site = rng.choice(["east", "north", "west"], size=30_000)
    >>> y = rng.uniform(size=30_000) < np.where(site == "north", p**1.5, p)
    >>> result = audit(y, p, by=site, max_error=0.05)
    >>> [(group.group[0], group.verdict) for group in result.groups]
    [('north', 'refuted'), ('west', 'certified'), ('east', 'certified')]
    """
    rows = (y_true, y_prob, kind, input, classes, pos_label, None, data)
    if by is None:  # of Tables, or refused below
        source, clustered = read(*rows), False
    else:
        source, clustered = read_clustered(*rows, by, cluster)
    if not source.by:
        raise InvalidArgumentError(
            "An audit needs groups: pass by=, the columns that put rows into them, or Tables."
        )
    independent = True
    if by is None and cluster is not None and cluster is not False:
        raise InvalidArgumentError(
            "Clusters are of rows, and tables have none; got Tables and cluster=. Pass the rows."
        )
    if clustered:
        source, independent = one_of_each_by_group(clustered_rows(source), 0)
    return stats.audit(
        tabulate_groups(source, bins, shared_bins),
        max_error=max_error,
        norm=norm,
        confidence_level=confidence_level,
        target=target,
        class_weight=class_weight,
        from_clusters=clustered,
        independent=independent,
        rng=rng,
        progress=progress,
    )
