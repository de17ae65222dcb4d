"""calibrant reproduce."""

from __future__ import annotations

import argparse
import os
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.output import ProgressLine, aligned, complain, say, shortened
from calibrant.cli.parser import add_command, named, whole_number

if TYPE_CHECKING:
    from calibrant.paper.batch import Store, Task
    from calibrant.paper.study import StudyResult

EXAMPLES = """
calibrant reproduce --list
calibrant reproduce --quick
calibrant reproduce --probs cifar10.npz -o results/
calibrant reproduce synthetic-n calibrators-marginal --probs cifar10.npz -o results/
"""
NOTES = """
Runs the experiments of the paper again and writes, for each, its numbers (JSON and CSV) and its
figure (PNG and SVG), and index.html with every claim of the paper beside ours. Without names it
runs all studies that it has the data for. Finished studies are kept when a run is interrupted, and
skipped when it is repeated with the same settings, seed, data and version.
"""

WIDTH = 100  # of a terminal; longer rules are wrapped


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "reproduce", run, "reproduce the experiments of the paper", EXAMPLES, NOTES
    )
    command.add_argument("studies", nargs="*", metavar="STUDY", help="names from --list")
    command.add_argument("--list", action="store_true", help="list the studies and exit")
    command.add_argument(
        "--probs",
        metavar="FILE",
        action="append",
        default=[],
        help=".npz (probs, labels), CSV or Parquet (labels, prob*); may be repeated",
    )
    command.add_argument("--quick", action="store_true", help="fewer repeats, for a rough look")
    whole = partial(whole_number, least=0)
    command.add_argument("--seed", type=whole, default=0, metavar="N", help="(default 0)")
    command.add_argument(
        "--jobs", type=whole, metavar="N", help="studies run in parallel (default: all processors)"
    )
    command.add_argument("--force", action="store_true", help="rerun finished studies too")
    command.add_argument(
        "-o", "--output", metavar="FOLDER", type=named, default="results", help="(default results)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the studies, write their files and the page, and print the verdicts."""
    from calibrant.exceptions import InvalidInputError
    from calibrant.paper import STUDIES, read_predictions, study
    from calibrant.paper.batch import Store, tasks_for

    if args.list:
        rows = [("study", "experiment", "needs", "what it shows")]
        rows += [
            (item.name, item.experiments, "--probs" if item.needs_data else "", item.title)
            for item in STUDIES.values()
        ]
        say(aligned(rows, indent=""))
        return OK
    studies = [study(name) for name in dict.fromkeys(args.studies)] or list(STUDIES.values())
    lacking = [] if args.probs else [item.name for item in studies if item.needs_data]
    if lacking and args.studies:
        raise InvalidInputError(
            f"Predictions are needed for {', '.join(lacking)}: add --probs FILE."
        )
    files = [(path, read_predictions(path)) for path in args.probs]
    for _, data in files:
        say(str(data))
    if len({data.dataset for _, data in files}) < len(files):
        raise InvalidInputError(
            "Each --probs needs results of its own, but two of these files go by one name; "
            "rename one, or run them into different folders."
        )
    tasks = tasks_for(studies, files, args.seed, args.quick)
    store = Store(args.output)
    try:
        _work(args, tasks, store)
    finally:
        page = store.write_page(list(STUDIES)) if store.folder.is_dir() else None
    if lacking:
        say(f"Not run without --probs: {', '.join(lacking)}.")
    say(_summary(store, tasks))
    say(f"Written to {page}")
    return OK


def _work(args: argparse.Namespace, tasks: list[Task], store: Store) -> None:
    """Run the unfinished tasks, and save each result at once."""
    from calibrant.paper.batch import run_all

    to_do = [t for t in tasks if args.force or not store.finished(t.stem, t.identity())]
    done = len(tasks) - len(to_do)
    if done:
        say(f"{done} of {len(tasks)} done already, skipped (--force runs them again).")
    if args.quick and to_do:
        say("Quick: fewer repeats than the paper's, so the numbers are rough.")
    jobs = args.jobs or os.cpu_count() or 1
    with Board(len(to_do)) as board:
        for result in run_all(to_do, jobs, board.update):
            store.save(result)
            board.finish(result)


class Board(ProgressLine):
    """The studies that run and how far they are: one line, and in a pipe only the ends of each."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self.total, self.done = total, 0
        self.shares: dict[str, float] = {}

    def update(self, stem: str, done: int, total: int) -> None:
        """Show how far a study is."""
        self.shares[stem] = done / max(total, 1)
        if self.is_due():
            running = ", ".join(f"{stem} {done:.0%}" for stem, done in self.shares.items())
            share = (self.done + sum(self.shares.values())) / max(self.total, 1)
            self.draw("", share, shortened(running, 80))

    def finish(self, result: StudyResult) -> None:
        """Show that a study is done."""
        self.done += 1
        self.shares.pop(result.stem, None)
        self.erase()
        complain(f"{self.done} of {self.total}: {result.stem}, {result.seconds:,.1f} s")


def _summary(store: Store, tasks: list[Task]) -> str:
    """Return the verdict on every claim that these studies check."""
    from calibrant.paper import STUDIES
    from calibrant.paper.claims import HOW_JUDGED, claim_lines

    names = {task.study.name for task in tasks}
    lines = [line for line in claim_lines(store.results(list(STUDIES))) if line.study in names]
    rows = [
        (line.verdict, line.splits, line.paper, line.ours, line.interval,
         f"{line.study}: {line.statement}")
        for line in lines
    ]  # fmt: skip
    head = ("verdict", "agreeing splits", "paper", "ours", "90% interval", "claim")
    rules = (
        fill(f"{name}: {text}.", WIDTH, initial_indent="  ", subsequent_indent="    ")
        for name, text in HOW_JUDGED
    )
    return "\n".join([aligned([head, *rows], indent=""), "\nHow a verdict is reached", *rules, ""])
