"""Sums of rows on a device, kept as whole numbers: the same bits in any order, on any device.

Bins are cut at 2^-8, 2^-16, ..., 2^-244 into cells. In a cell from 2^-m down to the next cut, a
prediction p is a whole number of 62 bits, ``p 2^(62 + m) = 2^31 high + low``: exactly, for float64
above 2^-152 and for every float32; rounded by less than 1e-12 of p from there to 1e-80, and by less
than 1e-92 below. Sums of 1, of both halves and of their products give those of 1, p and p^2. They
are held in limbs of 21 bits, so that an integer of 64 bits has room for 2^42 rows.

Sums also tell whether all rows of a cell have the same prediction: then, and only then, is n times
the sum of squares the square of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant._lazy import torch
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.engines import cuda
from calibrant.engines.cells import inner_edges, table_of
from calibrant.engines.pairs import has_float64, significand
from calibrant.engines.tensors import (
    CHUNK_VALUES,
    comparable,
    edges_on,
    events_of,
    is_narrow,
    refuse_rows,
)
from calibrant.problem import Problem
from calibrant.table import BinTable

CUTS = np.array([*range(8, 145, 8), *range(164, 245, 20)])
"""Minus the exponents of the cuts. 24 bits of a float32, at any place of 8 bits, make 31 bits of
`high`; no float32 but 0 is below 2^-149, and 1e-12 is 42 of 62 bits."""
IS_CUT = np.zeros(1075, np.bool_)
"""Whether 2^-(i + 1), which `np.frexp` splits into 0.5 and -i, is a cut."""
IS_CUT[CUTS - 1] = True
LAST_EXACT = 144
"""Minus the exponent of the last cut above which nothing is rounded, whatever the type."""
EXACT_BELOW = 1e-9
"""Variances that are a smaller share of the squared mean would lose six digits in float64."""
HALF, LIMB = 31, 21
"""Bits of a half of a prediction, whose products fit into 62, and of a limb, which leaves 42 of the
64 bits of an integer for the number of rows."""
NARROW, WIDE = 6, 14
"""Limbs of a cell: 1 of the count, 2 of high, 3 of high^2; then 2 of low, 3 of low^2 and 3 of
high low. Predictions of float32 and of smaller types have no low half."""
SMALL_STATE = 1 << 16
"""Numbers that are copied before anything is computed: half a megabyte takes as long as few of the
fifty small kernels that it takes otherwise. Affects speed only."""
FLAGS = 4
MISSING, IMPOSSIBLE, UNKNOWN, ROUNDED = range(FLAGS)
"""A state begins with the number of rows with NaN, with another impossible prediction, and with an
unknown label, all of them left out; then of float64 predictions that had to be rounded."""


class ExactSums:
    """How rows of a problem are summed in bins, into a state that is one tensor of integers.

    States of parts can be added. `add` does not wait for the device; `table` does.

    Parameters
    ----------
    problem : Problem
    bins : tuple of Bins
        One for each group.
    are_logits : bool
    ignore_index : int, optional
        The label of rows that are left out.
    """

    def __init__(
        self,
        problem: Problem,
        bins: tuple[Bins, ...],
        *,
        are_logits: bool = False,
        ignore_index: int | None = None,
    ) -> None:
        self.problem, self.bins = problem, bins
        self.are_logits, self.ignore_index = are_logits, ignore_index
        self.shared = all(other is bins[0] or other == bins[0] for other in bins)
        cuts = np.ldexp(1.0, -CUTS)
        inner = inner_edges(bins[:1] if self.shared else bins)
        points = np.hstack([inner, np.broadcast_to(cuts, (len(inner), cuts.size))])
        points.sort(axis=1)
        changes = points[:, 1:] != points[:, :-1]
        new = np.isfinite(points)
        new[:, 1:] &= changes
        mantissa, exponent = np.frexp(points)
        is_cut = (mantissa == 0.5) & IS_CUT[-exponent]
        is_cut[:, :-1] &= changes  # an edge comes before a cut that equals it
        n_new = new.sum(axis=1)
        self.n_cells = 1 + int(n_new.max())
        shape = (len(inner), self.n_cells)
        self.edges = np.full((shape[0], shape[1] - 1), np.inf)
        parts_bins, cuts_below = np.zeros(shape, np.int32), np.full(shape, cuts.size)
        filled = np.arange(self.n_cells - 1) < n_new[:, None]
        self.edges[filled] = points[new]
        parts_bins[:, 1:][filled] = ~is_cut[new]
        cuts_below[:, :-1][filled] = (is_cut.cumsum(axis=1, dtype=np.int32) - is_cut)[new]
        self.bin_of_cell = parts_bins.cumsum(axis=1, dtype=np.int32)
        self.exponent_of_cell = np.append(CUTS[::-1], 0).astype(np.int32)[cuts_below]
        self.n_bins = inner.shape[1] + 1
        self._constants: dict[Any, dict[str, Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_constants": {}}  # tensors of a device, made again on demand

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Groups, cells, outcomes and limbs of a state."""
        return len(self.bins), self.n_cells, 2, WIDE

    def zeros(self, device: Any) -> Any:
        """Return the state without rows."""
        return torch.zeros(FLAGS + int(np.prod(self.shape)), dtype=torch.int64, device=device)

    def add(self, state: Any, labels: Any, predictions: Any) -> None:
        """Add rows to a state on the device of the predictions.

        Rows with a wrong value are left out and counted; `table` refuses such a state.

        Parameters
        ----------
        state : tensor
        labels : tensor of shape (n,)
        predictions : tensor of shape (n,) for one event, else (n, n_classes)
        """
        labels, predictions = labels.detach(), predictions.detach()
        if len(labels) and cuda.serves(predictions) and cuda.fits(self, predictions):
            cuda.add(self, state, labels, predictions)
            return
        step = max(1, CHUNK_VALUES // (predictions.shape[1] if predictions.ndim > 1 else 1))
        for start in range(0, len(labels), step):
            part = slice(start, start + step)
            self._add_chunk(state, labels[part], predictions[part])

    def _add_chunk(self, state: Any, labels: Any, predictions: Any) -> None:
        """Add rows by plain PyTorch, whose temporaries grow with them."""
        p, event, missing, impossible, unknown = events_of(
            self.problem, labels, predictions, self.are_logits
        )
        used = torch.ones_like(unknown)
        if self.ignore_index is not None:
            used = comparable(labels) != self.ignore_index
            used = used.all(1) if used.ndim == 2 else used  # of several labels, the whole row
        faults = (missing, impossible & ~missing, unknown)
        state[: len(faults)] += torch.stack([(used & bad).sum() for bad in faults])
        used = used & ~(missing | impossible | unknown)
        p = torch.where(used, p, 0)
        constants = self.constants(p.device, p.dtype)
        place = torch.searchsorted(constants["edges"], p)
        cell = place + constants["first"]
        first, second = (scale[place if self.shared else cell] for scale in constants["scales"])
        if p.dtype == torch.int64:  # bits: of 62, beginning with the 53 that tell the number
            scaled = significand(p) << ((p >> 52) - 1013 + first + second).clamp(min=0)
            high, low = scaled >> HALF, scaled & ((1 << HALF) - 1)
            terms = [used.long().expand_as(p), *_limbs(high), *_limbs(low, high)]
        else:
            scaled = p * first * second
            high = scaled.floor()
            terms = [used.long().expand_as(p), *_limbs(high.long())]
        if p.dtype == torch.float64 and (self.are_logits or not is_narrow(predictions)):
            rest = (scaled - high) * 2.0**HALF
            low = rest.round()
            state[ROUNDED] += (low != rest).sum()
            terms += _limbs(low.long(), high.long())
        sums = state[FLAGS:].view(-1, WIDE)[:, : len(terms)]
        limbs = torch.stack(terms, dim=-1).view(-1, len(terms))
        sums.index_add_(0, (2 * cell + event).view(-1), limbs)

    def constants(self, device: Any, dtype: Any) -> dict[str, Any]:
        """Return edges and scales on a device, for predictions of this type."""

        def make() -> dict[str, Any]:
            exponent = HALF + self.exponent_of_cell.ravel()
            if dtype == torch.float32:
                exponent = np.minimum(exponent, HALF + LAST_EXACT)  # below there is 0 alone
            halves = (exponent // 2, exponent - exponent // 2)  # 2^175 overflows float32
            scales: list[Any] = [2.0**half for half in halves]
            if dtype == torch.int64:  # by which bits are shifted
                scales = [exponent - HALF, 0 * exponent]
            groups = torch.arange(len(self.bins), device=device)[:, None]
            return {
                "edges": self.edges_on(device, dtype).squeeze(0),
                "scales": [torch.tensor(scale, dtype=dtype).to(device) for scale in scales],
                "first": self.n_cells * groups,
            }

        return self.cached((device, dtype), make)

    def edges_on(self, device: Any, dtype: Any) -> Any:
        """Return edges on a device for predictions of this type: one row, or one for each group."""
        return edges_on(self.edges, device, dtype)

    def cached(self, key: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return constants on a device, made at the first call: later ones do not wait for it."""
        if key not in self._constants:
            self._constants[key] = make()
        return self._constants[key]

    def table(self, state: Any, levels: Callable[[], FloatArray] | None = None) -> BinTable:
        """Return the table of a state, or refuse it for the wrong values among its rows.

        Parameters
        ----------
        state : tensor
        levels : callable, optional
            Reads the rows once more for levels that sums cannot tell, those of rounded
            predictions. Without it, such a bin has no level.
        """
        sums, level = self.sums(state, levels)
        return table_of(self.problem, self.bins, sums, level, False)

    def sums(
        self, state: Any, levels: Callable[[], FloatArray] | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums of 1, p and p^2, of shape (groups, bins, outcome, term), and levels."""
        numbers = cuda.finished(self, state) if cuda.serves(state) else None
        if numbers is None:
            return self._sums_by_torch(state, levels)
        *wrong, rounded = numbers[:FLAGS].astype(np.int64).tolist()
        refuse_rows(*wrong)
        of_bins = numbers[2 * FLAGS :].reshape(len(self.bins), self.n_bins, 8)
        level = of_bins[..., 6].copy()
        if rounded and levels is not None:
            level = np.where(of_bins[..., 7] == 1, levels(), level)
        elif rounded:
            level[of_bins[..., 7] == 1] = np.nan
        return of_bins[..., :6].reshape(*level.shape, 2, 3), level

    def _sums_by_torch(
        self, state: Any, levels: Callable[[], FloatArray] | None
    ) -> tuple[FloatArray, FloatArray]:
        shape = (len(self.bins), self.n_bins)
        if state.numel() < SMALL_STATE or not has_float64(state.device):
            state = state.cpu()
        *wrong, rounded = state[:FLAGS].tolist()
        refuse_rows(*wrong)
        cells = state[FLAGS:].view(-1, WIDE)
        has_rows = cells[:, 0].nonzero()[:, 0]  # few: only they leave the device
        limbs = _carried(cells[has_rows].T.contiguous())
        totals: FloatArray = _totals(limbs).cpu().numpy()
        used: IntArray = has_rows.cpu().numpy()
        group, cell = np.divmod(used >> 1, self.n_cells)
        where = (0 if self.shared else group, cell)
        exponent, place = self.exponent_of_cell[where], group * shape[1] + self.bin_of_cell[where]
        totals[1:] *= _units(exponent)
        target = 2 * place + (used & 1)
        terms = np.empty((2 * shape[0] * shape[1], 3))
        for i, term in enumerate(totals):
            terms[:, i] = np.bincount(target, term, len(terms))
        level = np.full(shape[0] * shape[1], np.nan)
        if used.size:
            first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
            levels_of_cells = _levels(limbs, exponent)
            n_cells = np.diff(first, append=used.size)
            one_level = levels_of_cells == np.repeat(levels_of_cells[first], n_cells)
            is_level = np.logical_and.reduceat(one_level, first)
            level[place[first]] = np.where(is_level, levels_of_cells[first], np.nan)
        if rounded:
            unclear = np.zeros(level.size, np.bool_)
            unclear[place[exponent >= LAST_EXACT]] = True
            again = np.full(shape, np.nan) if levels is None else levels()
            level = np.where(unclear, again.ravel(), level)
        return terms.reshape(*shape, 2, 3), level.reshape(shape)

    def moments(self, state: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the rows of each cell and outcome of one group, and the mean and spread of p."""
        state = state.cpu()
        refuse_rows(*state[:ROUNDED].tolist())
        cells = state[FLAGS:].view(-1, WIDE)
        limbs = _carried(cells.T.clone(memory_format=torch.contiguous_format))
        totals: FloatArray = _totals(limbs).numpy()
        totals[1:] *= _units(np.repeat(self.exponent_of_cell[0], 2))
        count, first, second = totals.reshape(3, -1, 2)
        n = np.maximum(count, 1)
        mean = first / n
        variance = np.maximum(second / n - mean * mean, 0.0)
        # Near 1 the difference is all rounding; that of whole numbers is not.
        near = (count > 1) & (variance < EXACT_BELOW * mean * mean)
        for cell, outcome in zip(*np.nonzero(near), strict=True):
            n_rows, p, pp = _exact_sums_of(limbs[:, 2 * cell + outcome])
            square = n_rows * pp - p * p
            scale = 2 * HALF + int(self.exponent_of_cell[0, cell])
            variance[cell, outcome] = square / ((n_rows * n_rows) << (2 * scale))
        return count, mean, np.sqrt(variance)


def _exact_sums_of(limbs: AnyArray) -> tuple[int, int, int]:
    """Return the sums of 1, p and p^2 of one cell, in units of the last bit of p."""
    count, h0, h1, s0, s1, s2, l0, l1, t0, t1, t2, x0, x1, x2 = (int(x) for x in limbs)
    p = ((h0 + (h1 << LIMB)) << HALF) + l0 + (l1 << LIMB)
    high, low, product = (
        a + (b << LIMB) + (c << 2 * LIMB) for a, b, c in ((s0, s1, s2), (t0, t1, t2), (x0, x1, x2))
    )
    return count, p, (high << 2 * HALF) + (product << (HALF + 1)) + low


def _limbs(a: Any, b: Any = None) -> list[Any]:
    """Return the limbs of a, of its square and, where there is a b, of their product."""
    mask = (1 << LIMB) - 1
    products = [a * a] if b is None else [a * a, a * b]
    squares = [(c >> shift) & mask for c in products for shift in (0, LIMB, 2 * LIMB)]
    return [a & mask, a >> LIMB, *squares]


def _carried(limbs: Any) -> Any:
    """Carry so that all but the last limb of a number are below 2^21: equal sums, equal bits."""
    # Of high and of low: two limbs, and three of the square.
    halves = limbs[1:11].view(2, 5, limbs.shape[1])
    pairs = [(halves[:, i], halves[:, i + 1]) for i in (0, 2, 3)]
    for lower, upper in [*pairs, (limbs[11], limbs[12]), (limbs[12], limbs[13])]:
        upper += lower >> LIMB
        lower &= (1 << LIMB) - 1
    return limbs


def _totals(limbs: Any) -> Any:
    """Return the sums of 1, p and p^2 of each cell and outcome, in `_units`, each to rounding."""
    x = limbs.double()
    unit, half = 2.0**LIMB, 2.0**-HALF
    halves = x[1:11].view(2, 5, x.shape[1])
    high, low = halves[:, 0] + unit * halves[:, 1]
    high_square, low_square = halves[:, 2] + unit * halves[:, 3] + unit**2 * halves[:, 4]
    product = x[11] + unit * x[12] + unit**2 * x[13]
    second = high_square + 2 * half * product + half**2 * low_square
    return torch.stack([x[0], high + half * low, second])


def _units(exponent: IntArray) -> FloatArray:
    """Return the factors of the totals of p and of p^2 of each cell."""
    scale = np.ldexp(1.0, -HALF - exponent)
    return np.stack([scale, scale * scale])


def _levels(limbs: Any, exponent: IntArray) -> FloatArray:
    """Return the one prediction of each cell and outcome, NaN where there are several."""
    level = np.full(exponent.shape, np.nan)
    # Only of few cells is the sum a multiple of the count, as that of equal numbers is.
    n = limbs[0]
    divides = (limbs[1] + ((limbs[2] % n) << LIMB)) % n == 0
    may_be = divides.nonzero()[:, 0]
    place: IntArray = may_be.cpu().numpy()
    few: AnyArray = limbs[:, may_be].cpu().numpy()
    if not place.size:
        return level
    if few[0].max() >= 1 << 31:
        few = few.astype(object)  # with this many rows even sums of high exceed 64 bits
    high, same_high = _one_value(few[0], few[1:6])
    low, same_low = _one_value(few[0], few[6:11])
    whole = (high.astype(np.int64) << HALF) + low.astype(np.int64)
    value = np.ldexp(whole.astype(np.float64), -2 * HALF - exponent[place])
    level[place] = np.where(same_high & same_low, value, np.nan)
    return level


def _one_value(n: AnyArray, limbs: AnyArray) -> tuple[AnyArray, BoolArray]:
    """Return the mean of n whole numbers, and whether each of them is that, from sums of limbs."""
    total = limbs[0] + (limbs[1] << LIMB)
    mean = total // n
    same = n * mean == total
    mask = (1 << LIMB) - 1
    squares = [n * (((mean * mean) >> shift) & mask) for shift in (0, LIMB, 2 * LIMB)]
    squares[1] = squares[1] + (squares[0] >> LIMB)
    squares[2] = squares[2] + (squares[1] >> LIMB)
    expected = (squares[0] & mask, squares[1] & mask, squares[2])
    for i, part in enumerate(expected):
        same = same & (limbs[2 + i] == part)
    return mean, same.astype(np.bool_)
