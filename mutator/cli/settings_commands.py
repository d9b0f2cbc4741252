"""The command ``mutator settings``.

mutator settings [NAME] [--json | --schema]

The command ``mutator completion``.

mutator completion bash|zsh|fish        print a script for the shell, which completes commands, options and paths

The command ``mutator help``.

mutator help [COMMAND]                  print the help of a command, or of all
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator

from mutator.cli import options
from mutator.cli.command import Answer, Command, CommandRows, option
from mutator.cli.parser import Parser
from mutator.config import reference
from mutator.errors import error

_SHELLS = ("bash", "zsh", "fish")
_DIRECTORIES, _FILES = ("BASE", "DIR"), ("FILE", "PATH", "TABLES.toml")  # metavars


def completion(program: Callable[[], Parser]) -> Command:
    """Return the command that prints a completion script. program: returns the parser of all commands."""

    def carry_out(arguments: argparse.Namespace) -> Iterator[CommandRows]:
        import shtab  # no other command needs it

        parser = program()
        for action in parser.all_actions():
            if action.metavar in _DIRECTORIES:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.metavar in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        yield CommandRows(line.encode() for line in shtab.complete(parser, arguments.shell).splitlines())

    return Command(
        "completion",
        "print a script that lets a shell complete commands, options and paths",
        (option("shell", choices=_SHELLS, metavar="SHELL", help="bash, zsh or fish"),),
        carry_out,
        examples=(
            "mutator completion bash > ~/.local/share/bash-completion/completions/mutator",
            "mutator completion zsh > ~/.zfunc/_mutator  # with ~/.zfunc in fpath",
            "mutator completion fish > ~/.config/fish/completions/mutator.fish",
        ),
    )


def help_command(program: Callable[[], Parser]) -> Command:
    """Return the command that prints the help of another one. program: returns the parser of all commands."""

    def carry_out(arguments: argparse.Namespace) -> Iterator[Answer]:
        program().parse_args([*arguments.words, "--help"])
        yield from ()  # --help has printed it, and ends the command

    return Command(
        "help",
        "print the help of a command",
        (option("words", nargs="*", metavar="COMMAND", help="a command, such as run or table apply"),),
        carry_out,
        examples=("mutator help run", "mutator help table apply"),
    )


def _settings(arguments: argparse.Namespace) -> Iterator[Answer]:
    name = arguments.name
    if arguments.schema:
        if name is not None:
            raise error("usage", what=f"the schema has all settings: leave out {name}, or --schema")
        yield Answer(_json(reference.json_schema()))
    elif arguments.json:
        yield Answer(_json(reference.json_of_settings() if name is None else reference.json_of_setting(name)))
    else:
        yield Answer(reference.text_of_settings() if name is None else reference.text_of_setting(name))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


SETTINGS = Command(
    "settings",
    "list all settings, or explain one",
    (
        option("name", nargs="?", metavar="NAME", help="name of a setting, short or published"),
        options.JSON,
        option("--schema", action="store_true", help="print the JSON schema of a configuration in TOML, for editors"),
    ),
    _settings,
    examples=("mutator settings", "mutator settings order_by", "mutator settings --schema > mutator.schema.json"),
)
