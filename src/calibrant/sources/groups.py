"""What `by=` may be: names of columns, arrays, data frames, and cuts of numeric ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.exceptions import InvalidArgumentError, LengthMismatchError
from calibrant.groups import Factor, GroupColumn, Groups, factor_of_objects, label_of


def columns_named(by: Any) -> tuple[GroupColumn, ...]:
    """Return the columns that `by=` names where ``data=`` holds them.

    A name, a list of names, or a dict of names and cuts, None for a column that is not cut.
    """
    several = isinstance(by, list | tuple | Mapping)
    named = list(by) if several else [by]
    if not named or not all(isinstance(name, str) for name in named):
        raise InvalidArgumentError(
            "With data=, by= is the name of a column, a list of names, or a dict of names and "
            f"cuts such as {{'age': [0, 40, 65, 120]}}; got {by!r:.60}."
        )
    cuts = by if isinstance(by, Mapping) else dict.fromkeys(named)
    return tuple(GroupColumn(name, _cuts(name, cuts[name])) for name in cuts)


def read_groups(by: Any, n: int | None, like: tuple[GroupColumn, ...] | None = None) -> Groups:
    """Read `by=` of arrays: one column, a list of them, a data frame, or a dict by name.

    In a dict, ``(values, cuts)`` cuts a numeric column. `like` are the columns of an earlier call:
    names are matched with theirs, and numbers are cut as theirs were. Without `n`, columns have
    as many rows as the first.
    """
    if isinstance(by, Groups):
        return _checked(by, n, like)
    columns = []
    arrays = named_arrays(by)
    for name, values, cuts in arrays if like is None else _in_order_of(like, by, arrays):
        from calibrant.sources.arrays import as_array

        shown = f"{name:.60}" if isinstance(by, Mapping) else "by"
        own = GroupColumn(name, _cuts(name, cuts))
        factor = series_factor(own, values)
        array = as_array(values, shown) if factor is None else factor[0]
        n = array.shape[0] if n is None and array.ndim else n
        if array.shape != (n,):
            raise LengthMismatchError(
                f"{shown} must have one value per row, shape ({n},); it has shape "
                f"{array.shape}. Of arrays, cut a column with by={{name: (values, cuts)}}."
            )
        columns.append((own, array if factor is None else factor))
    return Groups.of(tuple(own for own, _ in columns), [values for _, values in columns])


def series_factor(column: GroupColumn, values: Any) -> Factor | None:
    """Return the codes of a series that its own package looks up; None for anything else."""
    if column.cuts is not None or not _is_looked_up(values):
        return None
    import narwhals as nw

    series = nw.from_native(values, series_only=True)
    if series.dtype.is_integer():  # a lookup by pandas would go through floats as well
        return factor_of_objects(column, series.to_list())
    distinct = [*series.drop_nulls().unique().to_list(), None]
    places = list(range(len(distinct)))
    codes = series.replace_strict(distinct, places, return_dtype=nw.Int32).to_numpy()
    return codes, [label_of(column, value) for value in distinct]


def _is_looked_up(values: Any) -> bool:
    """Tell series of text, of categories, and of integers of which some are missing.

    A Python object of every row takes ten times as long, but pandas has them for text already. Of
    integers beside missing values NumPy would make floats, and from 2^53 on one group of several.
    """
    if isinstance(values, np.ndarray | list | tuple):
        return False
    import narwhals as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return False
    text = isinstance(series.dtype, nw.String) and not series.implementation.is_pandas_like()
    lossy = series.dtype.is_integer() and series.null_count() > 0
    return text or lossy or isinstance(series.dtype, nw.Categorical | nw.Enum)


def _checked(groups: Groups, n: int | None, like: tuple[GroupColumn, ...] | None) -> Groups:
    """Return groups that were read before; refuse those of other columns or of other rows."""
    if like is not None and groups.by != like:
        raise InvalidArgumentError(
            f"Groups must be those by {', '.join(column.name for column in like):.100}, cut alike; "
            f"got {', '.join(column.name for column in groups.by):.100}. Read them again."
        )
    if n is not None and len(groups.codes) != n:
        raise LengthMismatchError(
            f"by must have one value per row, {n:,}; it has {len(groups.codes):,}. Pass the groups "
            "of these rows."
        )
    return groups


def named_arrays(by: Any) -> list[tuple[str, Any, Any]]:
    """Return (name, values, cuts) of every column of arrays that `by=` holds."""
    if isinstance(by, Mapping) and by:
        pairs = [(v if _has_cuts(v) else (v, None)) for v in by.values()]
        return [(str(name), *pair) for name, pair in zip(by, pairs, strict=True)]
    if hasattr(by, "columns"):
        from calibrant.sources.frames import as_frame

        frame = as_frame(by)
        series = {str(name): frame.get_column(name) for name in frame.columns}
        return [
            (name, own if _is_looked_up(own) else own.to_numpy(), None)
            for name, own in series.items()
        ]
    several = isinstance(by, list | tuple) and by and all(_is_column(x) for x in by)
    columns = list(by) if several else [by]
    first = "group" if not several else "group 1"
    names = [first, *(f"group {k + 1}" for k in range(1, len(columns)))]
    return [
        (str(getattr(values, "name", None) or name), values, None)
        for name, values in zip(names, columns, strict=True)
    ]


def _in_order_of(
    like: tuple[GroupColumn, ...], by: Any, arrays: list[tuple[str, Any, Any]]
) -> list[tuple[str, Any, Any]]:
    """Return the columns that were read before, by name where they are named, else in order."""
    names = [column.name for column in like]
    named = isinstance(by, Mapping) or hasattr(by, "columns")
    given = {name: (values, cuts) for name, values, cuts in arrays}
    if len(arrays) < len(like) or (named and not set(names) <= set(given)):
        raise InvalidArgumentError(
            f"Groups are those by {', '.join(names):.100}, {len(names)} column"
            f"{'s' * (len(names) > 1)}; got {', '.join(given):.100}. Pass a dict by these names, "
            "or the columns in this order."
        )
    if not named and len(arrays) > len(like):
        raise InvalidArgumentError(
            f"Groups are those by {', '.join(names):.100}; got {len(arrays)} columns. Pass a dict "
            "by these names, or these columns only."
        )
    pairs = [given[name] for name in names] if named else [pair[1:] for pair in arrays]
    for column, (_, cuts) in zip(like, pairs, strict=True):
        if cuts is not None and _cuts(column.name, cuts) != column.cuts:
            raise InvalidArgumentError(
                f"{column.name!r:.60} was cut at {list(column.cuts or ())!r:.80} before; got "
                f"{list(cuts)!r:.80}. Leave the cuts out: those from before are used."
            )
    return [
        (column.name, values, column.cuts) for column, (values, _) in zip(like, pairs, strict=True)
    ]


def _is_column(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, str | bytes)


def _has_cuts(values: Any) -> bool:
    return isinstance(values, tuple) and len(values) == 2 and all(map(_is_column, values))


def _cuts(name: str, cuts: Any) -> tuple[float, ...] | None:
    if cuts is None:
        return None
    try:
        numbers = tuple(float(cut) for cut in cuts)
    except (TypeError, ValueError):
        numbers = (np.nan,)
    if isinstance(cuts, str) or any(np.isnan(numbers)):
        raise InvalidArgumentError(
            f"The cuts of {name!r:.60} must be numbers that rise, such as [0, 40, 65, 120]; got "
            f"{cuts!r:.60}."
        )
    return GroupColumn(name, numbers).cuts
