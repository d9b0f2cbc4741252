"""Find the feed files to split, and the positions of the partition fields in their rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mutator.config import Config
from mutator.errors import error
from mutator.errors.display import counted
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect import control_files
from mutator.plan.inspect.delete_files import has_ids_alone, is_delete_source, may_have_ids_alone
from mutator.plan.inspect.feed_files import feed_entries
from mutator.plan.inspect.headers import check_headers, other_number_of_names
from mutator.plan.inspect.probe import probe_file
from mutator.plan.inspect.source import Source
from mutator.rules.delimiter.field_delimiter import Delimiter
from mutator.rules.partition_fields import PartitionField
from mutator.rules.schema_evolution import nearest
from mutator.storage import absolute, storage_for


@dataclass(frozen=True)
class UnsplitFile:
    """One feed file and how it is read."""

    source: Source
    delimiter: Delimiter
    width: int | None  # number of fields of a row of text; None: any
    positions: tuple[int | None, ...]  # of the partition fields in a row; None: the file lacks the field


def feed_files(
    config: Config, fields: Sequence[PartitionField], feed: Sequence[str]
) -> tuple[tuple[UnsplitFile, ...], tuple[str, ...]]:
    """Find and probe the files of a feed; return them and the paths with hidden names.

    Raises ConfigError if a file has no such partition field, DataError for two files of one name and for unreadable
    files.
    """
    found, hidden = feed_entries([absolute(path) for path in feed], config.control_suffix)
    wanted = [_known_field(config, field.source) for field in fields]
    # As with names of ID fields in a run, a CSV file has a header if partition fields are named.
    probing = replace(config, id_fields=(*config.id_fields, *(one for one in wanted if isinstance(one, str))))
    named = bool(config.field_names) or any(isinstance(one, str) for one in probing.id_fields)
    named = named or bool({config.feed_format, config.output_format, config.master_format} - {None, "text"})
    sources = [
        probe_file(probing, storage_for(path), entry, config.feed_format, named=named) for path, entry in found.items()
    ]
    check_headers(config, sources)
    if config.control_suffix is not None:
        control_files.check(config.control_suffix, sources)
    names: dict[str, Source] = {}
    for source in sources:
        other = names.setdefault(source.name, source)
        if other is not source:
            raise error("split.names", path=source.path, other=other.path)
    _check_names(fields, wanted, sources)
    width = _width(config, sources)
    return tuple(_feed_file(config, fields, wanted, replace(one, head=b""), width) for one in sources), hidden


def _check_names(fields: Sequence[PartitionField], wanted: Sequence[str | int], sources: Sequence[Source]) -> None:
    """Raise ConfigError for a name that no file has, if there are files with names."""
    schemas = [source.file_schema.schema for source in sources if source.file_schema is not None]
    known = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    if not known or all(source.file_format == "text" for source in sources):
        return
    for field, name in zip(fields, wanted, strict=True):
        if isinstance(name, str) and name not in known:
            near = nearest(name, known)
            cure = f"did you mean {near}?" if near else f"they have {', '.join(known)}"
            raise error("width", where=f"partition field {field.name}", what=f"no input has a field {name}", cure=cure)


def _known_field(config: Config, source: str | int) -> str | int:
    """Return the ordinal of a field named in ``field.names``; any other field as it is given."""
    return config.field_names.index(source) if source in config.field_names else source


def _width(config: Config, sources: Sequence[Source]) -> int | None:
    """Return the number of fields of rows of text, as a run without a master does; None for any.

    Raises ConfigError if ``field.names`` has fewer or more names.
    """
    if config.field_count == "any":
        return None
    if isinstance(config.field_count, int):
        return config.field_count
    whole = [one for one in sources if one.file_format == "text" and not may_have_ids_alone(config, one)]
    ordered = sorted(whole, key=lambda one: one.name.encode("utf-8", "surrogateescape"))
    first = next((one for one in ordered if one.width is not None), None)
    if first is None or first.width is None:
        return None
    if config.field_names and len(config.field_names) != first.width:
        what = f"its first row has {counted(first.width, 'field')}"
        raise other_number_of_names(first.path, what, config.field_names, single=first.width == 1)
    return first.width


def _feed_file(
    config: Config,
    fields: Sequence[PartitionField],
    wanted: Sequence[str | int],
    source: Source,
    width: int | None,
) -> UnsplitFile:
    if source.file_format == "text":
        ordinals = [_ordinal(field, one, source, width) for field, one in zip(fields, wanted, strict=True)]
        ids = config.id_fields
        needed = 1 + max(one for one in (*ids, *ordinals) if isinstance(one, int))
        if not has_ids_alone(config, source, needed if width is None else width):
            return UnsplitFile(source, config.delimiter, width, tuple(ordinals))
        positions = tuple(ids.index(one) if one in ids else None for one in ordinals)
        return UnsplitFile(source, config.delimiter, len(ids), positions)
    positions = tuple(_position(config, field, one, source) for field, one in zip(fields, wanted, strict=True))
    return UnsplitFile(source, config.delimiter, source.width, positions)


def _ordinal(field: PartitionField, wanted: str | int, source: Source, width: int | None) -> int:
    if isinstance(wanted, str):
        what = f"'{wanted}' is a name, and the fields of delimited text have none"
        raise error("width", where=f"{source.path}: field {field.source}", what=what, cure=_NAMES)
    if width is not None and wanted >= width:
        what = f"field {wanted} is beyond the {counted(width, 'field')} of a row"
        cure = "correct the ordinal (they count from 0), the delimiter or field.count"
        raise error("width", where=source.path, what=what, cure=cure)
    return wanted


_NAMES = "give its ordinal (from 0), or set field.names"


def _position(config: Config, field: PartitionField, wanted: str | int, source: Source) -> int | None:
    """Return the position of a field in a file with named fields; None if a delete file lacks it."""
    assert source.file_schema is not None
    schema = source.file_schema.schema
    if not len(schema):
        return None  # without fields, it has no rows
    name = wanted
    if isinstance(wanted, int):
        names = config.field_names or tuple(schema.names)
        if wanted >= len(names):
            what = f"field {wanted} is beyond the {counted(len(names), 'field')} of a row"
            raise error("width", where=source.path, what=what, cure="correct the ordinal (they count from 0)")
        name = names[wanted]
    found = int(schema.get_field_index(name))
    if found < 0:
        if is_delete_source(config, source):
            return None
        raise error("schema.field", path=source.path, field=name, what="is missing, and the partition depends on it")
    _check_type(source, name, schema.field(found).type)
    return found


def _check_type(source: Source, name: Any, data_type: Any) -> None:
    types = pa.types
    odd = types.is_nested(data_type) or types.is_dictionary(data_type)
    odd = odd or types.is_null(data_type) or types.is_duration(data_type)
    if FILE_FORMATS[source.file_format].typed and odd:
        what = f"is {data_type}, which cannot determine a partition"
        raise error("schema.field", path=source.path, field=name, what=what)
