"""Predictions in a table, replaced or joined by repaired ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calibrant._types import AnyArray, FloatArray
from calibrant.cli.messages import located
from calibrant.exceptions import InvalidArgumentError
from calibrant.files.arrow import readable
from calibrant.files.columns import as_numbers, side_by_side
from calibrant.files.json_lines import as_column
from calibrant.files.names import in_fixed_order, match_columns
from calibrant.files.reading import Chunk, File
from calibrant.files.tables import as_formula_safe

if TYPE_CHECKING:
    from calibrant.recalibrators import Recalibrator


@dataclass
class Repair:
    """Applies a calibrator to some columns of batches of rows.

    Parameters
    ----------
    wanted : sequence of str
        Names and patterns of the columns of predictions.
    suffix : str, optional
        What the names of new columns end in; None puts them in the place of the old ones.
    shown : str
        The file, for messages.
    """

    calibrator: Recalibrator
    wanted: Sequence[str]
    suffix: str | None
    shown: str
    n_rows: int = field(default=0, init=False)
    _fixed: list[str] | None = field(default=None, init=False)
    _last_seen: list[str] = field(default_factory=list, init=False)

    def batch(self, batch: Any) -> Any:
        """Return a record batch with the repaired predictions."""
        import pyarrow as pa

        names = self._names(batch.schema.names)
        columns = [batch.column(name) for name in names]
        after = self._repaired(columns, names)
        for name, new, values in self._pairs(names, after):
            array = pa.array(values) if values.ndim == 1 else pa.array(values.tolist())
            if new == name:
                batch = batch.set_column(batch.schema.get_field_index(name), name, array)
            else:
                batch = batch.append_column(new, array)
        return batch

    def objects(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return objects with the repaired predictions."""
        names = self._names(list(dict.fromkeys(name for row in rows for name in row)))
        with readable(self.shown):
            columns = [as_column([row.get(n) for row in rows], n, self.n_rows) for n in names]
        after = self._repaired(columns, names)
        pairs = [(new, values.tolist()) for _, new, values in self._pairs(names, after)]
        return [{**row, **{new: values[i] for new, values in pairs}} for i, row in enumerate(rows)]

    def _names(self, names: list[str]) -> list[str]:
        """Return the columns to repair, in the order that the first rows have fixed."""
        if names == self._last_seen and self._fixed is not None:
            return self._fixed
        self._last_seen = names
        found = match_columns(names, self.wanted, self.shown)
        self._fixed = in_fixed_order(found, self._fixed or found, self.shown)
        self._refuse_taken(names, found)
        return self._fixed

    def _refuse_taken(self, names: list[str], found: list[str]) -> None:
        if self.suffix is None:
            return
        taken = [new for new in map(self._new_name, found) if new in names]
        if taken:
            raise InvalidArgumentError(
                f"{self.shown} already has a column {taken[0]!r:.80}. Give another --suffix, or "
                "--replace to put repaired predictions in the place of the old ones."
            )

    def _new_name(self, name: str) -> str:
        return name if self.suffix is None else as_formula_safe(f"{name}{self.suffix}")

    def _repaired(self, columns: list[Any], names: list[str]) -> FloatArray:
        pairs = zip(columns, names, strict=True)
        parts = [as_numbers(each, name, self.shown, self.n_rows) for each, name in pairs]
        probs = side_by_side(parts, names, self.shown)
        file = File("", "", self.shown)
        chunk = Chunk(file, self.n_rows, 0.0, None, probs, None, names, None)
        with located(chunk):
            after = self.calibrator.predict_proba(probs)
        self.n_rows += len(probs)
        return after

    def _pairs(self, names: list[str], after: AnyArray) -> list[tuple[str, str, AnyArray]]:
        """Return the old name, the new name and the values of each column."""
        if len(names) == 1:
            return [(names[0], self._new_name(names[0]), after)]
        return [(name, self._new_name(name), after[:, k]) for k, name in enumerate(names)]
