"""Masters and feeds in Hive's directories: read, merged and written as the same rows without partitions are."""

from __future__ import annotations

import itertools
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import mutator
from mutator.cli import main
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.path_fields import inferred_type
from mutator.rules.known_formats import FORMATS
from mutator.rules.partition_paths import directory_of
from tests.support import local_engine
from tests.support.columns_data import file_of, read_whole
from tests.support.no_limits import NO_LIMITS

BY = ("day", "shop")
DAYS = [date(2026, 1, 1), date(2026, 1, 2)]
NAMES = ("id", "note", "at", *BY)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("note", pa.string()), ("at", pa.int64()), ("day", pa.date32()), ("shop", "string")]
)
MASTER = [
    (1, "a", 1, DAYS[0], "EU"),
    (2, "b", 1, DAYS[0], "a/b =%20:ä"),
    (3, "c", 1, DAYS[1], "EU"),
    (4, "d", 1, None, "EU"),
    (5, "e", 1, DAYS[1], None),
]
# A file of the second one has the bytes of a file of the first, in another directory.
FEEDS = [
    [(1, "a2", 2, DAYS[1], "EU", "U"), (2, "b", 2, DAYS[0], "a/b =%20:ä", "D"), (6, "f", 2, None, None, "U")],
    [(1, "a2", 2, DAYS[1], "UK", "U"), (4, "d2", 3, DAYS[0], "a/b =%20:ä", "U"), (5, "e", 0, DAYS[1], None, "D")],
]
KEY = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "op.code.field.ordinal": "op"}
HEADLESS = ("escaped", "text")


def put(place: Path, file_format: str, rows: list[tuple[Any, ...]], by: tuple[str, ...]) -> Path:
    """Write rows: one file, or one in each directory of some fields, which the file lacks."""
    fields = [*SCHEMA, pa.field("op", "string")][: len(rows[0])]
    where = [[fields[at].name for at in range(len(fields))].index(name) for name in by]

    def directory(row: tuple[Any, ...]) -> str:
        return directory_of(by, [None if row[at] is None else str(row[at]) for at in where])

    for name, found in itertools.groupby(sorted(rows, key=directory), directory):
        own = [one for at, one in enumerate(fields) if at not in where]
        kept = [{one.name: row[at] for at, one in enumerate(fields) if at not in where} for row in found]
        (place / name).mkdir(parents=True, exist_ok=True)
        written = "csv" if file_format == "text" else file_format
        dialect = Dialect(header=file_format == "csv")
        data = file_of(written, pa.Table.from_pylist(kept, pa.schema(own)), dialect)
        (place / name / f"rows{FORMATS[file_format].suffix}").write_bytes(data)
    return place


def settings_of(file_format: str) -> dict[str, str]:
    """Return the settings that a format needs, whatever the layout is."""
    if file_format == "csv":
        return {"header.lines": "1"}
    more = {"field.names": ",".join((*NAMES, "op"))}
    return {**more, "output.format": "escaped", "input.format": file_format} if file_format in HEADLESS else {}


def run(master: Path, feed: Path, output: Path, file_format: str, more: dict[str, str], engine: str = "blocks") -> Any:
    settings = {**NO_LIMITS, "num.reducer": "2", **KEY, **settings_of(file_format), **more}
    return local_engine.mutate(settings, master=str(master), feed=[str(feed)], output=str(output), engine=engine)


def texts_of(table: Any) -> list[tuple[str, ...]]:
    return sorted(tuple(str(row[name] or "") for name in NAMES) for row in table.to_pylist())


def fields_of(place: Path, file_format: str) -> set[Any]:
    """Return the fields of the data files, or their number."""
    files = [one for one in place.glob("**/part-*") if "_mutator" not in one.parts]
    if file_format in HEADLESS:
        return {len(line.split(",")) for one in files for line in one.read_text().splitlines()}
    return {tuple(read_whole(file_format, one.read_bytes())[0].batch.schema.names) for one in files}


LAYOUTS = [("hive", "hive"), ("hive", "flat"), ("flat", "hive"), ("hive", "op"), ("none", "hive")]


CASES = [(one, *layout) for one in ("parquet", "orc", "avro", "csv", *HEADLESS) for layout in LAYOUTS]
CASES.remove(("text", "hive", "flat"))  # rows of text have no NULL


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_hive_layouts_give_the_rows_of_flat_files(tmp_path, case):
    file_format, *layout = case
    sides = {"flat": (), "hive": BY, "op": ("op", *BY), "none": BY}
    own, fed = (sides[one] for one in layout)
    feeds = [[(*row, "U") for row in MASTER], *FEEDS] if layout[0] == "none" else FEEDS
    found = []
    for place, by, of_feed in ((tmp_path / "plain", (), ()), (tmp_path / "hive", own, fed)):
        last, counts = place / "master", []
        if layout[0] != "none":
            put(last, file_format, MASTER, by)
        more = {"allow.empty.master": "true"} | ({"partitioned.by": ",".join(by)} if by else {})
        for number, rows in enumerate([*feeds, feeds[-1]]):  # the last one arrives again
            name = min(number, len(feeds) - 1)
            feed = place / f"feed{name}" if number > name else put(place / f"feed{name}", file_format, rows, of_feed)
            engine = "records" if number == 0 and fed and not by else "blocks"
            report = run(last, feed, place / f"out{number}", file_format, more, engine)
            counts.append({name: count for name, count in report.counts.items() if "ignored" not in name})
            last, more = place / f"out{number}", {}
            assert main(["verify", str(last)]) == 0
        found.append((texts_of(mutator.Dataset(last).to_arrow()), counts))
        assert len(report.consumed) == len([*feed.glob("**/rows.*")])
    assert found[0] == found[1]
    assert len(found[0][0]) == 5
    if own:
        expected = {3} if file_format in HEADLESS else {("id", "note", "at")}
        assert fields_of(last, file_format) == expected
        assert f"shop={'a%2Fb %3D%2520%3Aä'}" in {one.name for one in last.glob("*/*")}
    if own and file_format in ("parquet", "orc", "csv"):
        read = pyarrow.dataset.dataset(last, format=file_format, partitioning="hive").to_table()
        assert read.num_rows == 5
        assert sorted(read.column("shop").drop_null().to_pylist()) == ["EU", "UK", "a/b =%20:ä"]


TYPES_OF_VALUES = {
    "int32": ["7", None, "-1"],
    "int64": ["7", "3000000000"],
    "decimal128(38, 0)": ["7", "30000000000000000000"],
    "double": ["1.5", "-0.25"],
    "date32[day]": ["2026-01-31", "1969-12-31"],
    "timestamp[us]": ["2026-01-31 10:00:00", "2026-01-31 10:00:00.5"],
}
TEXTS = (["007"], ["2026-01-31", "7"], ["1.50"], ["1e5"], ["NaN"], ["true"], ["2026-02-30"], [None])


@pytest.mark.parametrize(("name", "values"), [*TYPES_OF_VALUES.items(), *(("string", one) for one in TEXTS)])
def test_types_are_inferred_as_spark_does_where_directories_keep_their_names(name, values):
    assert str(inferred_type(values)) == name


def small(place: Path, **files: dict[str, Any]) -> Path:
    """Write Parquet files of one row; in names, ``__`` is ``/``, and the first ``_`` of a directory ``=``."""
    for path, row in files.items():
        *above, name = path.split("__")
        directory = "/".join(one.replace("_", "=", 1) for one in above)
        (place / directory).mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist([{"id": 1, "at": 1, **row}])
        (place / directory / f"{name}.parquet").write_bytes(file_of("parquet", table))
    return place


FAULTS = {
    "beside": ({"shop_1__a": {}, "b": {}}, r"b\.parquet: lacks field shop, which .*shop=1/a\.parquet has in the name"),
    "level": ({"shop_1__day_2__a": {}, "shop_1__b": {}}, r"shop=1/b\.parquet: lacks field day, which"),
    "value": (
        {"shop_1__a": {"shop": 2}},
        r"a\.parquet: has a row whose field shop is '2', in a directory that says '1'",
    ),
    "twice": ({"shop_1__shop_2__a": {}}, "have two values of a field"),
    "type": ({"shop_x__a": {}}, r"its directory has the value 'x' of field shop, which is not of type int64"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_feed_whose_directories_contradict_its_files_stops(tmp_path, fault):
    files, message = FAULTS[fault]
    master = small(tmp_path / "master", shop_1__day_1__a={})
    small(tmp_path / "flat", a={"shop": 1, "day": 1, "at": 0})
    settings = {"partitioned.by": "shop,day"}
    run(master, tmp_path / "flat", tmp_path / "known", "parquet", {**settings, "op.code.field.ordinal": ""})
    feed = small(tmp_path / "feed", **{path: {"op": "U", **row} for path, row in files.items()})
    with pytest.raises(mutator.DataError, match=message):
        run(tmp_path / "known", feed, tmp_path / "out", "parquet", {"op.code.field.ordinal": "op"})


def test_a_field_that_is_in_the_path_and_in_the_file(tmp_path):
    """Equal values are no fault, however they are written, nor is a directory that is named like a derived field."""
    master = small(tmp_path / "master", a={"shop": 1, "day": date(2026, 1, 1)})
    rows = {"shop": 1, "day": date(2026, 1, 1), "at": 2, "op": "U"}
    feed = small(tmp_path / "feed", **{"shop_01__day_2026-01-01__a": rows})
    assert run(master, feed, tmp_path / "out", "parquet", {}).counts["feed updated"] == 1
    year = small(tmp_path / "year", day_2026__a=rows | {"at": 3})
    by = {"partitioned.by": "day=year(day)"}
    assert run(master, year, tmp_path / "next", "parquet", by).counts["feed updated"] == 1
    gone = small(tmp_path / "gone", shop_7__a={"shop": None, "at": 4, "op": "D"}, shop_1__b=rows | {"at": 3})
    assert run(master, gone, tmp_path / "last", "parquet", {}).counts["feed deleted"] == 1


def test_a_master_of_directories_without_partitioned_by_names_their_fields(tmp_path):
    master = small(tmp_path / "master", shop_1__day_1__a={})
    with pytest.raises(mutator.ConfigError, match=r"shop=1: is a directory, .* \(--partitioned-by shop,day\)"):
        run(master, small(tmp_path / "feed", a={"op": "U"}), tmp_path / "out", "parquet", {})


@pytest.mark.parametrize("side", ["master", "feed"])
def test_text_with_fields_in_its_paths_needs_their_names(tmp_path, side):
    for name in ("master", "feed"):
        place = tmp_path / name / ("shop=1" if name == side else ".")
        place.mkdir(parents=True)
        (place / "f_1.txt").write_text("a,1\n" if name == side else "a,1,1\n")
    by = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "1", "partitioned.by": "shop=2"}
    by |= {"op.code.field.ordinal": ""} | ({} if side == "master" else {"partitioned.by": ""})
    message = r"its first row has 2 fields, and .* if rows lack shop, as in Hive, set field\.names to the names of all"
    with pytest.raises(mutator.DataError, match=message):
        local_engine.mutate({**NO_LIMITS, **by}, master=str(tmp_path / "master"), feed=[str(tmp_path / "feed")],
                            output=str(tmp_path / "out"))  # fmt: skip


@pytest.mark.parametrize(("op", "row"), [("3", "a,1,2,U\n"), ("1", "a,U,1,2\n")])
def test_text_may_have_the_fields_of_its_paths_in_its_rows_too(tmp_path, op, row):
    (tmp_path / "master" / "shop=1").mkdir(parents=True)
    (tmp_path / "feed").mkdir()
    (tmp_path / "master" / "shop=1" / "a.txt").write_text("a,1,1\n")
    (tmp_path / "feed" / "f_1.txt").write_text(row)
    shop, at = ("1", "2") if op == "3" else ("2", "3")
    by = {"id.field.ordinals": "0", "temporal.ordering.field.ordinal": at, "partitioned.by": f"shop={shop}"}
    by |= {"op.code.field.ordinal": op, "op.code.in.master": "false"}
    report = local_engine.mutate({**NO_LIMITS, **by}, master=str(tmp_path / "master"), feed=[str(tmp_path / "feed")],
                                 output=str(tmp_path / "out"))  # fmt: skip
    assert report.counts["feed updated"] == 1


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_table_and_a_master_explain_records_of_hive_feeds(tmp_path, capsys, file_format):
    put(tmp_path / "lake", file_format, [(*row, "U") for row in MASTER], BY)
    for number, rows in enumerate(FEEDS):
        put(tmp_path / f"feed{number}", file_format, rows, BY)
    settings = ["--key", "id", "--order-by", "at", "--op", "op", "-D", "max.delete.fraction=1"]
    settings += ["--header", "true"] if file_format == "csv" else []
    feeds = [str(tmp_path / name) for name in ("lake", "feed0", "feed1")]
    table, master = str(tmp_path / "table"), str(tmp_path / "out")
    by = [*settings, "--partitioned-by", ",".join(BY)]
    assert main(["table", "create", table, *by]) == 0
    for feed in feeds:
        assert main(["table", "apply", table, "--feed", feed]) == 0
    assert capsys.readouterr().out.count("were merged before with other content; they are merged as new files") == 2
    more = ["--master", str(tmp_path / "none"), "-D", "allow.empty.master=true", "--output", master]
    assert main(["run", *by, *more, "--feed", *feeds]) == 0
    made = str(tmp_path / "made")
    of_own = ["--dataset", str(put(tmp_path / "own", file_format, MASTER, BY))]
    assert main(["table", "create", made, *of_own, *by[:4], *by[6:]]) == 0
    expected = sorted(tuple(str(one or "") for one in row) for row in MASTER)
    assert texts_of(mutator.Table(made).scan().to_arrow()) == expected
    assert texts_of(mutator.Table(table).scan().to_arrow()) == texts_of(mutator.Dataset(master).to_arrow())
    for place in (table, master):
        capsys.readouterr()
        assert main(["explain", place, "1", "--feed", *feeds, *settings[:6]]) == 0
        said = capsys.readouterr().out
        assert said.index("shop=EU/rows") < said.rindex("shop=UK/rows"), said
        assert "not found" not in said


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_diff_with_a_directory_of_hive_finds_no_difference(tmp_path, capsys, file_format):
    """With the types of the other dataset, whichever of them is the directory."""
    hive, rows = put(tmp_path / "hive", file_format, MASTER, BY), [(1, "a", 0, DAYS[0], "EU", "U")]
    run(
        hive,
        put(tmp_path / "old", file_format, rows, ()),
        tmp_path / "out",
        file_format,
        {"partitioned.by": "day,shop"},
    )
    header = ["--header", "true"] if file_format == "csv" else []
    for one, other in ((hive, tmp_path / "out"), (tmp_path / "out", hive)):
        capsys.readouterr()
        assert main(["diff", str(one), str(other), *header, "--key", "id", "--partitioned-by", "day,shop"]) == 0
        assert capsys.readouterr().out.startswith("no differences"), (one, other)


OF_BOTH = "day,shop"
PROPOSED = {("hive", "hive"): OF_BOTH, ("hive", "flat"): OF_BOTH, ("flat", "hive"): None, (None, "hive"): OF_BOTH}


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
@pytest.mark.parametrize("layout", PROPOSED)
def test_init_proposes_the_fields_of_directories(tmp_path, capsys, monkeypatch, file_format, layout):
    """Not the days of the order field, which are those of some directories."""
    monkeypatch.chdir(tmp_path)
    times = [(number, f"{day}T1{number}:00:00", at, day, shop) for number, _, at, day, shop in MASTER[:3]]
    of_master, of_feed = layout
    if of_master is not None:
        put(tmp_path / "master", file_format, times, BY if of_master == "hive" else ())
    later = [(number, f"{day}T2{number}:00:00", at + 9, day, shop) for number, _, at, day, shop in times]
    put(tmp_path / "feed", file_format, later, BY if of_feed == "hive" else ())
    names = ["--master", "master"] if of_master is not None else []
    assert main(["init", *names, "--feed", "feed", "--output", "m.toml"]) == 0, capsys.readouterr()
    found = tomllib.loads((tmp_path / "m.toml").read_text()).get("partitioned.by")
    assert found == PROPOSED[layout]
