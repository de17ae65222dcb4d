"""Sample logs of the Language Model Evaluation Harness: ``samples_TASK_DATE.jsonl``.

One row a question and filter, with the harness's own grades beside what the model gave: for
multiple choice a log-likelihood of every choice, else generated texts, numbers written as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError, InvalidInputError
from calibrant.sources.logs.confidences import Choice, choice_probabilities, extracted, true_index
from calibrant.sources.logs.settings import (
    ABSENT,
    Answer,
    LogSettings,
    as_grade,
    key_of,
    member,
    named_keys,
)

FILE_NAME = re.compile(r"samples_(.+)_\d{4}-\d\d-\d\dT[\d.-]+\.jsonl(?:\.\w+)?")
GRADES = {None: "acc", "characters": "acc_norm", "bytes": "acc_bytes"}
"""The harness's own accuracy for each way to compare choices."""
INVALID = "[invalid]"
"""The answer of the harness's filters to a text without their pattern."""


def lm_eval_answers(
    path: str, rows: Iterator[tuple[str, dict[str, Any]]], settings: LogSettings
) -> Iterator[Answer]:
    """Yield the answers of one file, those of the declared filter."""
    named = FILE_NAME.fullmatch(Path(path).name)
    task = named[1] if named else Path(path).name.partition(".")[0]
    filters: set[str] = set()
    for where, row in rows:
        if not isinstance(row.get("resps"), list) or "doc_id" not in row:
            raise InvalidDocumentError(
                f"{where} is not a sample of lm-eval, which has doc_id and resps; its fields are "
                f"{', '.join(map(repr, list(row)[:8])):.200}. Run lm_eval with --log_samples, and "
                "name the samples_*.jsonl files."
            )
        name = str(row.get("filter", "none"))
        if settings.filter not in (None, name):
            continue
        filters.add(name)
        if len(filters) > 1:
            names = ", ".join(sorted(filters))
            raise InvalidArgumentError(
                f"{where}: answers were filtered in several ways, {names:.200}, so that one "
                "question would count several times. Choose one with filter=."
            )
        yield _answer(row, where, task, settings)


def _answer(row: dict[str, Any], where: str, task: str, settings: LogSettings) -> Answer:
    digest = row.get("doc_hash")
    question = f"{task}/{key_of(row['doc_id'], 'doc_id', where)}"
    if isinstance(digest, str):  # another question under the same number does not match
        question += f"/{digest[:12]}"
    shown, question = named_keys(row, task, question, settings, where)
    grade = as_grade(member(row, _grade_name(row, where, settings)), where)
    answer = Answer(where, shown, question, 1, grade, None)
    if settings.confidence in ("choices", "p-true"):
        return _chosen(answer, row, settings)
    if settings.confidence == "votes":
        votes = [extracted(text, settings.pattern) or INVALID for text in _texts(row, where)]
        chosen = extracted(_filtered(row, where)[0], None)
        return replace(answer, stated=votes, chosen=None if chosen == INVALID else chosen)
    if settings.field is not None:
        return replace(answer, stated=member(row, settings.field))
    texts = _texts(row, where)
    if len(texts) > 1:
        raise InvalidInputError(
            f"{where}: the model wrote {len(texts):,} texts, and one of them must be what was "
            "graded. Name it, such as field='resps.0.0' for the first."
        )
    return replace(answer, stated=texts[0])


def _chosen(answer: Answer, row: dict[str, Any], settings: LogSettings) -> Answer:
    """Return the answer with the probability of the likeliest choice, or of the true one."""
    where, grade = answer.where, answer.grade
    choices = _choices(row, where)
    probs = choice_probabilities(choices, settings, where)
    best = int(probs.argmax())
    _check_target(row, choices, best, grade, where)
    if settings.confidence == "choices":
        return replace(answer, confidence=float(probs[best]))
    if len(choices) != 2:
        raise InvalidInputError(
            f"{where}: p-true needs two choices, true and false; there are {len(choices)}."
        )
    true = true_index(choices, settings, where)
    # graded was the likelier of the two; asked is whether the proposed answer is true
    holds = None if grade is None else grade == (best == true)
    return replace(answer, grade=holds, confidence=float(probs[true]))


def _grade_name(row: dict[str, Any], where: str, settings: LogSettings) -> str:
    """Return the metric that grades: the declared one, that of the choices, or the only one."""
    if settings.correct is not None:
        name = settings.correct
    elif settings.confidence in ("choices", "p-true"):
        name = GRADES[settings.normalize]
    else:
        metrics = row.get("metrics")
        name = metrics[0] if isinstance(metrics, list) and len(metrics) == 1 else "exact_match"
    if member(row, str(name)) is ABSENT:
        raise InvalidInputError(
            f"{where}: there is no {name!r:.60}, by which answers are graded; the metrics are "
            f"{str(row.get('metrics', list(row)))[:200]}. Name one with correct=."
        )
    return str(name)


def _filtered(row: dict[str, Any], where: str) -> list[Any]:
    filtered = row.get("filtered_resps")
    if not isinstance(filtered, list) or not filtered:
        raise InvalidDocumentError(f"{where}: filtered_resps must be a list that is not empty.")
    return filtered


def _texts(row: dict[str, Any], where: str) -> list[str]:
    """Return the texts that were generated for the one request of a question."""
    texts = row["resps"][0] if len(row["resps"]) == 1 else None
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise InvalidInputError(
            f"{where}: resps must hold the texts that the model wrote; it holds "
            f"{row['resps']!r:.80}. Multiple choice is read with confidence='choices'."
        )
    return texts


def _choices(row: dict[str, Any], where: str) -> list[Choice]:
    """Return (text, log-likelihood) of every choice.

    Where mutual information was asked for, the log-likelihoods without the question follow.
    """
    pairs = _filtered(row, where)
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise InvalidInputError(
            f"{where}: filtered_resps must hold a log-likelihood and a flag for every choice; it "
            f"holds {pairs!r:.80}. Texts are read with confidence='stated' or 'votes'."
        )
    _check_complete(row, len(pairs), where)
    texts = _continuations(row.get("arguments"), len(pairs))
    kept = len(pairs) // 2 if "acc_mutual_info" in row else len(pairs)
    return [(text, pair[0]) for text, pair in zip(texts[:kept], pairs[:kept], strict=True)]


def _check_complete(row: dict[str, Any], n: int, where: str) -> None:
    """Refuse a question that has lost a choice: the others would seem likelier than they were."""
    arguments = row.get("arguments")
    asked = len(arguments) if isinstance(arguments, list | dict) else n
    if not len(row["resps"]) == asked == n:
        raise InvalidDocumentError(
            f"{where}: every choice needs its log-likelihood; there are {asked:,} in arguments, "
            f"{len(row['resps']):,} in resps and {n:,} in filtered_resps. Run the question again."
        )


def _continuations(arguments: Any, n: int) -> list[str | None]:
    """Return the choices' texts as the harness measures them, without the space before them."""
    if isinstance(arguments, dict):
        arguments = [arguments.get(f"gen_args_{i}") for i in range(n)]
        arguments = [
            (a.get("arg_0"), a.get("arg_1")) if isinstance(a, dict) else a for a in arguments
        ]
    if not isinstance(arguments, list) or len(arguments) != n:
        return [None] * n
    pairs = [a if isinstance(a, list | tuple) and len(a) > 1 else (None, None) for a in arguments]
    return [pair[1].lstrip() if isinstance(pair[1], str) else None for pair in pairs]


def _check_target(
    row: dict[str, Any], choices: list[Choice], best: int, grade: bool | None, where: str
) -> None:
    """Refuse a grade that contradicts the target: the choices were compared in another way."""
    target = row.get("target")
    texts = [text for text, _ in choices]
    gold = {texts.index(target)} if target in texts else set()
    if isinstance(target, str | int) and str(target).isdecimal() and int(target) < len(choices):
        gold.add(int(target))
    if gold and grade is not None and all((best == choice) != grade for choice in gold):
        raise InvalidInputError(
            f"{where}: choice {best} is the likeliest and the target is {target!r:.40}, but the "
            f"grade says {'right' if grade else 'wrong'}. The harness has compared the choices in "
            "another way: declare normalize=, or another metric with correct=."
        )
