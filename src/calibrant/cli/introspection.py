"""What the parser knows of its commands, for the completion of shells and for the docs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


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
        return [each for each in self.arguments if each.flags]


def commands_of(parser: argparse.ArgumentParser) -> list[Command]:
    """Return the commands of a parser."""
    group = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help or "" for action in group._choices_actions}
    return [
        Command(name, helps[name], each.description or "", each.epilog or "", _arguments(each))
        for name, each in group.choices.items()
    ]


def _arguments(parser: argparse.ArgumentParser) -> tuple[Argument, ...]:
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    return tuple(_argument(action) for action in actions)


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
