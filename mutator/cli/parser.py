"""The parser of a command line: argparse with options that every command has, and with errors in other words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from mutator.cli.messages import error_line
from mutator.cli.progress_line import CHOICES
from mutator.cli.usage import DASHES, Options, Usage, listed
from mutator.config.sources import suggestion
from mutator.errors.display import one_line
from mutator.errors.version import VERSION


class Parser(argparse.ArgumentParser):
    """A parser whose options are added when they are needed; the last are ``-q``, ``-v`` and ``--progress``."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None  # adds the other options
    parent: Parser | None = None  # of which it is a command
    _words: Sequence[str] = ()

    def __init__(self, **settings: Any) -> None:
        # A shortened option would become another one, or an error, as soon as a new option begins like it.
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, "exit_on_error": False, **settings})
        self._is_complete = False
        self._words: list[str] = []  # that were parsed last

    def complete(self) -> None:
        """Add all options and commands."""
        if self._is_complete:
            return
        self._is_complete = True
        if self.fill is not None:
            self.fill(self)
        for *names, action, text in (("-q", "--quiet", "store_true", _QUIET), ("-v", "--verbose", "count", _VERBOSE)):
            # Without a default: a command must not overwrite what was given before its name.
            self.add_argument(*names, action=action, default=argparse.SUPPRESS, help=text)
        self.add_argument("--progress", choices=CHOICES, default=argparse.SUPPRESS, help=_PROGRESS)

    def all_actions(self) -> Iterator[argparse.Action]:
        """Yield every option and argument, also those of all commands."""
        self.complete()
        yield from self._actions
        for parser in self.commands.values():
            yield from parser.all_actions()

    @property
    def commands(self) -> Mapping[str, Parser]:
        """Return the parsers of commands, by name."""
        groups = (one.choices for one in self._actions if isinstance(one, argparse._SubParsersAction))
        return next(groups, {})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words as argparse does, but name an unknown option before one that is missing, and no rest is left."""
        self.complete()
        self._words = sys.argv[1:] if args is None else list(args)
        # The options of a command follow its name.
        own = takewhile(lambda word: word[:1] == "-", self._words) if self.commands else self._words
        self._check_options(own)
        try:
            parsed, rest = super().parse_known_args(self._words, namespace)
        except argparse.ArgumentError as fault:
            self.error(fault.message if fault.argument_name is None else self._usage.of_option(fault))
        places = getattr(parsed, "places", {})
        if rest:
            lacking = [name for name, needed in places.items() if needed and getattr(parsed, name) is None]
            self.error(self._usage.too_many(rest, self._usage.called(lacking)))
        if places and not self.commands:
            parsed.usage = lambda: self._usage  # for messages of what reads the configuration file
        return parsed, rest

    @property
    def _usage(self) -> Usage:
        """Return what messages need; the options of all commands are added once a message needs them."""

        def others() -> Mapping[str, Options]:
            return {leaf.prog: leaf._option_string_actions for leaf in self._root._leaves() if leaf is not self}

        arguments = [action for action in self._actions if not action.option_strings]
        return Usage(self._words, self._option_string_actions, arguments, others, self.prog)

    @property
    def _root(self) -> Parser:
        return self if self.parent is None else self.parent._root

    def _leaves(self) -> Iterator[Parser]:
        """Yield the parsers of all commands that have no commands of their own."""
        self.complete()
        for parser in self.commands.values():
            yield from parser._leaves()
        if not self.commands:
            yield self

    def _check_options(self, words: Iterable[str]) -> None:
        known = self._option_string_actions
        for word in takewhile(lambda word: word != "--", words):
            name = word.partition("=")[0]
            # The letters after a known one are another option or a value: -qv, -Dkey=value
            is_short = word[:1] == "-" and word[1:2].isalpha() and word[:2] not in known
            is_dash = word[:1] in DASHES and f"--{name.lstrip('-' + DASHES)}" in known
            if is_short or is_dash or (name.startswith("--") and name not in known):
                self.error(self._usage.unknown_option(name))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is not one of the choices, and suggest the nearest."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        if not isinstance(action, argparse._SubParsersAction):
            message = f"{value!r} is not one of {', '.join(known)}{suggestion(value, known)}"
            raise argparse.ArgumentError(action, message)
        elsewhere = {leaf.prog: leaf.prog.split()[-1] for leaf in self._root._leaves()}
        whole = value.replace("-", " ").replace("_", " ")
        named = [prog for prog, name in elsewhere.items() if name == value or prog.endswith(f" {whole}")]
        if f"--{value}" in self._option_string_actions:
            named = [f"{self.prog} --{value}"]
        if named:
            near = f"; did you mean {listed(named, 'or')}?"
        else:
            near = suggestion(value, [*known, *elsewhere.values()])
        self.error(f"there is no command {value}{near or '; the commands are ' + ', '.join(known)}")

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help, and exit."""
        text = f"{self._usage.of_line(message)} ({self.prog} --help)"
        self.exit(2, error_line(self.prog, one_line(text)))


class _Formatter(argparse.HelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap a description, but keep the lines of examples."""
        return text if "\n" in text else super()._fill_text(text, width, indent)


class VersionAction(argparse.Action):
    """Print the version of mutator and of what it runs on, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser._print_message(f"{version_line()}\n", sys.stdout)
        parser.exit()


def version_line() -> str:
    """Return the versions of mutator and of what it runs on."""
    from importlib.metadata import PackageNotFoundError, version  # takes longer than the rest

    parts = [f"Python {sys.version.split()[0]}"]
    for name in ("pyspark", "pyarrow"):
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            parts.append(f"no {name}")
    return f"mutator {VERSION} ({', '.join(parts)})"


_QUIET = "print errors only: no warnings, no progress, and no report unless it is --json"
_PROGRESS = "show the progress of long work on a terminal (auto, the default), or do not (off)"
_VERBOSE = "print each step on stderr, with its time, and the whole report; -vv adds the Python traceback of an error"
