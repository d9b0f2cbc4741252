"""The page of a merge: the outcome of each row, file by file, and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mutator.errors.display import counted
from mutator.pipeline.html_report.changed_rows import ChangedRow
from mutator.pipeline.html_report.cut import Cut, cut
from mutator.pipeline.html_report.flow import Flow, flow_of
from mutator.pipeline.html_report.page import page_of
from mutator.pipeline.html_report.reject_file import RejectedRows, rejected_rows
from mutator.pipeline.html_report.sums import Sum, feed_sum, master_sum, output_sum, tombstone_sum
from mutator.pipeline.report_lines import REMARKS
from mutator.rules.truth_table import FEED_OUTCOMES

_FILES = 100
_PARTITIONS = 100
_PATHS = 5  # of the feed in the head
_ROWS = 50
_TEXTS = 50
_WIDE, _NARROW = 900, 330  # units of the picture
_STEPS = {  # step -> its work
    "survey": "lists the inputs, and reads their first rows",
    "plan": "chooses the splits, the join and the engine",
    "merge": "starts the runner; then reads, shuffles, merges and writes rows, which overlap and are timed as one",
    "check": "adds up the counts, and compares them with the files that were written",
    "publish": "makes the result visible",
}


@dataclass(frozen=True, kw_only=True)
class MergePage:
    """The content of the page of a merge. target: what the result is called."""

    title: str
    target: str
    about: Sequence[tuple[str, str]]  # names and values for the head
    plan: Sequence[tuple[str, str]]  # how the rows were merged, and why
    counts: Mapping[str, int]
    samples: Mapping[str, Sequence[str]]  # remark -> keys
    rejects: Mapping[str, Sequence[Mapping[str, Any]]]  # side -> samples
    rejected_file: str | None  # path of all rejected rows, as a reader may use it
    feed_files: Sequence[Mapping[str, Any]]
    late: Mapping[str, str | None] | None
    seconds: float
    dry_run: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    partitions: Sequence[Mapping[str, Any]] | None = None
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what -> paths
    rejects_path: str | None = None  # of ``rejected_file``, where it is another
    kept_out: str | None = None  # values that must not be shown, in words
    samples_of_changes: Sequence[ChangedRow] | None = None  # None: changed rows were not written
    most_changed: int | None = None  # changed rows of a page with samples
    changes_by: str | None = None  # command that prints the changed rows, which are more than that

    def html(self) -> str:
        """Return the page."""
        return page_of("merge.html", page=self)

    @property
    def feed(self) -> Sum:
        """The rows of the feed by outcome."""
        return feed_sum(self.counts)

    @property
    def master(self) -> Sum:
        """The rows of the master before, by outcome."""
        return master_sum(self.counts)

    @property
    def output(self) -> Sum:
        """The rows of the result by origin."""
        return output_sum(self.counts)

    @property
    def tombstones(self) -> Sum:
        """The remembered deletes of the result by origin."""
        return tombstone_sum(self.counts)

    @property
    def flows(self) -> tuple[Flow, Flow]:
        """The picture of the outcomes, for a desk and for a phone."""
        wide = flow_of(self.counts, self.target, _WIDE)
        return wide, flow_of(self.counts, self.target, _NARROW, narrow=True)

    @property
    def rejected(self) -> int:
        """The number of all rejected rows."""
        return self.counts.get("feed rejected", 0) + self.counts.get("master rejected", 0)

    @property
    def ignored(self) -> int:
        """The number of blank lines, headers and rows that are no mutations."""
        return self.counts.get("feed ignored", 0) + self.counts.get("master ignored", 0)

    @property
    def changed(self) -> int:
        """The number of records that the merge inserted, updated or deleted."""
        names = ("feed inserted", "feed updated", "feed deleted", "master deleted by absence")
        return sum(self.counts.get(name, 0) for name in names)

    @property
    def reject_rows(self) -> RejectedRows:
        """The first rejected rows."""
        path = None if self.kept_out is not None else self.rejects_path or self.rejected_file
        return rejected_rows(path, self.rejects, _ROWS)

    @property
    def files(self) -> Cut:
        """The feed files, those with most rows first if there are too many."""
        files = self.feed_files
        if len(files) > _FILES:
            files = sorted(files, key=lambda one: (-one["rejected"], -one["rows"]))
        return cut(files, _FILES, "feed file", "those without rejects that have the fewest rows")

    @property
    def file_outcomes(self) -> Sequence[str]:
        """The outcomes that are known for each feed file."""
        known = all(file["outcomes"] is not None for file in self.feed_files)
        return FEED_OUTCOMES if known else ("rejected",)

    @property
    def shown_partitions(self) -> Cut:
        """The partitions, those with most changes if there are too many."""
        found = self.partitions or ()
        if len(found) > _PARTITIONS:
            chosen = sorted(found, key=lambda one: (-_changes(one), one["partition"]))[:_PARTITIONS]
            directories = {one["partition"] for one in chosen}
            found = [*(one for one in found if one["partition"] in directories), *found[:0]]
            return cut(found, _PARTITIONS, "partition", "those with the fewest changes", len(self.partitions or ()))
        return cut(found, _PARTITIONS, "partition")

    @property
    def timed(self) -> list[tuple[str, str, float]]:
        """The name, the work and the seconds of each step."""
        return [(step, _STEPS.get(step, ""), seconds) for step, seconds in self.steps.items()]

    @property
    def remarks(self) -> list[tuple[str, Sequence[str]]]:
        """Sentences on keys, each with the smallest keys that it is true of."""
        return list(_remarks(self.counts, self.samples))

    @property
    def all_warnings(self) -> Cut:
        """The warnings."""
        return cut(self.warnings, _TEXTS, "warning")

    @property
    def all_notes(self) -> Cut:
        """The notes."""
        return cut(self.notes, _TEXTS, "note")

    @property
    def shown_lists(self) -> list[tuple[str, Cut]]:
        """Lists of paths that are not empty."""
        return [(what, cut(paths, _TEXTS, "path")) for what, paths in self.lists.items() if paths]


def feed_paths(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return the first paths of the feed as facts for the head."""
    shown = cut(paths, _PATHS, "path")
    return [*(("feed", path) for path in shown), *([("feed", shown.left_out)] if shown.left_out else [])]


def _changes(partition: Mapping[str, Any]) -> int:
    names = ("inserted", "updated", "deleted", "moved in", "moved out")
    return sum(partition.get(name, 0) for name in names) or int(partition["rows"])


def _remarks(counts: Mapping[str, int], samples: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    for name, (noun, rest) in REMARKS.items():
        if counts.get(name):
            yield f"{counted(counts[name], noun)}{rest}", samples.get(name, ())
