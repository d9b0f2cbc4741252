"""Find master and feed, and read the first rows of their files."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from mutator.config.settings import Config, KeySpec, RowSpec, TextSpec
from mutator.dataset.directory import check_no_base, read_manifest
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.files import lines
from mutator.plan.inspect.avro_aliases import with_aliases
from mutator.plan.inspect.control_files import set_apart
from mutator.plan.inspect.envelopes import first_load_of
from mutator.plan.inspect.feed_files import check_entry, entries_below, feed_entries, visible
from mutator.plan.inspect.first_rows import FirstRows, first_rows
from mutator.plan.inspect.key_files import stems_of, without_key_files
from mutator.plan.inspect.managed import check_directories, dataset_sources
from mutator.plan.inspect.probe import probe_file
from mutator.plan.inspect.source import Source
from mutator.plan.proposal.dialects import Head, ProposedDialect, dialect_of, first_columns, first_fields
from mutator.plan.proposal.guessed_encoding import Encodings, encodings_of
from mutator.plan.proposal.tables import SampleTable
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.envelopes import ENVELOPES, are_of_tables, recognized
from mutator.rules.facts import plain_text
from mutator.rules.file_names import is_data_file
from mutator.rules.known_formats import FORMATS
from mutator.rules.partition_paths import directory_above
from mutator.rules.typed_values import column_order_type
from mutator.storage import Entry, absolute, located, storage_for

FILES = 64  # of a side that are read
_ROWS, _BYTES = 50_000, 8 << 20  # of a file
_SIDE_ROWS = 100_000  # of a side


@dataclass(frozen=True)
class Side:
    """The files of master or feed."""

    given: str  # the paths as the user wrote them
    path: str
    sources: tuple[Source, ...]  # of the files that are read
    files: int
    bytes: int
    file_format: str | None = None  # of its delimited files, if the user has set one


class SayingRows(NamedTuple):
    """What is known of delimited feed files whose rows say what they do."""

    dialect: str
    null: str | None  # the text of NULL, if they have it
    is_first_load: bool  # all rows are upserts, and do not say so
    of_tables: bool | None  # rows of several tables are in one file, and no header says of which; None: maybe


@dataclass(frozen=True)
class GivenInputs:
    """Master and feed as their files are, before any field has a meaning."""

    feed: Side
    master: Side | None  # None: there is no master yet
    state: State | None
    control_suffix: str | None
    dialect: ProposedDialect | None  # None: no file is delimited
    delimited: tuple[str, ...]  # paths of delimited files, in the order of the dialect's headers
    file_format: str | None  # of all delimited files, if the user has set one
    encodings: Encodings
    said: SayingRows | None = None  # of delimited feed files; None: their rows are plain records

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files of both sides that are read."""
        return (*(self.master.sources if self.master is not None else ()), *self.feed.sources)

    @property
    def nameless(self) -> bool:
        """Whether all files are delimited, and nothing names their fields."""
        if self.said is not None or self.dialect is None or len(self.delimited) < len(self.sources):
            return False
        return all(names is None for names in self.dialect.headers)


def find_inputs(
    master: str | None,
    feed: Sequence[str],
    delimiter: Delimiter | None,
    formats: Mapping[str, str | None],
    encodings: Mapping[str, str | None],
    of_feed: str | None = None,
) -> GivenInputs:
    """Find the files of master and feed, and the dialect of those that are delimited.

    delimiter: the one that the user has set. formats: side to the file format that the user has set. encodings: those
    that the user has set, by key. of_feed: the dialect of the feed that the user has set. Raises ConfigError,
    DataError, StorageError or StateError with the path.
    """
    rows = RowSpec(KeySpec((0,)), text=TextSpec() if delimiter is None else TextSpec(delimiter))
    suffix, by_path = _feed_entries([absolute(path) for path in feed])
    entries = list(by_path.values())
    found = None if master is None else _master_files(master)
    encoded = encodings_of(encodings, _spread(entries, FILES), _spread(found.entries, FILES) if found else ())
    feed_side = _side(_in(rows, encoded.feed), ", ".join(map(without_secrets, feed)), "", entries, formats["feed"])
    master_side, known = None, None
    if master is not None and found is not None:
        known = found.state
        master_side = _master(_in(rows, encoded.master), master, found, formats["master"])
    _check_apart(feed_side, master_side)
    if not any(source.bytes for source in (*feed_side.sources, *(master_side.sources if master_side else ()))):
        raise error("init.empty", path=feed_side.given)
    heads, paths = [], []
    for name, side in (("master", master_side), ("feed", feed_side)):
        for source in side.sources if side is not None else ():
            if not source.format.delimited or (name == "master" and known is not None):
                continue
            heads.append(Head(name, source.name, _lines(source)))
            paths.append(source.path)
    dialect = None
    of_sides = {formats[head.side] for head in heads}
    file_format = of_sides.pop() if len(of_sides) == 1 else None
    if heads:
        wanted = delimiter.literal if delimiter is not None else _delimiter_of(known)
        dialect = _dialect(heads, wanted, file_format, feed_side.sources)
    said = None if dialect is None else _said(heads, dialect, feed_side.sources, of_feed)
    return GivenInputs(feed_side, master_side, known, suffix, dialect, tuple(paths), file_format, encoded, said)


def _said(
    heads: Sequence[Head], dialect: ProposedDialect, feed: Sequence[Source], wanted: str | None
) -> SayingRows | None:
    """Return the dialect of delimited feed files whose rows say what they do; None for plain records.

    wanted: the one that the user has set.
    """
    pairs = [(head, names) for head, names in zip(heads, dialect.headers, strict=True) if head.side == "feed"]
    files = [(head.file, first_columns(head, dialect, names)) for head, names in pairs]
    found = (recognized([*columns], columns.__getitem__, file, "text") for file, columns in files)
    known = wanted if pairs and wanted is not None else next((one for one in found if one is not None), None)
    name = known or first_load_of(feed)
    if name is None or (any(names is None for _, names in pairs) and not ENVELOPES[name].traces.head):
        return None
    null = ENVELOPES[name].traces.null
    has_null = null and any(null.encode() in values for _, columns in files for values in columns.values())
    rows = chain.from_iterable(first_fields(head, dialect, 3) for head, names in pairs if names is None)
    return SayingRows(name, null if has_null else None, known is None, are_of_tables(name, rows))


def _in(rows: RowSpec, encoding: str) -> RowSpec:
    """Return how the files of a side are read."""
    return replace(rows, text=replace(rows.text, encoding=encoding))


def _dialect(
    heads: Sequence[Head], wanted: bytes | None, file_format: str | None, feed: Sequence[Source]
) -> ProposedDialect:
    """Return the dialect of all files. Raises DataError if each side has a dialect of its own."""
    found = dialect_of(heads, wanted, file_format)
    master, own = ([head for head in heads if head.side == side] for side in ("master", "feed"))
    if master and own and wanted is None:
        names = [dialect_of(side).name for side in (master, own) if any(map(_several, side))]
        apart = {dialect_of(side).delimiter for side in (master, own) if any(map(_several, side))} - {None}
        if len(apart) == 2 and found.delimiter not in apart:
            what = f"{names[1]} separates its fields, and {names[0]} those of the master"
            cure = "a run has one delimiter: have both delivered with the same"
            raise error("format", path=feed[0].path, what=what, cure=cure)
    return found


def _several(head: Head) -> bool:
    return len(head.lines) > 1


def _feed_entries(paths: Sequence[str]) -> tuple[str | None, Mapping[str, Entry]]:
    """Return the suffix of control files, if there are any, and the feed files."""
    entries = without_key_files(feed_entries(paths, None)[0])
    names = {entry.path for entry in entries.values()}
    suffixes = Counter(
        path.removeprefix(other) for path in names for other in stems_of(path) if other in names and path != other
    )
    for suffix, count in suffixes.most_common(1):
        if 2 * count == len(names):
            return suffix, set_apart(suffix, paths, entries)
    return None, entries


def _side(rows: RowSpec, given: str, path: str, entries: Sequence[Entry], wanted: str | None) -> Side:
    delimited = wanted if wanted is not None and FORMATS[wanted].delimited else None
    # Delimited files of any format are lines until their delimiter is known.
    wanted = wanted if delimited is None else "text"
    entries = sorted(entries, key=lambda entry: (os.fsencode(entry.name), os.fsencode(entry.path)))
    sources = [
        probe_file(rows, storage_for(entry.path), entry, wanted, named=False) for entry in _spread(entries, FILES)
    ]
    return Side(given, path, tuple(sources), len(entries), sum(entry.bytes for entry in entries), delimited)


def _spread(entries: Sequence[Entry], most: int) -> list[Entry]:
    """Return entries from the beginning, the middle and the end."""
    if len(entries) <= most:
        return list(entries)
    return [entries[number * (len(entries) - 1) // (most - 1)] for number in range(most)]


@dataclass(frozen=True)
class _MasterFiles:
    """Where a master is, its manifest, and its files if it has none."""

    path: str
    state: State | None
    entries: Sequence[Entry] = ()


def _master_files(master: str) -> _MasterFiles:
    storage, path = located(master)
    entry = storage.stat(path)
    if entry is None:
        raise error("init.master", path=master)
    known = read_manifest(storage, path) if entry.type == "directory" else None
    if known is not None:
        check_directories(known, path)
        return _MasterFiles(path, known)
    entries = visible(entries_below(storage, path))[0] if entry.type == "directory" else [entry]
    check_no_base(storage, path, entries)
    for part in entries:
        check_entry(part, "move its files up, or into directories of partitions such as store_id=12/")
    return _MasterFiles(path, None, entries)


def _master(rows: RowSpec, master: str, found: _MasterFiles, wanted: str | None) -> Side:
    if found.state is None:
        return _side(rows, master, found.path, found.entries, wanted)
    sources = dataset_sources(found.path, found.state)[0]
    return Side(master, found.path, sources[:FILES], len(sources), sum(source.bytes for source in sources))


def _delimiter_of(known: State | None) -> bytes | None:
    """Return the delimiter in the manifest of delimited text."""
    if known is None or known.spec["format"] != "text":
        return None
    literal = known.spec.get("delimiter", {}).get("literal")
    return literal.encode("utf-8", "surrogateescape") if literal else None


def _check_apart(feed: Side, master: Side | None) -> None:
    own = {source.path for source in master.sources} if master is not None else set()
    for source in feed.sources:
        if source.path in own:
            raise error("path.roles", path=source.path, roles="master and feed")


def _lines(source: Source) -> tuple[bytes, ...]:
    """Return the first lines of a delimited file."""
    found = [line for _, line in lines.rows([source.head], source.ending or lines.LF)]
    if source.bom and found:
        found[0] = found[0].removeprefix(lines.UTF8_BOM)
    return tuple(found)


def read_tables(given: GivenInputs, config: Config, *, named: bool) -> tuple[list[SampleTable], list[SampleTable]]:
    """Read the first rows of master and feed as a configuration says.

    named: fields have names, so that .csv means CSV. Fields are names, or ordinals in the file; field.names does not
    count where no file has names, because a row of the master may lack the op code.
    """
    rows, inputs = config.rows, config.inputs
    if given.nameless:
        rows = replace(rows, text=replace(rows.text, names=()))
    master = given.master.sources if given.master is not None else ()
    headers: dict[str, tuple[bytes, ...] | None] = {}
    if given.dialect is not None and given.dialect.unusable_names is None:
        headers = dict(zip(given.delimited, given.dialect.headers, strict=True))
    both = with_aliases(master, given.feed.sources, None, None, keeps_names=False)
    renamed = {
        source.path: {path[0]: name for path, name in source.renamed if len(path) == 1}
        for source in (*both.master, *both.feed)
    }
    below = given.master.path if given.master else ""
    return (
        _tables(_in(rows, given.encodings.master), master, inputs.master_format, headers, named, below, renamed),
        _tables(_in(rows, given.encodings.feed), given.feed.sources, inputs.feed_format, headers, named, "", renamed),
    )


def _tables(
    rows: RowSpec,
    sources: Iterable[Source],
    wanted: str | None,
    headers: Mapping[str, tuple[bytes, ...] | None],
    named: bool,
    base: str,
    renamed: Mapping[str, Mapping[str, str]],
) -> list[SampleTable]:
    tables = []
    left = _SIDE_ROWS
    unchecked = replace(rows, text=replace(rows.text, header_check=False))
    for source in sources:
        names = headers.get(source.path)
        if source.part is None and source.format.delimited:
            entry = Entry(source.path, source.name, source.bytes, "file")
            how = unchecked if names is None else rows
            source = probe_file(how, storage_for(source.path), entry, wanted, named=named)
            if is_data_file(source.name) and source.file_format == "text":
                source = replace(source, header_end=0)
        split = rows.text.delimiter.split if source.file_format == "text" else None
        first = first_rows(source, split, min(_ROWS, left), _BYTES)
        left = max(left - first.count, 1000)
        directory = (
            posixpath.dirname(source.path.removeprefix(base).lstrip("/")) if base else directory_above(source.path)
        )
        of_text = names if source.file_format == "text" else None
        tables.append(_table(source, first, of_text, directory if "=" in directory else "", renamed[source.path]))
    return tables


def _table(
    source: Source, rows: FirstRows, names: tuple[bytes, ...] | None, directory: str, renamed: Mapping[str, str]
) -> SampleTable:
    types: dict[str, Any] = {}
    if source.file_schema is not None and source.format.stores_schema:
        fields = source.file_schema.schema
        types = {renamed.get(one.name, one.name): column_order_type(one.type, "string") for one in fields}
    columns = {renamed.get(name, name): list(values) for name, values in rows.columns.items()}
    if names is not None and len(names) == len(columns):
        columns = dict(zip(map(plain_text, names), columns.values(), strict=True))
    return SampleTable(source.name, columns, rows.count, source.sequence, directory, types, rows.others, source)
