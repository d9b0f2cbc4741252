"""A workflow base in a directory, and its runs with real merges."""

import pytest

from mutator import config as configuration
from mutator.errors import MutatorError
from mutator.workflow import directory
from tests.support import local_engine
from tests.support.master_base import run_workflow, status_of

BY_NAME = {"id.field.ordinals": "0", "deleted.record.file.prefix": "del", "num.reducer": "2", "claim.min.age": "0s"}

BY_FIELD = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "op.code.in.master": "false",
    "num.reducer": "2",
    "claim.min.age": "0s",
}


class Place:
    """A base, and the commands on it."""

    def __init__(self, path, settings):
        self.path, self.settings = path, settings
        (path / "master").mkdir(parents=True)
        (path / "incr").mkdir()

    def arrive(self, name, *rows):
        (self.path / "incr" / name).write_text("".join(f"{row}\n" for row in rows))

    def run(self, **more):
        config = configuration.parse(self.settings | {key.replace("_", "."): value for key, value in more.items()})
        merge = directory.merge_by(config, local_engine.merge)
        return run_workflow(str(self.path), config, merge, sleep=lambda _: None)

    def status(self, **more):
        settings = self.settings | {key.replace("_", "."): value for key, value in more.items()}
        return status_of(str(self.path), configuration.parse(settings))

    def restore(self, to):
        return directory.restore(str(self.path), to, configuration.parse(self.settings))

    def rows(self, place="master"):
        return sorted(line for path in (self.path / place).glob("part-*") for line in path.read_text().split())

    def names(self, place):
        return sorted(path.name for path in (self.path / place).rglob("*") if path.is_file())


def refused(act, code, *words, **more):
    with pytest.raises(MutatorError) as caught:
        act(**more)
    assert caught.value.exit_code == code
    for word in words:
        assert word in str(caught.value)
