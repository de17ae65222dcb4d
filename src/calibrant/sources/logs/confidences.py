"""Confidences: what a model states, how its samples vote, how likely it finds each choice."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidInputError
from calibrant.problem import SUM_TOLERANCE
from calibrant.sources.logs.settings import ABSENT, LENGTHS, Answer, LogSettings, UnparsedError

NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
PERCENT = re.compile(rf"({NUMBER})\s*(?:%|per ?cent)", re.IGNORECASE)
RATIO = re.compile(rf"({NUMBER})\s*(?:/|out of)\s*({NUMBER})", re.IGNORECASE)
PLAIN = re.compile(NUMBER)

AROUND = " \t\r\n()[]{}.,:;*_`'\"$"
"""Characters around the letter of a choice within a token that do not make it another choice."""

Choice = tuple[Any, Any]
"""The text of a choice, None where it is not known, and its log-likelihood as it stands there."""


def confidence_of(answer: Answer, settings: LogSettings) -> float:
    """Return the confidence of an answer; UnparsedError if it states none that can be read."""
    if answer.confidence is not None:
        return answer.confidence
    if settings.confidence == "votes":
        return _share_of_votes(answer)
    if settings.confidence == "stated":
        return stated(answer.stated, settings)
    if isinstance(answer.stated, AnswerTokens):
        return answer.stated.probability(answer, settings)
    choices = as_choices(answer.stated)
    probs = choice_probabilities(choices, settings, answer.where)
    if settings.confidence == "p-true":
        return float(probs[true_index(choices, settings, answer.where)])
    return float(probs[_graded_index(choices, answer, int(probs.argmax()))])


@dataclass(frozen=True)
class AnswerTokens:
    """The tokens of an answer with their likeliest alternatives, and the letters of the choices."""

    content: Any
    letters: tuple[str, ...]

    def probability(self, answer: Answer, settings: LogSettings) -> float:
        """Return the share of the graded choice among all choices at the token of the answer.

        Alternatives that are not choices do not count, nor do choices that were not logged.
        """
        mass = self.masses(answer, settings)
        return mass[_letter(answer.chosen)] / sum(mass.values())

    def hidden(self, answer: Answer, settings: LogSettings) -> float:
        """Bound the total probability of choices that are not among the logged alternatives."""
        token, logged = self._at(answer, settings), self.masses(answer, settings)
        numbers = [math.exp(number) for _, number in self._alternatives(token, answer.where)]
        beyond = sum(value == 0 for value in logged.values())
        return min(beyond * min(numbers), max(1 - sum(numbers), 0.0)) if beyond else 0.0

    def masses(self, answer: Answer, settings: LogSettings) -> dict[str, float]:
        """Return the probability that was logged for each choice, 0 where none was."""
        if _letter(answer.chosen) not in self.letters:
            raise InvalidInputError(
                f"{answer.where}: {answer.chosen!r:.60} was graded, which is not one of the "
                f"choices {', '.join(self.letters):.60}. Name the field that tells which choice "
                "was graded with answer=."
            )
        mass = dict.fromkeys(self.letters, 0.0)
        entry = self._at(answer, settings)
        for token, number in self._alternatives(entry, answer.where):
            if token.strip(AROUND) in mass:
                mass[token.strip(AROUND)] += math.exp(number)
        if mass[_letter(answer.chosen)] == 0:
            raise UnparsedError(
                f"the graded choice {answer.chosen!r:.20} is not among the alternatives of the "
                f"token {entry['token']!r:.20}"
            )
        return mass

    def _at(self, answer: Answer, settings: LogSettings) -> dict[str, Any]:
        """Return the token of the answer: where the pattern matches, or the last that is it."""
        content = self.content
        if not (isinstance(content, list) and content and all(map(_is_token, content))):
            raise InvalidInputError(
                f"{answer.where}: tokens with their likeliest alternatives are needed, and this "
                "sample has none. Run Inspect with --logprobs and --top-logprobs 20, or read "
                "another confidence=."
            )
        texts = [entry["token"] for entry in content]
        if settings.pattern is None:
            places = [i for i, x in enumerate(texts) if x.strip(AROUND) == _letter(answer.chosen)]
        else:
            ends = np.cumsum([len(text) for text in texts])
            starts = [
                m.start(1 if settings.pattern.groups else 0)
                for m in settings.pattern.finditer("".join(texts))
            ]
            places = [int(np.searchsorted(ends, start, side="right")) for start in starts[-1:]]
        if not places:
            raise UnparsedError(
                f"no token is the graded choice {answer.chosen!r:.20}"
                if settings.pattern is None
                else f"the pattern is not in {''.join(texts)[-60:]!r}"
            )
        entry: dict[str, Any] = content[places[-1]]
        return entry

    def _alternatives(self, entry: dict[str, Any], where: str) -> list[tuple[str, float]]:
        """Return tokens and log-probabilities at one place, the one that was sampled included."""
        tokens = {entry["token"]: entry["logprob"]}
        tokens |= {other["token"]: other["logprob"] for other in entry["top_logprobs"]}
        return [(text, _log_likelihood(number, where)) for text, number in tokens.items()]


def _letter(chosen: Any) -> Any:
    return chosen.strip(AROUND) if isinstance(chosen, str) else chosen


def _is_token(entry: Any) -> bool:
    """Return whether this is a token with log-probabilities of it and its alternatives."""
    if not (isinstance(entry, dict) and isinstance(entry.get("top_logprobs"), list)):
        return False
    both = [entry, *entry["top_logprobs"]]
    return all(isinstance(x, dict) and isinstance(x.get("token"), str) for x in both) and all(
        "logprob" in x for x in both
    )


def stated(logged: Any, settings: LogSettings) -> float:
    """Read "90%", "9/10", a number at the declared scale, or one of the declared words.

    All of the text must be the confidence, or what the pattern takes from it: "80 to 90%" is
    neither 0.8 nor 0.9.
    """
    if logged is None or logged is ABSENT or isinstance(logged, bool | dict | list):
        shown = "nothing" if logged is None or logged is ABSENT else repr(logged)[:60]
        raise UnparsedError(f"a confidence is expected, and {shown} is there")
    text = extracted(logged, settings.pattern)
    if text is None:
        raise UnparsedError(f"the pattern is not in {logged!r:.80}")
    if text.casefold() in settings.words:
        return settings.words[text.casefold()]
    if match := PERCENT.fullmatch(text):
        value = float(match[1]) / 100
    elif match := RATIO.fullmatch(text):
        value = float(match[1]) / float(match[2]) if float(match[2]) > 0 else math.nan
    elif PLAIN.fullmatch(text):
        value = float(text) / settings.scale
    else:
        raise UnparsedError(f"{text!r:.60} is neither a number nor one of the declared words")
    if not 0 <= value <= 1:
        raise UnparsedError(
            f"{text!r:.60} is not within 0 and 1 at scale {settings.scale:g}: declare another "
            "scale if it is meant"
        )
    return value


def extracted(value: Any, pattern: re.Pattern[str] | None) -> str | None:
    """Return the text that a pattern takes from an answer, the last if there are several."""
    text = value if isinstance(value, str) else repr(value)
    if pattern is None:
        return text.strip()
    last = None
    for match in pattern.finditer(text):
        last = (match[1] if pattern.groups else match[0]) or ""
    return None if last is None else last.strip()


def vote_in(value: Any, settings: LogSettings) -> Any:
    """Return the vote that the pattern takes from a text, None if it is not there."""
    if settings.pattern is None or not isinstance(value, str):
        return value
    return extracted(value, settings.pattern)


def _share_of_votes(answer: Answer) -> float:
    votes, chosen = answer.stated, answer.chosen
    if not isinstance(votes, list) or not votes:
        raise UnparsedError(f"a list of sampled answers is expected, and {votes!r:.60} is there")
    if chosen is None or chosen is ABSENT:
        raise UnparsedError("no answer was found in the samples, so none was graded")
    agree = sum(vote == chosen for vote in votes)
    if not agree:
        raise InvalidInputError(
            f"{answer.where}: {chosen!r:.60} was graded, but none of the {len(votes):,} sampled "
            f"answers is that (first: {votes[0]!r:.60}). Give the pattern= by which the graded "
            "answer was taken from them."
        )
    return float(agree) / len(votes)


def as_choices(value: Any) -> list[Choice]:
    """Return (text, log-likelihood) of choices that a field holds as a dict or as a list."""
    if isinstance(value, dict):
        return list(value.items())
    return [(None, number) for number in value] if isinstance(value, list) else []


def _graded_index(choices: Sequence[Choice], answer: Answer, likeliest: int) -> int:
    """Return which choice was graded: the one that the log names, else the likeliest.

    An answer that was sampled need not be the likeliest.
    """
    if answer.chosen is None:
        return likeliest
    texts = [i if text is None else str(text).strip() for i, (text, _) in enumerate(choices)]
    chosen = answer.chosen.strip() if isinstance(answer.chosen, str) else answer.chosen
    if type(chosen) in (str, int) and texts.count(chosen) == 1:
        return texts.index(chosen)
    raise InvalidInputError(
        f"{answer.where}: {'no answer' if chosen is ABSENT else repr(chosen)[:60]} was graded, "
        f"which is not one of the choices {', '.join(repr(text)[:30] for text in texts[:5])}. Name "
        "the field that tells which choice was graded with answer=."
    )


def choice_probabilities(
    choices: Sequence[Choice], settings: LogSettings, where: str
) -> FloatArray:
    """Return the softmax over the log-likelihoods of the choices."""
    if len(choices) < 2:
        raise InvalidInputError(
            f"{where}: log-likelihoods of at least two choices are needed for a confidence; there "
            f"are {len(choices)}. For answers in free text use confidence='stated' or 'votes'."
        )
    numbers = np.array([_log_likelihood(value, where) for _, value in choices])
    if numbers.min() >= 0 and abs(numbers.sum() - 1) <= SUM_TOLERANCE:
        raise InvalidInputError(
            f"{where}: log-likelihoods of choices are needed; these are not negative and add up "
            f"to 1 (first: {numbers[0]:g}), as probabilities do. Log the logarithms."
        )
    if settings.normalize is not None:
        numbers = numbers / _lengths([text for text, _ in choices], settings.normalize, where)
    if numbers.max() == -math.inf:
        raise InvalidInputError(
            f"{where}: every choice has the log-likelihood -inf, so none has a probability."
        )
    weights = np.exp(numbers - numbers.max())
    probs: FloatArray = weights / weights.sum()
    return probs


def true_index(choices: Sequence[Choice], settings: LogSettings, where: str) -> int:
    """Return which choice says that the proposed answer is true."""
    texts = [str(text) for text, _ in choices if text is not None]
    target = settings.true_choice.strip().casefold()
    hits = [i for i, text in enumerate(texts) if text.strip().casefold() == target]
    if len(hits) != 1:
        raise InvalidInputError(
            f"{where}: one choice must be {settings.true_choice!r:.40}; the choices are "
            f"{', '.join(repr(text)[:30] for text in texts[:5]) or 'without texts'}. Name the one "
            "that means so with true_choice=."
        )
    return hits[0]


def _log_likelihood(value: Any, where: str) -> float:
    """Return a log-likelihood; lm-eval writes numbers as text."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number) or number == math.inf:
        raise InvalidInputError(
            f"{where}: a log-likelihood must be a number or -inf; got {value!r:.60}."
        )
    return number


def _lengths(texts: list[Any], unit: str, where: str) -> FloatArray:
    """Return the lengths of the choices' texts; a likelihood over no text has none."""
    lengths = np.array([0.0 if text is None else LENGTHS[unit](str(text)) for text in texts])
    if not lengths.all() or len(set(texts)) == 1:
        raise InvalidInputError(
            f"{where}: log-likelihoods are divided by the length of each choice's text, and the "
            f"texts are {', '.join(repr(text)[:30] for text in texts[:5])}. Leave normalize= out."
        )
    return lengths
