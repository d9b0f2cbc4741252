"""A dataset that this program wrote: its directory compared with its manifest."""

import posixpath
from collections.abc import Iterable, Mapping, Sequence

from mutator.dataset import manifest, split_record
from mutator.dataset.manifest import Manifest, Part
from mutator.errors import error
from mutator.rules import file_names
from mutator.storage import Entry, Storage, read_file


def read_manifest(storage: Storage, directory: str) -> Manifest | None:
    """Return the manifest of a directory; None if it has none, like an unmanaged master or a split feed."""
    path = posixpath.join(directory, manifest.PATH)
    if storage.stat(path) is None:
        split = storage.stat(posixpath.join(directory, split_record.PATH)) is not None
        if not split and storage.stat(posixpath.join(directory, manifest.DIRECTORY)) is not None:
            raise error("manifest.damaged", path=path, why="it is missing beside the rest of its directory")
        return None
    return manifest.parse(read_file(path), path)


def check_files(storage: Storage, master: str, parts: Sequence[Part], visible: Iterable[Entry]) -> None:
    """Raise StateError if the files of a directory differ from its manifest. visible: entries with visible names."""
    there = {entry.path.removeprefix(f"{master}/"): entry for entry in visible}
    problems = differing_parts(storage, master, parts, there)
    named = {part.path for part in parts}
    for path, entry in sorted(there.items()):
        hidden = any(map(file_names.is_hidden, path.split("/")))
        if path not in named and not hidden and not is_straggler(storage, entry.name):
            problems.append(f"{path} is not one of its files")
    if problems:
        raise error("manifest.files", path=master, what=file_names.first_few(problems))


def differing_parts(
    storage: Storage, directory: str, parts: Sequence[Part], there: Mapping[str, Entry] | None = None
) -> list[str]:
    """Return which files of a manifest are missing or have another size. there: entries already listed, by path."""
    problems = []
    for part in sorted(parts, key=lambda part: part.path):
        entry = (there or {}).get(part.path) or storage.stat(posixpath.join(directory, part.path))
        if entry is None:
            problems.append(f"{part.path} is missing")
        elif entry.type != "file" or entry.bytes != part.bytes:
            problems.append(f"{part.path} has {entry.bytes} bytes and should have {part.bytes}")
    return problems


def is_straggler(storage: Storage, name: str) -> bool:
    """Return whether a file that no manifest names may come from a task that ended after its run, or was killed.

    Such a file is neither part of the dataset nor a fault. It is only possible on a storage without renames, where
    tasks write files to their final paths.
    """
    return not storage.renames and file_names.has_run_id(name)
