"""Columns of data frames: arrays where the frame is in memory, a plan where it is lazy."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.engines.counted import Counted
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    InvalidInputError,
    MissingDependencyError,
)
from calibrant.problem import (
    Input,
    Problem,
    Rows,
    check_input,
    off_device,
    read_meaning,
    read_rows,
    refuse_masked,
)

DATASET_READERS = {"duckdb": "from_arrow", "polars": "scan_pyarrow_dataset"}


class FrameRows(Rows):
    """Named columns of a lazy frame, of which nothing has been computed yet.

    The engine sees the frame. Whoever asks for arrays, as a bootstrap of rows does, gets them: the
    named columns, and no others, are collected then.

    Attributes
    ----------
    counted : Counted or None
        The cells that were counted to choose bins. Where none of them is cut by the bins, the
        table is their sum and needs no other pass.
    """

    def __init__(
        self,
        problem: Problem,
        frame: Any,
        labels: str,
        probs: tuple[str, ...],
        weights: str | None,
        beside: tuple[str, ...] = (),
    ) -> None:
        names = {"labels": labels, "probs": probs, "weights": weights, "beside": beside}
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "counted", None)

    frame: Any
    names: dict[str, Any]
    counted: Counted | None

    def __len__(self) -> int:
        return self._n

    @property
    def is_lazy(self) -> bool:
        """Whether the rows stay where they are, and are read by queries."""
        return True

    def engine(self) -> Any:
        """Return the engine for these rows."""
        from calibrant.engines.frame import FrameEngine

        return FrameEngine()

    def remember(self, counted: Counted) -> None:
        """Keep what has been counted."""
        object.__setattr__(self, "counted", counted)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are read, each once."""
        label, probs, weight = self.names["labels"], self.names["probs"], self.names["weights"]
        return [*dict.fromkeys([label, *probs, *([] if weight is None else [weight])])]

    @cached_property
    def _n(self) -> int:
        import narwhals as nw

        return int(self.frame.select(nw.len().alias("n")).collect()["n"].to_list()[0])

    def __getattr__(self, name: str) -> Any:
        if name not in ("labels", "probs", "weights"):
            raise AttributeError(name)
        return getattr(self._collected, name)

    @cached_property
    def _collected(self) -> Rows:
        label, probs, weight = self.names["labels"], self.names["probs"], self.names["weights"]
        with blaming_columns(self.frame, self.columns):
            eager = self.frame.select(*self.columns).collect()
        single = self.problem.kind == "binary"
        return read_rows(
            _column(eager, label),
            _column(eager, probs[0] if single else list(probs)),
            kind=self.problem.kind,
            classes=self.problem.classes,
            pos_label=self.problem.pos_label,
            sample_weight=None if weight is None else _column(eager, weight),
        )


def read_frame(
    data: Any,
    y_true: Any,
    y_prob: Any,
    *,
    sample_weight: Any = None,
    input: Input = "probabilities",  # noqa: A002
    **meaning: Any,
) -> Rows:
    """Read column names: arrays from a frame in memory, and a plan from a lazy one."""
    frame = None if isinstance(data, Mapping) else as_frame(data)
    if frame is None or not _is_lazy(frame):
        source = data if frame is None else frame
        weights = None if sample_weight is None else _column(source, sample_weight)
        labels, probs = _column(source, y_true), _column(source, y_prob)
        return read_rows(labels, probs, sample_weight=weights, input=input, **meaning)
    check_input(input)
    if input == "logits":
        raise InvalidArgumentError(
            "A lazy frame is counted by its own engine, which takes probabilities. Add columns of "
            "them first: 1 / (1 + exp(-z)) for one column, a softmax for several."
        )
    names = list(y_prob) if isinstance(y_prob, list | tuple) else [y_prob]
    columns = frame.collect_schema().names()
    for name in [y_true, *names, *([] if sample_weight is None else [sample_weight])]:
        refuse_pattern(known_column(name, columns))
    problem, column = read_meaning(np.array([None]), np.empty((1, len(names))), **meaning)
    used = tuple(names) if column is None else (names[column],)
    beside = () if column is None else tuple(names[:column] + names[column + 1 :])
    return FrameRows(problem, frame, y_true, used, sample_weight, beside)


def as_frame(data: Any) -> Any:
    """Wrap any data frame with narwhals; raise InvalidArgumentError if it is none."""
    import narwhals as nw

    module = type(data).__module__
    if module.startswith("pyarrow.") and hasattr(data, "to_batches") and hasattr(data, "scanner"):
        data = _scanned(data)
    try:
        return nw.from_native(data)
    except TypeError as error:
        raise InvalidArgumentError(
            "data must be a data frame (pandas, Polars, PyArrow, DuckDB, Dask, Spark, Ibis, ...) "
            f"or a dict of columns; got {type(data).__name__}."
        ) from error


def _scanned(dataset: Any) -> Any:
    """Let DuckDB, or else Polars, scan a PyArrow dataset: PyArrow alone has no lazy frames."""
    for package, reader in DATASET_READERS.items():
        try:
            return getattr(import_module(package), reader)(dataset)
        except ImportError:
            continue
    raise MissingDependencyError(
        "A PyArrow dataset is scanned by DuckDB or Polars, and neither is installed: "
        "pip install 'calibrant[duckdb]'."
    )


def _is_lazy(frame: Any) -> bool:
    import narwhals as nw

    return isinstance(frame, nw.LazyFrame)


def _column(data: Any, name: Any) -> AnyArray:
    """Return the named column in memory, or a list of columns as the columns of a table."""
    if isinstance(name, list | tuple):
        return np.column_stack([_column(data, each) for each in name])
    if isinstance(data, Mapping):
        values = data[known_column(name, list(data))]
        refuse_masked(values, repr(name))
        return np.asarray(off_device(values))
    array: AnyArray = data.get_column(known_column(name, data.columns)).to_numpy()
    return array


def known_column(name: Any, columns: list[Any]) -> Any:
    """Return the name of a column; raise InvalidArgumentError if there is no such column."""
    if isinstance(name, Hashable) and name in columns:
        return name
    shown = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
    raise InvalidArgumentError(
        f"With data=, columns are given by name; there is no column {name!r:.60} among {shown}."
    )


def takes_patterns(frame: Any) -> bool:
    """Tell whether some names would select several columns: engines and Polars select by them."""
    return _is_lazy(frame) or bool(frame.implementation.is_polars())


def refuse_pattern(name: Any) -> None:
    """Refuse a name by which some engine would select several columns."""
    if name == "*" or (isinstance(name, str) and name.startswith("^") and name.endswith("$")):
        raise InvalidArgumentError(
            f"An expression takes the name {name!r:.60} for a pattern of columns, so this column "
            "of the frame cannot be named. Rename it first."
        )


@contextmanager
def blaming_columns(frame: Any, names: Iterable[str]) -> Iterator[None]:
    """Name the column that an engine cannot read, whatever the engine itself says.

    Only after a failure is each column asked for alone, and none is blamed if not even the rows
    can be counted: then the frame is at fault, and its own exception tells more.
    """
    import narwhals as nw

    try:
        yield
    except CalibrantError:
        raise
    except Exception as error:
        bad = [] if _fails(frame, nw.len()) else [n for n in names if _fails(frame, nw.col(n))]
        if not bad:
            raise
        reason = " ".join(str(error).split())
        raise InvalidInputError(
            f"The engine of the lazy frame cannot read column {bad[0]!r:.60}: {reason:.200}. "
            "If the name is at fault, rename the column first."
        ) from error


def _fails(frame: Any, expression: Any) -> bool:
    try:
        frame.select(expression.alias("asked")).head(1).collect()
    except Exception:
        return True
    return False


def exact_number(frame: Any) -> Callable[[float], Any]:
    """Return what makes an expression of a float, to the last bit, for this frame.

    Ibis writes floats as decimals, which DuckDB reads with an error; it reads text without.
    """
    import narwhals as nw

    if frame.implementation.is_ibis():
        return lambda x: nw.lit(repr(float(x))).cast(nw.Float64)
    return lambda x: nw.lit(float(x))
