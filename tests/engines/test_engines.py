"""Which engine counts arrays."""

from __future__ import annotations

import pytest

from calibrant.engines import engine
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import InvalidArgumentError
from conftest import kernels


def test_arrays_are_counted_by_compiled_loops_unless_the_environment_says_otherwise(monkeypatch):
    kernels()
    from calibrant.engines.compiled import CompiledEngine

    monkeypatch.delenv("CALIBRANT_ENGINE", raising=False)
    assert isinstance(engine(), CompiledEngine)
    monkeypatch.setenv("CALIBRANT_ENGINE", "compiled")
    assert isinstance(engine(), CompiledEngine)
    monkeypatch.setenv("CALIBRANT_ENGINE", "numpy")
    assert isinstance(engine(), NumpyEngine)
    monkeypatch.setenv("CALIBRANT_ENGINE", "numby")
    with pytest.raises(InvalidArgumentError, match="numby"):
        engine()
