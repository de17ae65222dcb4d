"""Results of studies as documents."""

from __future__ import annotations

import json

from calibrant.paper import Finding
from calibrant.paper.study import Output, StudyResult
from calibrant.paper.uncertainty import (
    about,
    over_splits,
)


def result(study="synthetic-n", findings=(), data=None):
    return StudyResult(
        study, {}, 0, False, data, {"calibrant": "0"}, 1.0, Output([], [], list(findings))
    )


def splits(*values, se=0.01, authors=False):
    """Return a finding of several splits."""
    each = [[Finding("k", about(value, se), 100)] for value in values]
    (merged,) = over_splits(each, authors)
    return merged


def test_results_survive_the_round_trip():
    found = result(findings=[Finding("histogram", about(2.0, 0.1), 10, note="<b>"), splits(1, 2)])
    again = StudyResult.from_json(found.to_json())
    assert again == found
    assert json.loads(found.to_json())["output"]["findings"][0]["estimate"]["se"] == 0.1
