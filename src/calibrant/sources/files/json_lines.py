"""JSON lines as record batches, checked before PyArrow's parser sees them.

That parser crashes on a line that is not an object and on deep nesting, takes two objects of one
line for two rows, and stops at columns of changing type even if they are not asked for. So every
block is looked at first, and what the parser refuses is read again by Python's own, line by line:
slower, but it names the row.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant._lazy import pa, pc
from calibrant.sources.files.streams import (
    BadContentError,
    Batches,
    Choose,
    LineBlocks,
    arrow_stream,
    opened,
)

DEEPEST = 100
"""Levels of nesting. PyArrow crashes at 20,000 and takes seconds at 2,000."""
BEYOND_INT64 = 2.0**63


def json_batches(path: str, choose: Choose, block_bytes: int) -> Batches:
    """Yield the chosen columns; which they are, and their order, is settled by the first block.

    An object without one of them has a missing value there.
    """
    reader = _Reader(choose)
    for block, share in _blocks(path, block_bytes):
        for batch in reader.batches(block):
            yield batch, share


def json_objects(path: str, block_bytes: int) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """Yield the objects as they are, some at a time."""
    done = 0
    for block, share in _blocks(path, block_bytes):
        rows = _objects(block, done)
        done += len(rows)
        if rows:
            yield rows, share


def _blocks(path: str, block_bytes: int) -> Iterator[tuple[bytes, float]]:
    with opened(path) as (stream, share):
        lines = LineBlocks(stream, block_bytes)
        if block := lines.read():
            yield block.removeprefix(b"\xef\xbb\xbf"), share()
        while block := lines.read():
            yield block, share()


class _Reader:
    def __init__(self, choose: Choose) -> None:
        self.choose, self.done = choose, 0
        self.kept: list[str] | None = None
        self.seen: list[str] = []

    def batches(self, block: bytes) -> list[Any]:
        """Return a block as record batches of the columns that the first block settled."""
        n = _plain_lines(block)
        if n == 0:  # blank lines name no columns
            return []
        table = None if n is None else self._parse(block, n)
        if table is None:
            return self._parse_slowly(block)
        self.done += table.num_rows
        return list(table.to_batches())

    def _parse(self, block: bytes, n: int) -> Any:
        """Return the table; None if Arrow's parser is not certain to read it right."""
        try:
            table = _read_json(block)
            if table.num_rows != n:
                return None
            names = self._settled(table.schema.names)
            dates = [f for f in table.schema if f.name in names and pa.types.is_temporal(f.type)]
            if dates:  # text that looks like dates in this block, and perhaps not in the next
                table = _read_json(block, pa.schema([(field.name, pa.string()) for field in dates]))
            for name in names:
                if name not in table.schema.names:
                    table = table.append_column(name, pa.nulls(n))
            table = table.select(names)
            table.validate(full=True)
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        return None if any(map(_may_be_rounded, table.columns)) else table

    def _parse_slowly(self, block: bytes) -> list[Any]:
        rows = _objects(block, self.done)
        if not rows:
            return []
        names = self._settled(list(dict.fromkeys(name for row in rows for name in row)))
        columns = [as_column([row.get(name) for row in rows], name, self.done) for name in names]
        self.done += len(rows)
        return [pa.RecordBatch.from_arrays(columns, names)]

    def _settled(self, names: list[str]) -> list[str]:
        """Return the columns to read; refuse one that only comes up now."""
        if self.kept is None:
            self.kept, self.seen = self.choose(names), names
        elif names != self.seen:
            known = dict.fromkeys(self.kept)
            added = [n for n in self.choose([*(known | dict.fromkeys(names))]) if n not in known]
            if added:
                raise BadContentError(
                    f"rows from {self.done + 1:,}: column {added[0]!r:.80} is wanted as well, but "
                    "the rows before have none. Columns must be the same in all rows"
                )
            self.seen = names
        return self.kept


def as_column(values: list[Any], name: str, done: int) -> Any:
    """Return values as an Arrow array; an error names the first that does not fit the others."""

    def array(length: int) -> Any:
        try:
            return pa.array(values[:length])
        except OverflowError:  # perhaps unsigned identifiers of 64 bits
            return pa.array(values[:length], pa.uint64())

    def fails(length: int) -> bool:
        try:
            array(length)
        except (pa.ArrowException, OverflowError, UnicodeError):
            return True
        return False

    if not fails(len(values)):
        return array(len(values))
    row = bisect_left(range(1, len(values)), True, key=fails)
    raise BadContentError(
        f"column {name!r:.80}, row {done + row + 1:,} is {values[row]!r:.60}, which is not of the "
        "type that the rows before it have"
    )


def _may_be_rounded(column: Any) -> bool:
    """Return whether floats may be integers beyond 63 bits, which Arrow reads as floats."""
    if not pa.types.is_floating(column.type):
        return False
    return bool((pc.max(pc.abs(column)).as_py() or 0.0) >= BEYOND_INT64)


def _plain_lines(block: bytes) -> int | None:
    """Count the lines that are not blank; None if one may be no object or is nested."""
    octets = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(octets == ord("\n"))
    starts = np.concatenate([[0], ends + 1])
    starts = starts[starts < len(octets)]
    first = octets[starts]
    objects = int(np.count_nonzero(first == ord("{")))
    if objects + np.count_nonzero((first == ord("\n")) | (first == ord("\r"))) < len(starts):
        return None
    opening = (octets == ord("{")) | (octets == ord("["))
    if np.add.reduceat(opening, starts, dtype=np.int64).max(initial=0) > DEEPEST:
        return None  # perhaps deep: brackets in text count as well
    return objects


def _read_json(block: bytes, schema: Any = None) -> Any:
    import pyarrow.json as pa_json

    return pa_json.read_json(
        arrow_stream(block),
        pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        pa_json.ParseOptions(explicit_schema=schema),
    )


def _objects(block: bytes, done: int) -> list[dict[str, Any]]:
    """Return the objects of a block; an error names the first line that is none."""
    rows: list[dict[str, Any]] = []
    for line in block.split(b"\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_without_repeats)
            reason = "" if isinstance(row, dict) else "it is JSON, but no object"
            if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(row) > DEEPEST:
                reason = f"it is nested more than {DEEPEST} levels deep"
        except (ValueError, RecursionError) as error:
            deep = isinstance(error, RecursionError)
            reason = f"it is nested more than {DEEPEST} levels deep" if deep else str(error)
        if reason:
            raise BadContentError(
                f"row {done + len(rows) + 1:,} is not an object such as "
                f'{{"label": 1, "score": 0.7}}: {line[:60].decode(errors="replace")!r} ({reason})'
            )
        rows.append(row)
    return rows


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{twice!r:.80} stands there twice")
    return row


def _depth(value: Any) -> int:
    """Return how deeply lists and objects are nested, without recursion."""
    level, depth = [value], 0
    while level := [node for node in level if isinstance(node, dict | list)]:
        depth += 1
        level = [x for node in level for x in (node.values() if isinstance(node, dict) else node)]
    return depth
