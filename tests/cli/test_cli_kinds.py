"""Commands on labels, ordered classes and quantiles."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant
from predictions_on_disk import run, write

rng = np.random.default_rng(23)
N = 800
SCORES = rng.integers(1, 10, size=(N, 2)) / 10
MARKS = (rng.uniform(size=(N, 1)) < SCORES).astype(int)
PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]])[rng.integers(2, size=N)]
GRADES = (PROBS.cumsum(axis=1) < rng.uniform(size=(N, 1))).sum(axis=1)
LEVELS = (0.1, 0.5, 0.9)
Y = rng.normal(size=N)
Q = calibrant.normal_quantiles(np.zeros(N), 1.0, LEVELS)
COLUMNS = {
    "p_b": SCORES[:, 1], "p_a": SCORES[:, 0], "y_a": MARKS[:, 0], "y_b": MARKS[:, 1],
    "grade": GRADES, "outcome": Y,
    **{f"prob_{k}": PROBS[:, k] for k in range(3)}, **{f"q_{k}": Q[:, k] for k in range(3)},
}  # fmt: skip
GIVEN = {
    "multi-label": (("--y-true", "y_*", "--y-prob", "p_*"), (MARKS, SCORES), {}),
    "ordinal": (("--y-true", "grade", "--y-prob", "prob_*"), (GRADES, PROBS), {}),
    "quantile": (
        ("--y-true", "outcome", "--y-prob", "q_*", "--classes", "0.1,0.5,0.9"),
        (Y, Q),
        {"classes": LEVELS},
    ),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return a file with the columns of all kinds."""
    return write(tmp_path_factory.mktemp("rows") / "rows.csv", COLUMNS)


@pytest.mark.parametrize("kind", GIVEN)
def test_measure_and_certify_say_what_the_functions_say(kind, path, capsys):
    columns, rows, options = GIVEN[kind]
    code, out, _ = run(capsys, "measure", path, "--kind", kind, *columns, "--json")
    error = calibrant.calibration_error(*rows, kind=kind, **options)
    assert code == 0
    assert json.loads(out)["value"] == pytest.approx(float(error), rel=1e-9)
    code, out, _ = run(capsys, "certify", path, "--kind", kind, *columns, "--max-error", "0.3")
    assert code == 0
    assert calibrant.certify(*rows, kind=kind, max_error=0.3, **options).reason in " ".join(
        out.split()
    )


@pytest.mark.parametrize("kind", GIVEN)
def test_a_page_is_written_for_every_kind(kind, path, tmp_path, capsys):
    columns, _, _ = GIVEN[kind]
    page = tmp_path / "page.html"
    code, _, err = run(capsys, "report", path, "--kind", kind, *columns, "-o", page)
    assert code == 0, err
    assert "None" not in page.read_text(encoding="utf-8").split("<style")[0]


@pytest.mark.parametrize("kind", ["ordinal", "quantile"])
def test_fit_refuses_what_no_calibrator_of_probabilities_repairs(kind, path, tmp_path, capsys):
    columns, _, _ = GIVEN[kind]
    code, _, err = run(capsys, "fit", path, "--kind", kind, *columns, "-o", tmp_path / "c.json")
    assert code == 4
    assert f"--kind {kind}" in err


def test_limits_beside_a_certificate_of_clusters_hold_for_the_draw_that_was_chosen(
    tmp_path, capsys
):
    columns, rows, options = GIVEN["quantile"]
    shop = np.arange(N) % 100
    file = write(tmp_path / "rows.csv", COLUMNS | {"shop": shop})
    clusters = ("--cluster", "shop", "--max-error", "0.3")
    _, out, _ = run(capsys, "certify", file, "--kind", "quantile", *columns, *clusters)
    table = calibrant.certify(*rows, kind="quantile", **options, cluster=shop).table
    (line,) = (line for line in out.splitlines() if line.split()[:1] == ["0.5"])
    # its table is the best of four draws: each has a quarter of the error probability
    found = calibrant.certify_coverage(table, confidence_level=1 - 0.05 / 4)
    limits = json.loads(line[line.index("[") :])
    assert limits == pytest.approx([found.low[1], found.high[1]], abs=5e-5)
    assert "all limits at once at 95%, a random row of each cluster" in out


def test_limits_beside_a_certificate_of_several_looks_have_the_share_of_one(path, capsys):
    columns, (y, q), options = GIVEN["quantile"]
    looks = ("--looks", "5", "--max-error", "0.3")
    _, out, _ = run(capsys, "certify", path, "--kind", "quantile", *columns, *looks)
    (line,) = (line for line in out.splitlines() if line.split()[:1] == ["0.5"])
    found = calibrant.certify_coverage(y, q, **options, confidence_level=0.99)
    limits = json.loads(line[line.index("[") :])
    assert limits == pytest.approx([found.low[1], found.high[1]], abs=5e-5)
    assert "with 99% confidence the 80% intervals cover" in out
