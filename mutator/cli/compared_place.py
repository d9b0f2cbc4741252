"""The dataset that is compared: a directory, or a version of a base or of a table, put together of the rooms that know
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from mutator.config.definitions import published
from mutator.config.feed_settings import SHOWN_FIELDS
from mutator.errors import error
from mutator.storage import located_to_write

_VERSION = re.compile(r"(.+)@([^@/]+)")
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True)
class Compared:
    """A dataset that is compared. path: of its directory. shown: which values a table may show, as settings."""

    path: str
    shown: Mapping[str, Any] = field(default_factory=dict)


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
    from mutator.workflow.directory.verification import is_base

    storage, path = located_to_write(place)
    found = _VERSION.fullmatch(place)
    version: int | str | None = None
    if storage.stat(path) is None and found is not None:
        place, version = found[1], int(found[2]) if _NUMBER.fullmatch(found[2]) else found[2]
        storage, path = located_to_write(place)
    if is_base(path):
        from mutator.workflow.directory.kept_datasets import dataset_of

        if isinstance(version, str):
            raise error("usage", what=f"{place}@{version}: a base has no tags; give the number of a version")
        return Compared(dataset_of(place, version))
    if storage.stat(f"{path}/_mutator/table") is not None:
        from mutator.engine.scratch import scratch_directory
        from mutator.table.table import Table

        target = f"{scratch_directory(stack)}/version"
        table = Table(place)
        table.export(target, version=version)
        kept = table.snapshot.state.settings
        return Compared(target, {name: value for name, value in kept.items() if published(name) == SHOWN_FIELDS})
    if storage.stat(path) is None and storage.renames:  # others have no directories
        raise error("path.missing", path=path, what="dataset")
    if version is not None:
        raise error("usage", what=f"{place} is no base and no table, so it has no version {version}")
    return Compared(place)
