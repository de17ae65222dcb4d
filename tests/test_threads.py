"""Jobs side by side: results in order, the first failure in its place, nothing left running."""

from __future__ import annotations

import threading
import time

import pytest

from calibrant._threads import cores, run


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_results_come_in_the_order_of_the_jobs(threads):
    def job(i):
        time.sleep(0.002 * (i % 3))
        return i

    assert list(run([lambda i=i: job(i) for i in range(40)], threads)) == list(range(40))


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_first_failure_is_raised_in_its_place_and_ends_the_rest(threads):
    done = []

    def job(i):
        if i in (5, 9):
            raise ValueError(i)
        time.sleep(0.001)
        done.append(i)
        return i

    results = run([lambda i=i: job(i) for i in range(1000)], threads)
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="5"):
        next(results)
    assert len(done) < 100


def test_results_that_nobody_wants_leave_no_thread_behind():
    before = set(threading.enumerate())
    results = run([lambda: time.sleep(0.01) for _ in range(100)], threads=4)
    next(results)
    results.close()
    assert set(threading.enumerate()) <= before


def test_many_threads_work_at_the_same_time():
    meeting = threading.Barrier(3, timeout=20)
    assert len(set(run([meeting.wait] * 3, threads=3))) == 3


@pytest.mark.parametrize("given", ["", "0", "-2", "many"])
def test_a_number_of_threads_that_is_none_means_all_cores(monkeypatch, given):
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    every = cores()
    monkeypatch.setenv("NUMBA_NUM_THREADS", given)
    assert cores() == every >= 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert cores() == 3
