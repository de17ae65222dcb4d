"""Many studies, in order or side by side, and their results on disk.

Each is saved as soon as it is done: written aside and renamed, found again, and skipped where
nothing changed.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

from calibrant._writing import replaced, write_whole
from calibrant.exceptions import InvalidDocumentError
from calibrant.paper.figures import draw
from calibrant.paper.page import page
from calibrant.paper.predictions import Predictions, read_predictions
from calibrant.paper.study import Study, StudyResult

POLL_SECONDS = 0.2
"""Seconds between updates of the progress bar."""


@dataclass(frozen=True, eq=False)
class Task:
    """One study to run, on predictions from a file where it needs them."""

    study: Study
    seed: int = 0
    quick: bool = False
    path: str | None = None
    data: Predictions | None = None

    @property
    def stem(self) -> str:
        """The name of the files that it writes."""
        data = self.data if self.study.needs_data else None
        return self.study.name if data is None else f"{self.study.name}-{data.dataset}"

    def identity(self) -> dict[str, Any]:
        """Return the fields by which a finished result is matched with this run."""
        return self.study.identity(self.data, self.seed, self.quick)


def tasks_for(
    studies: Sequence[Study], files: Sequence[tuple[str, Predictions]], seed: int, quick: bool
) -> list[Task]:
    """Return the tasks: each study of real data once for every file, the others once."""
    tasks = []
    for study in studies:
        if study.needs_data:
            tasks += [Task(study, seed, quick, path, data) for path, data in files]
        else:
            tasks.append(Task(study, seed, quick))
    return tasks


def run_all(
    tasks: Sequence[Task], jobs: int, update: Callable[[str, int, int], None]
) -> Iterator[StudyResult]:
    """Yield the result of each task as soon as it is there.

    `update` is told of each, by its stem, how much is done and how much there is. Several run in
    processes of their own; each reads its file, and numbers do not change.
    """
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            how: dict[str, Any] = {"data": task.data, "seed": task.seed, "quick": task.quick}
            yield task.study.run(progress=partial(update, task.stem), **how)
        return
    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=context, initializer=_listen, initargs=(news,)
    )
    workers: list[Any] = []
    try:
        running: set[Future[StudyResult]] = {
            pool.submit(_run, task.study.name, task.stem, task.seed, task.quick, task.path)
            for task in tasks
        }
        workers = list((pool._processes or {}).values())
        while running:
            done, running = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            with suppress(Empty):
                while True:
                    update(*news.get_nowait())
            for future in done:
                yield future.result()
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:  # do not wait for a worker in the middle of a study
            worker.terminate()
        raise
    finally:
        news.close()
        news.cancel_join_thread()


_news: Any = None
_files: dict[str, Predictions] = {}


def _listen(news: Any) -> None:
    """Prepare a worker: where it reports, and that an interrupt is its parent's business."""
    import signal

    global _news
    _news = news
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run(name: str, stem: str, seed: int, quick: bool, path: str | None) -> StudyResult:
    from calibrant.paper import study

    if path is not None and path not in _files:
        _files[path] = read_predictions(path)
    data = None if path is None else _files[path]

    def report(done: int, total: int) -> None:  # about a hundred times, however many steps
        if done == total or done % max(total // 100, 1) == 0:
            _news.put((stem, done, total))

    return study(name).run(data=data, seed=seed, quick=quick, progress=report)


FIGURES = ("png", "svg")
PAGE = "index.html"


class Store:
    """A folder of results: ``STEM.json``, ``.csv``, ``.png`` and ``.svg``, and one page of all.

    The JSON is written last, so a study whose JSON is there is complete.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def save(self, result: StudyResult) -> None:
        """Write the files of one result."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._draw(result)
        write_whole(self.path(result.stem, "csv"), result.to_csv())
        write_whole(self.path(result.stem, "json"), result.to_json())

    def _draw(self, result: StudyResult) -> None:
        for kind, data in draw(result.output.panels).items():
            with replaced(self.path(result.stem, kind)) as stream:
                stream.write(data)

    def path(self, stem: str, kind: str) -> Path:
        """Return where a file of a result is."""
        return self.folder / f"{stem}.{kind}"

    def load(self, stem: str) -> StudyResult | None:
        """Return a result, or None if there is none that can be read."""
        try:
            return StudyResult.from_json(self.path(stem, "json").read_bytes())
        except (OSError, InvalidDocumentError):
            return None

    def finished(self, stem: str, identity: dict[str, Any]) -> bool:
        """Return whether this run is complete here; missing figures are drawn again."""
        result = self.load(stem)
        if result is None or result.identity() != identity:
            return False
        if not all(self.path(stem, kind).exists() for kind in FIGURES):
            self._draw(result)
        if not self.path(stem, "csv").exists():
            write_whole(self.path(stem, "csv"), result.to_csv())
        return True

    def results(self, order: list[str]) -> list[StudyResult]:
        """Return all results here, in the order of the studies."""
        loaded = [self.load(path.stem) for path in sorted(self.folder.glob("*.json"))]
        known = [result for result in loaded if result is not None and result.study in order]
        return sorted(known, key=lambda result: order.index(result.study))

    def write_page(self, order: list[str]) -> Path:
        """Write the page of all results here."""
        results = self.results(order)
        figures = {r.stem: self.path(r.stem, "png").read_bytes() for r in results}
        target = self.folder / PAGE
        write_whole(target, page(results, figures))
        return target
