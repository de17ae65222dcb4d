"""Bins: intervals that partition [0, 1], and the rules that choose them.

The edge rule is the paper's (section 2.3) and stands in one place, `Bins.index`: the first bin
is ``[e0, e1]``, the others are ``(e_i, e_i+1]``. Values are compared as float64.

A rule sees predictions only through their distinct values and the mass of each, never through
labels, so every statement that is conditional on the predictions stays valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from calibrant._cuts import best_partition, edges_at, halfway, is_nearer_below, quantile_cuts
from calibrant._documents import check_names, is_number, is_text, is_whole, shown
from calibrant._options import is_integer, is_real
from calibrant._types import FloatArray, IntArray, ReadOnlyArrays
from calibrant.exceptions import InvalidArgumentError, InvalidBinsError, InvalidDocumentError

Origin: TypeAlias = Literal["fixed", "data"]

LONGEST_NAME = 100
"""Of the rule in a document: it is printed with every result."""
MOST_BINS = 1_000_000
"""That may be asked for. A table keeps nine numbers of 8 bytes for each bin and class, which makes
72 MB a class; and in finer bins an error is noise for any number of rows that a machine counts."""
MOST_HYBRID_BINS = 1_000
"""Their search holds matrices of 4 n_bins cuts by 4 n_bins: 128 MB each, and a minute."""


@dataclass(frozen=True, eq=False, repr=False)
class Bins(ReadOnlyArrays):
    """Intervals ``[e0, e1], (e1, e2], ..., (e_B-1, e_B]`` that partition [0, 1].

    Parameters
    ----------
    edges : array_like
        Strictly increasing, from 0 to 1.
    origin : {"fixed", "data"}
        "data" if the edges were chosen from the very predictions that are being counted.
    rule : str
        The name of the rule that chose the edges, for messages.
    requested : int, optional
        How many bins were asked for, where ties can have left fewer.

    See Also
    --------
    EqualMass, EqualWidth, Hybrid, Distinct : rules that choose the edges.

    Examples
    --------
    >>> bins = Bins([0.0, 0.5, 1.0])
    >>> bins.index([0.0, 0.5, 0.50001, 1.0])
    array([0, 0, 1, 1])
    """

    edges: FloatArray
    origin: Origin = "fixed"
    rule: str = "given"
    requested: int | None = None

    def __post_init__(self) -> None:
        try:
            values = np.asarray(self.edges)
            if values.dtype.kind not in "biufO":  # NumPy would make floats of text, too
                raise TypeError(f"edges of {values.dtype}")
            edges = values.astype(np.float64) + 0.0  # an edge of -0.0 is 0.0
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise InvalidBinsError(
                f"Bin edges must be numbers that rise from 0 to 1; got {self.edges!r:.60}."
            ) from error
        if edges.ndim != 1 or edges.size < 2:
            raise InvalidBinsError(
                f"Bin edges must be a 1-D array of at least 2 numbers; got shape {edges.shape}."
            )
        if not np.isfinite(edges).all():
            raise InvalidBinsError("Bin edges must be finite; some are NaN or infinite.")
        if edges[0] != 0.0 or edges[-1] != 1.0:
            raise InvalidBinsError(
                f"Bin edges must run from 0 to 1; got {edges[0]:g} to {edges[-1]:g}. "
                "Every probability needs a bin, so add 0.0 in front and 1.0 at the end."
            )
        falls = edges[1:] <= edges[:-1]
        if falls.any():
            i = int(falls.argmax())
            raise InvalidBinsError(
                f"Bin edges must rise strictly; edges[{i}] = {edges[i]:.17g} and "
                f"edges[{i + 1}] = {edges[i + 1]:.17g}. Sort them and drop repeats."
            )
        if self.origin not in ("fixed", "data"):
            raise InvalidBinsError(f'origin must be "fixed" or "data"; got {self.origin!r}.')
        object.__setattr__(self, "edges", edges)
        super().__post_init__()

    @classmethod
    def _of_checked(cls, edges: FloatArray, origin: Origin, rule: str, requested: int) -> Bins:
        """Return bins whose edges are known to be valid and cannot be written, in a microsecond."""
        bins = object.__new__(cls)
        vars(bins).update(edges=edges, origin=origin, rule=rule, requested=requested)
        return bins

    def __len__(self) -> int:
        return self.edges.size - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bins) and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash(self.edges.tobytes())

    def __repr__(self) -> str:
        ends = [self.edges] if len(self) < 8 else [self.edges[:3], self.edges[-3:]]
        edges = ", ..., ".join(", ".join(f"{edge:g}" for edge in part) for part in ends)
        return f"<Bins: {self}, edges {edges}>"

    def __str__(self) -> str:
        of = f" of {self.requested}" if (self.requested or 0) > len(self) else ""
        name = "" if self.rule == "given" else f"{self.rule} "
        return f"{len(self):,}{of} {name}bin{'s' if len(self) != 1 else ''}"

    def index(self, values: npt.ArrayLike) -> IntArray:
        """Return the bin of each value in [0, 1]: 0 for ``[e0, e1]``, i for ``(e_i, e_i+1]``."""
        return count_below(self.edges[1:-1], np.asarray(values, np.float64))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "edges": self.edges.tolist(),
            "origin": self.origin,
            "rule": self.rule,
            "requested": self.requested,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Bins:
        """Rebuild bins from `to_dict`; raise InvalidDocumentError if that cannot be done."""
        check_names(document, ("edges", "origin", "rule", "requested"), "A document of bins")
        edges, requested = document["edges"], document["requested"]
        wrong = ""
        if not isinstance(edges, list) or not all(map(is_number, edges)):
            wrong = f'"edges" must be a list of numbers; got {shown(edges)}.'
        elif not is_text(document["rule"], LONGEST_NAME):
            wrong = f'"rule" must be a short name; got {shown(document["rule"])}.'
        elif requested is not None and not is_whole(requested, 1):
            wrong = f'"requested" must be null or a number of bins; got {shown(requested)}.'
        if wrong:
            raise InvalidDocumentError(f"Not valid bins: {wrong}")
        try:
            array = np.array(edges, np.float64)
            return cls(array, document["origin"], document["rule"], requested)
        except (InvalidBinsError, OverflowError) as error:
            raise InvalidDocumentError(f"Not valid bins: {error!s:.300}") from error


@runtime_checkable
class BinRule(Protocol):
    """Anything that chooses bins from the distinct predictions and their masses."""

    def choose(self, values: FloatArray, mass: FloatArray) -> Bins:
        """Return bins for sorted distinct `values`, each with its `mass`."""


class NearQuantiles(NamedTuple):
    """The values beside quantiles, each array of shape (groups, n_bins - 1).

    For each quantile: the distinct value that holds it, the next ones below and above it, and the
    rows below it and up to it. Where there is no next value, NaN or infinity stands for it.
    """

    lower: FloatArray
    held: FloatArray
    upper: FloatArray
    below: FloatArray
    up_to: FloatArray


@dataclass(frozen=True)
class EqualWidth:
    """``n_bins`` bins of the same width, whatever the predictions are.

    Parameters
    ----------
    n_bins : int
        How many; 1 or more.

    See Also
    --------
    EqualMass : the default, which leaves no bin nearly empty.

    Examples
    --------
    >>> EqualWidth(4).bins.edges
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """

    n_bins: int = 15

    def __post_init__(self) -> None:
        _check_n_bins(self.n_bins)

    @property
    def bins(self) -> Bins:
        """The bins; edges are i / n_bins, each correctly rounded."""
        return _equal_width(int(self.n_bins))


@dataclass(frozen=True)
class EqualMass:
    """``n_bins`` bins that hold the same mass of predictions, as nearly as ties allow.

    Cuts fall between distinct predictions, at the ones nearest to the wanted quantiles, and
    the edge lies half-way between its two neighbours. Equal predictions are never separated, so
    there can be fewer bins than asked; ``Bins.requested`` keeps what was asked.

    Parameters
    ----------
    n_bins : int
        How many; 1 or more.

    See Also
    --------
    recommended_bins : how many suit n rows; ``bins="auto"`` takes them.
    Hybrid : lighter bins where predictions are spread.

    Examples
    --------
    >>> EqualMass(2).choose(np.array([0.1, 0.2, 0.6, 0.9]), np.ones(4)).edges
    array([0. , 0.4, 1. ])
    """

    n_bins: int = 15

    def __post_init__(self) -> None:
        _check_n_bins(self.n_bins)

    def choose(self, values: FloatArray, mass: FloatArray) -> Bins:
        """Return the bins for these distinct predictions."""
        edges = edges_at(values, quantile_cuts(mass, self.n_bins))
        edges.flags.writeable = False
        return Bins._of_checked(edges, "data", "uniform-mass", self.n_bins)

    def choose_near(self, near: NearQuantiles, n: int) -> tuple[Bins, ...]:
        """Return the bins of several groups of n rows, each of mass 1, as `choose` would."""
        targets = n * np.arange(1, self.n_bins) / self.n_bins
        cuts_before = is_nearer_below(targets, near.below, near.up_to)
        rows = np.where(cuts_before, near.below, near.up_to)
        edges = np.empty((len(rows), self.n_bins + 1))
        edges[:, 0], edges[:, -1] = 0.0, 1.0
        with np.errstate(invalid="ignore"):  # where there is no value on the other side
            edges[:, 1:-1] = halfway(
                np.where(cuts_before, near.lower, near.held),
                np.where(cuts_before, near.held, near.upper),
            )
            used = np.ones(edges.shape, np.bool_)
            used[:, 1:-1] = (rows > 0) & (rows < n) & (edges[:, 1:-1] > 0)
        used[:, 2:-1] &= rows[:, 1:] != rows[:, :-1]  # they never fall, so repeats are neighbours
        edges = edges[used]
        edges.flags.writeable = False
        ends = np.cumsum(used.sum(axis=1)).tolist()
        return tuple(
            Bins._of_checked(edges[start:end], "data", "uniform-mass", self.n_bins)
            for start, end in pairwise([0, *ends])
        )


@dataclass(frozen=True)
class Distinct:
    """One bin for each distinct prediction: the bins of a model with finitely many outputs.

    With these bins a calibration error is the error itself and not only a lower bound.

    See Also
    --------
    ScalingBinning : gives a continuous model finitely many outputs.

    Examples
    --------
    >>> Distinct().choose(np.array([0.2, 0.4]), np.array([5.0, 5.0])).edges
    array([0. , 0.3, 1. ])
    """

    def choose(self, values: FloatArray, mass: FloatArray) -> Bins:
        """Return the bins for these distinct predictions."""
        return Bins(edges_at(values, np.arange(values.size - 1)), "data", "distinct-value")


@dataclass(frozen=True)
class Hybrid:
    """``n_bins`` bins of least within-bin variance, none lighter than 1 / (balance * n_bins).

    Binning a calibrated model costs exactly the mean within-bin variance of its predictions in
    Brier score. These bins minimise that cost over all cuts at `candidates` quantiles, by
    dynamic programming, and keep every bin heavy enough to be verified. Uniform-mass bins are
    the case ``balance=1``; equal-width bins ignore the weight of a bin.

    Parameters
    ----------
    n_bins : int
        How many bins; ties can leave fewer.
    balance : float
        At least 1; how much lighter than average the lightest bin may be.

    See Also
    --------
    EqualMass : the case ``balance=1``.

    Examples
    --------
    >>> Hybrid(2).choose(np.array([0.1, 0.2, 0.3, 0.9]), np.ones(4)).edges
    array([0. , 0.6, 1. ])
    """

    n_bins: int = 15
    balance: float = 3.0

    def __post_init__(self) -> None:
        _check_n_bins(self.n_bins, MOST_HYBRID_BINS)
        if not (is_real(self.balance) and self.balance >= 1):
            raise InvalidArgumentError(f"balance must be at least 1; got {self.balance!r:.60}.")

    def choose(self, values: FloatArray, mass: FloatArray) -> Bins:
        """Return the bins for these distinct predictions."""
        centred = values - np.average(values, weights=mass)
        ends = np.append(self._candidates(mass, np.abs(centred)), values.size - 1)
        cumulated = [
            np.concatenate(([0.0], np.cumsum(term)[ends]))
            for term in (mass, mass * centred, mass * centred**2)
        ]
        weight, first, second = (np.subtract.outer(c, c).T for c in cumulated)
        lightest = cumulated[0][-1] / (self.balance * self.n_bins) * (1 - 1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(weight >= lightest, second - first**2 / weight, np.inf)
        cuts = [ends[stop - 1] for stop in best_partition(cost, self.n_bins)[:-1]]
        return Bins(edges_at(values, np.array(cuts, np.intp)), "data", "hybrid", self.n_bins)

    def _candidates(self, mass: FloatArray, distance: FloatArray) -> IntArray:
        """Return indices after which a cut may fall.

        Where bins may be lighter than a step between quantiles, half of the candidates are
        quantiles of the distance from the mean: they lie in the light tails, where such bins
        are worth having.
        """
        points = max(400, 4 * self.n_bins)
        if self.balance * self.n_bins <= points or not distance.any():
            return quantile_cuts(mass, points)
        # A quarter of the points each: the partition takes the square of their number in time.
        tails = quantile_cuts(mass * distance, points // 4)
        return np.union1d(quantile_cuts(mass, points // 4), tails)


@lru_cache(maxsize=32)
def _equal_width(n_bins: int) -> Bins:
    return Bins(np.arange(n_bins + 1) / n_bins, "fixed", "equal-width", n_bins)


BinsLike: TypeAlias = (
    int
    | str
    | Bins
    | EqualWidth
    | BinRule
    | Sequence[float]
    | Sequence[Bins]
    | Sequence[Sequence[Bins]]
    | npt.NDArray[np.floating[Any]]
)
"""What ``bins=`` may be, in every function and on the command line: `calibrant._bins_argument`."""


def count_below(edges: FloatArray, values: FloatArray) -> IntArray:
    """Return how many of the edges lie strictly below each value."""
    if edges.size > 127 or values.size < 1024:
        return np.searchsorted(edges, values, side="left")
    below = np.zeros(values.shape, np.int8)
    above_edge = np.empty(values.shape, np.bool_)
    for edge in edges:  # comparing many values with few edges is several times faster than a search
        np.greater(values, edge, out=above_edge)
        np.add(below, above_edge.view(np.int8), out=below)
    return below.astype(np.intp)


def _check_n_bins(n_bins: Any, most: int = MOST_BINS) -> None:
    if not is_integer(n_bins) or n_bins < 1:
        raise InvalidArgumentError(
            f"The number of bins must be a whole number >= 1; got {n_bins!r:.60}."
        )
    if n_bins > most:
        raise InvalidArgumentError(
            f"The number of bins must be at most {most:,}; got {n_bins:,}. More do not fit into "
            "memory, and would show noise: ask for fewer."
        )
