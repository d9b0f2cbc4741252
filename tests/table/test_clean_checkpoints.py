"""Checkpoints and packs after a cleaning: the log begins with a checkpoint, and packs stay with theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutator.dataset.versions import opening
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.packs import packed, stays_from, unpacked
from mutator.errors import MutatorError
from mutator.table import apply
from mutator.table.table import Table
from tests.support.cleaned_table import AGAIN, quick, rows, rows_of, table_of_some_versions

__all__ = ["quick", "table_of_some_versions"]  # fixtures


def test_a_process_that_stays_open_follows_a_cleaning_that_wrote_no_hint(table: Table) -> None:
    hint, fifth = Path(TableLog(table.path).hint_path), open_snapshot(table.path, 5)
    of_seven = hint.read_bytes()
    table.clean(keep_versions=1)
    hint.write_bytes(of_seven)  # the process died after it committed
    assert not table.clean(**AGAIN).is_new
    assert TableLog(table.path).hinted().number == 7
    assert opening.refreshed(fifth).version.number == 8


def test_a_late_hint_or_checkpoint_of_an_archived_version_misleads_nobody(table: Table) -> None:
    log, eighth = TableLog(table.path), open_snapshot(table.path, 4)
    name = log.write_checkpoint(eighth.files, eighth.state, eighth.mask_rows())
    content = Path(log.checkpoint_path(name)).read_bytes()
    for at in range(9, 13):
        table.apply(rows("q", at))
    table.clean(**AGAIN)
    newest = rows_of(table)
    Path(log.checkpoint_path(name)).write_bytes(content)
    log.write_hint(eighth.version, name)
    assert rows_of(Table(table.path)) == newest
    assert Table(table.path).apply(rows("xyz", 20)).counts["feed inserted"] == 3


def test_the_packs_of_other_writers_stay_with_their_checkpoints(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_INLINE_FEED", 1 << 16)
    monkeypatch.setattr(apply, "INLINE", 1 << 16)
    for at in range(8, 12):
        table.apply(rows("xyz", at))
    log = TableLog(table.path)
    newest = open_snapshot(table.path)
    files = unpacked(table.path, newest.files)
    other = packed(log, 8, files, stays_from(0))  # as of a writer that has read the entries and no checkpoint
    name = log.write_checkpoint(other, newest.state, newest.mask_rows())
    report = table.clean(keep_versions=2, grace="0s")
    table.clean(keep_versions=2, grace="0s")
    assert report.earliest_version == 10
    (pack,) = {text.split(":")[2] for text in other.column("content").drop_null().to_pylist()}
    assert Path(log.checkpoint_path(name)).exists()
    assert Path(log.checkpoint_path(pack)).exists()
    assert table.verify().differences == ()


def test_the_base_of_the_log_is_verified(table: Table) -> None:
    table.clean(**AGAIN)
    (base,) = (Path(table.path) / "_mutator/table/checkpoints").glob("*.base.files")
    content = base.read_bytes()
    base.write_bytes(content[:-1])
    assert any(one.file == str(base.relative_to(table.path)) for one in table.verify().differences)
    (Path(table.path) / "_mutator/table/hint.json").unlink()
    base.unlink()
    for other in (Path(table.path) / "_mutator/table/checkpoints").glob("*.files"):
        other.unlink()
    with pytest.raises(MutatorError, match=r"the checkpoint that the log begins with .* is lost or damaged"):
        Table(table.path)
    base.write_bytes(content)
    assert len(rows_of(Table(table.path))) == 5
    assert Table(table.path).verify(repair=True).differences == ()
