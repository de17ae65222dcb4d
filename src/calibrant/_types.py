"""Short names for the array types that the modules share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.intp]


class ReadOnlyArrays:
    """A mixin for frozen dataclasses: no array among their fields can be written.

    NumPy forgets that in pickles and deep copies, so it is said again when either is restored.
    """

    def __post_init__(self) -> None:
        _lock(vars(self).values())

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _lock(state.values())


def _lock(values: Iterable[Any]) -> None:
    array = np.ndarray  # looked up once: every table and every result passes here
    for value in values:
        if isinstance(value, array):
            if value.flags.writeable:  # checking is faster than setting
                value.setflags(write=False)
        elif isinstance(value, tuple):  # of arrays; nested tuples are not searched
            for item in value:
                if isinstance(item, array):
                    item.setflags(write=False)
