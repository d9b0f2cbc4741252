"""The filters of the keys of a base's feed files: there with the version, or not at all.

A run writes them before its version is committed, and they stay when the dataset of the version is removed. What a run
wrote that did not commit is removed when it is rolled back.
"""

from collections.abc import Mapping
from typing import Any

from mutator.config import Config
from mutator.config.definitions import DEFAULT_OF_FIELD
from mutator.config.definitions.rows import ROWS
from mutator.dataset.filter_paths import DIRECTORY, FilterTarget, run_of_filters
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory.paths import Base

_KEPT = {
    *(setting.name for section in ROWS for setting in section.settings),
    "tombstone.retention",
}


def kept_settings(config: Config) -> Mapping[str, Any]:
    """Return the given settings that decide how the feed is read and merged."""
    return {name: value for name, value in config.given.items() if name in _KEPT or name.startswith(DEFAULT_OF_FIELD)}


def target(base: Base, config: Config) -> FilterTarget | None:
    """Return where a run writes filters; None if the configuration wants none."""
    return FilterTarget(base.at(DIRECTORY), kept_settings(config)) if config.feed_filters else None


def filter_files(base: Base) -> dict[str, list[str]]:
    """Return the paths of the files with filters, by the run that wrote them."""
    found: dict[str, list[str]] = {}
    for entry in entries_of(base.at(DIRECTORY)):
        if not file_names.is_hidden(entry.name):
            found.setdefault(run_of_filters(entry.name), []).append(entry.path)
    return found


def forget(base: Base, run: str) -> None:
    """Remove the filters of a run that can never commit."""
    for entry in entries_of(base.at(DIRECTORY)):
        if run in entry.name:  # unfinished files have hidden names
            base.storage.remove(entry.path)
    failpoint("recover.filters.removed")
