"""The storage contract, once for every backend; and what compressed bytes may and may not do.

To hold another backend against the contract, add a line to ``BACKENDS``: how its tests get an empty place of their own.
What only a local disk has (links, FIFOs, names that are no text) comes after the contract.
"""

import bz2
import errno
import gzip
import lzma
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Barrier

import pytest

from mutator.errors import MutatorError, StorageError
from mutator.storage import Storage, absolute, entries_of, local, storage_for
from mutator.storage.compression import CorruptStream, decompress, sniff
from mutator.storage.local import LocalStorage

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ROUNDS = 200
RACERS = 4

BACKENDS = {"local": lambda tmp_path: str(tmp_path)}

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
    "a\u0308",  # the same letter to a reader, and another name
    "数据",
    "😀" * 63,  # 252 bytes: as long as names get, and four bytes a character
    "x" * 255,
]


@dataclass(frozen=True)
class Place:
    """An empty directory of a backend."""

    storage: Storage
    root: str

    def __truediv__(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, path: str | None = None) -> list[str]:
        return [entry.name for entry in self.storage.entries(path or self.root)]

    def write(self, path: str, data: bytes = b"") -> str:
        with self.storage.create_new(path) as stream:
            stream.write(data)
        return path

    def read(self, path: str, offset: int = 0) -> bytes:
        with self.storage.open(path, offset) as stream:
            return b"".join(iter(lambda: stream.read(1000), b""))

    def directory(self, name: str) -> str:
        self.storage.make_directory(self / name)
        return self / name


@pytest.fixture(params=list(BACKENDS))
def place(request, tmp_path):
    root = BACKENDS[request.param](tmp_path)
    return Place(storage_for(root), root)


class Mishap(Exception):
    """Whatever goes wrong while a file is written."""


# --- a new file ---


def test_new_file_holds_what_was_written_and_is_listed_at_once(place):
    for number in range(50):
        place.write(place / f"f{number:02d}", b"x" * number)

        assert place.names() == [f"f{n:02d}" for n in range(number + 1)]
        entry = place.storage.look(place / f"f{number:02d}")
        assert (entry.kind, entry.bytes) == ("file", number)
    assert place.read(place / "f49") == b"x" * 49


def test_new_file_is_not_visible_before_it_is_whole(place):
    with place.storage.create_new(place / "file") as stream:
        stream.write(b"x" * (3 << 20))  # more than any buffer holds back
        stream.flush()
        assert place.storage.look(place / "file") is None
        assert [name for name in place.names() if not name.startswith(".")] == []
    assert place.storage.look(place / "file").bytes == 3 << 20


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


def test_new_file_does_not_replace_one(place):
    place.write(place / "file", b"first")

    with pytest.raises(StorageError, match="file"):
        place.write(place / "file", b"second")

    assert place.read(place / "file") == b"first"
    assert place.names() == ["file"]


def test_new_file_does_not_replace_a_directory(place):
    place.directory("there")

    with pytest.raises(StorageError, match="there"):
        place.write(place / "there")

    assert place.storage.look(place / "there").kind == "directory"
    assert place.names() == ["there"]


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
def test_name_decided_at_the_end_does_not_replace_what_has_it(place, there):
    place.write(place / "final", b"first") if there == "file" else place.directory("final")

    with pytest.raises(StorageError, match="final"), place.storage.create_new(place / "x", lambda: place / "final"):
        pass

    assert place.names() == ["final"]
    assert place.storage.look(place / "final").kind == there
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


def test_exception_of_what_decides_the_name_aborts_as_well(place):
    def final():
        raise Mishap("no name")

    with pytest.raises(Mishap), place.storage.create_new(place / "file", final):
        pass

    assert place.names() == []


# --- a second name of a file ---


def test_link_gives_a_file_a_second_name(place):
    place.write(place / "file", b"content")
    place.directory("below")

    assert place.storage.link_new(place / "file", place / "below/twin") is True

    assert place.read(place / "below/twin") == place.read(place / "file") == b"content"
    place.storage.remove(place / "file")
    assert place.read(place / "below/twin") == b"content"  # it has no owner


@pytest.mark.parametrize("there", ["file", "directory", "the same"])
def test_link_does_not_replace_what_is_there(place, there):
    place.write(place / "file", b"content")
    if there == "file":
        place.write(place / "twin", b"first")
    elif there == "directory":
        place.directory("twin")
    else:
        place.storage.link_new(place / "file", place / "twin")
    before = place.names(), place.storage.look(place / "twin")

    with pytest.raises(FileExistsError):
        place.storage.link_new(place / "file", place / "twin")

    assert (place.names(), place.storage.look(place / "twin")) == before
    if there == "file":
        assert place.read(place / "twin") == b"first"


@pytest.mark.parametrize(("source", "target"), [("none", "twin"), ("file", "none/twin")])
def test_link_of_what_is_not_there_is_a_storage_error(place, source, target):
    place.write(place / "file", b"content")

    with pytest.raises(StorageError, match="No such file or directory"):
        place.storage.link_new(place / source, place / target)

    assert place.names() == ["file"]


# --- races ---


def race_of_threads(place, step):
    """Let RACERS threads do ``step(round, racer)`` at the same time; return each round's results."""
    barrier = Barrier(RACERS)

    def racer(number):
        results = []
        for turn in range(ROUNDS):
            barrier.wait(30)
            results.append(step(place, turn, number))
        return results

    with ThreadPoolExecutor(RACERS) as pool:
        return list(zip(*pool.map(racer, range(RACERS)), strict=True))


def process_racer(root, step, barrier, number, results):
    place = Place(storage_for(root), root)
    outcome = []
    for turn in range(ROUNDS):
        barrier.wait(30)
        outcome.append(step(place, turn, number))
    results.put((number, outcome))


def race_of_processes(place, step):
    """Do what ``race_of_threads`` does, with a process a racer."""
    context = multiprocessing.get_context("spawn")  # forking a process with threads is asking for trouble
    barrier, results = context.Barrier(RACERS), context.Queue()
    racers = [
        context.Process(target=process_racer, args=(place.root, step, barrier, number, results))
        for number in range(RACERS)
    ]
    for racer in racers:
        racer.start()
    found = dict(results.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join(60)
    return list(zip(*(found[number] for number in range(RACERS)), strict=True))


def create_in_race(place, turn, racer):
    try:
        place.write(place / f"round-{turn}", b"by %d" % racer)
    except StorageError:
        return False
    return True


def create_named_at_the_end_in_race(place, turn, racer):
    try:
        with place.storage.create_new(place / f"{racer}-{turn}", lambda: place / f"round-{turn}") as stream:
            stream.write(b"by %d" % racer)
    except StorageError:
        return False
    return True


def link_in_race(place, turn, racer):
    source = place.write(place / f".source-{turn}-{racer}", b"by %d" % racer)
    try:
        won = place.storage.link_new(source, place / f"round-{turn}")
    except FileExistsError:
        won = False
    place.storage.remove(source)
    return won


def link_or_create_in_race(place, turn, racer):
    return (link_in_race if racer % 2 else create_named_at_the_end_in_race)(place, turn, racer)


def rename_in_race(place, turn, racer):
    source = place.directory(f".staging-{turn}-{racer}")
    place.write(f"{source}/by-{racer}")
    try:
        place.storage.rename_new(source, place / f"round-{turn}")
    except FileExistsError:
        return False
    return True


@pytest.mark.parametrize(
    ("race", "step"),
    [
        (race_of_threads, create_in_race),
        (race_of_threads, create_named_at_the_end_in_race),
        (race_of_threads, link_in_race),
        (race_of_processes, create_in_race),
        (race_of_processes, link_or_create_in_race),
    ],
)
def test_one_of_many_creates_a_file(place, race, step):
    rounds = race(place, step)

    assert len(rounds) == ROUNDS
    for turn, won in enumerate(rounds):
        assert sum(won) == 1, f"round {turn}: {won}"
        assert place.read(place / f"round-{turn}") == b"by %d" % won.index(True)
    assert place.names() == sorted(f"round-{turn}" for turn in range(ROUNDS))


@pytest.mark.parametrize("race", [race_of_threads, race_of_processes])
def test_one_of_many_renames_a_directory(place, race):
    rounds = race(place, rename_in_race)

    assert len(rounds) == ROUNDS
    for turn, won in enumerate(rounds):
        assert sum(won) == 1, f"round {turn}: {won}"
        assert place.names(place / f"round-{turn}") == [f"by-{won.index(True)}"]  # replaced and nested nothing


# --- reading ---


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 1000])
def test_open_at_an_offset(place, offset):
    place.write(place / "file", b"0123456789")

    assert place.read(place / "file", offset) == b"0123456789"[offset:]


def test_look_tells_kinds_apart_and_misses_nothing(place):
    place.write(place / "file", b"abc")
    place.directory("directory")

    assert [(entry.name, entry.kind) for entry in place.storage.entries(place.root)] == [
        ("directory", "directory"),
        ("file", "file"),
    ]
    assert place.storage.look(place / "nothing") is None
    assert place.storage.look(place / "file/below") is None
    assert place.storage.look(place / "file") in place.storage.entries(place.root)


def test_entries_are_sorted_by_the_bytes_of_their_names(place):
    for name in ("b", "a", "B", "_a", ".a", "a2", "a10", "ä", "z"):
        place.write(place / name)

    assert place.names() == [".a", "B", "_a", "a", "a10", "a2", "b", "z", "ä"]


def test_glob_matches_names_by_path_and_passes_hidden_ones_over(place):
    for name in ("b.txt", "a.txt", ".c.txt", "d.csv"):
        place.write(place / name)
    place.directory("sub")
    place.write(place / "sub/e.txt")

    assert [entry.name for entry in place.storage.glob(place / "*.txt")] == ["a.txt", "b.txt"]
    assert [entry.name for entry in place.storage.glob(place / "*/*.txt")] == ["e.txt"]
    assert place.storage.glob(place / "nothing*") == []


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:10]))
def test_odd_name_is_kept_as_it_is(place, name):
    place.write(place / name, b"content")

    assert place.names() == [name]
    assert place.storage.look(place / name).bytes == 7
    assert place.read(place / name, 3) == b"tent"
    assert place.storage.resolve(place / name).endswith(name)
    with pytest.raises(StorageError):
        place.write(place / name)
    place.storage.remove(place / name)
    assert place.names() == []


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:10]))
def test_odd_name_of_a_directory(place, name):
    source = place.directory("source")
    place.write(f"{source}/{name}")

    place.storage.rename_new(source, place / name)

    assert place.names() == [name]
    assert place.names(place / name) == [name]
    claim = place.storage.hold(place / name)
    assert claim is not None
    place.storage.remove(place / name)
    assert place.names() == []


# --- directories ---


def test_make_directory_makes_its_parents_and_is_content_with_one_that_exists(place):
    for _ in range(2):
        place.storage.make_directory(place / "a/b/c")

    assert place.names(place / "a/b") == ["c"]


def test_remove_takes_files_and_whole_trees(place):
    place.storage.make_directory(place / "tree/a/b")
    place.write(place / "tree/a/file")
    place.write(place / "tree/a/b/.hidden")
    place.write(place / "file")

    place.storage.remove(place / "tree")
    assert place.names() == ["file"]
    place.storage.remove(place / "file")
    assert place.names() == []


def test_remove_of_a_missing_thing_is_fine(place):
    place.write(place / "file")

    place.storage.remove(place / "nothing")
    place.storage.remove(place / "no/such/directory")
    place.storage.remove(place / "file/below")

    assert place.names() == ["file"]


def test_entry_that_vanishes_while_it_is_listed_is_left_out(tmp_path, monkeypatch):
    """And the others are there: a listing that fails as a whole would look like a directory that is not there."""
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    real = os.scandir

    class Scan:
        def __enter__(self):
            found = sorted(real(tmp_path), key=lambda one: one.name)
            (tmp_path / "b").unlink()
            return found

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", lambda _: Scan())

    assert [entry.name for entry in entries_of(str(tmp_path))] == ["a", "c"]


def test_rename_new_moves_a_directory_with_all_that_is_in_it(place):
    source = place.directory("source")
    place.directory("source/sub")
    place.write(f"{source}/sub/file", b"content")

    place.storage.rename_new(source, place / "target")

    assert place.names() == ["target"]
    assert place.read(place / "target/sub/file") == b"content"


@pytest.mark.parametrize("there", ["file", "empty directory", "full directory"])
def test_rename_new_never_replaces_and_never_nests(place, there):
    source = place.directory("source")
    place.write(f"{source}/new")
    if there == "file":
        place.write(place / "target", b"old")
    else:
        place.directory("target")
    if there == "full directory":
        place.write(place / "target/old")
    before = place.storage.look(place / "target")

    with pytest.raises(FileExistsError):
        place.storage.rename_new(source, place / "target")

    assert place.storage.look(place / "target").kind == before.kind
    if there != "file":
        assert place.names(place / "target") == (["old"] if there == "full directory" else [])
    assert place.names(source) == ["new"]


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
    """Give a process that tries to claim a path, and what it says of it."""
    with subprocess.Popen([sys.executable, "-c", CLAIMANT, path], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def test_claim_of_a_process_ends_with_it_even_by_kill_9(place):
    path = place.directory("claimed")
    with claimant(path) as (owner, said):
        assert said == "claimed"
        assert place.storage.hold(path) is None
        with claimant(path) as (_, said_second):
            assert said_second == "none"

        owner.send_signal(signal.SIGKILL)
        owner.wait()
        mine = place.storage.hold(path)
        assert mine is not None
    with claimant(path) as (_, said):
        assert said == "none"


def test_claim_is_given_back_with_the_object(place):
    path = place.directory("claimed")

    claim = place.storage.hold(path)
    assert place.storage.hold(path) is None  # not twice in one process, either
    del claim

    assert place.storage.hold(path) is not None


def test_claim_does_not_follow_a_name(place):
    path = place.directory("claimed")
    claim = place.storage.hold(path)
    place.storage.rename_new(path, place / "elsewhere")

    place.directory("claimed")  # another directory of the same name

    assert place.storage.hold(path) is not None
    assert place.storage.hold(place / "elsewhere") is None
    del claim


def test_claim_of_nothing_is_none(place):
    assert place.storage.hold(place / "nothing") is None


# --- faults ---

FAULTS = {
    "open what is missing": ("nothing", lambda place: place.storage.open(place / "nothing")),
    "open a directory": ("directory", lambda place: place.storage.open(place / "directory")),
    "list what is missing": ("nothing", lambda place: place.storage.entries(place / "nothing")),
    "list a file": ("file", lambda place: place.storage.entries(place / "file")),
    "create in no directory": ("no/where", lambda place: place.write(place / "no/where")),
    "create below a file": ("file/below", lambda place: place.write(place / "file/below")),
    "create twice": ("file", lambda place: place.write(place / "file")),
    "make a directory of a file": ("file", lambda place: place.storage.make_directory(place / "file")),
    "make a directory below a file": ("file/below", lambda place: place.storage.make_directory(place / "file/below")),
    "claim a file": ("file", lambda place: place.storage.hold(place / "file")),
    "rename into no directory": (
        "no/where",
        lambda place: place.storage.rename_new(place / "directory", place / "no/where"),
    ),
    "look at a name that is too long": ("x" * 300, lambda place: place.storage.look(place / ("x" * 300))),
    "create a name that is too long": ("x" * 300, lambda place: place.write(place / ("x" * 300))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_a_storage_error_with_the_path_and_the_reason(place, fault):
    place.write(place / "file", b"content")
    place.directory("directory")
    name, step = FAULTS[fault]

    with pytest.raises(StorageError) as caught:
        step(place)

    assert caught.value.exit_code == 4
    path, _, reason = str(caught.value).partition(": ")
    assert path == place / name
    assert len(reason) > 4
    assert place.names() == ["directory", "file"]
    assert place.read(place / "file") == b"content"


def test_unknown_scheme_names_the_known_ones():
    with pytest.raises(MutatorError, match=r"'gopher' is not a known kind of storage.*file://") as caught:
        storage_for("gopher://host/path")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("file:///a%20b", "/a b"),
        ("file:/a%23b", "/a#b"),
        ("file://localhost/a", "/a"),
        ("FILE:///a", "/a"),
        ("/a%20b", "/a%20b"),  # a plain path is no address
        ("/a/../b//c/", "/b/c"),
    ],
)
def test_address_of_a_local_path(address, path):
    assert absolute(address) == path


# --- only on a local disk ---


@pytest.fixture
def disk(tmp_path):
    return Place(LocalStorage(), str(tmp_path))


INVALID = os.fsdecode(b"a\xff\xfe\xc3")  # no UTF-8, and a legal name on Linux


def test_name_that_is_no_text_is_kept(disk):
    source = disk.directory("source")
    disk.write(f"{source}/{INVALID}", b"content")

    disk.storage.rename_new(source, disk / INVALID)

    assert os.listdir(os.fsencode(disk.root)) == [b"a\xff\xfe\xc3"]
    assert disk.names(disk / INVALID) == [INVALID]
    assert disk.read(f"{disk / INVALID}/{INVALID}") == b"content"
    assert [entry.name for entry in disk.storage.glob(disk / "a*")] == [INVALID]
    assert disk.storage.hold(disk / INVALID) is not None
    with pytest.raises(StorageError) as caught:
        disk.storage.open(disk / "a\udcffb")
    str(caught.value).encode()  # a message can be shown
    disk.storage.remove(disk / INVALID)
    assert disk.names() == []


@pytest.mark.parametrize("kind", ["symbolic link", "FIFO", "socket", "device"])
def test_what_is_no_plain_file_is_named_and_not_opened(disk, kind):
    disk.write(disk / "file", b"content")
    path = disk / "odd"
    if kind == "symbolic link":
        os.symlink(disk / "file", path)
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        here = os.open(disk.root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/odd")  # the path of a socket may not be long
        os.close(here)
        server.close()
    else:
        path = "/dev/null"

    assert disk.storage.look(path).kind == kind
    with pytest.raises(StorageError, match=path):  # and does not wait for a writer of the FIFO
        disk.storage.open(path)


def test_dangling_link_is_there(disk):
    os.symlink(disk / "nowhere", disk / "link")

    assert disk.storage.look(disk / "link").kind == "symbolic link"
    assert disk.names() == ["link"]
    with pytest.raises(StorageError):
        disk.write(disk / "link")
    assert not os.path.exists(disk / "nowhere")


def test_remove_does_not_follow_links(disk):
    disk.directory("keep")
    disk.write(disk / "keep/file")
    disk.directory("tree")
    os.symlink(disk / "keep", disk / "tree/link")
    os.symlink(disk / "keep", disk / "link")

    disk.storage.remove(disk / "tree")
    disk.storage.remove(disk / "link")

    assert disk.names() == ["keep"]
    assert disk.names(disk / "keep") == ["file"]


def test_resolve_follows_links_to_directories_and_none_to_a_file(disk):
    disk.directory("real")
    disk.write(disk / "real/file")
    os.symlink("real", disk / "link")
    os.symlink("file", disk / "real/other")

    assert disk.storage.resolve(disk / "link/file") == disk / "real/file"
    assert disk.storage.resolve(disk / "link") == disk / "real"
    assert disk.storage.resolve(disk / "link/other") == disk / "real/other"
    assert disk.storage.resolve(disk / "link/new") == disk / "real/new"


def test_without_links_a_new_file_still_replaces_nothing(disk, monkeypatch):
    """FAT and some network file systems cannot link."""

    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(local.os, "link", refuse)
    disk.write(disk / "file", b"first")
    with pytest.raises(StorageError, match="file"):
        disk.write(disk / "file", b"second")

    assert disk.read(disk / "file") == b"first"
    assert disk.names() == ["file"]
    rounds = race_of_threads(disk, create_in_race)
    assert all(sum(won) == 1 for won in rounds)


@pytest.mark.parametrize("code", sorted(local._NO_LINKS))
def test_where_nothing_can_be_linked_a_link_is_false_and_makes_nothing(disk, monkeypatch, code):
    """So that the file is copied instead; whatever else goes wrong is an error."""

    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    disk.write(disk / "file", b"content")
    monkeypatch.setattr(local.os, "link", refuse)

    assert disk.storage.link_new(disk / "file", disk / "twin") is False
    assert disk.names() == ["file"]
    code = errno.ENOSPC
    with pytest.raises(StorageError, match="No space left on device"):
        disk.storage.link_new(disk / "file", disk / "twin")


def test_link_shares_its_content(disk):
    """The bytes are there once: nothing was read, and a damage of one is a damage of both."""
    disk.write(disk / "file", b"content")
    disk.storage.link_new(disk / "file", disk / "twin")

    one, other = os.stat(disk / "file"), os.stat(disk / "twin")
    assert (one.st_dev, one.st_ino, one.st_nlink) == (other.st_dev, other.st_ino, 2)


def test_full_disk_is_an_error_and_leaves_nothing(disk, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local.os, "fsync", full)  # where a delayed allocation shows it

    with pytest.raises(StorageError, match=r"file: No space left on device"):
        disk.write(disk / "file", b"content")
    assert disk.names() == []


def test_content_is_durable_before_its_name_is(disk, monkeypatch):
    """The order of the calls is the only sign of durability that a test can see without pulling the plug."""
    calls = []
    fsync, link = os.fsync, os.link
    kind = {True: "directory", False: "file"}
    monkeypatch.setattr(
        local.os, "fsync", lambda fd: (calls.append(kind[os.path.isdir(f"/proc/self/fd/{fd}")]), fsync(fd))
    )
    monkeypatch.setattr(local.os, "link", lambda *names: (calls.append("link"), link(*names)))

    disk.write(disk / "file", b"content")

    assert calls == ["file", "link", "directory"]


@pytest.mark.parametrize("code", [errno.ENOTEMPTY, errno.EBUSY, errno.ENOENT])
def test_remove_outlasts_a_writer_that_is_about_to_die(disk, monkeypatch, code):
    """The workers of a killed run write on for as long as their JVM takes to die."""
    tree, calls, rmtree = disk.directory("tree"), [], shutil.rmtree

    def raced(path):
        calls.append(path)
        if len(calls) < 3:
            raise OSError(code, os.strerror(code), path)
        rmtree(path)

    monkeypatch.setattr(local.shutil, "rmtree", raced)
    disk.storage.remove(tree)

    assert len(calls) == 3
    assert disk.names() == []


def test_claim_of_a_directory_that_was_replaced_meanwhile_is_none(disk, monkeypatch):
    """Between opening and locking it, its owner may have published it and another run have made a new one."""
    path, flock = disk.directory("claimed"), local.fcntl.flock

    def late(handle, flags):
        os.rename(path, disk / "published")
        os.mkdir(path)
        flock(handle, flags)

    monkeypatch.setattr(local.fcntl, "flock", late)

    assert disk.storage.hold(path) is None


# --- compression ---


def zstd_compress(data):
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


COMPRESS = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "zstd": zstd_compress,
    "xz": lzma.compress,
}
CONTENT = b"".join(b"k%d,%d,value %d\n" % (n, n * n, n % 7) for n in range(30))


def unpacked(data, kind, block=1 << 20):
    return b"".join(decompress([data[at : at + block] for at in range(0, len(data), block)], kind))


@pytest.fixture(params=list(COMPRESS))
def kind(request):
    return request.param


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_content_comes_back_whatever_the_blocks(kind, block):
    for content in (b"", b"x", CONTENT, random.Random(1).randbytes(300_000 if block > 7 else 3_000)):
        assert unpacked(COMPRESS[kind](content), kind, block) == content


def test_small_file_with_much_content(kind):
    assert unpacked(COMPRESS[kind](bytes(30 << 20)), kind) == bytes(30 << 20)


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_several_streams_are_one_content(kind, block):
    compress = COMPRESS[kind]
    streams = [compress(CONTENT), compress(b""), compress(b"a,1\nb"), compress(b",2\n")]

    assert unpacked(b"".join(streams), kind, block) == CONTENT + b"a,1\nb,2\n"


@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize(
    "garbage", [b"k9,9,lost row\n", b"\n", b"\0", b"\0\0\0\0", b"\x1f", b"B", b"BZh9", b"\xfd7zXZ"]
)
def test_bytes_after_the_last_stream_are_an_error(kind, garbage, block):
    with pytest.raises(CorruptStream, match=kind):
        unpacked(COMPRESS[kind](CONTENT) + garbage, kind, block)


def test_stream_of_another_kind_after_the_last_is_an_error(kind):
    for other in COMPRESS:
        if other != kind:
            with pytest.raises(CorruptStream, match=kind):
                unpacked(COMPRESS[kind](CONTENT) + COMPRESS[other](CONTENT), kind)


def test_file_that_ends_early_is_an_error_at_every_byte(kind):
    """At byte 0 there is no stream at all; ``survey`` refuses such a file by its size."""
    data = COMPRESS[kind](CONTENT)

    for end in range(1, len(data)):
        with pytest.raises(CorruptStream):
            unpacked(data[:end], kind)


def test_second_stream_that_ends_early_is_an_error_at_every_byte(kind):
    first, second = COMPRESS[kind](CONTENT), COMPRESS[kind](b"a,1\n")

    for end in range(1, len(second)):
        with pytest.raises(CorruptStream):
            unpacked(first + second[:end], kind)


def test_flipped_bit_never_gives_other_content(kind):
    data = COMPRESS[kind](CONTENT)
    found = 0

    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            content = unpacked(bytes(damaged), kind)
        except CorruptStream:
            found += 1
        else:
            # Not every bit says something about the content: gzip's holds a time, and bzip2's last byte is padded.
            assert content == CONTENT, f"bit {bit}"
    assert found > len(data) * 8 * 0.8


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"BZh91AY&SY", "bzip2"),
        (b"BZh1\x17rE8P\x90", "bzip2"),  # of no content
        (b"\x28\xb5\x2f\xfd\x04", "zstd"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"PK\x03\x04\x14\x00", "a zip archive"),
        (b"7z\xbc\xaf\x27\x1c\x00", "a 7z archive"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"\xff\x06\x00\x00sNaPpY", "snappy"),
        (b"PAR1\x15\x04\x15\x14\x15\x14\x15\xde\xb5\xe1", "Parquet"),
        (b"ORC\x0a\x06\x12\x04\x08\x01P\x00\x0a", "ORC"),
        (b"Obj\x01\x04\x14avro.codec", "Avro"),
        # rows that begin like one of them
        (b"", None),
        (b"\x1f", None),
        (b"BZh,1,2\n", None),
        (b"BZh9,1,2\n", None),
        (b"BZhang,1,2\n", None),
        (b"PK,1,2\n", None),
        (b"PAR1,Paris,2\n", None),
        (b"PAR1", None),
        (b"ORC,1,2\n", None),
        (b"ORC", None),
        (b"Obj,1,2\n", None),
        (b"k1,1,2\n", None),
        ("é,1\n".encode(), None),
        (b"\xff\xfek\0", None),
    ],
)
def test_sniff(head, name):
    assert sniff(head) == name


def test_sniff_knows_what_the_compressors_write(kind):
    for content in (b"", b"x", CONTENT):
        assert sniff(COMPRESS[kind](content)) == kind
