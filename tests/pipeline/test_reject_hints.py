"""Rows that are rejected because of a setting: the message names the setting and the cure."""

import pytest

from mutator.errors import DataError
from mutator.pipeline import reject_hints
from tests.support.job import CONFIG, ENGINES, MASTER, Job

QUARANTINE = {"reject.policy": "quarantine"}
FIX = (
    "Fix the rows, or a setting that does not fit them; reject.policy=quarantine would leave them out of the result, "
    "up to reject.limit and max.reject.fraction"
)


@pytest.fixture(params=ENGINES)
def job(request, tmp_path):
    return Job(tmp_path, request.param)


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
        reject_hints,
        "first_rows",
        lambda source, split, real=reject_hints.first_rows: read.append(1) or real(source, split),
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
    job.refused(DataError, "In the first row of ups.txt, 1 of 1 order values are dates", settings=settings)


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
