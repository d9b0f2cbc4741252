"""The envelope of the rows of a feed file, and what is known of a file whose rows are not rows of records yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mutator.config.settings import OpSpec
from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.content import Wrapped
from mutator.plan.inspect.delete_files import is_delete_source
from mutator.plan.inspect.source import Source
from mutator.rules.envelope import DELETES, UPSERTS, Envelope
from mutator.rules.envelopes import ENVELOPES


def envelope_of(ops: OpSpec, field: Any, source: Source | None = None) -> Envelope:
    """Return the envelope of rows of the feed. field: of the op code, None without one. source: their file."""
    if field is None:
        return DELETES if source is not None and is_delete_source(ops, source) else UPSERTS
    return ENVELOPES[ops.envelope].made(
        field=field,
        delete_codes=ops.deletes,
        upsert_codes=ops.upserts,
        ignore_codes=ops.ignored,
        truncate_codes=ops.truncates,
    )


def unwraps(ops: OpSpec) -> bool:
    """Return whether the rows of feed files are not rows of records yet."""
    return envelope_of(ops, ops.field).unwraps


def unwrapped(ops: OpSpec, source: Source) -> Source:
    """Return a feed file with the fields of its records. Raises DataError for a file without them.

    From here on the file is one of records: it is unwrapped wherever it is read (``path_fields.read_rows``).
    """
    own = source.file_schema
    if own is None or not unwraps(ops):
        return source
    names = own.schema.names
    envelope = envelope_of(
        ops, names[ops.field] if isinstance(ops.field, int) and ops.field < len(names) else ops.field
    )
    try:
        schema = envelope.record_schema(own.schema)
    except ValueError as fault:
        chosen = setting(f"{ENVELOPES[ops.envelope].setting}={ops.envelope}")
        cure = f"deliver the feed in the form that {chosen} expects"
        raise error("format", path=source.path, what=fault, cure=cure) from None
    return replace(source, file_schema=replace(own, schema=schema, native=None), wrapped=Wrapped(envelope, own.schema))
