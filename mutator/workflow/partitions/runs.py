"""Scripted runs, partition by partition: the loop that operators write around ``mutator run``, and what it must keep.

    pair     the partition directories of a master with those of a split feed
    merge    each partition that the feed touches, a run of its own; what it writes is there whole or not at all
    carry    each other one: hard links where it is a managed master, and else a run without a feed
    publish  the whole, under its name, when no partition is left

All of it is made in a hidden directory beside the output. A loop that was stopped or failed is taken up where it was:
partitions that are there are not merged again. (Where a storage cannot rename, that directory is the output itself, and
``_SUCCESS`` says that it is whole.) A record may not change its partition between runs: nothing is seen of the others.
"""

from __future__ import annotations

import json
import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mutator.config import Config
from mutator.dataset import checksummed_json, manifest, split_record
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import differing_parts, read_manifest
from mutator.dataset.manifest import Manifest
from mutator.errors import error
from mutator.errors.failpoints import failpoint
from mutator.errors.redact import without_secrets
from mutator.pipeline.merge import Engine, run
from mutator.rules import file_names
from mutator.rules.outcome import FEED_OUTCOMES
from mutator.rules.partition_paths import directory_of, values_of
from mutator.storage import Storage, absolute, blocks, same_storage, storage_for, walk, writable_storage_for

__all__ = ["PartitionRun", "PartitionRuns", "run_partitions"]

_RECORD, _FORMAT, _VERSION = "_partition_runs.json", "mutator partition runs", 1
_COLUMNS = ("inserted", "updated", "deleted")
_Pair = tuple[str | None, str | None]  # directories of a partition in master and feed; None: it is not there


@dataclass(frozen=True)
class PartitionRun:
    """What became of one partition."""

    directory: str
    how: str  # merged | carried
    counts: Mapping[str, int]  # of its manifest: of its last run
    before: bool = False  # by an earlier call, which did not come to its end


@dataclass(frozen=True)
class PartitionRuns:
    """What became of all of them."""

    master: str
    feed: str
    output: str
    partitions: tuple[PartitionRun, ...]
    warnings: tuple[str, ...]
    seconds: float

    def counts(self) -> dict[str, int]:
        """Return the sums: rows of the feed, their outcomes, and rows of the output."""
        names = ("feed rows", *(f"feed {name}" for name in FEED_OUTCOMES))
        merged = [one for one in self.partitions if one.how == "merged"]
        found = {name: sum(one.counts.get(name, 0) for one in merged) for name in names}
        return found | {"output rows": sum(one.counts.get("output rows", 0) for one in self.partitions)}

    def json(self) -> str:
        """Return the report as a JSON document."""
        return json.dumps({**asdict(self), "counts": self.counts()}, indent=1)

    def text(self) -> str:
        """Return the report as lines for a terminal, one a partition."""
        width = max([len("partition"), *(len(one.directory) for one in self.partitions)])
        head = "".join(f"{name:>12}" for name in ("feed rows", *_COLUMNS, "output rows"))
        lines = [f"{'partition':<{width}}  {'':<8}{head}"]
        for one in self.partitions:
            shown = [one.counts.get(name, 0) for name in ("feed rows", *(f"feed {name}" for name in _COLUMNS))]
            cells = [f"{count:,}" for count in shown] if one.how == "merged" else ["" for _ in shown]
            cells.append(f"{one.counts.get('output rows', 0):,}")
            before = "  (before)" if one.before else ""
            lines.append(f"{one.directory:<{width}}  {one.how:<8}{''.join(f'{cell:>12}' for cell in cells)}{before}")
        n = self.counts()
        merged = sum(one.how == "merged" for one in self.partitions)
        lines.append("")
        lines.append(
            f"wrote {n['output rows']:,} rows in {len(self.partitions):,} partitions, {merged:,} merged and "
            f"{len(self.partitions) - merged:,} carried over; {self.seconds:.1f} s"
        )
        return "\n".join(lines)


def run_partitions(
    config: Config,
    merge_on: Engine,
    *,
    master: str,
    feed: str,
    output: str,
    engine: str = "auto",
    tell: Callable[[PartitionRun], None] = lambda _: None,
) -> PartitionRuns:
    """Merge a split feed into a master, a run for each partition that it touches.

    master: a directory of partition directories, each a master of its own, managed or not. feed: a directory of the
    same shape. output: a path that must not exist, unless an earlier call was stopped; then it goes on. tell: gets each
    partition when it is done. Raises the errors of the catalogue; what is done by then need not be done again.
    """
    started = time.monotonic()
    if config.full:
        faults = "a partition that the snapshot lacks would stay; split nothing, and merge the snapshot as a whole"
        raise error("config", where="sync.mode=full", faults=faults)
    # In its directory, a feed file has neither its control file nor those of other sequences beside it.
    config = replace(config, control_suffix=None, sequence_gaps="ignore")
    # A partition is a master without partitions; the settings of one run for all may stand in the same file.
    config = replace(config, partitioned_by=(), key_scope=None)
    places = [absolute(path) for path in (master, feed, output)]
    storage = writable_storage_for(places[2])
    old, new, target = (storage_for(place).resolve(place) for place in places)
    pairs = _pairs(config, old, new)
    with _Work(storage, target, _inputs(config, old, new, pairs)) as work:
        done, warnings = [], list(config.warnings)
        for directory, (held, fresh) in pairs.items():
            place = posixpath.join(work.place, directory)
            known = _made(storage, place)
            merged = fresh is not None
            before = known is not None
            if known is None and not (fresh is None and held is not None and _carried(held, place)):
                merging = config if held is not None else replace(config, allow_empty_master=True)
                source = held or posixpath.join(old, directory)
                report = run(merge_on, merging, master=source, feed=fresh or (), output=place, engine=engine)
                warnings += [f"{directory}: {text}" for text in report.warnings if text not in config.warnings]
            known = _made(storage, place)
            assert known is not None
            counts = known.counts if merged else {"output rows": sum(part.rows for part in known.files)}
            done.append(PartitionRun(directory, "merged" if merged else "carried", counts, before))
            tell(done[-1])
            failpoint("runs.partition.done")
        work.publish(done)
    return PartitionRuns(
        without_secrets(master),
        without_secrets(feed),
        without_secrets(output),
        tuple(done),
        tuple(warnings),
        round(time.monotonic() - started, 3),
    )


def _pairs(config: Config, master: str, feed: str) -> dict[str, _Pair]:
    """Return each partition with its directories in master and feed, by the spelling that the output has."""
    storage = storage_for(feed)
    if storage.stat(feed) is None:
        raise error("path.missing", path=feed, what="split feed")
    _check_record(storage, feed)
    if storage_for(master).stat(master) is None:
        if not config.allow_empty_master:
            raise error("master.missing", path=master)
        held: dict[str, str] = {}
    else:
        held = _leaves(master)
    fresh = _leaves(feed)
    by: dict[tuple[str, ...], str] = {}  # names of partition fields -> a directory that has them
    for root, leaves in ((master, held), (feed, fresh)):
        for directory in leaves.values():
            by.setdefault(tuple(name for name, _ in values_of(directory)), posixpath.join(root, directory))
    if len(by) > 1:
        (names, path), (others, other) = list(by.items())[:2]
        what = f"is a partition by {', '.join(names)}, and {other} one by {', '.join(others)}"
        raise error("partition.tree", path=path, what=what)
    found: dict[str, _Pair] = {}
    for key in sorted({*held, *fresh}):
        spelled = held.get(key) or fresh[key]
        own = posixpath.join(master, held[key]) if key in held else None
        found[spelled] = (own, posixpath.join(feed, fresh[key]) if key in fresh else None)
    return found


def _leaves(root: str) -> dict[str, str]:
    """Return the partition directories below a directory: as they would be called here -> as they are."""
    found: dict[str, str] = {}
    storage = storage_for(root)

    def walk_into(steps: tuple[str, ...]) -> None:
        path = posixpath.join(root, *steps)
        entries = [one for one in storage.entries(path) if not file_names.is_hidden(one.name)]
        inner = [one for one in entries if one.type == "directory" and "=" in one.name]
        if not steps and not inner and not entries:
            return
        if steps and not inner:
            directory = "/".join(steps)
            try:
                values = values_of(directory)
            except ValueError as fault:
                raise error("partition.tree", path=path, what=fault) from None
            key = directory_of([name for name, _ in values], [value for _, value in values])
            if key in found:
                raise error("partition.tree", path=path, what=f"is the partition that {found[key]} is")
            found[key] = directory
            return
        for one in entries:
            if one not in inner:
                raise error("partition.tree", path=one.path, what="lies where partition directories are, and is none")
            walk_into((*steps, one.name))

    walk_into(())
    return found


def _check_record(storage: Storage, feed: str) -> None:
    """Raise StateError where a split feed is not what was split; one that others have split has no record."""
    path = posixpath.join(feed, split_record.PATH)
    if storage.stat(path) is None:
        return
    with storage.open(path) as stream:
        record = split_record.parse(b"".join(blocks(stream)), path)
    there = {posixpath.relpath(one.path, feed): one.bytes for one in walk(feed) if not file_names.is_hidden(one.name)}
    there = {name: size for name, size in there.items() if not file_names.is_hidden(name)}
    said = {part.path: part.bytes for file in record.files for part in file.parts}
    differ = sorted(name for name in {*there, *said} if there.get(name) != said.get(name))
    if differ:
        raise error(
            "split.damaged", path=path, why=f"the files are others than it says: {file_names.first_few(differ)}"
        )


def _inputs(config: Config, master: str, feed: str, pairs: Mapping[str, _Pair]) -> dict[str, Any]:
    """Return what must be the same when a loop is taken up again."""
    storage, path = storage_for(feed), posixpath.join(feed, split_record.PATH)
    commit = None
    if storage.stat(path) is not None:
        with storage.open(path) as stream:
            commit = split_record.parse(b"".join(blocks(stream)), path).commit
    content = {without_secrets(path): _content(path) for pair in pairs.values() for path in pair if path is not None}
    places = {"master": without_secrets(master), "feed": without_secrets(feed)}
    return {**places, "split": commit, "config": _told(config), "content": content}


def _content(directory: str) -> Any:
    """Return what tells a directory from one of another content: the commit of its manifest, or a listing."""
    storage = storage_for(directory)
    if storage.stat(posixpath.join(directory, manifest.PATH)) is not None:
        known = read_manifest(storage, directory)
        return known.commit if known is not None else None
    # Links to a file, such as those of a backup, do not change it: where content has a time of its own, that one.
    files = [one for one in storage.entries(directory) if not file_names.is_hidden(one.name)]
    return sorted([one.name, one.bytes, one.modified if one.written is None else one.written, one.tag] for one in files)


def _differing(begun: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say which inputs of a loop are others than it was begun with."""
    names = sorted(name for name, value in now.items() if begun.get(name) != value)
    if names != ["content"]:
        return " and ".join(name for name in names if name != "content")
    before, there = begun.get("content", {}), now["content"]
    paths = sorted(path for path in {*before, *there} if before.get(path) != there.get(path))
    return f"content of {file_names.first_few(paths)}"


def _told(config: Config) -> dict[str, str]:
    """Return a configuration as text; sets in an order."""
    found = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in vars(config).items()}
    return {name: repr(value) for name, value in found.items() if name != "warnings"}


def _made(storage: Storage, place: str) -> Manifest | None:
    """Return the manifest of what was made of a partition; None where it is not there yet."""
    return read_manifest(storage, place) if storage.stat(posixpath.join(place, manifest.PATH)) is not None else None


def _carried(held: str, place: str) -> bool:
    """Take a managed master over by links, whole or not at all; False where that cannot be done."""
    storage = storage_for(place)
    if not storage.renames or not same_storage(held, place):
        return False
    known = read_manifest(storage, held)
    if known is None:
        return False
    problems = differing_parts(storage, held, known.parts())
    if problems:
        raise error("manifest.files", path=held, what=file_names.first_few(problems))
    above, name = posixpath.split(place)
    staged = posixpath.join(above, f".{name}.carried")
    storage.remove(staged)
    names = [*(part.path for part in known.parts()), manifest.PATH]
    names += [SUCCESS] if storage.stat(posixpath.join(held, SUCCESS)) is not None else []
    for directory in sorted({posixpath.dirname(name) for name in names}):
        storage.make_directory(posixpath.join(staged, directory))
    for name in names:
        if not storage.link_new(posixpath.join(held, name), posixpath.join(staged, name)):
            storage.remove(staged)
            return False
    for directory in sorted({posixpath.dirname(name) for name in names}):
        storage.sync(posixpath.join(staged, directory))
    failpoint("runs.linked")
    storage.rename_new(staged, place)
    return True


class _Work:
    """Where the partitions are made, and the one who is at work there."""

    def __init__(self, storage: Storage, output: str, inputs: Mapping[str, Any]) -> None:
        above, name = posixpath.split(output)
        self.place = posixpath.join(above, f".{name}.partitions") if storage.renames else output
        self._storage, self._output, self._inputs = storage, output, inputs
        self._record = posixpath.join(self.place, _RECORD)
        self._claim: object | None = None

    def __enter__(self) -> _Work:
        storage = self._storage
        if storage.renames and storage.stat(self._output) is not None:
            raise error("output.exists", path=self._output)
        begun = self._read()
        if begun is None and not storage.renames and storage.stat(self._output) is not None:
            raise error("output.exists", path=self._output)
        if begun is not None and begun["partitions"] is not None and not storage.renames:
            raise error("output.exists", path=self._output)
        storage.make_directory(self.place)
        if storage.holds:
            self._claim = storage.hold(self.place)
            if self._claim is None:
                raise error("output.busy", path=self._output, staging=self.place)
        if begun is None:
            with storage.create_new(self._record) as stream:
                stream.write(
                    checksummed_json.dump(_FORMAT, _VERSION, {"inputs": dict(self._inputs), "partitions": None})
                )
        elif begun["inputs"] != self._inputs:
            what = _differing(begun["inputs"], self._inputs)
            raise error("partition.resume", path=self._output, place=self.place, what=what)
        failpoint("runs.begun")
        return self

    def __exit__(self, *_: object) -> None:
        self._claim = None

    def _read(self) -> dict[str, Any] | None:
        if self._storage.stat(self._record) is None:
            return None
        with self._storage.open(self._record) as stream:
            data = b"".join(blocks(stream))
        try:
            return checksummed_json.parse(data, _FORMAT, _VERSION)
        except ValueError as fault:
            raise error("partition.resume", path=self._output, place=self.place, what=f"record ({fault})") from None

    def publish(self, done: Sequence[PartitionRun]) -> None:
        """Make the whole visible, with a record of what was done."""
        storage, told = self._storage, [{**asdict(one), "counts": dict(one.counts)} for one in done]
        content = checksummed_json.dump(_FORMAT, _VERSION, {"inputs": dict(self._inputs), "partitions": told})
        success = posixpath.join(self.place, SUCCESS)
        if storage.stat(success) is None:
            with storage.create_new(success):
                pass
        failpoint("runs.success")
        storage.replace(self._record, content)
        failpoint("runs.recorded")
        if storage.renames:
            try:
                storage.rename_new(self.place, self._output)
            except FileExistsError:
                raise error("output.exists", path=self._output) from None
        failpoint("runs.published")
