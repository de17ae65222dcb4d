"""Tangents to a lower hull: the one loop behind Venn-Abers, on lists or, compiled, on arrays."""

from __future__ import annotations

from typing import Any


def tangent_slopes(x: Any, y: Any, hull: Any, slopes: Any) -> None:
    """Write, for each i, ``max_{l <= i} min_{r >= i} (y_r - y_l + 1) / (x_r - x_l + 1)``.

    That is the slope of the tangent from the points ``(x_l - 1, y_l - 1)`` to the lower hull of
    the points ``(x_r, y_r)``. The corners of the hull of the points right of i are kept on a
    stack, `hull`, the leftmost on top; going on to the next i drops corners and never adds any,
    so the loop takes linear time. All four arguments have one length.
    """
    n = len(x)
    top = -1
    for i in range(n - 1, -2, -1):
        ax, ay = (x[i], y[i]) if i >= 0 else (-1.0, -1.0)
        while top > 0:
            j, k = hull[top], hull[top - 1]
            if (y[j] - ay) * (x[k] - ax) < (y[k] - ay) * (x[j] - ax):
                break
            top -= 1
        if i >= 0:
            top += 1
            hull[top] = i
    for i in range(n):
        j = hull[top]
        bx, by = x[j], y[j]
        slopes[i] = (by - ay) / (bx - ax)
        if i + 1 == n:
            break
        nx, ny = x[i + 1] - 1.0, y[i + 1] - 1.0
        if j > i and (ny - ay) * (bx - ax) >= (by - ay) * (nx - ax):
            continue
        while hull[top] <= i:
            top -= 1
        while top > 0:
            j, k = hull[top], hull[top - 1]
            if (y[j] - ny) * (x[k] - nx) < (y[k] - ny) * (x[j] - nx):
                break
            top -= 1
        ax, ay = nx, ny
