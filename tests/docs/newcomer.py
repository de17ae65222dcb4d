"""Runs the blocks of pages as a newcomer would who copies and pastes them, one after another.

``python newcomer.py PAGE ...`` needs calibrant and nothing of its checkout; see scripts/newcomer.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

SNIPPET = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n*^```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


def follow(page: Path) -> int:
    """Run every block of a page and compare what it prints; return how many there are."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    number = 0
    for number, snippet in enumerate(SNIPPET.finditer(page.read_text(encoding="utf-8")), start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(snippet["code"], f"{page.name}, block {number}", "exec"), namespace)
        if snippet["output"] is not None and printed.getvalue() != snippet["output"]:
            raise SystemExit(f"{page.name}, block {number} prints\n{printed.getvalue()}")
    return number


if __name__ == "__main__":
    import calibrant

    print(calibrant.__file__)
    for each in map(Path, sys.argv[1:]):
        print(f"{each.name}: {follow(each)} blocks run")
