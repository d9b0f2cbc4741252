"""The entry of a version: what a program does not know is never taken for something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mutator.dataset.versions.log import TableLog
from mutator.errors import StateError
from mutator.table.create import create_empty


def test_an_entry_of_an_unknown_kind_is_refused(tmp_path):
    first = create_empty(str(tmp_path / "t"), {"key": "id"}).version
    log = TableLog(str(tmp_path / "t"))
    assert log.commit(replace(first, number=1, id="x", parent=first.id, action="forget"))
    with pytest.raises(StateError, match="its kind is forget"):
        log.read(1)
