"""Docstrings of public names have the sections of numpydoc that the reference is made of."""

from __future__ import annotations

import inspect
import re
from operator import attrgetter

import pytest

import calibrant
from calibrant import recalibrators, stats

HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
NOT_STATISTICS = {
    *("load", "recheck", "read_log", "report", "show_versions", "tabulate"),
    *("calibration_scorer", "normal_quantiles", "sample_quantiles"),
}


def public(kind) -> list[str]:
    """Return the public names of a kind: what users type after ``calibrant.``."""
    modules = {"stats": stats, "recalibrators": recalibrators}
    names = [*calibrant.__all__, "torch.CalibrationError"]
    names += [f"{module}.{name}" for module, home in modules.items() for name in home.__all__]
    names = [name for name in names if name not in {*modules, "exceptions"}]
    if not has_torch():
        names.remove("torch.CalibrationError")
    return sorted(name for name in names if kind(attrgetter(name)(calibrant)))


def has_torch() -> bool:
    try:
        return bool(calibrant.torch)
    except ImportError:
        return False


def sections(thing: object) -> dict[str, str]:
    """Return the text of each section of a docstring."""
    parts = HEADING.split(inspect.getdoc(thing) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(thing: object) -> set[str]:
    """Return the parameters and attributes that a docstring describes."""
    found = sections(thing)
    text = found.get("Parameters", "") + found.get("Attributes", "")
    names = re.findall(r"^(\S.*?)(?: : .*)?$", text, re.MULTILINE)
    return {name.strip().lstrip("*") for line in names for name in line.split(",")}


def rests_on_something(thing: object) -> bool:
    """Tell whether a docstring has notes or references, or names a paper by its year."""
    cited = re.search(r"[, ]\(?(19|20)\d\d\)", inspect.getdoc(thing) or "")
    return bool({"Notes", "References"} & set(sections(thing)) or cited)


def parameters(thing) -> list[str]:
    """Return what can be passed, less self and what private subclasses fill in."""
    own = inspect.signature(thing).parameters
    return [name for name in own if name not in {"self", "cls", "args", "kwargs"}]


def methods(thing: type) -> dict[str, object]:
    """Return the public methods that calibrant wrote."""
    found = {}
    for name in dir(thing):
        member = inspect.getattr_static(thing, name)
        function = getattr(member, "__func__", member)
        home = getattr(function, "__module__", "") or ""
        if not name.startswith("_") and inspect.isfunction(function):
            found |= {name: function} if home.startswith("calibrant") else {}
    return found


FUNCTIONS = [name for name in public(inspect.isroutine) if name in calibrant.__all__]
OF_TABLES = [name for name in public(inspect.isroutine) if name.startswith("stats.")]
CLASSES = public(inspect.isclass)
RECALIBRATORS = [
    name
    for name in CLASSES
    if issubclass(attrgetter(name)(calibrant), recalibrators.Recalibrator) and "." not in name
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_returns_raises_and_rests_on(name):
    function = getattr(calibrant, name)
    wanted = {"Parameters", "Returns", "Raises", "See Also", "Examples"}
    wanted -= {"Parameters", "Returns", "Raises", "See Also"} if name == "show_versions" else set()
    assert wanted <= set(sections(function)), wanted - set(sections(function))
    assert set(parameters(function)) <= described(function)
    if name not in NOT_STATISTICS:
        assert rests_on_something(function)


@pytest.mark.parametrize("name", OF_TABLES)
def test_a_function_of_tables_describes_its_arguments_or_points_to_its_namesake(name):
    function = attrgetter(name)(calibrant)
    text = inspect.getdoc(function) or ""
    missing = set(parameters(function)) - described(function)
    assert not missing or "`calibrant." in text, missing


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_describes_its_arguments_and_attributes(name):
    thing = attrgetter(name)(calibrant)
    if issubclass(thing, Warning):
        assert inspect.getdoc(thing)
        return
    assert set(parameters(thing)) <= described(thing) | {"options"}, name


@pytest.mark.parametrize("name", [name for name in CLASSES if "." not in name])
def test_a_class_that_users_make_has_an_example_and_neighbours(name):
    assert {"Examples", "See Also"} <= set(sections(getattr(calibrant, name)))


@pytest.mark.parametrize("name", RECALIBRATORS)
def test_a_recalibrator_has_its_formula_or_its_source(name):
    assert name == "Identity" or rests_on_something(getattr(calibrant, name))


@pytest.mark.parametrize("name", CLASSES)
def test_methods_have_docstrings_and_those_with_many_arguments_describe_them(name):
    for method, function in methods(attrgetter(name)(calibrant)).items():
        text = inspect.getdoc(function)
        assert text, method
        missing = set(parameters(function)) - described(function)
        points_there = method in {"of", "add_state"} or re.search(r"see `|`calibrant\.", text)
        assert len(missing) <= 2 or points_there, (method, missing)
