"""What `by=` and `cluster=` may be: names of columns, arrays, data frames, and cuts.

Rows of one cluster, a patient or a day, depend on each other; it is the last column of `by=`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant._digests import row_hashes
from calibrant._lazy import nw, pa
from calibrant._types import FloatArray, IntArray
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidGroupsError,
    InvalidWeightsError,
    LengthMismatchError,
)
from calibrant.groups import (
    Factor,
    GroupColumn,
    GroupLabel,
    Groups,
    factor_of_objects,
    label_of,
    required,
)
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Source, as_log, read
from calibrant.sources.arrays import ArraySource, as_array
from calibrant.sources.arrow_columns import arrow_values, as_group
from calibrant.stats.clusters import ClusterSums
from calibrant.table import BinTable
from calibrant.tables import Tables


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
        shown = f"{name:.60}" if isinstance(by, Mapping) else "by"
        column = GroupColumn(name, _cuts(name, cuts))
        factor = series_factor(column, values)
        if factor is None:
            values = values.to_numpy() if hasattr(values, "to_native") else values
        array = as_array(values, shown) if factor is None else factor[0]
        n = array.shape[0] if n is None and array.ndim else n
        if array.shape != (n,):
            raise LengthMismatchError(
                f"{shown} must have one value per row, shape ({n},); it has shape "
                f"{array.shape}. Of arrays, cut a column with by={{name: (values, cuts)}}."
            )
        columns.append((column, array if factor is None else factor))
    return Groups.of(tuple(column for column, _ in columns), [values for _, values in columns])


def series_factor(column: GroupColumn, values: Any) -> Factor | None:
    """Return the codes of a series that NumPy would corrupt or read slowly; else None.

    A Python object of every row takes ten times as long, but pandas has them for text already. Of
    integers beside missing values NumPy would make floats, and from 2^53 on one group of several;
    of local times those of Greenwich, midnight being another day there.
    """
    if column.cuts is not None or isinstance(values, np.ndarray | list | tuple):
        return None
    native = values.to_native() if hasattr(values, "to_native") else values
    if (arrow := arrow_values(native)) is not None:
        plain = pa.types.is_integer(arrow.type) or pa.types.is_floating(arrow.type)
        if plain and not arrow.null_count:
            return None
        factor = as_group(arrow, column, "by", 0)
        return factor if isinstance(factor, tuple) else None
    series = nw.from_native(native, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return None
    dtype, of_pandas = series.dtype, series.implementation.is_pandas_like()
    if of_pandas and isinstance(dtype, nw.Categorical | nw.Enum):
        places, labels = factor_of_objects(column, [*native.cat.categories, None])
        return places[native.cat.codes.to_numpy()], labels  # -1, the last, where it is missing
    if isinstance(dtype, nw.Categorical | nw.Enum) or (dtype == nw.String and not of_pandas):
        distinct = [*series.drop_nulls().unique().to_list(), None]
        numbers = list(range(len(distinct)))
        codes = series.replace_strict(distinct, numbers, return_dtype=nw.Int32).to_numpy()
        return codes, [label_of(column, value) for value in distinct]
    local = isinstance(dtype, nw.Datetime) and dtype.time_zone is not None
    if local or dtype.is_nested() or (dtype.is_integer() and series.null_count() > 0):
        # a lookup of integers by pandas would go through floats as well
        return factor_of_objects(column, series.to_list())
    return None


def _checked(groups: Groups, n: int | None, like: tuple[GroupColumn, ...] | None) -> Groups:
    """Return groups from an earlier call; refuse those of other columns or of other rows."""
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
        pairs = [
            v if isinstance(v, tuple) and len(v) == 2 and all(map(_is_column, v)) else (v, None)
            for v in by.values()
        ]
        return [(str(name), *pair) for name, pair in zip(by, pairs, strict=True)]
    if hasattr(by, "columns"):
        from calibrant.sources.frames import as_frame

        frame = as_frame(by)
        return [(str(name), frame.get_column(name), None) for name in frame.columns]
    several = isinstance(by, list | tuple) and by and all(map(_is_column, by))
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
    """Return the columns of an earlier call, by name if they have names, else in order."""
    names = [column.name for column in like]
    named = isinstance(by, Mapping) or hasattr(by, "columns")
    by_name = {name: (values, cuts) for name, values, cuts in arrays}
    if len(arrays) < len(like) or (named and not set(names) <= set(by_name)):
        raise InvalidArgumentError(
            f"Groups are those by {', '.join(names):.100}, {len(names)} column"
            f"{'s' * (len(names) > 1)}; got {', '.join(by_name):.100}. Pass a dict by these names, "
            "or the columns in this order."
        )
    if not named and len(arrays) > len(like):
        raise InvalidArgumentError(
            f"Groups are those by {', '.join(names):.100}; got {len(arrays)} columns. Pass a dict "
            "by these names, or these columns only."
        )
    pairs = [by_name[name] for name in names] if named else [pair[1:] for pair in arrays]
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


def _cuts(name: str, cuts: Any) -> tuple[float, ...] | None:
    if cuts is None:
        return None
    try:
        numbers = tuple(float(cut) + 0.0 for cut in cuts)  # -0.0 would print as another interval
    except (TypeError, ValueError):
        numbers = (np.nan,)
    if isinstance(cuts, str) or any(np.isnan(numbers)):
        raise InvalidArgumentError(
            f"The cuts of {name!r:.60} must be numbers that rise, such as [0, 40, 65, 120]; got "
            f"{cuts!r:.60}."
        )
    return GroupColumn(name, numbers).cuts


CLUSTER = "cluster"
"""The name of the column of clusters among arrays."""
GROUP_COLUMNS, CLUSTER_COLUMN = slice(None, -1), slice(-1, None)


def read_clustered(
    y_true: Any,
    y_prob: Any,
    kind: Kind | None,
    input: Input,
    classes: Sequence[Label] | None,
    pos_label: Label | None,
    sample_weight: Any,
    data: Any,
    by: Any,
    cluster: Any,
) -> tuple[Source, bool]:
    """Read as `read`, with clusters as the last column of groups; return whether there are any."""
    cluster, data = clusters_and_data(cluster, data, by)
    by = by if cluster is None else _groups_and_clusters(by, cluster, data)
    source = read(y_true, y_prob, kind, input, classes, pos_label, sample_weight, data, by)
    return source, cluster is not None


def clusters_and_data(cluster: Any, data: Any, by: Any = None) -> tuple[Any, Any]:
    """Resolve `cluster=` and `data=` of an evaluation log.

    Answers to one question of an evaluation log are a cluster unless False says that rows are
    independent; `read` refuses what is left, a log by groups whose questions repeat.
    """
    log = as_log(data)
    if log is None or not log.is_repeated:
        return (None if cluster is False else cluster), data
    if cluster is None and by is not None:
        return None, data
    return ("question" if cluster is None else cluster or None), dict(data)


def _groups_and_clusters(by: Any, cluster: Any, data: Any) -> dict[str, Any]:
    """Return a `by=` of the columns of groups and, as the last, that of clusters."""
    if data is not None and not isinstance(cluster, str):
        raise InvalidArgumentError(
            f"With data=, cluster= is the name of a column; got {cluster!r:.60}."
        )
    last = {CLUSTER: cluster} if data is None else {cluster: None}
    columns: dict[str, Any] = {}
    if data is not None and by is not None:
        columns = {column.name: column.cuts for column in columns_named(by)}
    elif by is not None:
        arrays = named_arrays(by)
        columns = {name: x if cuts is None else (x, cuts) for name, x, cuts in arrays}
    both = columns.keys() & last.keys()
    if both:
        raise InvalidArgumentError(
            f"A column puts rows into groups or into clusters, not both; got {both.pop()!r:.60} "
            "twice. Leave it out of by=, or give the cluster another column."
        )
    return columns | last


def clustered_rows(source: Source, weighted: bool = False) -> ArraySource:
    """Bring rows into memory with the cluster of each, the last column of their groups.

    Rows without a cluster are refused, and weights unless the caller reckons with them.
    """
    rows = source.in_memory()
    if rows.columns().weights is not None and not weighted:
        raise InvalidWeightsError(
            "Clusters are of rows that count alike; sample weights came too. Leave one of them "
            "out; validate takes both."
        )
    groups = required(rows.groups)
    missing = [place for place, labels in enumerate(groups.labels) if labels[-1] is None]
    alone = np.flatnonzero(np.isin(groups.codes, missing))
    if alone.size:
        raise InvalidGroupsError(
            f"Every row needs its cluster; {alone.size:,} of {len(groups.codes):,} have none "
            f"(first: row {alone[0]}). Drop these rows, or give each a cluster of its own."
        )
    return rows


def cluster_sums(
    rows: ArraySource, table: BinTable, weights: FloatArray, cluster: IntArray | None = None
) -> ClusterSums:
    """Sum the rows of each cluster in the bins of a table; those of `groups` unless given."""
    clusters = required(rows.groups).codes if cluster is None else cluster
    codes = np.unique(clusters, return_inverse=True)[1]
    columns = rows.columns()
    events, predictions = (x.reshape(len(codes), -1) for x in columns.events())
    return ClusterSums.of(codes, events, predictions, table.bins, weights, columns.weights)


def one_of_each(rows: ArraySource, seed: int) -> ArraySource:
    """Draw one row of each cluster at random, the same for a seed: those are independent."""
    return ArraySource(rows.columns().take(_drawn_rows(rows, seed)))


def one_of_each_by_group(rows: ArraySource, seed: int) -> tuple[ArraySource, bool]:
    """Draw one row of each cluster in each group; return also whether clusters are nested.

    The last column of the rows' groups is that of clusters.
    """
    crossed = required(rows.groups)
    groups, clusters = (_groups_by(crossed, which) for which in (GROUP_COLUMNS, CLUSTER_COLUMN))
    drawn = _drawn_rows(rows, seed)
    nested = np.unique(clusters.codes).size == drawn.size
    return ArraySource(rows.columns().take(drawn), _groups_of(groups, drawn)), nested


def _drawn_rows(rows: ArraySource, seed: int) -> IntArray:
    """Return the place of one row of each cluster, whatever the order of all rows.

    The rows of a cluster are put into an order of their contents, labels included, and a number
    of the seed and the cluster's name says which of them is drawn. Contents play no part in that
    number, so given all predictions and labels every row of a cluster has the same chance, as if
    it were drawn by its place. (A number made of the contents would not do: clusters of the same
    predictions would share it, and an order by labels would then choose the label.)
    """
    groups, columns = required(rows.groups), rows.columns()
    present, codes, counts = np.unique(groups.codes, return_inverse=True, return_counts=True)
    order = np.lexsort((row_hashes(columns.predictions, columns.codes()), codes))
    labels = [groups.labels[code] for code in present]
    names = [tuple(map(str, x)) for x in labels]
    if len(set(names)) < len(names):  # as 1 and "1" do, and no two may share their number
        names = [tuple(map(repr, x)) for x in labels]
    # uniform on [0, 1), yet fixed by the seed and the name
    hashes = [hashlib.blake2b(json.dumps([seed, *x]).encode(), digest_size=8) for x in names]
    share = np.array([int.from_bytes(x.digest()) / 2**64 for x in hashes])
    first = np.cumsum(counts) - counts
    drawn = order[first + np.minimum(share * counts, counts - 1).astype(np.intp)]
    return np.asarray(drawn[np.argsort(share)])  # sums are the same to the last digit, too


def clusters_by_group(rows: ArraySource) -> tuple[ArraySource, Groups]:
    """Return rows in their groups alone, and the cluster of each; two at least in every group."""
    crossed = required(rows.groups)
    groups, clusters = (_groups_by(crossed, which) for which in (GROUP_COLUMNS, CLUSTER_COLUMN))
    present = np.unique(crossed.codes)
    distinct = Groups(crossed.by, present, crossed.labels)
    counts = np.bincount(_groups_by(distinct, GROUP_COLUMNS).codes)
    alone = np.flatnonzero(counts == 1)
    if alone.size:
        raise InvalidGroupsError(
            f"Clusters tell chance from error by their differences: every group needs 2; of "
            f"{alone.size:,} groups all rows are in one (first: {groups.labels[alone[0]]!r:.60}). "
            "Leave their rows out, or take groups that are wider."
        )
    return ArraySource(rows.columns(), groups), clusters


def cluster_sums_of_groups(
    rows: ArraySource, clusters: Groups, tables: Tables, weights: FloatArray
) -> tuple[ClusterSums, ...]:
    """Sum the rows of each cluster in the bins of the table of its group, group by group."""
    place = {labels: i for i, labels in enumerate(tables.labels)}
    sums = {}
    for labels, members in required(rows.groups).rows():
        part = ArraySource(rows.columns().take(members), _groups_of(clusters, members))
        sums[place[labels]] = cluster_sums(part, tables.at(place[labels]), weights)
    return tuple(sums[i] for i in range(len(tables)))


def _groups_by(groups: Groups, which: slice) -> Groups:
    """Return groups by some of the columns."""
    number: dict[tuple[GroupLabel, ...], int] = {}
    numbers = [number.setdefault(labels[which], len(number)) for labels in groups.labels]
    codes: IntArray = np.array(numbers, np.int32)
    return Groups(groups.by[which], codes[groups.codes], list(number))


def _groups_of(groups: Groups, rows: IntArray) -> Groups:
    return Groups(groups.by, groups.codes[rows], groups.labels)
