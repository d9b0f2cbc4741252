"""docs/json.schema.json: the schema of the documents that ``--json`` prints, with the texts of docs/json.md."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.cluster import ROOT

FILE = ROOT / "docs" / "json.schema.json"
_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What the commands of mutator print with --json",
    "description": "One definition for each heading of json.md. Later versions add members.",
    "$defs": {},
}


def schema() -> dict[str, Any]:
    """Return the schema; one without definitions if there is no file."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else dict(_HEAD)


def add(heading: str, found: dict[str, Any], meanings: dict[str, str], optional: set[str]) -> None:
    """Add the types of a printed object to its definition in the file. meanings: member -> its text on the page."""
    whole = schema()
    known = whole["$defs"].get(heading, {}).get("properties", {})
    properties = {}
    for name, meaning in meanings.items():
        types = {*known.get(name, {}).get("type", ())}
        if name in found and found[name] is not None:
            types.add(_TYPES[type(found[name])])
        if "`null`" in meaning or (name in found and found[name] is None):
            types.add("null")
        types -= {"integer"} if "number" in types else set()
        properties[name] = {"description": meaning} | ({"type": sorted(types)} if types - {"null"} else {})
    made = {"type": "object", "properties": properties, "required": [one for one in meanings if one not in optional]}
    whole["$defs"] = dict(sorted({**whole["$defs"], heading: made}.items()))
    FILE.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")


def meanings(page: str, heading: str) -> dict[str, str]:
    """Return the members below a heading of the page, with their texts, without links."""
    section = _section(page, rf".*`{re.escape(heading)}`.*")
    common = _rows(_section(page, "Common members"))
    named = re.search(r"Common: ([^.]*)\.", section)
    return (
        {name: common[name] for name in re.findall(r"`(\w+)`", named[1])} | _rows(section) if named else _rows(section)
    )


def _section(page: str, heading: str) -> str:
    found = re.search(rf"^## {heading}\n((?:(?!## ).*\n)*)", page, re.MULTILINE)
    assert found, heading
    return found[1]


def _rows(section: str) -> dict[str, str]:
    """Return the members in the tables of a section, with their texts."""
    found = {}
    for names, text in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", section, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), plain)
    return found
