"""Where a run writes before its output is visible, and how others know that it is at work there.

A local disk has both from the kernel: a hidden directory beside the output, held for as long as the process lives.
Elsewhere a run first announces itself in a hidden file beside the output, and then looks who else did: of two that come
at once, each sees the other, and at least one gives way. An announcement whose process has ended on this machine says
what is litter; any other one stops the run, for nobody can see from here whether it is still at work.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mutator.dataset import manifest, split_record
from mutator.dataset.commit.process import Owner
from mutator.dataset.directory import read_manifest
from mutator.dataset.split_record import SplitRecord
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Entry, Storage, entries_of, read_file, read_if_exists, storage_for, walk

__all__ = [
    "SUCCESS",
    "Record",
    "announcements",
    "clear",
    "discard",
    "has_manifest",
    "published",
    "record_path",
    "staging",
    "sweep",
]

Record = manifest.Manifest | SplitRecord

SUCCESS = "_SUCCESS"
_SUFFIX = ".json"
_LONG = 3600.0  # seconds after which what was begun, and has no name yet, is litter
_here: set[str] = set()  # owners of this process that are at work


@contextmanager
def staging(storage: Storage, output: str, run: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give a place that only this process writes to, and the litter of killed runs that was removed for it.

    The place is the output itself where nothing can be renamed. What is left in it in the end is removed, except where
    it is not known whether the output was published. Raises StateError where another run is at work.
    """
    if storage.holds:
        litter = sweep(output)
        failpoint("stage.swept")
        with _held(storage, output, run) as place:
            yield place, litter
        return
    mine = _name(output, run) + _SUFFIX
    place = _name(output, run) if storage.renames else output
    storage.exclusive(output)  # tried out before the manifest depends on it
    owner = Owner.this_process(run, 0)
    _here.add(owner.id)
    try:
        with storage.create_new(mine) as stream:
            stream.write(owner.dump())
        failpoint("stage.announced")
        litter = _sweep_announced(storage, output, mine)
        failpoint("stage.swept")
    except MutatorError:
        _here.discard(owner.id)
        with suppress(MutatorError):  # what went wrong first is the one to tell
            storage.remove(mine)
        raise
    try:
        yield place, litter
    except MutatorError as fault:
        if fault.kind != "publish.uncertain":  # else whoever comes next finds out
            _end(storage, output, place, mine)
        raise
    except BaseException:
        _end(storage, output, place, mine)
        raise
    else:
        with suppress(MutatorError):  # it is published: whoever comes next sees that
            storage.remove(mine)
    finally:
        _here.discard(owner.id)


def sweep(output: str) -> tuple[str, ...]:
    """Remove what killed runs have left of this output, and name it; raise StateError where a run is alive."""
    storage = storage_for(output)
    if not storage.holds:
        return _sweep_announced(storage, output, None)
    removed = []
    for one in _beside(output):
        if one.type != "directory":
            continue
        claim = storage.hold(one.path)
        if claim is None:
            if storage.stat(one.path) is not None:
                raise error("output.busy", path=output, staging=one.path)
            continue
        storage.remove(one.path)
        removed.append(one.path)
    return tuple(removed)


def discard(output: str) -> None:
    """Remove what a run that can never publish has left beside its output; a paused one sweeps up behind itself."""
    storage = storage_for(output)
    if storage.holds:
        try:
            sweep(output)
        except MutatorError as fault:
            if fault.kind != "output.busy":
                raise
        return
    for one in _beside(output):
        storage.remove(one.path)


def announcements(output: str) -> list[str]:
    """Return the paths of the files in which runs have said that they are at work on an output."""
    return [one.path for one in _beside(output) if one.type == "file" and not _is_begun(one)]


def clear(storage: Storage, output: str, known: Record | None) -> None:
    """Remove what runs have written into an output that nothing names; files of other kinds are left alone."""
    named = {part.path for part in known.parts()} | {record_path(known), SUCCESS} if known is not None else set()
    for path in [*(one.path for one in walk(output)), *storage.unfinished(output)]:
        name = posixpath.relpath(path, output)
        ours = name == SUCCESS or name.startswith(manifest.DIRECTORY + "/") or file_names.is_data_file(name)
        ours = ours or "=" in name.partition("/")[0]  # a partition's, whose files may have any name
        if name not in named and ours:
            storage.remove(path)


def published(storage: Storage, output: str) -> Record | None:
    """Return what says of an output what it is, None where nothing does. Raises StateError where it is damaged."""
    if has_manifest(storage, output):
        return read_manifest(storage, output)
    path = posixpath.join(output, split_record.PATH)
    if storage.stat(path) is None:
        return None
    return split_record.parse(read_file(path), path)


def record_path(known: Record) -> str:
    """Return where in an output it stands what it is."""
    return split_record.PATH if isinstance(known, SplitRecord) else manifest.PATH


def has_manifest(storage: Storage, output: str) -> bool:
    """Tell whether an output has a manifest, damaged or not."""
    return storage.stat(posixpath.join(output, manifest.PATH)) is not None


def _end(storage: Storage, output: str, place: str, mine: str) -> None:
    """Remove what is not published, and only then the announcement that says what it is."""
    if place != output:
        storage.remove(place)
    else:
        clear(storage, output, published(storage, output))
    storage.remove(mine)


def _sweep_announced(storage: Storage, output: str, mine: str | None) -> tuple[str, ...]:
    ended = []
    for one in _beside(output):
        path = one.path
        if _is_begun(one) and time.time() - one.modified > _LONG:
            storage.remove(path)
        if _is_begun(one) or one.type != "file" or path == mine:
            continue
        content = read_if_exists(path)
        if content is None:
            continue  # the run has just ended
        owner = Owner.parse(content)
        if owner is None or not (owner.has_ended() or (owner.is_this_process() and owner.id not in _here)):
            raise error("output.busy", path=output, staging=path)
        ended.append(path)
    removed = []
    for path in ended:
        place = path.removesuffix(_SUFFIX) if storage.renames else output
        if storage.stat(place) is not None or storage.unfinished(place):
            if storage.renames:
                storage.remove(place)
            else:
                clear(storage, output, published(storage, output))
            removed.append(place)
        storage.remove(path)
    return tuple(removed)


def _name(output: str, run: str) -> str:
    """Return the path of what a run has beside its output: a directory to stage in, or with a suffix what it says."""
    directory, name = posixpath.split(output)
    return posixpath.join(directory, f".{name}.mutator-{run}")


def _beside(output: str) -> list[Entry]:
    """Return what runs have beside an output: staging directories, announcements, and such that are being written."""
    prefix = posixpath.basename(_name(output, ""))
    found = [one for one in entries_of(posixpath.dirname(output)) if one.name.startswith((prefix, "." + prefix))]
    return [one for one in found if _is_begun(one) or _has_run(one, one.name.removeprefix(prefix))]


def _has_run(one: Entry, rest: str) -> bool:
    """Tell whether what follows is a run: an output may itself be named like another one's staging directory."""
    return "." not in rest if one.type == "directory" else file_names.is_run_id(rest.removesuffix(_SUFFIX))


def _is_begun(one: Entry) -> bool:
    """Tell whether a file has not got its name yet: it has a hidden one of its own until it is whole."""
    return one.name.startswith("..")


@contextmanager
def _held(storage: Storage, output: str, run: str) -> Iterator[str]:
    place = _name(output, run)
    claim = None
    try:
        for _ in range(10):  # a sweep of another run can take the new directory for litter, until it is claimed
            storage.make_directory(place)
            claim = storage.hold(place)
            if claim is not None:
                break
        if claim is None:
            raise error("output.busy", path=output, staging=place)
        yield place
    finally:
        storage.remove(place)  # not there any more once it is published
        del claim
