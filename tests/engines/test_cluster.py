"""Clusters count as one process does, also when they lose a worker or a task."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import calibrant
from calibrant import EqualMass, EqualWidth
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    ScalingBinning,
)
from conftest import optional
from lazy_frames import spark_session

pandas = optional("pandas")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def cluster():
    distributed = optional("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield cluster


def example(n=20_000):
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 0.5, size=n)
    return pandas.DataFrame({"y": rng.uniform(size=n) < p**1.3, "p": p})


def in_parts(frame):
    return optional("dask.dataframe").from_pandas(frame, npartitions=8)


def assert_counted(data, frame, bins):
    table = calibrant.tabulate("y", "p", data=data, bins=bins)
    expected = calibrant.tabulate(frame.y, frame.p, bins=bins)
    assert table.bins == expected.bins
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.sum_y, expected.sum_y)
    np.testing.assert_allclose(table.sum_p, expected.sum_p, rtol=1e-12)


@pytest.mark.parametrize("bins", [EqualWidth(15), EqualMass(10)], ids=str)
def test_two_dask_workers_give_the_table_of_one_process(cluster, bins):
    frame = example()
    assert_counted(in_parts(frame), frame, bins)


def test_a_dask_worker_that_dies_changes_nothing(cluster):
    distributed = optional("distributed")
    frame = example()
    data = in_parts(frame).persist()
    distributed.wait(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        distributed.default_client().restart_workers(list(cluster.scheduler_info["workers"])[:1])
    assert_counted(data, frame, EqualWidth(15))


def failing_at_first(frame, folder):
    """Return a Spark frame whose every partition is lost once: its first task raises."""

    def rows(part):
        from pathlib import Path

        from pyspark import TaskContext

        task = TaskContext.get()
        mark = Path(folder) / f"partition-{task.partitionId()}"
        yield from part
        if not mark.exists():
            mark.touch()
            raise OSError("this worker is lost")

    data = spark_session().createDataFrame(frame)
    # Not mapInPandas: every worker would load pandas again after its failure.
    return data.rdd.repartition(2).mapPartitions(rows).toDF("y boolean, p double")


def test_lost_spark_partitions_are_computed_again(tmp_path):
    frame = example(3000)
    assert_counted(failing_at_first(frame, str(tmp_path)), frame, EqualWidth(15))
    assert len(list(tmp_path.iterdir())) == 2


BOUNDS = {
    PlattScaling(): 2e-5,
    BetaScaling(): 2e-5,
    HistogramBinning(10): 1e-3,
    ScalingBinning(bins=10): 1e-3,
    IsotonicCalibration(): 4e-3,
}
"""How far a fit from 4,096 cells may be from the fit on rows: the mean absolute difference."""


@pytest.mark.parametrize("where", ["dask", "spark"])
def test_recalibrators_are_fitted_from_a_sketch_made_on_the_cluster(where, request):
    frame = example()
    if where == "dask":
        request.getfixturevalue("cluster")
        data = in_parts(frame)
    else:
        data = spark_session().createDataFrame(frame)
    sketch = calibrant.tabulate("y", "p", data=data, bins=EqualWidth(4096))
    for recalibrator, bound in BOUNDS.items():
        cells = recalibrator.fit_table(sketch).predict_proba(frame.p)
        rows = recalibrator.fit(frame.p, frame.y).predict_proba(frame.p)
        assert np.abs(cells - rows).mean() < bound, recalibrator
