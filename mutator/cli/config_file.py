"""The configuration file of a command, and the places that it names.

It is that of ``--config``, or else ``mutator.toml`` of the current directory. Jobs search nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from mutator.cli.command import Option, option
from mutator.cli.messages import notify
from mutator.cli.usage import listed
from mutator.config.sources import misspelled_places, read_places
from mutator.errors import error

NAME, NONE = "mutator.toml", "none"
TABLES = "tables"  # the argument that is the file itself


def place(*names: str, **settings: Any) -> Option:
    """Return an option or argument that names a place, which the configuration file may name instead.

    needed: False if the command can do without the place.
    """
    needed = settings.pop("needed", True)
    if not names[0].startswith("-"):
        settings["nargs"] = "?"
    add = option(*names, **settings)

    def add_to(parser: argparse.ArgumentParser) -> None:
        action = add(parser)
        parser.set_defaults(places={**(parser.get_default("places") or {}), action.dest: needed})

    return add_to


def is_named(arguments: argparse.Namespace) -> bool:
    """Return whether ``--config`` names the configuration file."""
    return arguments.config is not None and not getattr(arguments, "has_found_config", False)


def read_by(arguments: argparse.Namespace, *, searches: bool) -> None:
    """Let a command read its configuration file, and take the places from it that the command line lacks.

    searches: read ``mutator.toml`` of the current directory without ``--config``. Raises ConfigError, also for a place
    that may be one of several words after an option.
    """
    is_here = searches and os.path.lexists(NAME)
    places: Mapping[str, bool] = getattr(arguments, "places", {})
    found: dict[str, Any] = {}
    if not hasattr(arguments, "config"):
        if is_here and TABLES in places and arguments.tables is None:
            notify(arguments, f"reads {NAME} of this directory")
            _check_kind()
            found = {TABLES: NAME}
    elif arguments.config is None and is_here:
        arguments.config, arguments.has_found_config = NAME, True
        notify(arguments, f"reads {NAME} of this directory; --config {NONE} leaves it out")
        _check_kind()
    elif arguments.config == NONE:
        arguments.config, searches = None, False
    wanted = {name for name in places if getattr(arguments, name) is None}
    if "base" in places and "base" not in wanted:
        wanted.discard("table")  # that of the other base, which then notes a file that cannot be read
    if wanted and TABLES not in places and arguments.config is not None:
        found = read_places(arguments.config)
    if found:
        _check_words(arguments, {name: found[name] for name in places if name in wanted and name in found})
    for name in wanted:
        setattr(arguments, name, found.get(name))
    missing = [name for name, needed in places.items() if needed and getattr(arguments, name) is None]
    if getattr(arguments, "dry_run", False) and "output" in missing:
        missing.remove("output")
    if missing:
        usage = arguments.usage()
        what = usage.missing(usage.called(missing))
        config = getattr(arguments, "config", None) or (NAME if searches else "")
        where = config if config.endswith(".toml") else "a .toml file that --config names"
        lines = listed([f"{name} = …" for name in missing])
        give = "" if "; " in what else f"; give {'it' if len(missing) == 1 else 'them'}"
        cure = f"{give}, or write {lines} into {where}"
        has_file = TABLES not in missing and os.path.exists(config)
        misspelled = misspelled_places(config, missing) if has_file else {}
        if misspelled:
            meant = listed([f"{name} (did you mean {near}?)" for name, near in misspelled.items()])
            cure = f"; {config} has {meant}"
        if TABLES in missing:
            cure = f"; there is no {NAME} here" if searches else "; give it"
        raise error("usage", what=what + cure)


def _check_words(arguments: argparse.Namespace, found: Mapping[str, Any]) -> None:
    """Raise ConfigError if an argument that a file names may have been given after an option that takes every word."""
    usage = arguments.usage()
    named = [action for action in usage.called(found) if not action.option_strings]
    if named and (cure := usage.may_have_taken(named)):
        file = arguments.config or NAME
        lines = listed([f"{action.dest} = {found[action.dest]!r}" for action in named])
        raise error("usage", what=f"{file} has {lines}, but the words after an option may name another one{cure}")


def _check_kind() -> None:
    """Raise ConfigError for a FIFO or a device, which may never end, and which the user has not named."""
    if os.path.exists(NAME) and not os.path.isfile(NAME) and not os.path.isdir(NAME):
        raise error("config.file", path=NAME, why="it is a FIFO or a device, not a regular file")
