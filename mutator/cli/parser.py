"""The parser of a command line: argparse with options that every command has, and with suggestions."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from mutator.cli.messages import error_line
from mutator.config.sources import suggestion
from mutator.errors.display import one_line
from mutator.errors.version import VERSION


class Parser(argparse.ArgumentParser):
    """A parser whose options are added when they are needed; the last two are ``--quiet`` and ``--verbose``."""

    fill: Callable[[argparse.ArgumentParser], None] | None = None  # adds the other options
    elsewhere: Mapping[str, str] = {}  # name of a command that a group has -> the words that call it

    def __init__(self, **settings: Any) -> None:
        # A shortened option would become another one, or an error, as soon as a new option begins like it.
        super().__init__(**{"formatter_class": _Formatter, "allow_abbrev": False, **settings})
        self._is_complete = False

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

    def all_actions(self) -> Iterator[argparse.Action]:
        """Yield every option and argument, also those of all commands."""
        self.complete()
        for action in self._actions:
            yield action
            if isinstance(action, argparse._SubParsersAction):
                for parser in action.choices.values():
                    yield from parser.all_actions()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words as argparse does, but name an unknown option before one that is missing."""
        self.complete()
        words = sys.argv[1:] if args is None else list(args)
        # The options of a command follow its name.
        self._check_options(words if self._subparsers is None else takewhile(lambda word: word[:1] == "-", words))
        return super().parse_known_args(words, namespace)

    def _check_options(self, words: Iterable[str]) -> None:
        known = [name for name in self._option_string_actions if name.startswith("--")]
        for word in takewhile(lambda word: word != "--", words):
            name = word.partition("=")[0]
            if name.startswith("--") and name not in known:
                self.error(f"there is no option {name}{_suggested_option(name, known)}")
            # The letters after a known one are another option or a value: -qv, -Dkey=value
            if word[:1] == "-" and word[1:2].isalpha() and word[:2] not in self._option_string_actions:
                self.error(f"there is no option {name}{_suggested_option(f'-{name}', known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is not one of the choices, and suggest the nearest."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        if not isinstance(action, argparse._SubParsersAction):
            message = f"{value!r} is not one of {', '.join(known)}{suggestion(value, known)}"
            raise argparse.ArgumentError(action, message)
        full = self.elsewhere.get(value)
        near = f"; did you mean {full}?" if full else suggestion(value, known)
        self.error(f"there is no command {value}{near or '; the commands are ' + ', '.join(known)}")

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit."""
        self.print_usage(sys.stderr)
        self.exit(2, error_line(self.prog, one_line(message)))


def _suggested_option(name: str, known: Sequence[str]) -> str:
    """Return the end of a message on an unknown option: those that begin like it, or else the nearest one.

    >>> _suggested_option("--o", ["--order-by", "--master", "--output"])
    '; did you mean --order-by or --output?'
    """
    *others, last = [option for option in known if option.startswith(name)] or [""]
    if not last:
        return suggestion(name, known)
    return f"; did you mean {', '.join(others)} or {last}?" if others else f"; did you mean {last}?"


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
_VERBOSE = "print each step on stderr, with its time; -vv adds the Python traceback of an error"
