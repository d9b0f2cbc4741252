"""Create a table from settings: empty, or with the rows of a dataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mutator.config.definitions import SETTINGS, SHORT, in_one_spelling, published
from mutator.config.settings import Config, OutputSpec
from mutator.config.sources import shown
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import error
from mutator.pipeline.arguments import feed_of
from mutator.pipeline.master_settings import recorded_settings
from mutator.plan.inspect.wanted_schema import read_schema, schema_text
from mutator.storage import located, located_to_write
from mutator.table.apply import OpenRunner
from mutator.table.create import create_empty, default_buckets
from mutator.table.memory_feed import apply_parts
from mutator.table.recorded import config_of_apply
from mutator.table.take_over import begun, create_of, was_taken_over
from mutator.table.type_2 import OP, files_of_versions, mutations_of_versions

_SHORT_OF = {published(name): name for name in SHORT}
_SCHEMA = "output.schema"
# Settings of single feeds: as those of a table they would make each apply an overwrite.
_OF_OVERWRITES = ("write.operation", "allow.empty.feed", "replace.damaged")


def new_table(
    path: str,
    settings: Mapping[str, Any],
    config: Config,
    dataset: str | None,
    buckets: int | None,
    open_runner: OpenRunner,
    warn: Callable[[Sequence[str]], None] = lambda warnings: None,
    *,
    resumes: bool = False,
) -> None:
    """Create a table. config: of the settings, which the table records. dataset: whose rows it begins with.

    warn: takes the warnings of a merge of the dataset. resumes: a call with these arguments may have been killed.
    """
    kept = _recorded(settings, config.output)
    if resumes and was_taken_over(path, kept):
        return
    if dataset is None:
        if not (resumes and begun(located_to_write(path)[1], kept, buckets or default_buckets(kept))):
            create_empty(path, kept, buckets=buckets)
    elif config.history.is_kept and (files := files_of_versions(dataset)):
        _create_of_versions(path, config, kept, files, buckets, open_runner)
    else:
        create_of(path, config, kept, dataset, buckets, open_runner, warn)


def _create_of_versions(
    path: str,
    config: Config,
    kept: Mapping[str, Any],
    files: Sequence[str],
    buckets: int | None,
    open_runner: OpenRunner,
) -> None:
    """Create a table of the versions of another system. If it is killed, the same call goes on."""
    mutations = mutations_of_versions(files, config)
    count = buckets or default_buckets(kept)
    full = located_to_write(path)[1]
    if begun(full, kept, count) is None:
        create_empty(path, kept, buckets=count)
    snapshot = open_snapshot(full)
    own = config_of_apply(snapshot, {"op.code.field.ordinal": OP, "deleted.op.code": "D"}, "create")
    apply_parts(snapshot, own, feed_of(mutations), lambda _: open_runner, shared=None, dry_run=False)


def with_settings_of(dataset: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, and those of a dataset that the user has not set. Raises ConfigError without the dataset."""
    if dataset is None:
        return dict(settings)
    storage, path = located(dataset)
    entry = storage.stat(path)
    if entry is None or entry.type != "directory":
        raise error("path.missing", path=path, what="directory")
    return {**settings, **recorded_settings(dataset, settings)}


def _recorded(settings: Mapping[str, Any], output: OutputSpec) -> dict[str, Any]:
    """Return settings as version 0 of a table records them, by their short names. Raises ConfigError for wrong ones.

    A list stays a list, because its elements may have commas. A schema is recorded itself instead of its path, so that
    the table does not depend on that file.
    """
    kept: dict[str, Any] = {
        name: list(value) if isinstance(value, list | tuple) and name in SETTINGS else shown(value)
        for name, value in ((published(key), in_one_spelling(key, value)) for key, value in settings.items())
        if value is not None and shown(value) and name not in _OF_OVERWRITES
    }
    if "output.format" in kept and output.format not in (None, "parquet"):
        raise error("table.format", format=output.format)
    if _SCHEMA in kept:
        read_schema(kept[_SCHEMA])
        kept[_SCHEMA] = json.dumps(json.loads(schema_text(kept[_SCHEMA])))
    return {_SHORT_OF.get(key, key): value for key, value in kept.items()}
