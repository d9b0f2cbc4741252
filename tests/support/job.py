"""A run in a folder of its own, for tests of runs that must be refused."""

import os
import stat

import pytest

from mutator.dataset import manifest
from mutator.errors import ConfigError, DataError, MutatorError, StateError, StorageError
from tests.support import local_engine

__all__ = ["BY_NAME", "CONFIG", "ENGINES", "FEED", "MASTER", "WITH_OP", "Job", "known", "rows", "snapshot"]

ENGINES = ("records", "blocks")
CONFIG = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2"}
BY_NAME = {"id.field.ordinals": "0"}
WITH_OP = {"id.field.ordinals": "0", "op.code.field.ordinal": "2", "temporal.ordering.field.ordinal": "3"}
MASTER = b"a,1,100\nb,1,100\nc,1,100\nd,1,100\n"
FEED = b"b,2,200\n"


def snapshot(folder):
    """Return the contents of a folder by path: bytes of files, targets of links, types of all others."""
    found = {}
    for path in sorted(os.fsencode(path) for path in folder.rglob("*")):
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            found[path] = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            with open(path, "rb") as stream:
                found[path] = stream.read()
        else:
            found[path] = stat.S_IFMT(status.st_mode)
    return found


class Job:
    """A master, a feed, an output, and a run that must be refused or must work."""

    def __init__(self, root, engine="auto"):
        self.root, self.engine = root, engine
        self.master, self.feed, self.output = root / "master", root / "feed", root / "output"
        self.master.mkdir()
        self.feed.mkdir()
        (self.master / "base.txt").write_bytes(MASTER)

    def put(self, name, content=FEED, where="feed"):
        path = self.root / where / name
        path.write_bytes(content)
        return path

    def run(self, settings=CONFIG, mutate=local_engine.mutate, **places):
        paths = {"master": str(self.master), "feed": [str(self.feed)], "output": str(self.output), **places}
        return mutate(settings, engine=self.engine, **paths)

    def refused(self, family, *parts, settings=CONFIG, mutate=local_engine.mutate, **places):
        """Check that a run is refused with a message that has these parts, and changes nothing; return the message."""
        before = snapshot(self.root)
        with pytest.raises(MutatorError) as caught:
            self.run(settings, mutate, **places)
        message = str(caught.value)
        assert type(caught.value) is family, message
        assert caught.value.exit_code == {ConfigError: 2, DataError: 3, StorageError: 4, StateError: 5}[family]
        assert [part for part in parts if str(part) not in message] == [], message
        assert snapshot(self.root) == before
        return message

    def follow(self, settings=CONFIG):
        """Run, then use the output as the master of the next run, with an empty feed."""
        report = self.run(settings)
        self.master = self.output
        number = 1 + len(list(self.root.glob("output*")))
        self.output, self.feed = self.root / f"output-{number}", self.root / f"feed-{number}"
        self.feed.mkdir()
        return report

    def add(self, name, content=FEED):
        path = self.feed / name
        path.write_bytes(content)
        return path

    def begin_managed(self):
        """Create a master with this program, with a tombstone and both roles of bucket files, and a feed for it."""
        self.put("del_1.txt", b"d,1,200\n")
        self.follow({**CONFIG, "deleted.record.file.prefix": "del", "num.reducer": "2"})
        self.add("ups_2.txt", b"b,2,300\n")
        return self


def rows(output):
    return sorted(row for path in output.glob("part-*") for row in path.read_bytes().split(b"\n")[:-1])


def known(folder):
    return manifest.parse((folder / manifest.PATH).read_bytes(), "manifest")


@pytest.fixture(params=ENGINES)
def job(request, tmp_path):
    """Return a folder for runs of each engine."""
    return Job(tmp_path, request.param)


@pytest.fixture
def managed(job):
    return job.begin_managed()
