"""Import an exported text copy as the files of a new directory."""

from functools import partial

from mutator.bridge.text_dataset import (
    WrittenDataset,
    make_manifest,
    output_dialect,
    read_dataset,
    spec_of,
    target_of,
    text_ranges,
)
from mutator.bridge.write import write_table
from mutator.dataset.commit.publish import check_apart, publish
from mutator.dataset.directory import differing_parts
from mutator.dataset.manifest import Manifest
from mutator.engine.each import Each
from mutator.errors import error
from mutator.frames.file_rows import read_range
from mutator.rules.file_names import first_few
from mutator.storage import located_to_write, storage_for


def text_copy(path: str) -> tuple[str, Manifest]:
    """Return the absolute path of a text copy, and its manifest."""
    storage, path = located_to_write(path)
    return path, read_dataset(storage, path)


def whole_copy(path: str) -> tuple[str, Manifest]:
    """Return path and manifest of a text copy; raises StateError if its files differ from the manifest."""
    path, known = text_copy(path)
    problems = differing_parts(storage_for(path), path, known.parts())
    if problems:
        raise error("manifest.files", path=path, what=first_few(problems))
    return path, known


def import_to_path(
    source: str, to: str, file_format: str, run: str, each: Each, *, codec: str | None = None
) -> WrittenDataset:
    """Write a text copy as files of a format to a directory that must not exist, with a directory for each partition.

    codec: as in ``output.codec``; None for the format's default. Raises DataError for a field that the format cannot
    store, and for a value that is not of its field's type.
    """
    source, known = whole_copy(source)
    _, to = located_to_write(to)
    if to != source:  # then the output exists
        check_apart(to, source, role="table", other_role="text copy")
    text_schema, ranges = text_ranges(source, known)
    fields = tuple(known.spec.get("partitioned by", ()))
    schema, dialect = output_dialect(text_schema, file_format, codec=codec)

    def write(staging: str) -> Manifest:
        target = target_of(staging, file_format, schema, fields, run, codec)
        made = write_table(each, target, ranges, partial(read_range, schema=schema))
        return make_manifest(run, spec_of(file_format, schema, dialect, fields), made)

    return WrittenDataset.of(publish(to, run, write))
