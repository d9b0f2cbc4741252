"""What an apply, the log and a description say of a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mutator import config
from mutator.cli import main
from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table import report as table_report
from mutator.table.images import ImageReader
from mutator.table.table import Table
from tests.support import local_engine
from tests.support.html_page import check
from tests.support.no_limits import NO_LIMITS
from tests.support.other_defaults import change_default

SETTINGS = {"key": "id", "order_by": "at", **NO_LIMITS}


def feed_of(directory: Path, name: str, rows: str, header: str = "id,at,name") -> str:
    path = directory / f"{name}.csv"
    path.write_text(f"{header}\n{rows}")
    return str(path)


def first_line(report: Any) -> str:
    return str(report.text().splitlines()[0].split(" ", 2)[2])


@pytest.fixture(scope="module", name="dataset")
def new_dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("dataset")
    (root / "master").mkdir()
    rows = {"id": ["1", "2"], "at": [1, 1], "name": ["x", "y"]}
    pq.write_table(pa.table(rows), root / "master" / "rows.parquet")
    settings = config.parse({"key": "id", "order_by": "at", "output.format": "parquet", "num.reducer": "2"})
    local_engine.mutate(settings, master=str(root / "master"), feed=[], output=str(root / "dataset"))
    return str(root / "dataset")


@pytest.fixture(name="table")
def new_table(tmp_path: Path) -> Table:
    table = Table.create(str(tmp_path / "table"), SETTINGS, buckets=2)
    table.apply(feed_of(tmp_path, "first", "1,5,a\n2,5,b\n"))
    return table


def samples(html: str) -> list[tuple[str, str]]:
    """Return the kind and the fields of each sample of a changed row."""
    rows = re.findall(r"</span>(insert|update|delete)</th><td class=\"fields\">(.*)</td>", html)
    return [(kind, " ".join(re.sub("<[^>]*>", " ", fields).split())) for kind, fields in rows]


def test_the_page_of_an_apply_has_samples_of_changed_rows(table: Table, tmp_path: Path) -> None:
    page = table.apply(feed_of(tmp_path, "second", "1,6,<script>\n3,6,c\n")).html()

    assert samples(page) == [
        ("update", "id 1 at 5 6 name a &lt;script&gt;"),
        ("insert", "id 3 at 6 name c"),
    ]
    assert check(page)
    assert "-D changes=true" not in page
    assert samples(table.apply(feed_of(tmp_path, "third", "1,7,d\n"), dry_run=True).html()) == []
    hidden = table.apply(feed_of(tmp_path, "fourth", "1,8,secret\n"), report_fields="none").html()
    assert samples(hidden) == [("update", "id … at … … name … …")]
    assert "secret" not in hidden


def test_a_page_of_many_updates_has_samples_of_them(table: Table, tmp_path: Path) -> None:
    """All old images come before the new ones, which are in another order."""
    for at in (6, 7):
        rows = "".join(f"{number},{at},x{at}\n" for number in range(0, 1000, at - 5))
        report = table.apply(feed_of(tmp_path, f"at_{at}", rows))
    assert report.counts["feed updated"] == 500
    found = samples(report.html())
    assert [kind for kind, _ in found] == ["update"] * 6
    assert all(fields.endswith(" at 6 7 name x6 x7") for _, fields in found)


def test_a_page_of_many_changes_reads_no_rows(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_report, "MOST_CHANGED", 3)
    few = table.apply(feed_of(tmp_path, "second", "1,6,c\n2,6,c\n3,6,c\n")).html()
    equal = table.apply(feed_of(tmp_path, "equal", "1,6,c\n2,6,c\n3,6,c\n4,6,c\n")).html()
    assert (len(samples(few)), len(samples(equal))) == (3, 1)
    assert "Samples are not shown" not in few + equal

    many = table.apply(feed_of(tmp_path, "third", "1,7,d\n2,7,d\n3,7,d\n5,7,d\n"))
    again = table.insert_overwrite_table(feed_of(tmp_path, "again", "1,7,d\n2,7,d\n3,7,d\n5,7,d\n"))
    reads, read = list[Any](), ImageReader.batches
    monkeypatch.setattr(ImageReader, "batches", lambda own, images: reads.append(images) or read(own, images))
    for number, report in ((3, many), (4, again)):
        page = report.html()
        assert (samples(page), reads) == ([], [])
        assert "Samples are not shown, because the version changes more than 3 rows." in page
        assert f"mutator table changes {table.path} --from {number} --to {number + 1}</code>" in page
        assert check(page)
    assert table.changes(3, 4).to_arrow().num_rows == 7
    assert reads


@pytest.mark.parametrize("rows", ["1,5,a\n", "1,4,older\n", ""])
def test_a_feed_that_changes_nothing_makes_a_version(table: Table, tmp_path: Path, rows: str) -> None:
    feed = feed_of(tmp_path, "second", rows)
    assert first_line(table.apply(feed, dry_run=True)) == "would become version 2"
    report = table.apply(feed)
    assert (report.version, report.files, report.is_new) == (2, 0, True)
    assert first_line(report) == "is now version 2"


def test_a_header_without_rows_counts_as_merged(table: Table, tmp_path: Path) -> None:
    feed = feed_of(tmp_path, "empty", "")
    report = table.apply(feed)

    assert report.warnings == ("no row in empty.csv: the feed counts as merged, and no record changes",)
    assert first_line(report) == "is now version 2"
    assert str(report).endswith(f"\nwarning: {report.warnings[0]}")
    assert "consumed before" in table.apply(feed).text()


def test_an_overwrite_of_everything_without_rows_does_not_say_that_records_stay(table: Table, tmp_path: Path) -> None:
    report = table.insert_overwrite_table(feed_of(tmp_path, "empty", ""), allow_empty_feed=True)

    assert report.warnings == ("no row in empty.csv: the feed counts as merged",)
    assert report.counts["output rows"] == 0


def test_a_feed_that_was_merged_before_makes_no_version(table: Table, tmp_path: Path) -> None:
    feed = str(tmp_path / "first.csv")
    assert first_line(table.apply(feed, dry_run=True)) == "would still be version 1"
    assert first_line(table.apply(feed)) == "is still version 1"


@pytest.mark.parametrize("inline", [1 << 30, 0])
def test_the_log_counts_the_files_of_a_report(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", inline)
    report = table.apply(feed_of(tmp_path, "second", "1,6,c\n3,6,d\n"))
    newest = list(table.log())[-1]
    assert report.files >= 3
    assert (newest.files_added, newest.bytes) == (report.files, report.bytes)


def test_only_partitions_with_live_rows_or_tombstones_are_counted(tmp_path: Path) -> None:
    table = Table.create(str(tmp_path / "table"), {**SETTINGS, "partitioned.by": "shop", "op": "op"}, buckets=2)
    header = "id,at,shop,op"
    table.apply(feed_of(tmp_path, "first", "1,1,x,U\n2,1,y,U\n3,1,z,U\n", header))
    assert table.describe().partitions == 3
    table.apply(feed_of(tmp_path, "second", "1,2,y,U\n", header))  # moves
    assert table.describe().partitions == 2
    table.apply(feed_of(tmp_path, "third", "3,2,z,D\n", header))  # leaves a tombstone
    assert (table.describe().partitions, table.describe().tombstones) == (2, 1)


def test_a_table_without_rows_is_described_by_its_settings(tmp_path: Path) -> None:
    settings = {"key": "id,day", "order_by": "at", "partitioned.by": "day,shop", "key.scope": "partition"}
    found = Table.create(str(tmp_path / "table"), settings).describe()
    assert (found.key, found.order, found.key_scope) == (["id", "day"], "at", "partition")
    assert (found.partitioned_by, found.partitions) == ("day,shop", 0)
    assert "id, day; unique in the partition" in found.text()
    other = Table.create(str(tmp_path / "other"), {"key": "id"}).describe()
    assert (other.key, other.order, other.partitions) == (["id"], "not known before the first rows", None)


def test_a_version_that_does_not_exist_is_named_before_the_direction(table: Table, tmp_path: Path) -> None:
    with pytest.raises(MutatorError, match="version 9 does not exist"):
        table.changes(9)
    with pytest.raises(MutatorError, match="version -1 does not exist"):
        table.changes(-1)
    with pytest.raises(MutatorError, match="run backwards; exchange the two versions"):
        table.changes(1, 0)


def test_a_column_that_is_named_twice_is_refused(table: Table) -> None:
    with pytest.raises(MutatorError, match="column id is named twice") as fault:
        list(table.scan(["id", "name", "id"]))
    assert fault.value.kind == "table.columns.twice"


def test_a_version_and_a_time_are_named_as_options(table: Table, capsys: Any) -> None:
    assert main(["table", "scan", table.path, "--version", "1", "--as-of", "2026-01-01"]) == 2
    assert "--version and --as-of are both given" in capsys.readouterr().err


def test_what_a_new_table_takes_for_granted_is_printed(tmp_path: Path, dataset: str, capsys: Any) -> None:
    assert main(["table", "create", str(tmp_path / "table"), "--dataset", dataset]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "  note   defaults: key=id, order=at, buckets=2",
        "  note   types of the columns: id string, at int64, name string",
    ]
    assert main(["table", "create", str(tmp_path / "empty"), "--key", "id", "--buckets", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_another_number_of_buckets_than_that_of_a_dataset_is_refused(tmp_path: Path, dataset: str) -> None:
    with pytest.raises(MutatorError, match="has 2 buckets, not 64, because its files are used as they are") as fault:
        Table.create(str(tmp_path / "table"), {}, dataset=dataset, buckets=64)
    assert fault.value.kind == "table.buckets"
    assert not (tmp_path / "table").exists()
    with pytest.raises(MutatorError, match="has 1 bucket, not 4, because each partition"):
        Table.create(str(tmp_path / "table"), {"partitioned.by": "name"}, dataset=dataset, buckets=4)
    assert Table.create(str(tmp_path / "table"), {}, dataset=dataset, buckets=2).describe().buckets == 2


def test_a_default_without_effect_on_a_table_is_not_named(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    change_default(monkeypatch, "tombstone.retention", "90d")
    change_default(monkeypatch, "num.reducer", "7")
    assert table.apply(table.scan().to_arrow()).warnings == ()


def test_settings_without_effect_on_a_table_are_named(table: Table) -> None:
    rows = table.scan().to_arrow()
    report = table.apply(rows, tombstone_retention="1d", num_reducer=3)
    assert report.warnings == (
        "tombstone_retention has no effect here: only a compaction forgets deletes of a table",
        (
            "num_reducer has no effect: the table was created with 2 buckets, and compactions split buckets that "
            "outgrow bucket_bytes"
        ),
    )
    with pytest.raises(MutatorError, match="the files of a table are Parquet"):
        table.apply(rows, output_format="csv")
