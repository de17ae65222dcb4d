"""What was read from a log: columns that ``data=`` takes, and what was left out and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibrant._results import Result, filled, text_table
from calibrant._types import AnyArray, FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidInputError

TASKS_SHOWN = 40
"""Tasks that are printed one by one: as many as a screen has lines."""


class LogColumns(Result, Mapping[str, AnyArray]):
    """Named columns of one length, which ``data=`` takes as it takes a dict."""

    _columns: tuple[str, ...]

    def __getitem__(self, name: str) -> AnyArray:
        if name not in self._columns:
            raise KeyError(name)
        values: AnyArray = getattr(self, name)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @cached_property
    def is_repeated(self) -> bool:
        """Whether a question has several answers, which depend on each other."""
        return len(np.unique(self["question"])) < len(self["question"])

    # a Mapping would compare its arrays, whose truth is ambiguous
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationLog(LogColumns):
    """The answered questions of a log; ``data=`` takes it wherever it takes a data frame.

    ``calibration_error("correct", "confidence", data=log, by="task")``. Where questions
    were asked several times, their answers depend on each other, and functions that take
    ``cluster=`` take each question as a cluster unless ``cluster=False`` says otherwise. Others
    refuse such a log.

    Attributes
    ----------
    task, question, epoch : arrays
        Of each answer: its task, a key of its question, and which try it was.
    correct : array of bool
        Whether it was right.
    confidence : array of float
        How sure the model was.
    meaning : str
        What a confidence is.
    tasks, declined, ungraded : tuples
        The tasks, and of each how many answers declined, and how many were not graded.
    notes : tuple of str
        What else a reader must know: runs that did not finish.
    """

    task: AnyArray
    question: AnyArray
    epoch: AnyArray
    correct: AnyArray
    confidence: FloatArray
    meaning: str
    tasks: tuple[str, ...]
    declined: tuple[int, ...]
    ungraded: tuple[int, ...]
    notes: tuple[str, ...]

    _columns = ("confidence", "correct", "task", "question", "epoch")

    @property
    def n(self) -> int:
        """Answers with a confidence and a grade."""
        return len(self.confidence)

    def paired(self, other: EvaluationLog) -> EvaluationPairs:
        """Match the answers of two models by question; those that only one answered are counted.

        For ``compare("correct_a", "confidence_a", "confidence_b", y_true_b="correct_b",
        data=pairs)``.
        """
        if not isinstance(other, EvaluationLog):
            raise InvalidArgumentError(
                f"The other model must be an EvaluationLog too; got {type(other).__name__}."
            )
        keys, keys_b = (
            {
                key: i
                for i, key in enumerate(zip(log.question.tolist(), log.epoch.tolist(), strict=True))
            }
            for log in (self, other)
        )
        both = [key for key in keys if key in keys_b]
        if len(both) < 2:
            raise InvalidInputError(
                f"The two logs share {len(both)} questions, such as "
                f"{str(self.question[0])!r:.60} and {str(other.question[0])!r:.60}; at least 2 are "
                "needed. Name the field that both have with question=."
            )
        a, b = (np.array([rows[key] for key in both]) for rows in (keys, keys_b))
        return EvaluationPairs(
            self.task[a],
            self.question[a],
            self.epoch[a],
            self.correct[a],
            self.confidence[a],
            other.correct[b],
            other.confidence[b],
            (self.n - len(both), other.n - len(both)),
        )

    def __str__(self) -> str:
        head = ("task", "asked", "declined", "answered", "right", "mean confidence")
        rows: list[tuple[str, ...]] = []
        for task, *counts in zip(self.tasks, self.declined, self.ungraded, strict=True):
            rows.append(self._line(task, counts[0], counts[1], self.task == task))
        more = len(self.tasks) - TASKS_SHOWN
        if more > 0:
            rows[TASKS_SHOWN:] = [(f"and {more:,} more tasks", *[""] * 5)]
        if len(self.tasks) > 1:
            everything = np.ones(self.n, bool)
            rows.append(self._line("all", sum(self.declined), sum(self.ungraded), everything))
        remarks = map(filled, [f"confidence: {self.meaning}", *self._remarks()])
        return "\n".join([next(remarks), *text_table(head, rows), *remarks])

    def _line(self, task: str, declined: int, ungraded: int, rows: AnyArray) -> tuple[str, ...]:
        answered = int(rows.sum())
        means = (
            f"{x[rows].mean():.3f}" if answered else "-" for x in (self.correct, self.confidence)
        )
        asked = answered + declined + ungraded
        return (task, f"{asked:,}", f"{declined:,}", f"{answered:,}", *means)

    def _remarks(self) -> Iterator[str]:
        if sum(self.ungraded):
            yield f"left out, without a grade: {_counted(sum(self.ungraded), 'answer')}"
        if self.is_repeated:
            yield "questions were asked several times: each is a cluster, unless cluster=False"
        yield from self.notes

    def in_short(self) -> str:
        """Return one line: the kind of confidence, the number of answers, and those left out."""
        answered = set(self.task.tolist())
        silent = [task for task in self.tasks if task not in answered]
        lost = f"; no answer to {', '.join(silent)[:200]}" if silent else ""
        return f"confidence: {self.meaning}; {self._summary()}{lost}"

    def _summary(self) -> str:
        ungraded = sum(self.ungraded)
        return (
            f"{_counted(self.n, 'answer')} in {_counted(len(self.tasks), 'task')}, "
            f"{sum(self.declined):,} declined"
            f"{f', {ungraded:,} not graded' if ungraded else ''}"
        )


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationPairs(LogColumns):
    """The questions that two models answered, each with its own confidence and grade.

    Attributes
    ----------
    task, question, epoch, correct_a, confidence_a, correct_b, confidence_b : arrays
        Columns, as in `EvaluationLog`.
    unmatched : tuple of int
        Answers of a and of b that the other has not.
    """

    task: AnyArray
    question: AnyArray
    epoch: AnyArray
    correct_a: AnyArray
    confidence_a: FloatArray
    correct_b: AnyArray
    confidence_b: FloatArray
    unmatched: tuple[int, int]

    _columns = (
        *("task", "question", "epoch", "correct_a", "confidence_a"),
        *("correct_b", "confidence_b"),
    )

    @property
    def n(self) -> int:
        """Answers that both models gave."""
        return len(self.task)

    def _summary(self) -> str:
        right = [f"{correct.mean():.3f}" for correct in (self.correct_a, self.correct_b)]
        alone = f"; {self.unmatched[0]:,} of a alone, {self.unmatched[1]:,} of b alone"
        return (
            f"{self.n:,} answers of both models, {right[0]} of a's and {right[1]} of b's right"
            f"{alone if any(self.unmatched) else ''}"
        )
