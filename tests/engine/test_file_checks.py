"""Files that runs take over unread are checked in turn, each within 1/verify.fraction runs; damage stops the run."""

import dataclasses
import math
import random
import re

import pytest

from mutator.dataset import manifest
from mutator.dataset.directory import due_files, oldest_check, read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.state import State
from mutator.dataset.version_log import NONE
from mutator.errors import StateError
from mutator.rules.key_hash import bucket_of
from mutator.storage import storage_for
from tests.support import local_engine
from tests.support.workflow_base import BY_FIELD, Place

SETTINGS = {"id.field.ordinals": "0", "deleted.record.file.prefix": "del", "num.reducer": "8"}
PARTITIONED = SETTINGS | {"partitioned.by": "p=1", "num.reducer": "1"}
KEYS = [f"k{number}" for number in range(64)]
HOT = next(key for key in KEYS if bucket_of((key.encode(),), 8) == 0)


def known(path):
    return read_manifest(storage_for(str(path)), str(path))


def put(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


class Chain:
    """A master, and runs whose feed touches one bucket, or one partition."""

    def __init__(self, root, settings):
        self.root, self.settings, self.number = root, settings, 1
        put(root / "base" / "base_1.txt", *(f"{key},{int(key[1:]) % 8},1" for key in KEYS))
        put(root / "feed-2" / "ups_2.txt", "k1,1,2")
        put(root / "feed-2" / "del_2.txt", *(f"{key},{int(key[1:]) % 8},2" for key in KEYS[40:48]))
        self.master = root / "base"
        self.run(root / "feed-2")

    def run(self, feed=None, tasks=2, seed=0, **more):
        self.number += 1
        if feed is None:
            feed = self.root / f"feed-{self.number}"
            put(feed / f"ups_{self.number}.txt", f"{HOT},{int(HOT[1:]) % 8},{self.number}")
        output = self.root / f"out-{self.number}"
        settings = self.settings | {name.replace("_", "."): value for name, value in more.items()}
        places = {"master": str(self.master), "feed": [str(feed)], "output": str(output)}
        report = local_engine.mutate(settings, **places, tasks=tasks, seed=seed)
        self.master = output
        return report

    @property
    def manifest(self):
        return known(self.master)

    def quiet(self, role):
        """Return the last file of a role that runs take over."""
        rows = {"data": self.manifest.files}.get(role, [part for part in self.manifest.beside if part.role == role])
        before = {part.path for part in known(self.root / f"out-{self.number - 1}").parts()}
        return max((part for part in rows if part.path in before), key=lambda part: (part.checked, part.path))


@pytest.fixture(params=["buckets", "partitions"])
def chain(request, tmp_path):
    made = Chain(tmp_path, SETTINGS if request.param == "buckets" else PARTITIONED)
    made.run()
    return made


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


# --- which files are due

EMPTY = {"bucket": 0, "rows": 1, "checksum": ""}


def made_of(*files):
    parts = tuple(FileEntry(path=path, bytes=size, checked=checked, **EMPTY) for path, size, checked in files)
    return State(NONE, {}, files=parts)


def test_oldest_check_is_due_first_and_ties_go_by_path():
    known = made_of(("d", 10, "2026-02"), ("c", 10, "2026-01"), ("b", 10, "2026-01"), ("a", 10, "2026-03"))

    assert due_files(known, 0) == set()
    assert due_files(known, 0.01) == due_files(known, 0.25) == {"b"}
    assert due_files(known, 0.26) == due_files(known, 0.5) == {"b", "c"}
    assert due_files(known, 0.75) == {"b", "c", "d"}
    assert due_files(known, 1) == {"a", "b", "c", "d"}
    assert oldest_check(known).path == "b"


def test_file_that_was_never_checked_is_due_first():
    known = made_of(("a", 10, "2026-01"), ("b", 10, None))

    assert due_files(known, 0.1) == {"b"}
    assert (oldest_check(known).path, oldest_check(known).checked) == ("b", None)


def test_files_that_no_run_takes_over_are_not_due():
    sides = tuple(
        FileEntry(path=role, role=role, bytes=9, **EMPTY) for role in ("schema", "rejected", "filters", "order")
    )

    assert due_files(dataclasses.replace(made_of(), beside=sides), 1) == {"filters", "order"}


def test_no_files():
    assert due_files(made_of(), 1) == set()
    assert oldest_check(made_of()) is None


@pytest.mark.parametrize("seed", range(30))
def test_each_file_is_checked_within_the_stated_number_of_runs(seed):
    """Runs write some files anew, add some and remove some; no file waits longer than 1/fraction runs."""
    rng = random.Random(seed)
    fraction = rng.choice([0.05, 0.1, 0.3, 1])
    sizes = {f"f{number}": rng.choice([0, 1, 10, 500]) for number in range(rng.randrange(1, 40))}
    checked = dict.fromkeys(sizes, None)
    waited = dict.fromkeys(sizes, 0)
    for run in range(120):
        due = due_files(made_of(*((path, sizes[path], checked[path]) for path in sizes)), fraction)
        touched = set(rng.sample(sorted(sizes), rng.randrange(len(sizes)) if rng.random() < 0.5 else 0))
        for path in list(sizes):
            if path in touched and rng.random() < 0.2 and len(sizes) > 1:
                del sizes[path], checked[path], waited[path]
            elif path in touched:  # it is written anew, under another name
                size = sizes.pop(path)
                del checked[path], waited[path]
                new = f"{path.partition('-')[0]}-{run}"
                sizes[new], checked[new], waited[new] = max(size + rng.choice([-5, 0, 5]), 0), f"{run:04}", 0
            elif path in due:
                checked[path], waited[path] = f"{run:04}", 0
            else:
                waited[path] += 1
        if rng.random() < 0.3:
            name = f"n{run}"
            sizes[name], checked[name], waited[name] = rng.choice([1, 50]), f"{run:04}", 0
        assert max((waited[path] for path in sizes if sizes[path]), default=0) < math.ceil(1 / fraction)


# --- runs


@pytest.mark.parametrize("role", ["data", "order", "tombstones"])
def test_damage_of_a_quiet_file_stops_a_run_in_time(chain, role):
    part = chain.quiet(role)
    flip(chain.master / part.path)

    def four_runs():
        for _ in range(4):
            chain.run(verify_fraction="0.25")

    with pytest.raises(StateError, match=rf"{re.escape(part.path)}: its checksum is"):
        four_runs()


def test_without_checks_damage_goes_on_unseen(chain):
    part = chain.quiet("data")
    flip(chain.master / part.path)
    for _ in range(3):
        assert chain.run(verify_fraction="0").checked_bytes == 0
    with pytest.raises(StateError, match=re.escape(part.path)):
        chain.run(verify_fraction="1")


def test_pack_of_filters_is_checked(tmp_path):
    chain = Chain(tmp_path, PARTITIONED)
    chain.run()
    part = chain.quiet("filters")
    path = chain.master / part.path
    data = bytearray(path.read_bytes())
    data[-30] ^= 1  # in the footer, which a search for keys may not notice
    path.chmod(0o644)
    path.write_bytes(data)

    with pytest.raises(StateError, match=re.escape(part.path)):
        chain.run(verify_fraction="1")


def test_report_counts_the_bytes(chain):
    before = {part.path for part in chain.manifest.parts()}
    report = chain.run(verify_fraction="0")
    kept = [part for part in chain.manifest.parts() if part.path in before]
    taken = sum(part.bytes for part in kept)
    assert (report.unread_bytes, report.checked_bytes) == (taken, 0)
    assert f", {report.carried} of them taken over (and files beside them): {taken:,} bytes unread; " in report.text()

    before = chain.manifest
    report = chain.run(verify_fraction="0.3")
    checked = sum(part.bytes for part in chain.manifest.parts() if part.checked == chain.manifest.commit.committed)
    written = sum(part.bytes for part in chain.manifest.parts() if part.path not in {p.path for p in before.parts()})
    assert report.checked_bytes == checked - written > 0
    assert f" bytes unread, {report.checked_bytes:,} bytes checked; " in report.text()
    assert report.checked_bytes >= 0.3 * sum(part.bytes for part in before.parts()) - written


def test_manifest_has_the_time_of_each_check(chain):
    before = chain.manifest
    assert all(part.checked is not None for part in before.parts())
    chain.run(verify_fraction="0.3")
    now, due = chain.manifest, due_files(before, 0.3)
    old = {part.path: part for part in before.parts()}
    for part in now.parts():
        expected = old[part.path].checked if part.path in old and part.path not in due else now.commit.committed
        assert part.checked == expected
    assert {part.checked for part in now.parts()} >= {now.commit.committed}


@pytest.mark.parametrize("settings", [SETTINGS, PARTITIONED], ids=["buckets", "partitions"])
def test_checks_do_not_depend_on_tasks(tmp_path, settings):
    found = []
    for number, tasks in enumerate((2, 7)):
        root = tmp_path / str(number)
        root.mkdir()
        chain = Chain(root, settings)
        for seed in range(3):
            chain.run(tasks=tasks, seed=seed, verify_fraction="0.2")
        made = chain.manifest
        order = sorted({part.checked for part in made.parts()})
        names = [(re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{8}", "", part.path), order.index(part.checked)) for part in made.files]
        found.append(sorted(names))
    assert found[0] == found[1]


def test_dataset_of_an_earlier_format_counts_as_never_checked(chain):
    path = chain.master / manifest.PATH
    data = path.read_bytes()
    earlier = dataclasses.replace(
        chain.manifest,
        copy=None,
        files=tuple(dataclasses.replace(part, checked=None) for part in chain.manifest.files),
        beside=tuple(dataclasses.replace(part, checked=None) for part in chain.manifest.beside),
    )
    path.write_bytes(manifest.dump(earlier))
    assert b"checked" in data
    assert b"checked" not in path.read_bytes()
    first = min(part.path for part in earlier.parts() if part.bytes)

    chain.run(verify_fraction="0.01")

    checked = {part.path: part.checked for part in chain.manifest.parts()}
    assert checked.get(first, chain.manifest.commit.committed) == chain.manifest.commit.committed
    assert None in checked.values(), "the others have not been checked yet"


def test_status_shows_the_oldest_check(tmp_path, monkeypatch):
    base = Place(tmp_path / "base", BY_FIELD)
    (base.path / "master" / "base.txt").write_text("".join(f"{key},1\n" for key in KEYS))
    assert base.status().target.oldest_check is None
    base.arrive("ups_1.txt", "k1,2,U")
    base.run()
    made = known(base.path / "master")
    base.arrive("ups_2.txt", "k1,3,U")
    base.run(verify_fraction="0")

    path, checked = base.status().target.oldest_check
    assert checked == made.commit.committed < known(base.path / "master").commit.committed
    assert path in {part.path for part in made.files}
    assert f"checked  longest ago: {checked}, {path}" in base.status().text()
    assert local_engine.verify(str(base.path / "master")).problems == ()
