"""Sorted runs give back all elements in order, whatever is in memory and whatever is in files."""

import random

import pytest

from mutator.engine import sorted_runs
from mutator.engine.sorted_runs import merged, sorted_elements, write_run


def elements(count, seed=0):
    chosen = random.Random(seed)
    return [((chosen.randrange(1000), number), (b"%d" % number, number)) for number in range(count)]


@pytest.mark.parametrize("most", [1 << 30, 1 << 16, 0], ids=["in memory", "a few runs", "a run for each"])
@pytest.mark.parametrize("count", [0, 1, 2000])
def test_elements_come_back_sorted(count, most):
    given = elements(count)
    assert list(sorted_elements(iter(given), most)) == sorted(given)


def test_files_are_removed_with_the_iterator(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    found = sorted_elements(iter(elements(5000)), 1 << 14)
    next(found)
    assert list(tmp_path.iterdir())
    found.close()
    assert not list(tmp_path.iterdir())


def test_runs_of_several_files_are_merged(tmp_path):
    runs, expected = [], []
    for number in range(3):
        with (tmp_path / str(number)).open("xb") as stream:
            for part in range(2):
                given = elements(700, seed=10 * number + part)
                expected += given
                runs.append(write_run(stream, given))
    assert [key for key, _ in merged(runs)] == sorted(key for key, _ in expected)


def test_values_of_large_elements_are_read_one_at_a_time(tmp_path, monkeypatch):
    """A reducer of many runs must not have a value of each in memory."""
    loaded = []
    read = sorted_runs._read
    monkeypatch.setattr(sorted_runs, "_read", lambda *part: loaded.append(part[1]) or read(*part))
    runs = []
    with (tmp_path / "runs").open("xb") as stream:
        for number in range(20):
            runs.append(write_run(stream, [((number,), bytes(2 << 20))]))
    found = merged(runs)
    next(found)
    assert sum(size > 1 << 20 for size in loaded) == 1


def test_a_truncated_file_is_an_error(tmp_path):
    with (tmp_path / "runs").open("xb") as stream:
        run = write_run(stream, elements(100))
        stream.truncate(run.end - 10)
    with pytest.raises(EOFError, match="ends too early"):
        list(merged([run]))
