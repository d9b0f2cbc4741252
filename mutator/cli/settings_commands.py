"""The command ``mutator settings``.

mutator settings [NAME] [--json | --schema]
"""

import argparse
import json
from collections.abc import Iterator

from mutator.cli import options
from mutator.cli.command import Answer, Command, option
from mutator.config import reference
from mutator.errors import error


def _settings(arguments: argparse.Namespace) -> Iterator[Answer]:
    name = arguments.name
    if arguments.schema:
        if name is not None:
            raise error("usage", what=f"the schema has all settings: leave out {name}, or --schema")
        yield Answer(_json(reference.json_schema()))
    elif arguments.json:
        yield Answer(_json(reference.json_of_settings() if name is None else reference.json_of_setting(name)))
    else:
        yield Answer(reference.text_of_settings() if name is None else reference.text_of_setting(name))


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


SETTINGS = Command(
    "settings",
    "list all settings, or explain one",
    (
        option("name", nargs="?", metavar="NAME", help="name of a setting, short or published"),
        options.JSON,
        option("--schema", action="store_true", help="print the JSON schema of a configuration in TOML, for editors"),
    ),
    _settings,
    examples=("mutator settings", "mutator settings order_by", "mutator settings --schema > mutator.schema.json"),
)
