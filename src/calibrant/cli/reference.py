"""What the parser knows of its commands, and the reference that is made of it.

``python -m calibrant.cli.reference PAGE`` writes it in Markdown.

Given a page, its part between the two marks is replaced; without one, the reference is printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

OPTION = re.compile(r" (\[?-)")
BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


@dataclass(frozen=True)
class Argument:
    """An option, or what stands without one."""

    flags: tuple[str, ...]
    metavar: str
    choices: tuple[str, ...]
    help: str
    takes_value: bool
    is_required: bool
    is_repeated: bool


@dataclass(frozen=True)
class Command:
    """A command and its arguments, in the order of its help."""

    name: str
    help: str
    description: str
    epilog: str
    arguments: tuple[Argument, ...]

    @property
    def options(self) -> list[Argument]:
        """The arguments that have a flag."""
        return [argument for argument in self.arguments if argument.flags]


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """Return the commands of a parser."""
    group = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in group._choices_actions}
    return [
        Command(
            name,
            helps[name],
            parser.description or "",
            parser.epilog or "",
            tuple(_argument(a) for a in parser._actions if not isinstance(a, argparse._HelpAction)),
        )
        for name, parser in group.choices.items()
    ]


def _argument(action: argparse.Action) -> Argument:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Argument(
        tuple(action.option_strings),
        metavar,
        tuple(map(str, action.choices or ())),
        action.help or "",
        action.nargs != 0,
        action.required,
        action.nargs in ("+", "*"),
    )


def reference() -> str:
    """Return what the help of every command says, as Markdown."""
    from calibrant.cli.parser import new_parser

    return "\n".join(_section(command) for command in commands_of(new_parser()))


def refreshed(page: str) -> str:
    """Return a page whose part between the marks is the reference of now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference()}\n{END}{after}"


def _section(command: Command) -> str:
    options_last = sorted(command.arguments, key=lambda argument: bool(argument.flags))
    usage = " ".join(["calibrant", command.name, *map(_usage, options_last)])
    examples = "\n".join(line.strip() for line in command.epilog.splitlines()[1:])
    return "\n".join(
        [
            f"### calibrant {command.name}",
            "",
            command.description,
            "",
            "```text",
            OPTION.sub(r"\n    \1", usage),
            "```",
            "",
            "| argument | |",
            "|---|---|",
            *map(_row, command.arguments),
            "",
            "```sh",
            examples,
            "```",
            "",
        ]
    )


def _usage(argument: Argument) -> str:
    value = "|".join(argument.choices) or argument.metavar
    value += " ..." if argument.is_repeated else ""
    if not argument.flags:
        return value
    text = f"{argument.flags[0]} {value}" if argument.takes_value else argument.flags[0]
    return text if argument.is_required else f"[{text}]"


def _row(argument: Argument) -> str:
    names = ", ".join(f"`{flag}`" for flag in argument.flags) or f"`{argument.metavar}`"
    choices = ", ".join(f"`{each}`" for each in argument.choices)
    about = ": ".join(filter(None, [choices, argument.help]))
    return f"| {names} | {about.replace('|', chr(92) + '|').replace('*', chr(92) + '*')} |"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(reference())
    else:
        page = Path(sys.argv[1])
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
