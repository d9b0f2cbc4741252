"""The storage contract, tested on every backend: writing, visibility, races and removal.

To test another backend, add to ``BACKENDS`` a function that creates an empty directory for a test. A test asks for a
``root`` on any backend, for a ``renaming_root`` if the backend must be able to rename, and for a ``claiming_root`` if
processes must be able to claim directories.
"""

import io
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from mutator.errors import StorageError
from tests.support.storage_places import (
    BACKENDS,
    CLAIMING,
    KEEP,
    RENAMING,
    check_race,
    create_in_race,
    create_named_at_the_end_in_race,
    empty_directory_on,
    link_in_race,
    link_or_create_in_race,
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
def root(request):
    return empty_directory_on(request)


@pytest.fixture(params=RENAMING)
def renaming_root(request):
    return empty_directory_on(request)


@pytest.fixture(params=CLAIMING)
def claiming_root(request):
    return empty_directory_on(request)


class Mishap(Exception):
    """Any failure while a file is written."""


# --- a new file ---


def test_new_file_has_its_bytes_and_is_listed_at_once(root):
    for number in range(50):
        root.write(root / f"f{number:02d}", b"x" * number)

        assert root.names() == [f"f{n:02d}" for n in range(number + 1)]
        entry = root.storage.stat(root / f"f{number:02d}")
        assert (entry.type, entry.bytes) == ("file", number)
    assert root.read(root / "f49") == b"x" * 49


def test_new_file_is_not_visible_before_it_is_whole(root):
    with root.storage.create_new(root / "file") as stream:
        stream.write(b"x" * (20 << 20))  # more than any buffer keeps
        stream.flush()
        assert root.storage.stat(root / "file") is None
        assert [name for name in root.names() if not name.startswith(".")] == []
    assert root.storage.stat(root / "file").bytes == 20 << 20


@pytest.mark.parametrize("fault", [Mishap, OSError, KeyboardInterrupt, GeneratorExit])
def test_exception_aborts_a_new_file_and_leaves_nothing(root, fault):
    def write():
        with root.storage.create_new(root / "file") as stream:
            stream.write(b"half of i")
            raise fault("while writing")

    with pytest.raises((fault, StorageError)):
        write()

    assert root.names() == []
    root.write(root / "file", b"whole")  # and the name is free
    assert root.read(root / "file") == b"whole"


def test_new_file_does_not_replace_a_file(root):
    root.write(root / "file", b"first")

    with pytest.raises(StorageError, match="file"):
        root.write(root / "file", b"second")

    assert root.read(root / "file") == b"first"
    assert root.names() == ["file"]


def test_new_file_does_not_replace_a_directory(renaming_root):
    renaming_root.directory("there")

    with pytest.raises(StorageError, match="there"):
        renaming_root.write(renaming_root / "there")

    assert renaming_root.storage.stat(renaming_root / "there").type == "directory"
    assert renaming_root.names() == ["there"]


# --- a new file whose name is decided at its end ---


def test_name_of_a_new_file_may_be_decided_at_its_end(root):
    decided = []

    with root.storage.create_new(root / "file", lambda: root / f"file-{sum(decided)}") as stream:
        stream.write(b"content")
        decided += [3, 4]  # not known when it was opened
        assert [name for name in root.names() if not name.startswith(".")] == []

    assert root.names() == ["file-7"]
    assert root.read(root / "file-7") == b"content"


@pytest.mark.parametrize("there", ["file", "directory"])
def test_name_decided_at_the_end_replaces_no_file(root, there):
    if there == "directory" and not root.storage.renames:
        return  # on S3, an object and a directory may have the same name
    root.write(root / "final", b"first") if there == "file" else root.directory("final")

    with pytest.raises(StorageError, match="final"), root.storage.create_new(root / "x", lambda: root / "final"):
        pass

    assert root.names() == ["final"]
    assert root.storage.stat(root / "final").type == there
    if there == "file":
        assert root.read(root / "final") == b"first"


@pytest.mark.parametrize("fault", [Mishap, OSError, KeyboardInterrupt])
def test_exception_aborts_a_new_file_before_its_name_is_asked_for(root, fault):
    asked = []

    def final():
        asked.append(True)
        return root / "final"

    def write():
        with root.storage.create_new(root / "file", final) as stream:
            stream.write(b"half of i")
            raise fault("while writing")

    with pytest.raises((fault, StorageError)):
        write()

    assert (root.names(), asked) == ([], [])


def test_exception_in_the_naming_function_aborts_as_well(root):
    def final():
        raise Mishap("no name")

    with pytest.raises(Mishap), root.storage.create_new(root / "file", final):
        pass

    assert root.names() == []


# --- a second name of a file ---


def link(root, source, target):
    """Link if the backend can do it."""
    done = root.storage.link_new(source, target)
    assert done is not root.root.startswith(("hdfs://", "model://"))
    return done


def test_link_gives_a_file_a_second_name(root):
    root.write(root / "file", b"content")
    root.directory("below")

    if link(root, root / "file", root / "below/twin"):
        assert root.read(root / "below/twin") == root.read(root / "file") == b"content"
        root.storage.remove(root / "file")
        assert root.read(root / "below/twin") == b"content"  # then it has no owner


@pytest.mark.parametrize("there", ["file", "directory", "the same"])
def test_link_replaces_no_file(root, there):
    root.write(root / "file", b"content")
    if not link(root, root / "file", root / "other"):
        return
    if there == "file":
        root.write(root / "twin", b"first")
    elif there == "directory":
        root.directory("twin")
    else:
        link(root, root / "file", root / "twin")
    before = root.names(), root.storage.stat(root / "twin")

    with pytest.raises(FileExistsError):
        root.storage.link_new(root / "file", root / "twin")

    assert (root.names(), root.storage.stat(root / "twin")) == before
    if there == "file":
        assert root.read(root / "twin") == b"first"


@pytest.mark.parametrize(("source", "target"), [("none", "twin"), ("file", "none/twin")])
def test_link_of_a_missing_file_is_a_storage_error(claiming_root, source, target):
    claiming_root.write(claiming_root / "file", b"content")

    with pytest.raises(StorageError, match="No such file or directory"):
        claiming_root.storage.link_new(claiming_root / source, claiming_root / target)

    assert claiming_root.names() == ["file"]


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
def test_one_of_many_creates_a_file(root, race, step):
    check_race(root, race, step)


@pytest.mark.processes
@pytest.mark.thorough(keep=0)
@pytest.mark.race
@pytest.mark.parametrize(
    ("race", "step"), [(race_of_threads, link_in_race), (race_of_processes, link_or_create_in_race)]
)
def test_one_of_many_links_a_file(claiming_root, race, step):
    check_race(claiming_root, race, step)


@pytest.mark.processes
@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("race", [race_of_threads, race_of_processes])
def test_one_of_many_renames_a_directory(renaming_root, race):
    if renaming_root.is_model and race is race_of_processes:
        race = race_of_threads
    rounds = race(renaming_root, rename_in_race)

    assert len(rounds) == rounds_on(renaming_root)
    for turn, won in enumerate(rounds):
        assert sum(won) == 1, f"round {turn}: {won}"
        names = renaming_root.names(renaming_root / f"round-{turn}")
        assert names == [f"by-{won.index(True)}"]  # replaced nothing, and not nested


# --- reading ---


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 1000])
def test_open_at_an_offset(root, offset):
    root.write(root / "file", b"0123456789")

    assert root.read(root / "file", offset) == b"0123456789"[offset:]


def test_stat_distinguishes_types_and_misses_nothing(root):
    root.write(root / "file", b"abc")
    root.directory("directory")

    assert [(entry.name, entry.type) for entry in root.storage.entries(root.root)] == [
        ("directory", "directory"),
        ("file", "file"),
    ]
    assert root.storage.stat(root / "nothing") is None
    assert root.storage.stat(root / "file/below") is None
    assert root.storage.stat(root / "file") in root.storage.entries(root.root)


def test_entries_are_sorted_by_the_bytes_of_their_names(root):
    for name in ("b", "a", "B", "_a", ".a", "a2", "a10", "ä", "z"):
        root.write(root / name)

    assert root.names() == [".a", "B", "_a", "a", "a10", "a2", "b", "z", "ä"]


def test_glob_sorts_by_path_and_skips_hidden_names(root):
    for name in ("b.txt", "a.txt", ".c.txt", "d.csv"):
        root.write(root / name)
    root.directory("sub")
    root.write(root / "sub/e.txt")

    assert [entry.name for entry in root.storage.glob(root / "*.txt")] == ["a.txt", "b.txt"]
    assert [entry.name for entry in root.storage.glob(root / "*/*.txt")] == ["e.txt"]
    assert root.storage.glob(root / "nothing*") == []


def test_walk_finds_files_at_any_depth(root):
    for directory in ("d", "d/e/f", "d=1", "d=%2F/_g", "empty"):
        root.directory(directory)
    names = ["a", "z.txt", "d/b", "d/e/f/c", "d=1/.hidden", "d=%2F/_g/ä"]
    for name in names:
        root.write(root / name, name.encode())

    found = {entry.path: entry for entry in root.storage.walk(root.root) if entry.name != KEEP}

    assert set(found) == {root / name for name in names}
    assert all(root.storage.stat(path) == entry for path, entry in found.items())
    assert [entry.path for entry in root.storage.walk(root / "d/e") if entry.name != KEEP] == [root / "d/e/f/c"]


def test_walk_goes_on_when_a_directory_is_removed_meanwhile(root):
    root.directory("d")
    root.directory("e")
    for name in ("a", "d/b", "e/c"):
        root.write(root / name, b"")

    found = root.storage.walk(root.root)
    first = next(found)
    for name in ("d", "e"):
        for entry in root.storage.entries(root / name):
            root.storage.remove(entry.path)
        root.storage.remove_directory(root / name)

    assert root / "a" in {entry.path for entry in (first, *found)}


@pytest.mark.thorough(keep=41)
@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:10]))
def test_odd_name_is_kept(root, name):
    root.write(root / name, b"content")

    assert root.names() == [name]
    assert root.storage.stat(root / name).bytes == 7
    assert root.read(root / name, 3) == b"tent"
    assert root.storage.resolve(root / name).endswith(name)
    with pytest.raises(StorageError):
        root.write(root / name)
    root.storage.remove(root / name)
    assert root.names() == []


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:10]))
def test_odd_name_of_a_directory(renaming_root, name):
    source = renaming_root.directory("source")
    renaming_root.write(f"{source}/{name}")

    renaming_root.storage.rename_new(source, renaming_root / name)

    assert renaming_root.names() == [name]
    assert renaming_root.names(renaming_root / name) == [name]
    renaming_root.storage.remove(renaming_root / name)
    assert renaming_root.names() == []


# --- directories ---


def test_make_directory_creates_parents_and_accepts_an_existing_directory(renaming_root):
    for _ in range(2):
        renaming_root.storage.make_directory(renaming_root / "a/b/c")

    assert renaming_root.names(renaming_root / "a/b") == ["c"]


@pytest.mark.parametrize("within", ["staged", "staged/", "staged//"])
@pytest.mark.parametrize("path", ["staged/a/b", "staged//a/b/"])
def test_make_directory_brings_no_removed_parent_back(renaming_root, path, within):
    make = partial(renaming_root.storage.make_directory, renaming_root / path, renaming_root / within)

    with pytest.raises(StorageError, match=r"staged/+a"):
        make()
    assert renaming_root.names() == []

    renaming_root.storage.make_directory(renaming_root / "staged")
    make()
    make()
    assert renaming_root.names(renaming_root / "staged/a") == ["b"]


def test_make_directory_accepts_the_parent_itself_and_nothing_beside_it(renaming_root):
    make = renaming_root.storage.make_directory
    make(renaming_root / "staged")
    make(renaming_root / "staged/", renaming_root / "staged")
    with pytest.raises(ValueError, match="is not below"):
        make(renaming_root / "staged-too/a", renaming_root / "staged")
    assert renaming_root.names() == ["staged"]


def test_remove_removes_files_and_whole_trees(root):
    root.storage.make_directory(root / "tree/a/b")
    root.write(root / "tree/a/file")
    root.write(root / "tree/a/b/.hidden")
    root.write(root / "file")

    root.storage.remove(root / "tree")
    assert root.names() == ["file"]
    root.storage.remove(root / "file")
    assert root.names() == []


def test_remove_of_a_missing_path_is_allowed(root):
    root.write(root / "file")

    root.storage.remove(root / "nothing")
    root.storage.remove(root / "no/such/directory")
    root.storage.remove(root / "file/below")

    assert root.names() == ["file"]


def test_rename_new_moves_a_directory_with_its_contents(renaming_root):
    source = renaming_root.directory("source")
    renaming_root.directory("source/sub")
    renaming_root.write(f"{source}/sub/file", b"content")

    renaming_root.storage.rename_new(source, renaming_root / "target")

    assert renaming_root.names() == ["target"]
    assert renaming_root.read(renaming_root / "target/sub/file") == b"content"


@pytest.mark.parametrize("there", ["file", "empty directory", "full directory"])
def test_rename_new_never_replaces_and_never_nests(renaming_root, there):
    source = renaming_root.directory("source")
    renaming_root.write(f"{source}/new")
    if there == "file":
        renaming_root.write(renaming_root / "target", b"old")
    else:
        renaming_root.directory("target")
    if there == "full directory":
        renaming_root.write(renaming_root / "target/old")
    before = renaming_root.storage.stat(renaming_root / "target")

    with pytest.raises(FileExistsError):
        renaming_root.storage.rename_new(source, renaming_root / "target")

    assert renaming_root.storage.stat(renaming_root / "target").type == before.type
    if there != "file":
        assert renaming_root.names(renaming_root / "target") == (["old"] if there == "full directory" else [])
    assert renaming_root.names(source) == ["new"]


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
def test_claim_ends_with_its_process_even_by_kill_9(claiming_root):
    path = claiming_root.directory("claimed")
    with claimant(path) as (owner, answers):
        assert answers == "claimed"
        assert claiming_root.storage.hold(path) is None
        with claimant(path) as (_, said_second):
            assert said_second == "none"

        owner.send_signal(signal.SIGKILL)
        owner.wait()
        mine = claiming_root.storage.hold(path)
        assert mine is not None
    with claimant(path) as (_, answers):
        assert answers == "none"


def test_claim_is_released_with_the_object(claiming_root):
    path = claiming_root.directory("claimed")

    claim = claiming_root.storage.hold(path)
    assert claiming_root.storage.hold(path) is None  # not twice in one process, either
    del claim

    assert claiming_root.storage.hold(path) is not None


def test_claim_does_not_follow_a_name(claiming_root):
    path = claiming_root.directory("claimed")
    claim = claiming_root.storage.hold(path)
    claiming_root.storage.rename_new(path, claiming_root / "elsewhere")

    claiming_root.directory("claimed")  # another directory with the same name

    assert claiming_root.storage.hold(path) is not None
    assert claiming_root.storage.hold(claiming_root / "elsewhere") is None
    del claim


def test_claim_of_a_missing_path_is_none(claiming_root):
    assert claiming_root.storage.hold(claiming_root / "nothing") is None


# --- faults ---

FAULTS = {
    "open what is missing": ("nothing", lambda root: root.storage.open(root / "nothing")),
    "open a directory": ("directory", lambda root: root.storage.open(root / "directory")),
    "create twice": ("file", lambda root: root.write(root / "file")),
}
FAULTS_WITH_DIRECTORIES = {
    "list what is missing": ("nothing", lambda root: root.storage.entries(root / "nothing")),
    "list a file": ("file", lambda root: root.storage.entries(root / "file")),
    "create in no directory": ("no/where", lambda root: root.write(root / "no/where")),
    "create below a file": ("file/below", lambda root: root.write(root / "file/below")),
    "make a directory of a file": ("file", lambda root: root.storage.make_directory(root / "file")),
    "make a directory below a file": ("file/below", lambda root: root.storage.make_directory(root / "file/below")),
    "rename into no directory": (
        "no/where",
        lambda root: root.storage.rename_new(root / "directory", root / "no/where"),
    ),
    "look at a name that is too long": ("x" * 300, lambda root: root.storage.stat(root / ("x" * 300))),
    "create a name that is too long": ("x" * 300, lambda root: root.write(root / ("x" * 300))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_a_storage_error_with_the_path_and_the_reason(root, fault):
    check_fault(root, *FAULTS[fault])


@pytest.mark.parametrize("fault", FAULTS_WITH_DIRECTORIES)
def test_fault_of_directories_is_a_storage_error_as_well(renaming_root, fault):
    if "too long" in fault and not renaming_root.is_local:
        return  # HDFS has a limit of its own, if an administrator sets one
    if renaming_root.is_model and ("below" in fault or "file" in fault):
        return
    check_fault(renaming_root, *FAULTS_WITH_DIRECTORIES[fault])


def test_claim_of_a_file_is_a_storage_error(claiming_root):
    check_fault(claiming_root, "file", lambda root: root.storage.hold(root / "file"))


def check_fault(root, name, step):
    root.write(root / "file", b"content")
    root.directory("directory")

    with pytest.raises(StorageError) as caught:
        step(root)

    assert caught.value.exit_code == 4
    before, _, reason = str(caught.value).partition(f"{root / name}: ")
    assert before == ""
    assert len(reason) > 4
    assert root.names() == ["directory", "file"]
    assert root.read(root / "file") == b"content"


# --- operations that other modules rely on ---


@pytest.mark.thorough(keep=11)
@pytest.mark.parametrize("size", [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 40 << 20], ids=str)
@pytest.mark.parametrize("named", ["at the beginning", "at the end"])
def test_content_of_any_size_is_read_back(root, size, named):
    data = random.Random(size).randbytes(size)
    final = (lambda: root / "final") if named == "at the end" else None
    with root.storage.create_new(root / "file", final) as stream:
        for start in range(0, size, 3_000_000):
            stream.write(memoryview(data)[start : start + 3_000_000])

    (entry,) = root.storage.entries(root.root)
    assert (entry.name, entry.bytes) == ("file" if final is None else "final", size)
    with root.storage.open(entry.path) as stream:
        assert stream.read() == data


def test_stream_is_read_at_any_offset(root):
    """Arrow reads Parquet in this way: from the end, then back and forth."""
    data = random.Random(3).randbytes(9_000_000)
    root.write(root / "file", data)
    rng = random.Random(4)
    with root.storage.open(root / "file", 17) as stream:
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


@pytest.mark.thorough(keep="local", rest=1)
@pytest.mark.parametrize("count", MANY)
def test_many_files_are_listed(root, count):
    """The number exceeds what any server returns in one answer."""
    names = [f"f{number:05d}" for number in range(count)]
    fill(root, names)

    assert root.names() == names
    assert len(root.storage.glob(root / "f0*7")) == count // 10
    root.storage.remove(root.root)
    assert root.storage.stat(root.root) is None


def fill(root, names):
    """Create many empty files, bypassing the storage where it is slow."""
    if root.root.startswith("s3://"):
        import boto3

        client, (bucket, _, prefix) = boto3.client("s3"), root.root[5:].partition("/")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: client.put_object(Bucket=bucket, Key=f"{prefix}/{name}"), names))
        return
    for name in names:
        root.write(root / name)


def test_replace_writes_a_new_file(root):
    for content in (b"one", b"another", b""):
        root.storage.replace(root / "file", content)

        assert root.read(root / "file") == content
    assert root.names() == ["file"]


def test_error_leaves_nothing_unfinished(root):
    def write():
        with root.storage.create_new(root / "file") as stream:
            stream.write(b"x" * (20 << 20))
            raise Mishap

    with pytest.raises(Mishap):
        write()

    assert root.storage.unfinished(root.root) == []
    assert root.names() == []


def test_creation_is_exclusive(root):
    assert root.storage.exclusive(root.root) is True
    assert root.names() == []


def test_directory_is_removed_only_when_empty(root):
    root.directory("there")
    root.write(root / "there/file")

    assert root.storage.remove_directory(root / "there") is False
    assert root.names(root / "there") == ["file"]
    root.storage.remove(root / "there/file")
    root.storage.remove(root / f"there/{KEEP}")
    assert root.storage.remove_directory(root / "there") is True
    assert root.storage.stat(root / "there") is None
    assert root.storage.remove_directory(root / "there") is True


def test_a_sibling_with_the_same_prefix_stays(root):
    """Keys are text: a name that only starts with a directory's name is not in that directory."""
    for name in ("a/file", "ab/file", "a.txt", "a-b"):
        root.directory(name.partition("/")[0]) if "/" in name else None
        root.write(root / name)

    assert root.names(root / "a") == ["file"]
    root.storage.remove(root / "a")
    assert root.names() == ["a-b", "a.txt", "ab"]


def test_entry_has_its_modification_time(root):
    root.write(root / "first")
    first = root.storage.stat(root / "first")
    root.write(root / "second")
    second = root.storage.stat(root / "second")

    assert 0 < first.modified <= second.modified
