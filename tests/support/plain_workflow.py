"""A workflow whose merge is plain Python: rows are ``key,value``, the highest sequence wins, ``del`` files delete.

It also has the oracle: the invariants of a base after a crash, once another process has recovered it.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

from mutator.config import parse
from mutator.dataset.checksum import whole
from mutator.dataset.commit.publish import publish
from mutator.dataset.commits import RUN, Commit, FeedFile
from mutator.dataset.directory import read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.manifest import copy_path
from mutator.dataset.state import KnownFeed, State
from mutator.dataset.version_log import Log
from mutator.errors import error
from mutator.rules import file_names
from mutator.storage import blocks, entries_of, storage_for
from mutator.workflow.directory.master_target import Task
from mutator.workflow.directory.paths import Base, master_of
from mutator.workflow.directory.run_phases import Merged
from tests.support.master_base import run_workflow, status_of

CONFIG = parse({"key": 0, "claim.min.age": "0s", "backup.keep": 2})
BAD = b"bad"  # content of a feed file that no run can merge
CONTROL = ".ctl"  # the suffix of control files, if a test has any
GIVEN = b"a,given\nb,given\nc,given\n"
FEEDS = {
    "ups_1.txt": b"a,1\nd,1\n",
    "del_2.txt": b"b,x\n",
    "ups_3.txt": b"a,3\ne,3\n",
    "ups_4.txt": b"b,4\n",
}


def read(path: str) -> bytes:
    with storage_for(path).open(path) as stream:
        return b"".join(blocks(stream))


def put(path: str, content: bytes) -> None:
    storage = storage_for(path)
    storage.make_directory(posixpath.dirname(path))
    with storage.create_new(path) as stream:
        stream.write(content)


def merge(task: Task) -> Merged:
    """Merge as a run does, in plain Python."""
    known = read_manifest(storage_for(task.master), task.master)
    rows, applied = read_rows(task.master, known)
    paths = []
    for path in task.feed:
        entry = storage_for(path).stat(path)
        if entry is None:
            raise error("path.missing", path=path, what="feed file or directory")
        paths += [one.path for one in entries_of(path)] if entry.type == "directory" else [path]
    paths = [
        path for path in paths if not file_names.is_hidden(posixpath.basename(path)) and not path.endswith(CONTROL)
    ]
    for path in paths:
        if read(path) == BAD:
            raise error("damaged", path=path, why="it is bad")
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    before = known.feed if known else ()
    files = [FeedFile(posixpath.basename(path), len(read(path)), whole(read(path)), now) for path in paths]
    consumed = {(one.name, one.checksum) for one in before}
    fresh = [file for file in files if (file.name, file.checksum) not in consumed]
    skipped = tuple(file.name for file in files if (file.name, file.checksum) in consumed)
    if not fresh:
        return Merged(skipped)
    content = {one.name: read(path) for one, path in zip(files, paths, strict=True) if one in fresh}
    text = dump_rows(apply(rows, applied, content))
    name = f"part-00000-{task.run}.txt"
    made = State(
        commit=Commit(
            number=0,
            id=uuid4().hex,
            parent=known.commit.id if known else None,
            action=RUN,
            run=task.run,
            committed=now,
            records=text.count(b"\n"),
        ),
        spec={},
        files=(FileEntry(path=name, bucket=None, rows=text.count(b"\n"), bytes=len(text), checksum=whole(text)),),
        known=KnownFeed((*before, *fresh)),
        copy=copy_path(task.run),
    )

    def write(staging: str) -> State:
        put(f"{staging}/{name}", text)
        return made

    publish(task.output, task.run, write)
    return Merged(skipped, state=made)


Rows = dict[str, tuple[int, str | None]]  # key -> sequence, value; None: deleted


def read_rows(path: str, known: State | None) -> tuple[Rows, set[str]]:
    """Return the rows of a master, each with its sequence, the last field of the line."""
    if known is not None:
        text = b"".join(read(f"{path}/{part.path}") for part in known.files)
    else:
        text = b"".join(read(one.path) for one in entries_of(path) if one.type == "file")
    rows: Rows = {}
    for line in text.decode().splitlines():
        key, value, *more = line.split(",")
        rows[key] = (int(more[0]) if more else -1, value if value != "<deleted>" else None)
    return rows, set()


def apply(rows: Rows, _: set[str], feeds: dict[str, bytes]) -> Rows:
    """Apply feed files in any order: the highest sequence of each key wins."""
    rows = dict(rows)
    for name, content in feeds.items():
        sequence = file_names.sequence(name)
        assert sequence is not None
        for line in content.decode().splitlines():
            key, value = line.split(",")
            if key not in rows or rows[key][0] <= sequence:
                rows[key] = (sequence, None if name.startswith("del") else value)
    return rows


def dump_rows(rows: Rows) -> bytes:
    lines = (f"{key},{'<deleted>' if value is None else value},{sequence}\n" for key, (sequence, value) in rows.items())
    return "".join(sorted(lines)).encode()


def expected(feeds: dict[str, bytes]) -> bytes:
    """Return the master after a set of feed files."""
    given: Rows = {line.split(",")[0]: (-1, line.split(",")[1]) for line in GIVEN.decode().splitlines()}
    return dump_rows(apply(given, set(), feeds))


def found_feed(base: Base) -> Counter[tuple[str, bytes]]:
    """Return the feed files in all directories of a base, with their contents."""
    found: Counter[tuple[str, bytes]] = Counter()
    places = [base.at("incr")]
    places += [one.path for one in entries_of(base.at("incr")) if one.type == "directory"]
    for name in ("working", "archive", "failed"):
        places += [entry.path for entry in entries_of(base.at(name)) if entry.type == "directory"]
    for place in places:
        for one in entries_of(place):
            if one.type == "file":
                found[one.name, read(one.path)] += 1
    return found


def check(base: Base, feeds: dict[str, bytes], *, restored: bool = False) -> set[str]:
    """Check all invariants of a base; return the names of the merged feed files.

    restored: an older version was restored, so a file that was merged may count as unmerged.
    """
    log = Log(base.path)
    versions = log.all()
    latest = log.latest()
    merged: set[str] = set()
    if latest.dataset is None:
        assert b"".join(read(one.path) for one in entries_of(base.master) if one.type == "file") == GIVEN
    else:
        master = master_of(base, latest)
        known = read_manifest(base.storage, master)
        assert known is not None
        assert known.commit.id == latest.dataset
        merged = {file.name for file in known.feed}
        assert read(f"{master}/{known.files[0].path}") == expected({name: feeds[name] for name in merged})
    assert found_feed(base) == Counter(feeds.items()), "feed files got lost, or doubled"
    runs = [version.run for version in versions if version.action == "run"]
    assert len(set(runs)) == len(runs), "a run committed twice"
    # The files that a run merged count as merged now, and no file was merged twice.
    names = [part.name for version in versions if version.action == "run" for part in version.feed]
    assert len(set(names)) == len(names)
    if base.storage.renames:
        archived = {entry.name for run in entries_of(base.at("archive")) for entry in entries_of(run.path)}
        assert {name for name in archived if name.endswith(CONTROL)} == {f"{name}{CONTROL}" for name in merged} & {
            *feeds
        }
        archived = {name for name in archived if not name.endswith(CONTROL)}
        assert archived == merged or (restored and archived > merged)
        for place in ("working", "output", "_mutator/runs"):
            assert entries_of(base.at(place)) == [], place
        datasets = {version.dataset for version in versions} - {None, latest.dataset}
        kept = [entry.name for entry in entries_of(base.at("backup"))]
        # A run that is killed before it removes old ones leaves them to the next run.
        assert (
            min(len(datasets) + bool(latest.dataset), CONFIG.workflow.backup_keep)
            <= len(kept)
            <= CONFIG.workflow.backup_keep + 1
        ), kept
    else:
        left = entries_of(base.at("output"))
        assert {one.name for one in left} <= {one.run for one in versions if one.path}, left
        assert base.storage.unfinished(base.at("output")) == []
    return merged


NAMES = list(FEEDS)

FED = {name: FEEDS[name] for name in NAMES[:3]}


def arrive(base, *names):
    for name in names:
        (base / "incr").mkdir(exist_ok=True)
        (base / "incr" / name).write_bytes(FEEDS[name])


def new_base(path, runs):
    (path / "master").mkdir(parents=True)
    (path / "master" / "given.txt").write_bytes(GIVEN)
    for name in NAMES[:runs]:
        arrive(path, name)
        run_it(path)
    arrive(path, *NAMES[runs:3])
    return path


def run_it(base):
    return run_workflow(str(base), CONFIG, merge, sleep=lambda _: None)


def read_status(base):
    return status_of(str(base), CONFIG)
