"""Paths and settings that contradict the data, and harmful runs, one test for each fault.

As in every test of bad input: the message names the location, the fault and the cure; nothing is published; no input
changes. Most runs go through the local engine, once as records and once as blocks.
"""

import time

import pytest

import mutator
from mutator.errors import ConfigError, DataError, StateError, StorageError
from mutator.pipeline import merge
from tests.support.job import BY_NAME, CONFIG, MASTER, WITH_OP, known, rows

# --- paths and roles


@pytest.mark.parametrize("what", ["nowhere", "nowhere/*.txt", "feed/*.none", "master/base.txt/x"])
def test_missing_feed(job, what):
    job.refused(
        ConfigError, job.root / what, "there is no such feed file or directory; check", feed=[f"{job.root}/{what}"]
    )


@pytest.mark.parametrize("role", ["master", "feed", "output"])
def test_unknown_scheme(job, role):
    address = "gopher://bucket/data"
    place = {role: [address] if role == "feed" else address}

    job.refused(
        ConfigError, address, "'gopher' is not a known storage scheme; the known ones are: azure://, file://, ", **place
    )


def test_file_address_with_a_host(job):
    job.refused(ConfigError, "a file address has no host; write file:///", master="file://host/data")


def test_file_addresses(job):
    job.put("ups.txt")
    job.run(master=f"file://{job.master}", feed=[f"file://{job.feed}"], output=f"file:{job.output}")

    assert len(rows(job.output)) == 4


@pytest.mark.parametrize("there", ["directory", "empty directory", "file", "dangling link"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_existing_output(job, there, dry_run):
    job.put("ups.txt")
    if there == "file":
        job.output.write_bytes(b"precious")
    elif there == "dangling link":
        job.output.symlink_to(job.root / "nowhere")
    else:
        job.output.mkdir()
        if there == "directory":
            (job.output / "x").write_bytes(b"precious")

    job.refused(StateError, job.output, "the output directory already exists; name a new one", dry_run=dry_run)


@pytest.mark.parametrize("inside", ["master", "feed", "master/deep/er", "feed/deep"])
def test_output_inside_an_input(job, inside):
    job.put("ups.txt")
    role = inside.split("/")[0]
    why = f"{inside}: the output is inside the {role}, {job.root / role}; name a path outside of that directory"
    expected = (ConfigError, why) if "/" in inside else (StateError, "exists")

    job.refused(*expected, job.root / inside, output=str(job.root / inside))


def test_output_inside_an_input_behind_a_link(job):
    job.put("ups.txt")
    (job.root / "link").symlink_to(job.feed)

    why = f"new: the output is inside the feed, {job.feed}; name"
    job.refused(ConfigError, why, output=str(job.root / "link" / "new"))


@pytest.mark.parametrize("feed", ["master", "master/base.txt", "master/*"])
def test_master_as_feed(job, feed):
    job.refused(ConfigError, f"the feed is inside the master, {job.master}; name", feed=[f"{job.root}/{feed}"])


def test_output_is_a_missing_master(job):
    job.put("ups.txt")
    settings = {**CONFIG, "allow.empty.master": "true"}

    job.refused(
        ConfigError,
        "master and output must have different paths",
        settings=settings,
        master=str(job.output),
        output=str(job.output),
    )


def test_a_file_in_the_way_of_the_output(job):
    job.put("plain", b"", where=".")

    job.refused(StorageError, "is in the way and is not a directory", output=str(job.root / "plain" / "out"))


def test_path_objects_are_accepted(job):
    job.add("ups.txt")

    assert job.run(master=job.master, feed=job.feed, output=job.output).counts["feed rows"] > 0


# --- a feed that deletes too much, or that is not a full snapshot


def test_file_that_matches_the_delete_prefix_by_mistake(job):
    job.put("delaware.txt", b"a,1,200\nb,1,200\nc,1,200\n")
    settings = {**CONFIG, "deleted.record.file.prefix": "del"}
    message = "the run would remove 3 of the master's 4 records, but max.delete.fraction is 0.5"

    job.refused(
        DataError,
        message,
        "if all of these deletes are intended, run again with -D max.delete.fraction=1",
        settings=settings,
    )
    job.refused(DataError, message, settings=settings, dry_run=True)
    assert job.run({**settings, "max.delete.fraction": "0.75"}).counts["feed deleted"] == 3


def test_a_master_is_not_emptied_without_permission(job):
    job.put("del.txt", MASTER.replace(b"100", b"200"))
    settings = {**CONFIG, "deleted.record.file.prefix": "del"}

    job.refused(
        DataError,
        "the run would remove 4 of the master's 4 records",
        settings={**settings, "max.delete.fraction": "0.99"},
    )
    assert job.run({**settings, "max.delete.fraction": "1"}).counts["output rows"] == 0


FULL = {**CONFIG, "sync.mode": "full"}


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"id,count,changed\n"])
def test_empty_snapshot(job, content):
    settings = {**FULL, "header.lines": "1"} if content and b"id" in content else FULL
    if content is not None:
        job.put("all.txt", content)
    if "header.lines" in settings:
        (job.master / "base.txt").write_bytes(content + MASTER)

    job.refused(
        DataError,
        job.feed,
        "sync.mode=full needs a complete snapshot, but the feed has no rows",
        settings={**settings, "max.delete.fraction": "1"},
    )


def test_two_snapshots(job):
    job.put("all_1.txt", MASTER)
    job.put("all_2.txt", MASTER)
    parts = "sync.mode=full needs exactly one snapshot, but the feed files have different sequences (1, 2)"
    job.refused(DataError, parts, "run one snapshot at a time, oldest first", settings=FULL)
    (job.feed / "all_1.txt").rename(job.feed / "all.txt")
    job.refused(DataError, "(2, none)", settings=FULL)


def test_snapshot_with_a_reject(job):
    job.put("all.txt", MASTER[:-1] + b",more\n")

    job.refused(
        DataError, "1 feed row cannot be read", "line 4, byte 24: has 4 fields and should have 3", settings=FULL
    )


def test_older_snapshot(job):
    job.put("all.txt", MASTER.replace(b"100", b"200"))
    job.follow(FULL)
    job.add("all-2.txt", MASTER.replace(b"100", b"199"))
    allowed = {**FULL, "allow.older.snapshot": "true"}

    job.refused(
        StateError,
        "the snapshot's highest order value is 199, but the master has already had one with 200",
        "run again with -D allow.older.snapshot=true",
        settings=FULL,
    )
    job.follow(allowed)
    # Now it is the last snapshot: only older ones are refused.
    job.add("all-3.txt", MASTER.replace(b"100", b"198"))
    job.refused(StateError, "has already had one with 199", settings=FULL)


@pytest.mark.parametrize("by_name", [False, True])
def test_a_snapshot_that_is_older_than_deltas(job, by_name):
    """Records newer than every row of it came by deltas, if no earlier snapshot had them."""
    full = {**(BY_NAME if by_name else CONFIG), "sync.mode": "full", "max.absence.fraction": "1"}
    job.put("all_200.txt", MASTER.replace(b"100", b"200"))
    job.follow(full)
    job.add("ups_300.txt", b"e,1,300\nf,1,300\n")
    job.follow(BY_NAME if by_name else CONFIG)
    late = job.add("all_250.txt", MASTER.replace(b"100", b"250"))
    job.refused(
        StateError,
        "would delete 2 records that it lacks and that are newer than every row of it, whose highest order",
        "f (300); e (300)",
        f"snapshot.as.of{'=sequence' if by_name else ' to the order value at which its export began'}, which keeps",
        "run again with -D allow.older.snapshot=true",
        settings=full,
    )
    allowed = job.run({**full, "allow.older.snapshot": "true"}, output=str(job.root / "allowed"))
    assert allowed.counts["master deleted by absence"] == 2
    timed = {**full, "snapshot.as.of": "sequence" if by_name else "250"}
    assert job.run(timed, output=str(job.root / "timed")).counts["master kept"] == 2
    late.unlink()
    job.add("all_350.txt", MASTER.replace(b"100", b"350"))
    assert job.follow(full).counts["master deleted by absence"] == 2
    job.add("all_351.txt", MASTER[:-8].replace(b"100", b"350") + b"e,1,351\n")  # d is gone, and was in a snapshot
    assert job.run(full).counts["master deleted by absence"] == 1


def test_a_snapshot_that_lacks_many_records(job):
    rows = b"".join(b"k%d,1,100\n" % number for number in range(40))
    job.put("base.txt", rows, where="master")
    path = job.put("all.txt", b"".join(rows.splitlines(keepends=True)[:35]))
    message = job.refused(DataError, "the snapshot lacks 5 of the master's 40 records", settings=FULL)
    assert "max.absence.fraction is 0.1: check that the snapshot is complete" in message
    for more in ({"max.absence.fraction": "0.2"}, {"max.delete.fraction": "0.2"}):
        output = str(job.root / "out" / "".join(more))
        assert job.run({**FULL, **more}, output=output).counts["master deleted by absence"] == 5
    path.write_bytes(b"".join(rows.splitlines(keepends=True)[:36]))
    assert job.run(FULL).counts["master deleted by absence"] == 4


def test_a_snapshot_is_merged_again(job):
    job.put("all_1.txt", MASTER)
    job.follow(FULL)
    job.add("all_1.txt", MASTER)
    report = job.run(FULL)

    assert report.consumed == ()
    assert report.counts["feed no-op"] == 4


def test_insert_below_the_horizon(job):
    job.put("del.txt", b"b,1,200\n")
    settings = {**CONFIG, "deleted.record.file.prefix": "del", "tombstone.retention": "0s"}
    job.follow(settings)
    time.sleep(0.01)
    assert job.follow(settings).counts["expired"] == 1
    assert known(job.master).commit.horizon == "200"
    job.add("ups.txt", b"b,9,150\ne,1,200\n")

    job.refused(
        DataError,
        "1 inserted records are older than 200, the newest tombstone that has expired",
        "(for example b)",
        "check that they were not; -D before.horizon=insert inserts them all",
        settings={**settings, "before.horizon": "fail"},
    )
    report = job.run(settings)
    assert report.counts["below horizon"] == 1
    assert report.samples["below horizon"] == ["b"]


def test_an_older_snapshot_that_was_allowed_is_the_last_one(job):
    full = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "2", "sync.mode": "full"}
    for number, settings in ((10, {}), (5, {"allow.older.snapshot": "true"}), (7, {})):
        job.add("all.txt", b"k1,1,%d\nk2,1,%d\nk3,1,%d\n" % (number, number, number))
        job.follow({**full, "max.delete.fraction": "1", **settings})


# --- fields that delimited text does not have


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("id.field.ordinals", "a", "a"),
        ("id.field.ordinals", "0,a", "a"),
        ("id.field.ordinals", "0;1", "0;1"),
        ("temporal.ordering.field.ordinal", "five", "five"),
        ("op.code.field.ordinal", "1,2", "1,2"),
        ("op.code.field.ordinal", "٢", "٢"),
    ],
)
def test_field_name_for_delimited_text(job, key, value, name):
    job.put("ups.txt")

    job.refused(
        ConfigError,
        f"{key}: '{name}' is a name, and the fields of delimited text have none; give its ordinal (from 0), or set ",
        settings={**CONFIG, key: value},
    )


def test_field_name_in_the_header_of_delimited_text(job):
    job.put("ups.txt")
    settings = {**CONFIG, "header": "true", "id.field.ordinals": "a"}

    job.refused(ConfigError, "or set input.format=csv, whose fields have the names in the header", settings=settings)


def test_field_name_given_by_the_user(job):
    job.put("ups.txt")
    by_name = {"id.field.ordinals": "key", "temporal.ordering.field.ordinal": "changed"}
    job.run({**by_name, "field.names": "key,count,changed"})

    assert rows(job.output) == [b"a,1,100", b"b,2,200", b"c,1,100", b"d,1,100"]
    assert known(job.output).spec["key"] == {"ordinals": [0], "types": ["bytes"]}


@pytest.mark.parametrize(
    ("key", "value"),
    [("null.order", "lowest"), ("output.schema", "/nowhere.avsc"), ("output.codec", "zstd"), ("default.count", "0")],
)
def test_setting_without_meaning_for_text(job, key, value):
    job.put("ups.txt")

    family = ConfigError if key != "output.schema" else StorageError
    part = "has no meaning for delimited text" if key != "output.schema" else "No such file or directory"
    job.refused(family, value if key == "output.schema" else key, part, settings={**CONFIG, key: value})


# --- a managed master with other settings, or with a later time


@pytest.mark.thorough(keep=7)
@pytest.mark.parametrize(
    ("name", "settings", "before", "now"),
    [
        ("key", {"id.field.ordinals": "0,1"}, "ordinals 0,", "ordinals 0,1,"),
        ("order", {"temporal.ordering.field.ordinal": "1"}, "ordinal 2,", "ordinal 1,"),
        ("order", {"temporal.ordering.field.ordinal": ""}, "by field,", "by file name"),
        ("order", {"temporal.ordering.field.type": "string"}, "type long", "type string"),
        ("delimiter", {"field.delim.regex": "[,;]"}, "literal ,", "regex [,;]"),
        ("width", {"field.count": "4"}, "3", "4"),
        ("width", {"field.count": "any"}, "3", "any"),
    ],
)
def test_other_settings(managed, name, settings, before, now):
    managed.refused(
        StateError,
        f"{managed.master}: the master was written with {name} = ",
        before,
        now,
        "use the same setting, or set master.adopt=true to start anew from its rows",
        settings={**CONFIG, **settings},
    )


def test_op_codes_are_added_or_removed(job):
    (job.master / "base.txt").write_bytes(b"a,1,I,100\nb,1,I,100\n")
    job.put("ups_1.txt", b"a,2,U,200\n")
    keep = {**WITH_OP, "op.code.keep": "true"}
    job.follow(keep)
    job.add("ups_2.txt", b"a,3,U,300\n")

    job.refused(StateError, "was written with ", settings={**WITH_OP, "op.code.keep": "false"})
    assert job.run(keep).counts["feed updated"] == 1


def test_clock_that_goes_backwards(managed, monkeypatch):
    before = known(managed.master).commit.committed
    monkeypatch.setattr(merge.time, "time", lambda: 1_000_000_000.0)
    managed.run()

    assert known(managed.output).commit.committed >= before


def test_negative_number_of_partitions():
    with pytest.raises(ConfigError, match="partitions is -1"):
        mutator.last_mutations(None, key=int, precedence=int, partitions=-1)  # refused before it looks at the RDD


@pytest.mark.rest
def test_an_rdd_without_partitions(sc):
    assert mutator.last_mutations(sc.emptyRDD(), key=int, precedence=int).collect() == []
