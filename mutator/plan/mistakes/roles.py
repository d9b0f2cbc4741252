"""Stop where master and feed are probably swapped, and where directories of the master are not those of
``partitioned.by``.

Hive, Spark and pandas write the value of a partition field into the name of the directory alone. A partition derived
from another field would move the records elsewhere, and the field would be NULL in all of them.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from mutator.config.settings import InputSpec, KeySpec, OpSpec, RowSpec
from mutator.dataset import manifest
from mutator.dataset.partition_index import stored_fields
from mutator.errors import MutatorError, error
from mutator.errors.display import without_secrets
from mutator.errors.parts import argument, place, quoted_value, setting
from mutator.formats.content import NotReadable
from mutator.formats.files.path_fields import path_column
from mutator.formats.values.scalar_text import exact_text
from mutator.plan.inspect.delete_files import is_delete_source
from mutator.plan.inspect.first_rows import FILES, first_batch
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.rules import file_names
from mutator.rules.partition_paths import values_above, values_of
from mutator.rules.partition_transforms import partition_rows
from mutator.rules.typed_values import canonical
from mutator.storage import storage_for

_OF_MASTERS = frozenset(("master", "base", "snapshot", "full"))
_OF_FEEDS = frozenset(("feed", "incr", "incremental", "increment", "delta", "updates", "changes", "mutations"))


def check_roles(rows: RowSpec, survey: Survey) -> None:
    """Raise ConfigError if master and feed are probably swapped."""
    if survey.state is not None or not survey.master:
        return  # it was the master of an earlier run, or there is nothing to be taken for it
    path, master = survey.master_path, place(survey.master_path)
    names = {posixpath.basename(feed) for feed in survey.feed_paths}
    if posixpath.basename(path).lower() in _OF_FEEDS and {name.lower() for name in names} <= _OF_MASTERS:
        raise _swapped(
            survey,
            f"{master}: is named as the master, and {', '.join(sorted(names))} as the feed",
            "; or rename them",
        )
    if datasets := _datasets_in_feed(survey):
        files = argument("--feed 'DIR/part-*'")
        raise _swapped(
            survey,
            f"{place(datasets[0])}: is named as the feed, and it is a master that mutator wrote "
            f"({manifest.DIRECTORY}/), which {master} is not",
            f"; or, to merge its rows as a feed, name its files ({files})",
        )
    op = rows.ops.field
    if op is not None and _has_op_alone(rows, survey):
        raise _swapped(
            survey,
            f"{master}: its rows have the op code ({setting(f'op.code.field.ordinal={op}')}), and those of "
            "the feed do not",
        )
    if (
        rows.order.by_file_name
        and _feed_has_no_sequences(survey)
        and all(one.sequence is not None for one in survey.master)
    ):
        raise _swapped(
            survey,
            f"{place(survey.feed[0].path)}: order comes from file names, and no feed file has a sequence, but each "
            "file of the master has one",
            "; or add sequences to the names of the feed files",
        )


def _deletes_in_master(ops: OpSpec, survey: Survey) -> list[Source]:
    """Return the files of a master that have names of delete files, if no feed file has."""
    if any(is_delete_source(ops, source) for source in survey.feed):
        return []
    return [source for source in survey.master if is_delete_source(ops, source)]


def _feed_has_no_sequences(survey: Survey) -> bool:
    return bool(survey.feed) and all(source.sequence is None for source in survey.feed)


def role_warnings(ops: OpSpec, survey: Survey) -> Iterator[str]:
    """Yield warnings on a master with delete files or of a bridge, and on a feed that is a master."""
    if survey.state is None and survey.master:
        if deletes := _deletes_in_master(ops, survey):
            shown = file_names.first_few([place(source.name) for source in deletes])
            yield (
                f"{shown}: in the master, with the name of a delete file: its rows are read "
                "as records; are master and feed swapped?"
            )
        return
    if survey.state is not None and survey.state.is_of_bridge:
        yield (
            f"{place(survey.master_path)}: mutator bridge wrote this master: the tombstones and the list of merged "
            "feed files of its runs are with their text copy, and this run does not know them; merge with "
            "mutator bridge run --master, unless no bridge run goes on there"
        )
    for path in _datasets_in_feed(survey):
        yield f"{place(path)}: the feed is a master that mutator wrote: its rows are merged, its tombstones are not"


def _datasets_in_feed(survey: Survey) -> list[str]:
    """Return the directories of feed files that have a manifest."""
    directories = {posixpath.dirname(source.path) for source in survey.feed} | set(survey.feed_paths)
    hidden = [path for path in survey.ignored if posixpath.basename(path) == manifest.DIRECTORY]
    found = sorted(above for path in hidden if (above := posixpath.dirname(path)) in directories)
    paths = [(above, posixpath.join(above, manifest.PATH)) for above in found]
    return [without_secrets(above) for above, path in paths if storage_for(path).stat(path) is not None]


def _has_op_alone(rows: RowSpec, survey: Survey) -> bool:
    """Return whether the rows of the master have one more field than those of the feed, the op code."""
    op, names = rows.ops.field, rows.text.names
    feed = [source for source in survey.feed if source.width is not None]
    if all(one.file_format == "text" and not one.in_path for one in (*survey.master, *feed)):
        widths, feed_widths = _widths(survey.master), _widths(feed)
        has_one_more = len(widths) == 1 and feed_widths == {min(widths) - 1}
        return has_one_more and (not isinstance(op, int) or op < min(widths))
    name = names[op] if isinstance(op, int) and op < len(names) else op
    return bool(feed) and all(_names(one, name) for one in survey.master) and not any(_names(one, name) for one in feed)


def _widths(sources: Iterable[Source]) -> set[int]:
    return {source.width for source in sources if source.width is not None}


def _names(source: Source, name: object) -> bool:
    return source.file_schema is not None and name in source.file_schema.schema.names


def _swapped(survey: Survey, what: str, otherwise: str = "") -> MutatorError:
    feed = ", ".join(place(without_secrets(path)) for path in survey.feed_paths)
    return error("roles.swapped", what=what, master=without_secrets(survey.master_path), feed=feed, otherwise=otherwise)


def check_partition_directories(key: KeySpec, inputs: InputSpec, survey: Survey) -> None:
    """Raise ConfigError for directories of the master with other fields or values than its rows have.

    The first rows of some files are compared, in formats with names for fields.
    """
    fields = key.partitions
    if not fields or survey.state is not None:
        return
    for source in survey.master[:FILES]:
        directory = _directory(survey, source)
        schema = None if source.file_schema is None else source.file_schema
        if directory is None or schema is None or not schema.named:
            continue
        values = values_of(directory)
        if inputs.master_adopt:  # to partition it anew, for example
            continue
        if [name.lower() for name, _ in values] != [field.name.lower() for field in fields]:
            raise _partition_error(
                key, survey, directory, f"its fields are not {', '.join(field.name for field in fields)}"
            )
        in_path = {name for name, _ in source.in_path}  # whose values are those of the directory, however written
        compared = [place for place, field in enumerate(fields) if field.source not in in_path]
        names = [str(fields[place].source) for place in compared]
        batch = first_batch(source, names) if names and set(names) <= {*schema.schema.names} else None
        if batch is None:
            continue
        columns = [batch.column(name) for name in names]
        own, typed = [fields[place] for place in compared], source.format.stores_schema
        found = partition_rows(own, [exact_text(one) if typed else one.cast(pa.large_binary()) for one in columns])
        for code in found.codes.tolist():
            if code >= 0 and _plain(values_of(found.names[code])) != _plain([values[place] for place in compared]):
                raise _partition_error(key, survey, directory, f"it has a row of {found.names[code]}")


def check_feed_directories(rows: RowSpec, survey: Survey) -> None:
    """Raise DataError for a feed file in a directory that has another value of a field than its first rows have.

    Times are not compared, because programs write them in their own zones, nor is NULL beside op codes: it may be that
    of a delete.
    """
    known = () if survey.state is None else stored_fields(survey.state.spec)
    fields = (*rows.key.partitions, *known)
    derived = {one.name for one in fields if one.transform != "identity" or one.source != one.name}
    for source in survey.feed[:FILES]:
        if source.file_schema is None or not source.file_schema.named:
            continue
        own, beside = source.file_schema.schema, derived | dict(source.in_path).keys()
        values = {name: text for name, text in values_above(source.path) if name in own.names and name not in beside}
        values = {name: text for name, text in values.items() if not pa.types.is_timestamp(own.field(name).type)}
        batch = first_batch(source, [*values]) if values else None
        if batch is None:
            continue
        for name, text in values.items():
            column = batch.column(name)
            with suppress(NotReadable):  # a directory that is named as the field, and has something else
                expected = _same(canonical(path_column(name, text, column.type, 1)).to_pylist()[0])
                in_file = [one for one in canonical(column).to_pylist() if one or rows.ops.field is None]
                for other in [one for one in in_file if _same(one) != expected][:1]:
                    raise _in_other_directory(source, name, text, other)


def _same(value: bytes | None) -> bytes:
    """Return a value as directories and CSV have it: 01 is 1, and NULL is empty."""
    return (value or b"").lstrip(b"0") or (value or b"")[:1]


def _in_other_directory(source: Source, name: str, text: str | None, value: bytes | None) -> MutatorError:
    own, other = (quoted_value(one) if one else "NULL" for one in (value, (text or "").encode()))
    what = f"has a row whose field {name} is {own}, in a directory that says {other}"
    cure = f"correct the rows or the directory; or, if the directory means something else, rename it (other_{name}=…)"
    return error("format", path=source.path, what=what, cure=cure)


def _plain(values: Sequence[tuple[str, str | None]]) -> list[str | None]:
    """Return the values of a directory; 01 is 1."""
    return [value if value is None else value.lstrip("0") or "0" for _, value in values]


def _directory(survey: Survey, source: Source) -> str | None:
    """Return the partition directory of a file, relative to the master; None if it is in no such directory."""
    inside = posixpath.relpath(posixpath.dirname(source.path), survey.master_path)
    try:
        return inside if inside != "." and values_of(inside) else None
    except ValueError:
        return None


def _partition_error(key: KeySpec, survey: Survey, directory: str, why: str) -> MutatorError:
    shown = ",".join(dict.fromkeys(field.name for field in key.partitions))
    return error("partition.directories", path=survey.master_path, fields=shown, directory=directory, why=why)
