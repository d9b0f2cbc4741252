"""From a staging directory to a visible one in a single step.

    stage    a hidden directory beside the output, claimed for as long as this process lives
    merge    writes into it; returns what to publish
    seal     sizes are checked; what the receipts name moves up, all else is litter and goes; the manifest comes last
    publish  one rename to a name that must not exist; all that it names is durable by then, each file and directory

A kill before the rename leaves litter: a hidden directory whose claim died with its process, which the next run to the
same output names and removes. A kill after it leaves the whole output. The merge is a function, so that all of this is
tested without Spark.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mutator import manifest
from mutator.errors import error
from mutator.failpoint import failpoint
from mutator.manifest import Manifest
from mutator.storage import Storage, storage_for

__all__ = ["SUCCESS", "check_output", "publish", "sweep"]

SUCCESS = "_SUCCESS"
_WORK = "work"  # where tasks write; it is gone before anything becomes visible


@dataclass(frozen=True)
class Published:
    """What became visible, and what an earlier run had left."""

    manifest: Manifest
    litter: tuple[str, ...]


def publish(output: str, run: str, merge: Callable[[str], Manifest]) -> Published:
    """Merge into a staging directory and make it the output, whole or not at all.

    output: path that must not exist. merge: writes its files into the directory that it is given and returns the
    manifest that names them; whatever it raises leaves nothing behind. Raises StateError where the output exists or is
    being written.
    """
    storage = storage_for(output)
    check_output(output)
    storage.make_directory(posixpath.dirname(output))
    litter = sweep(output)
    failpoint("stage.swept")
    with _staging(storage, output, run) as staging:
        failpoint("stage.created")
        made = merge(posixpath.join(staging, _WORK))
        failpoint("stage.merged")
        _seal(storage, staging, made)
        try:
            storage.rename_new(staging, output)
        except FileExistsError:
            raise error("output.exists", path=output) from None
        failpoint("publish.renamed")
    failpoint("publish.done")
    return Published(made, litter)


def check_output(output: str) -> None:
    """Raise StateError where the output is there already."""
    if storage_for(output).look(output) is not None:
        raise error("output.exists", path=output)


def sweep(output: str) -> tuple[str, ...]:
    """Remove what killed runs have left of this output, and name it; raise StateError where a run is alive."""
    storage = storage_for(output)
    directory, name = posixpath.split(output)
    prefix = _prefix(name)
    removed = []
    for entry in storage.entries(directory):
        # An output may itself be named like this one's staging directory: what follows must be a run's id alone.
        if not entry.name.startswith(prefix) or entry.kind != "directory" or "." in entry.name[len(prefix) :]:
            continue
        claim = storage.hold(entry.path)
        if claim is None:
            if storage.look(entry.path) is not None:
                raise error("output.busy", path=output, staging=entry.path)
            continue
        storage.remove(entry.path)
        removed.append(entry.path)
    return tuple(removed)


def _prefix(name: str) -> str:
    return f".{name}.mutator-"


@contextmanager
def _staging(storage: Storage, output: str, run: str) -> Iterator[str]:
    directory, name = posixpath.split(output)
    staging = posixpath.join(directory, _prefix(name) + run)
    claim = None
    try:
        for _ in range(10):  # a sweep of another run can take the new directory for litter, until it is claimed
            storage.make_directory(staging)
            claim = storage.hold(staging)
            if claim is not None:
                break
        if claim is None:
            raise error("output.busy", path=output, staging=staging)
        for part in ("tombstones", "order", "rejected"):
            storage.make_directory(posixpath.join(staging, _WORK, manifest.DIRECTORY, part))
        yield staging
    finally:
        storage.remove(staging)  # not there any more once it is published
        del claim


def _seal(storage: Storage, staging: str, made: Manifest) -> None:
    """Check the files against the manifest, take them out of the workplace, and write the manifest last."""
    work = posixpath.join(staging, _WORK)
    here = {posixpath.relpath(path, work): size for path, size in _walk(storage, work)}
    for part in made.parts():
        if here.get(part.path) != part.bytes:
            found = f"it has {here[part.path]} bytes, not {part.bytes}" if part.path in here else "it is missing"
            raise error("receipt", path=part.path, why=found)
    failpoint("stage.verified")
    for directory in sorted({posixpath.dirname(part.path) for part in made.parts()} | {manifest.DIRECTORY}):
        storage.make_directory(posixpath.join(staging, directory))
    for part in made.parts():
        storage.rename_new(posixpath.join(work, part.path), posixpath.join(staging, part.path))
    failpoint("stage.files.moved")
    # What is left is of attempts that did not count. One that is still running finds no directory to write to.
    storage.remove(work)
    failpoint("stage.litter.removed")
    with storage.create_new(posixpath.join(staging, manifest.PATH)) as stream:
        stream.write(manifest.dump(made))
    failpoint("stage.manifest.written")
    with storage.create_new(posixpath.join(staging, SUCCESS)):
        pass
    failpoint("stage.success.written")


def _walk(storage: Storage, directory: str) -> Iterator[tuple[str, int]]:
    for entry in storage.entries(directory):
        if entry.kind == "directory":
            yield from _walk(storage, entry.path)
        else:
            yield entry.path, entry.bytes
