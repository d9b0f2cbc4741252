"""An export may end early in any way: the directory has the old export or the new one, and the next one works."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq
import pytest

from mutator import config
from mutator.dataset.commit import staging
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.directory import read_manifest
from mutator.dataset.manifest import PATH
from mutator.dataset.versions.opening import open_snapshot
from mutator.errors import MutatorError
from mutator.storage import read_file, storage_for, walk
from mutator.table.export import export
from tests.support import local_engine
from tests.support.model_storage import Killed, ModelStorage, mounted
from tests.support.process_deaths import copy_of
from tests.support.versioned import open_runner
from tests.table.test_table_faults import FEED, NEW, OLD, SETTINGS, TABLE, apply_to, new_table

OUTPUT = "model://base/out"


def export_to(version: int | None = None) -> None:
    export(open_snapshot(TABLE, version), config.parse(SETTINGS), OUTPUT, open_runner)


def exported() -> list[Any]:
    assert local_engine.verify(OUTPUT).problems == ()
    known = read_manifest(storage_for(OUTPUT), OUTPUT)
    assert known is not None
    tables = [pq.read_table(io.BytesIO(read_file(f"{OUTPUT}/{part.path}"))) for part in known.files]
    return sorted((row["id"], row["name"]) for table in tables for row in table.to_pylist())


def new_export(kind: str) -> ModelStorage:
    storage = new_table(kind)
    with mounted(storage):
        apply_to(TABLE, f"{FEED}/second.csv")
        export_to(1)
        assert exported() == OLD
    return storage


def after_fault(begun: ModelStorage, number: int, what: str) -> ModelStorage | None:
    """Export the newest version on a copy, with a fault at a call; return the storage, None without such a call."""
    storage = copy_of(begun)
    first = storage.calls
    storage.fault = lambda call, name: what if call == first + number else None
    with mounted(storage), suppress(Killed, MutatorError):
        export_to()
    staging._here.clear()  # the process is dead
    reached = storage.calls > first + number
    storage.fault, storage.dead = lambda call, name: None, False
    return storage if reached else None


@pytest.mark.thorough(keep=0, rest=3)
@pytest.mark.parametrize("kind", ["posix", "s3"])
@pytest.mark.parametrize("what", ["kill", "lost", "no space left"])
def test_a_fault_at_any_call(kind: str, what: str) -> None:
    begun, number, found = new_export(kind), 0, []
    while (storage := after_fault(begun, number, what)) is not None:
        with mounted(storage):
            found.append(exported())
            assert found[-1] in (OLD, NEW), number
            export_to()
            assert exported() == NEW, number
            known = read_manifest(storage, OUTPUT)
            assert known is not None
            named = {part.path for part in known.parts()} | {PATH, known.copy, SUCCESS}
            assert {entry.path.removeprefix(f"{OUTPUT}/") for entry in walk(OUTPUT)} == named, number
            assert not [path for path in storage.tree if "/.out" in path], number
        number += 1
    assert OLD in found
    assert NEW in found


def test_without_an_exchange_of_directories_an_export_needs_a_new_one() -> None:
    with mounted(new_export("hdfs")):
        with pytest.raises(MutatorError) as fault:
            export_to()
        assert fault.value.kind == "output.exchange"
        assert exported() == OLD
