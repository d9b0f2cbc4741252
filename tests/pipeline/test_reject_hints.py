"""Rows that are rejected because of a setting: the message names the setting and the cure."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mutator
from mutator.errors import DataError
from mutator.errors.parts import plain
from mutator.pipeline import hints
from mutator.pipeline.hints import date_hint, op_code_hint, order_hint
from mutator.rules.facts import Facts
from mutator.rules.op_codes import CodeFacts
from tests.support.job import CONFIG, MASTER, Job

QUARANTINE = {"reject.policy": "quarantine"}
FIX = (
    "Fix the rows, or a setting that does not fit them; reject.policy=quarantine would leave them out of the result, "
    "up to reject.limit and max.reject.fraction"
)


def test_field_count(job):
    job.put("ups.txt", b"b,2,200,more\n")
    hint = "\nA row should have 4 fields because field.count is 4, and the first row of base.txt has 3 fields. Fix"

    job.refused(DataError, hint, settings={**CONFIG, "field.count": "4"})


@pytest.mark.parametrize("follow", [False, True])
def test_width_of_the_first_file(job, follow):
    if follow:
        job.follow()
    job.add("ups.txt", b"b,2,200,more\n")
    why = "the master's manifest says so" if follow else "base.txt begins with such a row"
    hint = f"A row should have 3 fields because {why}, and the first row of ups.txt has 4 fields"

    job.refused(DataError, hint)
    assert job.run({**CONFIG, **QUARANTINE, "max.reject.fraction": "1"}).warnings == (f"rejected rows: {hint}",)


@pytest.mark.parametrize("where", ["master", "feed"])
def test_header_without_the_setting(job, where):
    job.put("base.txt", b"id,n,at\n" + MASTER, where)
    hint = "\nIf line 1 of base.txt is a header, set header.lines=1. Fix the row"

    job.refused(DataError, "'at': id,n,at", hint)
    job.put("base.txt", b"id,n,at\n" + MASTER, "feed")
    job.put("base.txt", b"id,n,at\n" + MASTER, "master")
    job.run({**CONFIG, "header.lines": "1"})


NAMED = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at"}


@pytest.mark.parametrize(
    ("rows", "settings", "hint", "cure"),
    [
        (
            b',7,"x"',
            {},
            r"In CSV, an empty value without quotes is NULL (csv.null); if it is a value, use %s",
            r"csv.null=\N",
        ),
        (b"b,,x", {}, "In CSV, an empty value without quotes is NULL (csv.null). Fix", None),
        (
            b"NA,7,x",
            {"csv.null": "NA"},
            "In CSV, 'NA' without quotes is NULL (csv.null); if it is a value, use %s",
            r"csv.null=\N",
        ),
        (
            rb'b,7,"5\" pipe"',
            {},
            "If ups.csv has a backslash before quotes within quotes, as Spark writes it, use %s",
            "csv.escape=\\",
        ),
    ],
)
def test_settings_of_csv(job, rows, settings, hint, cure):
    job.put("base.txt", b"", "master").unlink()
    job.put("base.csv", b"id,at,n\na,1,x\nb,1,y\n", "master")
    job.put("ups.csv", b"id,at,n\n" + rows + b"\n")
    settings = {**NAMED, **settings}

    job.refused(DataError, hint.replace("%s", f"-D '{cure}'"), settings=settings)
    if cure is not None:
        assert job.run({**settings, **dict([cure.split("=")])}).counts["feed rows"] == 1


def test_ids_alone_with_an_order_field(job):
    job.put("del_1.txt", b"b\nc\n")
    hint = (
        "If del_1.txt has IDs alone: deletes need an order value, too, unless order comes from file names (without "
        "temporal.ordering.field.ordinal)"
    )
    job.refused(DataError, hint, settings={**CONFIG, "deleted.record.file.prefix": "del"})


def test_accepted_rejects_are_explained_once(job, monkeypatch):
    """The first rows of a file are read for the report alone."""
    read = []
    monkeypatch.setattr(
        hints,
        "first_rows",
        lambda source, split, real=hints.first_rows: read.append(1) or real(source, split),
    )
    job.put("ups.txt", b"b,2,x\nc,2,200\n")
    job.run({**CONFIG, **QUARANTINE, "max.reject.fraction": "1"})

    assert len(read) == 1


def test_rows_that_are_just_wrong(job):
    job.put("ups.txt", b"b,2,x\nc,2,200,4\n")

    assert job.refused(DataError, "2 feed rows cannot be read").endswith("\n" + FIX)


def test_the_hint_of_a_single_row(job):
    job.put("ups.txt", b"b,2,31.01.2026\n")

    settings = {**CONFIG, "temporal.ordering.field.type": "timestamp", "allow.empty.master": "true"}
    (job.master / "base.txt").write_bytes(b"")
    job.refused(
        DataError, "In the first row of ups.txt, 1 of 1 order values is the date '31.01.2026', which", settings=settings
    )
    job.put("ups.txt", b"b,2026-01-31,x\n")  # it may be a bad row of the right field
    assert "has no times" not in job.refused(DataError, settings=settings)


DAY, GOOD = b"2026-02-01T00:00:00", [b"50"] * 20


@pytest.mark.parametrize(
    ("values", "order_type", "hint"),
    [
        # One damaged value says nothing on the others, which are valid as they are.
        ([*[DAY] * 20, b"not-a-time"], "timestamp", None),
        ([*GOOD, b""], "long", None),
        ([*GOOD, None], "decimal", None),
        ([*GOOD, b"n/a"], "decimal", None),
        (GOOD, "long", None),
        # A type that fits the invalid values alone would make the others invalid.
        ([*GOOD, DAY], "long", None),
        ([b"50", *[DAY] * 20], "long", "20 of 21 order values look like ISO 8601: set {}=timestamp"),
        ([*GOOD, b"1.5"], "long", "1 of 21 order values is a decimal number: set {}=decimal"),
        ([*GOOD, b"1.5", b"2.5"], "long", "2 of 22 order values are decimal numbers: set {}=decimal"),
        ([b"1", b"2", b" 3"], "long", "1 of 3 order values has blanks around it: have it delivered without blanks"),
        ([*GOOD, b'"7"', b'"8"'], "long", "2 of 22 order values have quotes around them: input.format=csv reads"),
        ([*GOOD, b'"7"', b"x"], "long", None),
    ],
)
def test_a_hint_is_about_the_invalid_order_values(values, order_type, hint):
    found = order_hint(Facts(values), order_type)
    if hint is None:
        assert found is None
    else:
        assert plain(found).startswith(hint.format("temporal.ordering.field.type"))


def test_the_name_of_the_field_explains_its_numbers():
    found = CodeFacts.of([b"2", b"3", b"1"], "__$operation", {b"1"})
    assert plain(op_code_hint(found, {b"2"})).startswith("'3' (1) is an image of records before updates: use ")


def test_dates_among_valid_times():
    hint = "1 of 21 order values is the date '31.01.2026', which is not ISO 8601: have it delivered as in 2026-01-31"
    assert plain(date_hint(Facts([*[DAY] * 20, b"31.01.2026"]), "timestamp")) == hint
    assert date_hint(Facts([*[DAY] * 20, b"31.01.2026", b"x"]), "timestamp") is None


def test_one_damaged_order_value_among_many(job):
    """No hint, neither in the message nor in the warning; nor that another field has the times."""
    job.put("base.txt", b"a,2026-01-01,2026-01-01\n", "master")
    job.put("ups.txt", b"".join(b"k%d,2026-01-01,%s\n" % (n, DAY) for n in range(20)) + b"k,2026-01-01,x\n")
    settings = {**CONFIG, "temporal.ordering.field.type": "timestamp"}
    message = job.refused(DataError, "1 feed row cannot be read", settings=settings)
    assert "In the first" not in message
    assert job.run({**settings, **QUARANTINE, "max.reject.fraction": "1"}).warnings == ()


@pytest.mark.parametrize("order_type", ["timestamp", "long"])
def test_dates_that_are_not_iso_8601(job, order_type):
    job.put("base.txt", b"a,20260101,%b\n" % (b"100" if order_type == "long" else b"2026-01-01"), "master")
    job.put("ups.txt", b"b,2,31.01.2026\nc,2,01.02.2026\n")
    hint = (
        "In the first 2 rows of ups.txt, 2 of 2 order values are dates such as '31.01.2026', which are not ISO 8601: "
        "have them delivered as in 2026-01-31"
    )
    job.refused(DataError, hint, settings={**CONFIG, "temporal.ordering.field.type": order_type})
    job.put("ups.txt", b"b,20260131,31.01.2026\nc,20260201,01.02.2026\n")
    if order_type == "timestamp":
        hint = "field 2 has no times, and field 1 has: set temporal.ordering.field.ordinal=1"
    job.refused(DataError, hint, settings={**CONFIG, "temporal.ordering.field.type": order_type})


@pytest.mark.parametrize(
    ("first", "hint"),
    [
        ("null", "\nWith null.order=lowest, NULL is older than all other order values. Fix"),
        ('"x"', "field a has no values of type long: use -D 'order_type=string, long'. Fix"),
    ],
)
def test_a_part_of_a_tuple_has_no_value_of_its_type(job, first, hint):
    job.put("base.txt", b"id,a,b\n1,5,5\n", "master")
    job.put("up.json", f'{{"id": 1, "a": {first}, "b": 6}}\n{{"id": 2, "a": {first}, "b": 7}}\n'.encode())
    settings = {"key": "id", "order_by": "a, b", "order_type": "long, long", "master.format": "csv"}
    job.refused(DataError, hint, settings={**settings, "output.format": "csv"})


@pytest.mark.parametrize(("row", "said"), [(b'{"ID": 2, "at": 7}', "ID where the field is id"), (b'{"id": 2}', "")])
def test_a_field_of_json_in_another_case(job, row, said):
    job.put("base.txt", b"id,at\n1,5\n", "master")
    job.put("up.json", b'{"id": 1, "at": 6}\n' + row + b"\n")
    hint = (
        f"\nup.json has {said}: upper and lower case differ in JSON. Fix"
        if said
        else "}\nWith null.order=lowest, NULL is"
    )

    job.refused(DataError, "is NULL", hint, settings={**NAMED, "master.format": "csv", "output.format": "csv"})


@pytest.mark.parametrize(("value", "is_read"), [('"AP9oaQ=="', True), ("null", True), ('"hi there"', False)])
def test_a_binary_in_json_is_base64(tmp_path, value, is_read):
    job = Job(tmp_path, "blocks")
    (tmp_path / "master" / "base.txt").unlink(missing_ok=True)
    pq.write_table(pa.table({"id": [1], "at": [5], "b": [b"\x00"]}), tmp_path / "master" / "base.parquet")
    job.put("up.json", f'{{"id": 1, "at": 6, "b": {value}}}\n'.encode())
    if not is_read:
        job.refused(DataError, "field b is not base64, as JSON has binary values", settings=NAMED)
        return
    job.run(NAMED)
    (row,) = mutator.Dataset(job.output).to_pylist()
    assert row["b"] == (None if value == "null" else b"\x00\xffhi")
