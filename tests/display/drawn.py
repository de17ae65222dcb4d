"""What the tests of diagrams draw: predictions, and names that do harm elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import optional

matplotlib = optional("matplotlib")
plt = pytest.importorskip("matplotlib.pyplot")

RARE = np.random.default_rng(8).beta(1, 40, size=1500)
RARE_EVENTS = (np.random.default_rng(9).uniform(size=1500) < RARE).astype(int)

HOSTILE = [
    "$x_1^2$",
    "$unclosed",
    r"$\frac{1}{",
    "_hidden",
    "a_b & 50% #1 {curly} ~^",
    r"\input{secrets} \$",
    "<b>bold</b>&amp;",
    "=SUM(A1)",
    "tab\tnew\nline\x00\x07\x1b[31m",
    "\u202egnirts \u05e9\u05dc\u05d5\u05dd",
    "\ud800 lone surrogate",
    "x" * 10_000,
    "",
    "   ",
]


def rows(n=1_000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 1, size=n)
    return (rng.uniform(size=n) < p**1.3).astype(int), p


def many_classes(n=3_000, n_classes=10, seed=0):
    """Predictions of which class 3, and then class 1, are the worst."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_classes, 0.7), size=n)
    y = (truth.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(0, n_classes - 1)
    said = truth.copy()
    said[:, 3] = said[:, 3] ** 0.3
    said[:, 1] = said[:, 1] ** 0.5
    return y, said


def rendered(figure) -> bytes:
    """Draw the whole figure and return its pixels."""
    figure.canvas.draw()
    return bytes(figure.canvas.buffer_rgba())
