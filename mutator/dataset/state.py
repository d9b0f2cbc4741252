"""The state of a place at a version: what its commits up to it say together. A place is a dataset or a table.

A manifest and a checkpoint are two codecs of a state. The state of a dataset has its files; those of a table, which may
be a million, are columns beside its state, with the masks of their rows: a ``Snapshot``.

The rows of a partition of a table are in buckets by the hash of their keys, modulo a number. A partition begins with
the number that the table was created with; where it outgrows that, a compaction doubles it. Every extent says which
number it was written with, so nothing else has to change at once: extents of both numbers lie side by side until they
are compacted.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mutator.config.definitions import published
from mutator.config.feed_settings import OF_ORDER
from mutator.dataset.commits import Cleaned, Commit, FeedFile, Left, Restored
from mutator.dataset.file_entry import TOMBSTONES, Extent, FileEntry
from mutator.dataset.partition_index import SPEC, earlier_forms, form_of
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.absences import Absence
from mutator.rules.envelopes import OF_APPLIES, settings_after_apply
from mutator.rules.epochs import EPOCHS
from mutator.rules.order_types import NO_ORDER, is_same_order

if TYPE_CHECKING:
    from mutator.rules.byte_columns import Ints
    from mutator.rules.key_hash import Hashes

DEFAULTS = "defaults"  # in the form of files: ``Commit.defaults`` of the version that it began with
Place = tuple[int, int]  # number of buckets, and of one of them


@dataclass(frozen=True, eq=False)
class KnownFeed:
    """Feed files, and what later versions add and forget: a version costs no more if many files are known."""

    base: tuple[FeedFile, ...] = ()
    later: tuple[tuple[str, tuple[FeedFile, ...]], ...] = ()  # of each version, as the arguments of ``after``

    def after(self, since: str, added: tuple[FeedFile, ...]) -> KnownFeed:
        """Return the files after a version. since: earlier files are forgotten. added: by the version."""
        if not since and not added:
            return self
        if "files" in vars(self):
            return KnownFeed(self.files, ((since, added),))
        return KnownFeed(self.base, (*self.later, (since, added)))

    @cached_property
    def files(self) -> tuple[FeedFile, ...]:
        """All files, in the order in which they were added last."""
        kept, again = list[FeedFile](), dict[str, set[tuple[int, str]]]()
        earliest = ""
        for since, added in reversed(self.later):
            for file in reversed(added):
                seen = again.setdefault(file.name, set())
                if (file.bytes, file.checksum) in seen:
                    continue
                seen.add((file.bytes, file.checksum))
                if file.committed >= earliest:
                    kept.append(file)
            earliest = max(earliest, since)
        # The first files may be many, and nearly all of them stay.
        first = self.base if earliest == "" else [file for file in self.base if file.committed >= earliest]
        kept.reverse()
        if not again.keys().isdisjoint([file.name for file in first]):
            first = [file for file in first if (file.bytes, file.checksum) not in again.get(file.name, ())]
        return (*first, *kept)

    def __eq__(self, other: object) -> bool:
        """Return whether the files are equal."""
        return isinstance(other, KnownFeed) and self.files == other.files

    def __hash__(self) -> int:
        """Return a hash of the files."""
        return hash(self.files)


@dataclass(frozen=True)
class BucketCounts:
    """The number of buckets of each partition. Without partitions, the table is one, named None."""

    first: int  # of most partitions
    larger: Mapping[str | None, int] = field(default_factory=dict)  # of those that outgrew it, by directory

    def of(self, partition: str | None) -> int:
        """Return the number of a partition.

        >>> BucketCounts(2, {"day=1": 8}).of("day=1"), BucketCounts(2, {"day=1": 8}).of("day=2")
        (8, 2)
        """
        return self.larger.get(partition, self.first)

    @property
    def most(self) -> int:
        """The number of the partition that has most."""
        return max(self.first, *self.larger.values(), 1)

    def of_rows(self, partitions: Sequence[str | None], codes: Ints, hashes: Hashes) -> Ints:
        """Return the bucket of each row. partitions: directories, by code. codes: of each row. hashes: of keys."""
        import numpy as np  # a run that finds nothing to do loads no Arrow

        if not self.larger:
            return (hashes % np.uint64(self.first)).astype(np.int64)
        counts = np.array([self.of(name) for name in partitions], np.uint64)
        return (hashes % counts[codes]).astype(np.int64)

    def after(self, extents: Iterable[Extent]) -> BucketCounts:
        """Return the numbers after some extents were added: a number never gets smaller."""
        larger = dict[str | None, int]()
        for one in extents:  # first the test that nearly all fail: there may be many thousands
            if one.buckets > self.first and one.buckets > max(self.of(one.partition), larger.get(one.partition, 0)):
                larger[one.partition] = one.buckets
        return replace(self, larger={**self.larger, **larger}) if larger else self


def coarsest(place: Place, known: Mapping[int, Collection[int]]) -> Place:
    """Return the largest bucket with the rows of one. known: number of buckets -> those that a partition has, it too.

    >>> coarsest((8, 5), {8: {5}, 4: {0, 2}, 2: {1}}), coarsest((8, 4), {8: {4}, 4: {1}, 2: {1}})
    ((2, 1), (8, 4))
    """
    _, bucket = place
    return next((count, bucket % count) for count in sorted(known) if bucket % count in known[count])


@dataclass(frozen=True)
class Waiting:
    """Files that a cleaning has named, and that may not have been removed yet."""

    committed: str  # time of the cleaning, ISO 8601
    earliest: int  # version after it
    before: Left
    named: FileEntry
    files: int


@dataclass(frozen=True)
class Cleaning:
    """What all cleanings up to a version say."""

    left: Left = field(default_factory=Left)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)  # cleaning -> files that it names

    @property
    def earliest(self) -> int:
        """The earliest version without a gap after it."""
        return self.left.earliest

    def after(self, number: int, committed: str, cleaned: Cleaned) -> Cleaning:
        """Return what holds after another cleaning. number, committed: of its version."""
        waiting = {earlier: one for earlier, one in self.waiting.items() if earlier not in cleaned.done}
        own = Waiting(committed, cleaned.left.earliest, cleaned.before, cleaned.named, cleaned.files)
        return Cleaning(cleaned.left, {**waiting, number: own})


@dataclass(frozen=True)
class FeedSettings:
    """How feed files were read and merged, by all runs from a commit time on until the next settings."""

    since: str
    settings: Mapping[str, Any]  # by their published names: text, or lists of texts and numbers


@dataclass(frozen=True)
class State:
    """Everything that the next commit must know of a place."""

    commit: Commit  # without its files and feed
    spec: Mapping[str, Any]  # key, order, delimiter, width, op code: another one is an error; empty before any rows
    known: KnownFeed = field(default_factory=KnownFeed)
    # Full snapshots that may have left tombstones by absence, oldest first. Of a table, those of all versions: a
    # restore may bring any tombstone back.
    absences: tuple[Absence, ...] = ()
    # Of a dataset.
    files: tuple[FileEntry, ...] = ()  # with rows of records
    beside: tuple[FileEntry, ...] = ()  # the other ones
    copy: str | None = None  # path of a second manifest with the same bytes; earlier datasets have none
    changes: bool = False  # the run wrote the rows that it changed, if there were any
    feed_settings: tuple[FeedSettings, ...] = ()  # oldest first; runs before the first ones recorded none
    # Of a table.
    schemas: Mapping[int, Mapping[str, Any]] = field(
        default_factory=dict
    )  # version -> form that its files began with; negative: of a dataset that it took over
    # Of version 0, and how the newest applies with messages and with patches read them.
    settings: Mapping[str, Any] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)  # application -> number of its last one
    tags: Mapping[str, int] = field(default_factory=dict)  # name -> version that it protects
    larger: Mapping[str | None, int] = field(default_factory=dict)  # of ``BucketCounts``
    cleaning: Cleaning = field(default_factory=Cleaning)
    # Those of ``schemas`` that began in versions which a restore undid: only files of such versions have them.
    undone: frozenset[int] = frozenset()

    def parts(self) -> tuple[FileEntry, ...]:
        """Return every file of a dataset except the manifest itself."""
        return (*self.files, *self.beside)

    @property
    def feed(self) -> tuple[FeedFile, ...]:
        """The feed files that are known to be merged."""
        return self.known.files

    @property
    def is_partitioned(self) -> bool:
        """Whether rows are in partitions."""
        return SPEC in self.spec

    @property
    def key_scope(self) -> str:
        """Where a record ID has one record: in the "table", or in each "partition"."""
        return str(self.spec[SPEC]["scope"]) if self.is_partitioned else "table"

    @property
    def bucket_count(self) -> int | None:
        """The number of buckets by key hash; None if partitions have their own, or files have none."""
        return None if self.is_partitioned else self.commit.buckets or None

    @property
    def is_without_key(self) -> bool:
        """Whether a dataset was exported or imported, and no run has set its key yet."""
        return bool(self.spec["key"].get("fields") == [])

    @property
    def is_of_bridge(self) -> bool:
        """Whether a dataset is a table that a bridge has written, whose state is with its text copy."""
        return self.is_without_key and self.spec["format"] != "escaped"

    def settings_of_run(self, committed: str) -> Mapping[str, Any] | None:
        """Return the settings by which a run read its feed, given its commit time; None: they were not recorded."""
        found = [one.settings for one in self.feed_settings if one.since <= committed]
        return found[-1] if found else None

    @property
    def buckets(self) -> BucketCounts:
        """The numbers of buckets that the next files of a table are written with."""
        return BucketCounts(self.commit.buckets, self.larger)

    @property
    def schema(self) -> int:
        """The version that the present form of files began with."""
        return max(self.forms, default=0)

    @property
    def forms(self) -> tuple[int, ...]:
        """The versions that the forms of files began with, without those that were undone, ascending."""
        return tuple(sorted(self.schemas.keys() - self.undone))

    def without_order(self) -> State:
        """Return the state as if its rows had no order values yet, and nothing had been deleted."""
        spec = {**{name: value for name, value in self.spec.items() if name != EPOCHS}, "order": NO_ORDER}
        commit = replace(self.commit, horizon=None, floor=None, snapshot=None, parts=(), tombstones=0)
        files = tuple(replace(part, order=None) for part in self.files)
        beside = tuple(part for part in self.beside if part.role not in ("order", TOMBSTONES))
        return replace(self, spec=spec, commit=commit, absences=(), files=files, beside=beside)

    def schema_after(self, spec: Mapping[str, Any], number: int) -> int:
        """Return the version that the form of files began with that a specification has. number: if it is a new one."""
        present = {name: value for name, value in self.schemas.get(self.schema, {}).items() if name != DEFAULTS}
        return self.schema if self.schemas and present == form_of(spec) else number

    def after(self, version: Commit) -> State:
        """Return the state of a table after the next version."""
        if version.restored is not None:
            return self._restored(version, version.restored)
        spec, schemas, settings = self.spec, self.schemas, settings_after_apply(self.settings, version.settings)
        if version.spec is not None:
            spec = version.spec
            if self.spec and not is_same_order(self.spec["order"], spec["order"]):
                settings = {key: value for key, value in settings.items() if published(key) not in OF_ORDER}
            if self.schema_after(spec, version.number) == version.number:
                added = {} if version.defaults is None else {DEFAULTS: version.defaults}
                schemas = {**schemas, **earlier_forms(spec), version.number: {**form_of(spec), **added}}
        transactions = self.transactions
        if version.transaction is not None:
            application, number = version.transaction
            transactions = {**transactions, application: number}
        tags = self.tags
        if version.tags or version.untagged:
            tags = {**{name: number for name, number in tags.items() if name not in version.untagged}, **version.tags}
        cleaning = self.cleaning
        if version.cleaned is not None:
            cleaning = cleaning.after(version.number, version.committed, version.cleaned)
        return replace(
            self,
            commit=bare(version),
            spec=spec,
            known=self.known.after(version.feed_since or "", version.feed),
            absences=(*self.absences, *version.absences),
            schemas=schemas,
            settings=settings,
            transactions=transactions,
            tags=tags,
            larger=self.buckets.after(extent for file in version.files for extent in file.extents).larger,
            cleaning=cleaning,
        )

    def _restored(self, version: Commit, restored: Restored) -> State:
        """Return the state after a restore: that of the earlier version, with the tags of the newest one."""
        others = {name: one for name, one in self.settings.items() if name not in OF_APPLIES}
        return replace(
            self,
            commit=bare(version),
            spec=restored.spec or {},
            known=KnownFeed(restored.feed),
            settings={**others, **version.settings},
            transactions=restored.transactions,
            undone=frozenset(self.schemas.keys() - set(restored.forms)),
        )

    def has_applied(self, transaction: tuple[str, int] | None) -> bool:
        """Return whether a version has a transaction, or a later one of its application."""
        return transaction is not None and self.transactions.get(transaction[0], -1) >= transaction[1]


def first_state(version: Commit) -> State:
    """Return the state of version 0 of a table."""
    return State(bare(version), {}, settings=version.settings)


def bare(version: Commit) -> Commit:
    """Return a commit without what the state after it has elsewhere."""
    nothing: Any = {"files": (), "removed": (), "index": (), "withdrawn": (), "rejected": (), "feed": ()}
    return replace(
        version, **nothing, claim=None, given_up=(), tags={}, untagged=(), cleaned=None, restored=None, absences=()
    )


def defaults_text(defaults: Mapping[str, Any]) -> str | None:
    """Return the values that earlier rows have in new fields, as base 64 of an Arrow stream; None for no values.

    defaults: field to a pa.Array of one value.
    """
    if not defaults:
        return None
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    table = pa.table(dict(defaults))
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def defaults_of(text: str | None) -> dict[str, Any]:
    """Undo ``defaults_text``. Raises ValueError for other text."""
    if text is None:
        return {}
    import pyarrow as pa

    try:
        table = pa.ipc.open_stream(base64.b64decode(text, validate=True)).read_all()
    except (pa.ArrowException, OSError) as fault:
        raise ValueError(str(fault)) from None
    return {name: table.column(name).combine_chunks() for name in table.column_names}


def spec_without_key(file_format: str, schema: Any) -> dict[str, Any]:
    """Return the specification of a dataset whose rows have no key. schema: as the format has it in manifests."""
    spec: dict[str, Any] = {"key": {"fields": [], "types": []}, "order": {"by": "file name"}, "op code": None}
    return {**spec, "format": file_format, "schema": schema}
