"""A Dask cluster of worker processes counts as one process does, also when it loses one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import EqualMass, EqualWidth
from conftest import optional

pandas = optional("pandas")
dask = optional("dask.dataframe")
distributed = optional("distributed")


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def example():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, size=20_000)
    return pandas.DataFrame({"y": rng.uniform(size=20_000) < p, "p": p})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bins", [EqualWidth(15), EqualMass(10)], ids=str)
def test_two_workers_give_the_table_of_one_process(cluster, bins):
    frame = example()
    data = dask.from_pandas(frame, npartitions=8)
    table = calibrant.tabulate("y", "p", data=data, bins=bins)
    expected = calibrant.tabulate(frame.y, frame.p, bins=bins)
    assert table.bins == expected.bins
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_allclose(table.sum_p, expected.sum_p, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies_changes_nothing(cluster):
    frame = example()
    data = dask.from_pandas(frame, npartitions=8).persist()
    distributed.wait(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed.default_client().restart_workers(list(cluster.scheduler_info["workers"])[:1])
    table = calibrant.tabulate("y", "p", data=data, bins=EqualWidth(15))
    expected = calibrant.tabulate(frame.y, frame.p, bins=EqualWidth(15))
    np.testing.assert_array_equal(table.count, expected.count)
