"""The memory of a task is bounded by its settings, not by its data: measured in child processes, without Spark.

Each process writes files and their map output in a child of its own, then reduces the child's output, streamed from
disk as Spark's sorter would do it, and prints by how much its memory peaked above its start.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import mutator
from tests.support.no_limits import NO_LIMITS
from tests.support.patience import PATIENCE

ROOT = Path(mutator.__file__).resolve().parent.parent
MB = 1 << 20


# -- code that runs in the child processes


def peak():
    """Return the peak resident memory of this process in bytes; getrusage would include the parent's."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def write_rows(path, first, count, keys, width, columns, order):
    """Write ``count`` rows of about ``width`` bytes, with keys numbered from ``first`` modulo ``keys``."""
    tail = ",".join(["x" * max((width - 20) // (columns - 2) - 1, 1)] * (columns - 2))
    with open(path, "w") as file:
        for start in range(first, first + count, 1000):
            stop = min(start + 1000, first + count)
            file.writelines(f"{n * 2654435761 % keys:09d},{order + n},{tail}\n" for n in range(start, stop))


def make(work, case):
    """Write master and feed, and the sorted map output of the run over them; return the plan and the map's peak."""
    from mutator.config import parse
    from mutator.engine.blocks.read_blocks import ROWS, RUN, TOMBSTONES, read_runs
    from mutator.plan.inspect.survey import survey_inputs
    from mutator.plan.run_plan import make_plan
    from tests.support import local_engine

    columns, width = case.get("columns", 4), case["width"]
    (work / "master").mkdir()
    (work / "feed").mkdir()
    write_rows(work / "master" / "m.txt", 0, case["master"], case["keys"], width, columns, 0)
    for n in range(case.get("files", 1)):
        count = case["feed"] // case.get("files", 1)
        write_rows(work / "feed" / f"f{n}.txt", n * count, count, case["feed_keys"], width, columns, 10**6)
    settings = {
        "id.field.ordinals": "0",
        "temporal.ordering.field.ordinal": "1",
        "num.reducer": "1",
        "memory.bytes": str(case["memory"]),
        **NO_LIMITS,
    }
    master = str(work / "master")
    if case["managed"]:
        (work / "none").mkdir()
        local_engine.mutate({**settings, "memory.bytes": "1GB"}, master=master, feed=[str(work / "none")],
                            output=str(work / "managed"))  # fmt: skip
        master = str(work / "managed")
    config = parse(settings)
    plan = make_plan(config, survey_inputs(config, master, [str(work / "feed")]), "20260101T000000Z-00000000", 1)
    assert plan.strategy.join == ("aligned" if case["managed"] else "shuffle")
    before = peak() if not case["managed"] else None
    with ExitStack() as stack:
        streams = {
            role: stack.enter_context((work / f"elements-{role}").open("wb")) for role in (RUN, ROWS, TOMBSTONES)
        }
        for task in plan.tasks:
            for place, value in read_runs(plan, task):
                if place[0] == 0:
                    pickle.dump((place, value), streams[place[2]])
    (work / "plan").write_bytes(pickle.dumps((plan, None if before is None else peak() - before)))


def streamed(work):
    for role in range(3):
        with (work / f"elements-{role}").open("rb") as file:
            end = os.fstat(file.fileno()).st_size
            while file.tell() < end:
                yield pickle.load(file)


def reduce(work):
    from mutator.engine.blocks.merge_bucket import write_group
    from mutator.formats.blocks.block_types import load_all

    import_module("mutator.engine.spark.daemon")  # load the modules that every worker has loaded before its first task
    load_all()
    child = os.fork()  # its allocations do not count for this process
    if not child:
        status = 1
        try:
            make(work, json.loads((work / "case").read_text()))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    plan, mapped = pickle.loads((work / "plan").read_bytes())
    for name in ("order", "tombstones", "rejected"):
        (work / "staging" / "_mutator" / name).mkdir(parents=True)
    before = peak()
    receipt = write_group(plan, str(work / "staging"), 0, 0, streamed(work))
    assert not receipt.damage, receipt
    data = sum(path.stat().st_size for path in work.glob("elements-*"))
    data += sum(
        source.source.bytes for source in plan.inputs if source.side == "master" and plan.strategy.join == "aligned"
    )
    return {"reduce": peak() - before, "map": mapped, "data": data, "counts": receipt.counts}


# -- the tests


def measured(**case):
    with TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "case").write_text(json.dumps(case))
        scratch = work / "scratch"
        scratch.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.engine.test_memory", directory],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "SPARK_LOCAL_DIRS": str(scratch), "OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert list(scratch.iterdir()) == []
    measured_run = json.loads(done.stdout)
    shown = {
        name: f"{measured_run[name] / MB:.0f}" for name in ("reduce", "map", "data") if measured_run[name] is not None
    }
    print(shown, {name: count for name, count in measured_run["counts"].items() if count})  # noqa: T201  # with -s
    return measured_run


JOINS = pytest.mark.parametrize("managed", [False, True], ids=["shuffle", "aligned"])
# The bounds are one and a half times the measured values. About 50 MB of each is the minimum for one block, its columns
# and the allocator (``engine.malloc`` keeps freed memory).
CASES = {
    "one key": ({"master": 1000, "feed": 300_000, "feed_keys": 1, "files": 30, "width": 24, "memory": 4 * MB}, 50),
    "inserts of 1 MB": ({"master": 10, "feed": 100, "feed_keys": 100, "width": MB, "memory": 8 * MB}, 140),
    "updates of 1 MB": ({"master": 100, "feed": 100, "feed_keys": 100, "width": MB, "memory": 8 * MB}, 170),
    "200 columns": (
        {"master": 20_000, "feed": 20_000, "feed_keys": 30_000, "columns": 200, "width": 1000, "memory": 4 * MB},
        90,
    ),
    "a feed larger than its master": (
        {"master": 20_000, "feed": 300_000, "feed_keys": 300_000, "files": 8, "width": 100, "memory": 2 * MB},
        75,
    ),
    "inserts in several parts": (
        {"master": 250_000, "feed": 1_000_000, "feed_keys": 1_000_000, "width": 45, "memory": 64 * MB},
        290,
    ),
    "updates in several parts": (
        {"master": 250_000, "feed": 1_000_000, "feed_keys": 250_000, "width": 45, "memory": 64 * MB},
        300,
    ),
    "one large bucket": (
        {"master": 300_000, "feed": 30_000, "feed_keys": 300_000, "width": 60, "memory": 4 * MB},
        80,
    ),
    "duplicates": (
        {"master": 400_000, "keys": 200_000, "feed": 1000, "feed_keys": 1000, "width": 60, "memory": 2 * MB},
        70,
    ),
}


@pytest.mark.processes
@pytest.mark.thorough(keep=0, rest=2)
@JOINS
@pytest.mark.parametrize("name", CASES)
def test_a_task_stays_within_its_memory(name, managed):
    case, most = CASES[name]
    measured_run = measured(**{"keys": case["master"], **case}, managed=managed)
    assert measured_run["counts"]["output rows"] >= case.get("keys", case["master"])
    assert measured_run["reduce"] < most * MB
    if measured_run["map"] is not None:
        assert measured_run["map"] < 120 * MB


_FREED = """
import numpy as np, pyarrow as pa
from mutator.engine.malloc import keep_freed_memory, release_freed_memory
from tests.engine.test_memory import resident

def allocated():
    ones = np.ones(1 << 17)  # 1 MB
    return ones, pa.array(ones).take(pa.array(np.arange(1 << 17)))

if keep_freed_memory():
    allocated()  # Arrow loads modules at its first call
    before = resident()
    arrays = [allocated() for _ in range(100)]
    used = resident() - before
    last = arrays.pop()  # lies behind the others, which glibc alone would keep
    del arrays
    release_freed_memory(used)
    print(pa.default_memory_pool().backend_name, used, resident() - before)
"""


def resident():
    """Return the resident memory of this process in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


@pytest.mark.processes
def test_freed_memory_goes_back_to_the_system():
    """Arrow shares the allocator of numpy."""
    env = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run([sys.executable, "-c", _FREED], cwd=ROOT, capture_output=True, text=True, check=True, env=env)
    name, used, left = done.stdout.split()
    assert name == "system"
    assert int(used) > 180 * MB
    assert int(left) < 20 * MB


LARGE = {
    "one key": {"master": 1000, "feed": 1_000_000, "feed_keys": 1, "files": 100, "width": 24, "memory": 4 * MB},
    "inserts of 1 MB": {"master": 10, "feed": 300, "feed_keys": 300, "width": MB, "memory": 16 * MB},
    "updates of 1 MB": {"master": 300, "feed": 300, "feed_keys": 300, "width": MB, "memory": 16 * MB},
    "200 columns": {
        "master": 50_000, "feed": 100_000, "feed_keys": 150_000, "columns": 200, "width": 1000, "memory": 16 * MB
    },
    "a feed larger than its master": {
        "master": 50_000, "feed": 600_000, "feed_keys": 600_000, "files": 8, "width": 200, "memory": 8 * MB
    },
    "one large bucket": {"master": 800_000, "feed": 80_000, "feed_keys": 800_000, "width": 200, "memory": 8 * MB},
    "duplicates": {
        "master": 800_000, "keys": 400_000, "feed": 1000, "feed_keys": 1000, "width": 200, "memory": 8 * MB
    },
}  # fmt: skip


@pytest.mark.soak
@JOINS
@pytest.mark.parametrize("name", LARGE)
def test_four_times_the_data_does_not_take_four_times_the_memory(name, managed):
    case = {"keys": LARGE[name]["master"], **LARGE[name]}
    rows = ("master", "feed", "keys", "feed_keys")
    more = {**case, **{key: case[key] * 4 for key in rows if not (name == "one key" and key == "feed_keys")}}
    small, large = measured(**case, managed=managed), measured(**more, managed=managed)
    assert large["reduce"] - small["reduce"] < max((large["data"] - small["data"]) / 4, 40 * MB)


if __name__ == "__main__":
    print(json.dumps(reduce(Path(sys.argv[1]))))  # noqa: T201
