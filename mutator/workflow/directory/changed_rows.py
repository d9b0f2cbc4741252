"""The changed rows of the versions of a base: ``changes/version=<number>/``.

They are a part of the dataset of their version. After the commit they get a second path, so that they stay when the
dataset is removed. A run that is killed before that is finished by the next command, before any backup is removed.
``changes.keep`` removes those of older versions: whole directories, which lose their record first.

The filters of the keys of a base's feed files: there with the version, or not at all.

A run writes them before its version is committed, and they stay when the dataset of the version is removed. What a run
wrote that did not commit is removed when it is rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mutator.config.feed_settings import feed_settings
from mutator.config.settings import WorkflowSpec
from mutator.dataset.commits import REORDER, Commit
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.filter_paths import DIRECTORY, FilterTarget, run_of_filters
from mutator.dataset.version_log import UNCHANGED, Log
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import entries_of
from mutator.workflow.directory.paths import Base, master_of, open_base
from mutator.workflow.directory.versions import hide, remove_hidden


def target(base: Base, workflow: WorkflowSpec, given: Mapping[str, Any]) -> FilterTarget | None:
    """Return where a run writes filters; None if the configuration wants none."""
    return FilterTarget(base.at(DIRECTORY), feed_settings(given)) if workflow.feed_filters else None


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


CHANGES = "changes"
_NAME = re.compile(r"version=([0-9]+)")
_WHY_NOT = "its run did not write them, or changes.keep removed them"


def directory_of_changes(base: Base, number: int) -> str:
    """Return the directory of the changed rows of a version."""
    return base.at(CHANGES, f"version={number}")


def keep(base: Base, log: Log, run: str) -> None:
    """Keep the changed rows of the version that a run committed, if it wrote any."""
    version = next((one for one in reversed(log.all()) if one.run == run and one.action == "run"), None)
    if version is None:
        return
    path = _dataset_of(base, log, version)
    known = read_manifest(base.storage, path) if path is not None else None
    if path is None or known is None or not known.changes:
        return
    from mutator.pipeline.kept_changes import keep_changes  # loads Arrow, which few commands need

    keep_changes(path, known, directory_of_changes(base, version.number), version.number)


def prune(base: Base, keep: int) -> list[int]:
    """Remove the changed rows of all but the newest versions that have some; return the versions of those removed.

    keep: number of versions. A directory gets a hidden name first. On a storage without renames it first loses its
    record, without which it is not whole. Any process can repeat this, at any time, even two at once.
    """
    from mutator.pipeline.kept_changes import RECORD  # loads Arrow, which few commands need

    storage, removed = base.storage, list[int]()
    numbers = {int(found[1]) for one in entries_of(base.at(CHANGES)) if (found := _NAME.fullmatch(one.name))}
    for number in sorted(numbers, reverse=True)[keep:]:
        path: str | None = directory_of_changes(base, number)
        if storage.renames:
            path = hide(base, directory_of_changes(base, number))
        else:
            storage.remove(f"{path}/{RECORD}")
        failpoint("changes.hidden")
        if path is not None:
            storage.remove(path)
            failpoint("changes.removed")
            removed.append(number)
    remove_hidden(base)
    return removed


def _dataset_of(base: Base, log: Log, version: Commit) -> str | None:
    """Return the path of a version's dataset, None if it is gone."""
    latest = log.latest()
    if latest.dataset == version.dataset:
        return master_of(base, latest)
    found = base.find(version.dataset) if version.dataset is not None else None
    return found.path if found is not None else None


def changes_between(place: str, start: int | None, end: int | None) -> list[tuple[str, Sequence[FileEntry]]]:
    """Return the directories and the files of changed rows of the versions after ``start``, up to ``end``.

    start: None for the newest version without changed rows. end: None for the newest version. Raises ConfigError for a
    version without them, or that does not exist, StateError for damage.
    """
    from mutator.pipeline.kept_changes import read_kept_changes  # loads Arrow, which few commands need

    base = open_base(place)
    log = Log(base.path)
    newest = log.latest().number
    for number in (start, end):
        if number is not None and not 0 <= number <= newest:
            raise error("changes.version", path=place, version=number, newest=newest)
    last = newest if end is None else end
    if start is not None and start > last:
        raise error("table.changes.order", path=place, start=start, end=last)
    found: list[tuple[str, Sequence[FileEntry]]] = []
    for version in reversed([one for one in log.all() if (start or 0) < one.number <= last]):
        if version.action in (*UNCHANGED, REORDER):
            continue
        directory = directory_of_changes(base, version.number)
        kept = read_kept_changes(directory) if version.action == "run" else None
        if kept is None:
            if start is None:
                break
            why = "it restored an earlier one" if version.action == "restore" else _WHY_NOT
            number = version.number
            raise error("changes.gap", path=place, version=number, before=number - 1, why=why)
        found.append((directory, kept.files))
    return found[::-1]


def kept_problems(base: Base) -> list[str]:
    """Return how the files of changed rows differ from their records, a sentence for each that does."""
    from mutator.pipeline.kept_changes import differing_changes  # loads Arrow, which few commands need

    found = []
    for entry in entries_of(base.at(CHANGES)):
        if entry.type == "directory" and not entry.name.startswith("."):
            found += differing_changes(entry.path)
    return found
