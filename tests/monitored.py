"""Days of a deployed model, for monitors to watch."""

from __future__ import annotations

import numpy as np


def day(rng, n=1000, rate=lambda p: p):
    p = rng.beta(2, 3, size=n)
    return (rng.uniform(size=n) < rate(p)).astype(int), p


def watched(monitor, days, rate=lambda p: p, seed=0, start=0, n=1000):
    rng = np.random.default_rng((seed, start))
    for number in range(start, start + days):
        monitor.update(*day(rng, n, rate), name=f"day {number}")
    return monitor
