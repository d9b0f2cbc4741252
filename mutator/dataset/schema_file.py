"""The schema of a dataset of delimited text, ``_mutator/schema.json``: for people and other programs.

This program reads the schema from the manifest, which has it exactly.
"""

import json
import posixpath
from typing import Any

from mutator.dataset import checksum
from mutator.dataset.file_entry import FileEntry
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.storage import storage_for

PATH = "_mutator/schema.json"


def write_sidecar(directory: str, spec: dict[str, Any]) -> tuple[FileEntry, ...]:
    """Write the schema file if the dataset's format needs one; return it as side files of the manifest."""
    if spec["format"] != "escaped":
        return ()
    partitions = spec.get("partitioned by", [])
    fields = [
        {"name": field.name, "type": str(field.type), "nullable": field.nullable, "partition": field.name in partitions}
        for field in FILE_FORMATS["escaped"].stored(spec).schema
    ]
    document = {"delimiter": spec["escaped"]["delimiter"], "null": "\\N", "escape": "\\", "fields": fields}
    content = json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    with storage_for(directory).create_new(posixpath.join(directory, PATH)) as stream:
        stream.write(content)
    return (
        FileEntry(path=PATH, bucket=None, rows=0, bytes=len(content), checksum=checksum.whole(content), role="schema"),
    )
