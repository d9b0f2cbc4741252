"""Put a missing or damaged manifest back from its copy, or a damaged copy from its manifest.

Nothing is guessed. The copy has the manifest's bytes, with a checksum of themselves and the path of the copy, and every
file that it names must be there with its size. Where a log says which dataset a directory is, the copy must be that
dataset's.
"""

import posixpath
from collections.abc import Collection

from mutator.dataset import manifest
from mutator.dataset.directory import read_manifest, whole_copy
from mutator.errors import MutatorError
from mutator.errors.failpoints import failpoint
from mutator.storage import Storage, read_file, read_if_exists


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
