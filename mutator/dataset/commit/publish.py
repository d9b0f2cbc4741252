"""Publish a dataset in one step: before it nothing is visible, after it everything is.

    stage    create a directory of the run's own (``staging``)
    merge    write files into it; return the manifest that names them
    check    compare sizes with the manifest; remove files that it does not name
    publish  rename the directory to a path that must not exist; every file and directory is durable by then

On a storage without renames, the merge writes to the final paths, and the step is the exclusive creation of the
manifest: a directory without one is not yet a dataset. A kill before the step leaves litter, which the next run to the
same output reports and removes. A kill after it leaves the whole output. The merge is a function, so that all of this
is tested without Spark.
"""

import posixpath
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from mutator.dataset import manifest, split_record
from mutator.dataset.commit.staging import SUCCESS, WORK, Record, announcements, clear, published, record_path, staging
from mutator.dataset.split_record import SplitRecord
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.failpoints import failpoint
from mutator.errors.interrupts import commit_is_made, deferred_signals
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import Storage, storage_for, walk

_FEW = 8  # up to so many directories are made durable one by one


Made = TypeVar("Made", bound=Record)


@dataclass(frozen=True)
class Published(Generic[Made]):
    """The state of a dataset or the record of a split feed, published, and the removed litter of earlier runs."""

    made: Made
    litter: tuple[str, ...]


def publish(output: str, run: str, merge: Callable[[str], Made]) -> Published[Made]:
    """Merge into a staging directory and make it the output, whole or not at all.

    output: path that must not exist. merge: writes files into the given directory and returns the manifest, or the
    record of a split feed, that names them; if it raises, nothing is left behind. Raises StateError if the output
    exists or is being written, and StorageError of the kind ``publish.uncertain`` if it is unknown whether it is
    published.
    """
    storage = storage_for(output)
    check_output(output)
    storage.make_directory(posixpath.dirname(output))
    with staging(storage, output, run) as (staged, litter):
        made = _by_rename(storage, staged, output, merge) if storage.renames else _in_place(storage, output, merge)
    failpoint("publish.done")
    return Published(made, litter)


def replace(output: str, run: str, merge: Callable[[str], Made]) -> Published[Made]:
    """Publish as ``publish`` does, in the place of a dataset that exists.

    The staging directory and the output are exchanged in one step, and the old dataset is removed as litter. On a
    storage without renames, the step is the replacement of the manifest. Files that the old dataset has, too, are found
    in ``output_directory`` of the directory that merge is called with, where merge links or leaves them. Raises
    StateError if the file system cannot exchange directories.
    """
    storage = storage_for(output)
    if storage.renames and not storage.swap(output, output):  # changes nothing, and shows whether it is possible
        raise error("output.exchange", path=output)
    with staging(storage, output, run) as (staged, litter):
        if not storage.renames:
            made = _replaced_in_place(storage, output, merge)
        else:
            made = _staged(storage, staged, merge)
            if not storage.swap(staged, output):
                raise error("output.exchange", path=output)
            failpoint("publish.renamed")
    failpoint("publish.done")
    return Published(made, litter)


def check_output(output: str) -> None:
    """Raise StateError if the output exists; litter of a run does not count."""
    storage = storage_for(output)
    if storage.stat(output) is None:
        return
    if storage.renames or published(storage, output) is not None or not announcements(output):
        raise error("output.exists", path=output)


def check_apart(path: str, other: str, *, role: str, other_role: str) -> None:
    """Raise ConfigError if a path that will be written is another path or is inside it."""
    if path == other:
        raise error("path.roles", path=path, roles=f"{other_role} and {role}")
    if path.startswith(f"{other.rstrip('/')}/"):
        raise error("path.inside", path=path, role=role, other_role=other_role, other=other)


def _by_rename(storage: Storage, staged: str, output: str, merge: Callable[[str], Made]) -> Made:
    made = _staged(storage, staged, merge)
    try:
        with deferred_signals():
            storage.rename_new(staged, output)
            commit_is_made()
    except FileExistsError:
        raise error("output.exists", path=output) from None
    failpoint("publish.renamed")
    return made


def _staged(storage: Storage, staged: str, merge: Callable[[str], Made]) -> Made:
    """Merge into a staging directory, and make it durable and whole."""
    work = posixpath.join(staged, WORK)
    for name in ("tombstones", "order", "rejected", "filters", manifest.CHANGES):
        storage.make_directory(posixpath.join(work, manifest.DIRECTORY, name))
    failpoint("stage.created")
    made = merge(work)
    failpoint("stage.merged")
    here = _sizes(work)
    written = [part for part in made.parts() if part.path in here]
    carried = [part.path for part in made.parts() if part.path not in here]
    for path in carried:  # files linked into the staging directory at their final paths
        if (entry := storage.stat(f"{staged}/{path}")) is not None:
            here[path] = entry.bytes
    _check(here, made)
    directories = {posixpath.dirname(part.path) for part in written} | {manifest.DIRECTORY}
    storage.make_directories([posixpath.join(staged, directory) for directory in sorted(directories)])
    for part in written:
        storage.rename_new(posixpath.join(work, part.path), posixpath.join(staged, part.path))
    failpoint("stage.files.moved")
    # The rest is from attempts that did not count. One that is still running finds no directory to write to.
    storage.remove(work)
    failpoint("stage.litter.removed")
    content = _dump(made)
    _write_copy(storage, staged, made, content)
    with storage.create_new(posixpath.join(staged, record_path(made))) as stream:
        stream.write(content)
    failpoint("stage.manifest.written")
    with storage.create_new(posixpath.join(staged, SUCCESS)):
        pass
    failpoint("stage.success.written")
    if carried or len(directories) > _FEW:
        storage.sync_all(staged)
    return made


def _in_place(storage: Storage, output: str, merge: Callable[[str], Made]) -> Made:
    if storage.stat(output) is not None:  # litter of runs has been removed, so it is something else
        raise error("output.exists", path=output)
    failpoint("stage.created")
    made = merge(output)
    failpoint("stage.merged")
    if published(storage, output) is not None:
        raise error("output.exists", path=output)
    _check(_sizes(output), made)
    clear(storage, output, made)
    failpoint("stage.litter.removed")
    with storage.create_new(posixpath.join(output, SUCCESS)):
        pass
    failpoint("stage.success.written")
    content = _dump(made)
    _write_copy(storage, output, made, content)
    path = posixpath.join(output, record_path(made))
    try:
        # A signal during the request would leave it open whether the dataset exists.
        with deferred_signals():
            with storage.create_new(path) as stream:
                stream.write(content)
            commit_is_made()
    except MutatorError as fault:
        try:
            there = published(storage, output)
        except MutatorError as second:
            raise error("publish.uncertain", path=path, why=second) from None
        if there is None:
            raise error("publish.uncertain", path=path, why=fault) from None
        if there.commit.id != made.commit.id:
            raise error("output.exists", path=output) from None
    failpoint("stage.manifest.written")
    return made


def _replaced_in_place(storage: Storage, output: str, merge: Callable[[str], Made]) -> Made:
    """Merge into an output beside its files, replace its manifest, and remove the files that it no longer names."""
    failpoint("stage.created")
    made = merge(output)
    failpoint("stage.merged")
    _check(_sizes(output), made)
    content = _dump(made)
    _write_copy(storage, output, made, content)
    path = posixpath.join(output, record_path(made))
    try:
        with deferred_signals():
            storage.replace(path, content)
    except MutatorError as fault:
        there = published(storage, output)
        if there is None or there.commit.id != made.commit.id:
            raise error("publish.uncertain", path=path, why=fault) from None
    failpoint("stage.manifest.written")
    clear(storage, output, made)
    failpoint("stage.litter.removed")
    return made


def _write_copy(storage: Storage, directory: str, made: Record, content: bytes) -> None:
    """Write the copy of a manifest, which ``mutator verify --repair`` needs. content: of both files."""
    if isinstance(made, SplitRecord) or made.copy is None:
        return
    with storage.create_new(posixpath.join(directory, made.copy)) as stream:
        stream.write(content)
    failpoint("stage.copy.written")


def _dump(made: Record) -> bytes:
    return split_record.dump(made) if isinstance(made, SplitRecord) else manifest.dump(made)


def _sizes(directory: str) -> dict[str, int]:
    """Return the size in bytes of every file below a directory, by its path in the directory."""
    return {entry.path.removeprefix(f"{directory}/"): entry.bytes for entry in walk(directory)}


def _check(here: Mapping[str, int], made: Record) -> None:
    """Compare the sizes of written and carried files with the manifest."""
    for part in made.parts():
        if here.get(part.path) != part.bytes:
            size = here.get(part.path)
            why = "it is missing" if size is None else f"it has {counted(size, 'byte')}, not {part.bytes:,}"
            raise error("receipt", path=part.path, why=why)
    failpoint("stage.verified")
