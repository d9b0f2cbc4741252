"""Files with the keys, or the headers, of the messages in feed files: they are no feed files, and keys may be read.

The sinks of Kafka Connect write them beside the messages, under the name of their file: ``t+0+0000000000.keys.json``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mutator.config.settings import OpSpec, RowSpec
from mutator.dataset.file_content import FileContent
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.parts import setting
from mutator.formats.content import KeyFile, NotReadable, unreadable
from mutator.plan.inspect.probe import format_of_name
from mutator.plan.inspect.source import Source
from mutator.rules import file_names
from mutator.rules.envelopes import BESIDE, KEYS
from mutator.storage import Entry, absolute, storage_for
from mutator.storage.compression import CorruptStream

_NAME = re.compile(r"(?P<stem>.+?)(?P<ending>(?:\.(?:json|jsonl|ndjson|avro|parquet))?(?:\.[a-z0-9]+)?)")
_ENDINGS = (".json", ".avro", ".json.gz", ".parquet")  # of files of keys, which have a format of their own


def without_twins(ops: OpSpec, entries: Mapping[str, Entry]) -> tuple[dict[str, Entry], tuple[str, ...]]:
    """Return the feed files among the files of a feed, by path, and a note on the others, if there are any."""
    if not ops.has_key_files:
        return dict(entries), ()
    found = {path: entry for path, entry in entries.items() if not file_names.is_key_file(entry.name)}
    count_of_twins = len(entries) - len(found)
    if not count_of_twins or ops.key_files is not None:
        return found, ()
    names = file_names.first_few([entry.name for path, entry in entries.items() if path not in found])
    note = f"{counted(count_of_twins, 'file')} of keys or headers ({names}) are not read; {setting('feed.keys=beside')}"
    return found, (f"{note} reads keys for deletes without one",)


def without_key_files(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return files, by path, without those that have the keys or headers of messages in others."""
    stems = {
        stem for path, entry in entries.items() if not file_names.is_key_file(entry.name) for stem in stems_of(path)
    }
    twins = {
        path
        for path, entry in entries.items()
        if file_names.is_key_file(entry.name) and not stems.isdisjoint(stems_of(path))
    }
    return {path: entry for path, entry in entries.items() if path not in twins}


def stems_of(path: str) -> Iterator[str]:
    """Yield a path without its last suffix, then without the last two, and so on."""
    while path != (path := posixpath.splitext(path)[0]):
        yield path


def have_keys_beside(feed: Sequence[Source]) -> bool:
    """Return whether each of some feed files has a file of keys beside it."""
    return bool(feed) and all(any(_entries(BESIDE, one)) for one in feed)


def needs_file_order(ops: OpSpec) -> bool:
    """Return whether deletes are nothing but a key, so that they have no order value but their place."""
    return ops.key_files is not None and ops.dialect == "debezium-flat"


def check_order(rows: RowSpec) -> None:
    """Raise ConfigError if deletes that are nothing but a key have no order value."""
    if needs_file_order(rows.ops) and not rows.order.by_file_name:
        what = "deletes that are null have no order value but their place, and order comes from fields"
        cure = f"set {setting('sequence.pattern=connect-offset')}, so that it comes from file names"
        raise error("config", where=setting(KEYS), faults=f"{what}; {cure}")


def with_keys(ops: OpSpec, feed: Sequence[Source]) -> tuple[Source, ...]:
    """Return feed files with their files of keys. Raises DataError for one without it, or with another number of rows.

    Those whose rows are of records alone stay as they are.
    """
    where = ops.key_files
    return tuple(one if where is None or one.wrapped is None else _with_keys(where, one) for one in feed)


def _with_keys(where: str, source: Source) -> Source:
    from mutator.formats.files.key_files import FORMATS, count  # with Avro, which other runs need not load

    entry = next(_entries(where, source), None)
    if entry is None:
        place = f"beside it, such as {_names(source)[0]}" if where == BESIDE else f"in {where} that has its name"
        cure = "have the sink write the keys (store.kafka.keys=true), and deliver these with the messages"
        raise error("format", path=source.path, what=f"has no file of keys {place}", cure=cure)
    compression = file_names.compression(entry.name)
    file_format = format_of_name(entry.name, named=True)
    if file_format not in FORMATS:
        cure = "have the sink write them as JSON or Avro (keys.format.class)"
        raise error("format", path=entry.path, what="is a file of keys in an unknown format", cure=cure)
    own = FileContent(source.path, source.bytes, compression=source.compression)
    keys = FileContent(entry.path, entry.bytes, compression=compression)
    numbers = []
    for path, name, content in ((source.path, source.file_format, own), (entry.path, file_format, keys)):
        try:
            numbers.append(count(name, content))
        except (NotReadable, CorruptStream) as fault:
            raise unreadable(path, fault) from None
    if numbers[0] != numbers[1]:
        what = f"has {counted(numbers[1], 'key')}, and {source.name} {counted(numbers[0], 'message')}, so that nothing "
        what += "says whose they are"
        raise error("format", path=entry.path, what=what, cure="have both files delivered again")
    assert source.wrapped is not None
    return replace(source, wrapped=source.wrapped._replace(keys=KeyFile(keys, file_format, own)))


def _entries(where: str, source: Source) -> Iterator[Entry]:
    """Yield the files that have a name of those with the keys of a feed file."""
    directory = posixpath.dirname(source.path) if where == BESIDE else absolute(where)
    storage = storage_for(directory)
    for name in _names(source) if where == BESIDE else (source.name, *_names(source)):
        entry = storage.stat(posixpath.join(directory, name))
        if entry is not None and entry.type == "file":
            yield entry


def _names(source: Source) -> tuple[str, ...]:
    """Return the names that the file with the keys of a feed file may have, the usual one first."""
    found = _NAME.fullmatch(source.name)
    stem, ending = (source.name, "") if found is None else (found["stem"], found["ending"])
    return tuple(dict.fromkeys(f"{stem}.keys{one}" for one in (ending or ".json", *_ENDINGS)))
