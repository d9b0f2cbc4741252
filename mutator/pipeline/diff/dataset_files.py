"""The files of the datasets of a comparison: which have the same content, so that they need not be read."""

from collections.abc import Mapping
from typing import Any

from mutator.dataset.directory import check_files, read_manifest
from mutator.dataset.partition_index import IN_PATH, form_of
from mutator.dataset.state import State
from mutator.errors import error
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules import file_names
from mutator.storage import located, walk


def known_at(path: str) -> State | None:
    """Return the manifest of a dataset, None without one. Raises StateError where its files differ from it."""
    storage, path = located(path)
    entry = storage.stat(path)
    if entry is None and storage.renames:
        raise error("path.missing", path=path, what="dataset")
    known = read_manifest(storage, path) if entry is None or entry.type == "directory" else None
    if known is not None:
        check_files(storage, path, known.parts(), walk(path))
    return known


# What a file has: its checksum, and the values of the fields in its path with their types.
Content = tuple[str, frozenset[tuple[str, str | None, Any]]]


def contents_of(known: State | None) -> dict[str, Content]:
    """Return what each data file of a dataset has, by its path."""
    types, found = dict[int, dict[str, Any]](), dict[str, Content]()
    if known is None:
        return found
    for part in known.files:
        if part.form not in types:
            types[part.form] = _path_types(form_of(known.spec, part.form))
        in_path = ((name, part.partition[name], data_type) for name, data_type in types[part.form].items())
        found[part.path] = (part.checksum, frozenset(in_path))
    return found


def _path_types(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types of the fields in the paths of files. form: their specification."""
    if IN_PATH not in form:
        return {}
    schema = FILE_FORMATS[form["format"]].stored(form).schema
    return {name: schema.field(name).type for name in form[IN_PATH]}


def count_skipped(known: State | None, equal: frozenset[Content]) -> int:
    """Return how many files of a dataset are not read. equal: the contents that both datasets have."""
    return sum(one in equal for one in contents_of(known).values())


def files_to_read(path: str, known: State | None, equal: frozenset[Content]) -> list[str]:
    """Return the data files of a dataset that must be read."""
    if known is not None:
        return [f"{path.rstrip('/')}/{name}" for name, content in contents_of(known).items() if content not in equal]
    storage, full = located(path)
    entry = storage.stat(full)
    if entry is None or entry.type != "directory":
        return [path]
    names = (one.path.removeprefix(f"{full}/") for one in walk(full) if one.type == "file")
    return [f"{path.rstrip('/')}/{name}" for name in names if not any(map(file_names.is_hidden, name.split("/")))]
