"""What a distribution holds, and the workflow that builds the wheels."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def workflow():
    yaml = pytest.importorskip("yaml")
    text = (ROOT / ".github/workflows/wheels.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def test_wheels_are_built_for_every_platform_and_uploaded():
    job = workflow()["jobs"]["wheels"]
    systems = {"-".join(name.split("-")[::2]) for name in job["strategy"]["matrix"]["os"]}
    assert systems == {"ubuntu", "ubuntu-arm", "macos", "macos-intel", "windows"}
    assert job["runs-on"] == "${{ matrix.os }}"
    uses = [step["uses"].split("@") for step in job["steps"]]
    assert [name for name, _ in uses] == [
        "actions/checkout",
        "pypa/cibuildwheel",
        "actions/upload-artifact",
    ]
    assert all(version.startswith("v") for _, version in uses)


def test_every_job_of_the_workflow_has_steps_that_exist():
    for job in workflow()["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "run" in step:
                assert (ROOT / step["run"]).stat().st_mode & 0o111


def test_one_wheel_of_a_platform_is_for_the_oldest_python_with_its_extension():
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=3.")
    wheel = PYPROJECT["tool"]["cibuildwheel"]
    assert wheel["build"] == f"cp3{oldest}-*"
    assert f'"py_limited_api": "cp3{oldest}"' in (ROOT / "setup.py").read_text(encoding="utf-8")
    module = (ROOT / "src/kernels/module.c").read_text(encoding="utf-8")
    assert f"Py_LIMITED_API 0x03{int(oldest):02X}0000" in module
    assert wheel["environment"] == {"CALIBRANT_REQUIRE_EXTENSION": "1"}


def test_no_runtime_dependency_compiles():
    every = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["build-system"]["requires"]]
    assert [name.split(">=")[0] for name in every] == [
        "numpy",
        "scipy",
        "scikit-learn",
        "narwhals",
        "setuptools",
    ]
