"""From files to tables, in bounded memory: passes that choose bins, then one that counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from calibrant._influences import Influence, InfluenceSums
from calibrant.bins import BinRule, Bins, BinsLike, Distinct, as_bin_rule, is_auto
from calibrant.cli.messages import located
from calibrant.engines import engine_for
from calibrant.engines.chunks import BinSearch
from calibrant.exceptions import EmptyInputError
from calibrant.measure import check_whole
from calibrant.problem import Problem, Rows, check_heaviest
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
    while search.asks:
        number += 1
        sketch = search.sketch()
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
        search.answer(sketch)
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


def influence_sums(data: Data, table: BinTable, influence: Influence) -> InfluenceSums:
    """Read all files once more, for the interval of an error of several classes."""
    total = InfluenceSums()
    for _, rows_of_file in _files(data, table.problem, "reading again"):
        for chunk, rows in rows_of_file:
            with located(chunk):
                total += _of_rows(rows, table, influence)
    return total


def _of_rows(rows: Rows, table: BinTable, influence: Influence) -> InfluenceSums:
    sums = engine_for(rows).influence_sums(rows, table.bins, influence)
    return InfluenceSums() if sums is None else sums


def _count_file(
    rows_of_file: Iterator[tuple[Chunk, Rows]], bins: tuple[Bins, ...], digest: RowDigest | None
) -> BinTable | None:
    total: BinTable | None = None
    for chunk, rows in rows_of_file:
        with located(chunk):
            part = engine_for(rows).tabulate(rows, bins)
        if digest is not None:
            digest.update(rows.probs, rows.codes())
        total = part if total is None else total + part
    return total


def _files(
    data: Data, problem: Problem, what: str, start: int = 0
) -> Iterator[tuple[int, Iterator[tuple[Chunk, Rows]]]]:
    """Yield the number of each file, and its rows, which must pose the same problem."""
    with data.bar(what) as bar:
        for number in range(start, len(data.files)):
            yield number, _rows(data, problem, bar.watched(number, data.read(number)))


def _rows(data: Data, problem: Problem, chunks: Iterator[Chunk]) -> Iterator[tuple[Chunk, Rows]]:
    for chunk in chunks:
        yield chunk, data.rows_of(chunk, problem)
