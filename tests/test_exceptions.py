"""Exceptions are a family, and each is also a builtin one."""

from __future__ import annotations

import re

import calibrant
from calibrant import exceptions


def test_every_exception_is_also_a_builtin_one():
    family = [
        value
        for value in vars(calibrant.exceptions).values()
        if isinstance(value, type) and issubclass(value, calibrant.exceptions.CalibrantError)
    ]
    leaves = [each for each in family if each is not calibrant.exceptions.CalibrantError]
    assert len(leaves) >= 14
    assert all(issubclass(each, ValueError | ImportError) for each in leaves)


def test_the_tree_in_words_is_the_tree_of_classes():
    branches = re.findall(r"^    ([│ ├└─]*)(\w+)", exceptions.__doc__, re.MULTILINE)
    parents, told = {}, {}
    for lines, name in branches:
        depth = len(lines) // 4
        parents[depth] = name
        told[name] = parents.get(depth - 1, "Exception")
    family = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(exceptions).items()
        if isinstance(kind, type) and issubclass(kind, exceptions.CalibrantError)
    }
    assert told == family
