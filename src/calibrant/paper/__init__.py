"""The paper, runnable: every experiment of Kumar, Liang, Ma (2019), and ours beside them."""

from __future__ import annotations

from typing import Any

from calibrant.exceptions import InvalidArgumentError
from calibrant.paper import (
    beyond,
    calibrators,
    choosing,
    estimators,
    examples,
    lower_bounds,
    synthetic,
)
from calibrant.paper.claims import CLAIMS, Claim, judge
from calibrant.paper.predictions import Predictions, read_predictions, stand_in
from calibrant.paper.study import Progress, Study, StudyResult, no_progress
from calibrant.paper.uncertainty import Finding

__all__ = [
    "CLAIMS",
    "STUDIES",
    "Claim",
    "Finding",
    "Predictions",
    "Study",
    "StudyResult",
    "judge",
    "read_predictions",
    "run",
    "stand_in",
    "study",
]

STUDIES: dict[str, Study] = {
    one.name: one
    for group in (
        examples,
        lower_bounds,
        calibrators,
        estimators,
        choosing,
        synthetic,
        beyond,
    )
    for one in group.STUDIES
}
"""All studies by name, in the order of the paper."""


def study(name: str) -> Study:
    """Return the study of this name."""
    if name not in STUDIES:
        raise InvalidArgumentError(f"There is no study {name!r}; there are {', '.join(STUDIES)}.")
    return STUDIES[name]


def run(
    name: str,
    settings: Any = None,
    *,
    data: Predictions | None = None,
    seed: int = 0,
    quick: bool = False,
    progress: Progress = no_progress,
    **changes: Any,
) -> StudyResult:
    """Run one study of the paper and return its result.

    Parameters
    ----------
    name : str
        A key of `STUDIES`.
    settings : dataclass, optional
        The study's settings; the paper's unless given.
    data : Predictions, optional
        From `read_predictions`, for the studies that need them.
    seed : int
        Fixes every random number of the study.
    quick : bool
        Fewer repeats than the paper's, for a look.
    progress : callable
        Takes how much is done and how much there is.
    **changes
        Single settings to change, such as ``repeats=100``.

    Examples
    --------
    >>> result = run("synthetic-bins", repeats=20, bins=(5, 20))
    >>> result.finding("histogram").estimate.value > 2
    True
    """
    return study(name).run(
        settings, data=data, seed=seed, quick=quick, progress=progress, **changes
    )
