"""Configured fields that the files lack: the settings are wrong, or a file is, such as one without a header.

Of a name that the user gives, the setting is wrong; of one that the master or the table has recorded, the file.
"""

from collections.abc import Sequence

from mutator.config import Config
from mutator.errors import error
from mutator.errors.display import quoted_value
from mutator.errors.parts import setting
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.run_fields import RunFields
from mutator.plan.rows.setting_faults import raise_all
from mutator.rules.header_lines import is_name
from mutator.rules.schema_evolution import SchemaVersion, check_key, in_directory, nearest

_OP = "op.code.field.ordinal"


def check_first_rows(
    config: Config, survey: Survey, fields: RunFields, others: Sequence[SchemaVersion], feed: Sequence[SchemaVersion]
) -> None:
    """Raise DataError for a delimited feed file whose first row is read as the header, and names no wanted field.

    It is taken for a record if it has a number, a time or an empty value, or has no name of a field of the master.
    ``header.check=false`` turns the check off. others: the versions of the master, and of ``output.schema``.
    """
    if not config.header_check:
        return
    headed = {source.path for source in survey.feed if _has_header(source)}
    of_feed = {version.path for version in feed}
    known = {name for version in others if version.path not in of_feed for name in version.schema.names}
    wanted = list(dict.fromkeys(name for name in (*fields.ids, fields.order, fields.op) if name is not None))
    expected = {*wanted, *known}
    for version in feed:
        names = version.schema.names
        if version.path not in headed or not expected.isdisjoint(names):
            continue
        if known.isdisjoint(wanted) and all(map(is_name, names)):
            continue  # nothing shows that the settings are right
        raise error(
            "format",
            path=version.path,
            what=f"its first row, {quoted_value(','.join(names).encode(), 60)}, is read as a header, and names none "
            f"of the fields {', '.join(wanted)}",
            cure=f"if the file has no header, set {setting('field.names')} to the names of its fields in order, and "
            f"{setting('header.lines=0')}; otherwise have it delivered with a header of these names",
        )


def _has_header(source: Source) -> bool:
    return not FILE_FORMATS[source.file_format].typed and source.file_format != "text" and source.dialect.header


def _check_op(op: str, version: SchemaVersion) -> None:
    """Raise DataError for a feed file without the recorded op code, whose name no field resembles."""
    if nearest(op, version.schema.names):
        check_key(version, [op])
    raise error(
        "format",
        path=version.path,
        what=f"field {op} is missing (it has {', '.join(version.schema.names)})",
        cure="have it delivered with the op code of each row; if it has no deletes, 'U' in every row is enough",
    )


def check_names(
    config: Config, fields: RunFields, others: Sequence[SchemaVersion], feed: Sequence[SchemaVersion]
) -> None:
    """Raise ConfigError for a configured name that no file has. A run without feed rows may lack the op code.

    Raises DataError that names the newest feed file, for a recorded op code. others: the versions of the master, and of
    ``output.schema``.
    """
    versions = [*others, *feed]
    known = list(dict.fromkeys(name for version in versions for name in version.schema.names))
    if feed and fields.op is not None and fields.op not in known and _OP in config.recorded:
        _check_op(fields.op, feed[-1])
    named = [("id.field.ordinals", name) for name in fields.ids]
    named += [("temporal.ordering.field.ordinal", fields.order)] if fields.order is not None else []
    named += [(_OP, fields.op)] if fields.op is not None and feed else []
    named += [("partitioned.by", name) for name in fields.sources]
    named += [(f"default.{name}", name) for name in config.defaults]
    raise_all(
        (key, f"no input has a field {name}", f"did you mean {near}?" if near else f"they have {', '.join(known)}")
        for key, name in named
        for near in (nearest(name, known),)
        if name not in known and not any(in_directory(name, version.path) for version in versions)
    )
