"""Managed masters and a feed with each sort of row, for runs that are killed or lose rows, and checks of these runs."""

import shutil
from itertools import count, islice
from pathlib import Path

import pytest

from mutator.dataset import checksum, manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.rules.key_hash import bucket_of
from tests.support import local_engine
from tests.support.changed_rows import changed_rows, counted, reported
from tests.support.failpoints import FAILPOINTS

SETTINGS = {
    "id.field.ordinals": "0",
    "deleted.record.file.prefix": "del",
    "num.reducer": "4",
    "reject.policy": "quarantine",
    "split.bytes": "250",  # several tasks on either side
    "changes": "true",
}
# Each way to merge: its master, its settings, and its engine.
JOINS = {
    "records": ("managed", {}, "records"),
    "aligned": ("managed", {}, "blocks"),
    "shuffle": ("managed", {"num.reducer": "3"}, "blocks"),  # 4 buckets cannot become 3 in place
    "broadcast": ("flat", {"master.unique": "true"}, "blocks"),
}
TASK_POINTS = [name for name in FAILPOINTS if name.startswith("task.")]
# After these failpoints the output exists; before them, it does not.
VISIBLE_FROM = FAILPOINTS.index("publish.renamed")
QUIET_BUCKET = 3  # of four; the second feed has no rows for it
# IDs in the other buckets, and IDs in the quiet one.
K = list(islice((key for key in (f"k{n}" for n in count()) if bucket_of((key.encode(),), 4) != QUIET_BUCKET), 100))
Q = list(islice((key for key in (f"q{n}" for n in count()) if bucket_of((key.encode(),), 4) == QUIET_BUCKET), 10))


def passes(join):
    """Return the failpoints that a run of this join passes."""
    return [point for point in FAILPOINTS if point != "task.carried" or join == "aligned"]


every_join = pytest.mark.parametrize("join", JOINS)
every_point = pytest.mark.parametrize(("join", "point"), [(join, point) for join in JOINS for point in passes(join)])


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture(scope="module", name="places")
def new_places(tmp_path_factory):
    """Write masters with tombstones, and a feed with each kind of mutation: a run passes every failpoint."""
    root = tmp_path_factory.mktemp("places")
    write(root / "base" / "base_1.txt", [f"{key},{key}" for key in (*K[:30], *Q)])
    write(root / "first" / "ups_2.txt", [f"{key},second" for key in (*K[25:35], *Q[7:])])
    write(root / "first" / "del_3.txt", [f"{key},x" for key in (*K[:6], *Q[:2])])
    for master, more in (("managed", {}), ("flat", {"master.unique": "true"})):
        local_engine.mutate(
            SETTINGS | more, master=f"{root}/base", feed=[f"{root}/first"], output=f"{root}/{master}", engine="blocks"
        )
    write(root / "feed" / "ups_4.txt", [f"{key},fourth" for key in (*K[4:12], *K[40:46])])
    write(root / "feed" / "ups_5.txt", [f"{K[10]},fifth", f"{K[11]},fifth", "broken", f"{K[41]},1,2"])
    write(root / "feed" / "del_6.txt", [f"{key},x" for key in (K[12], K[13], K[99])])
    return root


EXPECTED = sorted(
    [f"{key},{key}" for key in (*K[14:25], *Q[2:7])]
    + [f"{key},second" for key in (*K[25:35], *Q[7:])]
    + [f"{key},fourth" for key in (*K[4:10], *K[40:46])]
    + [f"{key},fifth" for key in K[10:12]]
)


def call_of(join, places, output):
    """Return the arguments of a run."""
    master, settings, engine = JOINS[join]
    inputs = {"master": f"{places}/{master}", "feed": [f"{places}/feed"]}
    return {"config": SETTINGS | settings, **inputs, "output": str(output), "engine": engine}


@pytest.fixture(autouse=True)
def inputs_stay(places):
    """Check after each test that the inputs are unchanged, byte for byte, even if they were linked."""
    before = contents(places)
    times = {path: path.stat().st_mtime_ns for path in places.rglob("part-*")}
    yield
    assert contents(places) == before
    assert {path: path.stat().st_mtime_ns for path in places.rglob("part-*")} == times


def contents(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in Path(directory).rglob("*")
        if path.is_file()
    }


def manifest_of(output):
    return manifest.parse(Path(output, manifest.PATH).read_bytes(), str(output))


def check_whole(output):
    """Check that an output has the expected rows and exactly the files of its manifest."""
    made, found = manifest_of(output), contents(output)
    assert set(found) == {part.path for part in made.parts()} | {manifest.PATH, made.copy, SUCCESS}
    for part in made.parts():
        assert part.bytes == len(found[part.path]), part.path
        chunk = checksum.chunk_of(part.checksum)
        assert part.checksum == checksum.of_blocks([found[part.path]], chunk), part.path
    rows = [row for part in made.files for row in found[part.path].decode().splitlines()]
    assert sorted(rows) == EXPECTED
    assert made.commit.counts["output rows"] == sum(part.rows for part in made.files) == len(EXPECTED)
    assert made.commit.counts["tombstones out"] == 9  # 8, minus 2 that were revived, plus 3
    assert made.commit.counts["feed rejected"] == 2
    assert counted(changed_rows(output)) == reported(made.commit.counts)


def quiet_files(places, output):
    """Return the files of the carried bucket: of the master, and of the output."""
    parts = [part for part in manifest_of(places / "managed").parts() if part.bucket == QUIET_BUCKET]
    return [(places / "managed" / part.path, Path(output) / part.path) for part in parts]


def check_next_run(join, places, output, killed_at):
    """Check that the output is absent or whole, and that the next run reports and removes the litter and succeeds."""
    beside = Path(output).parent
    left = sorted(beside.iterdir())
    if FAILPOINTS.index(killed_at) >= VISIBLE_FROM:
        assert left == [Path(output)]
        check_whole(output)
        shutil.rmtree(output)
        left = []
    else:
        assert len(left) == (FAILPOINTS.index(killed_at) >= FAILPOINTS.index("stage.created"))
        assert all(path.name.startswith(".out.mutator-") for path in left)  # a hidden name

    report = local_engine.mutate(**call_of(join, places, output))

    assert report.litter == tuple(map(str, left))
    assert all(path.name in report.text() for path in left)
    assert list(beside.iterdir()) == [Path(output)]
    check_whole(output)
