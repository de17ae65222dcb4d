"""Folds: rows that are fitted on and rows that are held out, over which every class is spread."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from calibrant._types import AnyArray, BoolArray, IntArray
from calibrant.exceptions import InvalidArgumentError


def fold_of_rows(codes: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Return the fold of each row; every class is spread evenly."""
    order = rng.permutation(codes.size)
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(codes.size, np.intp)
    fold[order] = np.arange(codes.size) % n_folds
    return fold


def train_and_test(
    cv: Any, x: Any, y: AnyArray, groups: Any, used: BoolArray
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows with a weight that each fold trains on and tests."""
    if isinstance(cv, numbers.Integral):
        yield from _even_folds(int(cv), y, np.flatnonzero(used))
        return
    # A splitter may name rows by position, so it sees all of them.
    for number, fold in enumerate(_splits(cv, x, y, groups), start=1):
        train, test = _parts(fold, number, len(y))
        yield train[used[train]], test[used[test]]


def _even_folds(cv: int, y: AnyArray, used: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    if cv < 2:
        raise InvalidArgumentError(
            f'cv must be 2 folds or more, a splitter or "prefit"; got {cv!r:.60}.'
        )
    if cv > used.size:
        raise InvalidArgumentError(
            f"cv must be at most the number of rows with a weight, {used.size:,}; got {cv!r:.60}. "
            "Use fewer folds, or more rows."
        )
    _, codes = np.unique(y[used], return_inverse=True)
    fold = fold_of_rows(codes, cv, np.random.default_rng(0))
    for k in range(cv):
        yield used[fold != k], used[fold == k]


def _splits(cv: Any, x: Any, y: AnyArray, groups: Any) -> Iterator[Any]:
    """Return the folds of a splitter, or those that came as they are."""
    try:
        # Text, bytes and classes have a split too, which is another one.
        if not isinstance(cv, str | bytes | type):
            if cv is not None and not hasattr(cv, "split"):
                return iter(cv)
            return iter(check_cv(cv, y, classifier=True).split(x, y, groups))
    except TypeError:
        pass
    raise InvalidArgumentError(
        f'cv must be 2 folds or more, a splitter or "prefit"; got {cv!r:.60}. Write 5 for five '
        "folds, or pass a splitter object, such as StratifiedKFold(5)."
    )


def _parts(fold: Any, number: int, n: int) -> tuple[IntArray, IntArray]:
    """Return the rows that a fold trains on and those that it tests."""
    try:
        train, test = (np.arange(n)[part] for part in fold)
        if train.ndim == test.ndim == 1:
            return train, test
    except (TypeError, ValueError, IndexError):
        pass
    raise InvalidArgumentError(
        f"Each fold of cv must be a pair of arrays, the positions among {n:,} rows to train on and "
        f"to test; fold {number} is {fold!r:.60}. Use a number of folds, or a splitter such as "
        "StratifiedKFold(5)."
    )
