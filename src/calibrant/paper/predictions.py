"""Predictions for the studies, from files of every format that calibrant reads."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.exceptions import EmptyInputError, InvalidInputError
from calibrant.sources import read
from calibrant.sources.files.reading import ColumnNames, read_chunks
from calibrant.sources.files.streams import File

CIFAR10 = "cifar10"
IMAGENET = "imagenet"
FILES = {
    CIFAR10: "the paper's CIFAR-10 predictions (10,000 x 10)",
    IMAGENET: "the paper's ImageNet predictions (50,000 x 1,000)",
}
PAPER = {CIFAR10: (10_000, 10, 0.93), IMAGENET: (50_000, 1_000, 0.643)}
ACCURACY_SLACK = 0.02
"""How far from the paper's accuracy a file of the paper's shape is taken for the paper's."""
BLOCK_ROWS = 4096
"""Read or simulated at a time: 32 MB of 1,000 classes. Other blocks simulate other rows."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of a classifier for n rows, and their labels.

    Parameters
    ----------
    probs : ndarray of shape (n, K)
    labels : ndarray of shape (n,)
        Class indices.
    name : str
        For file names and captions.
    """

    probs: AnyArray
    labels: IntArray
    name: str = "predictions"

    def __post_init__(self) -> None:
        columns = read(self.labels, self.probs, kind="top-label").columns()
        object.__setattr__(self, "labels", columns.codes())

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_classes(self) -> int:
        """The number of columns."""
        return int(self.probs.shape[1])

    @cached_property
    def _top(self) -> tuple[FloatArray, BoolArray]:
        top = np.concatenate([block.argmax(axis=1) for block in self._blocks()])
        confidence = self.probs[np.arange(len(self)), top].astype(np.float64)
        return confidence, top == self.labels

    @property
    def confidence(self) -> FloatArray:
        """The largest probability of each row."""
        return self._top[0]

    @property
    def right(self) -> BoolArray:
        """Whether the most probable class (the first of several) is the label."""
        return self._top[1]

    @property
    def accuracy(self) -> float:
        """The share of rows whose most probable class is the label."""
        return float(self.right.mean())

    @cached_property
    def dataset(self) -> str:
        """Which of the paper's files this is, by shape and accuracy; else a name of its own."""
        for name, (n, n_classes, accuracy) in PAPER.items():
            same = self.probs.shape == (n, n_classes)
            if same and abs(self.accuracy - accuracy) <= ACCURACY_SLACK:
                return name
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:40] or "predictions"
        return f"{slug}-file" if slug in PAPER else slug

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the arrays, by which a rerun recognises the file."""
        digest = hashlib.sha256(f"{self.probs.shape} {self.probs.dtype.str}".encode())
        for block in self._blocks():
            digest.update(np.ascontiguousarray(block).data)
        digest.update(np.ascontiguousarray(self.labels, np.int64).data)
        return digest.hexdigest()

    def column(self, k: int) -> tuple[FloatArray, BoolArray]:
        """Return the predictions of class k, and whether it was the label."""
        return self.probs[:, k].astype(np.float64), self.labels == k

    def __str__(self) -> str:
        known = FILES.get(self.dataset, "predictions of another model")
        return (
            f"{self.name}: {known}, {len(self):,} x {self.n_classes:,}, {self.accuracy:.2%} right"
        )

    def _blocks(self) -> list[AnyArray]:
        return [self.probs[i : i + BLOCK_ROWS] for i in range(0, len(self), BLOCK_ROWS)]


def read_predictions(path: str | os.PathLike[str]) -> Predictions:
    """Read a file of predictions.

    ``.npz`` with the arrays ``probs`` and ``labels``; CSV, Parquet, JSON lines or Arrow with a
    column ``labels`` and the probabilities in columns ``prob*``, in the order of the classes.
    The ``.dat`` files that the paper's authors publish are converted first, by
    `calibrant.paper.dat`.
    """
    name = Path(path).stem
    if not Path(path).is_file():
        raise InvalidInputError(f"There is no file {str(path)!r} to read predictions from.")
    if Path(path).suffix == ".dat":
        raise InvalidInputError(
            f"{path} is a pickle, and calibrant loads none. Convert it once: python -m "
            f"calibrant.paper.dat {path} {Path(path).with_suffix('.npz')}"
        )
    chunks = list(read_chunks(File.of(str(path)), ColumnNames("labels", ["prob*"])))
    if not chunks:
        raise EmptyInputError(f"{path} has no rows.")
    probs = np.concatenate([chunk.probs for chunk in chunks])
    return Predictions(probs, np.concatenate([chunk.labels for chunk in chunks]), name)


def stand_in(
    n: int = 50_000, n_classes: int = 1_000, accuracy: float = 0.7, seed: int = 0
) -> Predictions:
    """Draw predictions with the shape of ImageNet's, to show that the studies run on it.

    Each row has a confidence (a power of a uniform number, with the given mean), the rest
    spread over the other classes in falling shares, and a label drawn from a sharpened version
    of the row, so the model is overconfident. It is not a real model: no claim is checked on it.

    Examples
    --------
    >>> stand_in(200, 5).probs.shape
    (200, 5)
    """
    rng = np.random.default_rng(seed)
    shares = np.exp(-np.arange(n_classes - 1) / max(n_classes / 20, 1.0))
    shares = (shares / shares.sum()).astype(np.float32)
    probs = np.empty((n, n_classes), np.float32)
    labels = np.empty(n, np.intp)
    for start in range(0, n, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, n - start)
        chance = rng.uniform(size=rows) ** (1 / accuracy - 1)
        confidence = chance**0.7
        order = rng.permuted(np.tile(np.arange(n_classes, dtype=np.int32), (rows, 1)), axis=1)
        values = np.concatenate(
            (confidence[:, None], (1 - confidence)[:, None] * shares), axis=1
        ).astype(np.float32)
        np.put_along_axis(probs[start : start + rows], order, values, axis=1)
        rest = 1 + rng.choice(n_classes - 1, size=rows, p=shares / shares.sum(dtype=np.float64))
        place = np.where(rng.uniform(size=rows) < chance, 0, rest)
        labels[start : start + rows] = order[np.arange(rows), place]
    return Predictions(np.clip(probs, 0, 1), labels, "stand-in")
