"""Time counting a Parquet file on DuckDB and Polars against their own plain group-by.

    python benchmarks/frames.py --rows 100_000_000 --repeats 5
    python benchmarks/frames.py --rows 10_000_000 --groups 1000 --repeats 5

The file is made in a temporary folder, in chunks. The plain group-by is what one writes by hand:
15 bins by rounding down, count and four sums, nothing checked. Ours checks every value, puts
values on an edge where they belong and notes bins with a single prediction. Every run is a fresh
process, so its peak of memory is its own; runs take turns, and the best of each counts. On a
machine with other work, compare CPU seconds. With groups, both group by one column more.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CHUNK = 1_000_000
N_BINS = 15
GROUP = "site"


def make_file(path: Path, n: int, n_groups: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([("score", pa.float64()), ("won", pa.int64()), (GROUP, pa.int64())])
    with pq.ParquetWriter(path, schema, use_dictionary=["won"]) as writer:
        for start in range(0, n, CHUNK):
            p = rng.random(min(CHUNK, n - start))
            y = (rng.random(p.size) < p**1.2).astype(np.int64)
            group = rng.integers(0, n_groups, p.size)
            writer.write_table(pa.table({"score": p, "won": y, GROUP: group}, schema=schema))


def duckdb_plain(path: str, grouped: bool) -> Any:
    import duckdb

    keys = f"bin, {GROUP}" if grouped else "bin"
    return duckdb.sql(
        f"SELECT count(*) AS n, sum(won), sum(score) AS p, sum(score * score), sum(score * won), "
        f"floor(score * {N_BINS}) AS bin FROM '{path}' GROUP BY {keys}"
    ).fetchall()


def polars_plain(path: str, grouped: bool) -> Any:
    import polars as pl

    p, y = pl.col("score"), pl.col("won")
    keys = [(p * N_BINS).floor().alias("bin"), *([GROUP] if grouped else [])]
    terms = [pl.len(), y.sum(), p.sum(), (p * p).sum().alias("pp"), (p * y).sum().alias("py")]
    found = pl.scan_parquet(path).group_by(keys).agg(terms).collect(engine="streaming")
    return found.select(found.columns[len(keys) :]).rows()


def ours(engine: str, rule: str) -> Callable[[str, bool], Any]:
    def run(path: str, grouped: bool) -> Any:
        import calibrant

        bins = calibrant.EqualWidth(N_BINS) if rule == "width" else calibrant.EqualMass(N_BINS)
        by = GROUP if grouped else None
        table = calibrant.tabulate("won", "score", data=scan(engine, path), bins=bins, by=by)
        sums = (table.count, table.sum_y, table.sum_p)
        return list(zip(*(own.ravel() for own in sums), strict=True))

    return run


def scan(engine: str, path: str) -> Any:
    if engine == "duckdb":
        import duckdb

        return duckdb.read_parquet(path)
    import polars as pl

    return pl.scan_parquet(path)


RUNS: dict[str, Callable[[str, bool], Any]] = {
    "DuckDB, plain group-by": duckdb_plain,
    "DuckDB, calibrant, equal width": ours("duckdb", "width"),
    "DuckDB, calibrant, uniform mass": ours("duckdb", "mass"),
    "Polars, plain group-by": polars_plain,
    "Polars, calibrant, equal width": ours("polars", "width"),
    "Polars, calibrant, uniform mass": ours("polars", "mass"),
}


def warm_up(engine: str, grouped: bool) -> None:
    """Load what a run needs by counting one row."""
    import calibrant

    if engine == "duckdb":
        import duckdb

        row = duckdb.sql(f"SELECT 0.5::DOUBLE AS score, 1 AS won, 1 AS {GROUP}")
    else:
        import polars as pl

        row = pl.LazyFrame({"score": [0.5], "won": [1], GROUP: [1]})
    by = GROUP if grouped else None
    calibrant.tabulate("won", "score", data=row, bins=calibrant.EqualWidth(N_BINS), by=by)


def run_once(name: str, path: str, grouped: bool) -> None:
    """Time one run after its packages are loaded, and print what it cost and what it found."""
    warm_up(name.split(",")[0].lower(), grouped)
    start, worked = time.perf_counter(), time.process_time()
    found = RUNS[name](path, grouped)
    seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows, events, scores = (sum(float(row[i]) for row in found) for i in (0, 1, 2))
    sums = [rows, events, scores]
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak, "sums": sums}))


def measured(name: str, path: Path, n_groups: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, str(path), "--groups", str(n_groups)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def compare(path: Path, n: int, n_groups: int, repeats: int) -> None:
    best: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for name in RUNS:
            found = measured(name, path, n_groups)
            before = best.setdefault(name, found)
            for cost in ("seconds", "cpu", "peak"):
                before[cost] = min(before[cost], found[cost])
    first = next(iter(best.values()))["sums"]
    for name, found in best.items():
        np.testing.assert_allclose(found["sums"], first, rtol=1e-11, err_msg=name)
    show(best, n, n_groups, repeats)


def show(best: dict[str, dict[str, Any]], n: int, n_groups: int, repeats: int) -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    rows = f"{n:,} rows in {n_groups:,} groups" if n_groups > 1 else f"{n:,} rows"
    print(f"{rows}, best of {repeats}, {os.cpu_count()} cores, {platform.machine()}, {today}\n")
    print("| run | seconds | ratio to plain | CPU seconds | ratio to plain | peak memory, MB |")
    print("|---|---|---|---|---|---|")
    for name, found in best.items():
        plain = best[name.split(",")[0] + ", plain group-by"]
        costs = [f"{found[c]:.2f} | {found[c] / plain[c]:.2f}" for c in ("seconds", "cpu")]
        print(f"| {name} | {' | '.join(costs)} | {found['peak']:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--file", type=Path, help="a file made before, instead of a new one")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_once(*options.one, options.groups > 1)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "scores.parquet"
        if not path.exists():
            make_file(path, options.rows, options.groups)
        compare(path, options.rows, options.groups, options.repeats)


if __name__ == "__main__":
    main()
