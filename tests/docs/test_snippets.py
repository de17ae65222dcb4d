"""Every Python block of the README and of docs/ runs; a text block after it is its output.

Run as a script, this file writes the outputs that the blocks print now: read the difference.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import warnings
from pathlib import Path

import pytest
from newcomer import SNIPPET

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = re.compile(r"<!-- needs: (.+) -->\n$")


def can_run(text: str, snippet: re.Match[str]) -> bool:
    """Tell whether the packages are here that a comment before the block names."""
    needs = NEEDS.search(text[: snippet.start()])
    names = needs[1].split(", ") if needs else []
    return all(importlib.util.find_spec(name) is not None for name in names)


def run(code: str, page: Path, line: int, namespace: dict[str, object]) -> str:
    """Run one block and return what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        if "import mlflow" in code:
            warnings.simplefilter("ignore")  # of MLflow itself
        exec(compile("\n" * line + code, str(page), "exec"), namespace)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_snippet_of_the_page_runs_and_prints_what_it_says(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for snippet in SNIPPET.finditer(text):
        if not can_run(text, snippet):
            continue
        line = text[: snippet.start()].count("\n") + 1
        printed = run(snippet["code"], page, line, namespace)
        if snippet["output"] is not None:
            assert printed == snippet["output"], f"{page.name}, line {line}"


def test_the_readme_has_a_snippet_with_output():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert any(snippet["output"] for snippet in SNIPPET.finditer(text))


def rewrite(page: Path) -> None:
    """Put what the blocks print now into their text blocks."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")

    def refreshed(snippet: re.Match[str]) -> str:
        if not can_run(text, snippet):
            return snippet[0]
        printed = run(snippet["code"], page, 0, namespace)
        whole = snippet[0]
        if snippet["output"] is None:
            return whole
        start = snippet.start("output") - snippet.start()
        return whole[:start] + printed + whole[start + len(snippet["output"]) :]

    page.write_text(SNIPPET.sub(refreshed, text), encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        rewrite(each)
