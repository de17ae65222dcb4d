"""Damaged files, mutated documents, hostile arrays and names, kills: nothing crashes or lies.

Cases are made from their number alone, so that a run is the same everywhere. `--fuzz-cases N`
tries more than CI does; docs/reliability.md has the numbers of a long run.
"""

from __future__ import annotations

import sys

import pytest
from runner import CATEGORIES, cases_of, run_cases

from conftest import optional

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory, forks")
SHARDS = 2


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("category", CATEGORIES)
def test_nothing_crashes_hangs_or_is_accepted_in_silence(category, shard, fuzz_cases, tmp_path):
    for package in ("pyarrow", "pandas", "polars", "duckdb"):
        optional(package)
    numbers = range(shard, cases_of(category, fuzz_cases), SHARDS)
    report = run_cases(category, numbers, tmp_path)
    print(report)
    assert not report.failures, "\n\n".join(report.failures[:20])


def test_what_once_crashed_is_refused(tmp_path):
    """Replay the files under fixtures/, by the folder that names their format."""
    optional("pyarrow")
    from replayed import FIXTURES

    report = run_cases("replayed", range(len(FIXTURES)), tmp_path)
    assert not report.failures, "\n\n".join(report.failures)
