"""CalibrationMetric: a calibration error of rows that arrive in batches."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant import stats
from calibrant._bins_argument import as_bin_rule
from calibrant.bins import Bins, BinsLike
from calibrant.exceptions import (
    EmptyInputError,
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidShapeError,
    LengthMismatchError,
)
from calibrant.problem import Input, Kind, Label, check_input, read_problem
from calibrant.sources import check_whole, read
from calibrant.sources.groups import columns_named
from calibrant.stats.estimators import ClassWeight, Norm, class_weights, is_debiased, power_of
from calibrant.table import BinTable
from calibrant.tables import Tables


class CalibrationMetric:
    """A calibration error that is updated batch by batch, in constant memory.

    The state is one `BinTable`. However the rows are cut into batches, and on however many
    workers, the answer is that of one batch. Bins must therefore be known beforehand. A batch may
    be empty, or have weights of 0 only; threads may update one metric at once.

    Parameters
    ----------
    kind : {"binary", "top-label", "marginal", "multi-label", "ordinal", "quantile"}
    bins : "width:15", EqualWidth(15), Bins or an array of edges
        Bins chosen from the data (15, "auto", ...) would differ from batch to batch and are
        refused; take the edges of an earlier table, ``table.bins[0].edges``.
    n_classes : int, optional
        The number of columns, unless `classes` tells it.
    norm, debias, class_weight, classes, pos_label, input
        As in `calibrant.calibration_error`.
    by : str, list or dict, optional
        Names of what tells groups apart, and cuts of numeric ones, as ``by=`` beside ``data=``.
        Every batch then comes with ``by=``: the values of one column, or a dict of them by name.
        `compute` gives the error of all rows as before, `compute_by` that of each group.

    See Also
    --------
    calibration_error : of rows that are all there.
    calibrant.torch.CalibrationError : for tensors, which stay on their device.
    CalibrationMonitor : raises an alarm.

    Examples
    --------
    >>> metric = CalibrationMetric(bins="width:10")
    >>> for y, p in [([0, 1], [0.1, 0.8]), ([1, 1], [0.7, 0.9])]:
    ...     metric.update(y, p)
    >>> metric.compute().n
    4
    """

    def __init__(
        self,
        kind: Kind = "binary",
        bins: BinsLike = "width:15",
        n_classes: int | None = None,
        *,
        norm: Norm = "l2",
        debias: bool | None = None,
        class_weight: ClassWeight = None,
        classes: Sequence[Label] | None = None,
        pos_label: Label | None = None,
        input: Input = "probabilities",
        by: Any = None,
    ) -> None:
        self.problem = read_problem(kind, n_classes, classes, pos_label)
        # As given: the order of two columns, where the problem has the event last.
        self._labels = (None if classes is None else tuple(classes), pos_label)
        self.bins = fixed_bins(bins)
        self.norm, self.debias, self.class_weight = norm, debias, class_weight
        self.input = input
        check_input(input)
        is_debiased(power_of(norm), debias)
        class_weights(class_weight, self.problem)
        self.by = () if by is None else columns_named(by)
        self._table: BinTable | Tables | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        n = 0 if self._table is None else self._table.n
        return f"<CalibrationMetric: {self.problem.kind}, {self.bins}, n = {n:,}>"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @property
    def table(self) -> BinTable:
        """The sums so far."""
        table = self._counted()
        return table.pooled() if isinstance(table, Tables) else table

    @property
    def tables(self) -> Tables:
        """The sums of each group so far."""
        table = self._counted()
        if isinstance(table, Tables):
            return table
        raise InvalidArgumentError("This metric has no groups: make it with by=.")

    def _counted(self) -> BinTable | Tables:
        if self._table is None:
            raise EmptyInputError("No rows yet: call update(y_true, y_prob) before compute().")
        return self._table

    def update(
        self, y_true: Any, y_prob: Any, sample_weight: Any = None, by: Any = None, data: Any = None
    ) -> None:
        """Add a batch of rows; a batch with a bad value is refused whole and changes nothing.

        Parameters
        ----------
        y_true, y_prob, sample_weight, data
            As in `calibrant.calibration_error`.
        by : array_like or dict, optional
            Values of the columns that the metric was made with; with `data` they are read from
            the columns of their names.
        """
        problem = self.problem
        try:
            meaning = (problem.kind, self.input, *self._labels)
            source = read(y_true, y_prob, *meaning, sample_weight, data, self._groups(by, data))
        except EmptyInputError:
            if sample_weight is None or np.shape(sample_weight)[:1] == (0,):
                return
            raise LengthMismatchError(
                "sample_weight must have one value per row; the batch has no rows and weights of "
                f"shape {tuple(np.shape(sample_weight))}. Leave it out of an empty batch."
            ) from None
        if source.problem.n_classes != problem.n_classes:
            raise InvalidShapeError(
                f"This metric has {problem.n_classes:,} columns of predictions; the batch has "
                f"{source.problem.n_classes:,}."
            )
        bins = (self.bins,) * problem.n_groups
        self._add(
            replace(source.count_by(bins) if self.by else source.count(bins), problem=problem)
        )

    def _groups(self, by: Any, data: Any) -> dict[str, Any] | None:
        """Return the group columns of a batch by name, each with its cuts."""
        cut = {column.name: column.cuts for column in self.by}
        names = list(cut)
        if data is not None and by is None:
            return cut or None
        if data is not None:
            raise InvalidArgumentError(
                "With data=, the groups of this metric are read from the columns "
                f"{', '.join(names) or 'it was made with'}; got by={by!r:.60}. Leave it out."
            )
        values = by if isinstance(by, Mapping) else dict.fromkeys(names[:1], by)
        if (by is None) != (not names) or (names and set(values) != set(names)):
            expected = "none" if not names else f"the values of {' and '.join(map(repr, names))}"
            raise InvalidArgumentError(
                f"Every batch of this metric needs by=: {expected}; got {by!r:.60}."
            )
        return {k: v if cut[k] is None else (v, cut[k]) for k, v in values.items()} or None

    def _add(self, table: Any) -> None:
        with self._lock:
            self._table = table if self._table is None else self._table + table

    def merge(self, other: CalibrationMetric) -> CalibrationMetric:
        """Add the rows of another metric of the same problem and bins, and return self."""
        if not isinstance(other, CalibrationMetric):
            raise InvalidArgumentError(
                f"Only another CalibrationMetric can be merged; got {type(other).__name__}."
            )
        if (self.problem, self.bins, self.by) != (other.problem, other.bins, other.by):
            raise IncompatibleTablesError(
                "Only metrics of the same problem, bins and groups can be merged; these are "
                f"{self.problem} with {self.bins} and {other.problem} with {other.bins}."
            )
        table = other._table
        if table is not None:
            self._add(table)
        return self

    def compute(self) -> stats.CalibrationErrorResult:
        """Return the calibration error of all rows so far."""
        table = self.table
        check_whole(table)
        return stats.calibration_error(table, **self._options())

    def compute_by(self) -> stats.GroupErrors:
        """Return the calibration error of each group of all rows so far."""
        tables = self.tables
        check_whole(tables)
        return stats.group_errors(tables, **self._options())

    def _options(self) -> dict[str, Any]:
        return {"norm": self.norm, "debias": self.debias, "class_weight": self.class_weight}

    def reset(self) -> None:
        """Forget all rows."""
        with self._lock:
            self._table = None

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain values that JSON can hold."""
        table = self._table
        if table is None or table.n == 0:  # rows without weight: a document needs some
            return {"table": None}
        return {"table": table.to_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace the state by one from `state_dict`, of the same problem and bins."""
        if not isinstance(state, Mapping) or "table" not in state:
            raise InvalidDocumentError(
                f'The state of a metric has the key "table"; got {state!r:.100}. '
                "Pass what state_dict() returned."
            )
        document = state["table"]
        kind = Tables if self.by else BinTable
        table = None if document is None else kind.from_dict(document)
        bins = (self.bins,) * self.problem.n_groups
        expected = (self.problem, (bins,) if self.by else bins, self.by)
        if table is not None and (table.problem, table.bins, getattr(table, "by", ())) != expected:
            raise IncompatibleTablesError(
                f"This state belongs to {table.problem} with {table.bins[0]}, not to "
                f"{self.problem} with {self.bins}."
            )
        with self._lock:
            self._table = table


def fixed_bins(bins: BinsLike) -> Bins:
    """Return bins that are known before any rows, or refuse."""
    rule = as_bin_rule(bins, 0)
    if isinstance(rule, Bins):
        return rule
    raise InvalidArgumentError(
        f"A metric needs bins that do not depend on the rows to come; got {bins!r:.60}. "
        'Pass "width:15", or edges: for instance those of an earlier table, table.bins.'
    )
