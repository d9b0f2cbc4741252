"""The schema that ``output.schema`` names."""

import json

from mutator.errors import error
from mutator.errors.parts import setting
from mutator.formats.files.file_format import FileSchema
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.storage import absolute, blocks, storage_for


def read_schema(wanted: str) -> tuple[str, FileSchema]:
    """Return the path of an Avro schema, or words for messages, and the schema. Raises ConfigError, StorageError.

    wanted: the value of output.schema, a path or the schema itself as JSON.
    """
    label = "the output schema" if _is_json(wanted) else wanted
    try:
        return label, FILE_FORMATS["avro"].stored({"schema": json.loads(schema_text(wanted))})
    except (ValueError, KeyError, TypeError) as fault:
        raise error(
            "config",
            where=setting("output.schema" if _is_json(wanted) else f"output.schema={wanted}"),
            faults=f"is not an Avro schema: {fault}",
        ) from None


def _is_json(wanted: str) -> bool:
    return wanted.lstrip().startswith("{")


def schema_text(wanted: str) -> str:
    """Return the JSON of the Avro schema that a value of output.schema names, a path or the JSON itself."""
    if _is_json(wanted):
        return wanted
    full_path = absolute(wanted)
    with storage_for(full_path).open(full_path) as stream:
        return b"".join(blocks(stream)).decode("utf-8", "surrogateescape")
