"""Files of predictions: CSV, TSV, Parquet, JSON lines, Arrow and .npz, never unpickled.

They are read in chunks, pass after pass, so that memory does not grow with the rows: passes that
choose bins, then one that counts. What is wrong with a row is said with file, column and row as its
chunk is read; no file is read again for a message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack

import numpy as np

from calibrant._digests import RowDigest
from calibrant._influences import Influence, InfluenceSums
from calibrant._types import AnyArray
from calibrant.bins import BinRule, Bins, Distinct
from calibrant.columns import Columns, absent_event, check_heaviest
from calibrant.engines import engine
from calibrant.engines.search import BinSearch, Sketch
from calibrant.exceptions import EmptyInputError, InvalidArgumentError, InvalidShapeError
from calibrant.groups import Groups
from calibrant.sources import Meaning, Source, check_whole
from calibrant.sources.arrays import ArraySource, read_arrays
from calibrant.sources.column_names import (
    check_order,
    listed,
    shown_names,
)
from calibrant.sources.files.reading import (
    Chunk,
    ColumnNames,
    Hooks,
    located,
    read_chunks,
)
from calibrant.sources.files.streams import File, expand
from calibrant.sources.groups import columns_named
from calibrant.table import BinTable
from calibrant.tables import RunningTables, Tables

Part = TypeVar("Part", BinTable, Tables)

MOST_OUTPUTS = 1_000_000
"""A model with more distinct outputs is taken as continuous: their table would be as large as the
data, and each would have too few rows to say anything."""
LABELS_SHOWN = 1_000
"""Labels of the first rows are kept, for the message that none of them is the event."""


@dataclass(frozen=True)
class Files:
    """The files that ``data=`` names, and the hooks that are called as they are read."""

    files: Sequence[File]
    hooks: Hooks

    @classmethod
    def of(cls, data: Any) -> Files:
        """Return the files of a path, a pattern such as ``part-*.parquet``, or several of them."""
        if isinstance(data, Files):
            return data
        names = [data] if isinstance(data, str | os.PathLike) else data
        return cls([File.of(path) for path in expand([os.fspath(name) for name in names])], Hooks())


class FileSource(Source):
    """Columns of files; the first rows fix their order and the problem for all others."""

    is_lazy = True
    names: tuple[str, ...]

    def __init__(self, files: Files, names: ColumnNames, meaning: Meaning) -> None:
        self._files, self._hooks = files.files, files.hooks
        self._columns, self._meaning = names, meaning
        self.by = names.by
        self._distinct: tuple[Bins, ...] | None = None
        self._row_digest: RowDigest | None = None
        self._digests_rows = False
        self._home: ArraySource | None = None
        with self._pass("reading"):
            for file in self._files:
                for chunk in read_chunks(file, names):
                    self.names = shown_names(chunk.label_names, chunk.names)
                    self._label_names = chunk.label_names
                    self._first_labels = chunk.labels[:LABELS_SHOWN]
                    kind, classes = meaning.get("kind"), meaning.get("classes")
                    check_order(chunk.label_names, chunk.names, kind, classes)
                    with located(chunk):
                        self.problem = self._columns_of(chunk).problem
                    self._hooks.settle(self.names)
                    return
        raise EmptyInputError(
            f"{', '.join(file.shown for file in self._files[:3])}: there are no rows; at least one "
            "is needed."
        )

    def choose(self, rule: BinRule | Literal["auto"]) -> tuple[Bins, ...]:
        """Choose bins in as many passes as the rule needs."""
        if isinstance(rule, Distinct) and self._distinct is not None:
            return self._distinct
        return self._search(rule)

    def looks_continuous(self) -> bool:
        """Give up on distinct outputs once there are a million of them; else keep their bins."""
        try:
            self._distinct = self._search(Distinct(), MOST_OUTPUTS)
        except _TooManyOutputsError:
            return True
        return False

    def _search(
        self, rule: BinRule | Literal["auto"], most_cells: int | None = None
    ) -> tuple[Bins, ...]:
        search, number = BinSearch(rule, self.problem.n_groups), 0
        while search.queries:
            number += 1
            sketch = Sketch(search.queries)

            def add(columns: Columns, _: Chunk, sketch: Sketch = sketch) -> None:
                sketch.add(columns)
                if most_cells is not None and sketch.n_cells() > most_cells:
                    raise _TooManyOutputsError

            with self._pass(f"choosing bins, pass {number}"):
                for file in range(self._hooks.restore_pass(number, sketch), len(self._files)):
                    self._read_file(file, add)
                    self._hooks.save_pass(number, sketch, file + 1)
            if number == 1 and sketch.n_cells() == 0:
                check_heaviest(0.0)
            search.answer(sketch.n_rows, sketch.cells())
        return search.bins()

    def count(self, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows of all files in one pass."""
        digest = RowDigest() if self._digests_rows and self._row_digest is None else None
        total: BinTable | None = None
        for part in self._parts(bins, lambda number: self._count_file(number, bins, digest)):
            total = part if total is None else total + part
        if total is None:
            raise EmptyInputError("There are no rows any more; at least one is needed.")
        self._row_digest = digest or self._row_digest
        return total

    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Check and sum the rows of each group in one pass; what is held grows with the groups."""
        total = RunningTables()
        for part in self._parts(bins, lambda number: self._count_file_by(number, bins)):
            total.add(part)
        return total.tables()

    def _parts(self, bins: tuple[Bins, ...], count: Callable[[int], Part | None]) -> Iterator[Part]:
        """Yield the table of each file with rows, counted now or restored."""
        with self._pass("counting"):
            for number in range(len(self._files)):
                is_counted, known = self._hooks.restore_table(number, bins)
                part: Any = known
                if not is_counted:
                    part = count(number)
                    self._hooks.save_table(number, part)
                if part is not None:
                    yield part

    def _count_file(
        self, number: int, bins: tuple[Bins, ...], digest: RowDigest | None
    ) -> BinTable | None:
        total: BinTable | None = None

        def add(columns: Columns, _: Chunk) -> None:
            nonlocal total
            part = engine().count(columns, bins)
            total = part if total is None else total + part
            if digest is not None:
                digest.update(columns.predictions, columns.codes())

        self._read_file(number, add)
        return total

    def _count_file_by(self, number: int, bins: tuple[Bins, ...]) -> Tables | None:
        total = RunningTables()

        def add(columns: Columns, chunk: Chunk) -> None:
            groups = Groups.of(self.by, chunk.groups)
            total.add(ArraySource(columns, groups).count_by(bins))

        self._read_file(number, add)
        return total.tables() if total else None

    def check_total(self, table: BinTable | Tables) -> None:
        """Refuse the sums of all files where no row has weight, or none is the event."""
        super().check_total(table)
        check_whole(table)

    def in_memory(self) -> ArraySource:
        """Read the named columns of all files into memory, and check every value."""
        labels, probs, weights, groups = self.arrays_and_groups()
        columns = read_arrays(labels, probs, sample_weight=weights, **self._meaning)
        columns.check_weights()
        columns.check_event()
        return ArraySource(columns, groups)

    def arrays(self) -> tuple[AnyArray, AnyArray, AnyArray | None]:
        """Return checked labels, predictions and weights as they stand in the files.

        For recalibrators, which read arrays themselves: of two columns both are returned.
        """
        return self.arrays_and_groups()[:3]

    def arrays_and_groups(self) -> tuple[AnyArray, AnyArray, AnyArray | None, Groups | None]:
        """Return the values of `arrays` and, with ``by=``, the groups of the rows."""
        parts: list[Chunk] = []
        self._read_all(lambda _, chunk: parts.append(chunk))
        groups = [Groups.of(self.by, chunk.groups) for chunk in parts] if self.by else []
        return *_joined(parts), Groups.joined(groups) if groups else None

    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums:
        """Read the rows of a marginal table once more."""
        total = InfluenceSums()

        def add(columns: Columns, _: Chunk) -> None:
            nonlocal total
            total += engine().influence_sums(columns, bins, influence)

        with self._pass("reading again"):
            for number in range(len(self._files)):
                self._read_file(number, add)
        return total

    def resample(self, bins: tuple[Bins, ...], rng: np.random.Generator) -> BinTable:
        """Draw rows in memory: they are read once for all draws."""
        self._home = self._home or self.in_memory()
        return self._home.resample(bins, rng)

    def check_event(self) -> None:
        """Raise the exception that no counted row is the event."""
        if self.problem.pos_label is not None:
            raise absent_event(self.problem.pos_label, self._first_labels)

    def keep_digest(self) -> None:
        """Make the digest in the pass that counts, which saves one."""
        self._digests_rows = True

    def digest(self) -> str:
        """Return the digest of all rows, in any order."""
        if self._row_digest is None:
            digest = RowDigest()
            self._read_all(lambda columns, _: digest.update(columns.predictions, columns.codes()))
            self._row_digest = digest
        return str(self._row_digest)

    def _read_all(self, step: Callable[[Columns, Chunk], object]) -> None:
        """Pass the checked rows of all files to `step`, chunk by chunk."""

        def check(columns: Columns, chunk: Chunk) -> None:
            columns.check()
            step(columns, chunk)

        with self._pass("reading"):
            for number in range(len(self._files)):
                self._read_file(number, check)

    def _read_file(self, number: int, step: Callable[[Columns, Chunk], object]) -> None:
        """Pass the rows of a file to `step`, chunk by chunk; exceptions say where in the file."""
        order = (self.names[1:], self._label_names)
        for chunk in read_chunks(self._files[number], self._columns, *order):
            self._hooks.advance(number, chunk.share, len(chunk))
            with located(chunk):
                columns = self._columns_of(chunk)
                if columns.problem == self.problem:
                    step(columns, chunk)
                    continue
            raise InvalidShapeError(
                f"{chunk.file.shown}, rows from {chunk.start + 1:,}: there are "
                f"{columns.problem.n_classes:,} classes, in the rows before "
                f"{self.problem.n_classes:,}. Files of one run must have the same columns."
            )

    def _columns_of(self, chunk: Chunk) -> Columns:
        return read_arrays(chunk.labels, chunk.probs, sample_weight=chunk.weights, **self._meaning)

    @contextmanager
    def _pass(self, what: str) -> Iterator[None]:
        self._hooks.begin(what, self._files)
        try:
            yield
        finally:
            self._hooks.end()


class _TooManyOutputsError(Exception):
    pass


def _joined(chunks: list[Chunk]) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    weights = [chunk.weights for chunk in chunks if chunk.weights is not None]
    return (
        np.concatenate([chunk.labels for chunk in chunks]),
        np.concatenate([chunk.probs for chunk in chunks]),
        np.concatenate(weights) if weights else None,
    )


def read_files(
    data: Any,
    y_true: Any,
    y_prob: Any,
    sample_weight: Any = None,
    by: Any = None,
    numbers: Mapping[str, float] | None = None,
    **meaning: Unpack[Meaning],
) -> FileSource:
    """Read columns of files: names, and for predictions patterns such as ``"prob_*"``.

    `numbers` are what names in the columns of predictions stand for.
    """
    labels, patterns = _names(y_true, y_prob, sample_weight)
    kind, classes = meaning.get("kind"), meaning.get("classes")
    if kind != "multi-label" and len(labels) != 1:
        raise InvalidArgumentError(
            f'Several columns of labels are those of kind="multi-label"; got {len(labels):,} for '
            f"kind={kind!r:.30}. Name one column."
        )
    label = meaning.get("pos_label") if classes is None else next(iter(classes), None)
    text = None if label is None else isinstance(label, str)
    if kind in ("multi-label", "quantile"):  # classes name columns there, not values
        text = False
    grouping = () if by is None else columns_named(by)
    label_names = tuple(labels) if kind == "multi-label" else labels[0]
    names = ColumnNames(label_names, patterns, sample_weight, text, grouping, numbers)
    return FileSource(Files.of(data), names, meaning)


def named_numbers(
    data: Any, y_true: Any, y_prob: Any, sample_weight: Any
) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    """Return columns of real numbers as they stand in the files, all in memory."""
    labels, patterns = _names(y_true, y_prob, sample_weight)
    columns = ColumnNames(labels[0], patterns, sample_weight, text_labels=False)
    chunks: list[Chunk] = []
    for file in Files.of(data).files:
        chunks += read_chunks(file, columns, chunks[0].names if chunks else None)
    if not chunks:
        raise EmptyInputError(f"There are no rows in {data!r:.60}; at least one is needed.")
    return _joined(chunks)


def _names(y_true: Any, y_prob: Any, sample_weight: Any) -> tuple[list[str], list[str]]:
    """Return the names of labels and of predictions as lists; refuse anything but text."""
    labels, patterns = listed(y_true), listed(y_prob)
    for name in (*(labels or [y_true]), *(patterns or [y_prob]), sample_weight or ""):
        if not isinstance(name, str):
            raise InvalidArgumentError(
                "With files as data=, y_true, y_prob and sample_weight are names of columns; got "
                f"{name!r:.60}. Pass the name of a column, or leave data= out."
            )
    return labels, patterns
