"""Tables in memory as inputs: write them to scratch files, and name them instead of these files in messages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mutator.config.audience import PYTHON
from mutator.config.settings import InputSpec, RowSpec
from mutator.errors import MutatorError, error
from mutator.errors.exceptions import rebuilt
from mutator.frames.recognize import READER, SPARK
from mutator.frames.scratch import Scratch
from mutator.frames.write import valueless_columns, write_table
from mutator.pipeline.arguments import GivenArguments
from mutator.plan.inspect.table_inputs import TableInput

# Fields of errors that have texts of the user.
DATA = {"path", "paths", "other", "other_path", "table", "rows", "record", "records", "before", "now", "samples"}


def check_feed(rows: RowSpec, inputs: InputSpec, parts: Sequence[GivenArguments]) -> None:
    """Raise ConfigError for a table in a feed that is ordered by file names, and for a dataset of other settings."""
    for one in parts:
        if one.path is None and rows.order.by_file_name:
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
        raise error("table.shared", table=frames[0].label if frames else "the result in memory")
    return "local"  # where the tables are


class Names:
    """Replace the paths of temporary files in messages and reports."""

    def __init__(self, temporary: Scratch | None, parts: Sequence[GivenArguments]) -> None:
        self._datasets = [(one.path, one.label) for one in parts if one.path is not None and one.path != one.label]
        self._temporary = None if temporary is None else temporary.path
        self._frames = [one.label for one in parts if one.kind == SPARK]  # each is a directory of files

    def __call__(self, value: Any) -> Any:
        """Return a text, or a structure of texts, without the temporary paths."""
        if isinstance(value, str):
            for path, label in self._datasets:
                # another path may begin with this one
                value = re.sub(rf"{re.escape(path)}(?![\w-]|\.\w)", label.replace("\\", r"\\"), value)
            value = value.replace(f"{self._temporary}/", "") if self._temporary else value
            for label in self._frames:
                value = re.sub(rf"{re.escape(label)}/part-[\w.-]+\.parquet", label.replace("\\", r"\\"), value)
            return value
        if isinstance(value, tuple | list):
            return type(value)(map(self, value))
        return {name: self(part) for name, part in value.items()} if isinstance(value, Mapping) else value

    @contextmanager
    def in_errors(self) -> Iterator[None]:
        """Replace paths and settings in the errors that are raised inside of the ``with`` block."""
        try:
            yield
        except MutatorError as fault:
            raise rebuilt(fault.kind, PYTHON(self(fault.message)), self(fault.fields)) from None
