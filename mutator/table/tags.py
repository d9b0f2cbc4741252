"""Tags of a table: each protects a version from being cleaned, until it is removed.

Tags are in the log, so each cleaning is committed before or after a tag: before it, the version is gone and cannot be
tagged; after it, the cleaning keeps the version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mutator.dataset.commits import TAG
from mutator.dataset.versions.opening import check_version
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError, error
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.printed import PrintedReport
from mutator.pipeline.reports.sections import ReportSection, aligned, said
from mutator.rules.version_names import Version
from mutator.table.commit import commit_without_rows


def number_of(snapshot: Snapshot, version: Version) -> int:
    """Return the number of a version. Raises ConfigError for a tag that a snapshot lacks."""
    if isinstance(version, int):
        return version
    tags = snapshot.state.tags
    if version not in tags:
        raise no_tag(snapshot, version)
    return tags[version]


def in_order(tags: Mapping[str, int]) -> dict[str, int]:
    """Return tags in the order of their versions."""
    return dict(sorted(tags.items(), key=lambda one: (one[1], one[0])))


def no_tag(snapshot: Snapshot, name: str) -> MutatorError:
    """Return the error of a tag that a table lacks."""
    known = ", ".join(sorted(snapshot.state.tags)) or "none"
    return error("table.tag.unknown", path=snapshot.table, name=name, known=known)


def tagged(snapshot: Snapshot, name: str, number: int, *, move: bool = False) -> Snapshot:
    """Tag a version of a table; return the snapshot after it, the newest one if the version has the tag already.

    snapshot: the newest one. move: another version may have the tag, and loses it. Raises ConfigError if the version
    does not exist, StateError if another version has the tag.
    """

    def members(head: Snapshot) -> Mapping[str, Any] | None:
        has = head.state.tags.get(name)
        if has == number:
            return None
        if has is not None and not move:
            raise error("table.tag.exists", path=head.table, name=name, version=has)
        check_version(head, number)
        return {"tags": {name: number}}

    return commit_without_rows(snapshot, TAG, members)


def untagged(snapshot: Snapshot, name: str) -> Snapshot:
    """Remove a tag; return the snapshot after it. Raises ConfigError if the table lacks it."""

    def members(head: Snapshot) -> Mapping[str, Any]:
        if name not in head.state.tags:
            raise no_tag(head, name)
        return {"untagged": (name,)}

    return commit_without_rows(snapshot, TAG, members)


@dataclass(frozen=True)
class TagReport(PrintedReport):
    """The setting or the removal of a tag."""

    table: str
    version: int
    name: str
    tagged: int | None  # version; None: the tag was removed
    before: int  # version

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        return {name: value for name, value in super().members().items() if name != "before"}

    def sections(self) -> Iterable[ReportSection]:
        """Return what was done."""
        tag = f"tag {self.name}"
        what = f"removed {tag}" if self.tagged is None else f"{tag} is version {self.tagged:,}"
        is_now = "is now" if self.version > self.before else "is still"
        return (said(f"table {self.table} {is_now} version {self.version:,}: {what}"),)


@dataclass(frozen=True)
class TagList(PrintedReport):
    """The tags of a table."""

    tags: Mapping[str, int]  # name -> version

    def json(self) -> str:
        """Return an array with an object for each tag."""
        return json.dumps([{"name": name, "version": version} for name, version in self.tags.items()], indent=1)

    def sections(self) -> Iterable[ReportSection]:
        """Return a line for each tag."""
        rows = [("tag", "version"), *((name, f"{version:,}") for name, version in self.tags.items())]
        return (said(*(aligned(rows, right={1}) if self.tags else ["no tags"])),)
