"""Names and packages are loaded when they are first asked for."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import calibrant
from calibrant._lazy import Later

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


def test_a_later_module_is_imported_by_its_first_name_which_it_keeps():
    code = (
        "import sys; from calibrant._lazy import Later; late = Later('colorsys');"
        "print('colorsys' in sys.modules, late.ONE_THIRD, 'colorsys' in sys.modules, vars(late))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    kept = {"_module": "colorsys", "ONE_THIRD": 1 / 3}
    assert printed == f"False {1 / 3} True {kept}\n"


def test_a_later_module_has_the_names_of_its_module_and_no_other():
    assert Later("calibrant.bins").Bins is calibrant.Bins
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = Later("calibrant.bins").no_such_name
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        _ = Later("no_such_package").name


@pytest.mark.parametrize("package", ["calibrant", "calibrant.stats", "calibrant.recalibrators"])
def test_a_package_lists_the_names_of_its_stub_before_they_are_loaded(package):
    module = importlib.import_module(package)
    assert set(module.__all__) <= set(dir(module))
    assert dir(module) == sorted(set(dir(module)))
    for name in module.__all__:
        assert getattr(module, name) is vars(module)[name], name
