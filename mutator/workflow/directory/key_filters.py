"""The filters of the keys of a base's feed files: there with the version, or not at all.

A run writes them before its version is committed, and they stay when the dataset of the version is removed. What a run
wrote that did not commit is removed when it is rolled back.
"""

from mutator.config import Config
from mutator.config.feed_settings import feed_settings
from mutator.dataset.filter_paths import DIRECTORY, FilterTarget, run_of_filters
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory.paths import Base


def target(base: Base, config: Config) -> FilterTarget | None:
    """Return where a run writes filters; None if the configuration wants none."""
    return FilterTarget(base.at(DIRECTORY), feed_settings(config)) if config.feed_filters else None


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
