"""A master without data files, or with empty ones alone: a mistake, unless the configuration allows it."""

import pytest

from mutator.errors import ConfigError
from tests.support.job import BY_NAME, CONFIG, ENGINES, Job, rows

MESSAGE = (
    "the master has no data files; check that it is the right directory, and mounted, or set allow.empty.master=true "
    "for the first run, whose result has the rows of the feed alone"
)


@pytest.fixture(params=ENGINES)
def job(request, tmp_path):
    made = Job(tmp_path, request.param)
    (made.master / "base.txt").unlink()
    made.put("ups_1.txt")
    return made


@pytest.mark.parametrize("more", [{}, {"master.adopt": "true"}])
def test_an_empty_master_is_a_mistake(job, more):
    (job.master / "_SUCCESS").touch()

    job.refused(ConfigError, f"{job.master}: {MESSAGE}", settings={**CONFIG, **more})
    job.run({**CONFIG, **more, "allow.empty.master": "true"})


@pytest.mark.parametrize("more", [{}, {"master.adopt": "true"}])
def test_empty_files_alone_are_a_mistake(job, more):
    (job.master / "empty.txt").touch()
    (job.master / "other.txt").touch()
    message = "master: the master has only empty files, as after an interrupted copy; check that it is the right "
    job.refused(ConfigError, message, "set allow.empty.master=true for the first run", settings={**BY_NAME, **more})
    job.run({**BY_NAME, **more, "allow.empty.master": "true"})

    assert rows(job.output) == [b"b,2,200"]


def test_neither_side_has_files(job):
    """Without any file, the names in settings cannot be compared with fields."""
    (job.feed / "ups_1.txt").unlink()
    more = {"allow.empty.master": "true", "order_by": "at"}
    says = "feed: has no feed files, and the master has no rows yet, so there is nothing to merge; check the path"
    job.refused(ConfigError, says, settings={"key": "id", **more})
    assert job.run({**BY_NAME, "allow.empty.master": "true"}).counts["output rows"] == 0


def test_an_empty_file_among_others(job):
    (job.master / "empty.txt").touch()
    job.put("base.txt", b"a,1,100\n", "master")
    job.run(BY_NAME)

    assert sorted(rows(job.output)) == [b"a,1,100", b"b,2,200"]


def test_a_master_that_lost_its_last_record(job):
    job.put("a_1.txt", b"a,1,100\n", "master")
    job.put("ups_1.txt", b"")
    job.put("del_2.txt", b"a,1,100\n")
    job.follow({**BY_NAME, "deleted.record.file.prefix": "del", "max.delete.fraction": "1"})
    assert rows(job.master) == []
    job.add("ups_3.txt")
    job.run(BY_NAME)

    assert rows(job.output) == [b"b,2,200"]
