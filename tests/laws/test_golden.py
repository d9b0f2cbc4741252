"""Golden folders: each folder below ``golden/`` is a test, so adding one adds a test.

README                    why the case is there
config.properties         config-2.properties, … where a further run has others than the first
master/                   missing: there is no master
feed/                     missing: an empty directory; feed-2/, … are further runs, each on the output before it
expected/rows.txt         the rows of the (last) output, sorted by their bytes
expected/tombstones.txt   key<TAB>order value, sorted; missing: the output has none
report.json               every count of the (last) report that is not 0
joins.txt                 join and buckets of each run by the blocks engine with these settings; may be missing
error.txt                 in place of expected/ and report.json: the exit code, then a part of the message
"""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from mutator import config
from mutator.dataset import manifest
from mutator.dataset.side_columns import read_tombstones
from mutator.errors import MutatorError
from mutator.pipeline import merge
from tests.support import local_engine

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
# These settings affect only the speed, never the result.
SPEEDS = {
    "as it stands": (),
    "tiny splits": ("split.bytes=5", "num.reducer=7"),
    "one bucket": ("num.reducer=1",),
    "little memory": ("memory.bytes=20", "num.reducer=2"),
}
ENGINES = ("records", "blocks")
SPARK = ("split.bytes=1k", "num.reducer=2")


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tombstones_of(output):
    """Return the lines ``key<TAB>order value`` of an output's tombstones, sorted."""
    known = manifest.parse((output / manifest.PATH).read_bytes(), "manifest")
    lines = []
    for part in known.beside:
        if part.role == "tombstones":
            with (output / part.path).open("rb") as stream:
                lines += [b",".join(key) + b"\t" + (order or b"") for key, order, _ in read_tombstones(stream)]
    return sorted(lines)


def rows_of(output):
    return sorted(row for path in output.glob("part-*") for row in path.read_bytes().split(b"\n")[:-1])


def lines(path):
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def run_feeds(case, tmp_path, mutate, overrides):
    """Run each feed of a case on the output of the run before; return the last output and its report, or the error."""
    master = case / "master"
    joins = []
    for number, feed in enumerate([case / "feed", *sorted(case.glob("feed-*"))], 1):
        own = case / f"config-{number}.properties"
        settings = config.load(own if own.exists() else case / "config.properties", overrides)
        output = tmp_path / f"{case.name}-{number}"
        if not feed.exists():
            feed = tmp_path / f"{case.name}-empty"
            feed.mkdir()
        try:
            report = mutate(settings, master=str(master), feed=[str(feed)], output=str(output))
        except MutatorError as fault:
            return output, fault, joins
        master = output
        joins.append(f"{report.join} {report.buckets}".encode())
    return output, report, joins


def check_case(case, tmp_path, mutate, overrides=()):
    """Run a case and compare it with its expected files; return the join of each run."""
    before = contents(case)
    output, result, joins = run_feeds(case, tmp_path, mutate, overrides)
    if (case / "error.txt").exists():
        code, _, part = (case / "error.txt").read_text(encoding="utf-8").partition("\n")
        assert isinstance(result, MutatorError), "the run should have failed"
        assert result.exit_code == int(code)
        assert part.strip() in str(result)
        assert not output.exists()
        assert [path.name for path in tmp_path.iterdir() if ".mutator-" in path.name] == []
    else:
        assert not isinstance(result, MutatorError), str(result)
        assert rows_of(output) == lines(case / "expected" / "rows.txt")
        assert tombstones_of(output) == lines(case / "expected" / "tombstones.txt")
        counts = {name: count for name, count in result.counts.items() if count}
        assert counts == json.loads((case / "report.json").read_text())
    assert contents(case) == before
    return joins


def every_case():
    """Yield each case with each engine and with each speed; the soak run gets all other combinations."""
    for number, (case, speed) in enumerate(product(CASES, SPEEDS)):
        for turn, engine in enumerate(ENGINES):
            often = not SPEEDS[speed] or (number // len(SPEEDS) + number) % 2 == turn
            name = f"{case.name}-{speed}-{engine}"
            yield pytest.param(case, speed, engine, id=name, marks=() if often else pytest.mark.soak)


@pytest.mark.thorough(keep="as it stands")
@pytest.mark.parametrize(("case", "speed", "engine"), list(every_case()))
def test_golden(case, speed, engine, tmp_path):
    joins = check_case(case, tmp_path, partial(local_engine.mutate, engine=engine), SPEEDS[speed])
    if (case / "joins.txt").exists() and engine == "blocks" and not SPEEDS[speed]:
        assert joins == lines(case / "joins.txt")


# The cases with pinned joins exercise most of the code that only Spark runs.
FEW = [case for case in CASES if (case / "joins.txt").exists()]
SOME = [case for number, case in enumerate(CASES) if case in FEW or number % 6 == 0]


EACH_JOIN = [GOLDEN / "broadcast_then_buckets"]  # in three runs


@pytest.mark.thorough(keep="each join")
@pytest.mark.parametrize(
    "cases",
    [
        pytest.param(EACH_JOIN, id="each join"),
        pytest.param(SOME, id="some", marks=pytest.mark.soak),
        pytest.param(CASES, id="all", marks=pytest.mark.soak),
    ],
)
def test_cases_on_spark(sc, tmp_path, cases):
    """Run both engines at once, because a case spends most of its time waiting for plans and for fsync."""

    def check_all(engine):
        mutate, work = partial(merge.mutate, sc, engine=engine), tmp_path / engine
        work.mkdir()
        wrong = {}
        for case in cases:
            pinned = (case / "joins.txt").exists()
            try:
                joins = check_case(case, work, mutate, ("split.bytes=1k",) if pinned else SPARK)
                if pinned and engine == "blocks":
                    assert joins == lines(case / "joins.txt")
            except AssertionError as difference:
                wrong[case.name, engine] = str(difference)
        return wrong

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(check_all, ["records", "blocks"])) == [{}, {}]


def test_each_case_is_complete():
    for case in CASES:
        assert (case / "README").read_text(encoding="utf-8").strip(), case
        if (case / "error.txt").exists():
            assert not (case / "expected").exists(), case
            assert not (case / "report.json").exists(), case
        else:
            rows = lines(case / "expected" / "rows.txt")
            assert rows == sorted(rows), case
            assert len(rows) == json.loads((case / "report.json").read_text()).get("output rows", 0), case
