"""The command ``mutator diff``: the records that two datasets do not have in common.

mutator diff OLD NEW [--config FILE]
mutator diff OLD --feed PATH…

The dataset that is compared: a directory, or a version of a base or of a table, put together of the rooms that know
them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from typing import Any

from mutator.cli import options
from mutator.cli.command import Answer, Command, option
from mutator.cli.stdin_feed import reading_stdin
from mutator.config.definitions import published
from mutator.config.feed_settings import SHOWN_FIELDS
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import located_to_write

_VERSION = re.compile(r"(.+)@([^@/]+)")
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True)
class Compared:
    """A dataset that is compared. path: of its directory. settings: that a table has recorded."""

    path: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, Any]:
        """Which values a table may show, as settings."""
        return {name: value for name, value in self.settings.items() if published(name) == SHOWN_FIELDS}


def recorded_for_feed(old: Compared, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with which a run would merge a feed into a dataset. settings: those of the user."""
    from mutator.pipeline.master_settings import chained_settings

    given = set(map(published, settings))
    own = {name: value for name, value in old.settings.items() if published(name) not in given}
    kept = recorded_in([old], {**own, **settings})
    return {**chained_settings(old.path, {**own, **kept, **settings}), **own, **kept}


def recorded_in(places: Sequence[Compared], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the first dataset that has a manifest, and which values may be shown.

    settings: those of the user. Datasets whose runs may show different values show none.
    """
    from mutator.pipeline.master_settings import manifest_at, recorded_in_manifest, shown_fields_of

    manifests = [manifest_at(place.path) for place in places]
    shown = [] if any(published(name) == SHOWN_FIELDS for name in settings) else [place.shown for place in places]
    shown += [shown_fields_of(known, settings) for known in manifests if known is not None]
    shown = [one for one in shown if one]
    kept: Mapping[str, Any] = {}
    if shown:
        kept = shown[0] if all(one == shown[0] for one in shown) else {SHOWN_FIELDS: "none"}
    given = {**settings, **kept}
    found = next((found for known in manifests if (found := recorded_in_manifest(known, given))), {})
    return {**found, **kept}


def dataset_at(place: str, stack: ExitStack) -> Compared:
    """Return the dataset that a place names: a directory, or a version of a base or of a table, ``PLACE@5``.

    A version of a table may be a tag, too.
    """
    from mutator.dataset.directory import is_base, is_table

    storage, path = located_to_write(place)
    found = _VERSION.fullmatch(place)
    version: int | str | None = None
    if storage.stat(path) is None and found is not None:
        place, version = found[1], int(found[2]) if _NUMBER.fullmatch(found[2]) else found[2]
        storage, path = located_to_write(place)
    if is_base(path):
        from mutator.workflow.directory.versions import dataset_of

        if isinstance(version, str):
            raise error("usage", what=f"{place}@{version}: a base has no tags; give the number of a version")
        return Compared(dataset_of(place, version))
    if is_table(path):
        from mutator.engine.scratch import scratch_directory
        from mutator.table.table import Table

        target = f"{scratch_directory(stack)}/version"
        table = Table(place)
        table.export(target, version=version)
        return Compared(target, table.snapshot.state.settings)
    if storage.stat(path) is None and storage.renames:  # others have no directories
        raise error("path.missing", path=path, what="dataset")
    if version is not None:
        raise error("usage", what=f"{place} is neither a base nor a table, so it has no version {version}")
    return Compared(place)


_FIRST = 10  # records of each kind that are shown with --verbose


@reading_stdin
def _diff(arguments: argparse.Namespace) -> Iterator[Answer]:
    from mutator.pipeline.diff.compare import LENIENT, OVERWRITE, compare, compare_feed

    if (arguments.new is None) != bool(arguments.feed):
        raise error("usage", what="give either NEW, or --feed with what would be merged into OLD")
    if arguments.rows is not None and arguments.rows < 0:
        raise error("usage", what=f"--rows is {arguments.rows}, but must be a number from 0")
    rows = arguments.rows if arguments.rows is not None else _FIRST if arguments.verbose or arguments.json else 0
    with ExitStack() as stack:
        old = dataset_at(arguments.old, stack)
        new = None if arguments.new is None else dataset_at(arguments.new, stack)
        extra = {**LENIENT, **({} if new is None else OVERWRITE)}
        settings = [*(f"{name}={value}" for name, value in extra.items()), *options.settings_of(arguments)]
        recorded = partial(recorded_for_feed, old) if new is None else partial(recorded_in, [old, new])
        config = options.loaded(arguments, settings, recorded)
        merge = options.merge_on(config.effort.runner, options.spark("mutator diff", arguments), arguments)
        how: dict[str, Any] = {"rows": rows, "scratch": arguments.scratch}
        if new is None:
            found = compare_feed(config, old.path, arguments.feed, merge, **how)
        else:
            found = replace(compare(config, old.path, new.path, merge, **how), new=without_secrets(arguments.new))
        found = replace(found, old=without_secrets(arguments.old))
    yield Answer(options.shown(found, arguments), code=1 if arguments.exit_code and not found.is_empty else 0)


DIFF = Command(
    "diff",
    "compare two datasets record by record: added, removed, changed",
    (
        option("old", metavar="OLD", help="dataset; base of a workflow or table, at a version: PLACE@5"),
        option("new", metavar="NEW", nargs="?", help="another one"),
        option(
            "--feed",
            action="extend",
            nargs="+",
            metavar="PATH",
            help="in place of NEW: show what merging this feed (- for stdin) would change; repeatable",
        ),
        option("--rows", type=int, metavar="N", help=f"show the first N records of each kind (with -v: {_FIRST})"),
        option("--exit-code", action="store_true", help="exit with 1 if there are differences"),
        option("--scratch", metavar="DIR", help="directory for temporary files that all workers of Spark share"),
        *options.CONFIG,
        options.PARTITIONED_BY,
        options.RUNNER,
        options.JSON,
    ),
    _diff,
    when_stopped="nothing was printed",
    examples=("mutator diff old new -v", "mutator diff /data/base@4 /data/base@5 --json"),
)
