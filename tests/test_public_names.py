"""The export list is true."""

from __future__ import annotations

import importlib.util
import re
from operator import attrgetter
from pathlib import Path

import pytest

import calibrant

ROOT = Path(__file__).parents[1]
AUTOSUMMARY = re.compile(
    r"^.. currentmodule:: (\S+)\n\n.. autosummary::\n   :toctree: generated\n\n((?:   \S+\n)+)",
    re.MULTILINE,
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


def test_no_object_pretends_to_be_another():
    """What reads attributes it does not have belongs to packages, whose names load late."""
    source = Path(calibrant.__file__).parent
    asking = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(r"def __getattr(ibute)?__\(", path.read_text(encoding="utf-8"))
    }
    assert asking == {"__init__.py", "_lazy.py"}
