"""The sources of settings: ``.properties`` and TOML files, and ``key=value`` of the command line, all as flat text.

>>> parse_override("sync.mode=full")
('sync.mode', 'full')
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mutator.config.definitions import SETTINGS, SHORT, published
from mutator.errors import error
from mutator.errors.display import nearest_word

PLACES = ("master", "feed", "output", "base", "table")  # that a TOML file may name beside its settings
_NOT_LOCAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|/")


def read_settings(path: str | Path | None, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Read a configuration file and ``key=value`` overrides, which win whether prefixed or not; leave out its places.

    Raises ConfigError.
    """
    file = {} if path is None else _read_file(Path(path))
    return layered([file, parse_overrides(overrides)])


def layered(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge layers of settings: a later one wins, by whichever of its names it is given.

    >>> layered([{"rsbm.sync.mode": "full", "id.field.ordinals": "0"}, {"sync.mode": "partial", "key": "id"}])
    {'sync.mode': 'partial', 'key': 'id'}
    """
    settings: dict[str, Any] = {}
    for layer in layers:
        given = set(map(published, layer))
        settings = {key: value for key, value in settings.items() if published(key) not in given} | {**layer}
    return settings


def parse_override(text: str) -> tuple[str, str]:
    """Split one ``key=value`` of the command line; the key may be an option.

    >>> parse_override("sync.mode=full"), parse_override("--order-by=changed")
    (('sync.mode', 'full'), ('--order-by', 'changed'))
    """
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise error("usage", what=f"-D {text}: expected key=value, for example -D num.reducer=8")
    return key.strip(), value


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Return the settings of the command line. Raises ConfigError where two of them differ.

    >>> parse_overrides(["sync.mode=full", "num.reducer=8", "sync.mode=full"])
    {'sync.mode': 'full', 'num.reducer': '8'}
    """
    found: dict[str, str] = {}
    first: dict[str, str] = {}  # published name to the name that was given first
    for text in texts:
        key, value = parse_override(text)
        other = first.setdefault(published(key), key)
        if found.get(other, value) != value:
            what = f"the command line sets {other} to '{found[other]}', and {key} to '{value}'"
            raise error("usage", what=f"{what}: keep one of them")
        found[key] = value
    return found


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the end of a message on an unknown name: the nearest known one, if any is near.

    >>> suggestion("sync.mod", ["sync.mode"])
    '; did you mean sync.mode?'
    """
    near = nearest_word(name, known)
    return f"; did you mean {near}?" if near else ""


def _read_file(path: Path) -> dict[str, Any]:
    return (
        _settings_in(parsed_file(path, _one_table)) if path.suffix == ".toml" else parsed_file(path, _read_properties)
    )


def settings_in(text: str) -> dict[str, Any]:
    """Return the settings of a configuration in TOML, without its places.

    >>> settings_in('master = "master"\\nkey = "id"')
    {'key': 'id'}
    """
    return _settings_in(parse_toml(text))


def _settings_in(given: Mapping[str, Any]) -> dict[str, Any]:
    return flat({name: value for name, value in given.items() if not _is_place(name, value)})


def _is_place(name: str, value: Any) -> bool:
    return name in PLACES and not isinstance(value, Mapping)  # master.format without quotes is a table


def read_places(path: str | Path) -> dict[str, Any]:
    """Return the places that a TOML file names, relative to its directory: paths, and of the feed a list of paths.

    Raises ConfigError.
    """
    path = Path(path)
    given = parsed_file(path, _one_table) if path.suffix == ".toml" else {}
    found: dict[str, Any] = {}
    faults = []
    for name, value in given.items():
        if not _is_place(name, value):
            continue
        paths = value if name == "feed" and isinstance(value, list) else [value]
        if not paths or not all(isinstance(one, str) and one for one in paths):
            form = "a path, or a list of paths, as text" if name == "feed" else "a path, as text"
            faults.append(f"{name}: '{shown(value)}' must be {form}")
            continue
        beside = [in_directory_of(path, one) for one in paths]
        if name == "feed" and "-" in (*paths, *beside):
            faults.append("feed: '-' is stdin, which only the command line can name; leave it out, and give --feed -")
        found[name] = beside if name == "feed" else beside[0]
    if faults:
        raise error("config", where=path, faults="\n  ".join(["these places cannot be used:", *faults]))
    return found


def misspelled_places(path: str | Path, places: Sequence[str]) -> dict[str, str]:
    """Return the unknown settings of a TOML file that are like one of some places, each with that place."""
    given = parsed_file(Path(path), _one_table) if Path(path).suffix == ".toml" else {}
    known = {*SETTINGS, *SHORT, *PLACES}
    names = (name for name, value in given.items() if name not in known and not isinstance(value, Mapping))
    return {name: near for name in names if (near := nearest_word(name, places))}


def in_directory_of(file: Path, path: str) -> str:
    """Return a path, relative to a file of settings, as one relative to the working directory."""
    return path if _NOT_LOCAL.match(path) else posixpath.normpath(posixpath.join(file.parent.as_posix(), path))


def _one_table(text: str) -> dict[str, Any]:
    """Parse the TOML of one master. Raises ValueError, also for that of many tables."""
    found = parse_toml(text)
    if isinstance(found.get("tables"), Mapping):
        raise ValueError("it has several tables ([tables.NAME]), which mutator run-many merges")
    return found


def parsed_file(path: Path, parse: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return the content of a file of settings. Raises ConfigError; ``parse`` raises ValueError."""
    try:
        return parse(path.read_bytes().decode("utf-8-sig"))
    except OSError as fault:
        raise error("config.file", path=path, why=fault.strerror or fault) from None
    except UnicodeDecodeError as fault:
        raise error("config.file", path=path, why=f"byte {fault.start} is not UTF-8") from None
    except ValueError as fault:  # a TOML or \\u syntax error, or a duplicate key
        raise error("config.file", path=path, why=fault) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError.

    >>> parse_toml('key = "id"')
    {'key': 'id'}
    """
    import tomllib  # here, because only the driver reads files, and some are .properties

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        hint = "; a key is given twice, or one with dots needs quotes" if "overwrite a value" in str(fault) else ""
        raise ValueError(f"{fault}{hint}") from None


def _read_properties(text: str) -> dict[str, str]:
    import javaproperties  # here, because only the driver reads files, and workers need not have it

    found: dict[str, str] = {}
    line = 1
    for part in javaproperties.parse(text):
        if isinstance(part, javaproperties.KeyValue):
            if found.get(part.key, part.value) != part.value:
                raise ValueError(f"line {line}: '{part.key}' is set twice with different values; keep one of the lines")
            found[part.key] = part.value
        line += part.source.count("\n")
    return found


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested tables of TOML into dotted keys.

    >>> flat({"id": {"field": {"ordinals": [0, 2]}}})
    {'id.field.ordinals': [0, 2]}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def shown(value: Any) -> str:
    """Write a TOML value as a properties file would have it.

    >>> shown([0, 2]), shown(True)
    ('0,2', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(shown(part) for part in value)
    return str(value)
