"""FitResult: what a fit did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from calibrant.recalibrators.base import Recalibrator


@dataclass(frozen=True)
class FitResult:
    """What a fit did.

    Attributes
    ----------
    converged : bool
        Whether the last step was negligible.
    iterations : int
        Newton steps on all rows.
    loss, loss_identity : float
        The mean loss on the fitting rows, after the fit and before it.
    flags : tuple of str
        Words for what was unusual: "separable", "one class", "constant scores",
        "not increasing", "kept identity", "term dropped", "at the limit", "not converged",
        "less accurate", "weighted".
    """

    converged: bool = True
    iterations: int = 0
    loss: float = float("nan")
    loss_identity: float = float("nan")
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{'converged' if self.converged else 'stopped'} after {self.iterations:,} steps"
        losses = f"mean loss {self.loss_identity:.4f} before, {self.loss:.4f} after"
        return ", ".join([head, losses, *self.flags])


def sum_of_fits(recalibrators: Sequence[Recalibrator | None]) -> FitResult:
    """Sum up several fits: mean losses, most iterations, all flags."""
    results = [r.fit_result_ for r in recalibrators if r is not None]
    return FitResult(
        all(result.converged for result in results),
        max(result.iterations for result in results),
        float(np.mean([result.loss for result in results])),
        float(np.mean([result.loss_identity for result in results])),
        tuple(sorted({flag for result in results for flag in result.flags})),
    )
