"""Cells of predictions on a GPU, for the quantiles of `calibrant.engines.torch`.

The kernels are in cuda.cu. Many classes are read a block at a time, by five kernels each: the host
waits once for a block, to learn how many rows are to be listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from calibrant._lazy import torch
from calibrant.engines.cuda import (
    Rows,
    bucket_starts,
    launch,
    read_events,
    read_rows,
    readable_events,
    readable_labels,
)
from calibrant.engines.nvrtc import limits
from calibrant.engines.tensors import Tensors, is_narrow, refuse_rows

TILE = 8
"""Columns that a block of `place_cells` reads: 32 bytes of float32."""
MOST_CUTS = 1024
"""That `draw_cuts` sorts, one for each thread of a block."""
SEARCH_SHIFT = 17
"""Leading bits of a float32 that tell where to search among cuts: 16 KB of a cache."""
BLOCK_BYTES, BLOCK_SHARE = 8 << 20, 32
"""Memory for the quantiles of a block of classes: so much, or that share of the input. Affects
speed and memory only."""
MOST_LISTED = (1 << 31) - 1
"""Places in a list are 32 bits: a block has no more rows in all its classes."""
LIST_THREADS = 128
"""For a list of one class among many, of about a hundred rows; a single class has longer ones."""


class _Reader:
    """Launches the kernels that count and list predictions, of one event or of several classes."""

    tile: int
    of_events = False

    def __init__(self, x: Any, rows: Rows, flags: Any, are_logits: bool) -> None:
        self.x, self.rows, self.flags, self.are_logits = x, rows, flags, are_logits
        self.n = len(x)
        self.macros = (("LOGITS", int(are_logits)), ("LABEL", 8))

    @property
    def number(self) -> Any:
        """The type of cuts and lists: float64, or float32 if that holds every prediction."""
        narrow = is_narrow(self.x) and not self.are_logits
        return torch.float32 if narrow else torch.float64

    def read(
        self,
        cuts: Any,
        first: Any = None,
        counts: Any = None,
        begin: Any = None,
        values: Any = None,
    ) -> None:
        """Count the rows of all cells, or list the rows of open ones."""
        n, n_columns = self.x.shape
        n_cuts = cuts.shape[1]
        of_counts = 0 if counts is None else 4 * (2 * n_cuts + 1)
        shared = self.tile * (n_cuts * cuts.itemsize + of_counts) + 2048
        n_sm, most_shared = limits(self.x.device.index)
        tiles, at_once = -(-n_columns // self.tile), max(1, min(2, most_shared // (shared + 1024)))
        splits = min(max(1, n_sm * at_once // tiles), -(-n * self.tile // 1024))
        of_cells = (("EVENTS", int(self.of_events)), ("TILE", self.tile))
        launch(
            "place_cells",
            self.x,
            (*self.macros, *of_cells, ("LISTED", int(counts is None))),
            (tiles, splits),
            (1024, 1),
            (
                *(self.x, n, n_columns, self.x.stride(0), *self.rows, cuts, n_cuts),
                *(first, SEARCH_SHIFT, counts, begin, values, self.flags),
            ),
            shared,
        )

    def nearest(
        self, values: Any, cuts: Any, sizes: Any, begin: Any, held: Any, targets: Any
    ) -> Any:
        """Return the five arrays of `NearQuantiles` from the lists of open cells."""
        n_groups, n_quantiles = len(sizes), len(targets)
        shape = (5, n_groups, n_quantiles)
        out = torch.empty(shape, dtype=torch.float64, device=self.x.device)
        launch(
            "neighbours",
            self.x,
            self.macros,
            (n_groups * n_quantiles, 1),
            (LIST_THREADS if self.tile > 1 else 1024, 1),
            (values, cuts, cuts.shape[1], sizes, begin, held, targets, n_quantiles, n_groups, out),
        )
        return out


class OneColumn(_Reader):
    """Counts and lists the predictions of one event; the few numbers of cells go to the host."""

    tile = 1

    def __init__(self, tensors: Tensors, step: int) -> None:
        x = tensors.predictions
        x = x if x.is_floating_point() else x.double()
        flags = torch.zeros(4, dtype=torch.int64, device=x.device)
        super().__init__(x.view(len(x), 1), Rows(), flags, tensors.are_logits)
        self.step = step

    def sample(self) -> Any:
        """Return the predictions of every `step`-th row, (1, rows), to the last bit."""
        part = self.x[:: self.step]
        if not self.are_logits:
            return part.T.double() + 0.0
        # All lie below a single cut at infinity, and are listed.
        sampled = _Sampled(part, Rows(), self.flags, True)
        values = torch.full((1, len(part)), torch.inf, dtype=torch.float64, device=part.device)
        begin = torch.tensor([[0, -1, -1]], dtype=torch.int32, device=part.device)
        cuts = values.new_full((1, 1), torch.inf)
        sampled.read(cuts, _first(cuts), begin=begin, values=values)
        return values

    def count(self, cuts: Any) -> Any:
        """Return the rows of each cell that cuts make, (1, cells), on the host."""
        self.cuts, self.first = cuts.to(self.number), _first(cuts)
        shape = (1, 2 * cuts.shape[1] + 1)
        counts = torch.zeros(shape, dtype=torch.int32, device=self.x.device)
        self.read(self.cuts, self.first, counts)
        refuse_rows(*self.flags[:3].tolist())
        return counts.cpu()  # few numbers, for which a GPU takes longer

    def neighbours(self, sizes: Any, begin: Any, near: Any, rows: Any, targets: Any) -> Any:
        """Return the five arrays of `NearQuantiles`; see `calibrant.engines.torch`."""
        where, n_quantiles = self.x.device, len(targets)
        if not n_quantiles:  # of one bin
            return torch.empty(5, 1, 0, dtype=torch.float64, device=where)
        values = torch.empty(int(sizes.sum()), dtype=self.cuts.dtype, device=where)
        before, up_to, _ = rows.long().tensor_split(3, dim=1)
        held = torch.stack([near.tensor_split(3, dim=1)[1], before, up_to])
        sizes, begin, held, targets = (tensor.to(where) for tensor in (sizes, begin, held, targets))
        self.read(self.cuts, self.first, begin=begin, values=values)
        return self.nearest(values, self.cuts, sizes, begin, held, targets)


class _Sampled(_Reader):
    tile = 1


class Classes(_Reader):
    """Quantiles of a block of neighbouring classes, or of events of the same rows."""

    tile = TILE

    def __init__(
        self, x: Any, rows: Rows, flags: Any, are_logits: bool, of_events: bool, step: int
    ) -> None:
        super().__init__(x, rows, flags, are_logits)
        self.of_events, self.step = of_events, step

    def near(self, targets: Any) -> Any:
        """Return the five arrays of `NearQuantiles`, (5, classes, quantiles).

        Parameters
        ----------
        targets : tensor of shape (quantiles,)
            The rows up to a quantile.
        """
        where, (n, n_groups), n_quantiles = self.x.device, self.x.shape, len(targets)
        if not n_quantiles:  # of one bin
            return torch.empty(5, n_groups, 0, dtype=torch.float64, device=where)
        n_cuts = -(-n // self.step) + 2
        n_cells = 2 * n_cuts + 1
        cuts = torch.empty(n_groups, n_cuts, dtype=self.number, device=where)
        launch(
            "draw_cuts",
            self.x,
            (*self.macros, ("EVENTS", int(self.of_events))),
            (n_groups, 1),
            (MOST_CUTS, 1),
            (self.x, n, self.x.stride(0), *self.rows, self.step, cuts, n_cuts),
            2048 + 8 * MOST_CUTS,
        )
        counts = torch.zeros(n_groups, n_cells, dtype=torch.int32, device=where)
        self.read(cuts, counts=counts)
        begin = torch.empty_like(counts)
        held = torch.empty(3, n_groups, n_quantiles, dtype=torch.int64, device=where)
        total = torch.zeros(1, dtype=torch.int64, device=where)
        launch(
            "open_cells",
            self.x,
            self.macros,
            (n_groups, 1),
            (256, 1),
            (counts, n_cells, targets, n_quantiles, begin, held, total),
            8 * n_cells,
        )
        values = torch.empty(int(total), dtype=cuts.dtype, device=where)
        self.read(cuts, begin=begin, values=values)
        return self.nearest(values, cuts, counts, begin, held, targets)


def blocks_of_classes(tensors: Tensors, step: int, n_bins: int) -> Iterator[Classes]:
    """Check all rows, and yield as many classes at a time as a small share of memory allows."""
    x = tensors.predictions
    x = x if x.is_floating_point() else x.double()
    x = x if x.stride(1) == 1 else x.contiguous()
    flags = torch.zeros(4, dtype=torch.int64, device=x.device)
    of_events = tensors.problem.has_event_columns
    if of_events:
        events, ignored = readable_events(tensors.labels, None)
        rows = read_events(flags, events, x, ignored, tensors.are_logits)
    else:
        labels, ignored = readable_labels(tensors.problem, tensors.labels, None)
        rows = read_rows(flags, labels, x, ignored, tensors.are_logits, 2)
    refuse_rows(*flags[:3].tolist())
    n, n_groups = x.shape
    # Bytes of a class: cuts, counts and places of cells, and listed rows. A cell that holds a
    # quantile has twice the mean. Results of all blocks wait on the device.
    n_cuts, n_listed = -(-n // step), 2 * n_bins * step
    of_class = 24 * n_cuts + 8 * n_listed + 80 * n_bins
    room = max(BLOCK_BYTES, x.numel() * x.itemsize // BLOCK_SHARE)
    n_blocks = -(-n_groups * of_class // max(room - 40 * n_bins * n_groups, room // 4, 1))
    width = min(-(-n_groups // (n_blocks * TILE)) * TILE, max(1, MOST_LISTED // n))
    for k in range(0, n_groups, width):
        part = x[:, k : k + width]
        yield Classes(part, rows, flags, tensors.are_logits, of_events, step)


def _first(cuts: Any) -> Any:
    """Return where among the cuts of one column to begin a search, by the leading bits."""
    starts = _search_starts(cuts.device)
    return torch.searchsorted(cuts[0].contiguous(), starts).to(torch.int16)


@cache
def _search_starts(device: Any) -> Any:
    return torch.from_numpy(bucket_starts(SEARCH_SHIFT).astype(np.float64)).to(device)
