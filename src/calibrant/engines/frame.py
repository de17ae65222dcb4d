"""Columns of data frames, of any library that narwhals knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.exceptions import InvalidArgumentError


def column(data: Any, name: Any) -> Any:
    """Return the named column of a data frame, or a list of columns as the columns of a table."""
    if isinstance(name, list | tuple):
        return np.column_stack([column(data, each) for each in name])
    if isinstance(data, Mapping):
        return np.asarray(data[_known(name, list(data))])
    import narwhals as nw

    try:
        frame = nw.from_native(data)
    except TypeError as error:
        raise InvalidArgumentError(
            "data must be a data frame (pandas, Polars, PyArrow, DuckDB, ...) or a dict of "
            f"columns; got {type(data).__name__}."
        ) from error
    picked = frame.select(_known(name, frame.collect_schema().names()))
    eager = picked.collect() if isinstance(picked, nw.LazyFrame) else picked
    return eager.get_column(name).to_numpy()


def _known(name: Any, columns: list[Any]) -> Any:
    if name in columns:
        return name
    shown = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
    raise InvalidArgumentError(
        f"With data=, columns are given by name; there is no column {name!r:.60} among {shown}."
    )
