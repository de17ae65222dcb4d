"""The front door for rating grades: from labels and PDs, or names of grades, to a backtest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant import stats
from calibrant._options import is_real
from calibrant._types import FloatArray
from calibrant.bins import Bins, BinsLike, Distinct
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.problem import Input, Label
from calibrant.sources import Source, is_files, read
from calibrant.sources.arrays import as_array
from calibrant.sources.files import read_files
from calibrant.sources.frames import is_text_column, named_arrays
from calibrant.stats.estimators import cells_of
from calibrant.stats.results import UNRESOLVED_LIMIT
from calibrant.table import BinTable

MOST_GRADES = 25
"""Different PDs that make a scale however few rows have each: rating scales have 5 to 25."""


def grade_backtest(
    y_true: Any,
    y_prob: Any = None,
    *,
    grades: Mapping[str, float] | Sequence[str] | None = None,
    bins: BinsLike | None = None,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    correlation: float = 0.0,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.GradeBacktest:
    """Compare the default rate of every rating grade with its PD.

    For each grade: rows and defaults, the PD and the observed rate with exact limits, the binomial
    and the Jeffreys test of too many defaults, a traffic light, and the most prudent PD of Pluto
    and Tasche; for the whole scale, what a certificate proves of its calibration error.

    Parameters
    ----------
    y_true : array_like of shape (n,), or BinTable
        Defaults, 0 or 1. A table counted before, such as `BinTable.from_counts` makes of printed
        numbers, stands in place of labels and predictions.
    y_prob : array_like of shape (n,)
        The PD of each row, or the name of its grade where `grades` has the PDs. In files a name
        comes first, even if it consists of digits.
    grades : dict or sequence of str, optional
        The PD of each name, ``{"AAA": 0.0003, "AA": 0.001, ...}``; or names alone, one for
        each bin, from the lowest PD to the highest.
    bins : optional
        As in `calibration_error`; edges make a master scale of any predictions. The PD of a grade
        is the one that `grades` gives it, else the mean prediction in it. By default each distinct
        PD is a grade.
    confidence_level : float
        Of limits, prudent PDs and the certificate.
    simultaneous : bool
        Whether limits hold, and lights are judged, in all grades at once (Sidak, Holm): a scale of
        which every PD is right turns amber somewhere for one sample in twenty. With False each
        grade is judged by itself, as most standards do.
    correlation : float
        The asset correlation of one systematic factor, for the binomial tests, lights and prudent
        PDs; limits, the Jeffreys test and the certificate take defaults as independent.
    classes, pos_label, data, input
        As in `calibration_error`.

    Returns
    -------
    GradeBacktest
        One entry for each grade with rows; ``pandas.DataFrame(backtest.to_dict()["grades"])`` is
        a table of them.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    calibrant.stats.prudent_pds : prudent PDs from counts alone.
    certify : the certificate of any model with finitely many outputs.

    Notes
    -----
    With d defaults among n rows and the PD p of a grade, the binomial p-value is P(Bin(n, p) >= d)
    and the Jeffreys p-value is the Beta(d + 1/2, n - d + 1/2) distribution function at p.

    References
    ----------
    European Central Bank (2019), Instructions for reporting the validation results of internal
    models, 2.5.3.1 (Jeffreys test). Pluto, Tasche (2005). Tasche (2003), A traffic lights approach
    to PD validation.

    Examples
    --------
    >>> counts = BinTable.from_counts([0.001, 0.01, 0.05], [800, 900, 300], [1, 21, 14])
    >>> backtest = grade_backtest(counts, grades=["A", "B", "C"])
    >>> backtest
    <GradeBacktest: 3 grades: 1 red, 2 green; 36 defaults, 24.8 expected, n = 2,000>
    >>> backtest.light
    ('green', 'red', 'green')
    """
    pds = {} if not isinstance(grades, Mapping) else _scale(grades)
    names = list(pds) if isinstance(grades, Mapping) else grades
    levels = np.array(list(pds.values())) if pds else None
    meaning: dict[str, Any] = {"kind": None if y_prob is None else "binary", "input": input}
    meaning |= {"classes": classes, "pos_label": pos_label}
    if pds and is_files(data):
        source: Source = read_files(data, y_true, y_prob, **meaning, numbers=pds)
    else:
        if pds:
            y_true, y_prob, data = _pds(y_true, y_prob, pds, data)
        source = read(y_true, y_prob, **meaning, data=data)
    if not source.has_rows:
        table = source.tabulate("auto" if bins is None else bins)
    elif bins is None and levels is not None:
        edges = Distinct().choose(levels, np.ones(levels.size)).edges
        table = source.tabulate(Bins(edges, rule="grade"))
    else:
        table = source.tabulate("distinct" if bins is None else bins)
    if levels is not None:
        table = _with_pds(table, levels, declared=bins is not None or not table.is_binned_model)
    elif (
        bins is None
        and len(table.bins[0]) > MOST_GRADES
        and float(cells_of(table).unresolved_mass.max()) > UNRESOLVED_LIMIT
    ):  # most rows have a PD of their own: scores, not grades
        raise InvalidInputError(
            f"Grades are few PDs; these rows have {len(table.bins[0]):,} different ones. Pass "
            "bins=, the edges of a master scale such as [0, 0.01, 0.05, 1]."
        )
    return stats.grade_backtest(
        table,
        names=names,
        levels=levels,
        confidence_level=confidence_level,
        simultaneous=simultaneous,
        correlation=correlation,
    )


def _with_pds(table: BinTable, levels: FloatArray, declared: bool) -> BinTable:
    """Return the table of grades with these PDs, in place of the predictions that bins mix."""
    if declared and len(table.bins[0]) == levels.size:
        return BinTable.from_counts(levels, table.count[0], table.sum_y[0])
    if declared:
        raise InvalidArgumentError(
            f"There must be a PD for each grade; got {levels.size:,} in grades= and "
            f"{len(table.bins[0]):,} bins."
        )
    used = table.count > 0
    strange = np.flatnonzero(~np.isin(table.level[used], levels))
    if strange.size:
        raise InvalidInputError(
            "With grades={name: PD} every prediction must be one of the PDs, to the last digit; "
            f"{int(table.count[used][strange].sum()):,} rows have another (first: "
            f"{float(table.level[used][strange[0]])!r}). Pass names of grades, or the edges that "
            "divide them as bins=."
        )
    return table


def _scale(grades: Mapping[str, float]) -> dict[str, float]:
    """Return the PD of each name, from the lowest PD on."""
    good = grades and all(is_real(pd) and 0 <= pd <= 1 for pd in grades.values())
    # 1 and "1" would become one name
    if not (
        good and len({*map(float, grades.values())}) == len({*map(str, grades)}) == len(grades)
    ):
        raise InvalidArgumentError(
            "grades must give every name a PD of its own in [0, 1], such as "
            f"{{'A': 0.001, 'B': 0.01}}; got {grades!r:.80}."
        )
    pairs = sorted(grades.items(), key=lambda pair: pair[1])
    return {str(name): float(pd) for name, pd in pairs}


def _pds(y_true: Any, y_prob: Any, pds: dict[str, float], data: Any) -> tuple[Any, Any, Any]:
    """Return labels and the PD of each row's grade, where names of grades came, else what came."""
    if y_prob is None:
        return y_true, y_prob, data
    if data is None:
        array = as_array(y_prob, "y_prob")
    elif is_text_column(data, y_prob):
        y_true, array, _, _ = named_arrays(data, y_true, y_prob, None)
    else:
        return y_true, y_prob, data
    if array.dtype.kind not in "OUST":
        return y_true, array, None
    names, place = np.unique(array.astype(str), return_inverse=True)
    strange = np.array([name not in pds for name in names])
    if strange.any():
        rows = strange[place].ravel()
        first = int(rows.argmax())
        raise InvalidInputError(
            f"Every row needs one of the {len(pds)} grades; {int(rows.sum()):,} of {rows.size:,} "
            f"have another (first: y_prob[{first}] = {array.flat[first]!r:.40}). Add it to "
            "grades=, or leave those rows out."
        )
    return y_true, np.array([pds[name] for name in names.tolist()])[place], None
