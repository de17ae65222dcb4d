"""What a distribution holds, and the workflow that builds the wheels."""

from __future__ import annotations

import re
import tomllib
from email import message_from_string
from pathlib import Path

import pytest

import calibrant

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ADDRESSES = PYPROJECT["tool"]["calibrant"]["addresses"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def workflow(name: str):
    return pytest.importorskip("yaml").safe_load(read(f".github/workflows/{name}.yml"))


def test_wheels_are_built_for_every_platform_and_uploaded():
    job = workflow("release")["jobs"]["wheels"]
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


def test_a_release_is_published_without_a_password_after_all_is_built():
    job = workflow("release")["jobs"]["publish"]
    assert job["needs"] == ["wheels", "sdist"]
    assert job["permissions"] == {"id-token": "write"}
    assert job["environment"] == "pypi"
    assert "secrets" not in read(".github/workflows/release.yml")
    assert job["if"] == "startsWith(github.ref, 'refs/tags/v')"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_of_a_workflow_has_steps_that_exist_and_few_rights(path):
    found = workflow(path.stem)
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            if "run" in step:
                assert (ROOT / step["run"]).stat().st_mode & 0o111


def test_every_python_that_is_named_is_tested():
    named = re.findall(r"Python :: (3\.\d+)", str(PYPROJECT["project"]["classifiers"]))
    jobs = workflow("test")["jobs"].values()
    tested = {python for job in jobs for python in job["strategy"]["matrix"]["python"]}
    assert tested == set(named) == {"3.11", "3.12", "3.13", "3.14"}


def test_the_extra_all_has_every_extra_for_users():
    extras = PYPROJECT["project"]["optional-dependencies"]
    listed = re.fullmatch(r"calibrant\[(.*)\]", extras["all"][0])[1].split(",")
    assert listed == sorted(set(extras) - {"all", "docs", "dev"})


def test_the_version_is_the_same_everywhere():
    version = calibrant.__version__
    assert f"\nversion: {version}\n" in read("CITATION.cff")
    assert re.search(rf"^## {re.escape(version)}\b", read("CHANGELOG.md"), re.MULTILINE)


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """What the package index shows, as the build writes it."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("metadata")
    return message_from_string(_metadata(str(folder)))


def _metadata(folder: str) -> str:
    from setuptools import build_meta

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = build_meta.prepare_metadata_for_build_wheel(folder)
    return (Path(folder) / name / "METADATA").read_text(encoding="utf-8")


def test_the_readme_of_the_index_has_no_link_or_picture_that_leads_nowhere(metadata):
    text = metadata.get_payload()
    assert "**A model says 0.8. Does it happen 80% of the time?**" in text
    targets = re.findall(r"\]\(([^)\s]*)\)", text) + re.findall(r'(?:src|href)="([^"]*)"', text)
    assert [target for target in targets if "://" not in target and target[0] != "#"] == []
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_links_of_the_readme_are_files_of_the_repository():
    text = read("README.md")
    pictures = re.findall(r'src="([^"]*)"', text)
    assert pictures
    for target in re.findall(r"\]\(([^)\s]*)\)", text) + pictures:
        if "://" not in target:
            assert (ROOT / target.split("#")[0]).exists(), target


def test_an_address_is_written_nowhere_but_in_its_one_place(metadata):
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL", []))
    assert urls == {name.capitalize(): value for name, value in ADDRESSES.items() if value}
    if ADDRESSES["repository"]:
        assert f"repository-code: {ADDRESSES['repository']}" in read("CITATION.cff")


def test_one_wheel_of_a_platform_is_for_the_oldest_python_with_its_extension():
    oldest = PYPROJECT["project"]["requires-python"].removeprefix(">=3.")
    wheel = PYPROJECT["tool"]["cibuildwheel"]
    assert wheel["build"] == f"cp3{oldest}-*"
    assert f'"py_limited_api": "cp3{oldest}"' in (ROOT / "setup.py").read_text(encoding="utf-8")
    header = (ROOT / "src/kernels/arrays.h").read_text(encoding="utf-8")
    assert f"Py_LIMITED_API 0x03{int(oldest):02X}0000" in header
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
