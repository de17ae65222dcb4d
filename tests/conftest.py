"""Shared by all tests: optional packages and the paper's predictions."""

from __future__ import annotations

import importlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("calibrant", deadline=None)  # a busy machine is not a bug
settings.load_profile("calibrant")

# joblib asks the system for physical cores, and warns where a small container cannot tell
os.environ.setdefault("LOKY_MAX_CPU_COUNT", str(os.cpu_count() or 1))

collect_ignore_glob = ["fuzz/[!t]*.py"]  # what its child processes run; no doctests there


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz-cases",
        type=int,
        default=100,
        help="cases of each category of tests/fuzz (default 100, twenty seconds on two cores)",
    )


@pytest.fixture(autouse=True)
def _generators_begin_anew(request):
    """Let every test draw what it draws alone: generators of its module are put back behind it."""
    module = getattr(request.node, "module", None)
    members = vars(module).values() if module else ()
    bits = [one.bit_generator for one in members if isinstance(one, np.random.Generator)]
    states = [one.state for one in bits]
    yield
    for one, state in zip(bits, states, strict=True):
        one.state = state


@pytest.fixture
def fuzz_cases(request):
    """Return how many cases of each category the fuzz suite tries."""
    return request.config.getoption("--fuzz-cases")


def optional(name: str):
    """Import a package; where it is missing, skip on a laptop and fail in CI."""
    if os.environ.get("CI"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


def kernels():
    """Return the compiled loops; skip where they were not built, unless CI had a compiler."""
    if os.environ.get("CI") and shutil.which("cc"):
        return importlib.import_module("calibrant._kernels")
    return pytest.importorskip("calibrant._kernels")


@pytest.fixture
def forms():
    """Return the names of the vector forms that run here; another may be used until the test ends."""
    loops = kernels()
    before = loops.form()
    yield loops.forms()
    loops.use_form(before)


@pytest.fixture(scope="session")
def cifar10():
    """Return (labels, probs) of the paper's CIFAR-10 model, from the folder CALIBRANT_DATA."""
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder:
        pytest.skip("CALIBRANT_DATA does not name a folder with cifar10-vgg16.npz")
    with np.load(Path(folder) / "cifar10-vgg16.npz", allow_pickle=False) as arrays:
        return arrays["labels"], arrays["probs"]


@pytest.fixture
def closed_figures():
    """Close what a test has drawn, and see that Matplotlib's settings are as they were."""
    matplotlib = optional("matplotlib")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@pytest.fixture
def small_chunks(monkeypatch):
    """Read files in small parts, so that the rows of `predictions_on_disk` are several of them."""
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 13)


@pytest.fixture
def csv(tmp_path):
    """Return the path of a file of predictions."""
    from predictions_on_disk import write

    return write(tmp_path / "preds.csv")


@pytest.fixture
def calibrators(tmp_path):
    """Save a calibrator of one column and one of three, which leave all as it is."""
    import calibrant as cb
    from predictions_on_disk import COLUMNS, LABEL, PROBS, SCORE

    one, many = tmp_path / "one.json", tmp_path / "many.json"
    cb.Identity().fit(SCORE, LABEL).save(one)
    cb.Identity().fit(PROBS, COLUMNS["animal"], classes=("cat", "dog", "eel")).save(many)
    return one, many


@pytest.fixture
def animals(tmp_path, monkeypatch):
    """Write two halves of the rows: one to fit on, one to certify on."""
    from predictions_on_disk import COLUMNS, LABEL, N, write

    monkeypatch.chdir(tmp_path)
    halves = {"new": slice(N // 2, N), "old": slice(0, N // 2)}
    columns = COLUMNS | {"word": np.where(LABEL == 1, "spam", "ham"), "flipped": 1 - LABEL}
    for name, rows in halves.items():
        write(tmp_path / f"{name}.csv", columns, rows)
    return halves


@pytest.fixture
def calibrator(calibrators):
    """Return the saved calibrator of one column."""
    return calibrators[0]
