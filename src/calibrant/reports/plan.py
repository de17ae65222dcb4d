"""How many rows a certificate would need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from calibrant.stats import Certificate, samples_to_certify, smallest_certifiable_error

POWER = 0.9
TOLERANCES = (0.05, 0.02, 0.01)
MOST_OUTPUTS = 30
PLANNED_OUTPUTS = 10


@dataclass(frozen=True)
class Plan:
    """Rows that certify a tolerance, if the model is calibrated.

    Attributes
    ----------
    n_outputs : int
        For how many distinct outputs the plan was made.
    is_own : bool
        Whether the model has that many; otherwise it would have to be binned first.
    needed : list of (tolerance, rows)
        Rows that are enough with a probability of 90%.
    n : int
        The rows at hand.
    smallest : float
        The smallest tolerance that as many rows would certify, with the same probability.
    """

    n_outputs: int
    is_own: bool
    needed: list[tuple[float, int]]
    n: int
    smallest: float


def plan_of(certificate: Certificate) -> Plan:
    """Plan for the outputs of the model if they are few, else for ten bins of them."""
    table = certificate.table
    outputs = int((table.count > 0).sum(axis=1).max())
    own = table.is_binned_model and outputs <= MOST_OUTPUTS
    n_outputs = outputs if own else PLANNED_OUTPUTS
    level = certificate.confidence_level
    wanted = (
        {*TOLERANCES} if certificate.max_error is None else {*TOLERANCES, certificate.max_error}
    )
    return Plan(
        n_outputs=n_outputs,
        is_own=own,
        needed=[
            (each, _rows_needed(each, n_outputs, level)) for each in sorted(wanted, reverse=True)
        ],
        n=table.n,
        smallest=smallest_certifiable_error(
            table.n, n_outputs, confidence_level=level, power=POWER
        ),
    )


@cache
def _rows_needed(limit: float, n_outputs: int, level: float) -> int:
    """Remember plans: they take a second, and many reports ask for the same ones."""
    return samples_to_certify(limit, n_outputs, confidence_level=level, power=POWER)
