"""What the parser knows of its commands: the reference, and calibrant completion.

``python -m calibrant.cli.reference PAGE`` writes the reference in Markdown, between two marks of
the page; without a page it is printed.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.cli import OK
from calibrant.cli.output import emit
from calibrant.cli.parser import add_command

OPTION = re.compile(r" (\[?-)")
BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"
SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """
source <(calibrant completion bash)
calibrant completion bash > ~/.local/share/bash-completion/completions/calibrant
calibrant completion zsh > "${fpath[1]}/_calibrant"
calibrant completion fish > ~/.config/fish/completions/calibrant.fish
"""


@dataclass(frozen=True)
class Argument:
    """An option or a positional argument."""

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
    """Return the help of every command as Markdown."""
    from calibrant.cli.parser import new_parser

    return "\n".join(_section(command) for command in commands_of(new_parser()))


def refreshed(page: str) -> str:
    """Return a page with the current reference between its marks."""
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
    choices = ", ".join(f"`{choice}`" for choice in argument.choices)
    about = ": ".join(filter(None, [choices, argument.help]))
    return f"| {names} | {about.replace('|', chr(92) + '|').replace('*', chr(92) + '*')} |"


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "completion", run, "print a shell completion script", EXAMPLES)
    command.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: argparse.Namespace) -> int:
    """Print the script of a shell."""
    from calibrant.cli.parser import new_parser

    emit({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](commands_of(new_parser())))
    return OK


def bash(commands: list[Command]) -> str:
    """Return a completion script for bash: commands, options, their choices, else files."""
    cases = [
        f"        {command.name})"
        f" options='{' '.join([*(f for o in command.options for f in o.flags), '--help'])}'"
        f" words='{' '.join(w for a in command.arguments if not a.flags for w in a.choices)}' ;;"
        for command in commands
    ]
    choices = [
        f"        {command.name}:{flag}) options='' words='{' '.join(option.choices)}' ;;"
        for command in commands
        for option in command.options
        for flag in option.flags
        if option.choices
    ]
    return "\n".join(
        [
            "_calibrant() {",
            "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
            "    local command=${COMP_WORDS[1]} options='' words=''",
            '    if [ "$COMP_CWORD" -eq 1 ]; then',
            f"        words='{' '.join(command.name for command in commands)} --help --version'",
            '        COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "        return",
            "    fi",
            "    case $command in",
            *cases,
            "    esac",
            "    case $command:$previous in",
            *choices,
            "    esac",
            "    case $current in",
            '        -*) COMPREPLY=($(compgen -W "$options" -- "$current")) ;;',
            '        *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;',
            "    esac",
            "}",
            "complete -o bashdefault -o default -F _calibrant calibrant",
        ]
    )


def zsh(commands: list[Command]) -> str:
    """Return a completion script for zsh."""
    cases = [
        "\n".join([f"        {command.name})", "            _arguments \\", *_zsh_options(command)])
        for command in commands
    ]
    return "\n".join(
        [
            "#compdef calibrant",
            "_calibrant() {",
            "    local -a commands",
            "    commands=(",
            *(f"        {_quoted(f'{c.name}:{c.help}')}" for c in commands),
            "    )",
            "    if (( CURRENT == 2 )); then",
            "        _describe command commands",
            "        return",
            "    fi",
            "    local command=$words[2]",
            "    shift words; (( CURRENT-- ))",
            "    case $command in",
            *cases,
            "    esac",
            "}",
            'if [ "$funcstack[1]" = _calibrant ]; then _calibrant "$@"; else',
            "    compdef _calibrant calibrant",
            "fi",
        ]
    )


def _zsh_options(command: Command) -> list[str]:
    lines = []
    for option in command.options:
        about = option.help.replace("[", "(").replace("]", ")").replace(":", ",")
        values = f"({' '.join(option.choices)})" if option.choices else "_files"
        value = f":{option.metavar}:{values}" if option.takes_value else ""
        lines += [f"                {_quoted(f'{f}[{about}]{value}')} \\" for f in option.flags]
    plain = next((a.choices for a in command.arguments if not a.flags and a.choices), ())
    rest = f"*:value:({' '.join(plain)})" if plain else "*:file:_files"
    return [*lines, f"                {_quoted(rest)} ;;"]


def fish(commands: list[Command]) -> str:
    """Return a completion script for fish."""
    lines = ["complete -c calibrant -n __fish_use_subcommand -f"]
    for command in commands:
        about = _quoted(command.help)
        lines.append(f"complete -c calibrant -n __fish_use_subcommand -a {command.name} -d {about}")
        head = f"complete -c calibrant -n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            names = [f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags]
            value = " -r" if option.takes_value else ""
            if option.choices:
                value = f" -x -a '{' '.join(option.choices)}'"
            lines.append(f"{head} {' '.join(names)}{value} -d {_quoted(option.help)}")
        for argument in command.arguments:
            if not argument.flags and argument.choices:
                lines.append(f"{head} -f -a '{' '.join(argument.choices)}'")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Return the text in single quotes that any of the shells reads back."""
    return "'" + text.replace("'", "'\\''") + "'"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(reference())
    else:
        page = Path(sys.argv[1])
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")
