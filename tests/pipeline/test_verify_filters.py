"""verify() compares the filters of keys with the keys of their files, with and without Spark."""

import io
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mutator.dataset import checksum, manifest
from mutator.dataset.filter_packs import read_filters, write_filters
from mutator.dataset.side_columns import read_tombstones
from mutator.engine.spark.spark_runner import SparkRunner
from mutator.pipeline.verify import verify
from mutator.rules.bloom_filter import filter_of, may_contain
from mutator.rules.key_hash import bucket_of
from tests.support import local_engine

SETTINGS = {
    "id.field.ordinals": "0",
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "3",
    "op.code.in.master": "false",
    "partitioned.by": "shop=2",
    "num.reducer": "2",
}


def put(path, *rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a dataset of three generations, whose files have filters in several packs."""
    root = tmp_path_factory.mktemp("made")
    put(root / "base" / "base.txt", *(f"k{n},1,s{n % 5}" for n in range(60)))
    put(root / "feed-1" / "f.txt", *(f"k{n},2,s{n % 5},D" for n in range(10)))
    put(root / "feed-2" / "f.txt", "k20,3,s1,U", "k21,3,s1,D")
    master = root / "base"
    for number in (1, 2):
        output = root / f"out-{number}"
        local_engine.mutate(SETTINGS, master=str(master), feed=[str(root / f"feed-{number}")], output=str(output))
        master = output
    return master


@pytest.fixture
def dataset(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "dataset"))


@pytest.fixture(
    params=[
        "loop",
        pytest.param("spark", marks=(pytest.mark.thorough(keep=0), pytest.mark.jvm, pytest.mark.xdist_group("spark"))),
    ]
)
def verified(request):
    """Return a function that verifies a dataset, with Spark or in a loop."""
    if request.param == "spark":
        runner = SparkRunner(request.getfixturevalue("sc"))
        return lambda path: verify(runner, str(path))
    return lambda path: local_engine.verify(str(path))


def known_of(directory):
    return manifest.parse((directory / manifest.PATH).read_bytes(), "")


def keys_of(directory, part):
    if part.path.startswith("_mutator/tombstones/"):
        with (directory / part.path).open("rb") as stream:
            return sorted(key[0].decode() for key, _, _ in read_tombstones(stream))
    return sorted(row.partition(",")[0] for row in (directory / part.path).read_text().split())


def hashes(keys):
    return np.array([bucket_of((key.encode(),), 1 << 64) for key in keys], np.uint64)


def forge(directory, part, change):
    """Change the filter of a file, and write a manifest that agrees with the pack. change: None leaves it out."""
    known = known_of(directory)
    path = directory / part.filter
    with path.open("rb") as stream:
        filters = list(read_filters(stream))
    stream = io.BytesIO()
    forged = [change(found) if found.path == part.path else found for found in filters]
    write_filters(stream, [found for found in forged if found is not None])
    path.chmod(0o644)
    path.write_bytes(stream.getvalue())
    digest = checksum.whole(stream.getvalue())
    beside = tuple(
        replace(side, bytes=len(stream.getvalue()), checksum=digest) if side.path == part.filter else side
        for side in known.beside
    )
    for name in (manifest.PATH, known.copy):
        (directory / name).write_bytes(manifest.dump(replace(known, beside=beside)))


def largest(directory, role):
    known = known_of(directory)
    parts = known.files if role == "data" else [part for part in known.beside if part.role == role]
    return max(parts, key=lambda part: (part.rows, part.path))


def test_whole_filters(verified, dataset):
    found = verified(dataset)

    assert found.problems == ()
    assert "one row per key, filters of keys" in found.text()
    assert len({part.filter for part in known_of(dataset).files}) > 2


@pytest.mark.parametrize("role", ["data", "tombstones"])
def test_filter_that_lacks_a_key(verified, dataset, role):
    part = largest(dataset, role)
    keys = keys_of(dataset, part)
    forge(dataset, part, lambda found: found._replace(words=filter_of(hashes(keys[1:]))))

    (problem,) = verified(dataset).problems
    assert problem == f"1 key of {part.path} missing from its filter in {part.filter}, for example {keys[0]}"


def test_spark_compares_the_filters_of_both_roles(sc, dataset):
    first = []
    for role in ("data", "tombstones"):
        part = largest(dataset, role)
        keys = keys_of(dataset, part)
        forge(dataset, part, lambda found, keys=keys: found._replace(words=filter_of(hashes(keys[1:]))))
        first.append(f"1 key of {part.path} missing from its filter in {part.filter}, for example {keys[0]}")

    assert sorted(verify(SparkRunner(sc), str(dataset)).problems) == sorted(first)


def test_filter_of_no_key(verified, dataset):
    part = largest(dataset, "data")
    keys = keys_of(dataset, part)
    forge(dataset, part, lambda found: found._replace(words=filter_of(hashes([]))))
    assert not may_contain(filter_of(hashes([])), hashes(keys)).any()

    (problem,) = verified(dataset).problems
    assert problem.startswith(f"{len(keys)} keys of {part.path} missing from its filter")


@pytest.mark.parametrize("bound", ["low", "high"])
def test_bounds_that_exclude_a_key(verified, dataset, bound):
    part = largest(dataset, "data")
    keys = keys_of(dataset, part)
    least, key = (keys[1], keys[0]) if bound == "low" else (keys[-2], keys[-1])
    forge(dataset, part, lambda found: found._replace(**{bound: least.encode()}))

    (problem,) = verified(dataset).problems
    assert problem == f"1 key of {part.path} missing from its filter in {part.filter}, for example {key}"


def test_unknown_highest_key_excludes_nothing(verified, dataset):
    part = largest(dataset, "data")
    forge(dataset, part, lambda found: found._replace(high=None))

    assert verified(dataset).problems == ()


def test_pack_without_the_filter_of_a_file(verified, dataset):
    part = largest(dataset, "data")
    forge(dataset, part, lambda found: None)

    (problem,) = verified(dataset).problems
    assert problem.startswith(f"{part.rows} keys of {part.path} missing from its filter")


@pytest.mark.parametrize("how", ["flipped", "missing"])
def test_damaged_pack_is_one_problem(verified, dataset, how):
    """The rows of its files are compared all the same."""
    part = largest(dataset, "data")
    pack = dataset / part.filter
    if how == "missing":
        pack.unlink()
    else:
        data = bytearray(pack.read_bytes())
        data[20] ^= 1
        pack.chmod(0o644)
        pack.write_bytes(data)

    (problem,) = verified(dataset).problems
    assert problem.startswith(f"{part.filter}: ")
