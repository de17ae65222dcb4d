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
