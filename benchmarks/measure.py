"""Time measuring with calibrant and with its peers in one run, with values and memory compared.

    python benchmarks/measure.py --peers PEERS/bin/python --write docs/performance.md

Every line is a fresh process, so its peak of memory is its own. Peers run in an environment of
theirs, made outside this repository:

    python -m venv PEERS
    PEERS/bin/pip install relplot torchmetrics netcal scikit-learn uncertainty-calibration pycalib

or, where no such environment can be made, for this Python in a folder that --peers names as well,
with the packages that they need and this Python lacks (27 MB beside torch and matplotlib):

    pip install --no-deps --target PEERS relplot torchmetrics netcal uncertainty-calibration \\
        lightning-utilities pycalib betacal venn-abers deprecation seaborn tqdm pyro-ppl pyro-api \\
        opt-einsum gpytorch linear-operator jaxtyping wadler-lindig tensorboard absl-py protobuf \\
        markdown werkzeug tikzplotlib webcolors

A line is called once to warm up, then for --seconds, at least three times, and the best time
counts; a call of more than ten seconds is made once, and counts. The ratio is a line's time over
that of the first line of its table, so above 1 the first line is faster. Peers that resample are
run with 100 resamples, which is what they offer, and their time is multiplied by 10. A whole run
takes about ten minutes on two cores, and 8 GB of memory for the lines of 1e8 rows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

from first_calls import table as first_calls
from lines import peers_python, write
from measure_cases import CASES, NUMPY, Group, Run, groups
from measure_page import Found, Line, growth_tables, table_of, target_table

SLOW = 10.0
MOST_CALLS = 300
BEGINS = "the first call begins at"


def memory() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def timed(run: Run) -> tuple[float, float]:
    """Return (seconds, value) of a call."""
    start = time.perf_counter()
    value = run()
    return time.perf_counter() - start, float(value)


def watched(run: Run) -> tuple[float, float, float]:
    """Return (seconds, value, MB by which the process grows at most) of a call."""
    base, most, done = memory(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.002):
            most = max(most, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        seconds, value = timed(run)
    finally:
        done.set()
        watcher.join()
    return seconds, value, max(0.0, most - base)


def measure(name: str, n: int, k: int, budget: float) -> Line:
    """Time one line in this process."""
    warnings.simplefilter("ignore")
    case = CASES[name]
    run = case.make(n, k)
    print(f"{BEGINS} {time.time()}", flush=True)
    seconds, value, extra = watched(run)
    if seconds < SLOW:
        _, value, extra = watched(run)
        calls = [timed(run)[0] for _ in range(3)]
        end = time.perf_counter() + budget - sum(calls)
        while time.perf_counter() < end and len(calls) < MOST_CALLS:
            calls.append(timed(run)[0])
        seconds = min(calls)
    return Line(seconds * case.factor, value, extra)


def in_own_process(name: str, group: Group, args: argparse.Namespace) -> Line:
    case = CASES[name]
    python, paths = peers_python(args.peers) if case.is_peer else (sys.executable, {})
    line = ["--line", name, str(group.n), str(group.k), "--seconds", str(args.seconds)]
    engine = {"CALIBRANT_ENGINE": "numpy" if name == NUMPY else "compiled"}
    try:
        done = subprocess.run(
            [python, __file__, *line],
            capture_output=True,
            text=True,
            timeout=args.limit,
            env=os.environ | engine | paths,
        )
    except subprocess.TimeoutExpired as expired:
        return stopped(bytes(expired.stdout or b"").decode(), case.factor)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return Line(float("nan"), problem=f"failed: {last[:60]}")
    return Line(**json.loads(done.stdout.splitlines()[-1]))


def stopped(printed: str, factor: float) -> Line:
    """Return what is known of a call that was stopped: that it takes longer than it had."""
    if BEGINS not in printed:
        return Line(float("nan"), problem="failed: no call within the limit")
    seconds = time.time() - float(printed.split(BEGINS)[1].split()[0])
    return Line(seconds * factor, problem=f"over {seconds * factor:.0f} s")


def import_seconds(package: str) -> float:
    def once() -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {package}"], check=True)
        return time.perf_counter() - start

    return min(once() for _ in range(7))


def machine() -> str:
    with open("/proc/cpuinfo") as file:
        lines = [line for line in file if line.startswith("model name")]
    with open("/proc/meminfo") as file:
        total = int(file.readline().split()[1]) / 2**20
    name = lines[0].split(":")[1].strip() if lines else platform.machine()
    return f"{os.cpu_count()} cores of {name}, {total:.0f} GiB"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peers", default=sys.executable, help="their Python, or a folder of them for this one"
    )
    rows = [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]
    parser.add_argument("--rows", type=int, nargs="+", default=rows)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 10, 100, 1000])
    parser.add_argument("--bins", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seconds", type=float, default=1.5, help="how long to repeat a line")
    parser.add_argument("--limit", type=int, default=200, help="seconds for one line")
    parser.add_argument("--only", default="", help="groups whose title has this text")
    parser.add_argument("--write", type=Path, help="the page whose tables to replace")
    parser.add_argument("--line", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_groups(chosen: list[Group], args: argparse.Namespace) -> Found:
    """Time every line of these groups, and print each table when it is ready."""
    found: Found = {}
    for group in chosen:
        lines = {name: in_own_process(name, group, args) for name in group.names}
        found[group.key] = lines
        print("\n".join(table_of(group, lines)), "\n", flush=True)
    return found


def main() -> None:
    args = arguments()
    if args.line:
        name, n, k = args.line
        print(json.dumps(vars(measure(name, int(n), int(k), args.seconds))))
        return
    start, load = time.perf_counter(), os.getloadavg()[0]
    chosen = [g for g in groups(args.rows, args.classes, args.bins) if args.only in g.title]
    found = run_groups(chosen, args)
    imports = {name: import_seconds(name) for name in ("calibrant", "numpy")}
    minutes = (time.perf_counter() - start) / 60
    about = (
        f"Measured on {datetime.date.today()} on {machine()}, in {minutes:.0f} minutes; "
        f"other work on the machine at the start: load {load:.1f}."
    )
    growing = "\n".join(growth_tables(args.rows, args.classes, args.bins, found))
    tables = "\n\n".join("\n".join(table_of(g, found[g.key])) for g in chosen)
    sections = {
        "The first call": "\n".join(first_calls()),
        "Targets": "\n".join(target_table(found, imports)),
        "Growth": growing,
        "Every line": tables,
    }
    text = "\n\n".join([about, *(f"## {name}\n\n{body}" for name, body in sections.items())])
    print(text)
    if args.write:
        write(args.write, "measured", text)


if __name__ == "__main__":
    main()
