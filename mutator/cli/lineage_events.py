"""The OpenLineage events of a command: which datasets it reads and writes, put together of the rooms that know them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mutator.cli.command import option
from mutator.errors.display import without_secrets
from mutator.storage.contract import matching_part

if TYPE_CHECKING:
    from mutator.pipeline.lineage import LineageDataset, Work

LINEAGE = option(
    "--lineage",
    metavar="TARGET",
    help="also send OpenLineage events to an http(s) address or a file, or as its client's .yml says (extra: lineage)",
)


class LineageEvents:
    """The events of the runs of a command line, which may ask for none. A dry run has none."""

    def __init__(
        self, arguments: argparse.Namespace, job: str, inputs: Sequence[tuple[str, str]], table: str | None = None
    ) -> None:
        """Check the option. Raises ConfigError.

        job: the name of the pipeline. inputs: the role (master or feed) and the path of each dataset that is read.
        table: path of the table that is written; None: a master.
        """
        target = getattr(arguments, "lineage", None)
        self._target: str | None = None if getattr(arguments, "dry_run", False) else target
        self._job, self._inputs, self._table = without_secrets(job), inputs, table
        self._output: str | None = getattr(arguments, "output", None)
        self._shown_path: Callable[[str], str] = getattr(arguments, "shown_path", str)
        if target is not None:
            from mutator.pipeline import lineage

            lineage.check_installed("--lineage")
        self._events: Any = None

    @property
    def file(self) -> str | None:
        """The path of the file to which events go, if they go to one."""
        if self._target is None:
            return None
        from mutator.pipeline.lineage import file_of

        return file_of(self._target)

    def start(self) -> None:
        """Send START, unless it was sent: a run that merges again is one run."""
        if self._target is None or self.has_begun:
            return
        from mutator.pipeline.lineage import Lineage

        self._events = Lineage(self._target)
        self._events.start(self._work(None))

    def complete(self, report: Any) -> list[str]:
        """Send COMPLETE, if START was sent; return warnings. report: of the merge; None without one."""
        return self._events.complete(self._work(report)) if self.has_begun else []

    def fail(self, fault: BaseException) -> list[str]:
        """Send FAIL, if START was sent; return warnings."""
        message = f"{fault}" or type(fault).__name__
        return self._events.fail(self._work(None), message) if self.has_begun else []

    @property
    def has_begun(self) -> bool:
        """Whether START was sent, and no event after it."""
        return self._events is not None and self._events.has_begun

    def _work(self, report: Any) -> Work:
        from mutator.pipeline.lineage import LineageDataset, Work

        inputs = [self._input(role, path, report) for role, path in self._inputs]
        if self._table is not None:
            inputs.insert(0, LineageDataset(self._table, None if report is None else report.counts["master rows"]))
        path = self._table or self._output or next(path for role, path in self._inputs if role == "master")
        output = LineageDataset(path)
        if report is not None:
            version = getattr(report, "version", None)
            output = LineageDataset(
                path,
                rows=report.counts["output rows"],
                bytes=report.bytes,
                files=report.files,
                fields=self._fields(path, report),
                version=report.run if version is None else str(version),
            )
        tags = {} if report is None else {"mutator.run": report.run}
        return Work(self._job, inputs, [output], tags)

    def _input(self, role: str, path: str, report: Any) -> LineageDataset:
        from mutator.pipeline.lineage import LineageDataset
        from mutator.storage import located

        shown = self._shown_path(path)
        namespace = None if shown == path else "stdin"
        if report is None:
            return LineageDataset(shown, namespace=namespace)
        if role == "master":
            return LineageDataset(path, report.counts["master rows"])
        files = report.feed_files
        if sum(one == "feed" for one, _ in self._inputs) > 1:
            place = shown if namespace else without_secrets(located(path)[1])
            files = [one for one in files if _is_of(one["path"], place)]
        rows, size = (sum(one[name] for one in files) for name in ("rows", "bytes"))
        return LineageDataset(shown, rows, size, len(files), namespace=namespace)

    def _fields(self, path: str, report: Any) -> list[tuple[str, str]]:
        """Return the names and types of the columns that were written."""
        if self._table is not None:
            from mutator.dataset.versions.opening import open_snapshot
            from mutator.table.scan import schema_of

            schema = schema_of(open_snapshot(self._table))
        else:
            from mutator.frames.dataset import Dataset
            from mutator.storage import located_to_write

            schema = Dataset(located_to_write(report.output)[1]).schema
        return [(field.name, str(field.type)) for field in schema]


def _is_of(path: str, place: str) -> bool:
    """Return whether a feed file is the one at a place, is in that directory, or is one that the pattern names."""
    return path == place or path.startswith(f"{place.rstrip('/')}/") or matching_part(path, place) is not None
