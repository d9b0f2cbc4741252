"""The command ``mutator completion``.

mutator completion bash|zsh|fish        print a script for the shell, which completes commands, options and paths
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from mutator.cli.command import Command, CommandRows, option
from mutator.cli.parser import Parser

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
        (option("shell", choices=_SHELLS, help="the shell"),),
        carry_out,
        examples=(
            "mutator completion bash > ~/.local/share/bash-completion/completions/mutator",
            "mutator completion zsh > ~/.zfunc/_mutator  # with ~/.zfunc in fpath",
            "mutator completion fish > ~/.config/fish/completions/mutator.fish",
        ),
    )
