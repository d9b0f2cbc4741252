"""The dataset that is compared: a directory, or a version of a base or of a table, put together of the rooms that know
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from mutator.errors import error
from mutator.storage import located_to_write

_VERSION = re.compile(r"(.+)@([^@/]+)")
_NUMBER = re.compile("[0-9]+")


def recorded_in(places: Sequence[str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the first dataset that has a manifest. settings: those of the user."""
    from mutator.pipeline.master_settings import recorded_settings

    return next((found for place in places if (found := recorded_settings(place, settings))), {})


def dataset_at(place: str, stack: ExitStack) -> str:
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
        return dataset_of(place, version)
    if storage.stat(f"{path}/_mutator/table") is not None:
        from mutator.engine.scratch import scratch_directory
        from mutator.table.table import Table

        target = f"{scratch_directory(stack)}/version"
        Table(place).export(target, version=version)
        return target
    if storage.stat(path) is None and storage.renames:  # others have no directories
        raise error("path.missing", path=path, what="dataset")
    if version is not None:
        raise error("usage", what=f"{place} is no base and no table, so it has no version {version}")
    return place
