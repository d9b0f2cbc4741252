"""Snapshot + delta compaction: each folder below ``golden_avro/`` is a test, so adding one adds a test.

README             why the case is there
config.properties  fields by their names, as everywhere in it
snapshot/*.json    an Avro file each: {"schema": its schema, "records": [...]}
delta/*.json       the same; what else lies there, such as control files, is copied
expected.json      {"fields": those of the result's schema, "records": [...]}, sorted by key
counts.json        every count of the report that is not 0

Times, dates and decimals stand as text in the JSON. Where snapshot/ and delta/ have partitions, ``year=2026/month=01``,
each with a delta is a run of its own, and expected.json and counts.json have a member for each.

The same records are merged as Parquet and as ORC, and by the naive merge below.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from operator import itemgetter
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from mutator import cli
from mutator.config.sources import read_settings
from mutator.errors import DataError
from mutator.formats.files.avro_schema import to_arrow
from mutator.pipeline import merge
from mutator.rules import schema_evolution as schema
from tests.support import local_engine
from tests.support.columns_data import file_of
from tests.support.console import console_blocks, same, settle, steps

GOLDEN = Path(__file__).parents[1] / "golden_avro"
CASES = sorted(path for path in GOLDEN.iterdir() if path.is_dir())
KINDS = ["avro", "parquet", "orc"]
ENGINES = ["records", "blocks"]
PAGE = (Path(__file__).parents[2] / "docs" / "compaction.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """One run of a case: the whole case, or one of its partitions."""

    case: Path
    partition: str

    def sources(self, side):
        """Return the documents of a side by their stems, oldest first."""
        paths = (self.case / side / self.partition).glob("*.json")
        return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(paths, key=by_age)}

    def document(self, name):
        found = json.loads((self.case / name).read_text(encoding="utf-8"))
        return found[self.partition] if self.partition else found

    @property
    def newest(self):
        """Return the fields of the newest delta's schema."""
        return list(self.sources("delta").values())[-1]["schema"]["fields"]

    def settings(self, file_format):
        """Return the settings; only Avro schemas have defaults."""
        own = read_settings(self.case / "config.properties")
        given = {f"default.{one['name']}": one["default"] for one in self.newest if one.get("default") is not None}
        return {**(given if file_format != "avro" else {}), **own}


def runs_of(case):
    """Return the runs of a case: one for each directory with deltas."""
    found = sorted({path.parent.relative_to(case / "delta").as_posix() for path in (case / "delta").rglob("*.json")})
    return [Run(case, "" if one == "." else one) for one in found]


RUNS = [run for case in CASES for run in runs_of(case)]


def name_of(run):
    return "-".join([run.case.name, *filter(None, [run.partition.replace("/", "-")])])


def sequence(stem):
    """Return the number at the end of a name, or -1 if the name has no number."""
    digits = stem.rpartition("_")[2] if "_" in stem else ""
    return int(digits) if digits.isdigit() else -1


def by_age(path):
    return sequence(path.stem), path.stem


def typed(avro_type, value):
    """Convert text from JSON to the Python value of its Avro type."""
    if isinstance(avro_type, list):
        avro_type = next(one for one in avro_type if one != "null")
    logical = avro_type.get("logicalType", "") if isinstance(avro_type, dict) else ""
    if value is None or not logical:
        return value
    if logical.startswith("timestamp"):
        return datetime.fromisoformat(value)
    return {"date": date.fromisoformat, "decimal": Decimal}[logical](value)


def plain(value):
    """Convert a Python value to its text in JSON."""
    if isinstance(value, datetime):
        text = value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".")
        return f"{text}Z"
    return str(value) if isinstance(value, date | Decimal) else value


def write(run, place, file_format):
    """Write the files of a run; return the paths of snapshot and delta."""
    for side in ("snapshot", "delta"):
        folder = place / side
        folder.mkdir(parents=True)
        for stem, document in run.sources(side).items():
            avro, target = document["schema"], folder / f"{stem}.{file_format}"
            types = {one["name"]: one["type"] for one in avro["fields"]}
            rows = [{name: typed(types[name], value) for name, value in row.items()} for row in document["records"]]
            if file_format == "avro":
                with target.open("wb") as stream:
                    fastavro.writer(stream, avro, rows)
            else:
                target.write_bytes(file_of(file_format, pa.Table.from_pylist(rows, to_arrow(avro))))
        for path in (run.case / side / run.partition).glob("*"):
            if path.is_file() and path.suffix != ".json":
                shutil.copy(path, folder / path.name.replace(".avro", f".{file_format}"))
        if not any(folder.iterdir()):
            folder.rmdir()  # this run has no snapshot
    return str(place / "snapshot"), [str(place / "delta")]


def read(output):
    """Return the records of a result, as in JSON, and the Avro schemas of its files."""
    rows, schemas = [], []
    for path in output.glob("part-*"):
        if path.suffix == ".avro":
            with path.open("rb") as stream:
                reader = fastavro.reader(stream)
                schemas.append(reader.writer_schema)
                rows += reader
        else:
            table = (parquet if path.suffix == ".parquet" else orc).read_table(path)
            rows += pa.table([micros(column) for column in table.columns], names=table.schema.names).to_pylist()
    return [{name: plain(value) for name, value in row.items()} for row in rows], schemas


def micros(column):
    """Return times as integers of microseconds, Python's resolution: ORC stores nanoseconds."""
    return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def by_key(run, rows):
    names = run.settings("avro")["id.field.ordinals"].split(",")
    return sorted(rows, key=lambda row: [row[name] for name in names])


def naive_merge(run):
    """Take each key's newest record, then give all records the attributes of the newest delta."""
    settings = run.settings("parquet")
    ids, order = settings["id.field.ordinals"].split(","), settings.get("temporal.ordering.field.ordinal")
    versions = defaultdict(list)
    for side in ("snapshot", "delta"):
        for stem, document in run.sources(side).items():
            for row in document["records"]:
                found = sequence(stem) if order is None else row[order]
                at = datetime.fromisoformat(found) if isinstance(found, str) else found
                versions[tuple(row[name] for name in ids)].append((at, row))
    newest = [max(reversed(found), key=itemgetter(0))[1] for found in versions.values()]  # on equal times, the last
    fields = [field["name"] for field in run.newest]
    return [{name: row.get(name, settings.get(f"default.{name}")) for name in fields} for row in newest]


def counted(report):
    return {name: count for name, count in report.counts.items() if count}


def check(run, place, mutate, file_format):
    """Do a run, compare it with the expected result, and return its report."""
    settings = run.settings(file_format)
    master, feed = write(run, place, file_format)
    expected = run.document("expected.json")

    report = mutate(settings, master=master, feed=feed, output=str(place / "new"))

    rows, schemas = read(place / "new")
    assert by_key(run, rows) == expected["records"]
    assert [list(row) for row in rows] == [[one["name"] for one in expected["fields"]]] * len(rows)
    assert all(plain_fields(schema) == expected["fields"] for schema in schemas)
    assert counted(report) == run.document("counts.json")
    return report


def check_again(run, place, mutate, file_format, report):
    """Merge the same deltas into the result, which must change nothing."""
    settings = {**run.settings(file_format), "consumed.files": "merge"}

    again = mutate(settings, master=str(place / "new"), feed=[str(place / "delta")], output=str(place / "again"))

    (rows, schemas), (before, schemas_before) = read(place / "again"), read(place / "new")
    assert by_key(run, rows) == by_key(run, before)
    assert all(schema in schemas_before for schema in schemas)
    assert again.counts["feed rows"] == report.counts["feed rows"]
    assert again.counts["feed rows"] == sum(again.counts[f"feed {name}"] for name in ("no-op", "superseded", "late"))


def plain_fields(avro):
    return [{name: value for name, value in field.items() if not name.startswith("__")} for field in avro["fields"]]


@pytest.mark.thorough(keep=13)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("file_format", KINDS)
@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_compaction(run, file_format, engine, tmp_path):
    mutate = partial(local_engine.mutate, engine=engine)

    report = check(run, tmp_path, mutate, file_format)

    check_again(run, tmp_path, mutate, file_format, report)


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_naive_merge_gives_the_same(run):
    assert by_key(run, naive_merge(run)) == run.document("expected.json")["records"]


@pytest.mark.soak
def test_all_cases_on_spark(sc, tmp_path):
    """The engines alternate; two runs at once, because a run mostly waits for its jobs to be planned."""

    def wrong(numbered):
        number, run = numbered
        mutate = partial(merge.mutate, sc, engine=ENGINES[number % 2])
        try:
            check(run, tmp_path / name_of(run), mutate, "avro")
        except AssertionError as difference:
            return name_of(run), str(difference)
        return None

    with ThreadPoolExecutor(2) as pool:
        assert [one for one in pool.map(wrong, enumerate(RUNS)) if one] == []


def test_each_case_is_complete():
    for case in CASES:
        assert (case / "README").read_text(encoding="utf-8").strip(), case
        assert runs_of(case), case
    for run in RUNS:
        rows = run.document("expected.json")["records"]
        assert rows == by_key(run, rows), run
        assert len(rows) == run.document("counts.json")["output rows"], run


def one_schema(run):
    schemas = [document["schema"] for side in ("snapshot", "delta") for document in run.sources(side).values()]
    return all(schema == schemas[0] for schema in schemas)


@pytest.mark.parametrize("run", [run for run in RUNS if one_schema(run)], ids=name_of)
def test_a_delta_at_a_time_gives_the_same(run, tmp_path):
    master, (feed,) = write(run, tmp_path, "avro")
    for delta in sorted(Path(feed).glob("*.avro"), key=by_age):
        output = tmp_path / delta.stem
        local_engine.mutate(run.settings("avro"), master=master, feed=[str(delta)], output=str(output))
        master = str(output)

    assert by_key(run, read(output)[0]) == run.document("expected.json")["records"]


@pytest.mark.parametrize("file_format", KINDS)
@pytest.mark.parametrize("run", [run for run in RUNS if "feed.control.suffix" in run.settings("avro")], ids=name_of)
@pytest.mark.parametrize("alter", ["says more", "has no digest of it", "is missing", "is of a file that is missing"])
def test_nothing_is_merged_unless_every_control_file_is_correct(run, alter, file_format, tmp_path):
    master, feed = write(run, tmp_path, file_format)
    control = max(Path(feed[0]).glob("*.ctl"))
    if alter == "says more":
        control.write_text("rows=1000\n")
    elif alter == "has no digest of it":
        control.write_text(hashlib.sha256(b"").hexdigest())
    elif alter == "is missing":
        control.unlink()
    else:
        control.with_suffix("").unlink()

    with pytest.raises(DataError, match=re.escape(control.with_suffix("").name)):
        local_engine.mutate(run.settings(file_format), master=master, feed=feed, output=str(tmp_path / "new"))

    assert not (tmp_path / "new").exists()


def test_control_file_may_have_a_digest(tmp_path):
    run = next(run for run in RUNS if run.case.name == "control-file")
    master, feed = write(run, tmp_path, "avro")
    for control in Path(feed[0]).glob("*.ctl"):
        digest = hashlib.sha256(control.with_suffix("").read_bytes()).hexdigest()
        control.write_text(f"{digest}  {control.stem}\n")

    report = local_engine.mutate(run.settings("avro"), master=master, feed=feed, output=str(tmp_path / "new"))

    assert counted(report) == run.document("counts.json")


def test_a_note_about_many_files_names_one():
    types = {"id": pa.int64(), "units": pa.int32(), "fax": pa.string()}
    old = [schema.SchemaVersion(pa.schema(types), f"/data/part-{number}") for number in range(3)]
    new = schema.SchemaVersion(pa.schema({"id": pa.int64(), "units": pa.int64()}), "/data/orders_1")

    found = schema.resolve(new, old, ("id",), {}, given=False)

    assert found.notes == (
        "field units is widened from int32 (part-0 and 2 more) to int64",
        "left out, as orders_1 has no such fields: fax (of part-0 and 2 more)",
    )


def prepare(path, monkeypatch):
    """Put python and fastavro on the PATH, and write the files with which the page starts."""
    monkeypatch.chdir(path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    (path / "orders.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0])


@pytest.mark.thorough(keep=0)
def test_every_command_of_the_page_prints_its_output(tmp_path, monkeypatch, capfd):
    prepare(tmp_path, monkeypatch)
    commands = [step for block in console_blocks(PAGE) for step in steps(block)]

    assert len(commands) > 10
    for command, expected in commands:
        words = shlex.split(command)
        if words[0] == "mutator":
            capfd.readouterr()
            settle(tmp_path)

            code = cli.main(words[1:])

            found, errors = capfd.readouterr()
            assert (code == 0) is not ("mutator: error" in expected), errors
            found += errors if code else ""
        else:
            found = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
        assert same(found).replace(str(tmp_path), "/data") == same(expected), command


def test_the_loop_over_partitions_of_the_page(tmp_path, monkeypatch, capfd):
    """The shell prints the commands, and each then runs in this process."""
    runs = runs_of(GOLDEN / "partitioned-by-year-month")
    for run in runs:
        write(run, tmp_path / "files" / run.partition, "avro")
        for made in (tmp_path / "files" / run.partition).iterdir():
            made.rename(new_folder(tmp_path / made.name / run.partition))
    prepare(tmp_path, monkeypatch)
    program = tmp_path / "bin" / "mutator"
    new_folder(program).write_text('#!/bin/sh\necho "$@" >> commands\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))
    commands = [command for block in console_blocks(PAGE) for command, _ in steps(block)]
    settings = next(command for command in commands if command.endswith("> orders.properties"))
    (loop,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)

    subprocess.run(["sh", "-c", settings + "\n" + loop], check=True)
    codes = [cli.main(shlex.split(line)) for line in Path("commands").read_text(encoding="utf-8").splitlines()]

    assert codes == [0] * len(runs)
    for run in runs:
        assert by_key(run, read(tmp_path / "compacted" / run.partition)[0]) == run.document("expected.json")["records"]


@pytest.mark.parametrize("scope", ["table", "partition"])
def test_one_run_over_all_partitions_of_the_page(tmp_path, scope):
    (by,) = re.findall(r'--partitioned-by "([^"]*)"', PAGE)
    runs = runs_of(GOLDEN / "partitioned-by-year-month")
    for run in runs:
        write(run, tmp_path / "files" / run.partition, "avro")
        for made in (tmp_path / "files" / run.partition).iterdir():
            made.rename(new_folder(tmp_path / made.name / run.partition))
    feed = [str(path) for path in sorted((tmp_path / "delta").glob("*=*/*=*"))]
    settings = {**runs[0].settings("avro"), "partitioned.by": by, "key.scope": scope}
    local_engine.mutate(settings, master=str(tmp_path / "snapshot"), feed=feed, output=str(tmp_path / "out"))

    for run in runs:
        assert by_key(run, read(tmp_path / "out" / run.partition)[0]) == run.document("expected.json")["records"]


def new_folder(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
