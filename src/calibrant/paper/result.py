"""What a study returns: rows, panels to draw, findings; and how it is kept as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.exceptions import InvalidDocumentError
from calibrant.paper.claims import Finding
from calibrant.paper.uncertainty import Estimate

FORMAT = "calibrant.study"
VERSION = 1

Style: TypeAlias = Literal["line", "points", "curve", "steps"]
Row: TypeAlias = dict[str, float | int | str | bool | None]


@dataclass(frozen=True)
class Series:
    """Points of one name, with intervals where there are any."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    style: Style = "line"


@dataclass(frozen=True)
class Panel:
    """One set of axes; `x_names` are written in place of the numbers 0, 1, ..."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Literal["linear", "log", "log2"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    from_zero: bool = True
    x_names: tuple[str, ...] = ()


def series(
    label: str, x: npt.ArrayLike, y: Sequence[Estimate] | npt.ArrayLike, style: Style = "line"
) -> Series:
    """Return a series of estimates or of plain numbers."""
    xs = tuple(float(value) for value in np.asarray(x))
    if len(y) and isinstance(y[0], Estimate):  # type: ignore[arg-type,index]
        found: Sequence[Estimate] = y  # type: ignore[assignment]
        middle, low, high = (
            tuple(getattr(each, name) for each in found) for name in ("value", "low", "high")
        )
        return Series(label, xs, middle, low, high, style)
    return Series(label, xs, tuple(float(value) for value in np.asarray(y)), style=style)


def row(labels: Row, **found: Estimate) -> Row:
    """Return a row of labels and estimates, each of these with the ends of its interval."""
    columns = dict(labels)
    for name, one in found.items():
        columns |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
    return columns


@dataclass(frozen=True)
class Output:
    """What a study computes."""

    rows: list[Row]
    panels: list[Panel]
    findings: list[Finding]


@dataclass(frozen=True)
class Result:
    """A finished study: its output, and everything needed to get it again.

    Attributes
    ----------
    study : str
    settings : dict
        The values of the typed settings.
    seed : int
    quick : bool
        Whether it ran with fewer repeats than the paper.
    data : dict or None
        Name, dataset, shape, accuracy and digest of the predictions.
    versions : dict
        Of calibrant, NumPy, SciPy and Python.
    seconds, processor_seconds : float
        How long it took on the clock, and how much of a processor it used.
    output : Output
    """

    study: str
    settings: dict[str, Any]
    seed: int
    quick: bool
    data: dict[str, Any] | None
    versions: dict[str, str]
    seconds: float
    output: Output = field(repr=False)
    processor_seconds: float = 0.0

    @property
    def stem(self) -> str:
        """The name of its files, without a suffix."""
        return self.study if self.data is None else f"{self.study}-{self.data['dataset']}"

    @property
    def rows(self) -> list[Row]:
        """The numbers, one row for each setting."""
        return self.output.rows

    def finding(self, key: str) -> Finding:
        """Return what was found for a key."""
        return next(each for each in self.output.findings if each.key == key)

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for a rerun to be skipped."""
        return {
            "study": self.study,
            "settings": self.settings,
            "seed": self.seed,
            "digest": self.data and self.data["digest"],
            "calibrant": self.versions["calibrant"],
        }

    def to_json(self) -> str:
        """Return the whole result as JSON."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(document, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Result:
        """Read a result back; raise InvalidDocumentError if that cannot be done."""
        try:
            document = json.loads(text)
            if (document.pop("format"), document.pop("version")) != (FORMAT, VERSION):
                raise ValueError("another format or version")
            output = document.pop("output")
            return cls(**document, output=_read_output(output))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidDocumentError(f"This is not the result of a study: {error!r}.") from error

    def to_csv(self) -> str:
        """Return the rows as CSV."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


def _read_output(document: dict[str, Any]) -> Output:
    return Output(
        document["rows"],
        [_read_panel(panel) for panel in document["panels"]],
        [_read_finding(finding) for finding in document["findings"]],
    )


def _read_finding(document: dict[str, Any]) -> Finding:
    splits = tuple(Estimate(**one) for one in document["splits"])
    estimate = Estimate(**document["estimate"])
    return Finding(**{**document, "estimate": estimate, "splits": splits})


def _read_panel(document: dict[str, Any]) -> Panel:
    lines = [Series(**_tuples(each)) for each in document["series"]]
    names = tuple(document["x_names"])
    return Panel(**{**document, "series": tuple(lines), "x_names": names})


def _tuples(document: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in document.items()}
