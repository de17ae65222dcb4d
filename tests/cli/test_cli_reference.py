"""The reference page is what the parser says."""

from __future__ import annotations

from pathlib import Path

from calibrant.cli.parser import COMMANDS, new_parser
from calibrant.cli.reference import commands_of, refreshed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


def test_the_reference_page_is_current():
    page = PAGE.read_text(encoding="utf-8")
    assert page == refreshed(page), "run: python -m calibrant.cli.reference docs/command-line.md"
    for name in COMMANDS:
        assert f"### calibrant {name}\n" in page


def test_every_command_is_in_the_help_once():
    assert [command.name for command in commands_of(new_parser())] == list(COMMANDS)
