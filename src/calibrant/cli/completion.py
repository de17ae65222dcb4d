"""calibrant completion."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli import OK
from calibrant.cli.output import emit
from calibrant.cli.parser import add_command
from calibrant.cli.reference import Command, commands_of

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """
source <(calibrant completion bash)
calibrant completion bash > ~/.local/share/bash-completion/completions/calibrant
calibrant completion zsh > "${fpath[1]}/_calibrant"
calibrant completion fish > ~/.config/fish/completions/calibrant.fish
"""


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
        for option in command.options:
            lines.append(f"{_fish_head(command)} {_fish_option(option)}")
        for argument in command.arguments:
            if not argument.flags and argument.choices:
                lines.append(f"{_fish_head(command)} -f -a '{' '.join(argument.choices)}'")
    return "\n".join(lines)


def _fish_head(command: Command) -> str:
    return f"complete -c calibrant -n '__fish_seen_subcommand_from {command.name}'"


def _fish_option(option: Any) -> str:
    names = [f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags]
    choices = f" -x -a '{' '.join(option.choices)}'" if option.choices else ""
    value = " -r" if option.takes_value and not option.choices else ""
    return f"{' '.join(names)}{choices}{value} -d {_quoted(option.help)}"


def _quoted(text: str) -> str:
    """Return the text in single quotes that any of the shells reads back."""
    return "'" + text.replace("'", "'\\''") + "'"
