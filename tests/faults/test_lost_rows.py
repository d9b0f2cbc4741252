"""Rows, blocks and receipts that are lost or doubled: a run whose sums do not add up publishes nothing."""

import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pytest

from mutator.engine.blocks import block_steps as blocks
from mutator.engine.blocks.read_blocks import ROWS, RUN, TOMBSTONES, read_runs
from mutator.engine.records import record_steps as records
from mutator.engine.records import write
from mutator.engine.records.read_records import FEED, MASTER, TOMBSTONE, read_task
from mutator.engine.split_content import RECEIPT, REJECT
from mutator.errors import StorageError
from mutator.formats.blocks.text_rows import TextWriter
from mutator.pipeline import merge
from tests.support import local_engine
from tests.support.faulty_runs import QUIET_BUCKET, call_of, check_whole, every_join, inputs_stay, new_places  # noqa: F401  # fixtures
from tests.support.strides import every

KINDS = {  # the sort key of shuffled elements other than the ledger's
    "records": {TOMBSTONE, MASTER, FEED},
    "aligned": {RUN},
    "shuffle": {RUN, ROWS, TOMBSTONES},
    "broadcast": {RUN},
}


def merge_with(join, places, output, monkeypatch, change):
    """Run with ``change`` applied to the list of all shuffled elements and the ledger's number."""
    module, name, read = (records, "read_task", read_task) if join == "records" else (blocks, "read_runs", read_runs)
    everything, done = [], []

    def changed(plan, task):
        everything.extend(read(plan, task))
        done.append(task)
        if len(done) == len(plan.tasks):
            change(everything, plan.ledger)
            yield from everything

    with monkeypatch.context() as patched:
        patched.setattr(module, name, changed)
        patched.setattr(os, "fsync", lambda _: None)  # hundreds of runs, and no test of power failure
        return local_engine.mutate(**call_of(join, places, output))


def elements_of(join, places, output, monkeypatch):
    """Return the sort keys of the elements that a run shuffles, and the number of its ledger."""
    found = []
    merge_with(join, places, output, monkeypatch, lambda everything, ledger: found.extend([everything[:], ledger]))
    shutil.rmtree(output)
    elements, ledger = found
    assert {element[0][2] for element in elements if element[0][0] != ledger} == KINDS[join]
    assert {element[0][2] for element in elements if element[0][0] == ledger} == {RECEIPT, REJECT}
    return [element[0] for element in elements], ledger


def some_of(keys, ledger):
    """Return the numbers of some elements, outside the soak: the first of each kind, and those at a distance."""
    firsts = {(key[0] == ledger, key[2]): number for number, key in reversed(list(enumerate(keys)))}
    return sorted({*firsts.values(), *range(0, len(keys), every(7, 3))})


def check_not_published(error, tmp_path):
    assert (error.kind, error.exit_code) == ("sums", 4)
    assert "nothing was published" in str(error)
    assert list(tmp_path.iterdir()) == []


def lose(found, number):
    found.pop(number)


def double(found, number):
    found.append(found[number])


@pytest.mark.thorough(keep="lose-shuffle")
@every_join
@pytest.mark.parametrize("change", [lose, double])
def test_each_element_that_is_lost_or_doubled_stops_the_run(places, tmp_path, monkeypatch, change, join):
    keys, ledger = elements_of(join, places, tmp_path / "out", monkeypatch)

    for number in some_of(keys, ledger):
        if change is double and (keys[number][0], keys[number][2]) == (ledger, RECEIPT):
            continue  # a split has one receipt, even if it arrives twice: nothing is counted twice
        with pytest.raises(StorageError) as caught:
            merge_with(join, places, tmp_path / "out", monkeypatch, lambda found, _, at=number: change(found, at))
        check_not_published(caught.value, tmp_path)


@every_join
def test_doubled_receipts_change_nothing(places, tmp_path, monkeypatch, join):
    def double(found, ledger):
        found += [element for element in found if element[0][0] == ledger and element[0][2] == RECEIPT]

    merge_with(join, places, tmp_path / "out", monkeypatch, double)

    check_whole(tmp_path / "out")


FAULTS = {
    "drop the first": lambda rows: rows[1:],
    "drop the last": lambda rows: rows[:-1],
    "double": lambda rows: [*rows, rows[0]],
    "drop all": lambda _: [],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_row_lost_between_merge_and_file_stops_the_run(places, tmp_path, monkeypatch, fault):
    sort = write.sorted_elements
    monkeypatch.setattr(write, "sorted_elements", lambda rows, most: iter(FAULTS[fault](list(sort(rows, most)))))

    with pytest.raises(StorageError) as caught:
        local_engine.mutate(**call_of("records", places, tmp_path / "out"))
    check_not_published(caught.value, tmp_path)


@pytest.mark.thorough(keep=5)
@pytest.mark.parametrize("join", ["aligned", "shuffle", "broadcast"])
@pytest.mark.parametrize("fault", FAULTS)
def test_block_lost_between_merge_and_file_stops_the_run(places, tmp_path, monkeypatch, join, fault):
    """The writer of the format counts the rows that it writes, not the rows that it received."""
    write_rows, times = TextWriter.write, []

    def careless(self, rows):
        times.append(len(rows))
        if len(times) != 2 or not len(rows):  # loses one block of all
            write_rows(self, rows)
            return
        chosen = FAULTS[fault](list(range(len(rows))))
        write_rows(self, rows.take(pa.array(chosen, pa.int64())))

    monkeypatch.setattr(TextWriter, "write", careless)

    with pytest.raises(StorageError) as caught:
        local_engine.mutate(**call_of(join, places, tmp_path / "out"))
    assert times[1] > 0
    check_not_published(caught.value, tmp_path)


@pytest.mark.thorough(keep=7)
@every_join
@pytest.mark.parametrize("fault", ["lost", "doubled"])
@pytest.mark.parametrize("bucket", [0, 1])
def test_receipt_of_a_bucket_that_is_lost_or_doubled_stops_the_run(places, tmp_path, join, fault, bucket):
    def engine(plan, staging):
        receipts = local_engine.merge(plan, staging)
        merges = list(receipts.merges)
        if fault == "lost":
            del merges[bucket]
        else:
            merges.insert(0, merges[bucket])
        return replace(receipts, merges=tuple(merges))

    with pytest.raises(StorageError) as caught:
        merge.run(engine, **call_of(join, places, tmp_path / "out"))
    check_not_published(caught.value, tmp_path)


def test_receipt_of_a_carried_bucket_that_is_lost_or_doubled_stops_the_run(places, tmp_path):
    for change in (lambda merges: merges.pop(QUIET_BUCKET), lambda merges: merges.insert(0, merges[-1])):

        def engine(plan, staging, change=change):
            receipts = local_engine.merge(plan, staging)
            merges = list(receipts.merges)
            assert merges[QUIET_BUCKET].carried
            change(merges)
            return replace(receipts, merges=tuple(merges))

        with pytest.raises(StorageError) as caught:
            merge.run(engine, **call_of("aligned", places, tmp_path / "out"))
        check_not_published(caught.value, tmp_path)


@every_join
def test_staged_file_that_is_lost_stops_the_run(places, tmp_path, join):
    def engine(plan, staging):
        receipts = local_engine.merge(plan, staging)
        os.unlink(f"{staging}/{receipts.merges[1].files[0].path}")
        return receipts

    with pytest.raises(StorageError, match="it is missing") as caught:
        merge.run(engine, **call_of(join, places, tmp_path / "out"))
    assert caught.value.kind == "receipt"
    assert list(tmp_path.iterdir()) == []
