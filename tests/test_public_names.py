"""The export list is true, and importing calibrant is light."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest

import calibrant

ROOT = Path(__file__).parents[1]
AUTOSUMMARY = re.compile(
    r"^.. currentmodule:: (\S+)\n\n.. autosummary::\n   :toctree: generated\n\n((?:   \S+\n)+)",
    re.MULTILINE,
)
HEAVY = (
    "numpy",
    "scipy",
    "sklearn",
    "matplotlib",
    "torch",
    "pandas",
    "polars",
    "narwhals",
)


def test_every_public_name_exists_and_is_listed_in_order():
    assert calibrant.__all__ == sorted(calibrant.__all__)
    assert all(getattr(calibrant, name) is not None for name in calibrant.__all__)
    assert set(calibrant.__all__) <= set(dir(calibrant))


def test_type_checkers_see_the_names_that_there_are():
    stub = Path(calibrant.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    listed = re.findall(r"^from \S+ import (\w+) as \1$", stub, re.MULTILINE)
    assert sorted(set(listed) - {"__version__"}) == calibrant.__all__
    assert len(listed) == len(set(listed)) == stub.count("import ")


def listed_in_the_reference() -> set[str]:
    """Return the names that have a page, as docs/reference/*.md lists them."""
    names = set()
    for page in sorted((ROOT / "docs/reference").glob("*.md")):
        for module, listed in AUTOSUMMARY.findall(page.read_text(encoding="utf-8")):
            names |= {f"{module}.{name}" for name in listed.split()}
    return names


def test_every_public_name_has_a_page_of_the_reference():
    modules = {"recalibrators", "stats"}
    public = {f"calibrant.{name}" for name in {*calibrant.__all__} - modules - {"exceptions"}}
    public |= {
        f"calibrant.{module}.{name}"
        for module in modules
        for name in getattr(calibrant, module).__all__
        if module == "stats" or name not in calibrant.__all__
    }
    pages = listed_in_the_reference()
    pages |= {f"calibrant.stats.{name}" for name in calibrant.__all__}  # one page is enough
    assert sorted(public - pages) == [], "add them to a page of docs/reference"
    assert "calibrant.torch.CalibrationError" in pages
    if importlib.util.find_spec("torch") is None:
        pages.remove("calibrant.torch.CalibrationError")
    for name in sorted(pages - public - {f"calibrant.stats.{name}" for name in calibrant.__all__}):
        assert attrgetter(name.removeprefix("calibrant."))(calibrant) is not None


@pytest.mark.parametrize("name", ["paper", "samples_to_balance", "resolution_report"])
def test_what_few_need_is_in_submodules(name):
    assert name not in calibrant.__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'calibration_eror'"):
        _ = calibrant.calibration_eror


def test_importing_calibrant_loads_no_heavy_package():
    code = "import sys, calibrant; print(' '.join(sorted(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in HEAVY if name in loaded] == []


def test_measuring_arrays_loads_no_data_frame_or_learning_package():
    code = (
        "import sys, calibrant; calibrant.calibration_error([0, 1], [0.2, 0.9], bins=1).value;"
        "print(' '.join(sorted(sys.modules)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in (*HEAVY[1:], "numpy.ma") if name in loaded] == []


def test_every_exception_is_also_a_builtin_one():
    family = [
        value
        for value in vars(calibrant.exceptions).values()
        if isinstance(value, type) and issubclass(value, calibrant.exceptions.CalibrantError)
    ]
    leaves = [each for each in family if each is not calibrant.exceptions.CalibrantError]
    assert len(leaves) >= 14
    assert all(issubclass(each, ValueError | ImportError) for each in leaves)


def test_no_object_pretends_to_be_another():
    """What reads attributes it does not have belongs to packages, whose names load late."""
    source = Path(calibrant.__file__).parent
    asking = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"def __getattr(ibute)?__\(", path.read_text(encoding="utf-8"))
    }
    assert asking == {"__init__.py", "_lazy.py"}
