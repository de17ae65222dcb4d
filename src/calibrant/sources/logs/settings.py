"""How a log is to be read, and one answer of it, whichever tool wrote the log."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from calibrant._options import is_among, is_integer, is_real
from calibrant.exceptions import InvalidArgumentError, InvalidInputError

LogFormat = Literal["lm-eval", "inspect", "jsonl"]
Confidence = Literal["choices", "p-true", "votes", "stated", "tokens"]

FORMATS = ("lm-eval", "inspect", "jsonl")
CONFIDENCES = ("choices", "p-true", "votes", "stated", "tokens")
LENGTHS: dict[str, Callable[[str], float]] = {
    "characters": len,
    "bytes": lambda text: len(text.encode()),
}
"""What log-likelihoods may be divided by: lengths of the text of a choice."""

READ_WITH = {
    "field": ("lm-eval stated", "inspect", "jsonl"),
    "answer": (
        *("inspect choices", "inspect tokens"),
        *("jsonl choices", "jsonl p-true", "jsonl votes"),
    ),
    "normalize": ("choices", "p-true"),
    "true_choice": ("p-true",),
    "pattern": ("stated", "votes", "tokens"),
    "scale": ("stated",),
    "words": ("stated",),
    "abstain": ("stated", "votes", "tokens", "inspect choices", "jsonl choices", "jsonl p-true"),
    "filter": ("lm-eval",),
    "epoch": ("inspect", "jsonl"),
}
"""The formats and confidences that read an option. Elsewhere it is refused: a reader that
ignored it would give other numbers than were asked for."""
UNSAID: dict[str, Any] = {"true_choice": "True", "scale": 1, "words": {}}
"""Defaults of options other than None."""

ABSENT = object()
"""Stands for a field that a row does not have."""


@dataclass(frozen=True)
class LogSettings:
    """The options of `calibrant.read_log`, which documents them."""

    format: str
    confidence: str
    field: str | None
    correct: str | None
    answer: str | None
    task: str | None
    question: str | None
    normalize: str | None
    true_choice: str
    pattern: re.Pattern[str] | None
    scale: float
    words: dict[str, float]
    abstain: re.Pattern[str] | None
    unparsed: str
    filter: str | None
    epoch: int | None

    @classmethod
    def of(cls, format_: Any, options: dict[str, Any]) -> LogSettings:
        """Check every option; none is guessed."""
        _check_among("format", format_, FORMATS)
        confidence = options["confidence"]
        if confidence is None:
            confidence = "choices" if format_ == "lm-eval" else "stated"
        _check_among("confidence", confidence, CONFIDENCES)
        if confidence == "tokens" and format_ != "inspect":
            raise InvalidArgumentError(
                'confidence="tokens" reads the tokens that Inspect logs; got '
                f'format="{format_}". Use "choices", with the log-likelihoods of all choices.'
            )
        for name in ("field", "correct", "answer", "task", "question", "filter"):
            if not (options[name] is None or (isinstance(options[name], str) and options[name])):
                raise InvalidArgumentError(f"{name} must be a name; got {options[name]!r:.60}.")
        if not isinstance(options["true_choice"], str):
            raise InvalidArgumentError(
                f"true_choice must be the text of a choice; got {options['true_choice']!r:.60}."
            )
        if options["normalize"] is not None:
            _check_among("normalize", options["normalize"], LENGTHS)
        _check_among("unparsed", options["unparsed"], ("refuse", "abstain"))
        if not (is_real(options["scale"]) and options["scale"] > 0):
            raise InvalidArgumentError(
                "scale must be the number that means certainty, such as 1, 10 or 100; got "
                f"{options['scale']!r:.60}."
            )
        epoch = options["epoch"]
        if not (epoch is None or (is_integer(epoch) and epoch >= 1)):
            raise InvalidArgumentError(
                f"epoch must be a whole number of at least 1; got {epoch!r:.60}."
            )
        patterns = {name: _compiled(name, options[name]) for name in ("pattern", "abstain")}
        words = _checked_words(options["words"])
        settings = cls(
            **{**options, **patterns, "words": words, "confidence": confidence}, format=format_
        )
        settings._check_read()
        return settings

    def _check_read(self) -> None:
        """Refuse options that this format and confidence do not read."""
        words = {self.format, self.confidence}
        for name, cases in READ_WITH.items():
            value = getattr(self, name)
            is_read = any(words.issuperset(case.split()) for case in cases)
            if value != UNSAID.get(name) and not is_read:
                raise InvalidArgumentError(
                    f"{name}= is for {', '.join(cases)}; this is {self.format} {self.confidence}, "
                    "which does not read it. Leave it out."
                )
        unnamed = words in ({"jsonl", "choices"}, {"jsonl", "p-true"}) and self.answer is None
        if self.abstain is not None and unnamed:
            raise InvalidArgumentError(
                f'abstain= looks at the answer, and confidence="{self.confidence}" of JSON lines '
                "reads none. Name its field with answer=."
            )

    def in_words(self) -> str:
        """Describe the kind of confidence in one line."""
        divided = "" if self.normalize is None else f" divided by {self.normalize}"
        return {
            "choices": f"softmax over the log-likelihoods of the choices{divided}",
            "p-true": f"probability of {self.true_choice!r:.40} among the choices{divided}",
            "votes": "share of the sampled answers that agree with the graded one",
            "stated": "what the model states",
            "tokens": "probability of the graded choice among all at the token of the answer",
        }[self.confidence]


def _check_among(name: str, value: Any, choices: Any) -> None:
    if not is_among(value, choices):
        raise InvalidArgumentError(
            f"{name} must be one of {', '.join(choices)}; got {value!r:.60}."
        )


def _compiled(name: str, pattern: Any) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except (TypeError, ValueError, OverflowError, RecursionError, re.error) as error:
        raise InvalidArgumentError(
            f"{name} must be a regular expression; got {pattern!r:.60} ({error!s:.60})."
        ) from error
    if not isinstance(compiled.pattern, str) or compiled.groups > 1:
        raise InvalidArgumentError(
            f"{name} must be a regular expression for text with one group at most, what is to be "
            f"read; got {pattern!r:.60}."
        )
    return compiled


def _checked_words(words: Any) -> dict[str, float]:
    if words is None:
        return {}
    if not isinstance(words, Mapping) or not words:
        raise InvalidArgumentError(
            "words must be a dict of what is said and the probability that it stands for, such as "
            f"{{'very likely': 0.9}}; got {words!r:.60}."
        )
    for word, value in words.items():
        if not (isinstance(word, str) and is_real(value) and 0 <= value <= 1):
            raise InvalidArgumentError(
                "words must give each phrase a probability in [0, 1]; got "
                f"{word!r:.60}: {value!r:.60}."
            )
    return {word.strip().casefold(): float(value) for word, value in words.items()}


@dataclass(frozen=True)
class Answer:
    """One graded answer as it stands in a log; nothing is checked yet.

    Attributes
    ----------
    where : str
        File and row, for messages.
    grade
        What says whether it was right.
    stated
        What the confidence is read from: text or a number; or the sampled answers; or the
        log-likelihoods of the choices, a dict where their texts are known; or `AnswerTokens`.
    chosen
        The answer that was graded, where answers vote.
    """

    where: str
    task: str
    question: str
    epoch: int
    grade: Any
    stated: Any
    chosen: Any = None
    confidence: float | None = None


class UnparsedError(Exception):
    """No confidence can be read from an answer; the message says why."""


def member(row: Any, path: str) -> Any:
    """Return the value at a dotted path such as ``metadata.confidence``, or ABSENT.

    >>> member({"scores": [{"value": 3}]}, "scores.0.value")
    3
    """
    if isinstance(row, dict) and path in row:
        return row[path]
    for name in path.split("."):
        if isinstance(row, dict) and name in row:
            row = row[name]
        elif isinstance(row, list) and name.isdecimal() and int(name) < len(row):
            row = row[int(name)]
        else:
            return ABSENT
    return row


def named_keys(row: Any, task: str, question: str, settings: LogSettings, where: str) -> list[str]:
    """Return the task and the question that fields name, where those of the log do not count.

    Questions are numbered within a task, so that one number in two tasks is two questions.
    """
    if settings.task is not None:
        task = key_of(member(row, settings.task), "task", where)
    if settings.question is not None:
        question = key_of(member(row, settings.question), "question", where)
        question = question if settings.task is None else f"{task}/{question}"
    return [task, question]


def key_of(value: Any, name: str, where: str) -> str:
    """Return the name of a task or question as text; refuse an empty one."""
    if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
        return str(value)
    raise InvalidInputError(
        f"{where}: {name} must be text or a whole number; it is "
        f"{'absent' if value is ABSENT else repr(value)[:60]}. Name another field."
    )


def as_grade(value: Any, where: str) -> bool | None:
    """Return whether an answer was right, None if it was not graded; refuse partial credit."""
    if value is None or value is ABSENT or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    raise InvalidInputError(
        f"{where}: a grade must be true or false, 1 or 0; it is {value!r:.60}. Name the field that "
        "says whether the answer was right with correct=; partial credit has no calibration of "
        "one event."
    )
