"""Diagrams: the one place that imports matplotlib, and only when it draws."""

from __future__ import annotations

from calibrant.display.curves import DisplayedCurve
from calibrant.display.grid import ReliabilityGrid
from calibrant.display.lines import DecisionDisplay, SelectiveDisplay
from calibrant.display.pit import PitDisplay
from calibrant.display.reliability import ReliabilityDisplay

__all__ = [
    "DecisionDisplay",
    "DisplayedCurve",
    "PitDisplay",
    "ReliabilityDisplay",
    "ReliabilityGrid",
    "SelectiveDisplay",
]
