"""verify() on clean and on damaged datasets: every difference is found and named.

One dataset is damaged and restored many times. Most of the tests read it back without Spark, which is fast: ``plain``
replaces the shuffle with a loop. A few cases of each role go through Spark as well.
"""

import io
import json
import os
import random
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from mutator import cli
from mutator.dataset import checksum, manifest
from mutator.dataset.commit.staging import SUCCESS
from mutator.dataset.side_columns import read_sides, write_sides
from mutator.engine.spark.spark_runner import SparkRunner
from mutator.errors import StateError
from mutator.pipeline.verify import verify
from mutator.rules.key_hash import bucket_of
from mutator.rules.order_columns import SEQUENCE, SEQUENCES
from tests.support import local_engine
from tests.support.effort import share

FLIPS = share(60)  # a file
SETTINGS = {"id.field.ordinals": "0", "num.reducer": "2", "reject.policy": "quarantine"}
BY_FIELD = SETTINGS | {
    "temporal.ordering.field.ordinal": "1",
    "op.code.field.ordinal": "2",
    "op.code.in.master": "false",
}
BY_FILE_NAME = SETTINGS | {"deleted.record.file.prefix": "del"}


def write(path, rows):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows))


@pytest.fixture(scope="module", params=["records", "blocks"])
def made(request, tmp_path_factory):
    """Yield two datasets of two generations, with rejects and tombstones; one has the sequence of each row."""
    root = tmp_path_factory.mktemp("made")
    write(root / "base" / "base_1.txt", [f"k{n},1" for n in range(60)])
    write(root / "field-1" / "feed.txt", [f"k{n},2,{'D' if n < 8 else 'U'}" for n in range(12)])
    write(root / "field-2" / "feed.txt", [*(f"k{n},3,{'D' if n < 64 else 'U'}" for n in range(58, 80)), "broken"])
    write(root / "name-1" / "ups_2.txt", [f"k{n},two" for n in range(50, 70)])
    write(root / "name-1" / "del_3.txt", [f"k{n},x" for n in range(8)])
    write(root / "name-2" / "ups_4.txt", [*(f"k{n},four" for n in range(6, 12)), "broken"])
    for dataset, settings in (("field", BY_FIELD), ("name", BY_FILE_NAME)):
        master = f"{root}/base"
        for number in (1, 2):
            output = f"{root}/{dataset}-out-{number}"
            feed = [f"{root}/{dataset}-{number}"]
            local_engine.mutate(settings, master=master, feed=feed, output=output, engine=request.param)
            master = output
    return {"field": Path(f"{root}/field-out-2"), "name": Path(f"{root}/name-out-2")}


@pytest.fixture(params=["field", "name"])
def clean(request, made):
    """Return a dataset that tests must not change."""
    return made[request.param]


@pytest.fixture
def copy(made, tmp_path):
    """Return a dataset, ordered by a field, that tests may change."""
    return Path(shutil.copytree(made["field"], tmp_path / "copy"))


@pytest.fixture
def plain():
    """Verify without Spark."""
    return lambda path: local_engine.verify(str(path))


def files(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def one_file_per_role(directory):
    """Return one file of each role."""
    found = {}
    for path in files(directory):
        found.setdefault(re.sub(r"-.*", "-", path.split("/")[1] if "/" in path else path), path)
    return list(found.values())


@contextmanager
def changed(path, data):
    """Replace the bytes of a file temporarily."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(before)


def flipped(data, bit):
    damaged = bytearray(data)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def findings(check, directory):
    """Return the problems; an unusable manifest is one of them."""
    try:
        return check(directory).problems
    except StateError as fault:
        return (str(fault),)


# --- clean ---


def test_clean_dataset_has_no_problems(plain, clean):
    found = plain(clean)

    known = manifest.parse((clean / manifest.PATH).read_bytes(), "")
    assert found.problems == ()
    assert (found.files, found.rows) == (2, known.commit.counts["output rows"])
    assert found.tombstones == known.commit.counts["tombstones out"] > 0
    assert found.bytes == sum(path.stat().st_size for path in clean.glob("part-*"))
    assert "as its manifest says" in found.text()
    assert (
        len(one_file_per_role(clean)) == {"field": 6, "name": 7}[clean.name.split("-")[0]]
    )  # with rejects and tombstones


@pytest.mark.thorough(keep=0)
def test_loop_agrees_with_spark(sc, plain, clean):
    assert verify(SparkRunner(sc), str(clean)) == plain(clean)


def test_dataset_without_rows(plain, tmp_path):
    (tmp_path / "base").mkdir()
    write(tmp_path / "feed" / "feed.txt", [])
    settings = {**BY_FIELD, "allow.empty.master": "true"}
    local_engine.mutate(settings, master=f"{tmp_path}/base", feed=[f"{tmp_path}/feed"], output=f"{tmp_path}/out")

    assert plain(tmp_path / "out").problems == ()


def test_path_with_a_link_and_a_trailing_slash(plain, made, tmp_path):
    os.symlink(made["field"], tmp_path / "link")

    assert plain(f"{tmp_path}/link/").problems == ()


# --- bits and bytes ---


@pytest.mark.law
@pytest.mark.thorough(keep=1, rest=2)
def test_each_flipped_bit_is_found(plain, clean):
    chosen = random.Random(7)
    for name in files(clean):
        path = clean / name
        data = path.read_bytes()
        if not data:
            continue  # _SUCCESS
        for bit in chosen.sample(range(len(data) * 8), FLIPS):
            with changed(path, flipped(data, bit)):
                problems = findings(plain, clean)
            assert any(name in problem for problem in problems), f"{name}, bit {bit}: {problems}"
    assert plain(clean).problems == ()


@pytest.mark.thorough(keep=1)
def test_each_truncation_is_found(plain, clean):
    chosen = random.Random(8)
    for name in files(clean):
        path = clean / name
        data = path.read_bytes()
        for end in sorted({0, len(data) // 2, len(data) - 1, *(chosen.randrange(len(data) or 1) for _ in range(5))}):
            if 0 <= end < len(data):
                with changed(path, data[:end]):
                    problems = findings(plain, clean)
                assert any(name in problem for problem in problems), f"{name}, {end} bytes: {problems}"


@pytest.mark.thorough(keep="blocks")
def test_each_file_that_grew_is_found(plain, clean):
    for name in files(clean):
        path = clean / name
        for more in (b"\n", b"\0", b"k999,9\n"):
            with changed(path, path.read_bytes() + more):
                problems = findings(plain, clean)
            assert any(name in problem for problem in problems), f"{name}: {problems}"


@pytest.mark.thorough(keep="blocks")
def test_each_missing_file_is_found(plain, clean):
    for name in files(clean):
        path = clean / name
        path.rename(clean.parent / "away")
        try:
            problems = findings(plain, clean)
        finally:
            (clean.parent / "away").rename(path)
        assert any(name in problem and "missing" in problem for problem in problems), f"{name}: {problems}"


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("how", ["flipped", "truncated"])
def test_spark_names_each_of_many_damaged_files(sc, copy, how):
    """A file of each role is damaged but the manifest, without which there is nothing to compare."""
    names = [name for name in one_file_per_role(copy) if name != manifest.PATH and (copy / name).stat().st_size]
    for name in names:
        data = (copy / name).read_bytes()
        (copy / name).write_bytes(flipped(data, len(data) * 4) if how == "flipped" else data[: len(data) // 2])

    problems = verify(SparkRunner(sc), str(copy)).problems

    assert len(names) == 4
    assert [name for name in names if not any(name in problem for problem in problems)] == [], problems


@pytest.mark.thorough(keep=0, rest=2)
def test_spark_finds_them_too(sc, clean):
    """Test one flipped bit and one truncation in a file of each role; none may surface as an error of Spark."""
    chosen = random.Random(9)
    for name in one_file_per_role(clean):
        path = clean / name
        data = path.read_bytes()
        damages = [flipped(data, chosen.randrange(len(data) * 8)), data[: len(data) // 2]] if data else [b"x"]
        for damage in damages:
            with changed(path, damage):
                problems = findings(lambda place: verify(SparkRunner(sc), str(place)), clean)
            assert any(name in problem for problem in problems), f"{name}: {problems}"


@pytest.mark.thorough(keep="blocks")
@pytest.mark.parametrize(
    "name",
    [
        "part-9.txt",
        ".part-00000-x.txt.1f2e",
        "a b;c#d",
        "_mutator/odd",
        "_mutator/order/part-9.parquet",
        "sub/part-9.txt",
    ],
)
def test_added_file_is_found(plain, copy, name):
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_bytes(b"k999,9\n")

    assert plain(copy).problems == (f"{name}: is not in the manifest",)


def test_file_that_became_something_else_is_found(plain, copy):
    first, second = sorted(copy.glob("part-*"))
    first.rename(copy.parent / "real")
    first.symlink_to(copy.parent / "real")
    second.unlink()
    os.mkfifo(second)

    assert plain(copy).problems == (
        f"{first.name}: is a symbolic link, not a file",
        f"{second.name}: is a FIFO, not a file",
    )


@pytest.mark.thorough(keep="blocks")
@pytest.mark.parametrize("text", [b"", b"[]", b"1", b"null", b"{}", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_malformed_manifest_is_damage(plain, copy, text):
    (copy / manifest.PATH).write_bytes(text)

    with pytest.raises(StateError, match=r"manifest\.json") as caught:
        plain(copy)
    assert caught.value.kind == "manifest.damaged"


def test_manifest_whose_members_were_moved_is_damaged(plain, copy):
    """The values are the same, but no tool may reformat a manifest."""
    path = copy / manifest.PATH
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))

    with pytest.raises(StateError, match="checksum"):
        plain(copy)


def test_manifest_of_a_later_version_is_named(plain, copy):
    path = copy / manifest.PATH
    later = manifest.FORMAT_VERSION + 1
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"version": 6', b'"version": %d' % later, 1))

    with pytest.raises(StateError, match=f"format version {later}") as caught:
        plain(copy)
    assert caught.value.kind == "manifest.newer"


# --- forgeries: the manifest agrees with the bytes, but the rows are wrong ---


def known_of(directory):
    return manifest.parse((directory / manifest.PATH).read_bytes(), "")


def write_manifest(directory, known):
    """Write a manifest and its copy."""
    for name in (manifest.PATH, known.copy):
        (directory / name).write_bytes(manifest.dump(known))


def rewrite(directory, contents):
    """Replace the rows of data files, and write a manifest that agrees with them."""
    known = known_of(directory)
    parts = []
    for part in known.files:
        if part.path in contents:
            rows = contents[part.path]
            data = b"".join(row + b"\n" for row in rows)
            (directory / part.path).write_bytes(data)
            part = replace(part, rows=len(rows), bytes=len(data), checksum=checksum.whole(data))
        parts.append(part)
    write_manifest(directory, replace(known, files=tuple(parts)))


def rows_of(directory):
    return {part.path: (directory / part.path).read_bytes().splitlines() for part in known_of(directory).files}


def test_rewritten_manifest_is_consistent(plain, copy):
    """Otherwise the next tests would find only wrong checksums."""
    rewrite(copy, {path: list(reversed(rows)) for path, rows in rows_of(copy).items()})

    assert plain(copy).problems == ()


@pytest.mark.parametrize("row", ["the same", "another"])
def test_two_rows_of_a_key_are_found(plain, copy, row):
    rows = rows_of(copy)
    first = next(iter(rows.values()))
    key = first[3].split(b",")[0]
    first.append(first[3] if row == "the same" else key + b",77")
    rewrite(copy, rows)

    assert plain(copy).problems == (f"1 key with more than one row, for example {key.decode()}",)


def test_row_in_the_file_of_another_bucket_is_found(plain, copy):
    rows = rows_of(copy)
    first, second = rows.values()
    row = first.pop(2)
    second.append(row)
    rewrite(copy, rows)

    key = row.split(b",")[0].decode()
    assert plain(copy).problems == (f"1 record in the file of another bucket, for example {key}",)


def test_row_beside_its_tombstone_is_found(plain, copy):
    rows = rows_of(copy)
    by_bucket = {part.bucket: part.path for part in known_of(copy).files}
    rows[by_bucket[bucket_of((b"k0",), 2)]].append(b"k0,9")  # deleted in the first generation
    rewrite(copy, rows)

    assert plain(copy).problems == ("1 key with both a row and a tombstone, for example k0",)


def test_two_tombstones_of_a_key_are_found(plain, copy):
    known = known_of(copy)
    one = next(part for part in known.beside if part.role == "tombstones")
    twin = replace(one, path=one.path.replace("part-", "part-9"))
    shutil.copy(copy / one.path, copy / twin.path)
    write_manifest(copy, replace(known, beside=(*known.beside, twin)))

    (problem,) = plain(copy).problems
    assert problem.startswith(f"{one.rows} keys with more than one tombstone, for example k")


@pytest.mark.thorough(keep="blocks")
@pytest.mark.parametrize("row", [b"k999", b"k999,9,extra", b"k999,not a number", b"k999,"])
def test_row_that_is_not_a_record_is_found(plain, copy, row):
    rows = rows_of(copy)
    path, first = next(iter(rows.items()))
    first.insert(4, row)
    rewrite(copy, rows)

    count, problem = plain(copy).problems
    assert count == f"{path}: has 1 row that cannot be read as records"
    assert problem.startswith(f"{path}: line 5, byte ")


@pytest.mark.thorough(keep="blocks")
@pytest.mark.parametrize("wrong", ["rows", "bytes", "checksum", "tombstones"])
def test_wrong_receipt_is_found(plain, copy, wrong):
    known = known_of(copy)
    if wrong == "tombstones":
        number = next(n for n, part in enumerate(known.beside) if part.role == "tombstones")
        beside = list(known.beside)
        beside[number] = replace(beside[number], rows=beside[number].rows + 1)
        part, known = beside[number], replace(known, beside=tuple(beside))
    else:
        part = known.files[1]
        lies = {"rows": part.rows + 1, "bytes": part.bytes + 1, "checksum": checksum.whole(b"")}
        part = replace(part, **{wrong: lies[wrong]})
        known = replace(known, files=(known.files[0], part))
    write_manifest(copy, known)

    (problem,) = plain(copy).problems
    assert problem.startswith(f"{part.path}: ")


def test_lost_row_whose_sequence_remains_is_found(plain, made, tmp_path):
    copy = Path(shutil.copytree(made["name"], tmp_path / "copy"))
    rows = rows_of(copy)
    path, first = next(iter(rows.items()))
    first.pop()
    rewrite(copy, rows)

    assert any(path in problem and "fewer rows" in problem for problem in plain(copy).problems)


def test_tombstones_of_another_bucket_are_found(plain, copy):
    """A run would not meet them, and bring deleted records back."""
    known = known_of(copy)
    beside = [replace(one, bucket=1 - one.bucket) if one.role == "tombstones" else one for one in known.beside]
    write_manifest(copy, replace(known, beside=tuple(beside)))
    count = sum(one.rows for one in beside if one.role == "tombstones")

    (problem,) = plain(copy).problems
    assert problem.startswith(f"{count} tombstone")
    assert "in the file of another bucket, for example " in problem


def test_file_without_a_bucket_among_buckets_is_found(plain, copy):
    """A run could not know which bucket to merge it with."""
    known = known_of(copy)
    files = (replace(known.files[0], bucket=None), *known.files[1:])
    write_manifest(copy, replace(known, files=files))

    assert any("another bucket" in problem for problem in plain(copy).problems)


@pytest.mark.thorough(keep="blocks")
@pytest.mark.parametrize("buckets", [1, 3, 4])
def test_another_number_of_buckets_is_found(plain, copy, buckets):
    known = known_of(copy)
    write_manifest(copy, replace(known, commit=replace(known.commit, buckets=buckets)))

    assert any("another bucket" in problem for problem in plain(copy).problems)


# --- the output of each join ---

# The master of the run, and its settings.
JOINS = {
    "aligned": ("name-out-1", {}),
    "aligned, twice the buckets": ("name-out-1", {"num.reducer": "4"}),
    "shuffle": ("name-out-1", {"num.reducer": "3"}),
    "broadcast": ("base", {"master.unique": "true"}),
}


@pytest.fixture(params=JOINS)
def joined(request, made, tmp_path):
    """Return the output of a join: several files, with tombstones and sequences."""
    root = made["name"].parent
    master, settings = JOINS[request.param]
    settings = BY_FILE_NAME | settings
    if master == "base":
        shutil.copytree(root / "base", tmp_path / "base")
        write(tmp_path / "base" / "more_1.txt", [f"m{n},1" for n in range(20)])
    report = local_engine.mutate(
        settings | {"split.bytes": "300"},
        master=str(tmp_path / "base" if master == "base" else root / master),
        feed=[str(root / "name-2"), str(root / "name-1" / "del_3.txt")],
        output=str(tmp_path / "joined"),
        engine="blocks",
    )
    assert report.join == request.param.partition(",")[0]
    return tmp_path / "joined"


@pytest.mark.thorough(keep="blocks")
def test_output_of_each_join_is_clean(plain, joined):
    found, known = plain(joined), known_of(joined)

    assert found.problems == ()
    assert found.files >= 2
    assert found.tombstones > 0
    assert (
        (known.bucket_count is None) == (known.commit.hash == "") == all(part.bucket is None for part in known.parts())
    )


@pytest.mark.thorough(keep="blocks")
def test_forged_output_of_each_join_is_found(plain, joined):
    """Each forgery has a manifest that agrees with the bytes."""
    known, rows = known_of(joined), rows_of(joined)
    seal, contents = (joined / manifest.PATH).read_bytes(), {path: (joined / path).read_bytes() for path in rows}
    first, second = list(rows)[:2]
    key = rows[first][1].split(b",")[0].decode()

    def problems(changed_rows):
        rewrite(joined, {**rows, **changed_rows})
        found = plain(joined).problems
        for path, content in contents.items():
            (joined / path).write_bytes(content)
        for name in (manifest.PATH, known.copy):
            (joined / name).write_bytes(seal)
        return "\n".join(found)

    doubled = f"1 key with more than one row, for example {key}"
    assert doubled in problems({first: [*rows[first][1:], rows[first][1]]})  # as many rows as sequences
    moved = {first: [rows[second][0], *rows[first][1:]], second: [rows[first][0], *rows[second][1:]]}
    assert ("2 records in the file of another bucket" in problems(moved)) == (known.bucket_count is not None)
    lost = problems({first: rows[first][:-1]})
    assert "fewer rows than its side file" in lost
    tombstone = b"k0,1"  # deleted by the first feed
    by_bucket = {part.bucket: part.path for part in known.files}
    place = first if known.bucket_count is None else by_bucket[bucket_of((b"k0",), known.bucket_count)]
    assert "1 key with both a row and a tombstone, for example k0" in problems({place: [tombstone, *rows[place][1:]]})
    files = (replace(known.files[0], rows=known.files[0].rows + 1), *known.files[1:])
    write_manifest(joined, replace(known, files=files))
    assert (
        f"{first}: has {known.files[0].rows} rows and should have {known.files[0].rows + 1}" in plain(joined).problems
    )


def test_only_verify_finds_damage_in_a_carried_file(plain, made, tmp_path):
    """A run reads no bucket without mutations that is not due for a check, so its output has the damage, too."""
    master = Path(shutil.copytree(made["name"], tmp_path / "master"))
    quiet = next(part for part in known_of(master).files if part.bucket != bucket_of((b"k60",), 2))
    (tmp_path / "feed").mkdir()
    write(tmp_path / "feed" / "ups_9.txt", ["k60,nine"])
    (master / quiet.path).write_bytes(flipped((master / quiet.path).read_bytes(), 13))
    places = {"master": str(master), "feed": [f"{tmp_path}/feed"]}

    unchecked = BY_FILE_NAME | {"verify.fraction": "0"}
    report = local_engine.mutate(unchecked, **places, output=f"{tmp_path}/out", engine="blocks")

    assert (report.join, report.counts["output rows"]) == ("aligned", sum(part.rows for part in known_of(master).files))
    for directory in (master, tmp_path / "out"):
        assert any(f"{quiet.path}: its checksum is" in problem for problem in plain(directory).problems)
    with pytest.raises(StateError, match="the master's file is damaged"):
        local_engine.mutate(
            BY_FILE_NAME, **places, output=f"{tmp_path}/other", engine="records"
        )  # this engine reads everything


# --- a run does not trust its master, either ---


def next_run(made, dataset, master, output, engine="auto"):
    feed = made[dataset].parent / f"{dataset}-3"
    # Mutations for every bucket, so that the run reads all of them.
    write(feed / "ups_3.txt", [f"k{n},3,U" if dataset == "field" else f"k{n},three" for n in range(50, 70)])
    settings = BY_FIELD if dataset == "field" else BY_FILE_NAME
    return local_engine.mutate(settings, master=str(master), feed=[str(feed)], output=str(output), engine=engine)


@pytest.mark.thorough(keep=1)
@pytest.mark.parametrize("engine", ["records", "blocks"])
@pytest.mark.parametrize("dataset", ["field", "name"])
def test_run_on_a_damaged_master_stops(made, tmp_path, dataset, engine):
    """A run that missed a flipped bit would write it out with a valid checksum."""
    master = Path(shutil.copytree(made[dataset], tmp_path / "copy"))
    chosen = random.Random(10)
    for name in files(master):
        data = (master / name).read_bytes()
        if not data or any(part in name for part in ("/rejected/", "/order/", "/manifest-")):
            continue  # a run does not read them; the next test covers sequences
        for bit in chosen.sample(range(len(data) * 8), 10):
            with changed(master / name, flipped(data, bit)), pytest.raises(StateError) as caught:
                next_run(made, dataset, master, tmp_path / "out", engine)
            assert name in str(caught.value), f"{name}, bit {bit}"
            assert sorted(path.name for path in tmp_path.iterdir()) == ["copy"]


def test_run_on_a_master_with_other_sequences_stops(made, tmp_path):
    master = Path(shutil.copytree(made["name"], tmp_path / "copy"))
    name = next(part.order for part in known_of(master).files)
    data = (master / name).read_bytes()
    with (master / name).open("rb") as stream:
        sequences = read_sides(stream, SEQUENCES).field(0).to_pylist()
    forged = io.BytesIO()
    forged.close = lambda: None  # the writer closes its stream
    others = [sequence + 1 if sequence == 2 else sequence for sequence in sequences]
    write_sides(forged, pa.table({SEQUENCE: others}), [len(sequences)])
    assert len(forged.getvalue()) == len(data)  # otherwise the size would reveal it

    with changed(master / name, forged.getvalue()), pytest.raises(StateError):
        next_run(made, "name", master, tmp_path / "out")


# --- the command ---


def test_exit_codes_of_the_command(copy, capsys):
    assert cli.main(["verify", str(copy)]) == 0
    assert "as its manifest says: files, sizes, rows, checksums, one row per key" in capsys.readouterr().out

    part = next(copy.glob("part-*"))
    with changed(part, flipped(part.read_bytes(), 5)):
        assert cli.main(["verify", str(copy)]) == 3
    printed = capsys.readouterr().out
    assert f"differs: {part}: its checksum is" in printed
    assert "; restore it from a copy on another disk" in printed
    assert "as its manifest says" not in printed

    with changed(copy / manifest.PATH, b"{"):
        assert cli.main(["verify", str(copy)]) == 5
    assert "the manifest is damaged" in capsys.readouterr().err


def test_command_on_a_path_without_a_dataset(tmp_path, capsys):
    assert cli.main(["verify", str(tmp_path / "nothing")]) == 2
    assert "there is no such directory" in capsys.readouterr().err

    assert cli.main(["verify", str(tmp_path)]) == 2
    assert "was not written by mutator" in capsys.readouterr().err

    (tmp_path / "_mutator").mkdir()
    assert cli.main(["verify", str(tmp_path)]) == 5
    (tmp_path / SUCCESS).touch()
    assert cli.main(["verify", str(tmp_path / SUCCESS)]) == 2


def test_partitioned_row_in_the_file_of_another_bucket_is_found(plain, tmp_path):
    """It is in the right partition, where no run will look for it."""
    settings = {**SETTINGS, "temporal.ordering.field.ordinal": "1", "partitioned.by": "p=2", "bucket.bytes": "100"}
    write(tmp_path / "base" / "base_1.txt", [f"k{n},1,{'ab'[n % 2]}" for n in range(40)])
    write(tmp_path / "feed" / "feed.txt", ["k0,2,a"])
    copy = tmp_path / "copy"
    feed = [f"{tmp_path}/feed"]
    local_engine.mutate(settings, master=f"{tmp_path}/base", feed=feed, output=str(copy), engine="blocks")
    known = known_of(copy)
    of_a = [part for part in known.files if part.path.startswith("p=a/")]
    assert len(of_a) >= 2
    exchanged = {part.path: replace(part, bucket=(part.bucket + 1) % len(of_a)) for part in of_a}
    write_manifest(copy, replace(known, files=tuple(exchanged.get(part.path, part) for part in known.files)))

    problems = plain(copy).problems
    assert any("20 records in the file of another partition or bucket" in problem for problem in problems), problems
