"""From files to tables, in bounded memory: passes that choose bins, then one that counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant.bins import BinRule, Bins, BinsLike, Distinct, as_bin_rule, is_auto
from calibrant.cli.messages import located
from calibrant.columns import Columns, check_heaviest
from calibrant.engines import engine_for
from calibrant.engines.search import BinSearch, Sketch
from calibrant.exceptions import EmptyInputError
from calibrant.problem import Problem
from calibrant.sources import check_whole
from calibrant.stats.estimators import cells_of
from calibrant.stats.results import UNRESOLVED_LIMIT

if TYPE_CHECKING:
    from calibrant._digests import RowDigest
    from calibrant.cli.input import Data
    from calibrant.cli.resume import Checkpoints
    from calibrant.files.reading import Chunk
    from calibrant.table import BinTable

MOST_OUTPUTS = 1_000_000


def tabulate(
    data: Data,
    bins: BinsLike,
    checkpoints: Checkpoints | None = None,
    digest: RowDigest | None = None,
) -> BinTable:
    """Count all files in these bins, as if they were one.

    Checkpoints keep what has been finished, for a run that is stopped and started again. A
    digest takes in all rows; the two do not go together.
    """
    rule: Bins | BinRule | Literal["auto"] = "auto"
    if not is_auto(bins):
        rule = as_bin_rule(bins, 0)
    problem = _problem_of(data)
    if isinstance(rule, Bins):
        return count(data, problem, (rule,) * problem.n_groups, checkpoints, digest)
    return count(data, problem, _choose(data, problem, rule, checkpoints), checkpoints, digest)


def tabulate_outputs(data: Data, digest: RowDigest | None = None) -> BinTable:
    """Count every distinct output in a bin of its own, or continuous ones in "auto" bins.

    The rule is that of `calibrant.certify`; and more than a million outputs are continuous.
    """
    problem = _problem_of(data)
    try:
        bins = _choose(data, problem, Distinct(), None, MOST_OUTPUTS)
    except _TooManyOutputsError:
        return tabulate(data, "auto", digest=digest)
    table = count(data, problem, bins, None, digest)
    if cells_of(table).unresolved_mass.max() > UNRESOLVED_LIMIT:
        return tabulate(data, "auto")
    return table


class _TooManyOutputsError(Exception):
    pass


def _problem_of(data: Data) -> Problem:
    """Return the problem that the first rows pose."""
    for chunk in data.chunks():
        return data.rows_of(chunk).problem
    names = ", ".join(file.shown for file in data.files[:3])
    raise EmptyInputError(f"{names}: there are no rows; at least one is needed.")


def _choose(
    data: Data,
    problem: Problem,
    rule: BinRule | Literal["auto"],
    checkpoints: Checkpoints | None,
    most: int | None = None,
) -> tuple[Bins, ...]:
    """Let a rule choose bins from all files."""
    search, number = BinSearch(rule, problem.n_groups), 0
    while search.queries:
        number += 1
        sketch = Sketch(search.queries)
        done = 0 if checkpoints is None else checkpoints.restore_pass(number, sketch)
        for i, rows_of_file in _files(data, problem, f"choosing bins, pass {number}", done):
            for chunk, rows in rows_of_file:
                with located(chunk):
                    sketch.add(rows)
                if most is not None and sketch.n_cells() > most:
                    raise _TooManyOutputsError
            if checkpoints is not None:
                checkpoints.save_pass(number, sketch, i + 1)
        if number == 1 and sketch.n_cells() == 0:
            check_heaviest(0.0)
        search.answer(sketch.n_rows, sketch.cells())
    return search.bins()


def count(
    data: Data,
    problem: Problem,
    bins: tuple[Bins, ...],
    checkpoints: Checkpoints | None = None,
    digest: RowDigest | None = None,
) -> BinTable:
    """Sum all files in given bins."""
    total: BinTable | None = None
    for i, rows_of_file in _files(data, problem, "counting"):
        known, part = (False, None) if checkpoints is None else checkpoints.restore_table(i, bins)
        if not known:
            part = _count_file(rows_of_file, bins, digest)
            if checkpoints is not None:
                checkpoints.save_table(i, part)
        if part is not None:
            total = part if total is None else total + part
    if total is None:
        raise EmptyInputError("There are no rows; at least one is needed.")
    check_whole(total, None if total.sum_y.any() else next(data.chunks()).labels)
    return total


class CountedRows:
    """The rows of a table, for the interval of an error of several classes."""

    def __init__(self, data: Data, problem: Problem) -> None:
        self._data, self._problem = data, problem

    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums:
        """Read all files once more."""
        total = InfluenceSums()
        for _, rows_of_file in _files(self._data, self._problem, "reading again"):
            for chunk, rows in rows_of_file:
                with located(chunk):
                    engine = engine_for(rows.predictions.size)
                    total += engine.influence_sums(rows, bins, influence)
        return total

    def resample(self, bins: tuple[Bins, ...], rng: np.random.Generator) -> BinTable:
        """Refuse: the command line draws no rows."""
        raise NotImplementedError


def _count_file(
    rows_of_file: Iterator[tuple[Chunk, Columns]], bins: tuple[Bins, ...], digest: RowDigest | None
) -> BinTable | None:
    total: BinTable | None = None
    for chunk, rows in rows_of_file:
        with located(chunk):
            part = engine_for(rows.predictions.size).count(rows, bins)
        if digest is not None:
            digest.update(rows.predictions, rows.codes())
        total = part if total is None else total + part
    return total


def _files(
    data: Data, problem: Problem, what: str, start: int = 0
) -> Iterator[tuple[int, Iterator[tuple[Chunk, Columns]]]]:
    """Yield the number of each file, and its rows, which must pose the same problem."""
    with data.bar(what) as bar:
        for number in range(start, len(data.files)):
            yield number, _rows(data, problem, bar.watched(number, data.read(number)))


def _rows(data: Data, problem: Problem, chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, Columns]]:
    for chunk in chunks:
        yield chunk, data.rows_of(chunk, problem)
