"""What a command writes beside its report: a page for people, metrics and events for machines.

None of them can fail a merge: it is committed before they are written, and one that cannot be written is a warning.
"""

from __future__ import annotations

import argparse
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeVar

from mutator.cli.after_commit import AfterCommit
from mutator.cli.command import option
from mutator.cli.lineage_events import LINEAGE, LineageEvents
from mutator.cli.messages import warn
from mutator.errors import MutatorError
from mutator.errors.display import without_secrets
from mutator.errors.interrupts import Interrupted
from mutator.errors.quick_dataclass import dataclass
from mutator.storage.contract import matching_part

HTML = option("--html", metavar="FILE", help="also write the report as a page of HTML (extra: report)")
METRICS = option(
    "--metrics", metavar="FILE", help="also write metrics in the text format of Prometheus (extra: metrics)"
)
FILES = (HTML, METRICS, LINEAGE)
Result = TypeVar("Result")
_EVENT = "the last OpenLineage event"
_DIRECTORIES = ("incr", "working", "output", "archive", "failed", "backup", "master", "table", "_mutator")  # of a base


@dataclass
class Observed:
    """The answers of a command so far."""

    report: Any = None  # of the merge, with ``counts``, ``seconds`` and ``html()``; None: there was nothing to merge
    known: dict[str, Any] = field(default_factory=dict)  # other members of ``metrics.Measured``
    exit_code: int = 0  # of the command, if it ends without an error


class ReportFiles:
    """The files that a command line asks for."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        dataset: str,
        places: Iterable[tuple[str, str]],
        facts: Callable[[], Mapping[str, Any]] = dict,
        *,
        events: LineageEvents | None = None,
        looks: bool = False,
        later: str = "run the command again",
    ) -> None:
        """Check the options. Raises ConfigError.

        dataset: the path that metrics are of. places: the role and the path or pattern of all data: a file there would
        replace data, or be taken for data. facts: returns members of ``metrics.Measured`` when the command has ended.
        events: those of OpenLineage. looks: the command only looks, and so neither succeeds nor fails.
        later: how to get files that a signal left unwritten.
        """
        self._code, self._events, self._later = None if looks else 0, events, later
        self._arguments, self._facts = arguments, facts
        self._dataset = without_secrets(dataset).encode("utf-8", "backslashreplace").decode()
        self._html: str | None = getattr(arguments, "html", None)
        self._metrics: str | None = getattr(arguments, "metrics", None)
        self.warnings: list[str] = []
        if self._html is not None:
            from mutator.pipeline.reports import page

            page.check_installed("--html")
        if self._metrics is not None:
            from mutator.pipeline import metrics

            metrics.check_installed("--metrics")
        events_file = None if events is None else events.file
        written = {"report": self._html, "file of metrics": self._metrics, "file of events": events_file}
        _check_places({role: path for role, path in written.items() if path is not None}, places, arguments.config)

    @contextmanager
    def watch(self) -> Iterator[Observed]:
        """Write the files when the block ends; their ``warnings`` are those of the last block.

        From the commit on a signal cannot undo the merge: ``arguments.committed`` says what is still missing.
        """
        observed = Observed()
        self.warnings, self._arguments.committed = [], None
        try:
            yield observed
            if observed.report is not None and not getattr(self._arguments, "dry_run", False):
                self.note_commit()
            if self._html is not None and observed.report is not None:
                self._write(self._html, observed.report.html, "the merge is complete, but its report was not written")
            self._is_written(self._html)
        except BaseException as fault:
            committed: AfterCommit | None = self._arguments.committed if isinstance(fault, KeyboardInterrupt) else None
            rest = {self._metrics, _EVENT}  # is written now
            is_complete = (
                committed is not None
                and replace(committed, files=[one for one in committed.files if one not in rest]).is_complete
            )
            self._write_metrics(observed, self._code if is_complete else _exit_code(fault))
            if self._events is not None:
                failed, done = partial(self._events.fail, fault), partial(self._events.complete, observed.report)
                self.warnings += self._sent(failed if committed is None else done)
                self._is_written(_EVENT)
            warn(self._arguments, self.warnings)
            raise
        try:
            self._write_metrics(observed, None if self._code is None else observed.exit_code)
        finally:  # also if a signal stops that: without its last event the run would seem to go on for ever
            if self._events is not None:
                self.warnings += self._sent(partial(self._events.complete, observed.report))
                self._is_written(_EVENT)

    def note_commit(self, changes: str | None = None, compaction: str | None = None) -> None:
        """Note that the merge is committed. Commands: changes: puts its changed rows where they should be.

        compaction: does the compaction that was to follow.
        """
        files = [path for path in (self._html, self._metrics) if path is not None]
        files += [_EVENT] if self._events is not None and self._events.has_begun else []
        self._arguments.committed = AfterCommit(self._later, files, changes, compaction)

    def _is_written(self, path: str | None) -> None:
        """Note that a file is written, or cannot be, which a warning says."""
        committed = self._arguments.committed
        if committed is not None and path in committed.files:
            committed.files.remove(path)

    def start(self) -> None:
        """Send the event that the work begins."""
        if self._events is not None:
            self.warnings += self._sent(self._events.start)

    def started(self, work: Callable[..., Result]) -> Callable[..., Result]:
        """Return a function that sends the event that the work begins, and then does the work."""

        def start_and_work(*given: Any) -> Result:
            self.start()
            return work(*given)

        return start_and_work

    def write_page(self, html: Callable[[], str]) -> None:
        """Write a page that is itself the result of the command. Raises MutatorError."""
        if self._html is not None:
            _replace(self._html, html())

    def _write_metrics(self, observed: Observed, exit_code: int | None) -> None:
        if self._metrics is not None:
            content = lambda: self._measured(observed, exit_code)  # noqa: E731
            self._write(self._metrics, content, "the metrics were not written")
        self._is_written(self._metrics)

    def _measured(self, observed: Observed, exit_code: int | None) -> str:
        from mutator.pipeline.metrics import Measured, metrics_text

        found: dict[str, Any] = {"dataset": self._dataset, "ended": time.time(), "exit_code": exit_code}
        report = observed.report
        if report is not None:
            found |= {"counts": report.counts, "output_bytes": report.bytes, "seconds": report.seconds}
            found["steps"] = getattr(report, "steps", {})
        with suppress(MutatorError):  # what cannot be seen is left out
            found |= self._facts()
        return metrics_text(Measured(**(found | observed.known)))

    @staticmethod
    def _sent(send: Callable[[], list[str] | None]) -> list[str]:
        """Send an event; return warnings, whatever goes wrong."""
        try:
            return send() or []
        except Exception as fault:  # noqa: BLE001  # a bug of the event must not look like one of the merge
            return [f"an OpenLineage event was not sent: {type(fault).__name__}: {fault}"]

    def _write(self, path: str, content: Callable[[], str], what: str) -> None:
        """Write a file whole; add a warning if that fails, for whatever reason."""
        try:
            _replace(path, content())
        except MutatorError as fault:
            self.warnings.append(f"{what}: {fault}")
        except Exception as fault:  # noqa: BLE001  # a bug of the report must not look like one of the merge
            self.warnings.append(f"{what}: {path}: {type(fault).__name__}: {fault}")


def places_of_base(base: str) -> list[tuple[str, str]]:
    """Return the roles and paths of the directories of a base."""
    return [(f"{name}/ of the base", f"{base.rstrip('/')}/{name}") for name in _DIRECTORIES]


def _replace(path: str, content: str) -> None:
    from mutator.storage import located_to_write

    storage, full = located_to_write(path)
    storage.replace(full, content.encode("utf-8", "backslashreplace"))


def _exit_code(fault: BaseException) -> int:
    """Return the exit code of a command that an exception ends."""
    if isinstance(fault, KeyboardInterrupt):
        return 128 + (fault.number if isinstance(fault, Interrupted) else signal.SIGINT)
    return fault.exit_code if isinstance(fault, MutatorError) else MutatorError.exit_code


def _check_places(written: Mapping[str, str], places: Iterable[tuple[str, str]], config: str | None) -> None:
    """Raise ConfigError for a file that would be written over another one, or into a directory that has data.

    written: the role and the path of each file. config: path of the configuration.
    """
    from mutator.dataset.commit.publish import check_apart
    from mutator.storage import located, located_to_write

    others = [*places, *([("configuration", config)] if config is not None else [])]
    for role, path in written.items():
        _, full = located_to_write(path)
        for other_role, other in others:
            _, place = located(other)
            check_apart(full, matching_part(full, place) or place, role=role, other_role=other_role)
        others.append((role, path))
