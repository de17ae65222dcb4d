"""calibrant apply, and saved calibrators for all commands that take one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from calibrant._json import json_text
from calibrant.cli import OK
from calibrant.cli.input import one_file, rows_of
from calibrant.cli.output import Bar, about, binary_output, complain
from calibrant.cli.parser import add_command, add_option, add_options, named, unicode_text
from calibrant.exceptions import EmptyInputError, InvalidArgumentError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.groups import GroupColumn
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
    saved = "saved by calibrant fit"
    command.add_argument("calibrator", metavar="CALIBRATOR", type=named, help=saved)
    command.add_argument(
        "file",
        metavar="FILE",
        help="CSV, TSV, Parquet, JSON lines, Arrow, .npz, or - for standard input",
    )
    y_prob = (
        "the column of predictions, several, or a pattern such as 'prob_*', "
        "in the order of the fit (default probs)"
    )
    add_options(command, "--y-prob", "--input", "--format", y_prob=y_prob)
    command.add_argument("--replace", action="store_true", help="replace the predictions")
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
    add_option(command, "--output", required=True, help="the repaired table")


def run(args: argparse.Namespace) -> int:
    """Apply a saved calibrator, chunk by chunk."""
    from calibrant.sources.files.arrow import json_rows

    calibrator = load_calibrator(args.calibrator)
    input_of(calibrator, args.input)
    if args.replace and args.suffix is not None:
        raise InvalidArgumentError(
            "--suffix is for added columns, and --replace adds none. Leave one of them out."
        )
    suffix = None if args.replace else SUFFIX if args.suffix is None else args.suffix
    with one_file(args.file, args.format) as file, _target(args.output) as (stream, format_):
        if args.escape_formulas and format_ not in ("csv", "tsv"):
            raise InvalidArgumentError(
                "--escape-formulas is for CSV and TSV, which spreadsheets run; the output is "
                f"{format_}. Leave the option out."
            )
        repair = Repair(calibrator, args.y_prob, suffix, file.shown)
        with Bar("repairing", [file]) as bar:
            if file.format == format_ == "jsonl":  # add to the objects, and leave all else as it is
                for rows, share in json_rows(file):
                    bar.show(0, share, len(rows))
                    stream.write(b"".join(map(_json_line, repair.objects(rows))))
            else:
                _copy_table(file, repair, stream, format_, args.escape_formulas, bar)
        if not repair.n_rows:
            raise EmptyInputError(f"{file.shown} has no rows; at least one is needed.")
    if args.output != "-":
        complain(f"{repair.n_rows:,} rows written to {args.output}")
    return OK


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


def _copy_table(
    file: File, repair: Repair, stream: IO[bytes], format_: str, escape: bool, bar: Bar
) -> None:
    from calibrant.sources.files.arrow import read_tables, table_writer

    as_text = None if format_ in ("csv", "tsv") else repair.text_groups()
    batches = ((repair.batch(rows), share) for rows, share in read_tables(file, as_text))
    first = next(batches, None)
    if first is None:
        return
    with table_writer(stream, format_, first[0].schema, escape) as writer:
        for batch, share in chain([first], batches):
            bar.show(0, share, batch.num_rows)
            writer.write(batch.cast(first[0].schema))


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
        pairs = zip(self._by, fitted, strict=False)
        return [column.name for column, labels in pairs if str in map(type, labels)]

    def batch(self, batch: Any) -> Any:
        """Return a record batch with the repaired predictions."""
        import pyarrow as pa

        names, group_names = self._chosen(batch.schema.names)
        columns = {name: batch.column(name) for name in names + group_names}
        for name, values in self._repaired(columns, names):
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
        names, group_names = self._chosen(present)
        with readable(self.shown):
            keys = names + group_names
            columns = {n: as_column([x.get(n) for x in rows], n, self.n_rows) for n in keys}
        repaired = [(self._new_name(n), v.tolist()) for n, v in self._repaired(columns, names)]
        return [{**row, **{n: v[i] for n, v in repaired}} for i, row in enumerate(rows)]

    def _chosen(self, names: list[str]) -> tuple[list[str], list[str]]:
        """Return the columns to repair, in the order that the first rows fix, and of groups."""
        from calibrant.sources.column_names import in_fixed_order, match_columns

        if self._columns is None or names != self._last_names:
            self._last_names = names
            chosen = match_columns(names, self.patterns, self.shown)
            if self._columns is None:
                check_fitted_order(self.calibrator, chosen)
            self._columns = in_fixed_order(chosen, self._columns or chosen, self.shown)
            repeated = [new for new in map(self._new_name, chosen) if new in names]
            if self.suffix is not None and repeated:
                raise InvalidArgumentError(
                    f"{self.shown} already has a column {repeated[0]!r:.80}. Give another "
                    "--suffix, or --replace to replace the predictions."
                )
        group_names = [column.name for column in self._by]
        lacking = [name for name in group_names if name not in names]
        if lacking:
            raise InvalidArgumentError(
                f"The calibrator was fitted by {', '.join(group_names):.100}; {self.shown} has no "
                f"column {lacking[0]!r:.80}. Its columns are {', '.join(names):.200}."
            )
        return self._columns, group_names

    @property
    def _by(self) -> tuple[GroupColumn, ...]:
        """The columns of groups, if the calibrator has a repair for each group."""
        return tuple(getattr(self.calibrator, "by_", ()))

    def _new_name(self, name: str) -> str:
        from calibrant.sources.files.arrow import as_formula_safe

        return name if self.suffix is None else as_formula_safe(f"{name}{self.suffix}")

    def _repaired(self, columns: dict[str, Any], names: list[str]) -> list[tuple[str, AnyArray]]:
        """Return the name and the repaired values of each column."""
        from calibrant.groups import Groups
        from calibrant.sources.arrow_columns import as_group, as_numbers, side_by_side
        from calibrant.sources.files.reading import Chunk, located
        from calibrant.sources.files.streams import File

        parts = [as_numbers(columns[name], name, self.shown, self.n_rows) for name in names]
        probs = side_by_side(parts, names, self.shown)
        factors = [as_group(columns[by.name], by, self.shown, self.n_rows) for by in self._by]
        groups = {"by": Groups.of(self._by, factors)} if factors else {}
        file = File("", "", self.shown)
        with located(Chunk(file, self.n_rows, 0.0, probs, probs, None, names, names)):
            after = self.calibrator.predict_proba(probs, **groups)
        self.n_rows += len(probs)
        if len(names) == 1:
            return [(names[0], after)]
        return [(name, after[:, k]) for k, name in enumerate(names)]


def load_calibrator(path: str) -> Recalibrator:
    """Read a saved calibrator of probabilities, the only ones that commands apply."""
    from calibrant.recalibrators import QuantileRepair, load

    with about(path):
        calibrator = load(path)
        if isinstance(calibrator, QuantileRepair):
            raise InvalidArgumentError(
                f"Commands apply calibrators of probabilities; {path} holds a "
                f"{type(calibrator).__name__}, which repairs quantiles. Apply it in Python: "
                "calibrant.load(path).predict(quantiles)."
            )
    return calibrator


def read_levels(levels: list[float] | str | None) -> list[float] | None:
    """Return the outputs that --levels declares: numbers, or those of a saved calibrator."""
    if not isinstance(levels, str):
        return levels
    calibrator = load_calibrator(levels)
    if getattr(calibrator, "levels_", None) is None:
        raise InvalidArgumentError(
            f"--levels are the outputs of a model that has finitely many; the calibrator in "
            f"{levels} is a {type(calibrator).__name__}, which has none. Use scaling-binning."
        )
    return [float(level) for level in calibrator.levels_]


def labels_to_fit(
    y_true: AnyArray, y_prob: AnyArray, args: argparse.Namespace
) -> tuple[AnyArray, Any]:
    """Return labels and the names of classes; with --pos-label they are no and yes."""
    if args.pos_label is None:
        return y_true, args.classes
    from calibrant.columns import absent_event
    from calibrant.problem import read_problem

    if y_prob.ndim == 2 and args.pos_label == (args.classes or (0, 1))[0]:
        raise InvalidArgumentError(
            f"Of two columns the second must be the event's; --pos-label {args.pos_label} is the "
            "first. Give --y-prob in the other order, or the event's column alone."
        )
    problem = read_problem("binary", 2, args.classes, args.pos_label)
    codes = problem.codes(y_true)
    if problem.pos_label is not None and not codes.any():
        raise absent_event(problem.pos_label, y_true)
    return codes, None


def arrays_to_certify(
    calibrator: Recalibrator, inputs: dict[str, Any], args: argparse.Namespace
) -> tuple[AnyArray, AnyArray, Any]:
    """Return predictions, labels and classes in the terms of the calibrator's fit.

    Its event must be --pos-label, its input --input, and its classes in the order --classes.
    """
    inputs = {name: value for name, value in inputs.items() if name != "bins"}
    inputs["input"] = input_of(calibrator, args.input)
    rows = rows_of(inputs)
    check_fitted_order(calibrator, rows.names)
    y_prob = rows.probs
    labels, classes = labels_to_fit(rows.labels, y_prob, args)
    fitted_classes = calibrator.classes_
    fitted, requested = (list(map(str, x)) for x in (fitted_classes.tolist(), args.classes or ()))
    if requested != fitted and sorted(requested) == sorted(fitted):
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {','.join(fitted)[:100]}, in this order; "
            f"got --classes {','.join(requested)[:100]}. Leave the option out, or fit a calibrator "
            "with the same --classes."
        )
    if args.pos_label is None or fitted_classes.size != 2 or fitted_classes.tolist() == [0, 1]:
        return y_prob, labels, classes
    absent, event = fitted_classes
    if event != args.pos_label:
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {absent} and {event}, and its event is "
            f"{event}; got --pos-label {args.pos_label}. Leave the option out, or fit a "
            "calibrator with the same --pos-label."
        )
    return y_prob, fitted_classes[labels], fitted_classes.tolist()


def check_fitted_order(calibrator: Recalibrator, names: Sequence[str]) -> None:
    """Refuse the columns of a calibrator's fit in another order."""
    from calibrant.recalibrators.reading import fitted_names
    from calibrant.sources.column_names import check_same_order

    check_same_order(names, fitted_names(calibrator))


def input_of(calibrator: Recalibrator, requested: str | None) -> Any:
    """Return the input that a calibrator reads; refuse a different --input."""
    fitted = calibrator.input
    if requested not in (None, fitted):
        raise InvalidArgumentError(
            f"The calibrator was fitted on {fitted}; got --input {requested}. Leave the option "
            "out, or fit a calibrator with the same --input."
        )
    return fitted
