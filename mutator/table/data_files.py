"""The data files of a version of a table, by path, while one goes on from version to version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.commits import Commit
from mutator.dataset.file_entry import DATA, FileEntry
from mutator.dataset.versions.checkpoint import files_of
from mutator.dataset.versions.snapshot import Snapshot


class DataFiles:
    """The data files of a version, by path."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read no path yet. snapshot: of the first version."""
        self._columns = snapshot.files
        self._added: dict[str, FileEntry] = {}

    @cached_property
    def _rows(self) -> dict[str, int]:
        """The row of each data file of the first version."""
        rows = np.flatnonzero(pc.equal(self._columns.column("role"), DATA).to_numpy())
        paths = self._columns.column("path").take(pa.array(rows)).to_pylist()
        return dict(zip(paths, rows.tolist(), strict=True))

    def find(self, paths: Iterable[str]) -> dict[str, FileEntry]:
        """Return those of some paths that are data files of the version."""
        found = {path: self._added[path] for path in paths if path in self._added}
        others = [path for path in paths if path not in found and path in self._rows]
        rows = np.array([self._rows[path] for path in others], np.int64)
        return found | dict(zip(others, files_of(self._columns, rows), strict=True))

    def of_schemas(self, wanted: Callable[[int], bool]) -> dict[str, FileEntry]:
        """Return the data files of the version whose schema, a number, is wanted."""
        schemas = self._columns.column("schema").to_numpy()
        numbers = np.array([number for number in np.unique(schemas).tolist() if wanted(number)], schemas.dtype)
        rows = np.array(list(self._rows.values()), np.int64)
        rows = np.sort(rows[np.isin(schemas[rows], numbers)])
        found = {file.path: file for file in files_of(self._columns, rows)}
        return found | {path: file for path, file in self._added.items() if wanted(file.form)}

    def follow(self, version: Commit) -> None:
        """Go on to the next version."""
        for path in version.removed:
            if self._added.pop(path, None) is None:
                self._rows.pop(path, None)
        self._added |= {file.path: file for file in version.files if file.role == DATA}
