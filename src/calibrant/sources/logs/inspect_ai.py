"""Logs of Inspect: one JSON document, or an archive ``.eval`` with a document for every sample."""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from calibrant._documents import MOST_BYTES, read_json
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidInputError,
)
from calibrant.sources.files.arrow import arrow_library
from calibrant.sources.files.npz import DAMAGED
from calibrant.sources.logs.confidences import AnswerTokens, vote_in
from calibrant.sources.logs.settings import (
    ABSENT,
    Answer,
    LogSettings,
    UnparsedError,
    as_grade,
    key_of,
    member,
    named_keys,
)

ZSTANDARD = 93
"""The compression that Inspect uses, which Python's zipfile reads from 3.14 on."""
LOCAL_HEADER = 30
"""Bytes before the name of a member, of which the last four are two lengths."""
GRADES = {"C": True, "I": False, "yes": True, "no": False, "true": True, "false": False}
TOKENS = "output.choices.0.logprobs.content"
"""Where Inspect keeps the tokens of the answer with their likeliest alternatives."""
UNREADABLE: tuple[type[Exception], ...] = (*DAMAGED, OSError)
NO_ANSWER = "N"
"""The grade of an answer that was declined."""


class Declined:
    """The grade of an answer that its scorer calls declined."""


def inspect_answers(path: str, settings: LogSettings, notes: list[str]) -> Iterator[Answer]:
    """Yield the answers of one log; oddities of the log go into the notes."""
    header, samples = _opened(path)
    if not isinstance(header.get("eval"), dict):
        raise InvalidDocumentError(f"{path} is not a log of Inspect: it does not say what was run.")
    task = key_of(header["eval"].get("task"), "eval.task", path)
    status = header.get("status", "started")
    if status != "success":
        notes.append(f"{path}: the run did not finish; its status is {status!r:.40}")
    valid = _valid(samples, path, notes)
    answers = (_answer(sample, where, task, settings) for where, sample in valid)
    answers = (a for a in answers if settings.epoch in (None, a.epoch))
    if settings.confidence == "tokens":
        yield from _with_hidden(answers, path, settings, notes)
        return
    yield from _voted(answers) if settings.confidence == "votes" else answers


def _valid(
    samples: Iterable[tuple[str, Any]], path: str, notes: list[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the samples that are not invalidated, and note how many are."""
    n = 0
    for where, sample in samples:
        if isinstance(sample, dict) and sample.get("invalidation") is not None:
            n += 1
        else:
            yield where, sample
    if n:
        notes.append(f"{path}: left out, invalidated in Inspect: {n:,} of the samples")


def _with_hidden(
    answers: Iterable[Answer], path: str, settings: LogSettings, notes: list[str]
) -> Iterator[Answer]:
    """Yield answers, and note how much probability choices that were not logged may have."""
    hidden = []
    for answer in answers:
        yield answer
        if answer.grade is not None and answer.grade is not Declined:
            try:
                hidden.append(answer.stated.hidden(answer, settings))
            except UnparsedError:
                continue  # counted as declined, or refused before
    lacking = [share for share in hidden if share > 0]
    if lacking:
        notes.append(
            f"{path}: of {len(lacking):,} of {len(hidden):,} answers not every choice is among the "
            f"logged tokens; the others count as 0, and have {max(lacking):.2g} at most"
        )


def _answer(sample: Any, where: str, task: str, settings: LogSettings) -> Answer:
    if not isinstance(sample, dict) or "id" not in sample:
        raise InvalidDocumentError(f"{where} is not a sample of Inspect, which has an id.")
    epoch = sample.get("epoch", 1)
    if type(epoch) is not int:
        raise InvalidDocumentError(f"{where}: epoch must be a whole number; got {epoch!r:.60}.")
    question = f"{task}/{key_of(sample['id'], 'id', where)}"
    shown, question = named_keys(sample, task, question, settings, where)
    score = _score(sample, where, settings)
    if settings.confidence == "votes":
        value = score.get("answer") if settings.field is None else member(sample, settings.field)
        value = vote_in(value, settings)
    else:
        value = member(sample, settings.field or "output.completion")
    grade, chosen = _grade(score.get("value"), where), None
    if settings.confidence == "tokens":
        value = AnswerTokens(member(sample, settings.field or TOKENS), _letters(sample, where))
    if settings.confidence in ("choices", "tokens"):
        chosen = score.get("answer") if settings.answer is None else member(sample, settings.answer)
    return Answer(where, shown, question, epoch, grade, value, chosen)


def _letters(sample: dict[str, Any], where: str) -> tuple[str, ...]:
    """Return the letters by which Inspect calls the choices: A to Z, then numbers from 1."""
    choices = sample.get("choices")
    if not (isinstance(choices, list) and len(choices) > 1):
        raise InvalidInputError(
            f'{where}: confidence="tokens" needs a question of several choices; this sample has '
            f"{choices!r:.60}. Read another confidence=."
        )
    return tuple(chr(65 + i) if i < 26 else str(i - 25) for i in range(len(choices)))


def _score(sample: dict[str, Any], where: str, settings: LogSettings) -> dict[str, Any]:
    """Return the score that grades a sample; a failed sample has none."""
    scores = sample.get("scores") or {}
    if not isinstance(scores, dict) or not all(isinstance(s, dict) for s in scores.values()):
        raise InvalidDocumentError(f"{where}: scores must be objects by the name of the scorer.")
    if not scores:
        return {"value": None}
    if settings.correct is None and len(scores) > 1:
        raise InvalidArgumentError(
            f"{where}: several scorers graded the answers, {', '.join(scores)[:200]}. Name one "
            "with correct=."
        )
    name = next(iter(scores)) if settings.correct is None else settings.correct
    if name in scores:
        return dict(scores[name])
    scorer, _, entry = name.rpartition(".")  # a score with several values
    value = member(scores, f"{scorer}.value.{entry}") if scorer in scores else ABSENT
    if value is ABSENT:
        raise InvalidInputError(
            f"{where}: no scorer is called {name!r:.60}; there are {', '.join(scores)[:200]}."
        )
    return {**scores[scorer], "value": value}


def _grade(value: Any, where: str) -> bool | type[Declined] | None:
    if value == NO_ANSWER:
        return Declined
    if isinstance(value, str) and (value in GRADES or value.lower() in GRADES):
        return GRADES.get(value, GRADES.get(value.lower()))
    return as_grade(value, where)


def _voted(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Yield one answer a question: the one that most epochs gave, with all as its votes."""
    epochs: dict[str, list[Answer]] = {}
    for answer in answers:
        epochs.setdefault(answer.question, []).append(answer)
    for group in epochs.values():
        votes = [None if answer.grade is Declined else _vote(answer) for answer in group]
        chosen = Counter(votes).most_common(1)[0][0]
        first = group[votes.index(chosen)]
        grades = {a.grade for a, vote in zip(group, votes, strict=True) if vote == chosen}
        if len(grades) > 1:
            raise InvalidInputError(
                f"{first.where}: the same answer, {chosen!r:.60}, is right in one epoch, wrong in "
                "another, so the vote for it is neither. Use a scorer that grades alike."
            )
        grade = Declined if chosen is None else first.grade
        yield Answer(first.where, first.task, first.question, 1, grade, votes, chosen)


def _vote(answer: Answer) -> Any:
    stated = None if answer.stated is ABSENT else answer.stated
    if stated is None or isinstance(stated, str | int | float):
        return stated
    raise InvalidInputError(
        f"{answer.where}: a vote must be text or a number; it is {answer.stated!r:.60}. Name the "
        "field of the answers with field=."
    )


def _opened(path: str) -> tuple[dict[str, Any], Iterable[tuple[str, Any]]]:
    """Return the header of a log, and its samples."""
    with open(path, "rb") as stream:
        if stream.read(4) == b"PK\x03\x04":
            return _archive(path)
        stream.seek(0)
        document = read_json(stream.read(MOST_BYTES + 1), f"{path}: a log", strict=False)
    samples = document.get("samples") if isinstance(document, dict) else None
    if not isinstance(samples, list):
        raise InvalidDocumentError(
            f"{path} is not a log of Inspect with samples. Name its .eval file, or the .json file "
            "of a run that kept its samples."
        )
    return document, ((f"{path}, sample {i + 1:,}", sample) for i, sample in enumerate(samples))


def _archive(path: str) -> tuple[dict[str, Any], Iterable[tuple[str, Any]]]:
    with _unpacking(path), zipfile.ZipFile(path) as archive:
        # a sample that was run again is there twice, and the last one counts
        infos = {info.filename: info for info in archive.infolist()}
        start = "header.json" if "header.json" in infos else "_journal/start.json"
        if start not in infos:
            raise InvalidDocumentError(f"{path} is not a log of Inspect: it has no header.json.")
        header = _document(archive, infos[start], path)
    names = [name for name in infos if name.startswith("samples/") and name.endswith(".json")]
    return (header if isinstance(header, dict) else {}), _members(path, [infos[n] for n in names])


def _members(path: str, infos: list[zipfile.ZipInfo]) -> Iterator[tuple[str, Any]]:
    with _unpacking(path), zipfile.ZipFile(path) as archive:
        for info in infos:
            yield f"{path}, {info.filename:.200}", _document(archive, info, path)


@contextmanager
def _unpacking(path: str) -> Iterator[None]:
    try:
        yield
    except CalibrantError:
        raise
    except UNREADABLE as error:
        if getattr(error, "errno", None) is not None:  # of the system, not of the archive
            raise
        raise InvalidDocumentError(
            f"{path} cannot be read as an archive: {error!s:.100}. It may have been cut."
        ) from error


def _document(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Any:
    """Return one member of an archive, parsed; its size and checksum are those announced."""
    where = f"{path}, {info.filename:.200}"
    if info.file_size > MOST_BYTES:
        raise InvalidDocumentError(
            f"{where}: {info.file_size:,} bytes are more than the {MOST_BYTES:,} that are read."
        )
    if info.compress_type != ZSTANDARD or hasattr(zipfile, "ZIP_ZSTANDARD"):
        return read_json(archive.read(info), where, strict=False)
    return read_json(_zstandard(path, info), where, strict=False)


def _zstandard(path: str, info: zipfile.ZipInfo) -> bytes:
    """Unpack with PyArrow a member that zipfile cannot."""
    pa = arrow_library()
    with open(path, "rb") as stream:
        stream.seek(info.header_offset)
        lengths = stream.read(LOCAL_HEADER)[-4:]
        name, extra = (int.from_bytes(lengths[i : i + 2], "little") for i in (0, 2))
        stream.seek(name + extra, 1)
        packed = stream.read(info.compress_size)
    unpacked = pa.CompressedInputStream(pa.BufferReader(packed), "zstd")
    text = bytes(unpacked.read(info.file_size + 1))
    if len(text) != info.file_size or zlib.crc32(text) != info.CRC:
        raise zipfile.BadZipFile(f"the checksum of {info.filename:.200} differs")
    return text
