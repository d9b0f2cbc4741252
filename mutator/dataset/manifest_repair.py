"""Put a missing or damaged manifest back from its copy, or a damaged copy from its manifest.

Nothing is guessed. The copy has the manifest's bytes, with a checksum of themselves and the path of the copy, and every
file that it names must be there with its size. Where a log says which dataset a directory is, the copy must be that
dataset's.
"""

import posixpath
import re
from collections.abc import Collection

from mutator.dataset import manifest
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.errors import MutatorError, error
from mutator.errors.failpoints import failpoint
from mutator.rules import file_names
from mutator.storage import Storage, entries_of, read_file, read_if_exists

_COPY = re.compile(r"manifest-(.+)\.json")


def whole_copy(storage: Storage, directory: str, commits: Collection[str] | None = None) -> Manifest:
    """Return the manifest that the copies of a damaged one prove.

    commits: IDs of the datasets that the directory may be, by a log; None without a log. Raises StateError of the kind
    ``manifest.lost`` where no copy is whole, several are, or a file of the dataset is missing.
    """
    if commits is None and not storage.renames and storage.stat(posixpath.join(directory, manifest.PATH)) is None:
        raise error("manifest.lost", path=directory, why="it has no manifest, so its run may not have committed it")
    copies = _copies(directory)
    found = [copy for copy in copies if commits is None or copy.commit in commits]
    if len(found) != 1:
        none = "the log does not name the dataset of its copy" if copies else "it has no whole copy of its manifest"
        why = "it has several copies of manifests" if found else none
        raise error("manifest.lost", path=directory, why=why)
    problems = differing_parts(storage, directory, found[0].parts())
    if problems:
        raise error("manifest.lost", path=directory, why=file_names.first_few(problems))
    return found[0]


def _copies(directory: str) -> list[Manifest]:
    found = []
    for entry in entries_of(posixpath.join(directory, manifest.DIRECTORY)):
        if entry.type != "file" or not _COPY.fullmatch(entry.name):
            continue
        try:
            known = manifest.parse(read_file(entry.path), entry.path)
        except MutatorError:
            continue  # it proves nothing
        if known.copy == f"{manifest.DIRECTORY}/{entry.name}":
            found.append(known)
    return found


def repair(storage: Storage, directory: str, commits: Collection[str] | None = None) -> str | None:
    """Make the manifest of a dataset and its copy whole again; return a sentence, None if both were whole.

    Only one file is written, in one step, so a kill leaves the directory as it was or repaired. commits: as for
    ``whole_copy``, which raises the errors.
    """
    path = posixpath.join(directory, manifest.PATH)
    try:
        known = read_manifest(storage, directory)
    except MutatorError as fault:
        if fault.kind != "manifest.damaged":
            raise
        known = whole_copy(storage, directory, commits)
        assert known.copy is not None
        storage.replace(path, read_file(posixpath.join(directory, known.copy)))
        failpoint("repair.manifest")
        return f"{path} is its copy {known.copy} again"
    if known is None or known.copy is None:
        return None
    data, copy = read_file(path), posixpath.join(directory, known.copy)
    if read_if_exists(copy) == data:
        return None
    storage.replace(copy, data)
    failpoint("repair.copy")
    return f"{copy} is a copy of the manifest again"
