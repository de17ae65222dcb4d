"""Evaluation logs as lm-eval 0.4.13 and Inspect 0.3.285 write them, shortened to what matters.

Fields and types were read off logs that both tools wrote: lm-eval writes numbers of responses and
the target as text; Inspect writes NaN for what was not scored, and packs its archives with
Zstandard, which Python's zipfile writes from 3.14 on.
"""

from __future__ import annotations

import hashlib
import json
import zipfile

import numpy as np

CHOICES = ("Paris", "a small town", "the sea", "no")
N = 40
RNG = np.random.default_rng(5)
LIKELIHOODS = RNG.normal(-20, 2, size=(N, 4)).round(3)
GOLD = RNG.integers(4, size=N)


def digest(doc):
    return hashlib.sha256(str(doc).encode()).hexdigest()


def multiple_choice(doc_id, log_likelihoods, gold, texts=CHOICES, **more):
    """Return a sample of a multiple-choice task with the harness's own grades."""
    n = len(log_likelihoods)
    texts = [texts[i % len(texts)] + "'" * (i // len(texts)) for i in range(n)]
    values = np.array([float(x) for x in log_likelihoods])
    with np.errstate(invalid="ignore"):
        acc, norm = (
            float(np.argmax(values / scale) == gold) for scale in (1.0, [*map(len, texts)])
        )
    return {
        "doc_id": doc_id,
        "doc": {"question": f"Where is {doc_id}?", "subject": ["even", "odd"][doc_id % 2]},
        "target": str(gold),
        "arguments": {
            f"gen_args_{i}": {"arg_0": f"Where is {doc_id}?\nAnswer:", "arg_1": f" {text}"}
            for i, text in enumerate(texts)
        },
        "resps": [[[str(x), "False"]] for x in log_likelihoods],
        "filtered_resps": [[str(x), "False"] for x in log_likelihoods],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": digest(doc_id),
        "prompt_hash": "0" * 64,
        "target_hash": "1" * 64,
        "acc": acc,
        "acc_norm": norm,
        **more,
    }


def multiple_choices(likelihoods):
    """Return a sample of each row of log-likelihoods, whose right choices are those of GOLD."""
    return [multiple_choice(i, row.tolist(), GOLD[i]) for i, row in enumerate(likelihoods)]


def generated(doc_id, texts, answer, right, filter_name="strict-match", **more):
    """Return a sample of a task in which the model writes, once or several times."""
    return {
        "doc_id": doc_id,
        "doc": {"question": f"How much is {doc_id}?"},
        "target": "#### 18",
        "arguments": {"gen_args_0": {"arg_0": "Q: ...", "arg_1": {"until": ["Q:"]}}},
        "resps": [texts],
        "filtered_resps": [answer],
        "filter": filter_name,
        "metrics": ["exact_match"],
        "doc_hash": digest(doc_id),
        "exact_match": float(right),
        **more,
    }


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_samples(folder, task, rows, date="2026-11-16T10-04-12.123456"):
    """Write the file of one task, named as the harness names it."""
    folder.mkdir(parents=True, exist_ok=True)
    return write_lines(folder / f"samples_{task}_{date}.jsonl", rows)


def two_tasks(folder):
    """Write the questions of LIKELIHOODS as two tasks, and return the pattern of their files."""
    rows = multiple_choices(LIKELIHOODS)
    write_samples(folder, "mmlu_anatomy", rows[:25])
    write_samples(folder, "mmlu_virology", rows[25:])
    return str(folder / "samples_*.jsonl")


def inspect_sample(id_, value, epoch=1, answer="A", scorer="judge", completion="", **more):
    score = {"value": value, "history": []} | ({} if answer is None else {"answer": answer})
    return {
        "id": id_,
        "epoch": epoch,
        "input": f"Question {id_}?",
        "choices": ["x", "y"],
        "target": "A",
        "messages": [{"role": "user", "content": f"Question {id_}?"}],
        "output": {"model": "mockllm/model", "choices": [], "completion": completion},
        "scores": {scorer: score} if value != "failed" else {},
        "metadata": {"topic": "history"},
        "events": [],
        **more,
    }


def write_inspect(path, samples, task="quiz", status="success", **header):
    """Write a log of Inspect, an archive if the path ends in .eval."""
    document = {
        "version": 2,
        "status": status,
        "eval": {"task": task, "model": "mockllm/model", "created": "2026-11-16T10:07:32+00:00"},
        "plan": {},
        **header,
    }
    if path.suffix == ".json":
        path.write_text(json.dumps({**document, "samples": samples}))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps(document))
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
        archive.writestr("header.json", json.dumps(document))
    return path


def zstandard(path):
    """Pack the members of an archive with Zstandard, as Inspect does, by writing its records."""
    import struct
    import zlib

    import pyarrow as pa

    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    body, directory = b"", b""
    for name, text in members.items():
        packed = pa.Codec("zstd").compress(text, asbytes=True)
        sizes = struct.pack("<III", zlib.crc32(text), len(packed), len(text))
        common = struct.pack("<HHHHH", 63, 0, 93, 0, 33) + sizes
        encoded = name.encode()
        lengths = struct.pack("<HH", len(encoded), 0)
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + common + lengths
        directory += struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + encoded
        body += b"PK\x03\x04" + common + lengths + encoded + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    path.write_bytes(body + directory + b"PK\x05\x06" + end)
    return path


INSPECT = [
    inspect_sample("q1", "C", metadata={"confidence": "90%", "topic": "law"}),
    inspect_sample("q2", "I", metadata={"confidence": "3/5", "topic": "law"}),
    inspect_sample("q3", "N", answer=None, metadata={"topic": "art"}),
    inspect_sample("q4", "failed", metadata={"topic": "art"}),
    inspect_sample("q5", float("nan"), metadata={"topic": "art", "confidence": 0.5}),
    inspect_sample(6, 1.0, metadata={"confidence": 0.75, "topic": "art"}),
    inspect_sample("q7", True, metadata={"confidence": ".5", "topic": "art"}),
]
