"""The settings for readers: as Markdown, as text of a terminal, as JSON and as a JSON schema.

>>> text_of_setting("op.code.keep").splitlines()[0]
'op.code.keep'
"""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from mutator.config.definitions import OF_FIELDS, OTHERS, SECTIONS, SETTINGS, SHORT, definition
from mutator.config.definitions.setting import Setting
from mutator.config.sources import PLACES, suggestion
from mutator.errors import error

_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_WIDTH = 100
_INDENT = 34


def markdown_reference() -> str:
    """Return all settings as the sections of a Markdown page, with links relative to docs/."""
    tables = (f"## {section.title}\n\n{_markdown_table(settings)}" for section, settings in SECTIONS.items())
    return "\n\n".join(tables) + "\n"


def markdown_of_short_names() -> str:
    """Return the settings with short names as a Markdown table."""
    lines = ["| setting | published name | default | meaning |", "|---|---|---|---|"]
    for short, setting in SHORT.items():
        lines.append(f"| `{short}` | `{setting.name}` | {_default(setting) or '–'} | {setting.meaning} |")
    return "\n".join(lines) + "\n"


def _markdown_table(settings: Iterable[Setting]) -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for setting in settings:
        first, *others = (f"`{name}`" for name in _names(setting))
        names = first + (f" ({', '.join(others)})" if others else "")
        lines.append(f"| {names} | {_default(setting) or '–'} | {setting.meaning} |")
    return "\n".join(lines)


def _names(setting: Setting) -> list[str]:
    """Return the names of a setting, the one to use first."""
    published = (setting.flag, setting.name) if setting.short else (setting.name, setting.flag)
    return [name for name in (setting.short, *published) if name is not None]


def _default(setting: Setting) -> str:
    """Return the default as Markdown."""
    if setting.default:
        return f"`{setting.default}`"
    return "nothing" if setting.default == "" else setting.unset


def _sentence(setting: Setting) -> str:
    """Return the meaning and the default as text."""
    default = _plain(_default(setting))
    return _plain(setting.meaning) + (f" (default {default})" if default else "")


def text_of_settings() -> str:
    """Return all settings as text: names, defaults and meanings."""
    blocks = []
    for section, settings in SECTIONS.items():
        lines = [section.title]
        for setting in settings:
            names = ", ".join(filter(None, (setting.short, setting.name)))
            wrapped = textwrap.wrap(_sentence(setting), _WIDTH - _INDENT, break_on_hyphens=False)
            first, rest = (wrapped[0], wrapped[1:]) if len(names) < _INDENT - 2 else ("", wrapped)
            lines.append(f"  {names:<{_INDENT - 2}}{first}".rstrip())
            lines += [" " * _INDENT + line for line in rest]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def text_of_setting(name: str) -> str:
    """Return one setting as text, given any of its names. Raises ConfigError for an unknown name.

    >>> print(text_of_setting("order_type"))
    order_type
      option      --order-type
      published   temporal.ordering.field.type
      default     long
      meaning     the type of order values in text: long (64-bit), decimal, timestamp (ISO 8601; UTC if
                  no zone is given) or string (byte order); leave it out where the field is typed. For
                  several fields, one for each; with desc after it, the lowest value of the field wins:
                  timestamp, long desc, or desc alone where the field is typed
    """
    setting = _known(name)
    values = setting.form.schema.get("enum")
    rows = {
        "option": setting.flag,
        "published": setting.name if setting.short else None,
        "values": ", ".join(values) if values else None,
        "default": _plain(_default(setting) or "none"),
        "meaning": _plain(setting.meaning),
    }
    lines = [setting.short or setting.name]
    for title, value in rows.items():
        if value is not None:
            first, *rest = textwrap.wrap(value, _WIDTH - 14, break_on_hyphens=False)
            lines += [f"  {title:<12}{first}", *(" " * 14 + line for line in rest)]
    return "\n".join(lines)


def json_of_setting(name: str) -> dict[str, Any]:
    """Return one setting as JSON has it, given any of its names. Raises ConfigError for an unknown name."""
    setting = _known(name)
    return {
        "name": setting.name,
        "short": setting.short,
        "option": setting.flag,
        "default": setting.default,
        "unset": setting.unset or None,
        "meaning": _plain(setting.meaning),
        "schema": dict(setting.form.schema),
    }


def json_of_settings() -> list[dict[str, Any]]:
    """Return all settings as JSON has them, see ``json_of_setting``."""
    return [json_of_setting(name) for name in SETTINGS]


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration in TOML, for editors.

    A published name may be one key in quotes, or tables within tables (``op.code.keep``), and each may have the prefix
    of the original job.
    """
    tree = _Node()
    for setting in SETTINGS.values():
        if setting.name.startswith(OF_FIELDS):
            continue
        for name in (setting.short, setting.name):
            if name is not None:
                tree.add(name.split("."), setting)
    properties = tree.schema()["properties"]
    properties |= {
        setting.name: _schema_of(setting) for setting in SETTINGS.values() if not setting.name.startswith(OF_FIELDS)
    }
    for name, (setting_name, values) in OTHERS.items():
        other = {"enum": [*map(int, values)], "description": f"Another name of {setting_name}"}
        first, _, last = name.partition(".")
        properties[first] = {"type": "object", "properties": {last: other}, "additionalProperties": False}
        properties[name] = other
    for name in PLACES:
        path: dict[str, Any] = {"type": "string", "description": "A path, relative to the file"}
        if name == "feed":
            path |= {"type": ["string", "array"], "items": {"type": "string"}}
        properties[name] = {"anyOf": [path, properties[name]]} if name in properties else path
    value = {"type": ["string", "number", "boolean"]}
    for prefix in OF_FIELDS:
        *parents, last = prefix[:-1].split(".")
        of_fields = properties
        for name in parents:
            of_fields = of_fields.setdefault(name, {"type": "object", "properties": {}, "additionalProperties": False})[
                "properties"
            ]
        of_fields[last] = {
            "type": "object",
            "additionalProperties": value,
            "description": _sentence(SETTINGS[f"{prefix}FIELD"]),
        }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "mutator",
        "description": "Settings of mutator",
        "type": "object",
        "properties": properties,
        "patternProperties": {**{f"^{re.escape(prefix)}": value for prefix in OF_FIELDS}, r"^rsbm(\.|$)": {}},
        "additionalProperties": False,
    }


class _Node:
    """A key of a TOML table: a value, a table, or either, as ``op = 4`` and ``op.code.keep = true``."""

    def __init__(self) -> None:
        self.setting: Setting | None = None
        self.parts: dict[str, _Node] = {}

    def add(self, path: Sequence[str], setting: Setting) -> None:
        """Add a setting below this key."""
        if path:
            self.parts.setdefault(path[0], _Node()).add(path[1:], setting)
        else:
            self.setting = setting

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the key's value."""
        found = [_schema_of(self.setting)] if self.setting is not None else []
        if self.parts:
            properties = {name: part.schema() for name, part in self.parts.items()}
            found.append({"type": "object", "properties": properties, "additionalProperties": False})
        return found[0] if len(found) == 1 else {"anyOf": found}


def _schema_of(setting: Setting) -> dict[str, Any]:
    return {**setting.form.schema, "description": _sentence(setting)}


def _known(name: str) -> Setting:
    try:
        return definition(name)
    except KeyError:
        near = suggestion(name, (*SETTINGS, *SHORT)) or "; mutator settings lists all"
        raise error("usage", what=f"{name} is not a known setting{near}") from None


def _plain(text: str) -> str:
    """Return Markdown without its marks.

    >>> _plain("`csv` ([formats](formats.md))")
    'csv (formats)'
    """
    return _LINK.sub(r"\1", text).replace("`", "")
