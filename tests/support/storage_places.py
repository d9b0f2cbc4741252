"""Empty directories on each storage backend, and races for names in them."""

import multiprocessing
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from mutator.errors import StorageError
from mutator.storage import Storage, registry, storage_for
from tests.support.model_storage import ModelStorage
from tests.support.patience import PATIENCE, met_at

RACERS = 4

KEEP = ".keep"  # a file that keeps a directory in existence on storages without directories


def local_place(request):
    return str(request.getfixturevalue("tmp_path"))


def s3_place(request):
    return request.getfixturevalue("s3").bucket() + "/place"


def hdfs_place(request):
    root = f"{request.getfixturevalue('hdfs')}/{request.node.name[:40].partition('[')[0]}-{random.getrandbits(40)}"
    storage_for(root).make_directory(root)
    return root


PLACES = {"s3": s3_place, "hdfs": hdfs_place}


def model_place(storage_type):
    def make(request):
        found = ModelStorage(storage_type)
        request.getfixturevalue("monkeypatch").setitem(registry.BACKENDS, "model", lambda: found)
        storage_for("model://x").make_directory("model://place/here")
        return "model://place/here"

    return make


BACKENDS = {
    "local": local_place,
    "s3": s3_place,
    "hdfs": hdfs_place,
    "model of posix": model_place("posix"),
    "model of hdfs": model_place("hdfs"),
    "model of s3": model_place("s3"),
}

RENAMING = [name for name in BACKENDS if "s3" not in name]

CLAIMING = ["local"]


@dataclass(frozen=True)
class EmptyDirectory:
    """An empty directory of a backend."""

    storage: Storage
    root: str

    def __truediv__(self, name: str) -> str:
        return f"{self.root}/{name}"

    @property
    def is_local(self) -> bool:
        return "://" not in self.root

    @property
    def is_model(self) -> bool:
        return self.root.startswith("model://")

    def names(self, path: str | None = None) -> list[str]:
        return [entry.name for entry in self.storage.entries(path or self.root) if entry.name != KEEP]

    def write(self, path: str, data: bytes = b"") -> str:
        with self.storage.create_new(path) as stream:
            stream.write(data)
        return path

    def read(self, path: str, offset: int = 0) -> bytes:
        with self.storage.open(path, offset) as stream:
            return b"".join(iter(lambda: stream.read(1000), b""))

    def directory(self, name: str) -> str:
        self.storage.make_directory(self / name)
        if not self.storage.renames:
            self.write(f"{self / name}/{KEEP}")
        return self / name


def empty_directory_on(request):
    root = BACKENDS[request.param](request)
    return EmptyDirectory(storage_for(root), root)


def rounds_on(directory):
    return 200 if directory.is_local or directory.is_model else int(os.environ.get("MUTATOR_RACES", "15"))


def race_of_threads(directory, step):
    """Let RACERS threads do ``step(round, racer)`` at the same time; return each round's results."""
    barrier = Barrier(RACERS)

    def racer(number):
        results = []
        with met_at(barrier) as meet:
            for turn in range(rounds_on(directory)):
                meet()
                results.append(step(directory, turn, number))
        return results

    with ThreadPoolExecutor(RACERS) as pool:
        return list(zip(*pool.map(racer, range(RACERS)), strict=True))


def process_racer(root, step, barrier, number, results):
    directory = EmptyDirectory(storage_for(root), root)
    outcome = []
    with met_at(barrier) as meet:
        for turn in range(rounds_on(directory)):
            meet()
            outcome.append(step(directory, turn, number))
    results.put((number, outcome))


def race_of_processes(directory, step):
    """Do the same as ``race_of_threads`` with a process for each racer."""
    context = multiprocessing.get_context("spawn")  # forking a process that has threads is unsafe
    barrier, results = context.Barrier(RACERS), context.Queue()
    racers = [
        context.Process(target=process_racer, args=(directory.root, step, barrier, number, results))
        for number in range(RACERS)
    ]
    for racer in racers:
        racer.start()
    found = dict(results.get(timeout=PATIENCE) for _ in racers)
    for racer in racers:
        racer.join(PATIENCE)
    return list(zip(*(found[number] for number in range(RACERS)), strict=True))


def create_in_race(directory, turn, racer):
    try:
        directory.write(directory / f"round-{turn}", b"by %d" % racer)
    except StorageError:
        return False
    return True


def create_named_at_the_end_in_race(directory, turn, racer):
    try:
        with directory.storage.create_new(directory / f"{racer}-{turn}", lambda: directory / f"round-{turn}") as stream:
            stream.write(b"by %d" % racer)
    except StorageError:
        return False
    return True


def link_in_race(directory, turn, racer):
    source = directory.write(directory / f".source-{turn}-{racer}", b"by %d" % racer)
    try:
        won = directory.storage.link_new(source, directory / f"round-{turn}")
    except FileExistsError:
        won = False
    directory.storage.remove(source)
    return won


def link_or_create_in_race(directory, turn, racer):
    return (link_in_race if racer % 2 else create_named_at_the_end_in_race)(directory, turn, racer)


def rename_in_race(directory, turn, racer):
    source = directory.directory(f".staging-{turn}-{racer}")
    directory.write(f"{source}/by-{racer}")
    try:
        directory.storage.rename_new(source, directory / f"round-{turn}")
    except FileExistsError:
        return False
    return True


def check_race(directory, race, step):
    if directory.is_model and race is race_of_processes:
        race = race_of_threads  # the model is in the memory of this process
    rounds = race(directory, step)

    assert len(rounds) == rounds_on(directory)
    for turn, won in enumerate(rounds):
        assert sum(won) == 1, f"round {turn}: {won}"
        assert directory.read(directory / f"round-{turn}") == b"by %d" % won.index(True)
    assert directory.names() == sorted(f"round-{turn}" for turn in range(rounds_on(directory)))
