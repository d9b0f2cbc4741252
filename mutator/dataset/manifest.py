"""The manifest of a dataset, ``_mutator/manifest.json``: every file of the dataset, and how it was made.

The manifest defines the dataset; a directory listing does not. The manifest ends with a checksum of its own text, and
counts as damaged if any byte differs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mutator.dataset import checksummed_json
from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.file_entry import FileEntry, unsafe_path
from mutator.dataset.gc_pause import paused
from mutator.errors import MutatorError, error
from mutator.rules.absences import Absence

# 2: "copy", "checked" of files, "" as the lowest order value; 3: "header" in the specification; 4: "changes";
# 5: "absences", "pattern" of an order by file names; 7: "in path" in the specification, and else 6 is written
FORMAT_VERSION = 7
_OLDEST = 6
DIRECTORY = "_mutator"
TABLE = "_mutator/table"  # directory of a versioned table, which has no manifest
PATH = "_mutator/manifest.json"
CHANGES = "changes"  # role of a file of changed rows, and the name of their directory
# Members of every file; of those that lack them, the optional ones are left out.
_MEMBERS = ("path", "bucket", "rows", "bytes", "checksum", "partition", "buckets", "filter", "checked")
_OF_COMMIT = ("parent", "run", "committed", "horizon", "snapshot", "counts")  # members beside its ID, "commit"
_OPTIONAL = ("buckets", "filter", "checked")


@dataclass(frozen=True)
class FeedSettings:
    """How feed files were read and merged, by all runs from a commit time on until the next settings."""

    since: str
    settings: Mapping[str, Any]  # by their published names: text, or lists of texts and numbers


@dataclass(frozen=True)
class Manifest:
    """Everything that the next run must know about a dataset. Order values are text in the format of their type."""

    commit: Commit  # that made it, without files and feed
    spec: Mapping[str, Any]  # key, order, delimiter, width, op code; another spec is an error
    buckets: int | None
    hash: str | None
    files: tuple[FileEntry, ...]
    beside: tuple[FileEntry, ...]
    feed: tuple[FeedFile, ...]
    copy: str | None = None  # path of a second file with the same bytes; earlier datasets have none
    changes: bool = False  # the run wrote the rows that it changed, if there were any
    absences: tuple[Absence, ...] = ()  # full snapshots that may have left tombstones by absence, oldest first
    feed_settings: tuple[FeedSettings, ...] = ()  # oldest first; runs before the first ones recorded none

    def parts(self) -> tuple[FileEntry, ...]:
        """Return every file of the dataset except the manifest itself."""
        return (*self.files, *self.beside)


def settings_of_run(manifest: Manifest, committed: str) -> Mapping[str, Any] | None:
    """Return the settings by which a run read its feed, given its commit time; None: they were not recorded."""
    found = [one.settings for one in manifest.feed_settings if one.since <= committed]
    return found[-1] if found else None


def is_without_key(manifest: Manifest) -> bool:
    """Return whether a dataset was exported or imported, and no run has set its key yet."""
    return bool(manifest.spec["key"].get("fields") == [])


def is_of_bridge(manifest: Manifest) -> bool:
    """Return whether a dataset is a table that a bridge has written, whose state is with its text copy."""
    return is_without_key(manifest) and manifest.spec["format"] != "escaped"


@paused()
def dump(manifest: Manifest) -> bytes:
    """Return a manifest as JSON that ends with a checksum."""
    commit = manifest.commit
    document = {
        "commit": commit.id,
        **{name: getattr(commit, name) for name in ("parent", "run", "committed")},
        **{name: getattr(manifest, name) for name in ("spec", "buckets", "hash")},
        **{name: getattr(commit, name) for name in ("horizon", "snapshot")},
        "files": [_data_members(part) for part in manifest.files],
        "beside": [_members(part) | {"kind": part.role} for part in manifest.beside],
        "feed": [vars(part) for part in manifest.feed],
        "counts": commit.counts,
        **{name: getattr(manifest, name) for name in ("copy", "changes", "absences")},
        "feed_settings": [vars(part) for part in manifest.feed_settings],
    }
    forms = (manifest.spec, *manifest.spec.get("earlier", ()))
    version = FORMAT_VERSION if any("in path" in form for form in forms) else _OLDEST
    return checksummed_json.dump("mutator", version, document)


def _members(part: FileEntry) -> dict[str, Any]:
    """Return the JSON members of a file, without the optional ones that it lacks."""
    members = vars(part)
    return {name: members[name] for name in _MEMBERS if members[name] is not None or name not in _OPTIONAL}


def _data_members(part: FileEntry) -> dict[str, Any]:
    """Return the JSON members of a data file, where a form is the index of an earlier one."""
    form = {"form": -1 - part.form} if part.form else {}
    return {**_members(part), "order": part.order, **form}


def _data_file(members: dict[str, Any]) -> FileEntry:
    if "form" in members:
        members["form"] = -1 - members["form"]
    return FileEntry(**members)


@paused()
def parse(data: bytes, path: str) -> Manifest:
    """Parse a manifest. Raises StateError if it is damaged or newer than this program."""
    try:
        document = checksummed_json.parse(data, "mutator", FORMAT_VERSION, oldest=_OLDEST)
        document["files"] = tuple(map(_data_file, document["files"]))
        document["beside"] = side_files(document["beside"])
        document["feed"] = tuple(FeedFile(**part) for part in document["feed"])
        document["absences"] = tuple((int(time), str(high)) for time, high in document["absences"])
        document["feed_settings"] = tuple(FeedSettings(**part) for part in document["feed_settings"])
        own = {name: document.pop(name) for name in _OF_COMMIT}
        manifest = Manifest(commit=Commit(number=0, id=document.pop("commit"), action=RUN, **own), **document)
    except checksummed_json.Newer as fault:
        raise error("manifest.newer", path=path, version=fault.version, known=FORMAT_VERSION) from None
    except (KeyError, TypeError, ValueError) as fault:
        raise damaged(path, fault) from None
    beside = {part.path for part in manifest.beside}
    for what, named in (
        ("file of sequences", (part.order for part in manifest.files)),
        ("pack of filters", (part.filter for part in manifest.parts())),
    ):
        for other in named:
            if other is not None and other not in beside:
                raise damaged(path, f"it does not name the {what} {other}")
    unsafe = unsafe_path([*(part.path for part in manifest.parts()), manifest.copy or PATH])
    if unsafe is not None:
        raise damaged(path, f"it names a file outside of the directory: {unsafe}")
    return manifest


def damaged(path: str, why: object, cure: str = "restore the directory from a copy") -> MutatorError:
    """Return the error of a damaged manifest. why: an exception, or text. cure: besides adoption."""
    return error("manifest.damaged", path=path, why=why, cure=cure)


def copy_path(run: str) -> str:
    """Return the path of the manifest's copy in a dataset.

    >>> copy_path("20261121T024702Z-23d57ff1")
    '_mutator/manifest-20261121T024702Z-23d57ff1.json'
    """
    return f"{DIRECTORY}/manifest-{run}.json"


def side_members(part: FileEntry) -> dict[str, Any]:
    """Return the JSON members of a side file, also those that it lacks."""
    return {name: getattr(part, name) for name in _MEMBERS} | {"kind": part.role}


def side_files(members: Iterable[dict[str, Any]]) -> tuple[FileEntry, ...]:
    """Return the side files of a parsed JSON document. Raises KeyError or TypeError for other members."""
    return tuple(FileEntry(role=part.pop("kind"), **part) for part in members)
