"""The compiled loops of the recalibrators; loaded only where numba is.

NumPy's own loops are used wherever one of them does the work. These join several, so that each
row is read once, and hold no lock of the interpreter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from calibrant._types import AnyArray, FloatArray
from calibrant.engines.compiled import F, compiled
from calibrant.recalibrators.isotonic import tangent_slopes as slopes_in_python

BLOCK = 1024

tangent_slopes = compiled(slopes_in_python)


def compiled_for_vectors(*freedoms: str) -> Callable[[F], F]:
    """Compile with some freedom in arithmetic, in LLVM's words, which loops over vectors need.

    "contract" fuses a product and a sum; "reassoc" adds up in several lanes.
    """

    def decorate(function: F) -> F:
        options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
        try:
            made: F = numba.njit(cache=True, fastmath=set(freedoms), **options)(function)
        except RuntimeError:  # no folder for a cache
            made = numba.njit(fastmath=set(freedoms), **options)(function)
        return made

    return decorate


@compiled_for_vectors("contract")
def exp_below_zero(x: float) -> float:
    """Return ``exp(x)`` for x <= 0, to 1 ulp, in a way that the compiler can do eight at a time.

    ``exp(x) = 2^k exp(r)`` with ``|r| <= log(2) / 2``, and a Taylor polynomial of degree 13
    whose rest is below 5e-18. From -708 on the answer is ``exp(-708)``.
    """
    x = max(x, -708.0)
    k = np.floor(x * 1.4426950408889634 + 0.5)
    r = x - k * 0.693147180369123816490
    r = r - k * 1.90821492927058770002e-10
    p = r / 6227020800.0 + 1 / 479001600.0
    p = p * r + 1 / 39916800.0
    p = p * r + 1 / 3628800.0
    p = p * r + 1 / 362880.0
    p = p * r + 1 / 40320.0
    p = p * r + 1 / 5040.0
    p = p * r + 1 / 720.0
    p = p * r + 1 / 120.0
    p = p * r + 1 / 24.0
    p = p * r + 1 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    power: float = np.int64((np.int64(k) + 1023) << 52).view(np.float64)
    return float(p * power)


@compiled
def sum_of_logs(tails: FloatArray) -> float:
    """Return the sum of ``log(1 + t)`` over a block of t in [0, 1], from products of 64 terms."""
    half = BLOCK // 2
    for i in range(half):
        tails[i] = (1.0 + tails[i]) * (1.0 + tails[half + i])
    while half > BLOCK // 64:
        half //= 2
        for i in range(half):
            tails[i] *= tails[half + i]
    total = 0.0
    for i in range(half):
        total += math.log(tails[i])
    return total


@compiled_for_vectors("contract", "reassoc", "nsz")
def logistic_sums(
    first: FloatArray, second: FloatArray, events: FloatArray, theta: tuple[float, float, float]
) -> tuple[float, ...]:
    """Return the summed log loss, its gradient and the upper half of its Hessian."""
    a, b, c = theta
    lost = g1 = g2 = g0 = h11 = h12 = h10 = h22 = h20 = h00 = 0.0
    tails = np.empty(BLOCK)
    for start in range(0, events.size, BLOCK):
        n = min(BLOCK, events.size - start)
        x1, x2, y = first[start : start + n], second[start : start + n], events[start : start + n]
        for i in range(n):
            tails[i] = exp_below_zero(-abs(a * x1[i] + b * x2[i] + c))
        tails[n:] = 0.0
        for i in range(n):
            eta = a * x1[i] + b * x2[i] + c
            large = 1.0 / (1.0 + tails[i])
            small = tails[i] * large
            slope = small + (large - small) * int(eta >= 0) - y[i]
            curve = large * small
            lost += 0.5 * (eta + abs(eta)) - y[i] * eta
            g1 += slope * x1[i]
            g2 += slope * x2[i]
            g0 += slope
            h11 += curve * x1[i] * x1[i]
            h12 += curve * x1[i] * x2[i]
            h10 += curve * x1[i]
            h22 += curve * x2[i] * x2[i]
            h20 += curve * x2[i]
            h00 += curve
        lost += sum_of_logs(tails)
    return lost, g1, g2, g0, h11, h12, h10, h22, h20, h00


@compiled
def distinct_scores(keys: AnyArray, events: FloatArray, counts: FloatArray) -> int:
    """Turn `Scores.sorted_keys` into the bits of the distinct scores, and count those."""
    found = -1
    last = np.uint64(0)
    for key in keys:
        bits = key >> np.uint64(1)
        if found < 0 or bits != last:
            found += 1
            last = bits
            keys[found] = bits
            events[found] = 0.0
            counts[found] = 0.0
        events[found] += np.float64(key & np.uint64(1))
        counts[found] += 1.0
    return found + 1


@compiled
def pool(
    keys: AnyArray, first: AnyArray, weight: FloatArray, events: FloatArray, total: FloatArray
) -> int:
    """Pool adjacent violators of `Scores.sorted_keys`, and return how many blocks there are.

    Writes where each block begins, its rows, its events and the sum of its scores. Blocks of one
    mean are pooled too.
    """
    top, i = -1, 0
    while i < keys.size:
        start, bits, happened = i, keys[i] >> np.uint64(1), 0.0
        while i < keys.size and keys[i] >> np.uint64(1) == bits:
            happened += np.float64(keys[i] & np.uint64(1))
            i += 1
        top += 1
        first[top], weight[top], events[top] = start, np.float64(i - start), happened
        total[top] = weight[top] * np.uint64(bits).view(np.float64)
        while top > 0 and events[top - 1] * weight[top] >= events[top] * weight[top - 1]:
            top -= 1
            weight[top] += weight[top + 1]
            events[top] += events[top + 1]
            total[top] += total[top + 1]
    return top + 1


@compiled
def hash_rows(
    rows: AnyArray, codes: AnyArray, factors: AnyArray, mix: Any, odd: Any, out: AnyArray
) -> None:
    """Write the hash of each row; see `calibrant.recalibrators.fingerprint`."""
    width = rows.shape[1]
    for i in range(rows.shape[0]):
        mixed = (np.uint64(codes[i]) + np.uint64(1)) * factors[width]
        for k in range(width):
            key = np.float64(rows[i, k] + 0.0).view(np.uint64)
            mixed += (key ^ (key >> np.uint64(32))) * factors[k]
        mixed = (mixed ^ (mixed >> np.uint64(29))) * mix
        out[i] = (mixed ^ (mixed >> np.uint64(32))) * odd
