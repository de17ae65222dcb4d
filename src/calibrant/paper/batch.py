"""Many studies: in order or side by side, each saved as soon as it is done."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from queue import Empty
from typing import Any, Protocol

from calibrant.paper.predictions import Predictions, read_predictions
from calibrant.paper.study import Study, StudyResult, no_progress

POLL_SECONDS = 0.2
"""Between two looks at how far the running studies are: often enough for a progress bar."""


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
        own = self.study.needs_data and self.data is not None
        return f"{self.study.name}-{self.data.dataset}" if own and self.data else self.study.name

    def identity(self) -> dict[str, Any]:
        """Return what a finished result must equal to stand for this run."""
        return self.study.identity(self.data, self.seed, self.quick)


def tasks_for(
    studies: Sequence[Study], files: Sequence[tuple[str, Predictions]], seed: int, quick: bool
) -> list[Task]:
    """Return what to run: every study of real data once for each file, the others once."""
    tasks = []
    for study in studies:
        if study.needs_data:
            tasks += [Task(study, seed, quick, path, data) for path, data in files]
        else:
            tasks.append(Task(study, seed, quick))
    return tasks


class Watcher(Protocol):
    """Who is told how far each task is."""

    def update(self, stem: str, done: int, total: int) -> None:
        """Note that so much of a task is done."""


def run_all(tasks: Sequence[Task], jobs: int, watcher: Watcher) -> Iterator[StudyResult]:
    """Yield the result of each task as soon as it is there."""
    if jobs <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task.study.run(
                data=task.data,
                seed=task.seed,
                quick=task.quick,
                progress=partial(watcher.update, task.stem),
            )
        return
    yield from _side_by_side(tasks, jobs, watcher)


def _side_by_side(tasks: Sequence[Task], jobs: int, watcher: Watcher) -> Iterator[StudyResult]:
    """Run tasks in processes of their own; each reads its file, and numbers do not change."""
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
            _pass_on(news, watcher)
            for future in done:
                yield future.result()
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:  # one that is in the middle of a study would keep us waiting
            worker.terminate()
        raise
    finally:
        news.close()
        news.cancel_join_thread()


def _pass_on(news: Any, watcher: Watcher) -> None:
    try:
        while True:
            watcher.update(*news.get_nowait())
    except Empty:
        return


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
    progress = no_progress if _news is None else _thinned(_news, stem)
    return study(name).run(data=data, seed=seed, quick=quick, progress=progress)


def _thinned(news: Any, stem: str) -> Callable[[int, int], None]:
    """Report about a hundred times, however many steps there are."""

    def report(done: int, total: int) -> None:
        if done == total or done % max(total // 100, 1) == 0:
            news.put((stem, done, total))

    return report
