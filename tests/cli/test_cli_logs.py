"""--log: every command reads evaluation logs as it reads rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant.cli import main
from log_files import inspect_sample, multiple_choice, write_inspect, write_lines, write_samples

N = 120
RNG = np.random.default_rng(3)
GOLD = RNG.integers(3, size=N)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make the logs of two models on two tasks, and one with epochs."""
    folder = tmp_path_factory.mktemp("logs")
    for model, sharpness in (("a", 1.0), ("b", 3.0)):
        likelihoods = RNG.normal(-9, 1, size=(N, 3))
        likelihoods[np.arange(N), GOLD] += 1
        likelihoods *= sharpness
        rows = [multiple_choice(i, likelihoods[i].tolist(), GOLD[i]) for i in range(N)]
        write_samples(folder / model, "anatomy", rows[: N // 2])
        write_samples(folder / model, "virology", rows[N // 2 :])
    epochs = [
        inspect_sample(i, "CIN"[min((i + e) % 5, 2)], e, completion=f"{50 + 10 * (i % 5)}%")
        for i in range(20)
        for e in (1, 2)
    ]
    write_inspect(folder / "epochs.eval", epochs)
    return folder


def run(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_measuring_a_log_is_measuring_its_columns(folder, capsys):
    code, out, err = run(capsys, "measure", folder / "a/samples_*", "--log", "lm-eval", "--json")
    log = cb.read_log(str(folder / "a/samples_*"), "lm-eval")
    expected = cb.calibration_error("correct", "confidence", data=log)
    assert (code, json.loads(out)["value"]) == (0, expected.value)
    assert err == (
        "calibrant: confidence: softmax over the log-likelihoods of the choices; 120 answers in 2 "
        "tasks, 0 declined\n"
    )


def test_a_report_and_an_audit_show_tasks(folder, tmp_path, capsys):
    page = tmp_path / "r.html"
    words = (folder / "b/samples_*", "--log", "lm-eval", "normalize=characters")
    code, _, _ = run(capsys, "report", *words, "-o", page)
    html = page.read_text()
    assert code == 0
    assert "anatomy" in html
    assert "virology" in html
    assert "divided by characters; 120 answers in 2 tasks, 0 declined" in html
    assert "--log lm-eval normalize=characters" in html
    code, out, _ = run(capsys, "audit", *words, "--max-error", "0.01")
    assert "2 groups by task" in out
    code, out, _ = run(capsys, "measure", *words, "--by", "task")
    assert "anatomy" in out


def test_two_logs_are_compared_by_question(folder, capsys):
    words = (folder / "a/samples_*", folder / "b/samples_*", "--log", "lm-eval")
    code, out, err = run(capsys, "compare", *words)
    better = [
        line.split()[-1]
        for line in out.splitlines()
        if line.startswith(("squared", "Brier", "log"))
    ]
    assert (code, set(better) <= {"a", "undecided"}, "a" in better) == (0, True, True)
    assert "120 answers of both models" in err
    assert run(capsys, "compare", words[0], "--log", "lm-eval", "--versus", "x")[0] == 4


def test_a_log_is_repaired_and_the_repair_certified_on_another(folder, tmp_path, capsys):
    cal = tmp_path / "cal.json"
    fitted = ("--log", "lm-eval", "--bins", "4", "-o", cal)
    assert run(capsys, "fit", folder / "b/samples_a*", *fitted)[0] == 0
    words = ("--log", "lm-eval", "--calibrator", cal, "--max-error", "0.45")
    code, out, _ = run(capsys, "certify", folder / "b/samples_v*", *words)
    assert (code, "certified" in out) == (0, True)


def test_answers_to_one_question_are_a_cluster_or_refused(folder, capsys):
    code, out, err = run(capsys, "measure", folder / "epochs.eval", "--log", "inspect")
    assert code == 0
    assert "clusters" in out
    assert ", 24 declined" in err
    assert run(capsys, "certify", folder / "epochs.eval", "--log", "inspect", "--max-error", ".9")[0] < 3  # fmt: skip
    for words in (("report",), ("measure", "--by", "task")):
        code, _, err = run(capsys, words[0], folder / "epochs.eval", *words[1:], "--log", "inspect")
        assert code == 4
        assert "epoch=1" in err
    for words in (("epoch=1",), ("--cluster", "none")):
        code, out, _ = run(capsys, "measure", folder / "epochs.eval", "--log", "inspect", *words)
        assert (code, "clusters" in out) == (0, False)
    words = ("--log", "inspect", "--calibrator", "cal.json", "--max-error", "0.5")
    code, _, err = run(capsys, "certify", folder / "epochs.eval", *words)
    assert (code, "certify --calibrator takes independent rows" in err) == (4, True)


def test_a_log_is_not_piped(capsys):
    code, _, err = run(capsys, "measure", "-", "--log", "jsonl")
    assert (code, "got standard input" in err) == (4, True)


def test_options_of_a_log_are_named_values(folder, tmp_path, capsys):
    rows = [
        {"said": f"I am {w}", "ok": i % 2, "q": i} for i, w in enumerate(["sure", "unsure"] * 9)
    ]
    path = write_lines(tmp_path / "q.jsonl", rows)
    words = ("--log", "jsonl", "field=said", "correct=ok", r"pattern=I am (\w+)", "question=q")
    code, out, _ = run(
        capsys, "measure", path, *words, "words=sure:0.9,unsure:0.4", "--json", "--bins", "distinct"
    )
    assert (code, json.loads(out)["n"]) == (0, 18)
    for more, said in {
        "words=sure": "words= takes 'very likely:0.9,likely:0.7'; got 'sure'",
        "scale=ten": "scale= takes a number; got 'ten'",
        "nonsense": "--log takes NAME=VALUE; got 'nonsense'",
        "field=x": "--log has field= twice",
        "unparsed=maybe": "unparsed must be one of refuse, abstain; got 'maybe'",
    }.items():
        code, _, err = run(capsys, "measure", path, *words, more)
        assert (code, said in err) == (4, True), err
    code, _, err = run(capsys, "measure", path, *words)
    assert (code, "q.jsonl, row 1: no confidence" in err, "unparsed=abstain" in err) == (
        3,
        True,
        True,
    )
    code, _, err = run(capsys, "measure", path, *words, "--y-true", "labels2")
    assert (code, "--y-true is for files of rows" in err) == (4, True)
