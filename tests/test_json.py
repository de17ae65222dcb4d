"""What is printed as JSON is JSON to the letter: no NaN, no Infinity."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import calibrant as cb
from calibrant import report, stats
from calibrant._json import json_text, plain
from calibrant.cli import main


def strict(text):
    """Parse JSON, and refuse the three words that Python's parser takes beyond the standard."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(word):
    raise ValueError(f"{word} is not JSON")


# Few rows, sure predictions and empty bins are where divisions by zero would be.
ROWS = {
    "one row": ([1], [0.3]),
    "two rows": ([1, 1], [0.3, 0.9]),
    "sure and right": ([1, 0, 1], [1.0, 0.0, 1.0]),
    "sure and wrong": ([0, 1, 0], [1.0, 0.0, 1.0]),
    "one label": ([0] * 60, np.linspace(0, 1, 60)),
    "one output": ([0, 1] * 30, [0.5] * 60),
}


@pytest.fixture(params=ROWS)
def rows(request):
    y, p = ROWS[request.param]
    return np.array(y), np.array(p, float)


@pytest.mark.parametrize("norm", ["l1", "l2", "max", 3, 400, 1e300])
@pytest.mark.parametrize("debias", [None, False])
def test_errors_are_written_as_strict_json(rows, norm, debias):
    result = cb.calibration_error(*rows, norm=norm, debias=debias)
    assert strict(result.to_json())["value"] == result.value
    assert strict(json.dumps(result.to_dict())) == strict(result.to_json())


def test_every_other_result_is_written_as_strict_json(rows):
    y, p = rows
    table = cb.tabulate(y, p, bins=cb.EqualWidth(4))
    made = [
        table,
        cb.reliability_curve(y, p),
        cb.brier_decomposition(y, p),
        cb.brier_decomposition(y, p, debias=True),
        cb.certify(y, p, max_error=0.1),
        stats.isotonic_curve(table).brier,
        stats.isotonic_curve(table).log,
        report(y, p).findings,
    ]
    if len(y) > 2:
        made += [
            cb.compare(y, p, 1 - p),
            cb.bin_free_bounds(y, p),
            cb.prequential_lower_bound(y, p),
        ]
        made += [cb.calibration_test(y, p, method="cox")]
    for each in made:
        assert strict(json.dumps(each.to_dict())), type(each).__name__


def test_the_data_that_a_page_carries_are_strict_json(rows):
    page = report(*rows).html
    (data,) = re.findall(r'<script type="application/json" id="curves">(.*?)</script>', page)
    assert strict(data)[0]["paths"]


@pytest.mark.parametrize(
    "command",
    [
        ["measure"],
        ["measure", "--norm", "400"],
        ["measure", "--norm", "1e300", "--plug-in"],
        ["certify", "--max-error", "0.1"],
        ["report"],
        ["compare", "--versus", "q"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("name", ROWS)
def test_commands_print_strict_json(command, name, tmp_path, monkeypatch, capsys):
    y, p = ROWS[name]
    monkeypatch.chdir(tmp_path)
    lines = ["y,p,q", *(f"{a},{b},{1 - b}" for a, b in zip(y, p, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    code = main(
        [*command[:1], "rows.csv", "--y-true", "y", "--y-prob", "p", *command[1:], "--json"]
    )
    printed = capsys.readouterr().out
    refused = command[0] == "compare" and len(y) < 2
    assert (code, printed) == (3, "") if refused else strict(printed)


def test_a_plan_is_printed_as_strict_json(capsys):
    main(["plan", "--max-error", "0.05", "--n-bins", "3", "--json"])
    assert strict(capsys.readouterr().out)["rows"] > 0


def test_repaired_json_lines_stay_strict_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    p = rng.uniform(size=200)
    cb.PlattScaling().fit(p, rng.uniform(size=200) < p).save("cal.json")
    lines = ['{"p": 0.2, "note": NaN}', '{"p": 0.8, "note": [Infinity, {"a": -Infinity}]}']
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    main(["apply", "cal.json", "rows.jsonl", "--y-prob", "p", "-o", "out.jsonl"])
    first, second = map(strict, (tmp_path / "out.jsonl").read_text().splitlines())
    assert (first["note"], second["note"]) == (None, [None, {"a": None}])


def test_numbers_that_json_has_not_become_null():
    value = {"a": np.nan, "b": [np.inf, (1.5, -np.inf)], "c": np.array([1.0, np.nan]), "d": "NaN"}
    assert plain(value) == {"a": None, "b": [None, [1.5, None]], "c": [1.0, None], "d": "NaN"}
    assert strict(json_text(value)) == plain(value)
