"""Mistakes in a configuration that fit the data: a run stops before it publishes, and its message names the cure."""

import re
import subprocess
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from mutator.config import parse
from mutator.errors import ConfigError, DataError
from tests.support.job import BY_NAME, CONFIG, ENGINES
from tests.support.named_runs import FORMATS, Work

QUARANTINE = {"reject.policy": "quarantine", "master.reject.policy": "quarantine"}


def table_of(count, *columns):
    """Return rows of delimited text. columns: a function for each field, from the number of the row."""
    return b"".join(b",".join(b"%s" % str(of(n)).encode() for of in columns) + b"\n" for n in range(count))


# --- the wrong ID


def sales(count=200):
    return table_of(count, lambda n: f"k{n}", lambda n: n % 4, lambda n: 100 + n % 50)


def test_an_id_with_few_values(job):
    job.put("base.txt", sales(), "master")
    message = (
        "the master has 196 duplicates (rows with the ID of another row) among 200 rows, so that 4 records would "
        "remain, but max.duplicate.fraction is 0.1: in the first 200 rows of base.txt, field 1 has 4 distinct values, "
        "and field 0 is unique: use -D 'id.field.ordinals=0' if that is the record ID. If such rows "
        "are versions of one record, run again with "
        "-D max.duplicate.fraction=1, which leaves all but the last row of each ID out of the result"
    )
    settings = {**CONFIG, "id.field.ordinals": "1"}

    assert job.refused(DataError, settings=settings) == message
    assert job.refused(DataError, settings=settings, dry_run=True) == message
    assert job.run({**settings, "max.duplicate.fraction": "0.98"}).counts["master duplicate"] == 196


def test_an_id_of_several_fields(job):
    job.put("base.txt", table_of(200, lambda n: n // 10, lambda n: n % 10, lambda n: 100), "master")

    found = "in the first 200 rows of base.txt, field 0 has 20 distinct values, and fields 0 and 1 are unique together"
    job.refused(DataError, f"{found}: use -D 'id.field.ordinals=0,1'")
    job.put("base.txt", table_of(200, lambda n: n // 10, lambda n: n % 5, lambda n: 100), "master")
    why = "field 0 has 20 distinct values, and no other field is unique, nor are two of them together"
    job.refused(DataError, f"{why}: the ID may need more fields")


def test_a_master_whose_file_is_there_twice(job):
    for name in ("base.txt", "base_copy.txt"):
        job.put(name, sales(), "master")

    job.refused(
        DataError, "in the first 200 rows of base.txt, field 0 is unique, so several files may have the same rows"
    )


def test_fields_are_numbered_as_in_the_feed(job):
    job.put("base.txt", table_of(200, lambda n: n % 4, lambda n: f"k{n}", lambda n: 100), "master")
    job.put("ups_1.txt", b"U,1,k1,200\n")
    settings = {"id.field.ordinals": "1", "op.code.field.ordinal": "0", "temporal.ordering.field.ordinal": "3"}

    job.refused(
        DataError,
        "field 1 has 4 distinct values, and field 2 is unique: use -D 'id.field.ordinals=2' if that is the record ID",
        settings=settings,
    )


@pytest.mark.parametrize("file_format", FORMATS)
def test_fields_with_names(tmp_path, file_format):
    work = Work(tmp_path, "auto", {"id.field.ordinals": "shop", "temporal.ordering.field.ordinal": "at"})
    columns = {"id": [f"k{n}" for n in range(50)], "shop": [n % 4 for n in range(50)], "at": [7] * 50}
    work.put("master/m", pa.table(columns), file_format)
    (tmp_path / "feed").mkdir()

    with pytest.raises(DataError, match="has 4 distinct values, and field id is unique: use -D 'id"):
        work.run({"max.duplicate.fraction": "0.1"})


# --- rows set aside


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("side", ["master", "feed"])
def test_rows_that_are_nearly_all_set_aside(job, side):
    name = {"master": "base.txt", "feed": "ups_1.txt"}[side]
    job.put(name, table_of(10, lambda n: f"k{n}", lambda n: 1, lambda n: 100 if n % 3 == 0 else "2026-01-31"), side)
    settings = {**CONFIG, **QUARANTINE}

    message = job.refused(DataError, settings=settings)
    assert message.startswith(
        f"6 {side} rows of 10 cannot be read as records, and max.reject.fraction is 0.5; the first"
    )
    assert message.endswith("-D max.reject.fraction=1 would leave them out of the result")
    job.refused(DataError, "reject.limit is 5", settings={**settings, "reject.limit": "5", "max.reject.fraction": "1"})
    assert job.run({**settings, "max.reject.fraction": "0.6"}).counts[f"{side} rejected"] == 6


def test_a_master_that_would_be_empty(job):
    job.put("base.txt", table_of(1000, lambda n: f"k{n}", lambda n: 1, lambda n: "2026-01-31"), "master")

    message = "1,000 master rows of 1,000 cannot be read as records, and max.reject.fraction is 0.5"
    job.refused(DataError, message, settings={**CONFIG, **QUARANTINE})


# --- limits that are reached, and not exceeded


def test_duplicates_of_exactly_the_limit(job):
    job.put("base.txt", table_of(100, lambda n: max(0, n - 29), lambda n: 1, lambda n: 100), "master")

    job.refused(DataError, "fraction is 0.28", settings={**CONFIG, "max.duplicate.fraction": "0.28"})
    assert job.run({**CONFIG, "max.duplicate.fraction": "0.29"}).counts["master duplicate"] == 29


def test_rejects_of_exactly_the_limit(job):
    job.put("ups_1.txt", table_of(100, lambda n: f"k{n}", lambda n: 1, lambda n: 100 if n > 28 else "soon"))
    settings = {**CONFIG, **QUARANTINE}

    job.refused(DataError, "fraction is 0.28", settings={**settings, "max.reject.fraction": "0.28"})
    assert job.run({**settings, "max.reject.fraction": "0.29"}).counts["feed rejected"] == 29


def test_deletes_of_exactly_the_limit(job):
    job.put("base.txt", table_of(100, lambda n: f"k{n}", lambda n: 1, lambda n: 100), "master")
    job.put("ups_1.txt", table_of(29, lambda n: f"k{n}", lambda n: 1, lambda n: 200, lambda n: "D"))

    job.refused(DataError, "fraction is 0.28", settings={**WITH_CODES, "max.delete.fraction": "0.28"})
    assert job.run({**WITH_CODES, "max.delete.fraction": "0.29"}).counts["master removed"] == 29


# --- op codes

LONG = "https://example.org/" + "a" * 44  # 64 bytes, which messages show
WITH_CODES = {**CONFIG, "op.code.field.ordinal": "3", "op.code.in.master": "false"}


def coded(*codes):
    return table_of(len(codes), lambda n: f"k{n}", lambda n: 1, lambda n: 200, lambda n: codes[n])


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize("code", ["DELETE", "delete", "d", "Del", "-D", "removed"])
def test_a_delete_code_that_never_matches(job, code):
    job.put("ups_1.txt", coded("U", code, code, "I"))
    message = (
        f"op codes of the feed look like deletes, '{code}' (2), first in {job.feed}/ups_1.txt: line 2, byte 11, but "
        f"deleted.op.code is D, so 2 rows would be upserts: use -D 'deleted.op.code={','.join(sorted(['D', code]))}'; "
        "or, if they are upserts, name the codes of all upserts with upsert.op.code"
    )

    assert job.refused(DataError, settings=WITH_CODES) == message
    right = {**WITH_CODES, "deleted.op.code": f"D,{code}"}
    assert job.run({**right, "max.delete.fraction": "1"}).counts["feed delete of unknown"] == 2


def test_a_code_that_is_named_as_an_upsert(job):
    job.put("ups_1.txt", coded("U", "d"))

    assert job.run({**WITH_CODES, "upsert.op.code": "U,d"}).counts["feed inserted"] == 2


def test_delete_codes_in_the_last_of_many_rows(job):
    for number in range(3):
        job.put(f"ups_{number}.txt", coded(*["U"] * 4000, "x", "X", " D"))

    job.refused(
        DataError,
        f"look like deletes, ' D' (3), 'X' (3), first in {job.feed}/ups_0.txt: line 4002, byte 54904, but ",
        "deleted.op.code is D,x, so 6 rows would be",
        "use -D 'deleted.op.code=D,X,x', and have the feed delivered without blanks in its op codes; or",
        settings={**WITH_CODES, "deleted.op.code": "D,x", "split.bytes": "10000", "num.reducer": "3"},
    )


def test_a_field_that_is_no_op_code(job):
    job.put("ups_1.txt", coded(*(n % 25 for n in range(60))))
    message = (
        "field 3 of the feed has more than 24 different values, such as '0' (3), '1' (3), '2' (3), so it is not the op "
        "code, and without it the rows would lack a field: correct op.code.field.ordinal, or leave it out; or name the "
        "codes of all upserts with upsert.op.code"
    )

    assert job.refused(DataError, settings=WITH_CODES) == message
    codes = ",".join(map(str, range(25)))
    assert job.run({**WITH_CODES, "upsert.op.code": codes}).counts["feed inserted"] == 60


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        (["U", "I", "U"], None),
        (["", ""], None),
        (["X", "X", "Y"], "'X' (2), 'Y' (1)"),
        (["X", "D"], "'X' (1)"),
        *((["U", code, "I", code], f"'{code}' (2)") for code in ("", "-", "0")),
        ([f"{LONG}{n % 2}" for n in range(5)], f"'{LONG}...' (3), '{LONG}...' (2)"),
    ],
)
def test_op_codes_that_no_tool_has(job, codes, shown):
    job.put("ups_1.txt", coded(*codes))
    config = parse(WITH_CODES)
    ops = replace(config.rows.ops, as_published=True)
    as_published = replace(config, rows=replace(config.rows, ops=ops))

    if shown is not None:
        place = f"first in {job.feed}/ups_1.txt: line "
        job.refused(DataError, f"op codes that are not known: {shown}, {place}", ". Name those", settings=WITH_CODES)
    warnings = job.run(as_published).warnings
    assert sum(shown is not None and shown in line for line in warnings) == (shown is not None)
    assert any("op.code" in line for line in warnings) == (shown is not None)


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (["update_preimage", "update_postimage", "delete"], "op.before"),
        (["-U", "+U", "-D"], "op.before"),
        (["B", "U", "D"], "op.before"),
        (["T", "U", "D"], "op.truncate"),
        (["X", "U", "D"], "op.unknown"),
    ],
)
@pytest.mark.parametrize("file_format", [None, *FORMATS])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.thorough(keep=6)
def test_op_codes_of_no_upserts(tmp_path, engine, file_format, codes, kind):
    """They stop a run, unless they are named; then their rows are counted, and may contain anything."""
    settings = {"id.field.ordinals": "id", "op.code.field.ordinal": "op", "deleted.op.code": codes[2]}
    settings |= {"field.names": "id,v,op"} if file_format is None else {}
    work = Work(tmp_path, engine, {**settings, "max.delete.fraction": "1"})
    table = pa.table({"id": ["a", "a", "b", None], "v": ["old", "new", "y", "z"], "op": [*codes, codes[0]]})
    if file_format is None:
        work.put("master/m_0.txt", b"b,x\n")
        work.put("feed/f_1.txt", "".join(f"{row['id']},{row['v']},{row['op']}\n" for row in table.to_pylist()).encode())
    else:
        work.put("master/m_0", pa.table({"id": ["b"], "v": ["x"]}), file_format)
        work.put("feed/f_1", table, file_format)

    with pytest.raises(DataError) as fault:
        work.run({"reject.policy": "quarantine", "max.reject.fraction": "1"})
    assert fault.value.kind == kind
    assert f"'{codes[0]}' (" in str(fault.value)
    ending, first = {None: ("txt", "line 1, byte 0"), "csv": ("csv", "row 2")}.get(file_format, (file_format, ""))
    assert f", first in {work.path}/feed/f_1.{ending}: {first}" in str(fault.value)
    if kind == "op.truncate":
        assert "'T' (2)" in str(fault.value)  # it has no ID, as tools write it, and is no reject
        assert "use -D 'truncate.op.code=T'; if" in str(fault.value)
    report = work.run({"ignore.op.code": codes[0]})
    counts = report.counts
    assert (counts["feed inserted"], counts["feed deleted"], counts["feed rows"]) == (1, 1, 2)
    assert counts["feed no mutations"] == counts["feed ignored"] - (file_format == "csv") == 2
    assert "ignored for the op code" in str(report)


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("engine", ENGINES)
def test_op_codes_of_fields_with_names(tmp_path, file_format, engine):
    work = Work(tmp_path, engine, {"id.field.ordinals": "id", "op.code.field.ordinal": "op"})
    work.put("master/m_0", pa.table({"id": ["a"], "v": ["x"]}), file_format)
    work.put(
        "feed/f_1", pa.table({"id": ["a", "b", "c"], "v": ["x", "y", "z"], "op": ["I", "delete", "U"]}), file_format
    )

    with pytest.raises(
        DataError, match=r"look like deletes, 'delete' \(1\), first in .*, so 1 row would be upserts: use"
    ):
        work.run()
    assert work.run({"deleted.op.code": "delete"}).counts["feed delete of unknown"] == 1


@pytest.mark.parametrize("more", [{"deleted.op.code": "X"}, {"upsert.op.code": "U,X"}])
def test_an_unusual_op_code_that_is_named(job, more):
    job.put("ups_1.txt", coded("U", "X"))

    report = job.run({**WITH_CODES, **more, "max.delete.fraction": "1"})
    assert "delete code" not in "".join(report.warnings)


@pytest.mark.parametrize("codes", [["a,b", "\x01\x1f", "é'\u200b", "U"], ["'d'", "U"]])
def test_advice_for_unusual_op_codes_works_in_a_shell(tmp_path, codes):
    work = Work(tmp_path, "blocks", {"id.field.ordinals": "id", "op.code.field.ordinal": "op"})
    work.put("master/m_0", pa.table({"id": ["a"], "v": ["x"]}), "parquet")
    ids = [f"k{n}" for n in range(len(codes))]
    work.put("feed/f_1", pa.table({"id": ids, "v": ids, "op": codes}), "parquet")
    with pytest.raises(DataError) as fault:
        work.run()
    word = re.search(r"use -D (\$?'.*')[;,]", str(fault.value))[1]
    words = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    name, _, value = words.decode("utf-8", "surrogateescape").partition("=")

    assert work.run({name: value}).counts["feed rejected"] == 0


def test_long_values_that_begin_alike_are_no_op_codes(job):
    job.put("ups_1.txt", coded(*(f"{LONG}{n}" for n in range(100))))

    message = f"field 3 of the feed has more than 24 different values, such as '{LONG}...' (1), '{LONG}...' (1)"
    job.refused(DataError, message, settings=WITH_CODES)


def test_a_delete_code_with_many_blanks(job):
    job.put("ups_1.txt", coded("U", "D" + " " * 99))

    cure = "so 1 row would be upserts: have the feed delivered without blanks in its op codes; or"
    job.refused(DataError, "look like deletes, 'D ", cure, settings=WITH_CODES)


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("scope", ["table", "partition"])
def test_op_codes_and_late_rows_of_partitions(job, scope):
    settings = {**CONFIG, "partitioned.by": "shop=1", "key.scope": scope, "op.code.field.ordinal": "3"}
    shops = (lambda n: f"k{n}", lambda n: n % 3)
    job.engine = "auto"  # as blocks only
    job.put("base.txt", table_of(60, *shops, lambda n: 1000), "master")
    job.put("ups_1.txt", b"k1,1,1001,U\n")
    job.follow(settings)
    path = job.add("ups_2.txt", table_of(20, *shops, lambda n: 2000, lambda n: "DELETE" if n % 2 else "U"))

    job.refused(DataError, "look like deletes, 'DELETE' (10)", settings=settings)
    path.write_bytes(table_of(20, *shops, lambda n: 5, lambda n: "U"))
    late = (
        "20 of 20 mutations are late, so they change nothing: their order values are 5 to 5, and those of the master's"
    )
    assert [warning[: len(late)] for warning in job.run(settings).warnings] == [late]


# --- order values


def timed(count, order):
    return table_of(count, lambda n: f"k{n}", lambda n: 1, lambda n: order + n)


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(
    ("master", "feed", "why"),
    [
        (1425931207000, 1427759321, "the feed's look like seconds since 1970, and the master's like milliseconds"),
        (1425931207000000, 1427759321000, "the feed's look like milliseconds since 1970, and the master's like micros"),
        (300, 200, "the feed is older than the master, or temporal.ordering.field.ordinal names another field than"),
    ],
)
def test_a_feed_that_is_late(job, master, feed, why):
    job.put("base.txt", timed(40, master), "master")
    job.put("ups_1.txt", timed(40, feed) + b"new,1,7\n")
    warning = (
        f"40 of 41 mutations are late, so they change nothing: their order values are {feed} to {feed + 39}, and those "
        f"of the master's records are {master} to {master + 39}; {why}"
    )

    assert [
        line[: len(warning)] for line in job.run({**CONFIG, "num.reducer": "3", "order.check": "false"}).warnings
    ] == [warning]


@pytest.mark.parametrize("late", [10, 30])
def test_late_rows_of_a_usual_feed(job, late):
    job.put("base.txt", timed(100, 1000), "master")
    job.put("ups_1.txt", timed(late, 7) + timed(100, 2000)[len(timed(late, 2000)) :])

    report = job.run()
    assert (report.counts["feed late"], report.warnings) == (late, ())


def test_the_same_feed_again_is_no_mistake(job):
    job.put("ups_1.txt", timed(100, 1000))
    job.follow()
    job.add("ups_2.txt", timed(100, 1000))

    report = job.run()
    assert (report.counts["feed no-op"], report.warnings) == (100, ())


def test_feed_files_that_are_older_than_the_master(job):
    job.put("base_9.txt", timed(40, 0), "master")
    (job.master / "base.txt").unlink()
    job.put("ups_1.txt", timed(20, 0))
    job.put("ups_3.txt", timed(40, 0)[len(timed(20, 0)) :])
    warning = (
        "40 of 40 mutations are late, so they change nothing: their sequences are 1 to 3, and those of the master's "
        "records are 9 to 9; the feed is older than the master, or was merged before under other names"
    )

    assert job.run(BY_NAME).warnings == (warning,)


# --- the wrong ID in a feed


def test_a_first_feed_with_a_wrong_id(job):
    (job.master / "base.txt").unlink()
    job.put("all_1.txt", sales())
    settings = {**CONFIG, "id.field.ordinals": "1", "allow.empty.master": "true"}
    hint = "in the first 200 rows of all_1.txt, field 1 has 4 distinct values, and field 0 is unique: use -D 'id.field"
    warning = (
        "196 of 200 feed rows are superseded by another row of the same ID, so this first master has 4 records: "
        f"{hint}.ordinals=0' if that is the record ID"
    )

    assert job.run(settings, dry_run=True).warnings == (warning,)
    message = "the snapshot has 196 duplicates (rows with the ID of another row) among 200 rows, so that 4 records"
    job.refused(DataError, message, hint, settings={**settings, "sync.mode": "full"})


def test_many_changes_of_each_record_are_no_mistake(job):
    """They have their own order values, whatever else of a change is unique; those of a wrong ID share some."""
    (job.master / "base.txt").unlink()
    settings = {**CONFIG, "allow.empty.master": "true"}
    codes = {**settings, "op.code.field.ordinal": "3", "op.code.in.master": "false"}
    for changes, own in ((20, settings), (20, codes), (1, codes)):
        code = [] if own is settings else [lambda n: "U"]
        feed = table_of(200, lambda n: n // 20, lambda n: n % 3, lambda n, most=changes: n % most, *code)
        job.put("all_1.txt", feed, "feed")
        warnings = job.run(own, dry_run=True).warnings
        assert [one.partition(" superseded by ")[0] for one in warnings] == (
            [] if changes > 1 else ["190 of 200 feed rows are"]
        )


# --- rows that are rejected for their order values or op codes


def shown_hint(job, settings=CONFIG):
    """Return the sentence between the rows of a message and its cure."""
    message = job.refused(DataError, settings=settings)
    assert "would leave them out of the result, up to reject.limit" in message.partition(". Fix the rows")[2]
    return message.partition(". Fix the rows")[0].rpartition("\n")[2]


@pytest.mark.thorough(keep=6)
@pytest.mark.parametrize(
    ("order", "stated", "looks"),
    [
        (lambda n: f"2026-01-31T10:00:{n % 60:02}Z", "long", "look like ISO 8601: set {}=timestamp"),
        (lambda n: f"2026-01-31 10:00:{n % 60:02}.25", "decimal", "look like ISO 8601: set {}=timestamp"),
        (lambda n: f"{n}.5", "long", "are decimal numbers: set {}=decimal"),
        (lambda n: 1425931207 + n, "timestamp", "are integers: set {}=long"),
        (lambda n: f'"{n}"', "long", "have quotes around them: input.format=csv reads quoted fields"),
        (lambda n: f" {n}", "long", "have blanks around them: have them delivered without blanks"),
    ],
)
def test_order_values_of_another_type(job, order, stated, looks):
    key = "temporal.ordering.field.type"
    job.put("base.txt", table_of(1200, lambda n: f"k{n}", lambda n: 1, order), "master")
    hint = f"In the first 1,000 rows of base.txt, 1,000 of 1,000 order values {looks.format(key)}"

    assert shown_hint(job, {**CONFIG, key: stated}) == hint


def test_the_record_id_is_no_order_field(job):
    job.put("base.txt", table_of(50, lambda n: 1425931207 + n, lambda n: "x", lambda n: "bread"), "master")
    settings = {**CONFIG, "temporal.ordering.field.type": "long"}
    assert "has no times" not in job.refused(DataError, settings=settings)


def test_an_order_field_without_times(job):
    job.put("base.txt", table_of(50, lambda n: f"k{n}", lambda n: 1425931207 + n, lambda n: "bread"), "master")
    found = "field 2 has no times, and field 1 has: set temporal.ordering.field.ordinal=1"

    assert shown_hint(job) == f"In the first 50 rows of base.txt, {found}"


def test_order_values_of_another_type_than_the_master(job):
    job.follow()
    job.add("ups_1.txt", table_of(3, lambda n: f"k{n}", lambda n: 1, lambda n: f"2026-01-0{n + 1}"))
    found = "3 of 3 order values look like ISO 8601, but the master's are long"

    assert shown_hint(job) == f"In the first 3 rows of ups_1.txt, {found}"


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize(
    ("codes", "found"),
    [
        ("ABAB", "no op code is one of deleted.op.code or upsert.op.code, but 'A' (2), 'B' (2): check op.code.field"),
        ("UUdd", "'d' (2) looks like a delete: use -D 'deleted.op.code=D,d'"),
        ("UUII", "upsert.op.code lacks 'I' (2)"),
    ],
)
def test_op_codes_that_are_not_named(job, codes, found):
    job.put("ups_1.txt", coded(*codes))

    hint = shown_hint(job, {**WITH_CODES, "upsert.op.code": "U"})
    assert hint.startswith(f"In the first 4 rows of ups_1.txt, {found}")


@pytest.mark.parametrize("file_format", FORMATS)
def test_order_values_of_fields_with_names(tmp_path, file_format):
    work = Work(tmp_path, "auto", {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"})
    work.put("master/m", pa.table({"id": ["a", "b"], "at": ["2026-01-31", "2026-02-01"]}), file_format)
    (tmp_path / "feed").mkdir()

    with pytest.raises(DataError, match=r"2 of 2 order values look like ISO 8601: set temporal\S+type=timestamp\. Fix"):
        work.run()


# --- deletes


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize(
    ("name", "rows", "settings", "hint"),
    [
        (
            "del_1.txt",
            b"a,1,200\nb,1,200\nc,1,200\n",
            {"deleted.record.file.prefix": "del"},
            "all rows of del_1.txt are",
        ),
        (
            "ups_1.txt",
            b"a,1,200,X\nb,1,200,X\nc,1,200,X\n",
            {"deleted.op.code": "X"},
            "op code X in field 3 is a delete",
        ),
        ("all_1.txt", b"a,1,200\n", {"sync.mode": "full"}, "the snapshot is complete"),
        (
            "all_1.txt",
            b"'a',1,200\n",
            {"sync.mode": "full"},
            "the snapshot has 1 record that the master lacks, so compare",
        ),
    ],
)
def test_a_feed_that_deletes_too_much(job, name, rows, settings, hint):
    job.put(name, rows)
    settings = {**(WITH_CODES if "deleted.op.code" in settings else CONFIG), **settings}

    message = job.refused(
        DataError, "of the master's 4 records, but max.delete.fraction is 0.5: ", hint, settings=settings
    )
    assert message.endswith("; if all of these deletes are intended, run again with -D max.delete.fraction=1")


# --- order values of the future, and of no meaning


NOW = int(time.time())
AS_TIMES = {**CONFIG, "temporal.ordering.field.type": "timestamp"}


@pytest.mark.parametrize(
    ("settings", "past", "future"),
    [
        (CONFIG, NOW, NOW + 200_000),
        (CONFIG, NOW * 1000, 7_450_000_000_000),
        (CONFIG, 20260101, 22060201),
        ({**CONFIG, "temporal.ordering.field.type": "decimal"}, f"{NOW}.5", f"{NOW + 200_000}.5"),
        (AS_TIMES, "2026-01-01T10:00:00Z", "2206-02-01"),
        (CONFIG, 20260101, 99991231),
        ({**CONFIG, "temporal.ordering.field.type": "string"}, "2026-01-01T10:00:00", "2206-02-01T10:00:00"),
    ],
    ids=[
        "seconds",
        "milliseconds",
        "digits",
        "decimal",
        "timestamp",
        "far digits",
        "text",
    ],  # each worker begins at another second
)
def test_order_values_in_the_future(job, settings, past, future):
    job.put("ups_1.txt", table_of(30, lambda n: f"k{n}", lambda n: 1, lambda n: future if n < 3 else past))
    settings = {**settings, "order.check": "false"}
    base = f"k0,1,{past}\n".encode()
    job.put("base.txt", base, "master")
    (warning,) = [line for line in job.run(settings).warnings if "future" in line]
    assert warning.startswith(f"3 rows of the feed have order values in the future, from '{future}")
    assert f" on, in {job.root}/feed/ups_1.txt: they win" in warning
    highest, most = {**settings, "order.max": str(past), "report.fields": "none"}, str(past).partition("T")[0]
    shown = job.refused(DataError, "3 rows of the feed would win", settings=highest, output=str(job.root / "other"))
    assert f"above order.max={most}" in shown
    assert f", from … on, in {job.root}/feed/ups_1.txt; correct" in shown
    assert "set a higher order.max" in shown
    if settings.get("temporal.ordering.field.type") != "string":
        wrong = {**settings, "order.max": "x"}
        job.refused(ConfigError, "order.max: 'x'", settings=wrong, output=str(job.root / "other"))
    job.put("ups_1.txt", table_of(3, lambda n: f"k{n}", lambda n: 1, lambda n: past))
    for more in ({}, {"order.max": str(future)}):
        output = str(job.root / f"out{len(more)}")
        assert "future" not in "".join(job.run({**settings, **more}, output=output).warnings)


def test_rows_of_many_codes_are_ignored(job):
    codes = [f"x{n}" for n in range(40)]
    job.put("ups_1.txt", coded(*("U" if n == 0 else codes[n % 40] for n in range(400))))
    counts = job.run({**WITH_CODES, "ignore.op.code": ",".join(codes)}).counts
    assert (counts["feed rows"], counts["feed no mutations"]) == (1, 399)


@pytest.mark.parametrize("null", ["", "NULL", r"\N", "0000-00-00 00:00:00", "9999-12-31", "1970-01-01T00:00:00Z"])
def test_a_time_of_a_delete_marks_it(job, null):
    job.put("base.txt", b"k0,1,100\n", "master")
    job.put("ups_1.txt", coded("2026-01-31 10:00:00", null, null))
    settings = {**WITH_CODES, "delete.when": "not null", "max.delete.fraction": "1"}
    report = job.run(settings)
    assert (report.counts["feed deleted"], report.counts["feed inserted"], report.warnings) == (1, 2, ())


def test_an_order_value_that_no_change_changes(job):
    job.put("base.txt", table_of(50, lambda n: f"k{n}", lambda n: "old", lambda n: 1000 + n), "master")
    job.put("ups_1.txt", table_of(20, lambda n: f"k{n}", lambda n: "new", lambda n: 1000 + n))
    (warning,) = job.run().warnings
    assert warning.startswith("20 of 20 mutations of known records have the order value of the record")
