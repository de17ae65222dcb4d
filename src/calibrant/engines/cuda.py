"""CUDA kernels for exact sums and quantiles, compiled at run time by `calibrant.engines.nvrtc`.

The kernels are in cuda.cu. They read every prediction once for the sums, and leave nothing of the
size of the input behind. Where PyTorch cannot compile them, plain PyTorch does the same.
"""

from __future__ import annotations

import ctypes
import struct
import warnings
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from calibrant._lazy import torch
from calibrant._types import AnyArray
from calibrant.engines import nvrtc
from calibrant.engines.nvrtc import limits
from calibrant.engines.tensors import Tensors, codes_of, comparable, is_narrow, refuse_rows
from calibrant.problem import Problem

FORMATS = {
    "count_column": "@PqPqiPiPiPiiq",
    "read_rows": "@PPqiqiPPiPPPPiq",
    "read_events": "@PqiqPqPPiq",
    "count_table": "@PqiqPPPPqPiiPi",
    "finish": "@PqiiPPiP",
    "row_moments": "@PqiqddP",
    "draw_cuts": "@PqqPPPqPi",
    "place_cells": "@PqiqPPPPiPiPPPP",
    "open_cells": "@PiPiPPP",
    "neighbours": "@PPiPPPPiqP",
}
"""The types of the kernels' arguments, as `struct` writes them."""
OF_STATES = (("LOGITS", 0), ("LABEL", 8))
"""Macros of kernels that read no predictions."""
ROWS_OF_A_COPY = 1 << 16
"""That a block sums in limbs of 16 bits, in integers of 32."""
COLUMN_THREADS, COLUMN_BYTES, COLUMN_COPIES = 1024, 100 << 10, 4
"""Shared memory that a block of one column takes if it can, and the most copies of its sums.
Tuned on an H200, where 2 to 32 copies differ by 3%."""
TABLE_WARPS = 32
"""Of a block of `count_table`: 8 take 2.5 times as long on an H200."""
MOST_HELD = 8
"""Vectors of 16 bytes of a row that a thread holds in registers: 1,024 classes of float32."""
WARP_COLUMNS = 2048
"""Rows of more classes are read by 512 threads each, others by 32. Tuned on an H200."""


class Rows(NamedTuple):
    """Results of one read of rows of several classes."""

    share: Any = None
    largest: Any = None
    code: Any = None


def serves(predictions: Any) -> bool:
    """Return whether the kernels can read tensors like this one."""
    return bool(predictions.is_cuda) and _compiles(predictions.device.index or 0)


@cache
def _compiles(device: int) -> bool:
    """Try to compile; a driver, a library or a permission may be missing."""
    if torch.version.cuda is None:  # of ROCm, which says "cuda" as well
        return False
    try:
        _kernel(device, "finish", (("TYPE", 3), *OF_STATES))  # which every call needs
    except Exception as error:
        warnings.warn(
            f"CUDA kernels cannot be compiled here ({error!s:.200}); plain PyTorch counts instead, "
            "with the same sums, slower.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


@cache
def _kernel(device: int, name: str, macros: tuple[tuple[str, int], ...]) -> ctypes.c_void_p:
    source = files("calibrant.engines").joinpath("cuda.cu").read_text("utf-8")
    lines = [f"#define {macro} {value}\n" for macro, value in (*macros, (name.upper(), 1))]
    return nvrtc.compiled(device, "".join(lines) + source, name)


def launch(
    name: str,
    predictions: Any,
    macros: tuple[tuple[str, int], ...],
    grid: tuple[int, int],
    block: tuple[int, int],
    arguments: tuple[Any, ...],
    shared: int = 0,
) -> None:
    """Start a kernel on the current stream."""
    device = predictions.device.index
    kernel = _kernel(device, name, (("TYPE", _types()[predictions.dtype]), *macros))
    plain = [
        x if type(x) in (int, float) else x.data_ptr() if x is not None else 0 for x in arguments
    ]
    nvrtc.start(device, kernel, grid, block, struct.pack(FORMATS[name], *plain), shared)


@cache
def _types() -> dict[Any, int]:
    types = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2, torch.float64: 3}
    return types | {torch.int64: 3}  # a state, without predictions


@cache
def _exponentials(device: Any) -> Any:
    """Return exp of the bfloat16 numbers from 2^-16 to 2^8, then of their negatives."""
    bits = np.arange(111 << 7, 135 << 7, dtype=np.uint32) << 16
    values = bits.view(np.float32).astype(np.float64)
    return torch.from_numpy(np.exp(np.concatenate([values, -values]))).to(device)


def readable_labels(
    problem: Problem, labels: Any, ignore_index: int | None
) -> tuple[Any, tuple[int, int]]:
    """Return labels as kernels read them, and (whether a label is ignored, which)."""
    simple = problem.classes is None and problem.pos_label is None
    if simple and labels.dtype in (torch.bool, torch.uint8, torch.int32, torch.int64):
        small = labels.dtype in (torch.bool, torch.uint8)
        if ignore_index is not None and small and not 0 <= ignore_index < 256:
            ignore_index = None
        labels = labels.view(torch.uint8) if labels.dtype == torch.bool else labels
    else:
        codes = codes_of(problem, labels)
        if ignore_index is not None:
            codes = torch.where(comparable(labels) == ignore_index, -2, codes)
            ignore_index = -2
        labels = codes
    return labels.contiguous(), (int(ignore_index is not None), ignore_index or 0)


def readable_events(labels: Any, ignore_index: int | None) -> tuple[Any, tuple[int, int]]:
    """Do as `readable_labels` for columns of 0 and 1, whatever the classes are called."""
    if labels.dtype not in (torch.bool, torch.uint8, torch.int32, torch.int64):
        labels = comparable(labels)
        marks = torch.where(labels == 1, 1, torch.where(labels == 0, 0, -1))
        if ignore_index is not None:
            marks.masked_fill_(labels == ignore_index, -2)
            ignore_index = -2
        labels = marks
    return readable_labels(Problem("multi-label", labels.shape[1]), labels, ignore_index)


def fits(sums: Any, predictions: Any) -> bool:
    """Return whether a block can hold the edges of 32 classes."""
    one_column = not sums.problem.is_marginal
    most = limits(predictions.device.index)[1] - 2048
    return bool(one_column or 32 * 8 * sums.n_cells <= most)


def constants(sums: Any, device: Any, narrow: bool) -> dict[str, Any]:
    """Return the edges of all groups; of one alone, also a table of where to search among them."""

    def make() -> dict[str, Any]:
        rows = sums.edges_on(device, torch.float32 if narrow else torch.float64)
        if sums.problem.is_marginal:  # of which every class is searched among its own edges
            return {"rows": rows}
        shift = 17 if sums.n_cells < 64 else 16 if sums.n_cells < 512 else 15
        first = np.searchsorted(rows[0].float().cpu().numpy(), bucket_starts(shift))
        column = torch.cat([rows[0], rows.new_full((2,), 2.0)])
        table = torch.from_numpy(first.astype(np.int16)).to(device)
        return {"rows": rows, "edges": column, "table": table, "shift": shift}

    kept: dict[str, Any] = sums.cached(("cuda", device, narrow), make)
    return kept


def add(sums: Any, state: Any, labels: Any, predictions: Any) -> None:
    """Do as `ExactSums.add`."""
    predictions = predictions if predictions.is_floating_point() else predictions.double()
    if sums.problem.has_event_columns:
        events, ignored = readable_events(labels, sums.ignore_index)
        rows = read_events(state, events, predictions, ignored, sums.are_logits)
        _add_table(sums, state, predictions, rows, events)
        return
    labels, ignored = readable_labels(sums.problem, labels, sums.ignore_index)
    if sums.problem.kind == "binary":
        _add_column(sums, state, labels, predictions, ignored)
    elif sums.problem.kind == "top-label":
        edges = constants(sums, predictions.device, narrow=False)["edges"]
        read_rows(state, labels, predictions, ignored, sums.are_logits, 0, edges)
    else:
        rows = read_rows(state, labels, predictions, ignored, sums.are_logits, 2)
        _add_table(sums, state, predictions, rows)


def _add_column(sums: Any, state: Any, labels: Any, p: Any, ignored: tuple[int, int]) -> None:
    narrow = is_narrow(p) and not sums.are_logits
    tables = constants(sums, p.device, narrow)
    n, n_edges, limbs = len(p), sums.n_cells - 1, 7 if narrow else 17
    n_sm, most_shared = limits(p.device.index)
    of_sums = 2 * sums.n_cells * limbs * 4
    fixed = (n_edges + 2) * (4 if narrow else 8) + (2 * tables["table"].numel() if narrow else 0)
    copies = min(max((COLUMN_BYTES - fixed) // of_sums, 1), COLUMN_COPIES)
    shared = fixed + copies * of_sums
    in_shared = shared <= most_shared
    shared = shared if in_shared else 0
    at_once = n_sm * max(1, min(2, most_shared // (shared + 1024)))
    blocks = -(-max(at_once, -(-n // (ROWS_OF_A_COPY * copies))) // at_once) * at_once
    aligned = p.stride(0) == 1 and p.data_ptr() % 16 == 0 and labels.data_ptr() % 16 == 0
    macros = (("LOGITS", sums.are_logits), ("LABEL", labels.itemsize), ("IN_SHARED", in_shared))
    launch(
        "count_column",
        p,
        tuple((name, int(value)) for name, value in macros),
        (min(blocks, -(-n // COLUMN_THREADS)), 1),
        (COLUMN_THREADS, 1),
        (
            *(p, p.stride(0), labels, n, int(aligned), tables["edges"], n_edges),
            *(tables["table"], tables["shift"], state, copies, *ignored),
        ),
        shared,
    )


def confidences(tensors: Tensors) -> Any:
    """Return the checked confidence of each row of a top-label problem."""
    x = tensors.predictions
    flags = torch.zeros(4, dtype=torch.int64, device=x.device)
    labels, ignored = readable_labels(tensors.problem, tensors.labels, None)
    x = x if x.is_floating_point() else x.double()
    rows = read_rows(flags, labels, x, ignored, tensors.are_logits, 1)
    refuse_rows(*flags[:3].tolist())
    return rows.share


def read_rows(
    state: Any,
    labels: Any,
    x: Any,
    ignored: tuple[int, int],
    are_logits: bool,
    kept: int,
    edges: Any = None,
) -> Rows:
    """Read rows of several classes once; cuda.cu says what is kept of them."""
    x = x if x.stride(1) == 1 else x.contiguous()
    n, n_columns = x.shape
    rows = Rows()
    if kept:
        share, largest = torch.empty(kept, n, dtype=torch.float64, device=x.device).expand(2, n)
        code = torch.empty(n, dtype=torch.int32, device=x.device) if kept == 2 else None
        rows = Rows(share, largest, code)
    by_bits = are_logits and x.dtype == torch.bfloat16
    aligned = x.data_ptr() % 16 == 0 and x.stride(0) * x.itemsize % 16 == 0
    group, threads = (32, 256) if n_columns <= WARP_COLUMNS else (512, 512)
    vectors = -(-n_columns * x.itemsize // (16 * group))
    held = vectors if group == 32 and aligned and vectors <= MOST_HELD and not by_bits else 0
    at_once = limits(x.device.index)[0] * 2048 // threads
    label_size, n_edges = labels.itemsize, 0 if edges is None else len(edges) - 2
    of_input = (("LOGITS", int(are_logits)), ("LABEL", label_size))
    launch(
        "read_rows",
        x,
        (*of_input, ("GROUP", group), ("KEPT", kept), ("HELD", held)),
        (min(-(-n * group // threads), at_once), 1),
        (threads, 1),
        (
            *(x, labels, n, n_columns, x.stride(0), int(aligned)),
            *(_exponentials(x.device) if by_bits else None, edges, n_edges, *rows, state, *ignored),
        ),
        48 << 10 if by_bits else 32 << 10 if are_logits else 0,
    )
    return rows


def read_events(
    state: Any, events: Any, x: Any, ignored: tuple[int, int], are_logits: bool
) -> Rows:
    """Check rows of several events, and return which are left out."""
    x = x if x.stride(1) == 1 else x.contiguous()
    n, n_columns = x.shape
    code = torch.empty(n, dtype=torch.int32, device=x.device)
    launch(
        "read_events",
        x,
        (("LOGITS", int(are_logits)), ("LABEL", events.itemsize)),
        (min(-(-n // 8), 8 * limits(x.device.index)[0]), 1),
        (256, 1),
        (x, n, n_columns, x.stride(0), events, events.stride(0), code, state, *ignored),
    )
    return Rows(None, None, code)


def _add_table(sums: Any, state: Any, x: Any, rows: Rows, events: Any = None) -> None:
    x = x if x.stride(1) == 1 else x.contiguous()
    narrow = is_narrow(x) and not sums.are_logits
    tables = constants(sums, x.device, narrow)
    n, n_columns = x.shape
    n_edges = sums.n_cells - 1
    n_sm, most_shared = limits(x.device.index)
    fixed = 32 * n_edges * (4 if narrow else 8) + (2048 if sums.are_logits else 0)
    outcomes = 1 if events is None else 2
    shared = fixed + 32 * sums.n_cells * outcomes * (7 if narrow else 17) * 4
    in_shared = shared <= most_shared
    shared = shared if in_shared else fixed
    tiles, at_once = -(-n_columns // 32), max(1, min(4, most_shared // (shared + 1024)))
    splits = max(1, 2 * n_sm * at_once // tiles)
    rows_of_block = min(max(-(-n // splits), 64), ROWS_OF_A_COPY)
    launch(
        "count_table",
        x,
        (
            *(("LOGITS", int(sums.are_logits)), ("IN_SHARED", int(in_shared))),
            *(("LABEL", 8 if events is None else events.itemsize), ("EVENTS", outcomes - 1)),
        ),
        (tiles, -(-n // rows_of_block)),
        (32, TABLE_WARPS),
        (
            *(x, n, n_columns, x.stride(0), *rows),
            *(events, 0 if events is None else events.stride(0)),
            *(tables["rows"], n_edges, len(sums.edges), state, rows_of_block),
        ),
        shared,
    )


def finished(sums: Any, state: Any) -> AnyArray | None:
    """Return flags and a row for each bin of all groups, as in cuda.cu, in one copy to the host.

    None where a cell has 2^31 rows, whose level takes more than 64 bits to tell.
    """

    def make() -> dict[str, Any]:
        arrays = {"bin": sums.bin_of_cell, "exponent": sums.exponent_of_cell}
        return {name: torch.from_numpy(x).to(state.device) for name, x in arrays.items()}

    tables = sums.cached(("finish", state.device), make)
    n_bins = len(sums.bins) * sums.n_bins
    out = torch.zeros(8 + 8 * n_bins, dtype=torch.float64, device=state.device)
    launch(
        "finish",
        state,
        OF_STATES,
        (-(-max(n_bins, 4) // 128), 1),
        (128, 1),
        (
            *(state, len(sums.bins), sums.n_cells, sums.n_bins),
            *(tables["bin"], tables["exponent"], len(sums.edges), out),
        ),
    )
    numbers: AnyArray = out.cpu().numpy()
    return None if numbers[4] else numbers


def row_moments(x: Any, are_logits: bool, beta: float, share: float) -> Any:
    """Return log total, mean and variance of the log-scores of each row under a softmax, (3, n)."""
    x = x if x.stride(1) == 1 else x.contiguous()
    out = torch.empty(3, len(x), dtype=torch.float64, device=x.device)
    launch(
        "row_moments",
        x,
        (("LOGITS", int(are_logits)), ("LABEL", 8)),
        (min(-(-len(x) // 8), 8 * limits(x.device.index)[0]), 1),
        (256, 1),
        (x, *x.shape, x.stride(0), beta, share, out),
        32 << 10,
    )
    return out


def bucket_starts(shift: int) -> AnyArray:
    """Return the least float32 with each combination of leading bits, up to 1 and one beyond."""
    return (np.arange((0x3F800000 >> shift) + 2, dtype=np.uint32) << shift).view(np.float32)
