"""Studies: experiments of the paper as functions with typed settings."""

from __future__ import annotations

import json
import platform
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import scipy

from calibrant._types import IntArray
from calibrant._version import __version__
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.paper.predictions import FILES, Predictions
from calibrant.paper.result import Output, Result

Progress: TypeAlias = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Report to nobody."""


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
        found = self.settings(data)
        if quick:
            fewer = {
                k: v for k, v in self.quick.items() if _amount(v) <= _amount(getattr(found, k))
            }
            found = replace(found, **fewer)
        unknown = [name for name in changes if name not in asdict(found)]
        if unknown:
            raise InvalidArgumentError(
                f"{self.name} has no setting {unknown[0]!r}; it has {', '.join(asdict(found))}."
            )
        return replace(found, **changes)

    def run(
        self,
        settings: Any = None,
        *,
        data: Predictions | None = None,
        seed: int = 0,
        quick: bool = False,
        progress: Progress = no_progress,
        **changes: Any,
    ) -> Result:
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
        output = self.compute(settings, Context(rng, data, progress))
        return Result(
            study=self.name,
            settings=plain(settings),
            seed=seed,
            quick=quick,
            data=None if data is None else describe(data),
            versions=versions(),
            seconds=round(time.perf_counter() - start, 2),
            output=output,
            processor_seconds=round(time.process_time() - used, 2),
        )

    def identity(
        self, data: Predictions | None, seed: int, quick: bool, **changes: Any
    ) -> dict[str, Any]:
        """Return what a finished result must equal to stand for this run."""
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
    """Return settings as JSON has them."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return document


def describe(data: Predictions) -> dict[str, Any]:
    """Return what a result says of its predictions."""
    return {
        "name": data.name,
        "dataset": data.dataset,
        "n": len(data),
        "n_classes": data.n_classes,
        "accuracy": data.accuracy,
        "digest": data.digest,
    }


def versions() -> dict[str, str]:
    """Return the versions that numbers can depend on."""
    return {
        "calibrant": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }
