"""Clusters of rows that depend on each other: ``cluster=``, a column of patients or days."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._types import FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidGroupsError, InvalidWeightsError
from calibrant.groups import GroupLabel, Groups, required
from calibrant.sources import Source
from calibrant.sources.arrays import ArraySource
from calibrant.sources.groups import columns_named, named_arrays
from calibrant.stats.clusters import ClusterSums
from calibrant.table import BinTable

CLUSTER = "cluster"
"""The name of the column of clusters among arrays."""


def clusters_and_data(cluster: Any, data: Any, by: Any = None) -> tuple[Any, Any]:
    """Return `cluster=` and `data=` as they are meant.

    Answers to one question of an evaluation log are a cluster unless False says that rows are
    independent; `read` refuses what is left, a log by groups whose questions repeat.
    """
    if not getattr(data, "is_repeated", False):
        return (None if cluster is False else cluster), data
    if cluster is None and by is not None:
        return None, data
    return ("question" if cluster is None else cluster or None), dict(data)


def cluster_column(cluster: Any, data: Any, by: Any = None) -> Any:
    """Return `cluster=` as a `by=` of one column."""
    if by is not None:
        raise InvalidArgumentError(
            "cluster= and by= are not taken together. Pass the rows of one group at a time."
        )
    if data is None:
        return {CLUSTER: cluster}
    if not isinstance(cluster, str):
        raise InvalidArgumentError(
            f"With data=, cluster= is the name of a column; got {cluster!r:.60}."
        )
    return cluster


def groups_and_clusters(by: Any, cluster: Any, data: Any) -> Any:
    """Return a `by=` of the columns of groups and, as the last, that of clusters."""
    if by is None:
        return cluster_column(cluster, data)
    columns: dict[str, Any]
    last: dict[str, Any]
    if data is None:
        arrays = named_arrays(by)
        columns = {name: x if cuts is None else (x, cuts) for name, x, cuts in arrays}
        last = {CLUSTER: cluster}
    else:
        columns = {column.name: column.cuts for column in columns_named(by)}
        last = {cluster_column(cluster, data): None}
    both = columns.keys() & last.keys()
    if both:
        raise InvalidArgumentError(
            f"A column puts rows into groups or into clusters, not both; got {both.pop()!r:.60} "
            "twice. Leave it out of by=, or give the cluster another column."
        )
    return columns | last


def clustered_rows(source: Source) -> ArraySource:
    """Bring rows into memory with the cluster of each; refuse weights, and missing clusters."""
    rows = source.in_memory()
    if rows.columns().weights is not None:
        raise InvalidWeightsError(
            "Clusters are of rows that count alike; sample weights came too. Leave one of them out."
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


def cluster_sums(rows: ArraySource, table: BinTable, weights: FloatArray) -> ClusterSums:
    """Sum the rows of each cluster in the bins of a table."""
    present, codes = np.unique(required(rows.groups).codes, return_inverse=True)
    events, said = (x.reshape(len(codes), -1) for x in rows.columns().events())
    cells = np.column_stack([own.index(p) for own, p in zip(table.bins, said.T, strict=True)])
    return ClusterSums.of(codes, present.size, events, said, cells, weights, table.count.shape[1])


def one_of_each(rows: ArraySource, seed: int) -> ArraySource:
    """Draw one row of each cluster at random, the same for a seed: those are independent."""
    codes = required(rows.groups).codes
    order = np.random.default_rng(seed).permutation(len(codes))
    first = np.unique(codes[order], return_index=True)[1]
    return ArraySource(rows.columns().take(np.sort(order[first])))


def one_of_each_by_group(rows: ArraySource, seed: int) -> tuple[ArraySource, bool]:
    """Draw one row of each cluster in each group; tell whether no cluster is in several groups.

    The last column of the rows' groups is that of clusters.
    """
    crossed = required(rows.groups)
    order = np.random.default_rng(seed).permutation(len(crossed.codes))
    present, first = np.unique(crossed.codes[order], return_index=True)
    drawn = np.sort(order[first])
    labels = [crossed.labels[code] for code in present.tolist()]
    number: dict[tuple[GroupLabel, ...], int] = {}
    group_of: IntArray = np.zeros(len(crossed.labels), np.int32)
    group_of[present] = [number.setdefault(label[:-1], len(number)) for label in labels]
    groups = Groups(crossed.by[:-1], group_of[crossed.codes[drawn]], list(number))
    nested = len({label[-1] for label in labels}) == len(labels)
    return ArraySource(rows.columns().take(drawn), groups), nested
