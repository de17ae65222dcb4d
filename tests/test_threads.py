"""Jobs side by side: results in order, the first failure in its place, nothing left running."""

from __future__ import annotations

import threading

import pytest

from calibrant._threads import cores, run

WATCHDOG = 300
"""Seconds after which a test that hangs fails; nothing is measured."""


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_results_come_in_the_order_of_the_jobs(threads):
    """With several threads each even job ends after the odd one that follows it."""
    ended = [threading.Event() for _ in range(40)]

    def job(i):
        if threads > 1 and i % 2 == 0:
            ended[i + 1].wait(WATCHDOG)
        ended[i].set()
        return i

    assert list(run([lambda i=i: job(i) for i in range(40)], threads)) == list(range(40))


class EndlessJobs:
    """More jobs than can ever be done, of which the 6th and the 10th fail."""

    def __len__(self):
        return 10**12

    def __getitem__(self, i):
        return lambda: self.fail(i) if i in (5, 9) else i

    def fail(self, i):
        raise ValueError(i)


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_first_failure_is_raised_in_its_place_and_ends_the_rest(threads):
    results = run(EndlessJobs(), threads)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="5"):
        next(results)


def test_results_that_nobody_wants_leave_no_thread_behind():
    before = set(threading.enumerate())
    results = run([lambda: None] * 10**6, threads=4)
    next(results)
    results.close()
    assert set(threading.enumerate()) <= before


def test_many_threads_work_at_the_same_time():
    meeting = threading.Barrier(3, timeout=WATCHDOG)
    assert len(set(run([meeting.wait] * 3, threads=3))) == 3


@pytest.mark.parametrize("given", ["", "0", "-2", "many"])
def test_a_number_of_threads_that_is_none_means_all_cores(monkeypatch, given):
    monkeypatch.delenv("CALIBRANT_NUM_THREADS", raising=False)
    every = cores()
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", given)
    assert cores() == every >= 1
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    assert cores() == 3
