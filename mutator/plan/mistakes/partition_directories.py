"""Stop where the directories of a master that mutator did not write are not those of ``partitioned.by``.

Hive, Spark and pandas write the value of a partition field into the name of the directory alone. A partition derived
from another field would move the records elsewhere, and the field would be NULL in all of them.
"""

import posixpath
from collections.abc import Sequence

import pyarrow as pa

from mutator.config import Config
from mutator.errors import MutatorError, error
from mutator.errors.parts import MASTER
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.formats.values.scalar_text import exact_text
from mutator.plan.inspect.first_rows import first_batch
from mutator.plan.inspect.heads import FILES
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.rules.partition_paths import values_of
from mutator.rules.partition_transforms import partition_rows


def check_partition_directories(config: Config, survey: Survey) -> None:
    """Raise ConfigError for directories of the master with other fields or values than its rows have.

    The first rows of some files are compared, in formats with names for fields.
    """
    fields = config.partitioned_by
    if not fields or survey.manifest is not None:
        return
    in_feed = {
        name
        for source in survey.feed
        if source.file_schema is not None and source.file_schema.named
        for name in source.file_schema.schema.names
    }
    for source in survey.master[:FILES]:
        directory = _directory(survey, source)
        schema = None if source.file_schema is None else source.file_schema
        if directory is None or schema is None or not schema.named:
            continue
        values = values_of(directory)
        for name, _ in values:
            if name not in schema.schema.names and name in in_feed:
                what = (
                    f"the rows of {MASTER} lack field {name}, which is in the names of its directories alone, and the"
                )
                raise _error(config, survey, directory, f"{what} feed has it")
        if config.master_adopt:  # to partition it anew, for example
            continue
        if [name.lower() for name, _ in values] != [field.name.lower() for field in fields]:
            raise _error(config, survey, directory, f"its fields are not {', '.join(field.name for field in fields)}")
        names = [str(field.source) for field in fields]
        batch = first_batch(source, names) if set(names) <= {*schema.schema.names} else None
        if batch is None:
            continue
        columns = [batch.column(name) for name in names]
        typed = FILE_FORMATS[source.file_format].typed
        found = partition_rows(fields, [exact_text(one) if typed else one.cast(pa.large_binary()) for one in columns])
        for code in found.codes.tolist():
            if code >= 0 and _plain(values_of(found.names[code])) != _plain(values):
                raise _error(config, survey, directory, f"it has a row of {found.names[code]}")


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


def _error(config: Config, survey: Survey, directory: str, why: str) -> MutatorError:
    shown = ",".join(dict.fromkeys(field.name for field in config.partitioned_by))
    return error("partition.directories", path=survey.master_path, fields=shown, directory=directory, why=why)
