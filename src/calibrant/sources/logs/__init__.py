"""Logs of language-model evaluations: who was asked what, how sure it was, and was it right.

A reader takes nothing for granted: how a confidence comes out of a log is declared, what cannot be
read is refused with its file and row, and declined questions are counted, never scored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidInputError,
)
from calibrant.sources.files.json_lines import json_objects
from calibrant.sources.files.streams import BadContentError, expand
from calibrant.sources.logs.confidences import confidence_of, vote_in
from calibrant.sources.logs.evaluation import EvaluationLog, EvaluationPairs
from calibrant.sources.logs.inspect_ai import Declined, inspect_answers
from calibrant.sources.logs.lm_eval import lm_eval_answers
from calibrant.sources.logs.settings import (
    Answer,
    Confidence,
    LogFormat,
    LogSettings,
    UnparsedError,
    as_grade,
    member,
    named_keys,
)

__all__ = ["EvaluationLog", "EvaluationPairs", "read_log"]

BLOCK_BYTES = 1 << 20
"""Of JSON lines that are parsed at a time. Affects memory only."""


def read_log(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    format: LogFormat,  # noqa: A002
    *,
    confidence: Confidence | None = None,
    field: str | None = None,
    correct: str | None = None,
    answer: str | None = None,
    task: str | None = None,
    question: str | None = None,
    normalize: str | None = None,
    true_choice: str = "True",
    pattern: str | None = None,
    scale: float = 1,
    words: Mapping[str, float] | None = None,
    abstain: str | None = None,
    unparsed: str = "refuse",
    filter: str | None = None,  # noqa: A002
    epoch: int | None = None,
) -> EvaluationLog:
    r"""Read the log of a language model's evaluation: confidences and whether it was right.

    Parameters
    ----------
    path : path, pattern or list of them
        The files of one model's run, such as ``"results/samples_*.jsonl"``.
    format : {"lm-eval", "inspect", "jsonl"}
        What wrote them: the Language Model Evaluation Harness with ``--log_samples``, Inspect
        (``.eval`` or ``.json``), or anything that writes JSON lines.
    confidence : {"choices", "p-true", "votes", "stated", "tokens"}, optional
        Where a confidence comes from. "choices" (the default for lm-eval): the softmax probability
        of the graded choice, given the log-likelihoods of all; of lm-eval the greatest. "p-true":
        the probability of `true_choice`, asked about a proposed answer. "votes": the share of
        sampled answers that agree with the graded one; of Inspect the epochs vote. "stated" (the
        default otherwise): "90%", "9/10", a number, or one of `words`. "tokens": of Inspect's
        questions of several choices, run with ``--logprobs --top-logprobs 20``, the share of the
        graded letter among those of all choices at the token of the answer: the last token that is
        the letter, or the one where `pattern` matches.
    field : str, optional
        The field that holds it, with dots where it is nested: ``"metadata.confidence"``. By
        default "confidence" of JSON lines, ``"output.completion"`` of Inspect, and what the model
        was logged to answer of lm-eval.
    correct : str, optional
        What grades: a metric of lm-eval (default acc, acc_norm or acc_bytes as `normalize` says),
        a scorer of Inspect (default the only one), a field of JSON lines (default "correct").
    answer : str, optional
        The field of the answer that was graded, where answers vote (of JSON lines "answer") or
        where a choice was sampled: its probability is then the confidence. Of Inspect it is what
        the scorer read; of choices in JSON lines the likeliest, unless named.
    task, question : str, optional
        Fields that name the task and the question. Without them a task is that of the log, or else
        the file, and a question is its number there. Where both are named, a question is one of its
        task: number 1 of two tasks is two questions.
    normalize : {"characters", "bytes"}, optional
        Divide log-likelihoods by the length of the choice's text, as acc_norm and acc_bytes do; the
        space before it does not count.
    true_choice : str
        The choice that says that the proposed answer is true.
    pattern : str, optional
        A regular expression for the confidence (or the vote) within a text, of which the last match
        counts, or its group.
    scale : float
        What plain numbers are out of: 1, or 10, or 100. "90%" and "9/10" need none.
    words : dict, optional
        Probabilities of phrases: ``{"very likely": 0.9, "likely": 0.7}``.
    abstain : str, optional
        A regular expression for answers that decline: those are counted, and left out.
    unparsed : {"refuse", "abstain"}
        Whether an answer without a readable confidence is an error, or counts as declined.
    filter : str, optional
        The filter of lm-eval, where a log has several.
    epoch : int, optional
        The one epoch of Inspect to read, or of JSON lines the one answer of each question; by
        default all.

    Returns
    -------
    EvaluationLog
        Columns for ``data=``: "confidence", "correct", "task", "question", "epoch".

    Raises
    ------
    InvalidInputError
        If a file is not a log of that format, or an answer has no readable confidence.

    See Also
    --------
    calibration_error : takes the log as ``data=``.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> rows = [{"confidence": "90%", "correct": True}, {"confidence": "3/5", "correct": False}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "quiz.jsonl")
    ...     _ = path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ...     log = read_log(path, "jsonl")
    >>> print(log)
    confidence: what the model states
    task  asked  declined  answered  right  mean confidence
    quiz      2         0         2  0.500            0.750
    """
    options = dict(locals())
    del options["path"], options["format"]
    settings = LogSettings.of(format, options)
    names: list[Any] = list(path) if isinstance(path, list | tuple) else [path]
    if not names or not all(isinstance(name, str | os.PathLike) for name in names):
        raise InvalidArgumentError(
            f"path must be the name of a log, a pattern, or a list of them; got {path!r:.60}."
        )
    rows = _Rows()
    for file in expand([os.fspath(name) for name in names]):
        for logged in _answers(file, settings, rows.notes):
            rows.add(logged, settings)
    return rows.log(settings, [os.fspath(name) for name in names])


def _answers(path: str, settings: LogSettings, notes: list[str]) -> Iterator[Answer]:
    if settings.format == "inspect":
        return inspect_answers(path, settings, notes)
    if settings.format == "lm-eval":
        return lm_eval_answers(path, _json_rows(path), settings)
    return _plain_answers(path, settings)


def _json_rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (file and row, object) of JSON lines."""
    done = 0
    try:
        for rows, _ in json_objects(path, BLOCK_BYTES):
            for row in rows:
                done += 1
                yield f"{path}, row {done:,}", row
    except BadContentError as error:
        raise InvalidDocumentError(f"{path}, {error}.") from error


def _plain_answers(path: str, settings: LogSettings) -> Iterator[Answer]:
    """Yield the answers of JSON lines; several of one question are its epochs, in their order."""
    name, epochs = Path(path).name.partition(".")[0], dict[str, int]()
    for where, row in _json_rows(path):
        task, question = named_keys(
            row, name, f"{name}/{where.rpartition(' ')[2]}", settings, where
        )
        epochs[question] = epochs.get(question, 0) + 1
        if settings.epoch not in (None, epochs[question]):
            continue
        value = member(row, settings.field or "confidence")
        if settings.confidence == "votes" and isinstance(value, list):
            value = [vote_in(vote, settings) for vote in value]
        grade = as_grade(member(row, settings.correct or "correct"), where)
        graded = settings.answer or ("answer" if settings.confidence == "votes" else None)
        chosen = None if graded is None else member(row, graded)
        yield Answer(where, task, question, epochs[question], grade, value, chosen)


class _Rows:
    """Collects the answers of a log, checked one by one."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.tasks: dict[str, list[int]] = {}
        """Declined and ungraded answers of each task, in the order of the log."""
        self.answered: list[tuple[str, str, int, bool, float]] = []
        self.places: dict[tuple[str, int], str] = {}
        self.unread = ""

    def add(self, answer: Answer, settings: LogSettings) -> None:
        """Check an answer, and keep it or count it as declined or not graded."""
        key = (answer.question, answer.epoch)
        if key in self.places:
            raise InvalidInputError(
                f"{answer.where}: question {answer.question!r:.80} was there before "
                f"({self.places[key]}). Name the files of one run of one model."
            )
        self.places[key] = answer.where
        counts = self.tasks.setdefault(answer.task, [0, 0])
        if answer.grade is Declined or self._declines(answer, settings):
            counts[0] += 1
            return
        if answer.grade is None:
            counts[1] += 1
            return
        try:
            confidence = confidence_of(answer, settings)
        except UnparsedError as error:
            if settings.unparsed == "refuse":
                raise InvalidInputError(
                    f"{answer.where}: no confidence can be read: {error}. Declare what it means, "
                    "or unparsed='abstain' to count such answers as declined."
                ) from error
            counts[0] += 1
            self.unread = self.unread or f"{answer.where}: {error}"
            return
        self.answered.append((answer.task, *key, bool(answer.grade), confidence))

    @staticmethod
    def _declines(answer: Answer, settings: LogSettings) -> bool:
        text = answer.stated if settings.confidence == "stated" else answer.chosen
        matches = settings.abstain is not None and isinstance(text, str)
        return matches and settings.abstain.search(text) is not None  # type: ignore[union-attr]

    def log(self, settings: LogSettings, names: list[str]) -> EvaluationLog:
        """Return the log of all answers."""
        if not self.answered:
            notes = "".join(f" {note}." for note in self.notes)
            if not self.places:
                raise EmptyInputError(
                    f"{', '.join(names[:3])}: there are no answers"
                    f"{' of this filter' if settings.filter else ''}"
                    f"{' of this epoch' if settings.epoch else ''}; at least one is needed."
                    f"{notes}"
                )
            raise EmptyInputError(
                f"{', '.join(names[:3])}: of {len(self.places):,} answers none has a grade and a "
                f"confidence{f' ({self.unread})' if self.unread else ''}. Look at the fields that "
                f"confidence=, field= and correct= name.{notes}"
            )
        task, question, epoch, correct, confidence = zip(*self.answered, strict=True)
        return EvaluationLog(
            np.array(task),
            np.array(question),
            np.array(epoch),
            np.array(correct),
            np.array(confidence),
            settings.in_words(),
            tuple(self.tasks),
            tuple(declined for declined, _ in self.tasks.values()),
            tuple(ungraded for _, ungraded in self.tasks.values()),
            (*self.notes, *([f"first unread: {self.unread}"] if self.unread else [])),
        )
