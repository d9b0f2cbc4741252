"""The form of a command, the options that several commands share, and what a command answers."""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from mutator.config import load

if TYPE_CHECKING:
    from mutator.config import Config

Value = TypeVar("Value")


@dataclass(frozen=True)
class Answer:
    """A text to print on stdout, the warnings to print on stderr before it, and the exit code."""

    text: str
    warnings: Sequence[str] = ()
    code: int = 0


@dataclass(frozen=True)
class Rows:
    """Rows to write to stdout as they are, each with a line feed."""

    rows: Iterator[bytes]


@dataclass(frozen=True)
class _Named(ABC):
    name: str
    help: str  # one line, without a full stop

    @property
    def description(self) -> str:
        """Return the help as a sentence."""
        return f"{self.help[0].upper()}{self.help[1:]}."

    def add_to(self, commands: Any) -> None:
        """Add the command to the subparsers of a parser."""
        self.fill(commands.add_parser(self.name, help=self.help, description=self.description))

    @abstractmethod
    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add options or commands to a parser."""


@dataclass(frozen=True)
class Command(_Named):
    """A command: its options, and the function that carries it out."""

    options: Callable[[argparse.ArgumentParser], None]
    carry_out: Callable[[argparse.Namespace], Iterator[Answer | Rows]]
    when_stopped: str = "nothing was published"  # printed after Ctrl-C

    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a parser."""
        self.options(parser)
        parser.set_defaults(carry_out=self.carry_out, when_stopped=self.when_stopped)


@dataclass(frozen=True)
class Group(_Named):
    """A command that has commands of its own."""

    commands: tuple[Command, ...]

    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add the commands to a parser."""
        subparsers = parser.add_subparsers(title="commands", required=True)
        for command in self.commands:
            command.add_to(subparsers)


def config_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the configuration."""
    parser.add_argument("--config", metavar="FILE", help="configuration file, .properties or .toml")
    setting_option(parser)


def setting_option(parser: argparse.ArgumentParser, overrides: str = "the configuration file") -> None:
    """Add the option for single settings."""
    parser.add_argument(
        "-D",
        action="append",
        default=[],
        dest="settings",
        metavar="KEY=VALUE",
        help=f"a setting, which overrides {overrides}; repeatable",
    )


def feed_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the feed."""
    parser.add_argument(
        "--feed", action="append", required=True, metavar="PATH", help="feed directory, file or pattern; repeatable"
    )


def output_option(parser: argparse.ArgumentParser, name: str = "--output") -> None:
    """Add the option that names a new directory."""
    parser.add_argument(name, required=True, metavar="DIR", help="output directory, which must not exist")


def partitioned_by_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that partitions a master."""
    parser.add_argument(
        "--partitioned-by",
        metavar="FIELDS",
        help="partition fields of the master, such as store_id,day=date(ts); the same as -D partitioned.by=FIELDS",
    )


def engine_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses the engine."""
    parser.add_argument(
        "--engine",
        choices=("auto", "blocks", "records"),
        default="auto",
        help="merge blocks of rows, or row by row (default auto: blocks wherever possible)",
    )


def dry_run_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes a run write nothing."""
    parser.add_argument("--dry-run", action="store_true", help="report what the run would do, and write nothing")


def json_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for output that programs read."""
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")


def option_type(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a parser of settings as an option's ``type``: its ValueError becomes a message of argparse."""

    def convert(text: str) -> Value:
        try:
            return parse(text)
        except ValueError as fault:
            raise argparse.ArgumentTypeError(f"{text!r} {fault}") from None

    return convert


def settings_of(arguments: argparse.Namespace) -> list[str]:
    """Return the settings of a command line, including ``--partitioned-by``."""
    by = arguments.partitioned_by
    return [*arguments.settings, *([] if by is None else [f"partitioned.by={by}"])]


def config_without_id(arguments: argparse.Namespace) -> Config:
    """Read the configuration of a command that merges nothing: without ``--config`` it needs no record ID."""
    record_id = ["id.field.ordinals=0"] if arguments.config is None else []
    return load(arguments.config, [*record_id, *arguments.settings])


def is_quiet(arguments: argparse.Namespace) -> bool:
    """Return whether progress and warnings would end up in the JSON: spark-submit redirects stderr to stdout."""
    if not arguments.json:
        return False
    from mutator.engine.spark.session import is_submitted

    return is_submitted()


def shown(report: Any, arguments: argparse.Namespace) -> str:
    """Return a report as JSON or as text, as the user asked for. report: anything with ``json()`` and ``text()``."""
    return str(report.json() if arguments.json else report.text())
