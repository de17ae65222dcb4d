"""Every Python block of the README and of docs/ runs; a text block after it is its output."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path):
    """Yield (code, expected output or None, line) for each Python block of a page."""
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for this, following in zip(found, [*found[1:], None], strict=True):
        if this[1] != "python":
            continue
        between = text[this.end() : following.start()] if following else "x"
        expected = following[2] if following and following[1] == "text" else None
        line = text[: this.start()].count("\n") + 2
        yield this[2], None if between.strip() else expected, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_of_the_page_runs_and_prints_what_it_says(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for code, expected, line in blocks(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(page), "exec"), namespace)
        if expected is not None:
            assert printed.getvalue() == expected, f"{page.name}, line {line}"


def test_the_readme_has_a_snippet_with_output():
    assert any(expected for _, expected, _ in blocks(ROOT / "README.md"))
