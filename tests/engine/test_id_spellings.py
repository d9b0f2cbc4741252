"""Inserted records whose IDs are those of others in another spelling: a sample of them is found, wherever they are."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest

import mutator
from mutator.rules.id_spellings import other_spellings, plain_id
from tests.support.named_runs import ENGINES, Work

ROWS = 400
FORMS = {
    "point": ("{}", "{}.0"),
    "sign": ("+{}", "{}"),
    "dashes": ("6f9619ff8b86d011b42d00cf{:08}", "6f9619ff-8b86-d011-b42d-00cf{:08}"),
    "case": ("k{}", "K{}"),
    "accents": (unicodedata.normalize("NFC", "é{}"), unicodedata.normalize("NFD", "é{}")),
}


def rows(form, numbers, at):
    ids = [form.format(10_000_000 + number) for number in numbers]
    return pa.table({"id": ids, "at": pa.array([at] * len(ids), pa.int64())})


def feed(own, other):
    """Return new records, more than are read before a merge, and then those of the master in another form."""
    return pa.concat_tables([rows(own, range(ROWS, ROWS + 300), 2), rows(other, range(0, ROWS, 2), 2)])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("form", "buckets"), [*((form, 2) for form in FORMS), ("point", 7)])
def test_a_sample_of_inserted_records(tmp_path, form, buckets, engine):
    own, other = FORMS[form]
    work = Work(tmp_path, engine)
    work.put("master/m", rows(own, range(ROWS), 1), "parquet")
    work.put("feed/f_1", feed(own, other), "parquet")

    warnings = [one for one in work.run({"num.reducer": str(buckets)}).warnings if "spelling alone" in one]
    assert len(warnings) == 1
    assert "is inserted, and " in warnings[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_records_of_one_form_get_no_warning(tmp_path, engine):
    work = Work(tmp_path, engine)
    work.put("master/m", rows("{}", range(ROWS), 1), "parquet")
    work.put("feed/f_1", feed("{}", "{}"), "parquet")
    assert not [one for one in work.run().warnings if "spelling" in one]


def test_a_table(tmp_path):
    table = mutator.Table.create(tmp_path / "table", key="id", order_by="at", buckets=2)
    table.apply(rows("{}", range(ROWS), 1))
    (warning,) = [one for one in table.apply(feed("{}", "{}.0")).warnings if "spelling alone" in one]
    assert ".0' is inserted, and '" in warning
    assert not [one for one in table.apply(rows("{}", range(2000, 2400), 3)).warnings if "spelling" in one]


def with_op(table, op):
    return table.append_column("op", pa.array([op] * len(table)))


@pytest.mark.parametrize("place", [*ENGINES, "table"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_feed_that_corrects_the_spelling_gets_no_warning(tmp_path, place, at_once):
    """It deletes the IDs of one form, or an earlier one did, and inserts those of another."""
    gone, new = with_op(rows("{}", range(ROWS), 2), "D"), with_op(feed("{}", "{}.0"), "U")
    feeds = [with_op(rows("{}", range(ROWS), 1), "U")]
    feeds += [pa.concat_tables([gone, new])] if at_once else [gone, new]
    if place == "table":
        table = mutator.Table.create(tmp_path / "table", key="id", order_by="at", buckets=2, max_delete_fraction=1)
        made = [table.apply(one, op="op") for one in feeds]
    else:
        work, master, made = Work(tmp_path, place), "none", []
        work.settings |= {"op.code.field.ordinal": "op", "allow.empty.master": "true", "max.delete.fraction": "1"}
        for number, one in enumerate(feeds):
            work.put(f"feed{number}/f_{number}", one, "parquet")
            made.append(work.run(master=master, feed=f"feed{number}"))
            master = f"out{number + 1}"
    assert made[-1].counts["feed inserted"] == 500
    assert not [one for one in made[-1].warnings if "spelling" in one]


@pytest.mark.parametrize(
    "value",
    [
        "11.0",
        "+5",
        "007",
        "1.50",
        "1e3",
        "Ann ",
        "é",
        "\u200bx",
        "x\u200f",
        "\ufe0fx",
        "6F9619FF8B86D011B42D00CF4FC964FF",
    ],
)
def test_other_spellings_are_spellings(value):
    others = other_spellings(value.encode())
    assert others
    assert value.encode() not in others
    assert {plain_id(other) for other in others} == {plain_id(value.encode())}
