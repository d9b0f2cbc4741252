"""Compare a whole base with its log: every entry, every kept dataset, every merged feed file."""

from collections.abc import Callable
from dataclasses import dataclass

from mutator.dataset.version_log import Log
from mutator.errors import MutatorError
from mutator.errors.display import printable
from mutator.pipeline.verify import Verification, checksum_difference
from mutator.storage import entries_of, storage_for
from mutator.workflow.directory import versions as masters
from mutator.workflow.directory.paths import Base, open_base, probe_dataset


@dataclass(frozen=True)
class BaseVerification:
    """The size of a base, and its differences from its log."""

    path: str
    versions: int
    datasets: tuple[Verification, ...]
    feed_files: int
    own_problems: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """All differences."""
        return (*self.own_problems, *(problem for one in self.datasets for problem in one.problems))

    def text(self) -> str:
        """Return lines for a terminal."""
        lines = [f"{self.path}: {self.versions} versions, {self.feed_files} merged feed files in archive/"]
        lines += [f"differs: {printable(problem)}" for problem in self.own_problems]
        if not self.own_problems:
            lines.append("as its log says: entries, master, archived feed files")
        return "\n".join([*lines, *(one.text() for one in self.datasets)])


def is_base(path: str) -> bool:
    """Return whether a directory is the base of a workflow."""
    return storage_for(path).stat(f"{path}/_mutator/log") is not None and bool(Log(path).numbers())


def verify_base(path: str, verify: Callable[[str], Verification]) -> BaseVerification:
    """Compare a base with its log; nothing is changed. verify: verifies the dataset at a path.

    Raises StateError if the log or a manifest cannot be read.
    """
    base = open_base(path)
    log = Log(base.path)
    versions = log.all()
    latest = log.latest()
    problems = []
    master = masters.master_of(base, latest)
    if latest.dataset is not None and probe_dataset(base.storage, master).commit != latest.dataset:
        problems.append(f"{master}: is not the dataset of version {latest.number}; a run may be under way")
    committed = {version.dataset for version in versions}
    found = [master] if latest.dataset is not None else []
    for dataset in base.datasets():
        if dataset.path == master:
            continue
        if dataset.commit in committed and dataset.commit is not None:
            found.append(dataset.path)
        elif dataset.foreign:
            problems.append(f"{dataset.path}: its manifest cannot be read")
    archived = 0
    for version in versions:
        for feed in version.feed:
            archived += 1
            problem = _feed_file(base, version.run, feed.name, feed.bytes, feed.checksum)
            if problem:
                problems.append(problem)
    return BaseVerification(path, len(versions), tuple(map(verify, found)), archived, tuple(problems))


def _feed_file(base: Base, run: str, name: str, size: int, expected: str) -> str | None:
    """Return the fault of an archived feed file, or None. A run's whole archive may be removed."""
    if not base.storage.renames:
        return None  # they stay where they were delivered, and belong to others
    directory = base.at("archive", run)
    path = f"{directory}/{name}"
    entry = base.storage.stat(path)
    if entry is None:
        return f"{path}: is missing" if entries_of(directory) else None
    if entry.bytes != size:
        return f"{path}: has {entry.bytes} bytes and should have {size}"
    try:
        difference = checksum_difference(path, expected)
    except MutatorError as fault:
        return str(fault)
    return difference and f"{path}: {difference}"
