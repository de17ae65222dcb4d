"""calibrant apply."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from calibrant._json import json_text
from calibrant.cli import OK
from calibrant.cli.calibrators import check_fitted_order, input_of, load_calibrator
from calibrant.cli.input import open_files
from calibrant.cli.output import Bar, about, binary_output, complain
from calibrant.cli.parser import add_command, add_format_argument, add_input_argument, unicode_text
from calibrant.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.recalibrators import Recalibrator
    from calibrant.sources.files.streams import File

EXAMPLES = """
calibrant apply cal.json preds.csv --y-prob score -o repaired.csv
calibrant apply cal.json preds.parquet --y-prob 'prob_*' --replace -o repaired.parquet
zcat preds.csv.gz | calibrant apply cal.json - --y-prob score -o - | head
"""
NOTES = """
All columns are kept; the repaired predictions are added as COLUMN_calibrated, or replace the
original ones. The suffix of the output decides its format: .csv, .tsv, .parquet, .jsonl, .arrow; as
"-" it goes to standard output, as CSV. Rows are read and written in chunks, and the output is
replaced whole or not at all. From CSV to Parquet, JSON lines or Arrow, columns get types,
all but those of groups that were text in the fit.

Cells that begin with = + - @ are formulas to a spreadsheet. Your own are copied as they are, unless
you ask for --escape-formulas; names that calibrant makes are always escaped.
"""
SUFFIX = "_calibrated"


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "apply", run, "apply a saved recalibrator", EXAMPLES, NOTES)
    command.add_argument("calibrator", metavar="CALIBRATOR", help="saved by calibrant fit")
    command.add_argument(
        "file",
        metavar="FILE",
        help="CSV, TSV, Parquet, JSON lines, Arrow, .npz, or - for standard input",
    )
    command.add_argument(
        "--y-prob",
        metavar="COLUMN",
        nargs="+",
        default=["probs"],
        help="the column of predictions, several, or a pattern such as 'prob_*', "
        "in the order of the fit (default probs)",
    )
    add_input_argument(command)
    add_format_argument(command)
    command.add_argument(
        "--replace",
        action="store_true",
        help="replace the predictions",
    )
    command.add_argument(
        "--suffix",
        type=unicode_text,
        help="suffix of the added columns (default _calibrated)",
    )
    command.add_argument(
        "--escape-formulas",
        action="store_true",
        help="put ' before CSV text that a spreadsheet would run as a formula",
    )
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the repaired table")


def run(args: argparse.Namespace) -> int:
    """Apply a saved calibrator, chunk by chunk."""
    with about(args.calibrator):
        calibrator = load_calibrator(args.calibrator)
    input_of(calibrator, args.input)
    suffix = _suffix(args)
    with open_files([args.file], args.format) as files, _target(args.output) as (stream, format_):
        _check_escape(args.escape_formulas, format_)
        repair = Repair(calibrator, args.y_prob, suffix, files[0].shown)
        if files[0].format == format_ == "jsonl":
            n = _apply_to_json(files[0], repair, stream)
        else:
            n = _apply_to_table(files[0], repair, stream, format_, args.escape_formulas)
    if args.output != "-":
        complain(f"{n:,} rows written to {args.output}")
    return OK


def _suffix(args: argparse.Namespace) -> str | None:
    """Return suffix of the added columns; None where none are added."""
    if args.replace and args.suffix is not None:
        raise InvalidArgumentError(
            "--suffix is for added columns, and --replace adds none. Leave one of them out."
        )
    if args.replace:
        return None
    suffix: str = SUFFIX if args.suffix is None else args.suffix
    return suffix


def _check_escape(escape: bool, format_: str) -> None:
    if escape and format_ not in ("csv", "tsv"):
        raise InvalidArgumentError(
            "--escape-formulas is for CSV and TSV, which spreadsheets run; the output is "
            f"{format_}. Leave the option out."
        )


@contextmanager
def _target(output: str) -> Iterator[tuple[IO[bytes], str]]:
    from calibrant._writing import replaced
    from calibrant.sources.files.streams import COMPRESSIONS, format_of

    if output == "-":
        with binary_output() as stream:
            yield stream, "csv"
        return
    format_ = format_of(output)
    if os.path.splitext(output)[1].lower() in COMPRESSIONS:
        raise InvalidArgumentError(
            f"Compressed files are read, not written; got -o {output}. Use -o - and a pipe, or "
            ".parquet."
        )
    with replaced(output) as stream:
        yield stream, format_


def _apply_to_table(
    file: File, repair: Repair, stream: IO[bytes], format_: str, escape: bool
) -> int:
    from calibrant.exceptions import EmptyInputError
    from calibrant.sources.files.arrow import read_tables, table_writer

    as_text = None if format_ in ("csv", "tsv") else repair.text_groups()
    batches = read_tables(file, as_text)
    first = next(batches, None)
    if first is None:
        raise EmptyInputError(f"{file.shown} has no rows; at least one is needed.")
    done, share = repair.batch(first[0]), first[1]
    with (
        table_writer(stream, format_, done.schema, escape) as writer,
        Bar("repairing", [file]) as bar,
    ):
        writer.write(done)
        for batch, share in batches:
            bar.show(0, share, batch.num_rows)
            writer.write(repair.batch(batch).cast(done.schema))
    return repair.n_rows


def _apply_to_json(file: File, repair: Repair, stream: IO[bytes]) -> int:
    """Add to the objects of each line, and leave all else as it is."""
    from calibrant.exceptions import EmptyInputError
    from calibrant.sources.files.arrow import json_rows

    with Bar("repairing", [file]) as bar:
        for rows, share in json_rows(file):
            bar.show(0, share, len(rows))
            stream.write(b"".join(map(_json_line, repair.objects(rows))))
    if not repair.n_rows:
        raise EmptyInputError(f"{file.shown} has no rows; at least one is needed.")
    return repair.n_rows


def _json_line(row: dict[str, Any]) -> bytes:
    try:
        return f"{json_text(row, ensure_ascii=False)}\n".encode()
    except UnicodeEncodeError:  # half of a surrogate pair has no UTF-8, but an escape
        return f"{json_text(row)}\n".encode()


@dataclass
class Repair:
    """Adds repaired predictions to batches of rows, or puts them in the place of the old ones.

    Parameters
    ----------
    patterns : sequence of str
        Names and patterns of the columns of predictions.
    suffix : str, optional
        What the names of new columns end in; None puts them in the place of the old ones.
    shown : str
        The file, for messages.
    """

    calibrator: Recalibrator
    patterns: Sequence[str]
    suffix: str | None
    shown: str
    n_rows: int = field(default=0, init=False)
    _columns: list[str] | None = field(default=None, init=False)
    _last_names: list[str] = field(default_factory=list, init=False)

    def text_groups(self) -> list[str]:
        """Return the columns of groups that were text in the fit, as all of a CSV are, even digits.

        Read as numbers, none of the groups would be known again.
        """
        fitted = zip(*getattr(self.calibrator, "groups_", ()), strict=True)
        pairs = zip(getattr(self.calibrator, "by_", ()), fitted, strict=False)
        return [own.name for own, labels in pairs if str in map(type, labels)]

    def batch(self, batch: Any) -> Any:
        """Return a record batch with the repaired predictions."""
        import pyarrow as pa

        names = self._chosen(batch.schema.names)
        groups = {x: batch.column(x) for x in self._group_names(batch.schema.names)}
        for name, values in self._repaired([batch.column(name) for name in names], names, groups):
            array = pa.array(values) if values.ndim == 1 else pa.array(values.tolist())
            if self.suffix is None:
                batch = batch.set_column(batch.schema.get_field_index(name), name, array)
            else:
                batch = batch.append_column(self._new_name(name), array)
        return batch

    def objects(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return objects with the repaired predictions."""
        from calibrant.sources.files.arrow import readable
        from calibrant.sources.files.json_lines import as_column

        present = list(dict.fromkeys(name for row in rows for name in row))
        names, told = self._chosen(present), self._group_names(present)
        with readable(self.shown):
            read = {n: as_column([x.get(n) for x in rows], n, self.n_rows) for n in names + told}
        groups = {name: read[name] for name in told}
        after = self._repaired([read[name] for name in names], names, groups)
        repaired = [(self._new_name(n), v.tolist()) for n, v in after]
        return [{**row, **{n: v[i] for n, v in repaired}} for i, row in enumerate(rows)]

    def _chosen(self, names: list[str]) -> list[str]:
        """Return the columns to repair, in the order that the first rows have fixed."""
        from calibrant.sources.column_names import in_fixed_order, match_columns

        if self._columns is not None and names == self._last_names:
            return self._columns
        self._last_names = names
        chosen = match_columns(names, self.patterns, self.shown)
        if self._columns is None:
            check_fitted_order(self.calibrator, chosen)
        self._columns = in_fixed_order(chosen, self._columns or chosen, self.shown)
        taken = [new for new in map(self._new_name, chosen) if new in names]
        if self.suffix is not None and taken:
            raise InvalidArgumentError(
                f"{self.shown} already has a column {taken[0]!r:.80}. Give another --suffix, or "
                "--replace to replace the predictions."
            )
        return self._columns

    def _new_name(self, name: str) -> str:
        from calibrant.sources.files.arrow import as_formula_safe

        return name if self.suffix is None else as_formula_safe(f"{name}{self.suffix}")

    def _group_names(self, names: list[str]) -> list[str]:
        """Return the columns of groups that the calibrator needs; refuse where one is not there."""
        own = [column.name for column in getattr(self.calibrator, "by_", ())]
        lacking = [name for name in own if name not in names]
        if lacking:
            raise InvalidArgumentError(
                f"The calibrator was fitted by {', '.join(own):.100}; {self.shown} has no column "
                f"{lacking[0]!r:.80}. Its columns are {', '.join(names):.200}."
            )
        return own

    def _by(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Return the option of `predict_proba` that says which groups rows are in, if any."""
        from calibrant.groups import Groups
        from calibrant.sources.arrow_columns import as_group

        own = getattr(self.calibrator, "by_", ())
        read = [as_group(columns[x.name], x, self.shown, self.n_rows) for x in own]
        return {"by": Groups.of(own, read)} if own else {}

    def _repaired(
        self, columns: list[Any], names: list[str], groups: dict[str, Any]
    ) -> list[tuple[str, AnyArray]]:
        """Return the name and the repaired values of each column."""
        from calibrant.sources.arrow_columns import as_numbers, side_by_side
        from calibrant.sources.files.reading import Chunk, located
        from calibrant.sources.files.streams import File

        pairs = zip(columns, names, strict=True)
        parts = [as_numbers(column, name, self.shown, self.n_rows) for column, name in pairs]
        probs = side_by_side(parts, names, self.shown)
        file = File("", "", self.shown)
        with located(Chunk(file, self.n_rows, 0.0, probs, probs, None, names, names)):
            after = self.calibrator.predict_proba(probs, **self._by(groups))
        self.n_rows += len(probs)
        if len(names) == 1:
            return [(names[0], after)]
        return [(name, after[:, k]) for k, name in enumerate(names)]
