"""Lazy frames of every engine, for tests that run on all of them."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import warnings
from functools import cache
from importlib.util import find_spec

import pytest

from conftest import optional

QUICK = ["polars", "duckdb"]
SLOW = ["ibis", "pyarrow dataset", "dask", "spark"]


@cache
def spark_session():
    """Return a local Spark of two threads, in which a task may fail twice."""
    sql = optional("pyspark.sql")
    if not os.environ.get("CI") and not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Spark needs Java")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        # Small plans: compiling them, or the JVM's own hot code, takes longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = sql.SparkSession.builder.master("local[2,3]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def arrow_table(columns):
    """Return a PyArrow table of one, a dict of arrays or a pandas frame, where None is null."""
    pyarrow = optional("pyarrow")
    if isinstance(columns, pyarrow.Table):
        return columns
    if isinstance(columns, dict):
        return pyarrow.table(columns)
    return pyarrow.Table.from_pandas(columns, preserve_index=False)


def lazy_frame(engine, columns):
    """Return columns as a lazy frame of the named engine."""
    table = arrow_table(columns)
    if engine == "polars":
        return optional("polars").from_arrow(table).lazy()
    if engine == "duckdb":
        return optional("duckdb").connect().from_arrow(table)
    if engine == "ibis":
        return optional("ibis").memtable(table)
    if engine == "pyarrow dataset":
        if not find_spec("polars"):
            optional("duckdb")  # either of them scans it
        return optional("pyarrow.dataset").dataset(table)
    if engine == "dask":
        return optional("dask.dataframe").from_pandas(table.to_pandas(), npartitions=3)
    return spark_session().createDataFrame(table)


def on_every_engine(most=None, **axes):
    """Parametrize by engine and axes: every combination, or on slow engines `most` of them.

    There the values of the axes go in step, so that by default each is tried once.
    """
    quick = itertools.product(QUICK, *axes.values())
    longest = max(map(len, axes.values()), default=1)
    cycles = [list(itertools.islice(itertools.cycle(axis), longest)) for axis in axes.values()]
    rows = list(zip(*cycles, strict=True)) or [()]
    slow = [(engine, *row) for engine in SLOW for row in rows[:most]]
    cases = [*quick, *slow]
    if not axes:
        return pytest.mark.parametrize("engine", [case[0] for case in cases])
    return pytest.mark.parametrize(("engine", *axes), cases, ids=_named)


def _named(value):
    return str(value) if value is not None else "none"
