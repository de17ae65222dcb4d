"""What our studies found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrant.paper.uncertainty import Estimate, across


@dataclass(frozen=True)
class Finding:
    """What a study found for one key.

    Attributes
    ----------
    key : str
    estimate : Estimate
    repeats : int
        How many repeats it rests on; 0 where it is exact.
    statement : str
        What the number is, where no claim of the paper says it.
    note : str
        Why it differs from the paper's, or what else a reader must know.
    unit : str
        How to print it, where no claim says it.
    splits : tuple of Estimate
        The same number in each split of the data, where the study splits it.
    has_authors_split : bool
        Whether the first of them is the split of the authors' scripts.
    """

    key: str
    estimate: Estimate
    repeats: int = 0
    statement: str = ""
    note: str = ""
    unit: str = ""
    splits: tuple[Estimate, ...] = ()
    has_authors_split: bool = False


def over_splits(findings: Sequence[Sequence[Finding]], has_authors_split: bool) -> list[Finding]:
    """Return the findings of several splits as one list.

    Each has the median over the splits, the range of nine in ten of them, the number of every
    split, and the words of the first split.
    """
    merged = []
    for same in zip(*findings, strict=True):
        splits = tuple(finding.estimate for finding in same)
        middle = across([one.value for one in splits]) if len(splits) > 1 else splits[0]
        merged.append(
            replace(same[0], estimate=middle, splits=splits, has_authors_split=has_authors_split)
        )
    return merged
