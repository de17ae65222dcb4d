"""CSV and TSV as record batches, every line of the file accounted for.

A quote that somebody forgot to close makes a reader of CSV take the rows after it for the text of
one cell. So lines are counted apart from the parser: where it found as many rows as there are
lines that are not blank, no row was lost. Only where it found fewer are the quotes looked at, and
a cell that has swallowed what reads like rows is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from calibrant._lazy import pa
from calibrant.sources.files.streams import (
    LARGEST_RECORD,
    BadContentError,
    Batches,
    Choose,
    LineBlocks,
    arrow_stream,
    count_lines,
    opened,
)

ADVICE = (
    "Remove the quote or close it; if the cell does hold these lines, save the table as Parquet"
)
RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
UNREADABLE = re.compile(r"In CSV column #(\d+): Row #(\d+): (.*)", re.DOTALL)


def csv_batches(
    path: str, choose: Choose, delimiter: str, as_text: Collection[str] | None, block_bytes: int
) -> Batches:
    """Yield the chosen columns as text, or all but these as the types that the first block has."""
    with opened(path) as (stream, share):
        lines = LineBlocks(stream, block_bytes)
        header, block = _header(lines, delimiter.encode())
        names = _column_names(header, delimiter)
        kept = choose(names)
        text = kept if as_text is None else [name for name in kept if name in as_text]
        parser = _Parser(delimiter, names, kept, text, lines.line - count_lines(block))
        while block := block or lines.read():
            for batch in parser.batches(block, lines):
                yield batch, share()
            block = b""


def _header(lines: LineBlocks, delimiter: bytes) -> tuple[bytes, bytes]:
    """Return the line with the names, and what follows it in the first block."""
    block = lines.read()
    while block and not block.strip(b"\r\n"):
        block = lines.read()
    if not block:
        raise BadContentError("line 1: the file is empty, but its first line names the columns")
    start = len(block) - len(block.lstrip(b"\r\n"))
    end = _line_end(block, start)
    first = block[start:end]
    if not any(_cells_over_lines(first, delimiter)):
        return first.rstrip(b"\r\n") + b"\n", block[end:]
    is_row = _row_test(block, delimiter, len(_naive_cells(first.strip(), delimiter)))
    for opens, closes in _cells_over_lines(block, delimiter):
        if opens >= end:
            break
        if closes is None or _is_stray(block, opens, closes, delimiter, is_row):
            raise BadContentError(_lost_rows(block, opens, closes, 1))
        end = _line_end(block, closes)
    return block[:end].rstrip(b"\r\n") + b"\n", block[end:]


def _column_names(header: bytes, delimiter: str) -> list[str]:
    import pyarrow.csv as pa_csv

    options = pa_csv.ReadOptions(block_size=len(header) + 1, use_threads=False)
    parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    names: list[str] = pa_csv.open_csv(arrow_stream(header), options, parse).schema.names
    return names


class _Parser:
    """Turns blocks of lines into record batches, and knows the row and line that comes next."""

    def __init__(
        self, delimiter: str, names: list[str], kept: list[str], text: list[str], line: int
    ) -> None:
        self.delimiter, self.names, self.kept = delimiter, names, kept
        self.types = dict.fromkeys(text, pa.string())
        self.row, self.line, self.blank = 0, line, b""

    def batches(self, block: bytes, lines: LineBlocks) -> list[Any]:
        """Parse a block, and more of the file where the block ends inside of a quoted cell."""
        if len(self.names) == 1:
            block = self._without_last_blanks(block)
        while block:
            error = table = None
            try:
                table = self._parse(block)
            except pa.ArrowInvalid as caught:
                error = caught
            if table is None or not self._is_whole(block, table.num_rows):
                more = self._check_quotes(block, lines)
                if more:
                    block += more
                    continue
            if table is None:
                raise BadContentError(self._explain(str(error))) from error
            self.types = dict(zip(table.schema.names, table.schema.types, strict=True))
            self.row += table.num_rows
            self.line = lines.line - count_lines(self.blank)
            return list(table.to_batches())
        return []

    def _parse(self, block: bytes) -> Any:
        import pyarrow.csv as pa_csv

        return pa_csv.read_csv(
            arrow_stream(block),
            pa_csv.ReadOptions(
                block_size=len(block) + 1, use_threads=False, column_names=self.names
            ),
            pa_csv.ParseOptions(
                delimiter=self.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(self.names) > 1,
            ),
            pa_csv.ConvertOptions(include_columns=self.kept, column_types=self.types),
        )

    def _without_last_blanks(self, block: bytes) -> bytes:
        """Keep blank lines for the next block: in one column they are rows if a row follows.

        Those at the end of the file are not: many programs write one there.
        """
        block = self.blank + block
        body = len(block.rstrip(b"\r\n"))
        end = _line_end(block, body) if body else 0
        self.blank = block[end:]
        if len(self.blank) > LARGEST_RECORD:
            raise BadContentError(f"line {self.line:,} and many after it are blank")
        return block[:end]

    def _is_whole(self, block: bytes, n_rows: int) -> bool:
        """Return whether every line is a row and no quote stays open at the end."""
        if len(self.names) == 1:
            n_lines = len(block.splitlines())
        else:
            octets = np.frombuffer(block, np.uint8)
            ends = (octets == ord("\n")) | (octets == ord("\r"))
            n_lines = int(np.count_nonzero(ends[:-1] > ends[1:])) + (not ends[0])
        if n_rows != n_lines:
            return False
        last = block[_line_start(block, len(block.rstrip(b"\r\n"))) :]
        return not any(_cells_over_lines(last, self.delimiter.encode()))

    def _check_quotes(self, block: bytes, lines: LineBlocks) -> bytes:
        """Refuse stray quotes; return more of the file if the last quote closes there."""
        delimiter = self.delimiter.encode()
        is_row = _row_test(block, delimiter, len(self.names))
        for opens, closes in _cells_over_lines(block, delimiter):
            if closes is None and len(block) - opens <= LARGEST_RECORD:
                more = lines.read(least=len(block))  # twice as much each time: linear in all
                if more:
                    return more
            if closes is None or _is_stray(block, opens, closes, delimiter, is_row):
                raise BadContentError(_lost_rows(block, opens, closes, self.line))
        return b""

    def _explain(self, error: str) -> str:
        """Translate the row that the parser names from the block to the file."""
        if match := RAGGED.search(error):
            row, expected, got = map(int, match.groups())
            return f"row {self.row + row:,}: expected {expected:,} columns, got {got:,}"
        if match := UNREADABLE.search(error):
            column, row, reason = int(match[1]), int(match[2]), match[3]
            name = self.names[column] if column < len(self.names) else str(column)
            return f"column {name!r:.80}, row {self.row + row:,}: {reason:.200}"
        return f"rows from {self.row + 1:,}: {error:.200}"


def _line_start(block: bytes, at: int) -> int:
    """Return where the line begins that holds the character before `at`."""
    return max(block.rfind(b"\n", 0, at), block.rfind(b"\r", 0, at)) + 1


def _line_end(block: bytes, start: int) -> int:
    """Return where the line that holds `start` ends, its line end included."""
    end = re.compile(rb"\r\n|\n|\r").search(block, start)
    return end.end() if end else len(block)


def _cells_over_lines(block: bytes, delimiter: bytes) -> Iterator[tuple[int, int | None]]:
    """Yield the quotes that open and close each cell with a line end; None where none closes.

    As the parser has it: a quote opens at the beginning of a cell and nowhere else.
    """
    opening = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[" + delimiter + rb'\r\n]))"')
    at = 0
    while quote := opening.search(block, at):
        closes = block.find(b'"', quote.end())
        while closes >= 0 and block[closes + 1 : closes + 2] == b'"':
            closes = block.find(b'"', closes + 2)
        if closes < 0:
            yield quote.end() - 1, None
            return
        if (
            block.find(b"\n", quote.end(), closes) >= 0
            or block.find(b"\r", quote.end(), closes) >= 0
        ):
            yield quote.end() - 1, closes
        at = closes + 1


def _lost_rows(block: bytes, opens: int, closes: int | None, line: int) -> str:
    """Locate the quote that turns rows into text of a cell; the block begins in `line`."""
    line += count_lines(block[:opens])
    lost = "never closes, so that all lines after it"
    if closes is not None:
        until = line + max(count_lines(block[opens:closes]), 1)
        lost = f"closes only in line {until:,}, so that rows"
    return f"line {line:,}: the quote that opens here {lost} would be lost. {ADVICE}"


def _is_stray(
    block: bytes, opens: int, closes: int, delimiter: bytes, is_row: Callable[[bytes], bool]
) -> bool:
    """Return whether a cell of several lines has swallowed rows.

    It has if the quote that ends it stands in the middle of a cell, or if one of its lines reads
    like a row. The last line of a cell in the first column always may, as the other cells follow:
    there the line with the first quote must read like a row as well.
    """
    if block[closes + 1 : closes + 2] not in (b"", delimiter, b"\n", b"\r"):
        return True
    start = _line_start(block, opens)
    first, *inner, last = block[start : _line_end(block, closes)].splitlines()
    if any(map(is_row, inner)):
        return True
    in_first_column = len(_naive_cells(block[start:opens], delimiter)) == 1
    return is_row(last) and (is_row(first) or not in_first_column)


def _row_test(block: bytes, delimiter: bytes, n_columns: int) -> Callable[[bytes], bool]:
    """Return a function that decides whether a line reads like a row.

    It has as many cells as there are columns, and numbers where the first such line has some.
    """
    for line in block.splitlines():
        cells = _naive_cells(line, delimiter)
        numbers = [k for k, cell in enumerate(cells) if _is_number(cell)]
        if len(cells) == n_columns and numbers:
            break
    else:
        return lambda line: False

    def is_row(line: bytes) -> bool:
        if line.count(delimiter) < n_columns - 1:
            return False
        cells = _naive_cells(line, delimiter)
        return len(cells) == n_columns and all(_is_number(cells[k]) for k in numbers)

    return is_row


def _naive_cells(line: bytes, delimiter: bytes) -> list[bytes]:
    """Split a line, cells in a pair of quotes kept whole and any other quote taken as text."""
    quoted = rb"(?:\A|(?<=" + delimiter + rb'))"[^"]*(?:""[^"]*)*"(?=' + delimiter + rb"|\Z)"
    return re.sub(quoted, lambda cell: cell[0].replace(delimiter, b";"), line).split(delimiter)


def _is_number(cell: bytes) -> bool:
    try:
        float(cell.strip(b'" '))
    except ValueError:
        return False
    return True
