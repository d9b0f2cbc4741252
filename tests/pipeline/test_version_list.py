"""The list of versions: a field of an entry is an attribute, a member of the JSON, and, with cells, a column."""

from __future__ import annotations

import json

from mutator.dataset.commits import Commit, FeedFile
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.version_list import VersionEntry, column, entry_of, versions_json, versions_text


@dataclass(frozen=True, kw_only=True)
class Entry(VersionEntry):
    lost: int = column(lambda one: one.lost, lambda one: {"lost": one.lost})
    where: str = column()


def commit(number, **members):
    return Commit(number=number, id="", action="apply", run="r", committed=f"2026-11-2{number}", **members)


def test_a_field_is_a_column_and_a_member():
    feed = (FeedFile("f.csv", 3, "c", "2026-11-22"),)
    counts = {"feed rows": 5, "feed updated": 4, "feed deleted": 1}
    entries = [
        entry_of(commit(1), Entry, where="x"),
        entry_of(commit(2, records=1000, counts=counts, feed=feed, lost=7), Entry, where="y"),
    ]

    assert (entries[1].lost, entries[1].where) == (7, "y")
    assert [one["lost"] for one in json.loads(versions_json(entries))] == [0, 7]
    assert json.loads(versions_json(entries))[1]["feed"][0]["name"] == "f.csv"
    assert versions_text(entries).splitlines() == [
        "version  kind   committed   feed files  updated  deleted  records  lost",
        "      1  apply  2026-11-21                                      0     0",
        "      2  apply  2026-11-22           1        4        1    1,000     7",
    ]
