"""A managed master that differs from its manifest: no run may accept it.

The damage is found before anything is published, in any order of reading, and reported in the words of the catalogue:
the user sees neither a traceback nor a library's message.
"""

import random
import re
from contextlib import contextmanager
from itertools import islice

import pytest

from mutator.dataset import manifest
from mutator.errors import MutatorError, StateError
from mutator.pipeline import merge as pipeline
from tests.support import local_engine
from tests.support.job import BY_NAME, CONFIG, known, rows


def a_file(job, role):
    pattern = {"data": "part-*", "tombstones": "_mutator/tombstones/*"}[role]
    return next(job.master.glob(pattern))


ADOPT = "set master.adopt=true to use the files that are there as an unmanaged master"


def test_extra_file(managed):
    (managed.master / "more.txt").write_bytes(b"z,1,100\n")

    managed.refused(StateError, managed.master, "more.txt is not one of its files", ADOPT)


def test_extra_hidden_file_is_not_data(managed):
    (managed.master / ".part.crc").write_bytes(b"x")

    assert managed.run().counts["feed updated"] == 1


@pytest.mark.parametrize("role", ["data", "tombstones"])
def test_missing_file(managed, role):
    path = a_file(managed, role)
    path.unlink()

    managed.refused(StateError, f"{path.relative_to(managed.master)} is missing", ADOPT)


@pytest.mark.parametrize("role", ["data", "tombstones"])
def test_file_with_another_size(managed, role):
    path = a_file(managed, role)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"z,1,100\n")

    managed.refused(
        StateError, f"{path.relative_to(managed.master)} has {size + 8:,} bytes and should have {size:,}", ADOPT
    )


@pytest.mark.parametrize("role", ["data", "tombstones"])
def test_file_with_a_flipped_bit(managed, role):
    path = a_file(managed, role)
    content = bytearray(path.read_bytes())
    content[2] ^= 1
    path.write_bytes(content)

    managed.refused(StateError, path, "the master's file is damaged: restore it from a copy")


def test_link_in_place_of_a_file(managed):
    path = a_file(managed, "data")
    path.rename(managed.root / "moved")
    path.symlink_to(managed.root / "moved")

    managed.refused(StateError, path.name, ADOPT)


def test_damaged_manifest(managed):
    path = managed.master / manifest.PATH
    path.write_bytes(path.read_bytes().replace(b'"buckets": 2', b'"buckets": 3'))

    managed.refused(StateError, path, "the manifest is damaged", "mutator verify --repair", "master.adopt=true")


def test_missing_manifest(managed):
    (managed.master / manifest.PATH).unlink()

    managed.refused(StateError, managed.master / manifest.PATH, "it is missing beside the rest of its directory")


def test_adopted_master(managed):
    (managed.master / "more.txt").write_bytes(b"z,1,100\n")
    (managed.master / manifest.PATH).write_bytes(b"{")
    report = managed.run({**CONFIG, "master.adopt": "true"})

    assert rows(managed.output) == [b"a,1,100", b"b,2,300", b"c,1,100", b"z,1,100"]
    assert report.counts["tombstones in"] == 0
    assert known(managed.output).commit.parent is None


def test_sequences_of_an_adopted_master_are_not_checked(job):
    job.put("ups_5.txt", b"b,2,200\n")
    job.follow(BY_NAME)
    for path in (job.master / "_mutator" / "order").iterdir():
        path.unlink()
    job.add("ups_7.txt", b"b,3,200\n")
    settings = {**BY_NAME, "master.adopt": "true"}

    job.refused(StateError, "is missing", settings=BY_NAME)
    assert job.run(settings).counts["feed updated"] == 1


def test_adopted_files_of_a_managed_master_are_read_as_written(job):
    settings = {**CONFIG, "header.lines": "1", "num.reducer": "1"}
    (job.master / "base.txt").write_bytes(b"id,qty,ts\nk1,1,100\r\r\n\xef\xbb\xbfk2,2,100\n")
    job.follow({**settings, "temporal.ordering.field.type": "string"})

    report = job.run({**settings, "temporal.ordering.field.type": "string", "master.adopt": "true"})

    rows = b"".join(path.read_bytes() for path in job.output.glob("part-*"))
    assert sorted(rows.split(b"\n")) == [b"", b"k1,1,100\r", b"\xef\xbb\xbfk2,2,100"]
    assert report.counts["master ignored"] == 0
    assert any("its tombstones" in note for note in report.notes)


# --- every byte that a run reads

TIMES = [f"2026-01-{day:02d}T10:00:00.5Z" for day in range(1, 32)]
BY_TIME = {
    "id.field.ordinals": "1,0",
    "temporal.ordering.field.ordinal": "3",
    "temporal.ordering.field.type": "timestamp",
    "op.code.field.ordinal": "2",
    "op.code.keep": "true",
}
# Settings, and a row of the master and of the feed: they differ in which faults the blocks engine finds at once, and
# which only when it needs the row's values.
KINDS = {
    "by file name": (BY_NAME, lambda n, _: f"k{n},{n * n}"),
    "by number": (CONFIG, lambda n, turn: f"k{n},{n * n},{100 * turn}"),
    "by time": (BY_TIME, lambda n, turn: f"{n * n},k{n},U,{TIMES[turn]}"),
}
FOREIGN = re.compile("traceback|error|numpy|arrow|parquet|out of bounds|couldn|invalid|deserializ|0x", re.IGNORECASE)


@pytest.fixture(scope="module", params=KINDS)
def whole(request, tmp_path_factory):
    """Create a managed master with tombstones, and a feed with mutations for each bucket."""
    root = tmp_path_factory.mktemp("whole")
    settings, row = KINDS[request.param]
    settings = {**settings, "num.reducer": "2", "split.bytes": "100", "max.delete.fraction": "1"}
    deletes = {} if "op.code.field.ordinal" in settings else {"deleted.record.file.prefix": "del"}

    def write(name, numbers, turn, code="U"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(row(n, turn).replace(",U,", f",{code},") + "\n" for n in numbers))

    write("base/base_1.txt", range(24), 1)
    write("first/ups_2.txt", range(18, 26), 2)
    write("first/del_3.txt", range(6), 3, "D")
    write("feed/ups_4.txt", (*range(2, 12), 30, 31, 32, 33), 4)
    write("feed/del_5.txt", range(10, 16), 5, "D")
    settings |= deletes
    local_engine.mutate(settings, master=f"{root}/base", feed=[f"{root}/first"], output=f"{root}/master")
    return root, settings


def paths_of(root, role):
    """Return the files of a role, smallest first."""
    pattern = {"data": "part-*", "tombstones": "_mutator/tombstones/*", "order": "_mutator/order/*"}[role]
    return sorted((root / "master").glob(pattern), key=lambda path: path.stat().st_size)


@contextmanager
def changed(path, content):
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(before)


def check_refused(whole, path, tmp_path, what, merge=local_engine.merge, engine="blocks", **more):
    """Check that a run reports the damage of a file and publishes nothing."""
    root, settings = whole
    places = {"master": f"{root}/master", "feed": [f"{root}/feed"], "output": str(tmp_path / "out")}
    with pytest.raises(MutatorError) as caught:
        pipeline.run(merge, settings | more, **places, engine=engine)
    message = str(caught.value)
    assert (caught.value.kind, caught.value.exit_code) == ("manifest.damage", 5), f"{what}: {message}"
    assert "the master's file is damaged: restore it from a copy" in message
    assert path.name in message, what
    assert not FOREIGN.search(re.sub(r"/\S+", "", message)), f"{what}: {message}"
    assert list(tmp_path.iterdir()) == [], what


def flips(content, role):
    """Yield (name, damaged content): flips in each byte of a small file of rows, and a few in other files."""
    chosen = random.Random(len(content))
    if role == "data":
        for number, byte in enumerate(content):
            new = chosen.choice([byte ^ 1 << chosen.randrange(8), *(one for one in b"\n,x" if one != byte)])
            yield f"byte {number} is {new}", content[:number] + bytes([new]) + content[number + 1 :]
        return
    for bit in chosen.sample(range(8 * len(content)), 25):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", bytes(damaged)


@pytest.mark.thorough(keep="by number-data-some")
@pytest.mark.parametrize("step", [pytest.param(7, id="some"), pytest.param(1, id="all", marks=pytest.mark.soak)])
@pytest.mark.parametrize("role", ["data", "tombstones", "order"])
def test_each_flip_in_a_file_that_an_aligned_run_reads(whole, tmp_path, role, step):
    path, *_ = paths_of(whole[0], role) or [None]
    if path is None:
        return  # each row has a sequence of its own only if file names give the order
    for what, content in islice(flips(path.read_bytes(), role), 0, None, step if role == "data" else 1):
        with changed(path, content):
            check_refused(whole, path, tmp_path, what)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ["records", "blocks"])
@pytest.mark.parametrize("role", ["data", "tombstones", "order"])
def test_a_few_flips_where_everything_is_shuffled(whole, tmp_path, role, engine):
    path, *_ = reversed(paths_of(whole[0], role)) if paths_of(whole[0], role) else [None]
    if path is None:
        return
    found = list(flips(path.read_bytes(), role))
    for what, content in random.Random(5).sample(found, 10):
        with changed(path, content):
            check_refused(whole, path, tmp_path, what, engine=engine, **{"num.reducer": "3"})


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("role", ["data", "tombstones", "order"])
def test_each_truncation_of_a_file_that_is_read(whole, tmp_path, role):
    """The file is cut after the survey, which compares sizes, so the engine meets the damage, as on a failing disk."""
    for path in paths_of(whole[0], role)[:1]:
        content = path.read_bytes()
        for end in {0, 1, len(content) // 2, len(content) - 1, *range(0, len(content), 1 + len(content) // 16)}:

            def merge(plan, staging, path=path, end=end):
                with changed(path, path.read_bytes()[:end]):
                    return local_engine.merge(plan, staging)

            check_refused(whole, path, tmp_path, f"{end} bytes", merge)


@pytest.mark.thorough(keep=11)
@pytest.mark.parametrize("more", [b"\n", b"x", b"k3,9,900\n"])
@pytest.mark.parametrize("role", ["data", "tombstones", "order"])
def test_file_that_grows_after_the_survey(whole, tmp_path, role, more):
    for path in paths_of(whole[0], role)[:1]:

        def merge(plan, staging, path=path):
            with changed(path, path.read_bytes() + more):
                return local_engine.merge(plan, staging)

        check_refused(whole, path, tmp_path, more, merge)


def test_copy_of_a_damaged_file_that_is_carried_over(whole, tmp_path, monkeypatch):
    """A link does not read the file; a copy does, and compares the checksum."""
    root, settings = whole
    monkeypatch.setattr("mutator.storage.local.LocalStorage.link_new", lambda *_: False)
    empty = tmp_path.parent / f"{tmp_path.name}-feed"
    empty.mkdir()
    for role in ("data", "tombstones", "order"):
        for path in paths_of(root, role):
            content = path.read_bytes()
            with changed(path, content[:9] + bytes([content[9] ^ 4]) + content[10:]):
                with pytest.raises(StateError) as caught:
                    local_engine.mutate(
                        settings, master=f"{root}/master", feed=[str(empty)], output=str(tmp_path / "out")
                    )
                assert caught.value.kind == "manifest.damage"
                assert path.name in str(caught.value)
                assert list(tmp_path.iterdir()) == []
    empty.rmdir()
