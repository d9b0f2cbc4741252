"""An open table: the newest version that it knows, and the snapshot of any other one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from mutator.dataset.versions.opening import check_version, open_snapshot, refreshed
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.errors.display import counted, without_secrets
from mutator.pipeline.arguments import named, wrong
from mutator.rules.version_names import Version
from mutator.storage import located
from mutator.table.arguments import checks_names, path_in, version_in
from mutator.table.find import Finder
from mutator.table.recorded import CALL
from mutator.table.scan import schema_of
from mutator.table.tags import number_of
from mutator.table.version_times import version_as_of

if TYPE_CHECKING:
    from mutator.pipeline.python_merge import PathLike


@checks_names
class OpenTable:
    """A table at the newest version that was known when it was opened or refreshed."""

    def __init__(self, path: PathLike) -> None:
        """Open a table. Raises ConfigError where the path has none."""
        with named(f"{CALL}()"):
            storage, found = located(path_in("path", path, "the path of a table"))
        self._snapshot = open_snapshot(storage.resolve(found))
        self._found: tuple[int, Finder] | None = None  # the last one that was used, and its version

    def __repr__(self) -> str:
        records = counted(self._snapshot.version.records, "record")
        return f"<mutator.Table {without_secrets(self.path)}: version {self.version:,}, {records}>"

    @property
    def path(self) -> str:
        """The full path."""
        return self._snapshot.table

    @property
    def version(self) -> int:
        """The number of the newest version that this object knows."""
        return self._snapshot.version.number

    @property
    def schema(self) -> Any:
        """The pa.Schema of its rows."""
        return schema_of(self._snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """The newest version that this object knows."""
        return self._snapshot

    def refresh(self) -> Self:
        """Find the versions that were committed since; return the table."""
        self._snapshot = refreshed(self._snapshot)
        return self

    def at(self, version: Version | None = None, as_of: datetime | str | None = None) -> Snapshot:
        """Return the snapshot of a version, by its number or a tag; by default the newest that this object knows.

        as_of: a time, in UTC if it has no zone; the newest version that was committed at or before it. Raises
        ConfigError if there is no such version.
        """
        with named(CALL):
            version_in("version", version)
            if not (as_of is None or isinstance(as_of, str | datetime)):
                raise wrong("as_of", as_of, "a datetime, or text in ISO 8601")
        if as_of is not None:
            if version is not None:
                what = "version and as_of are both given"
                raise error("argument.both", call=CALL, what=what, cure="give one of them")
            version = version_as_of(self._snapshot, as_of)
        number = self.version if version is None else number_of(self._snapshot, version)
        if 0 <= number <= self.version:
            check_version(self._snapshot, number)
        return self._snapshot if number == self.version else open_snapshot(self.path, number)
