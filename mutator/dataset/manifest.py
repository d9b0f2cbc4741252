"""The manifest of a dataset, ``_mutator/manifest.json``: the bytes of its state, every file and how it was made.

The manifest defines the dataset; a directory listing does not. The manifest ends with a checksum of its own text, and
counts as damaged if any byte differs.
"""

from collections.abc import Iterable
from typing import Any

from mutator.dataset import checksummed_json
from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.file_entry import TOMBSTONES, FileEntry, unsafe_path
from mutator.dataset.gc_pause import paused
from mutator.dataset.state import FeedSettings, KnownFeed, State
from mutator.errors import MutatorError, error
from mutator.rules.absences import parts_of
from mutator.rules.epochs import EPOCHS

# 2: "copy", "checked" of files, "" as the lowest order value; 3: "header" in the specification; 4: "changes";
# 5: "absences", "pattern" of an order by file names; 7: "in path" in the specification; 8: "floor", "parts",
# "epochs" in the specification. Of 6, 7 and 8, the lowest is written that has the members of the dataset.
FORMAT_VERSION = 8
_OLDEST = 6
DIRECTORY = "_mutator"
TABLE = "_mutator/table"  # directory of a versioned table, which has no manifest
PATH = "_mutator/manifest.json"
CHANGES = "changes"  # role of a file of changed rows, and the name of their directory
# Members of every file; of those that lack them, the optional ones are left out.
_MEMBERS = ("path", "bucket", "rows", "bytes", "checksum", "partition", "buckets", "filter", "checked")
_OF_COMMIT = ("parent", "run", "committed", "horizon", "snapshot", "counts")  # members beside its ID, "commit"
_OPTIONAL = ("buckets", "filter", "checked")


@paused()
def dump(state: State) -> bytes:
    """Return the manifest of a dataset as JSON that ends with a checksum."""
    commit = state.commit
    document = {
        "commit": commit.id,
        **{name: getattr(commit, name) for name in ("parent", "run", "committed")},
        "spec": state.spec,
        "buckets": state.bucket_count,
        "hash": commit.hash or None,
        **{name: getattr(commit, name) for name in ("horizon", "snapshot")},
        **({} if commit.floor is None else {"floor": commit.floor}),
        **({"parts": commit.parts} if commit.parts else {}),
        "files": [_data_members(part) for part in state.files],
        "beside": [_members(part) | {"kind": part.role} for part in state.beside],
        "feed": [vars(part) for part in state.feed],
        "counts": commit.counts,
        **{name: getattr(state, name) for name in ("copy", "changes", "absences")},
        "feed_settings": [vars(part) for part in state.feed_settings],
    }
    return checksummed_json.dump("mutator", _version_of(state), document)


def _version_of(state: State) -> int:
    """Return the format version of a manifest."""
    if state.commit.has_newest_members or EPOCHS in state.spec:
        return 8
    return 7 if any("in path" in form for form in (state.spec, *state.spec.get("earlier", ()))) else _OLDEST


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
def parse(data: bytes, path: str) -> State:
    """Return the state that a manifest has. Raises StateError if it is damaged or newer than this program."""
    try:
        document = checksummed_json.parse(data, "mutator", FORMAT_VERSION, oldest=_OLDEST)
        files, beside = tuple(map(_data_file, document.pop("files"))), side_files(document.pop("beside"))
        commit = Commit(
            number=0,
            id=document.pop("commit"),
            action=RUN,
            buckets=document.pop("buckets") or 0,
            hash=document.pop("hash") or "",
            floor=document.pop("floor", None),
            parts=parts_of(document.pop("parts", ())),
            **rows_of(files, beside),
            **{name: document.pop(name) for name in _OF_COMMIT},
        )
        document["known"] = KnownFeed(tuple(FeedFile(**part) for part in document.pop("feed")))
        document["absences"] = tuple((int(time), str(high)) for time, high in document["absences"])
        document["feed_settings"] = tuple(FeedSettings(**part) for part in document["feed_settings"])
        state = State(commit=commit, files=files, beside=beside, **document)
    except checksummed_json.Newer as fault:
        raise error("manifest.newer", path=path, version=fault.version, known=FORMAT_VERSION) from None
    except (KeyError, TypeError, ValueError) as fault:
        raise damaged(path, fault) from None
    named = {part.path for part in beside}
    for what, wanted in (
        ("file of sequences", (part.order for part in files)),
        ("pack of filters", (part.filter for part in state.parts())),
    ):
        for other in wanted:
            if other is not None and other not in named:
                raise damaged(path, f"it does not name the {what} {other}")
    unsafe = unsafe_path([*(part.path for part in state.parts()), state.copy or PATH])
    if unsafe is not None:
        raise damaged(path, f"it names a file outside of the directory: {unsafe}")
    return state


def rows_of(files: Iterable[FileEntry], beside: Iterable[FileEntry]) -> dict[str, Any]:
    """Return the members of a commit that count the rows and tombstones of its dataset."""
    tombstones = sum(part.rows for part in beside if part.role == TOMBSTONES)
    return {"records": sum(part.rows for part in files), "tombstones": tombstones}


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
