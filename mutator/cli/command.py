"""The form of a command: its options, its function, its answer, and examples."""

import argparse
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from mutator.errors.quick_dataclass import dataclass

Value = TypeVar("Value")
_PATHS = {
    "DIR",
    "FILE",
    "PATH",
    "BASE",
    "PLACE",
    "OLD",
    "NEW",
    "TABLE",
    "TARGET",
    "IN_PATHS",
    "OUT_PATH",
}  # what options and arguments are called
_OF_WINDOWS = re.compile(r"([A-Za-z]):[\\/](.*)", re.DOTALL)
Option = Callable[[Any], Any]  # adds itself to a parser, or to a group of one


@dataclass(frozen=True)
class Answer:
    """A text to print on stdout, the warnings to print on stderr before it, and the exit code."""

    text: str
    warnings: Sequence[str] = ()
    code: int = 0


@dataclass(frozen=True)
class CommandReport(Answer):
    """A report of work. With --quiet it is printed only if it is JSON, or if the exit code is not 0."""


class CommandRows(NamedTuple):
    """Rows to write to stdout as they are, each with a line feed."""

    rows: Iterator[bytes]


@dataclass(frozen=True)
class _Named(ABC):
    name: str
    help: str  # one line, without a full stop

    @property
    @abstractmethod
    def epilog(self) -> str:
        """Return the end of the help."""

    @property
    def description(self) -> str:
        """Return the help as a sentence."""
        return f"{self.help[0].upper()}{self.help[1:]}."

    def add_to(self, commands: Any, parent: argparse.ArgumentParser) -> None:
        """Add the command to the subparsers of a parser, which add its options when the command is parsed."""
        texts = {"help": self.help, "description": self.description, "epilog": self.epilog}
        parser = commands.add_parser(self.name, **texts)
        parser.fill, parser.parent = self.fill, parent

    @abstractmethod
    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add options or commands to a parser."""


@dataclass(frozen=True)
class Command(_Named):
    """A command: its options, and the function that carries it out."""

    options: Sequence[Option]
    carry_out: Callable[[argparse.Namespace], Iterator[Answer | CommandRows]]
    when_stopped: str = "nothing was published"  # printed after Ctrl-C
    examples: Sequence[str] = ()  # whole command lines, for the help

    @property
    def epilog(self) -> str:
        """Return the examples."""
        title = "example:" if len(self.examples) == 1 else "examples:"
        return "\n  ".join([title, *self.examples]) if self.examples else ""

    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a parser."""
        for add in self.options:
            add(parser)
        parser.set_defaults(carry_out=self.carry_out, when_stopped=self.when_stopped)


@dataclass(frozen=True)
class Group(_Named):
    """A command that has commands of its own."""

    commands: tuple[Command, ...]

    @property
    def epilog(self) -> str:
        """Return where the examples are."""
        return f"mutator {self.name} COMMAND --help shows the options of a command, and examples."

    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add the commands to a parser."""
        add_commands(parser, self.commands)


def add_commands(parser: argparse.ArgumentParser, commands: Sequence[Command | Group]) -> None:
    """Add commands to a parser; a command line without one prints the help."""
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in commands:
        command.add_to(subparsers, parser)
    parser.set_defaults(carry_out=lambda _: iter([Answer(parser.format_help().rstrip())]))


def option(*names: str, old: str | None = None, **settings: Any) -> Option:
    """Return an option or argument of a command. names, settings: as ``add_argument`` of argparse takes them.

    old: another spelling, an earlier one or that of other commands, which works, but is not in the help.
    Without an ``action``, an option may be given only once. An empty path is an error: it is a variable of a shell that
    is not set, and would be the current directory.
    """
    given: dict[str, Any] = {"action": _Once} if names[0].startswith("-") else {}
    if settings.get("metavar", names[0].upper()) in _PATHS:
        given["type"] = _path

    def add_to(parser: Any) -> argparse.Action:
        action: argparse.Action = parser.add_argument(*names, **{**given, **settings})
        if old is not None:
            parser._option_string_actions[old] = action
        return action

    return add_to


def _path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    if os.path.exists(text):
        return text
    if len(text) > 2 and text[0] == text[-1] and text[0] in "'\"":
        raise argparse.ArgumentTypeError(f"{text} has quotes within the path; leave out one pair of quotes")
    if text.startswith("~/"):
        raise argparse.ArgumentTypeError(f"{text}: a shell does not expand ~ within quotes; write $HOME{text[1:]}")
    if os.name != "nt" and (match := _OF_WINDOWS.fullmatch(text)):
        drive, rest = match[1].lower(), match[2].replace("\\", "/")
        raise argparse.ArgumentTypeError(f"{text} is a path of Windows; in WSL it is /mnt/{drive}/{rest}")
    return text


class _Once(argparse.Action):
    """Store the value of an option; a second one is an error, because nobody could see which of them counts."""

    def __call__(self, parser: Any, namespace: Any, value: Any, option_string: str | None = None) -> None:
        given = namespace.__dict__.setdefault("_given", set())
        if self.dest in given:
            raise argparse.ArgumentError(self, "is given twice; give it once")
        given.add(self.dest)
        setattr(namespace, self.dest, value)


def one_of(*options: Option) -> Option:
    """Return a choice of options, of which a command line has exactly one."""
    return _choice(options, required=True)


def at_most_one_of(*options: Option) -> Option:
    """Return a choice of options, of which a command line has one or none."""
    return _choice(options, required=False)


def _choice(options: Sequence[Option], *, required: bool) -> Option:
    def add_to(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for add in options:
            add(group)

    return add_to


def option_type(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a parser of settings as an option's ``type``: its ValueError becomes a message of argparse."""

    def convert(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as fault:
            raise argparse.ArgumentTypeError(f"{text!r} {fault}") from None

    return convert
