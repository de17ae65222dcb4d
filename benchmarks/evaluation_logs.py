"""Compare what lm-eval, Inspect, torchmetrics and netcal say of logs with what calibrant says.

    python -m venv PEERS
    PEERS/bin/pip install lm-eval inspect-ai torch torchmetrics netcal calibrant
    PEERS/bin/python benchmarks/evaluation_logs.py [docs/recipe-llm.md]

Both harnesses run here, offline, on models that answer at random with known skill, and write their
own logs; then every number is read from the same files in one process. Times are the best of five
or more, on one thread. The table is printed, and written between the marks of a page if one is
named.
"""

from __future__ import annotations

import glob
import json
import os
import random
import re
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "INSPECT_DISPLAY": "none"}
MARKS = ("<!-- logs: begin -->\n", "<!-- logs: end -->")
TASKS, QUESTIONS, SAMPLES = ("anatomy", "virology"), 1_000, 500
TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: acc_norm, aggregation: mean, higher_is_better: true}}
"""


def lm_eval_logs(folder: Path) -> tuple[str, dict[str, dict[str, float]]]:
    """Run the harness with its own writer; return the pattern of its logs, and its results."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    draw = random.Random(1)
    texts = ["the liver", "a vein", "kidneys and more", "blood", "spleen, in part", "neither"]
    gold = {}
    for name in TASKS:
        rows = []
        for i in range(QUESTIONS):
            choices, answer = draw.sample(texts, 4), draw.randrange(4)
            rows.append({"question": f"{name} {i}?", "choices": choices, "answer": answer})
            gold[f"{name} {i}?"] = f" {choices[answer]}"
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / f"{name}.yaml").write_text(TASK.format(name=name, file=file))

    class Guesser(LM):
        """Knows the answer somewhat, and is too sure of it."""

        def loglikelihood(self, requests):
            return [self._one(*request.args) for request in requests]

        def _one(self, context, choice):
            right = gold[context] == choice
            return draw.gauss(-2 - 0.3 * len(choice) + 2 * right, 2), False

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

        def generate_until(self, requests):
            raise NotImplementedError

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    found = lm_eval.simple_evaluate(
        model=Guesser(), tasks=[*TASKS], task_manager=manager, log_samples=True, bootstrap_iters=0
    )
    tracker, samples = EvaluationTracker(output_path=str(folder / "out")), found.pop("samples")
    tracker.general_config_tracker.model_name_sanitized = "guesser"
    tracker.save_results_aggregated(results=found, samples=samples)
    for name in TASKS:
        tracker.save_results_samples(task_name=name, samples=samples[name])
    return str(folder / "out/guesser/samples_*.jsonl"), found["results"]


def inspect_log(folder: Path) -> str:
    """Run Inspect on its mock model; return the name of its archive."""
    from inspect_ai import Task, eval  # noqa: A004
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import Score, accuracy, scorer
    from inspect_ai.solver import generate

    draw, outputs = random.Random(2), []
    for _ in range(SAMPLES):
        text = f"ANSWER: {draw.choice('AAB')} Confidence: {draw.choice((60, 80, 90, 100))}%"
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        outputs.append(output)

    @scorer(metrics=[accuracy()])
    def letter():
        async def score(state, target):
            text = state.output.completion
            answer = re.search(r"ANSWER: (\w)", text)[1]
            confidence = re.search(r"Confidence: (\S+)", text)[1]
            value = "C" if answer == target.text else "I"
            return Score(value=value, answer=answer, metadata={"confidence": confidence})

        return score

    dataset = [Sample(id=i, input=f"Question {i}?", target="A") for i in range(SAMPLES)]
    # the mock model's answers would be logged as its arguments in every sample
    model = get_model("mockllm/model", custom_outputs=iter(outputs))
    task = Task(name="quiz", dataset=dataset, solver=[generate()], scorer=letter())
    eval(task, model=model, log_dir=str(folder / "inspect"), log_format="eval")
    return glob.glob(str(folder / "inspect/*.eval"))[0]


def timed(work):
    """Return what the work gives, and the best of several times in milliseconds."""
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 500 and len(times) < 200):
        start = time.perf_counter()
        found = work()
        times.append(1000 * (time.perf_counter() - start))
    return found, min(times)


def rows_of_table(folder: Path):
    """Yield a line of the table for every number."""
    import numpy as np
    import torch
    from inspect_ai.log import read_eval_log
    from netcal.metrics import ECE
    from torchmetrics.functional.classification import binary_calibration_error

    import calibrant

    torch.set_num_threads(1)  # thousands of rows are no work for two
    pattern, results = lm_eval_logs(folder)
    for normalize, name in ((None, "acc"), ("characters", "acc_norm")):
        log, ours = timed(lambda n=normalize: calibrant.read_log(pattern, "lm-eval", normalize=n))
        theirs = np.mean([results[task][f"{name},none"] for task in TASKS])
        call = 'read_log(..., "lm-eval")' if normalize is None else f'... normalize="{normalize}"'
        yield (f"lm-eval's own `{name}`, {log.n:,} questions", f"{theirs:.6f}", "in its results",
               f"`{call}`", f"{log['correct'].mean():.6f}", f"{ours:.0f} ms")  # fmt: skip
    archive = inspect_log(folder)
    theirs, time_theirs = timed(lambda: read_eval_log(archive))
    quiz, ours = timed(
        lambda: calibrant.read_log(archive, "inspect", field="scores.letter.metadata.confidence")
    )
    value = theirs.results.scores[0].metrics["accuracy"].value
    yield (f"Inspect's `read_eval_log(...)` accuracy, {quiz.n:,} samples", f"{value:.6f}",
           f"{time_theirs:.0f} ms", '`read_log(..., "inspect")`', f"{quiz['correct'].mean():.6f}",
           f"{ours:.0f} ms")  # fmt: skip
    p, y = log["confidence"], log["correct"]
    edges = np.r_[0.0, np.nextafter(np.linspace(0, 1, 16)[1:-1], 0.0), 1.0]  # closed on the left
    found, ours = timed(
        lambda: (
            calibrant.calibration_error(
                "correct", "confidence", data=log, bins=edges, norm="l1", debias=False
            ).value
        )
    )
    peers = {
        "netcal `ECE(15).measure(p, y)`": lambda: ECE(15).measure(p, y.astype(int)),
        "torchmetrics `binary_calibration_error(p, y)`": lambda: float(
            binary_calibration_error(torch.tensor(p), torch.tensor(y.astype(int)))
        ),
    }
    call = '`calibration_error(..., data=log, bins=edges, norm="l1", debias=False)`'
    for name, work in peers.items():
        theirs, time_theirs = timed(work)
        yield name, f"{theirs:.6f}", f"{time_theirs:.2f} ms", call, f"{found:.6f}", f"{ours:.2f} ms"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = list(rows_of_table(Path(folder)))
    names = ("lm-eval", "inspect-ai", "netcal", "torchmetrics", "torch")
    lines = [
        "| theirs | number | time | ours | number | time |",
        "|---|---|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in found),
        "",
        f"One run, {', '.join(f'{name} {version(name)}' for name in names)}.",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    for page in map(Path, sys.argv[1:]):
        whole = page.read_text(encoding="utf-8")
        before, after = whole.split(MARKS[0])[0], whole.split(MARKS[1])[1]
        page.write_text(before + MARKS[0] + text + MARKS[1] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
