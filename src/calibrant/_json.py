"""Strict JSON: numbers that JSON does not have become null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def json_text(value: Any, **options: Any) -> str:
    """Return JSON that every parser reads; NaN and infinities are null.

    The options are those of ``json.dumps``. A document that must come back as it was has no use
    for null: it is written by ``json.dumps(..., allow_nan=False)``, which refuses.

    Examples
    --------
    >>> json_text({"loss": float("inf"), "rows": (1, 2)})
    '{"loss": null, "rows": [1, 2]}'
    """
    return json.dumps(plain(value), allow_nan=False, **options)


def plain(value: Any) -> Any:
    """Return the value with lists for arrays and tuples, and None for NaN and infinities."""
    if hasattr(value, "tolist"):  # arrays and their scalars, recognised without importing NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
