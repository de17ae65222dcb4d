"""The loops of worst tails (`calibrant.stats.tails`), compiled where they can be.

The NumPy forms are the reference; both give the same numbers up to rounding.
"""

from __future__ import annotations

import numpy as np

from calibrant._compiled import compiles
from calibrant._types import FloatArray, IntArray

TINY = 1e-300
"""Stands for 0 in logarithms: larger, hence allowed. It is the same in the compiled loop."""
_ROWS, _PRODUCT = 64, 200_000
"""Of a matrix product that no BLAS library shares out to threads."""


def block_weights(
    ends: tuple[FloatArray, FloatArray],
    top: FloatArray,
    chord: tuple[FloatArray, FloatArray],
    tilt: FloatArray,
    scale: FloatArray,
) -> FloatArray:
    """Return exp(top + tilt k - scale) summed over each block, bounded by a chord: blocks by nodes.

    Parameters
    ----------
    ends : tuple of ndarray
        The first and the last k of each block, less what they are counted from.
    top : ndarray
        The largest log probability in each block, by which those of `chord` are divided.
    chord : tuple of ndarray
        The mass of each block, moved to its first and its last k so that the mean k stays.
    tilt : ndarray
        Of each node, in increasing order.
    scale : ndarray
        What the logarithm is reduced by at each node.
    """
    up, length = int(np.searchsorted(tilt, 0.0)), ends[1] - ends[0]
    weight = np.empty((top.size, tilt.size))
    # the heavier end of a tilted block carries the exponent, so that the other factor is at most 1
    for nodes, heavy in ((slice(0, up), 0), (slice(up, tilt.size), 1)):
        lines = (ends[heavy], top, chord[heavy], chord[1 - heavy], length)
        if compiles():
            from calibrant import _kernels

            _kernels.block_weights(*lines, tilt[nodes], scale[nodes], weight, nodes.start)
            continue
        log_weight = np.multiply.outer(ends[heavy], tilt[nodes])
        log_weight += top[:, None]
        log_weight -= scale[nodes]
        # all blocks but the last have the length of the first
        lighter = np.multiply.outer(chord[1 - heavy], np.exp(-np.abs(tilt[nodes]) * length[0]))
        lighter[-1] = chord[1 - heavy][-1] * np.exp(-np.abs(tilt[nodes]) * length[-1])
        lighter += chord[heavy][:, None]
        np.multiply(np.exp(log_weight, out=log_weight), lighter, out=weight[:, nodes])
    return weight


def add_blocks(weight: FloatArray, cell: IntArray, n_cells: int) -> FloatArray:
    """Return the sums of the rows of each cell; cells fall, then grow along the rows."""
    share = np.zeros((n_cells, weight.shape[1]))
    if compiles():
        from calibrant import _kernels

        _kernels.add_rows(np.ascontiguousarray(weight), cell, share)
        return share
    runs = np.flatnonzero(np.diff(cell, prepend=-1))
    sums, lowest = np.add.reduceat(weight, runs, axis=0), int(cell[runs].argmin())
    for half in (slice(0, lowest), slice(lowest, None)):
        share[cell[runs[half]]] += sums[half]
    return share


def tail_step(
    before: FloatArray,
    share: FloatArray,
    above: FloatArray | None,
    log_scale: FloatArray,
    chord: tuple[FloatArray, FloatArray, FloatArray, FloatArray | None],
    rows: IntArray,
    nodes: IntArray,
) -> tuple[FloatArray, FloatArray]:
    """Return log E W_{j-1}(c - d) at some nodes, and the highest between neighbours of all nodes.

    Parameters
    ----------
    before : ndarray
        W_{j-1}(c) for all c: growing, or with `above` falling.
    share, log_scale
        The law of d at every node: exp(log_scale) share.
    above : ndarray, optional
        P(d > c) at every node: right tails, where W_{j-1} is W_{j-1}(0) below 0.
    chord : tuple of ndarray
        What is added at the left and at the right node of each pair, and by how much the sum
        exceeds its chord at most; less than 0 for pairs that are left out. Right tails have also
        the most that is added anywhere between: their means are no larger than at both ends.
    rows : ndarray
        The rows of `share` that hold anything.
    nodes : ndarray
        The nodes to return.
    """
    left, right, bulge, cap = chord
    if compiles():
        from calibrant import _kernels

        log_mean, tops = np.empty_like(share), np.empty(before.size)
        needed = np.zeros(log_scale.size, np.bool_)
        needed[nodes] = True
        _kernels.tail_step(before, share, above, rows, needed, log_scale, *chord, log_mean, tops)
        return log_mean[:, nodes], tops
    mean = _convolved(before, share)
    if above is not None:
        mean += before[0] * above
    np.maximum(mean, TINY, out=mean)
    log_mean = np.log(mean, out=mean)
    log_mean += log_scale
    valid = np.flatnonzero(bulge >= 0)
    if not valid.size:
        return log_mean[:, nodes], np.full(before.size, -np.inf)
    pairs = slice(valid[0], valid[-1] + 1)
    before_pair, after_pair = log_mean[:, :-1][:, pairs], log_mean[:, 1:][:, pairs]
    tops = highest(before_pair + left[pairs], after_pair + right[pairs], bulge[pairs])
    if cap is not None:
        np.minimum(tops, np.maximum(before_pair, after_pair) + cap[pairs], out=tops)
    tops[:, bulge[pairs] < 0] = -np.inf
    return log_mean[:, nodes], tops.max(axis=1)


def highest(left: FloatArray, right: FloatArray, bulge: FloatArray) -> FloatArray:
    """Return the top of the line between neighbouring values plus a parabola of this height.

    Where the line rises by less than 4 bulges, the top exceeds its higher end by
    (bulge - rise / 4)^2 / bulge.
    """
    room = bulge - np.abs(left - right) / 4
    np.maximum(room, 0.0, out=room)
    room *= room
    room /= np.maximum(bulge, TINY)
    room += np.maximum(left, right)
    return room


def _convolved(before: FloatArray, share: FloatArray) -> FloatArray:
    """Return the convolution of `before` with every column.

    In products so small that a BLAS library computes each in one thread: its threads would cost
    more time than they save here, a multiple of it where other work is going on.
    """
    # the lower triangular matrix that convolves with `before`
    padded = np.concatenate([before[::-1], np.zeros(before.size - 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, before.size)
    matrix, mean = np.ascontiguousarray(windows[::-1]), np.empty_like(share)
    n_rows, n_columns = share.shape
    for start in range(0, n_rows, _ROWS):
        stop = min(start + _ROWS, n_rows)
        width = max(1, _PRODUCT // (_ROWS * stop))
        for first in range(0, n_columns, width):
            columns = slice(first, first + width)
            mean[start:stop, columns] = matrix[start:stop, :stop] @ share[:stop, columns]
    return mean
