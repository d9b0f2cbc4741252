"""The commands ``mutator table …`` that name versions of a table.

mutator table tag TABLE NAME [--version V]     protect a version by a name
mutator table tags TABLE                       list the tags
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from mutator.cli import options
from mutator.cli.command import Answer, Command, Report, option
from mutator.cli.table_output_commands import TABLE, VERSION_TYPE
from mutator.errors import error
from mutator.errors.display import text_of
from mutator.pipeline.text_tables import aligned


def _tag(arguments: argparse.Namespace) -> Iterator[Report]:
    from mutator.table.table import Table

    if arguments.remove and (arguments.version is not None or arguments.move):
        raise error("usage", what="--remove is given beside --version or --move; give one of them")
    table = Table(arguments.table).refresh()
    before = table.version
    if arguments.remove:
        table.untag(arguments.name)
        tagged = None
    else:
        table.tag(arguments.name, arguments.version, move=arguments.move)
        tagged = table.tags()[arguments.name]
    if arguments.json:
        members = {"table": table.path, "version": table.version, "name": arguments.name, "tagged": tagged}
        yield Report(json.dumps(members, indent=1))
        return
    what = f"removed tag {arguments.name}" if tagged is None else f"tag {arguments.name} is version {tagged:,}"
    now = f"is now version {table.version:,}" if table.version > before else f"is still version {before:,}"
    yield Report(f"table {table.path} {now}: {what}")


def _tags(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.table.table import Table

    found = Table(arguments.table).tags()
    if arguments.json:
        members = [{"name": name, "version": version} for name, version in found.items()]
        yield Answer(json.dumps(members, indent=1))
        return
    rows = [("tag", "version"), *((name, f"{version:,}") for name, version in found.items())]
    yield Answer(text_of(aligned(rows, right={1})) if found else "no tags")


NAME = option("name", metavar="NAME", help="letters, digits, '_', '.' and '-', not only digits")
TAG_TABLE = Command(
    "tag",
    "protect a version of a table by a name, by which it can be read",
    (
        TABLE,
        NAME,
        option("--version", type=VERSION_TYPE, metavar="V", help="version or tag (default the newest)"),
        option("--move", action="store_true", help="take the name from another version, which loses its protection"),
        option("--remove", action="store_true", help="remove the tag"),
        options.JSON,
    ),
    _tag,
    when_stopped="the tags are as they were",
    examples=(
        "mutator table tag products january --version 31",
        "mutator table scan products --version january",
        "mutator table tag products january --remove",
    ),
)
TAGS = Command(
    "tags",
    "list the tags of a table",
    (TABLE, options.JSON),
    _tags,
    when_stopped="nothing was printed",
    examples=("mutator table tags products",),
)
