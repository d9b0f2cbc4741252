"""The storage contract, tested on every backend: writing, visibility, races and removal.

To test another backend, add to ``BACKENDS`` a function that gives its tests an empty directory. A test asks for a
``place`` on any backend, for a ``moving`` one on backends that can rename, and for a ``holding`` one on backends where
a process can claim directories.
"""

import io
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from mutator.errors import StorageError
from tests.support.storage_places import (
    BACKENDS,
    HOLDING,
    KEEP,
    MOVING,
    check_race,
    create_in_race,
    create_named_at_the_end_in_race,
    link_in_race,
    link_or_create_in_race,
    place_on,
    race_of_processes,
    race_of_threads,
    rename_in_race,
    rounds_on,
)

ODD_NAMES = [
    "a#b",
    "a?b",
    "a;b",
    "a%20b",
    "a%",
    "a b",
    " a ",
    "a&b=c+d",
    "a[1]*{x}",
    "~a",
    "-rf",
    "ä",
    "a\u0308",  # looks the same to a reader, but is another name
    "数据",
    "😀" * 63,  # 252 bytes: nearly the maximum, with four bytes per character
    "x" * 255,
]


@pytest.fixture(params=BACKENDS)
def place(request):
    return place_on(request)


@pytest.fixture(params=MOVING)
def moving(request):
    return place_on(request)


@pytest.fixture(params=HOLDING)
def holding(request):
    return place_on(request)


class Mishap(Exception):
    """Any failure while a file is written."""


# --- a new file ---


def test_new_file_has_its_bytes_and_is_listed_at_once(place):
    for number in range(50):
        place.write(place / f"f{number:02d}", b"x" * number)

        assert place.names() == [f"f{n:02d}" for n in range(number + 1)]
        entry = place.storage.stat(place / f"f{number:02d}")
        assert (entry.type, entry.bytes) == ("file", number)
    assert place.read(place / "f49") == b"x" * 49


def test_new_file_is_not_visible_before_it_is_whole(place):
    with place.storage.create_new(place / "file") as stream:
        stream.write(b"x" * (20 << 20))  # more than any buffer keeps
        stream.flush()
        assert place.storage.stat(place / "file") is None
        assert [name for name in place.names() if not name.startswith(".")] == []
    assert place.storage.stat(place / "file").bytes == 20 << 20


@pytest.mark.parametrize("fault", [Mishap, OSError, KeyboardInterrupt, GeneratorExit])
def test_exception_aborts_a_new_file_and_leaves_nothing(place, fault):
    def write():
        with place.storage.create_new(place / "file") as stream:
            stream.write(b"half of i")
            raise fault("while writing")

    with pytest.raises((fault, StorageError)):
        write()

    assert place.names() == []
    place.write(place / "file", b"whole")  # and the name is free
    assert place.read(place / "file") == b"whole"


def test_new_file_does_not_replace_a_file(place):
    place.write(place / "file", b"first")

    with pytest.raises(StorageError, match="file"):
        place.write(place / "file", b"second")

    assert place.read(place / "file") == b"first"
    assert place.names() == ["file"]


def test_new_file_does_not_replace_a_directory(moving):
    moving.directory("there")

    with pytest.raises(StorageError, match="there"):
        moving.write(moving / "there")

    assert moving.storage.stat(moving / "there").type == "directory"
    assert moving.names() == ["there"]


# --- a new file whose name is decided at its end ---


def test_name_of_a_new_file_may_be_decided_at_its_end(place):
    decided = []

    with place.storage.create_new(place / "file", lambda: place / f"file-{sum(decided)}") as stream:
        stream.write(b"content")
        decided += [3, 4]  # not known when it was opened
        assert [name for name in place.names() if not name.startswith(".")] == []

    assert place.names() == ["file-7"]
    assert place.read(place / "file-7") == b"content"


@pytest.mark.parametrize("there", ["file", "directory"])
def test_name_decided_at_the_end_replaces_no_file(place, there):
    if there == "directory" and not place.storage.renames:
        return  # on S3, an object and a directory may have the same name
    place.write(place / "final", b"first") if there == "file" else place.directory("final")

    with pytest.raises(StorageError, match="final"), place.storage.create_new(place / "x", lambda: place / "final"):
        pass

    assert place.names() == ["final"]
    assert place.storage.stat(place / "final").type == there
    if there == "file":
        assert place.read(place / "final") == b"first"


@pytest.mark.parametrize("fault", [Mishap, OSError, KeyboardInterrupt])
def test_exception_aborts_a_new_file_before_its_name_is_asked_for(place, fault):
    asked = []

    def final():
        asked.append(True)
        return place / "final"

    def write():
        with place.storage.create_new(place / "file", final) as stream:
            stream.write(b"half of i")
            raise fault("while writing")

    with pytest.raises((fault, StorageError)):
        write()

    assert (place.names(), asked) == ([], [])


def test_exception_in_the_naming_function_aborts_as_well(place):
    def final():
        raise Mishap("no name")

    with pytest.raises(Mishap), place.storage.create_new(place / "file", final):
        pass

    assert place.names() == []


# --- a second name of a file ---


def link(place, source, target):
    """Link if the backend can do it."""
    done = place.storage.link_new(source, target)
    assert done is not place.root.startswith(("hdfs://", "model://"))
    return done


def test_link_gives_a_file_a_second_name(place):
    place.write(place / "file", b"content")
    place.directory("below")

    if link(place, place / "file", place / "below/twin"):
        assert place.read(place / "below/twin") == place.read(place / "file") == b"content"
        place.storage.remove(place / "file")
        assert place.read(place / "below/twin") == b"content"  # then it has no owner


@pytest.mark.parametrize("there", ["file", "directory", "the same"])
def test_link_replaces_no_file(place, there):
    place.write(place / "file", b"content")
    if not link(place, place / "file", place / "other"):
        return
    if there == "file":
        place.write(place / "twin", b"first")
    elif there == "directory":
        place.directory("twin")
    else:
        link(place, place / "file", place / "twin")
    before = place.names(), place.storage.stat(place / "twin")

    with pytest.raises(FileExistsError):
        place.storage.link_new(place / "file", place / "twin")

    assert (place.names(), place.storage.stat(place / "twin")) == before
    if there == "file":
        assert place.read(place / "twin") == b"first"


@pytest.mark.parametrize(("source", "target"), [("none", "twin"), ("file", "none/twin")])
def test_link_of_a_missing_file_is_a_storage_error(holding, source, target):
    holding.write(holding / "file", b"content")

    with pytest.raises(StorageError, match="No such file or directory"):
        holding.storage.link_new(holding / source, holding / target)

    assert holding.names() == ["file"]


# --- races ---


@pytest.mark.processes
@pytest.mark.thorough(keep=6)
@pytest.mark.race
@pytest.mark.parametrize(
    ("race", "step"),
    [
        (race_of_threads, create_in_race),
        (race_of_threads, create_named_at_the_end_in_race),
        (race_of_processes, create_in_race),
    ],
)
def test_one_of_many_creates_a_file(place, race, step):
    check_race(place, race, step)


@pytest.mark.processes
@pytest.mark.thorough(keep=0)
@pytest.mark.race
@pytest.mark.parametrize(
    ("race", "step"), [(race_of_threads, link_in_race), (race_of_processes, link_or_create_in_race)]
)
def test_one_of_many_links_a_file(holding, race, step):
    check_race(holding, race, step)


@pytest.mark.processes
@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("race", [race_of_threads, race_of_processes])
def test_one_of_many_renames_a_directory(moving, race):
    if moving.is_model and race is race_of_processes:
        race = race_of_threads
    rounds = race(moving, rename_in_race)

    assert len(rounds) == rounds_on(moving)
    for turn, won in enumerate(rounds):
        assert sum(won) == 1, f"round {turn}: {won}"
        assert moving.names(moving / f"round-{turn}") == [f"by-{won.index(True)}"]  # replaced nothing, and not nested


# --- reading ---


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 1000])
def test_open_at_an_offset(place, offset):
    place.write(place / "file", b"0123456789")

    assert place.read(place / "file", offset) == b"0123456789"[offset:]


def test_stat_distinguishes_types_and_misses_nothing(place):
    place.write(place / "file", b"abc")
    place.directory("directory")

    assert [(entry.name, entry.type) for entry in place.storage.entries(place.root)] == [
        ("directory", "directory"),
        ("file", "file"),
    ]
    assert place.storage.stat(place / "nothing") is None
    assert place.storage.stat(place / "file/below") is None
    assert place.storage.stat(place / "file") in place.storage.entries(place.root)


def test_entries_are_sorted_by_the_bytes_of_their_names(place):
    for name in ("b", "a", "B", "_a", ".a", "a2", "a10", "ä", "z"):
        place.write(place / name)

    assert place.names() == [".a", "B", "_a", "a", "a10", "a2", "b", "z", "ä"]


def test_glob_sorts_by_path_and_skips_hidden_names(place):
    for name in ("b.txt", "a.txt", ".c.txt", "d.csv"):
        place.write(place / name)
    place.directory("sub")
    place.write(place / "sub/e.txt")

    assert [entry.name for entry in place.storage.glob(place / "*.txt")] == ["a.txt", "b.txt"]
    assert [entry.name for entry in place.storage.glob(place / "*/*.txt")] == ["e.txt"]
    assert place.storage.glob(place / "nothing*") == []


def test_walk_finds_files_at_any_depth(place):
    for directory in ("d", "d/e/f", "d=1", "d=%2F/_g", "empty"):
        place.directory(directory)
    names = ["a", "z.txt", "d/b", "d/e/f/c", "d=1/.hidden", "d=%2F/_g/ä"]
    for name in names:
        place.write(place / name, name.encode())

    found = {entry.path: entry for entry in place.storage.walk(place.root) if entry.name != KEEP}

    assert set(found) == {place / name for name in names}
    assert all(place.storage.stat(path) == entry for path, entry in found.items())
    assert [entry.path for entry in place.storage.walk(place / "d/e") if entry.name != KEEP] == [place / "d/e/f/c"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:10]))
def test_odd_name_is_kept(place, name):
    place.write(place / name, b"content")

    assert place.names() == [name]
    assert place.storage.stat(place / name).bytes == 7
    assert place.read(place / name, 3) == b"tent"
    assert place.storage.resolve(place / name).endswith(name)
    with pytest.raises(StorageError):
        place.write(place / name)
    place.storage.remove(place / name)
    assert place.names() == []


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:10]))
def test_odd_name_of_a_directory(moving, name):
    source = moving.directory("source")
    moving.write(f"{source}/{name}")

    moving.storage.rename_new(source, moving / name)

    assert moving.names() == [name]
    assert moving.names(moving / name) == [name]
    moving.storage.remove(moving / name)
    assert moving.names() == []


# --- directories ---


def test_make_directory_creates_parents_and_accepts_an_existing_directory(moving):
    for _ in range(2):
        moving.storage.make_directory(moving / "a/b/c")

    assert moving.names(moving / "a/b") == ["c"]


def test_remove_removes_files_and_whole_trees(place):
    place.storage.make_directory(place / "tree/a/b")
    place.write(place / "tree/a/file")
    place.write(place / "tree/a/b/.hidden")
    place.write(place / "file")

    place.storage.remove(place / "tree")
    assert place.names() == ["file"]
    place.storage.remove(place / "file")
    assert place.names() == []


def test_remove_of_a_missing_path_is_allowed(place):
    place.write(place / "file")

    place.storage.remove(place / "nothing")
    place.storage.remove(place / "no/such/directory")
    place.storage.remove(place / "file/below")

    assert place.names() == ["file"]


def test_rename_new_moves_a_directory_with_its_contents(moving):
    source = moving.directory("source")
    moving.directory("source/sub")
    moving.write(f"{source}/sub/file", b"content")

    moving.storage.rename_new(source, moving / "target")

    assert moving.names() == ["target"]
    assert moving.read(moving / "target/sub/file") == b"content"


@pytest.mark.parametrize("there", ["file", "empty directory", "full directory"])
def test_rename_new_never_replaces_and_never_nests(moving, there):
    source = moving.directory("source")
    moving.write(f"{source}/new")
    if there == "file":
        moving.write(moving / "target", b"old")
    else:
        moving.directory("target")
    if there == "full directory":
        moving.write(moving / "target/old")
    before = moving.storage.stat(moving / "target")

    with pytest.raises(FileExistsError):
        moving.storage.rename_new(source, moving / "target")

    assert moving.storage.stat(moving / "target").type == before.type
    if there != "file":
        assert moving.names(moving / "target") == (["old"] if there == "full directory" else [])
    assert moving.names(source) == ["new"]


# --- claims ---

CLAIMANT = """
import sys, time
from mutator.storage import storage_for
claim = storage_for(sys.argv[1]).hold(sys.argv[1])
print("none" if claim is None else "claimed", flush=True)
time.sleep(60)
"""


@contextmanager
def claimant(path):
    """Yield a process that tries to claim a path, and the answer that it printed."""
    with subprocess.Popen([sys.executable, "-c", CLAIMANT, path], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.processes
def test_claim_ends_with_its_process_even_by_kill_9(holding):
    path = holding.directory("claimed")
    with claimant(path) as (owner, answers):
        assert answers == "claimed"
        assert holding.storage.hold(path) is None
        with claimant(path) as (_, said_second):
            assert said_second == "none"

        owner.send_signal(signal.SIGKILL)
        owner.wait()
        mine = holding.storage.hold(path)
        assert mine is not None
    with claimant(path) as (_, answers):
        assert answers == "none"


def test_claim_is_released_with_the_object(holding):
    path = holding.directory("claimed")

    claim = holding.storage.hold(path)
    assert holding.storage.hold(path) is None  # not twice in one process, either
    del claim

    assert holding.storage.hold(path) is not None


def test_claim_does_not_follow_a_name(holding):
    path = holding.directory("claimed")
    claim = holding.storage.hold(path)
    holding.storage.rename_new(path, holding / "elsewhere")

    holding.directory("claimed")  # another directory with the same name

    assert holding.storage.hold(path) is not None
    assert holding.storage.hold(holding / "elsewhere") is None
    del claim


def test_claim_of_a_missing_path_is_none(holding):
    assert holding.storage.hold(holding / "nothing") is None


# --- faults ---

FAULTS = {
    "open what is missing": ("nothing", lambda place: place.storage.open(place / "nothing")),
    "open a directory": ("directory", lambda place: place.storage.open(place / "directory")),
    "create twice": ("file", lambda place: place.write(place / "file")),
}
FAULTS_WITH_DIRECTORIES = {
    "list what is missing": ("nothing", lambda place: place.storage.entries(place / "nothing")),
    "list a file": ("file", lambda place: place.storage.entries(place / "file")),
    "create in no directory": ("no/where", lambda place: place.write(place / "no/where")),
    "create below a file": ("file/below", lambda place: place.write(place / "file/below")),
    "make a directory of a file": ("file", lambda place: place.storage.make_directory(place / "file")),
    "make a directory below a file": ("file/below", lambda place: place.storage.make_directory(place / "file/below")),
    "rename into no directory": (
        "no/where",
        lambda place: place.storage.rename_new(place / "directory", place / "no/where"),
    ),
    "look at a name that is too long": ("x" * 300, lambda place: place.storage.stat(place / ("x" * 300))),
    "create a name that is too long": ("x" * 300, lambda place: place.write(place / ("x" * 300))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_a_storage_error_with_the_path_and_the_reason(place, fault):
    check_fault(place, *FAULTS[fault])


@pytest.mark.parametrize("fault", FAULTS_WITH_DIRECTORIES)
def test_fault_of_directories_is_a_storage_error_as_well(moving, fault):
    if "too long" in fault and not moving.is_local:
        return  # HDFS has a limit of its own, if an administrator sets one
    if moving.is_model and ("below" in fault or "file" in fault):
        return
    check_fault(moving, *FAULTS_WITH_DIRECTORIES[fault])


def test_claim_of_a_file_is_a_storage_error(holding):
    check_fault(holding, "file", lambda place: place.storage.hold(place / "file"))


def check_fault(place, name, step):
    place.write(place / "file", b"content")
    place.directory("directory")

    with pytest.raises(StorageError) as caught:
        step(place)

    assert caught.value.exit_code == 4
    before, _, reason = str(caught.value).partition(f"{place / name}: ")
    assert before == ""
    assert len(reason) > 4
    assert place.names() == ["directory", "file"]
    assert place.read(place / "file") == b"content"


# --- operations that other modules rely on ---


@pytest.mark.thorough(keep=24)
@pytest.mark.parametrize("size", [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 40 << 20], ids=str)
@pytest.mark.parametrize("named", ["at the beginning", "at the end"])
def test_content_of_any_size_is_read_back(place, size, named):
    data = random.Random(size).randbytes(size)
    final = (lambda: place / "final") if named == "at the end" else None
    with place.storage.create_new(place / "file", final) as stream:
        for start in range(0, size, 3_000_000):
            stream.write(memoryview(data)[start : start + 3_000_000])

    (entry,) = place.storage.entries(place.root)
    assert (entry.name, entry.bytes) == ("file" if final is None else "final", size)
    with place.storage.open(entry.path) as stream:
        assert stream.read() == data


def test_stream_is_read_at_any_offset(place):
    """Arrow reads Parquet in this way: from the end, then back and forth."""
    data = random.Random(3).randbytes(9_000_000)
    place.write(place / "file", data)
    rng = random.Random(4)
    with place.storage.open(place / "file", 17) as stream:
        assert stream.seekable()
        assert stream.tell() == 17
        assert stream.seek(0, io.SEEK_END) == len(data)
        assert stream.read(1) == b""
        assert stream.seek(-8, io.SEEK_END) == len(data) - 8
        assert stream.read(100) == data[-8:]
        for _ in range(40):
            offset, size = rng.randrange(len(data)), rng.choice([1, 100, 70_000])
            stream.seek(offset)
            found = b""
            while len(found) < size and (part := stream.read(size - len(found))):
                found += part
            assert found == data[offset : offset + size]
        stream.seek(5)
        buffer = bytearray(10)
        assert stream.readinto(buffer) == 10
        assert (bytes(buffer), stream.seek(2, io.SEEK_CUR), stream.tell()) == (data[5:15], 17, 17)


MANY = [pytest.param(1_200, id="1,200"), pytest.param(10_000, id="10,000", marks=pytest.mark.soak)]


@pytest.mark.thorough(keep="local")
@pytest.mark.parametrize("count", MANY)
def test_many_files_are_listed(place, count):
    """The number exceeds what any server returns in one answer."""
    names = [f"f{number:05d}" for number in range(count)]
    fill(place, names)

    assert place.names() == names
    assert len(place.storage.glob(place / "f0*7")) == count // 10
    place.storage.remove(place.root)
    assert place.storage.stat(place.root) is None


def fill(place, names):
    """Create many empty files, bypassing the storage where it is slow."""
    if place.root.startswith("s3://"):
        import boto3

        client, (bucket, _, prefix) = boto3.client("s3"), place.root[5:].partition("/")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: client.put_object(Bucket=bucket, Key=f"{prefix}/{name}"), names))
        return
    for name in names:
        place.write(place / name)


def test_replace_writes_a_new_file(place):
    for content in (b"one", b"another", b""):
        place.storage.replace(place / "file", content)

        assert place.read(place / "file") == content
    assert place.names() == ["file"]


def test_error_leaves_nothing_unfinished(place):
    def write():
        with place.storage.create_new(place / "file") as stream:
            stream.write(b"x" * (20 << 20))
            raise Mishap

    with pytest.raises(Mishap):
        write()

    assert place.storage.unfinished(place.root) == []
    assert place.names() == []


def test_creation_is_exclusive(place):
    assert place.storage.exclusive(place.root) is True
    assert place.names() == []


def test_directory_is_removed_only_when_empty(place):
    place.directory("there")
    place.write(place / "there/file")

    assert place.storage.remove_directory(place / "there") is False
    assert place.names(place / "there") == ["file"]
    place.storage.remove(place / "there/file")
    place.storage.remove(place / f"there/{KEEP}")
    assert place.storage.remove_directory(place / "there") is True
    assert place.storage.stat(place / "there") is None
    assert place.storage.remove_directory(place / "there") is True


def test_a_sibling_with_the_same_prefix_stays(place):
    """Keys are text: a name that only starts with a directory's name is not in that directory."""
    for name in ("a/file", "ab/file", "a.txt", "a-b"):
        place.directory(name.partition("/")[0]) if "/" in name else None
        place.write(place / name)

    assert place.names(place / "a") == ["file"]
    place.storage.remove(place / "a")
    assert place.names() == ["a-b", "a.txt", "ab"]


def test_entry_has_its_modification_time(place):
    place.write(place / "first")
    first = place.storage.stat(place / "first")
    place.write(place / "second")
    second = place.storage.stat(place / "second")

    assert 0 < first.modified <= second.modified
