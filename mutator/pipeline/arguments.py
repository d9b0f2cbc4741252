"""Check the arguments of Python callers; every fault names the argument, the value, what is expected and the cure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.config.audience import PYTHON, Audience
from mutator.config.definitions import OF_FIELDS, OTHERS, PREFIX, SETTINGS, SHORT, published
from mutator.config.reader import SOURCE, completed
from mutator.config.sources import flat, layered, read_settings, suggestion
from mutator.errors import MutatorError, error, parts
from mutator.errors.display import without_secrets
from mutator.errors.exceptions import said_to
from mutator.errors.quick_dataclass import dataclass
from mutator.frames.dataset import Dataset
from mutator.frames.recognize import ARROW_STREAM, ARROW_TABLE, RDD, SPARK, described, is_connect, kind_of
from mutator.pipeline.master_settings import chained_settings
from mutator.rules.file_names import base_name
from mutator.storage import absolute, storage_for

CALL = "mutator.merge()"
_TABLE = "a table (a DataFrame of pandas, Polars or Spark, or anything with __arrow_c_stream__)"
_OF_FIELDS = {prefix[:-1].replace(".", "_"): prefix for prefix in OF_FIELDS}  # arguments that are mappings
_EXAMPLES = {
    "default": "the values of rows that lack them, {'price': 0}",
    "field_merge": "merge functions, {'price': 'max'}",
}
_KEY = "the field or fields of the record ID"
_KEY_CURE = "name them: key='id', or key=['shop', 'id'], or their ordinals from 0 where fields have no names"
_OTHERS = ("master", "feed", "output", "config", "session", "runner", "engine", "dry_run", "scratch", *_OF_FIELDS)


@dataclass(frozen=True)
class GivenArguments:
    """A master, or a part of a feed: a path, or a table in memory."""

    label: str  # for messages and the report
    path: str | None = None
    table: Any = None
    kind: str = ""  # of a table, as ``recognize.kind_of`` returns it
    dataset: Dataset | None = None  # whose data file the path is


def wrong(argument: str, value: Any, expected: str, cure: str = "") -> MutatorError:
    """Return the error of an argument. cure: a clause, if ``expected`` is not enough."""
    given = described(value)
    return error(
        "argument", call=CALL, argument=argument, given=given, expected=expected, cure=f"; {cure}" if cure else ""
    )


# --- settings


def config_of(config: Any, settings: Mapping[str, Any], master: str | None = None) -> Config:
    """Return the configuration of a call, with the settings of the last run of its master that are not given.

    settings: by the names of arguments; None means not given. master: its path; None: it is a table in memory.
    Raises ConfigError with every fault of the configuration, or the first wrong argument.
    """
    found = settings_of_call(config, settings)
    if isinstance(config, Config):
        return config.read_by(PYTHON)
    return config_of_place(found, {} if master is None else chained_settings(master, found.values), SOURCE)


@dataclass(frozen=True)
class CallSettings:
    """The settings of a call, by their keys in files. of_file: the keys of those from a file."""

    values: Mapping[str, Any]
    where: str  # the file, or the call
    of_file: frozenset[str] = frozenset()


def settings_of_call(config: Any, settings: Mapping[str, Any]) -> CallSettings:
    """Return the settings of a call, which override those of ``config``.

    settings: by the names of arguments; None means not given. Raises ConfigError for the first wrong argument.
    """
    given = settings_by_key(settings)
    if isinstance(config, Config):
        if given:
            what = f"config is a Config already, and {_first(settings)} is given, too"
            raise error("argument.both", call=CALL, what=what, cure="give config as a mapping or the path of a file")
        return CallSettings(config.given, CALL)
    if config is not None and not isinstance(config, str | os.PathLike | Mapping):
        raise wrong("config", config, "the path of a .properties or .toml file, a mapping of settings, or a Config")
    file = (
        {name: part for name, part in flat(config).items() if part is not None}
        if isinstance(config, Mapping)
        else read_settings(None if config is None else str(config))
    )
    where = str(config) if isinstance(config, str | os.PathLike) else CALL
    found = layered([dict(file), given])
    return CallSettings(found, where, frozenset(() if where == CALL else found.keys() - given.keys()))


def config_of_place(call: CallSettings, recorded: Mapping[str, Any], source: str) -> Config:
    """Return the configuration of a call, with the settings that a dataset has recorded. source: where it has them.

    Raises ConfigError with every fault found.
    """
    if "id.field.ordinals" not in map(published, [*call.values, *recorded]):
        raise wrong("key", None, _KEY, _KEY_CURE)
    with said_to(python_with(call.of_file).writers):
        found = completed(call.values, recorded, call.where, source=source)
    return found.read_by(PYTHON)


def python_with(of_file: Iterable[str]) -> Audience:
    """Return the audience of a call with a file, whose settings keep the names that they have there."""
    return replace(PYTHON, names={published(name): name.removeprefix(PREFIX) for name in of_file})


def settings_by_key(settings: Mapping[str, Any], others: Sequence[str] = _OTHERS) -> dict[str, Any]:
    """Return settings by their keys in files.

    settings: by the names of arguments; None means not given. others: the arguments that are not settings. Raises
    ConfigError for the first wrong argument.
    """
    known = setting_names()
    given: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _OF_FIELDS:
            given |= _of_fields(name, value)
        elif name not in known:
            near = suggestion(name, (*known, *others))
            raise error("argument.unknown", call=CALL, argument=name, near=near)
        elif value is not None:
            given[known[name]] = _setting(name, value)
    return given


def named(call: str) -> AbstractContextManager[None]:
    """Name another call than ``mutator.merge()`` in the errors of arguments."""
    return said_to({parts.CALL: lambda text: call if text == CALL else text})


def setting_names() -> dict[str, str]:
    """Return the name of the argument of each setting, and its key in files.

    >>> setting_names()["reject_policy"], setting_names()["key"]
    ('reject.policy', 'key')
    """
    names = [name for name in SETTINGS if not name.startswith(OF_FIELDS)]
    return {name.replace(".", "_"): name for name in (*names, *OTHERS)} | {name: name for name in SHORT}


def _setting(name: str, value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if name in ("key", "order_by", "op") and isinstance(value, bool):
        raise wrong(name, value, "the name of a field, or its ordinal from 0")
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        parts = value if isinstance(value, list | tuple) else sorted(value, key=repr)
        if not parts:
            expected, cure = (_KEY, _KEY_CURE) if name == "key" else ("a value, or a list of values", "leave it out")
            raise wrong(name, value, expected, cure)
        if all(_is_plain(part) for part in parts):
            return list(parts)
    raise wrong(name, value, "text, a number, True or False, or a list of these")


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _of_fields(argument: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(argument, value, f"a mapping of fields to {_EXAMPLES[argument]}")
    return {f"{_OF_FIELDS[argument]}{name}": part for name, part in value.items()}


def _first(settings: Mapping[str, Any]) -> str:
    return next(name for name, value in settings.items() if value is not None)


# --- inputs and output


def master_of(value: Any) -> list[GivenArguments]:
    """Return the master: one path, or one or more tables."""
    if isinstance(value, list | tuple):
        parts = [input_of("master", part, f"[{number}]") for number, part in enumerate(value)]
        if not parts or any(part.path is not None for part in parts):
            raise wrong("master", value, f"one path, {_TABLE}, or a list of tables", "a master has one directory")
        return parts
    if value is None:
        cure = "for a first run, give a table without rows, or a path with allow_empty_master=True"
        raise wrong("master", value, f"a path, or {_TABLE}", cure)
    return [input_of("master", value)]


def feed_of(value: Any) -> list[GivenArguments]:
    """Return the parts of a feed, paths and tables in any order."""
    if isinstance(value, list | tuple):
        if not value:
            raise wrong("feed", value, f"a path, {_TABLE}, or a list of these")
        return [one for number, part in enumerate(value) for one in _part_of_feed(part, f"[{number}]")]
    return _part_of_feed(value)


def _part_of_feed(value: Any, index: str = "") -> list[GivenArguments]:
    if not isinstance(value, Dataset):
        return [input_of("feed", value, index)]
    label = f"feed{index} ({value.label})"
    if value.has_types:
        return [GivenArguments(label, table=value, kind=ARROW_STREAM)]
    return [GivenArguments(f"{label}/{base_name(path)}", path, dataset=value) for path in value.files]


def path_of(argument: str, value: Any, expected: str) -> str | None:
    """Return a path; None if it is not given. Raises ConfigError."""
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise wrong(argument, value, expected)
    return str(value)


def scratch_of(value: Any) -> str | None:
    """Return the path of the directory for temporary files; None if it is not given. Raises ConfigError."""
    path = path_of("scratch", value, "the path of a directory that Spark's workers share, or None")
    if path is None:
        return None
    storage = storage_for(path)
    if storage.empty_directories and storage.stat(absolute(path)) is None:
        raise wrong("scratch", value, "the path of a directory that is there, or None")
    return path


def input_of(argument: str, value: Any, index: str = "") -> GivenArguments:
    """Return a path or a table. index: its place in a list, ``[0]``. Raises ConfigError for anything else."""
    label = f"{argument}{index}"
    if isinstance(value, Dataset):
        return GivenArguments(f"{label} ({value.label})", value.path)
    if isinstance(value, str | os.PathLike):
        if not str(value):
            raise wrong(label, value, f"a path, or {_TABLE}", "an empty text is not a path")
        return GivenArguments(without_secrets(str(value)), str(value))
    kind = kind_of(value)
    if kind == SPARK and is_connect(value):
        if not hasattr(value, "toArrow"):  # Spark 3.5
            raise wrong(label, value, "a DataFrame of a classic session", "give frame.toPandas()")
        from mutator.engine.spark.frames import collected

        return GivenArguments(f"{label} ({kind})", table=collected(value, f"{label} ({kind})"), kind=ARROW_TABLE)
    if kind is None:
        raise wrong(label, value, f"a path, or {_TABLE}", _cure_for(value))
    if kind == RDD:
        return GivenArguments(f"{label} ({kind})", table=_frame_of_rdd(label, value), kind=SPARK)
    return GivenArguments(f"{label} ({kind})", table=value, kind=kind)


def _frame_of_rdd(label: str, value: Any) -> Any:
    """Return the rows of an RDD as a DataFrame. Raises ConfigError for other elements, and for none."""
    from mutator.engine.spark.frames import frame_of_rdd

    frame = frame_of_rdd(value)
    if frame is None:
        expected = "an RDD whose first elements are Rows, dicts or pa.RecordBatches"
        raise wrong(label, value, expected, "give a DataFrame, whose schema says what the fields are")
    return frame


def _cure_for(value: Any) -> str:
    if isinstance(value, Mapping):
        return "pa.table(columns) makes a table of a mapping of columns"
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return "pa.Table.from_pylist(rows) makes a table of rows"
    if isinstance(value, Iterator):
        return "make a list of it, or a pa.RecordBatchReader"
    return ""


def one_of(argument: str, value: Any, choices: Sequence[str]) -> str:
    """Return a value that is one of some texts. Raises ConfigError."""
    if value not in choices:
        near = suggestion(value, choices).removeprefix("; ") if isinstance(value, str) else ""
        raise wrong(argument, value, f"one of {', '.join(map(repr, choices))}", near)
    return str(value)


def flag(argument: str, value: Any) -> bool:
    """Return True or False. Raises ConfigError for anything else."""
    if not isinstance(value, bool):
        raise wrong(argument, value, "True or False")
    return value
