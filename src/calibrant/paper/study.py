"""Studies: experiments of the paper as functions with typed settings, and their results.

A study computes rows, panels to draw, and findings; a result is kept as JSON and CSV.
"""

from __future__ import annotations

import csv
import io
import json
import platform
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy

from calibrant._documents import (
    check_entries,
    check_header,
    header,
    is_number,
    is_text,
    is_whole,
    read_json,
)
from calibrant._types import IntArray
from calibrant._version import __version__
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidInputError,
)
from calibrant.paper.figures import Panel, Series
from calibrant.paper.predictions import FILES, Predictions
from calibrant.paper.uncertainty import Estimate, Finding

FORMAT = "calibrant.study"
SCHEMA = 1

Row: TypeAlias = dict[str, float | int | str | bool | None]
Progress: TypeAlias = Callable[[int, int], None]


def row(labels: Row, **estimates: Estimate) -> Row:
    """Return a row of labels and estimates, each of these with the ends of its interval."""
    columns = dict(labels)
    for name, estimate in estimates.items():
        columns[name] = estimate.value
        columns |= {f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return columns


@dataclass(frozen=True)
class Output:
    """What a study computes."""

    rows: list[Row]
    panels: list[Panel]
    findings: list[Finding]


WHAT = "The result of a study"
ENTRIES: dict[str, Callable[[Any], bool]] = {
    "study": partial(is_text, longest=200),
    "settings": lambda value: isinstance(value, dict),
    "seed": partial(is_whole, low=0),
    "quick": lambda value: type(value) is bool,
    "data": lambda value: value is None or isinstance(value, dict),
    "versions": lambda value: isinstance(value, dict),
    "seconds": partial(is_number, low=0),
    "processor_seconds": partial(is_number, low=0),
}


@dataclass(frozen=True)
class StudyResult:
    """A finished study: its output, and everything needed to reproduce it.

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
        """Return the finding of a key."""
        return next(finding for finding in self.output.findings if finding.key == key)

    def identity(self) -> dict[str, Any]:
        """Return the fields that must be equal for a rerun to be skipped."""
        return {
            "study": self.study,
            "settings": self.settings,
            "seed": self.seed,
            "digest": self.data and self.data["digest"],
            "calibrant": self.versions["calibrant"],
        }

    def to_json(self) -> str:
        """Return the whole result as JSON."""
        document = {**header(FORMAT, SCHEMA), **asdict(self)}
        return json.dumps(document, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> StudyResult:
        """Read a result back; raise InvalidDocumentError if that cannot be done."""
        try:
            document = check_header(read_json(text, WHAT), FORMAT, SCHEMA, WHAT, "Run it again")
            del document["format"], document["schema"]
            check_entries({"processor_seconds": 0.0} | document, ENTRIES, WHAT)
            output = document.pop("output")
            findings = [_read_finding(**finding) for finding in output["findings"]]
            panels = [_read_panel(panel) for panel in output["panels"]]
            return cls(**document, output=Output(output["rows"], panels, findings))
        except InvalidDocumentError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidDocumentError(
                f"This is not the result of a study: {error!s:.200}. Run the study again."
            ) from error

    def to_csv(self) -> str:
        """Return the rows as CSV."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        text = io.StringIO()
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()


def _read_finding(estimate: dict[str, float], splits: list[Any], **others: Any) -> Finding:
    of_splits = tuple(Estimate(**split) for split in splits)
    return Finding(estimate=Estimate(**estimate), splits=of_splits, **others)


def _read_panel(document: dict[str, Any]) -> Panel:
    def tuples(values: dict[str, Any]) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}

    lines = tuple(Series(**tuples(line)) for line in document["series"])
    return Panel(**{**tuples(document), "series": lines})


def no_progress(done: int, total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, eq=False)
class Context:
    """What a study may use besides its settings.

    Attributes
    ----------
    rng : numpy Generator
        The study's own stream: it depends on the seed and the study's name, not on what else
        runs beside it.
    data : Predictions or None
    progress : callable
        Takes how much is done and how much there is.
    """

    rng: np.random.Generator
    data: Predictions | None = None
    progress: Progress = no_progress

    @property
    def predictions(self) -> Predictions:
        """The predictions, which a study of real data has."""
        if self.data is None:
            raise InvalidInputError("This study needs predictions.")
        return self.data

    def progress_of(self, split: int, splits: int) -> Progress:
        """Return where one of several splits of the same work reports its progress."""
        return lambda done, total: self.progress(split * total + done, splits * total)

    @property
    def has_authors_split(self) -> bool:
        """Whether the first split of the rows is that of the authors' scripts."""
        return self.data is not None and self.data.dataset in FILES

    def order(self, split: int, shuffles: int = 1) -> IntArray:
        """Return the rows in the order of one split.

        The first split of the paper's own files is the authors': their scripts shuffle with
        NumPy's legacy generator and seed 0, some of them twice, and its stream never changes.
        All other splits are drawn from the study's stream.
        """
        n = len(self.predictions)
        if split > 0 or not self.has_authors_split:
            return np.asarray(self.rng.permutation(n), np.intp)
        shuffled = np.random.RandomState(0).permutation(n)
        order = np.arange(n)
        for _ in range(shuffles):
            order = order[shuffled]
        return order


@dataclass(frozen=True, eq=False)
class Study:
    """One experiment.

    Attributes
    ----------
    name : str
    experiments : str
        Which of the paper's experiments it covers.
    title : str
        What it shows, in one line.
    settings : callable
        Takes the predictions (or None) and returns the paper's settings, a frozen dataclass.
    compute : callable
        Takes settings and context and returns an `Output`.
    quick : dict
        Settings that replace the paper's for a quick look, where they ask for less.
    needs_data : bool
    is_beyond : bool
        Whether it shows our own methods, and not the paper's.
    """

    name: str
    experiments: str
    title: str
    settings: Callable[[Predictions | None], Any]
    compute: Callable[[Any, Context], Output]
    quick: dict[str, Any] = field(default_factory=dict)
    needs_data: bool = True
    is_beyond: bool = False

    def settings_for(
        self, data: Predictions | None = None, quick: bool = False, **changes: Any
    ) -> Any:
        """Return the settings for these predictions, with changes."""
        settings = self.settings(data)
        if quick:
            fewer = {
                k: v for k, v in self.quick.items() if _amount(v) <= _amount(getattr(settings, k))
            }
            settings = replace(settings, **fewer)
        unknown = [name for name in changes if name not in asdict(settings)]
        if unknown:
            raise InvalidArgumentError(
                f"{self.name} has no setting {unknown[0]!r}; it has {', '.join(asdict(settings))}."
            )
        return replace(settings, **changes)

    def run(
        self,
        settings: Any = None,
        *,
        data: Predictions | None = None,
        seed: int = 0,
        quick: bool = False,
        progress: Progress = no_progress,
        **changes: Any,
    ) -> StudyResult:
        """Run the study; see `calibrant.paper.run`."""
        if self.needs_data and data is None:
            raise InvalidInputError(
                f"{self.name} needs predictions: give a file with --probs, or data= from Python."
            )
        data = data if self.needs_data else None
        if settings is None:
            settings = self.settings_for(data, quick, **changes)
        if getattr(settings, "splits", 1) < 1:
            raise InvalidArgumentError(
                f"{self.name} needs at least one split of the rows; splits is {settings.splits}."
            )
        rng = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        start, used = time.perf_counter(), time.process_time()
        try:
            output = self.compute(settings, Context(rng, data, progress))
            json.dumps(asdict(output), allow_nan=False)
        except CalibrantError:
            raise
        except (ZeroDivisionError, ValueError) as error:  # a ratio of errors that is 0 / 0
            if data is None:
                raise
            raise InvalidInputError(
                f"{self.name} compares errors, and in {data.name} there is nothing to compare: too "
                f"few rows ({len(data):,}), too few classes among the labels, or no error at all. "
                "Give other predictions with --probs, or leave the study out."
            ) from error
        return StudyResult(
            study=self.name,
            settings=plain(settings),
            seed=seed,
            quick=quick,
            data=None
            if data is None
            else {
                "name": data.name,
                "dataset": data.dataset,
                "n": len(data),
                "n_classes": data.n_classes,
                "accuracy": data.accuracy,
                "digest": data.digest,
            },
            versions={
                "calibrant": __version__,
                "numpy": np.__version__,
                "scipy": scipy.__version__,
                "python": platform.python_version(),
            },
            seconds=round(time.perf_counter() - start, 2),
            output=output,
            processor_seconds=round(time.process_time() - used, 2),
        )

    def identity(
        self, data: Predictions | None, seed: int, quick: bool, **changes: Any
    ) -> dict[str, Any]:
        """Return the fields by which a finished result is matched with this run."""
        return {
            "study": self.name,
            "settings": plain(self.settings_for(data, quick, **changes)),
            "seed": seed,
            "digest": data.digest if data is not None and self.needs_data else None,
            "calibrant": __version__,
        }


def _amount(setting: Any) -> float:
    """Return how much work a setting asks for: a number, or the length of a list of cases."""
    return len(setting) if isinstance(setting, tuple) else float(setting)


def plain(settings: Any) -> dict[str, Any]:
    """Return settings as plain JSON values."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return document
