"""Tables in memory as inputs: write them to scratch files, and name them instead of these files in messages."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from mutator.config.settings import InputSpec, RowSpec
from mutator.errors import error
from mutator.frames.recognize import READER, SPARK
from mutator.frames.scratch import Scratch
from mutator.frames.write import valueless_columns, write_table
from mutator.pipeline.arguments import GivenArguments
from mutator.plan.inspect.table_inputs import TableInput
from mutator.rules.file_names import in_directory
from mutator.storage import shared_places

# Fields of errors that have texts of the user.
DATA = {"path", "paths", "other", "other_path", "table", "rows", "record", "records", "before", "now", "samples"}


def check_feed(rows: RowSpec, inputs: InputSpec, parts: Sequence[GivenArguments]) -> None:
    """Raise ConfigError for a table in a feed that is ordered by file names, and for a dataset of other settings."""
    for one in parts:
        if one.path is None and (rows.order.by_file_name or rows.order.position):
            raise error("table.sequence", table=one.label)
        if one.dataset is not None:
            one.dataset.check_as_feed(rows, inputs, one.label.rpartition("/")[0])


def empty_readers(parts: Sequence[GivenArguments], tables: Sequence[TableInput]) -> Iterator[str]:
    """Yield a warning for each reader without a row. tables: of the parts that are tables, in their order."""
    for label in without_rows(parts, tables):
        yield f"{label} has no rows; a reader has each row only once, so nothing else may read it before the merge"


def without_rows(parts: Sequence[GivenArguments], tables: Sequence[TableInput]) -> Iterator[str]:
    """Yield the labels of readers without a row. tables: of the parts that are tables, in their order."""
    given = [part for part in parts if part.path is None]
    return (part.label for part, table in zip(given, tables, strict=True) if part.kind == READER and table.rows == 0)


def all_written(parts: Sequence[GivenArguments], temporary: Scratch | None) -> tuple[list[str], list[TableInput]]:
    """Return the paths of a feed, and the tables among its parts."""
    paths, tables = [], []
    for one in parts:
        if one.path is None:
            assert temporary is not None
            tables.append(write_given(one, f"{temporary.path}/{one.label}"))
        paths.append(tables[-1].path if one.path is None else one.path)
    return paths, tables


def write_given(one: GivenArguments, path: str) -> TableInput:
    """Write a table to a scratch file, or a directory of files. path: full path."""
    if one.kind != SPARK:
        return write_table(path, one.table, one.kind, one.label)
    from mutator.engine.spark.frames import write_frame

    write_frame(one.table, path, one.label)
    return TableInput(path, valueless=valueless_columns(path))


def runner_without_session(wanted: str, tables: Sequence[GivenArguments], has_files: bool, shared: str | None) -> str:
    """Return the runner of a call that was given no session.

    has_files: whether the call needs temporary files. shared: their directory that Spark's workers share. Raises
    ConfigError if the workers of the running session would not see the files.
    """
    if "pyspark" not in sys.modules:
        return wanted
    from mutator.engine.spark.frames import active_context, runs_elsewhere

    active = active_context()
    if active is None or not runs_elsewhere(active) or not has_files or shared is not None:
        return wanted
    frames = [one for one in tables if one.kind == SPARK]
    if frames or wanted == "spark":
        label = frames[0].label if frames else "the result in memory"
        raise error("table.shared", table=label, shared=shared_places())
    return "local"  # where the tables are


class Names:
    """The names of temporary files and of datasets, in place of their paths in messages and reports."""

    def __init__(self, temporary: Scratch | None, parts: Sequence[GivenArguments]) -> None:
        self._datasets = [(one.path, one.label) for one in parts if one.path is not None and one.path != one.label]
        self._temporary = None if temporary is None else temporary.path
        self._frames = [one.label for one in parts if one.kind == SPARK]  # each is a directory of files

    def __call__(self, path: str) -> str:
        """Return the name of a path; any other path as it is."""
        for own, label in self._datasets:
            path = in_directory(path, own, label)
        path = path.removeprefix(f"{self._temporary}/") if self._temporary else path
        return next((label for label in self._frames if path.startswith(f"{label}/part-")), path)
