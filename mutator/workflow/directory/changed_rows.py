"""The changed rows of the versions of a base: ``changes/version=<number>/``.

They are a part of the dataset of their version. After the commit they get a second path, so that they stay when the
dataset is removed. A run that is killed before that is finished by the next command, before any backup is removed.
"""

from mutator.dataset.directory import read_manifest
from mutator.dataset.version_log import Log, Version
from mutator.workflow.directory.paths import Base, master_of

CHANGES = "changes"


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


def _dataset_of(base: Base, log: Log, version: Version) -> str | None:
    """Return the path of a version's dataset, None if it is gone."""
    latest = log.latest()
    if latest.dataset == version.dataset:
        return master_of(base, latest)
    found = base.find(version.dataset) if version.dataset is not None else None
    return found.path if found is not None else None
