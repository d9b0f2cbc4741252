"""The list of the versions of a place. A column is a field of ``VersionEntry``: in Python, in JSON and in the text.

A base and a table add the fields that only they have.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, field, fields
from typing import Any, TypeVar

from mutator.dataset.commits import Commit, FeedFile
from mutator.errors.display import text_of
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.reports.sections import aligned
from mutator.rules.truth_table import FEED_OUTCOMES, RARE_OUTCOMES, records_deleted

Shown = Callable[[Any], Mapping[str, Any]]  # an entry -> head -> text, number, or None for an empty cell
_KEPT = 3  # columns that are there even if they are empty


def column(of: Callable[[Commit], Any] | None = None, shown: Shown | None = None) -> Any:
    """Return a field of an entry. of: its value; None: ``entry_of`` is given it. shown: its columns in the text."""
    return field(metadata={"of": of, "shown": shown})


def _kind(one: "VersionEntry") -> Mapping[str, Any]:
    return {"kind": one.kind if one.restored is None else f"{one.kind} of {one.restored:,}"}


def merged_files(one: "VersionEntry") -> int | None:
    """Return the number of feed files that a version merged; None if it merged nothing."""
    return len(one.feed) if one.feed or one.counts else None


def _outcomes(one: "VersionEntry") -> Mapping[str, Any]:
    counts = {**one.counts, "feed deleted": records_deleted(one.counts)}
    return {name: counts.get(f"feed {name}", 0) if one.counts else None for name in (*FEED_OUTCOMES, *RARE_OUTCOMES)}


@dataclass(frozen=True, kw_only=True)
class VersionEntry:
    """A version of a base or a table, as its log has it."""

    version: int = column(lambda one: one.number, lambda one: {"version": one.version})
    kind: str = column(lambda one: one.action, _kind)  # action of ``Commit``
    committed: str = column(lambda one: one.committed, lambda one: {"committed": one.committed})  # ISO 8601, UTC
    run: str = column(lambda one: one.run)
    feed: Sequence[FeedFile] = column(lambda one: one.feed, lambda one: {"feed files": merged_files(one)})
    counts: Mapping[str, int] = column(lambda one: dict(one.counts), _outcomes)  # number of rows of each outcome
    records: int = column(lambda one: one.records, lambda one: {"records": one.records})  # live after this version
    restored: int | None = column(lambda one: one.restored and one.restored.version)  # the version it brought back

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        return asdict(self)


Entry = TypeVar("Entry", bound=VersionEntry)


def entry_of(version: Commit, kind: type[Entry], **own: Any) -> Entry:
    """Return a version as an entry of a kind. own: the values that the version does not say."""
    taken = {one.name: of(version) for one in fields(kind) if (of := one.metadata.get("of")) is not None}
    return kind(**taken, **own)


def versions_json(entries: Iterable[VersionEntry]) -> str:
    """Return versions as a JSON document."""
    return json.dumps([entry.members() for entry in entries], indent=1)


def versions_text(entries: Iterable[VersionEntry]) -> str:
    """Return a line for each version, without the columns that are 0 or empty in all lines."""
    rows = [_cells(entry) for entry in entries]
    heads = [head for number, head in enumerate(rows[0]) if number < _KEPT or any(row[head] for row in rows)]
    right = {number for number, head in enumerate(heads) if any(isinstance(row[head], int | float) for row in rows)}
    return text_of(aligned([heads, *([_text(row[head]) for head in heads] for row in rows)], right=right))


def _cells(entry: VersionEntry) -> dict[str, Any]:
    shown = (one.metadata.get("shown") for one in fields(entry))
    return {head: value for cells in shown if cells is not None for head, value in cells(entry).items()}


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1f} s"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
