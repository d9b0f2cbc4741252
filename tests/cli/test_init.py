"""``mutator init`` on every sample, every golden folder and files of every format, and on bad input.

What it proposes merges to the expected rows, or it says what it could not tell.
"""

import json
import os
import random
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet
import pytest

from mutator.cli import main
from mutator.config import parse
from mutator.config.sources import read_places, read_settings, settings_in
from mutator.errors import MutatorError
from tests.laws.test_compaction import RUNS, by_key, name_of
from tests.laws.test_compaction import read as read_avro
from tests.laws.test_compaction import write as write_avro
from tests.support import local_engine

ROOT = Path(__file__).parents[2]
SAMPLES = sorted(path.parent for path in (ROOT / "sample_data").glob("*/master"))
GOLDEN = sorted(path for path in (ROOT / "tests/golden").iterdir() if path.is_dir())


def proposed(key, order_by, **others):
    """Return the settings that init proposes for a file with commas."""
    return {"key": key, "order_by": order_by, "order_type": "long", "delimiter": ",", **others}


OP_CODES = proposed(0, 4, op=3, delete_codes=["D"])

# Golden folder -> why its data do not show its settings, what init prints on it (None: nothing), and what it proposes.
UNDECIDED = {
    "blank_lines": (
        "nothing shows that the damaged row should be set aside",
        "reject.policy=quarantine would",
        proposed(0, 3),
    ),
    "composite_id": (
        "one of the two ID fields is unique alone in the four rows",
        "Is the record ID field 0, or 1?",
        proposed(0, 3) | {"deleted.record.file.prefix": "del"},
    ),
    "delete_by_prefix": (
        "del_prod.txt and delaware.txt may be places",
        "Are all rows of del_prod.txt deletes?",
        proposed(0, 3),
    ),
    "delete_codes_of_other_spelling": (
        "a code has a blank, which no setting can have",
        "have them delivered without",
        OP_CODES | {"delete_codes": ["DELETE", "d"]},
    ),
    "empty_id": ("an ID field is empty in both rows", "Is the record ID field 1?", proposed(1, 2)),
    "full_snapshot": (
        "a delivery does not show that it is complete",
        "3 of the 4 IDs of the master, each of them once: if each delivery is a complete snapshot",
        {"key": 0, "delimiter": ","},
    ),
    "full_snapshot_of_half": ("one row of three looks like any upsert", None, proposed(0, 3)),
    "insert_overwrite": (
        "a feed does not show that it replaces everything",
        None,
        {"key": 0, "delimiter": ",", "deleted.record.file.prefix": "del_"},
    ),
    "insert_overwrite_rejects": (
        "a feed does not show that it replaces everything",
        None,
        {"key": 0, "delimiter": ","},
    ),
    "late": (
        "the feed is older than the master, and the price rises",
        "Does field 2 show the mutation that came last?",
        proposed(0, 2) | {"deleted.record.file.prefix": "del"},
    ),
    "missing_master_fail": (
        "init sets what this folder lacks",
        "there is no master yet",
        proposed(0, 3) | {"allow.empty.master": True},
    ),
    "op_code_keep": (
        "nothing shows that the result should keep the column",
        "keep the op code column of the master?",
        proposed(0, 3, op=1, delete_codes=["D"]) | {"op.code.keep": False},
    ),
    "unknown_op_codes": ("no tool has these codes", "Is '' (1), '?!' (1), '?D' (1) an op code of deletes?", OP_CODES),
    "regex_delimiter": (
        "blanks around two delimiters",
        "Is a semicolon the delimiter? 1 row of 5 then has",
        {"key": 1, "op": 0, "delete_codes": ["D"], "delimiter": ";"},
    ),
    "several_delete_codes": (
        "X may mean anything",
        "Is 'X' (1) an op code of deletes?",
        OP_CODES | {"delete_codes": ["DEL"]},
    ),
    "string_order": (
        "order values are neither numbers nor times",
        "Which field shows the mutation that came last?",
        {"key": 0, "delimiter": ","},
    ),
    "upsert_op_code_fail": ("u may be a mistake, or an update", "Are 'U' (1), 'u' (1) all upserts?", OP_CODES),
    "upsert_op_code_quarantine": ("the same", "Are 'U' (1), 'u' (1) all upserts?", OP_CODES),
}


@pytest.fixture(autouse=True)
def in_new_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def init(*words):
    """Return the exit code of ``mutator init``, and the settings in its file."""
    code = main(["init", *map(str, words)])
    path = Path("mutator.toml")
    return code, settings_in(path.read_text(encoding="utf-8")) if path.exists() else None


def rows_of(output):
    return sorted(row for path in Path(output).glob("part-*") for row in path.read_bytes().split(b"\n")[:-1])


def lines(path):
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def merged_rows(case, settings, feeds):
    """Merge the feeds of a golden folder one after the other; return the rows, or the error."""
    master = case / "master"
    for number, feed in enumerate(feeds, 1):
        output = f"{case.name}-{number}"
        try:
            local_engine.mutate(parse(settings), master=str(master), feed=[str(feed)], output=output)
        except MutatorError as fault:
            return fault
        master = output
    return rows_of(master)


def is_expected(case, found):
    if not (case / "error.txt").exists():
        return found == lines(case / "expected" / "rows.txt")
    code, _, part = (case / "error.txt").read_text(encoding="utf-8").partition("\n")
    return isinstance(found, MutatorError) and found.exit_code == int(code) and part.strip() in str(found)


@pytest.mark.thorough(keep=27)
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case.name)
def test_golden(case, capsys):
    feeds = [case / "feed", *sorted(case.glob("feed-*"))]
    if not feeds[0].exists():
        feeds[0] = Path("feed")
        feeds[0].mkdir()
    master = ["--master", case / "master"] if (case / "master").exists() else []
    _, settings = init(*master, *(word for feed in feeds for word in ("--feed", feed)))
    text = capsys.readouterr().out
    # A user confirms limits; no data can.
    own = {key: value for key, value in read_settings(case / "config.properties", ()).items() if "max." in key}
    found = merged_rows(case, {**settings, **own}, feeds)
    if case.name in UNDECIDED:
        assert not is_expected(case, found), "it is decided now: take it out of the list"
        _, part, expected = UNDECIDED[case.name]
        assert settings == expected
        assert part is None or part in " ".join(text.split())
    else:
        assert is_expected(case, found), text


def test_undecided_folders_exist():
    assert {case.name for case in GOLDEN} >= UNDECIDED.keys()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_sample(sample, capsys):
    """The rows are those of the sample's own configuration, and nothing is left to decide."""
    (own,) = sample.glob("*.properties")
    code, _ = init("--master", sample / "master", "--feed", sample / "feed")
    text = capsys.readouterr().out
    assert code == 0
    assert "please decide" not in text
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0
    local_engine.mutate(
        parse(read_settings(own, ())), master=str(sample / "master"), feed=[str(sample / "feed")], output="own"
    )
    assert rows_of("merged") == rows_of("own")


# --- files of each format

TYPES = {"order_id": "long", "customer_id": "long", "status": "string", "amount": "double", "op": "string"}
TIMES = ("created_at", "updated_at")


def orders(ids, day, seed):
    """Return orders that changed on a day of 2026."""
    chance = random.Random(seed)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        {
            "order_id": 1000 + number,
            "customer_id": chance.randrange(40),
            "status": chance.choice(["new", "paid", "sent"]),
            "amount": chance.randrange(10_000) / 100,
            "created_at": start + timedelta(minutes=7 * number),
            "updated_at": start + timedelta(days=day, seconds=chance.randrange(86_400)),
        }
        for number in ids
    ]


MASTER = orders(range(120), 40, 1)
# 100 … 119 are in the master; 105 and 112 are deleted.
FEED = [
    {**order, "op": "D" if order["order_id"] in (1105, 1112) else "U" if order["order_id"] < 1120 else "I"}
    for order in orders(range(100, 140), 80, 2)
]
EXPECTED = {1000 + number for number in range(140)} - {1105, 1112}


def parquet(path, rows):
    pa.parquet.write_table(pa.Table.from_pylist(rows), f"{path}.parquet")


def orc(path, rows):
    pa.orc.write_table(pa.Table.from_pylist(rows), f"{path}.orc")


def avro(path, rows):
    time = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": name, "type": time if name in TIMES else TYPES[name]} for name in rows[0]]
    with Path(f"{path}.avro").open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": "orders", "fields": fields}, rows)


def texts(row, most="%Y-%m-%dT%H:%M:%SZ"):
    return [value.strftime(most) if isinstance(value, datetime) else str(value) for value in row.values()]


def delimited(name, suffix, between, *, header=True, quote="{}"):
    """Return a function that writes delimited text. quote: of words."""

    def write(path, rows):
        table = [[quote.format(one) if one.isalpha() and len(one) > 1 else one for one in texts(row)] for row in rows]
        table = [list(rows[0]), *table] if header else table
        Path(f"{path}.{suffix}").write_text("".join(between.join(row) + "\n" for row in table), encoding="utf-8")

    write.__name__ = name
    return write


csv = delimited("csv", "csv", ",")
quoted_csv = delimited("quoted_csv", "csv", ";", quote='"a ""b""; {}"')
headerless_csv = delimited("headerless_csv", "csv", ",", header=False, quote='"{0}, {0}"')
piped = delimited("piped", "txt", "|")
tabs = delimited("tabs", "tsv", "\t", header=False)
FORMATS = (parquet, orc, avro, csv, quoted_csv, headerless_csv, piped, tabs)


def make(write, master=MASTER, feed=FEED):
    for side, rows in (("master", master), ("feed", feed)):
        Path(side).mkdir()
        write(f"{side}/orders", rows)


def merged_ids(output):
    """Return the IDs of the rows in an output of any format."""
    found = set()
    for path in Path(output).glob("part-*"):
        if path.suffix == ".parquet":
            found |= set(pa.parquet.read_table(path).column("order_id").to_pylist())
        elif path.suffix == ".orc":
            found |= set(pa.orc.read_table(path).column("order_id").to_pylist())
        elif path.suffix == ".avro":
            with path.open("rb") as stream:
                found |= {row["order_id"] for row in fastavro.reader(stream)}
        else:
            numbers = (line.split(b"\t")[0].split(b"|")[0].split(b";")[0].split(b",")[0] for line in lines(path))
            found |= {int(number) for number in numbers if number.isdigit()}
    return found


@pytest.mark.thorough(keep=3)
@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_format(write, capsys):
    """Two commands make the first correct merge: init, and the one that it prints."""
    make(write)
    code, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert code == 0, text
    named = write not in (tabs, headerless_csv)
    assert settings["key"] == ("order_id" if named else 0)
    assert settings["order_by"] == ("updated_at" if named else 5)
    typed = write in (parquet, orc, avro)
    assert settings.get("order_type") == (None if typed else "timestamp")
    assert (settings["op"], settings["delete_codes"]) == ("op" if named else 6, ["D"])
    assert "please decide" not in text
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0
    assert merged_ids("merged") == EXPECTED


def test_rows_become(capsys):
    make(csv)
    init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    for outcome in ("inserted", "updated", "deleted"):
        assert f"orders.csv -> {outcome}" in text
    assert "the master has order_id=1100, " in text
    assert "120 distinct values in 120 rows of the master; 20 of 40 IDs of the feed occur there" in text
    init("--master", "master", "--feed", "feed", "--force", "-D", "report.fields=none")
    text = capsys.readouterr().out
    assert "dry run" in text
    assert "orders.csv -> " not in text
    assert "order_id=1" not in text


# --- other inputs

SALES = ROOT / "sample_data" / "sales"


def write(path, text):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def sales_rows():
    return (SALES / "master" / "base_sales.txt").read_text(encoding="ascii").splitlines()


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        (lambda row: f"store_id={row[6]}/create_date={row[7]}", "store_id=6,create_date=7"),
        (lambda row: f"day={row[2][:10]}", "day=date(2)"),
        (lambda row: f"year={row[2][:4]}/month={row[2][5:7]}", "year=year(2),month=month(2)"),
    ],
)
def test_partitions(directory, expected, capsys):
    for row in sales_rows():
        write(f"master/{directory(row.split(','))}/base.txt", f"{row}\n")
    code, settings = init("--master", "master", "--feed", SALES / "feed")
    assert code == 0
    assert (settings["key"], settings["order_by"]) == ([0, 1], 2)
    assert settings["partitioned.by"] == expected
    assert "output rows                      504" in capsys.readouterr().out


def test_ids_that_are_unique_within_partitions_alone():
    for store in ("S1", "S2"):
        rows = "".join(f"{number},{store},item {number % 7},{1700000000 + number}\n" for number in range(50))
        write(f"master/store={store}/base.txt", rows)
    write("feed/ups.txt", "7,S1,new,1700001000\n7,S2,new,1700001000\n")
    _, settings = init("--master", "master", "--feed", "feed", "--key", "0")
    assert (settings["partitioned.by"], settings["key.scope"]) == ("store=1", "partition")


def test_directories_that_no_field_has(capsys):
    for region in ("north", "south"):
        write(f"master/region={region}/base.txt", "".join(f"{region}{number},1700000000\n" for number in range(20)))
    write("feed/ups.txt", "north3,1700000001\n")
    code, settings = init("--master", "master", "--feed", "feed")
    assert code == 3
    assert "partitioned.by" not in settings
    assert "Which field has the values of the directories region=…?" in capsys.readouterr().out


@pytest.mark.thorough(keep=2)
@pytest.mark.parametrize("write_rows", [parquet, avro, orc, csv, piped], ids=lambda one: one.__name__)
def test_master_of_an_earlier_run(write_rows):
    """The ID and the order are those of the manifest."""
    make(write_rows)
    init("--master", "master", "--feed", "feed")
    words = ["--config", "mutator.toml", "--master", "master", "--feed", "feed", "--output", "merged"]
    assert main(["run", "--runner", "local", *words]) == 0
    Path("next").mkdir()
    write_rows("next/orders_2", [{**row, "updated_at": row["updated_at"] + timedelta(days=9)} for row in FEED[:10]])
    code, settings = init("--master", "merged", "--feed", "next", "--force")
    assert code == 0
    assert (settings["key"], settings["order_by"]) == ("order_id", "updated_at")
    assert settings["order_type"] == "timestamp"
    assert (
        main(["run", "--runner", "local", *words[:2], "--master", "merged", "--feed", "next", "--output", "newer"]) == 0
    )


@pytest.mark.parametrize("pattern", ["date", r"o_\d+_(?P<number>\d+)", None])
def test_master_with_a_pattern_of_sequences(pattern):
    """A dry run of the proposal would stop if the pattern were another."""
    given = [] if pattern is None else ["-D", f"sequence.pattern={pattern}"]
    write("master/base.txt", "".join(f"k{number},a\n" for number in range(20)))
    write("feed/o_20261231_2.txt", "k1,b\nk2,b\n")
    write("next/o_20270101_3.txt", "k1,c\nk3,c\n")
    words = ["--key", "0", "--master", "master", "--feed", "feed", "--output", "merged"]
    assert main(["run", "--runner", "local", *words, *given]) == 0
    code, settings = init("--master", "merged", "--feed", "next")
    assert (code, settings.get("sequence.pattern")) == (0, pattern)


def test_first_run_without_a_master(capsys):
    make(csv)
    code, settings = init("--feed", "feed")
    text = capsys.readouterr().out
    assert code == 0
    assert settings["allow.empty.master"] is True
    assert (settings["key"], settings["order_by"]) == ("order_id", "updated_at")
    command = shlex.split(text.splitlines()[-1])
    assert not Path(read_places("mutator.toml")["master"]).exists()
    assert main([*command[1:], "--runner", "local"]) == 0
    assert merged_ids("merged") == {order["order_id"] for order in FEED} - {1105, 1112}


def test_control_files():
    rows = "".join(f"k{number},{1700000100 + number}\n" for number in range(20))
    write("master/base.txt", rows)
    write("feed/ups.txt", rows.replace("17000001", "17000002"))
    write("feed/ups.txt.ctl", "rows=20\n")
    code, settings = init("--master", "master", "--feed", "feed")
    assert (code, settings["feed.control.suffix"]) == (0, ".ctl")


def test_deletes_with_ids_alone():
    write("master/base.txt", "".join(f"row {number},s{number % 3},k{number}\n" for number in range(30)))
    write("feed/ups_1.txt", "new,s1,k1\n")
    write("feed/del_2.txt", "k7,s1\n")
    code, settings = init("--master", "master", "--feed", "feed")
    assert code == 0
    assert settings["key"] == [2, 1]
    assert "order_by" not in settings
    assert settings["deleted.record.file.prefix"] == "del_"


def test_the_first_rows_decide_between_times(capsys):
    """The time of a change is newer in the feed; other times are not."""
    write("master/b.txt", "".join(f"k{n};2026-01-{1 + n:02};2026-02-01T10:00:00Z;{n}\n" for n in range(20)))
    write("feed/u.txt", "".join(f"k{n};2026-01-{1 + n:02};2026-03-01T10:00:{n:02}Z;{9 * n}\n" for n in range(5, 25)))
    code, settings = init("--master", "master", "--feed", "feed")
    assert code == 0
    assert (settings["key"], settings["order_by"], settings["delimiter"]) == (0, 2, ";")


def test_one_damaged_order_value_of_many(capsys):
    """It does not disqualify the field, though the numbers in file names would be an order, too."""
    write("master/m.psv", "".join(f"P{n}|name {n % 7}|{n % 9}|2026-01-01T00:00:00\n" for n in range(40)))
    rows = "".join(f"P{n}|name {n % 7}|{n % 5}|2026-02-01T00:00:00|U\n" for n in range(40))
    write("feed/d_1.psv", f"{rows}P99|new|5|not-a-time|I\n")
    words = ("--master", "master", "--feed", "feed", "--force")
    code, settings = init(*words)
    text = capsys.readouterr().out
    assert (code, settings["order_by"], settings["order_type"]) == (3, 3, "timestamp")
    damaged = "1 of 81 values is not an ISO 8601 time, so its row would be rejected"
    assert f"{damaged}: 'not-a-time' in row 41 of d_1.psv" in text
    assert "all but 1 of the values of the first rows have this type" in text
    assert "the dry run stopped: 1 feed row cannot be read" in text
    assert "In the first" not in text  # no setting would make the value valid
    assert init(*words, "-D", "reject.policy=quarantine")[0] == 0
    capsys.readouterr()
    init(*words, "-D", "report.fields=0")
    text = capsys.readouterr().out
    assert f"{damaged}: '…' in row 41 of d_1.psv" in text
    assert "not-a-time" not in text + Path("mutator.toml").read_text(encoding="utf-8")


def test_a_damaged_time_in_text_beside_typed_times(capsys):
    """The master's type is that of the feed's values, one of which does not have it."""
    make(parquet)
    for path in Path("feed").iterdir():
        path.unlink()
    csv("feed/orders", FEED * 2)
    path = Path("feed/orders.csv")
    path.write_text(path.read_text(encoding="utf-8").rpartition("2026")[0] + "soon,U\n", encoding="utf-8")
    _, settings = init("--master", "master", "--feed", "feed")
    assert settings["order_by"] == "updated_at"
    assert "'soon' in row 80 of orders.csv" in capsys.readouterr().out


def test_header_that_is_not_utf_8(capsys):
    """An encoding is proposed that makes them so. Dates of other forms have no order."""
    for side, first, day in (("master", 0, "01"), ("feed", 40, "02")):
        Path(side).mkdir()
        table = "".join(
            f"{number};Name {number % 3};{number % 28 + 1:02}.{day}.2026\r\n" for number in range(first, 60)
        )
        Path(side, "kunden.csv").write_bytes(f"Nr;Größe;Geändert am\r\n{table}".encode("cp1252"))
    code, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert code == 3
    assert settings == {"key": "Nr", "delimiter": ";", "header": True, "encoding": "cp1252"}
    assert "Can field Geändert am be delivered in ISO 8601, as in 2026-01-31? Its dates, such as '01.01.2026'" in text


def test_master_rows_without_an_order_value():
    master = [{**order, "updated_at": None} if number < 9 else order for number, order in enumerate(MASTER)]
    make(parquet, master)
    code, settings = init("--master", "master", "--feed", "feed")
    assert (code, settings["order_by"], settings["null.order"]) == (0, "updated_at", "lowest")


def test_a_flag_of_deletes_is_a_note(capsys):
    flagged = [
        {**order, "is_deleted": str(order["order_id"] == 1105).lower()} for order in orders(range(90, 110), 80, 2)
    ]
    make(csv, [{**order, "is_deleted": "false"} for order in MASTER], flagged)
    assert init("--master", "master", "--feed", "feed")[0] == 0
    assert "field is_deleted has 'false' or 'true': if it marks deletes, set op to it" in capsys.readouterr().out


@pytest.mark.thorough(keep=0)
def test_many_rows_take_seconds():
    """Every rule looks at each value once: of 40,000 rows of six fields no two of which are unique together."""
    chance = random.Random(7)
    for side, count, time in (("master", 40_000, 1_700_000_000), ("feed", 20_000, 1_760_000_000)):
        Path(side).mkdir()
        ids = chance.sample(range(64_000), count)
        table = (
            f"{number % 40},{number // 40 % 40},{number // 1600},b{number % 9},{number % 99},{time + at // 2}\n"
            for at, number in enumerate(ids)
        )
        Path(side, "rows.txt").write_text("".join(table), encoding="ascii")
    before = process_time()
    code, settings = init("--master", "master", "--feed", "feed")
    assert (code, settings["key"], settings["order_by"]) == (0, [0, 1, 2], 5)
    assert process_time() - before < 30  # it takes one or two; quadratic rules took minutes


def test_several_words_for_deletes(capsys):
    rows = "".join(f"k{number},{1700000000 + number}\n" for number in range(20))
    write("master/base.txt", rows)
    write("feed/ups_1.txt", "k30,1700001000\n")
    write("feed/del_2.txt", "k1,1700001000\n")
    write("feed/deleted_3.txt", "k2,1700001000\n")
    code, settings = init("--master", "master", "--feed", "feed")
    assert (code, settings["deleted.record.file.prefix"]) == (0, "del")
    Path("feed/deleted_3.txt").rename("feed/removed_3.txt")
    assert init("--master", "master", "--feed", "feed", "--force")[0] == 3
    assert "A run has one prefix of delete files, and removed_3.txt has another: rename it." in capsys.readouterr().out


@pytest.mark.thorough(keep=0)
def test_s3(s3, capsys):
    client = s3.client()
    client.create_bucket(Bucket="lake")
    for path in sorted(SALES.glob("*/*.txt")):
        client.upload_file(str(path), "lake", f"sales/{path.parent.name}/{path.name}")
    code, settings = init("--master", "s3://lake/sales/master", "--feed", "s3://lake/sales/feed")
    text = capsys.readouterr().out
    assert (code, settings["key"]) == (0, [0, 1])
    assert text.splitlines()[-1] == "mutator run"
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0
    assert "output rows                      504" in capsys.readouterr().out


def test_files_in_place_of_directories(capsys):
    make(csv)
    code, _ = init("--master", "master/orders.csv", "--feed", "feed/orders.csv")
    assert code == 0
    assert main([*shlex.split(capsys.readouterr().out.splitlines()[-1])[1:], "--runner", "local"]) == 0
    assert merged_ids("merged") == EXPECTED


# --- snapshot + delta compaction


@pytest.mark.parametrize("run", [run for run in RUNS if not run.partition], ids=name_of)
def test_compaction(run, capsys):
    """Avro files of the published compaction: the newest record of each key, and the newest schema."""
    master, feed = write_avro(run, Path.cwd(), "avro")
    _, settings = init("--master", master, *(word for path in feed for word in ("--feed", path)))
    text = capsys.readouterr().out
    own = {key: value for key, value in run.settings("avro").items() if key.startswith("default.")}
    report = local_engine.mutate(parse({**settings, **own}), master=master, feed=feed, output="merged")
    found, _ = read_avro(Path("merged"))
    assert by_key(run, found) == run.document("expected.json")["records"], (text, report.text())


# --- the command


def test_output_and_force(capsys):
    make(csv)
    words = ("--master", "master", "--feed", "feed")
    assert init(*words, "-o", "other.toml")[0] == 0
    assert Path("other.toml").exists()
    assert not Path("mutator.toml").exists()
    before = Path("other.toml").read_bytes()
    capsys.readouterr()
    assert init(*words, "-o", "other.toml")[0] == 2
    assert "other.toml: exists; name another file with -o, overwrite it with --force" in capsys.readouterr().err
    assert init(*words, "-o", "other.toml", "--force", "--key", "order_id,customer_id")[0] == 0
    assert Path("other.toml").read_bytes() != before
    assert init(*words, "-o", "none/other.toml")[0] == 2
    assert "there is no such directory" in capsys.readouterr().err


def test_a_file_that_appears_while_init_runs(monkeypatch, capsys):
    """It is not overwritten without --force."""
    make(csv)
    monkeypatch.setattr("mutator.cli.init_commands._check_target", lambda path, force: path.write_text("own"))
    assert main(["init", "--master", "master", "--feed", "feed"]) == 2
    assert Path("mutator.toml").read_text(encoding="utf-8") == "own"
    assert "mutator.toml: exists" in capsys.readouterr().err
    assert main(["init", "--master", "master", "--feed", "feed", "--force"]) == 0
    assert not list(Path.cwd().glob(".mutator*"))


def test_files_of_killed_writers_are_removed():
    make(csv)
    old, new, other = (
        f".{name}.toml.{digit * 32}" for name, digit in (("mutator", "a"), ("mutator", "b"), ("own", "c"))
    )
    for name in (old, new, other):
        write(name, "x")
        if name != new:
            os.utime(name, (1, 1))
    assert init("--master", "master", "--feed", "feed")[0] == 0
    assert sorted(path.name for path in Path.cwd().glob(".*.toml.*")) == [new, other]
    assert init("--master", "master", "--feed", "feed", "--force")[0] == 0


def test_typed_times_need_no_type(capsys):
    times = pa.array([1767225600, 1767225601], pa.timestamp("s"))
    for side, shift in (("master", 0), ("feed", 10)):
        Path(side).mkdir()
        table = pa.table({"id": ["a", "b"], "at": pc.add(times, pa.scalar(shift, pa.duration("s")))})
        pa.parquet.write_table(table, f"{side}/f.parquet")
    code, settings = init("--master", "master", "--feed", "feed")
    assert (code, settings) == (0, {"key": "id", "order_by": "at"})
    text = capsys.readouterr().out
    assert 'order_by = "at"\n    timestamps; all values of the feed' in text
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0


def test_the_format_of_one_side_is_shown(capsys):
    """Quotes of CSV would be a part of values of text."""
    write("master/a.dat", "".join(f'"k{n}"|{1700000000 + n}\n' for n in range(30)))
    write("feed/b.dat", '"k3"|1710000000\n"k4"|1710000001\n')
    words = ("--master", "master", "--feed", "feed", "--force")
    init(*words)
    assert "1 file, CSV, 30 rows" in capsys.readouterr().out
    code, settings = init(*words, "-D", "master.format=text", "-D", "feed.format=text")
    text = capsys.readouterr().out
    assert (code, settings.get("input.format")) == (0, None), text
    assert "1 file, delimited text, 30 rows read" in text
    write("master2/a.dat", "id|at\n" + "".join(f"k{n}|{1700000000 + n}\n" for n in range(30)))
    write("feed2/b.dat", "id|at\nk3|1710000000\nk4|1710000001\n")
    words = ("--master", "master2", "--feed", "feed2", "--force")
    code, settings = init(*words, "-D", "master.format=csv", "-D", "feed.format=csv")
    text = capsys.readouterr().out
    assert (code, settings["key"]) == (0, "id"), text
    assert "1 file, CSV, 30 rows read" in text
    assert "field.names" not in settings


def test_printed_file(capsys):
    make(csv)
    assert init("--master", "master", "--feed", "feed", "-o", "-") == (0, None)
    settings = settings_in(capsys.readouterr().out)
    assert parse(settings).rows.key.ids == ("order_id",)


def test_json(capsys):
    make(csv)
    assert init("--master", "master", "--feed", "feed", "--json")[0] == 0
    found = json.loads(capsys.readouterr().out)
    assert found["settings"][0]["key"] == "key"
    assert found["settings"][0]["value"] == "order_id"
    assert found["dry_run"]["counts"]["output rows"] == 138
    assert {row["outcome"] for row in found["rows"]} == {"inserted", "updated", "deleted"}
    assert found["command"] == "mutator run"


def test_settings_of_the_user_decide(capsys):
    case = ROOT / "tests" / "golden" / "composite_id"
    code, settings = init("--master", case / "master", "--feed", case / "feed", "--key", "0,2", "-D", "num.reducer=3")
    assert code == 0
    assert (settings["key"], settings["num.reducer"]) == ("0,2", "3")
    assert "Is the record ID" not in capsys.readouterr().out
    assert is_expected(case, merged_rows(case, settings, [case / "feed"]))


def test_paths_with_blanks_are_quoted(capsys):
    make(csv)
    Path("feed").rename("the feed")
    assert init("--master", "master", "--feed", "the feed")[0] == 0
    assert main([*shlex.split(capsys.readouterr().out.splitlines()[-1])[1:], "--runner", "local"]) == 0


def test_limits_are_left_to_the_user(capsys):
    """A dry run that stops is shown with its reason; the file is there to correct it."""
    write("master/base.txt", "".join(f"k{number},{1700000000 + number}\n" for number in range(20)))
    write("feed/del_1.txt", "".join(f"k{number},{1700001000 + number}\n" for number in range(15)))
    code, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert (code, settings["key"]) == (3, 0)
    assert "the dry run stopped: the run would remove 15 of the master's 20" in text
    assert "wrote mutator.toml; not ready to run: correct what stopped the dry run, then:" in text


def numbered(form, count=40):
    return "".join(form.format(n, n % 4, 1_700_000_000 + n) + "\n" for n in range(1, count + 1))


@pytest.mark.parametrize(
    ("header", "form", "key", "order", "note"),
    [
        ("1,0,ts", "{0},v{1},{2}", 0, 2, "the name '1' is a number"),
        (",id,name,updated_at", "{0},k{0},v{1},{2}", None, 3, "field 0 has no name: an index that pandas wrote?"),
        ("0,1,2", "k{0},v{1},{2}", 0, 2, "the names are numbers, as pandas writes"),
        ("id,v,v,ts", "k{0},v{1},x,{2}", 0, 3, "the name 'v' occurs twice"),
        ('"id, no",v,ts', "k{0},v{1},{2}", 0, "ts", None),
        ("id,a=b,ts", "k{0},v{1},{2}", 0, 2, "the name 'a=b' has an equals sign"),
        ("#id,v,ts", "k{0},v{1},{2}", 0, 2, "the name '#id' has a hash"),
        ("id,it's,ts", "k{0},v{1},{2}", 0, 2, 'the name "it\'s" has a quote'),
    ],
)
def test_headers_with_odd_names(header, form, key, order, note, capsys):
    write("master/a.csv", f"{header}\n{numbered(form)}")
    write("feed/b.csv", f"{header}\n{form.format(3, 9, 1710000000)}\n")
    _, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert settings["header"] is True
    assert settings["order_by"] == order
    assert key is None or settings["key"] == key
    assert note is None or note in " ".join(text.split())
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0
    values = b"\n".join(rows_of("merged"))
    assert (values.count(b"v9"), values.count(b"1710000000"), values.count(b"1700000003")) == (1, 1, 0)


def test_a_header_that_joined_files_repeat(capsys):
    write("master/a.csv", "id,name\n1,lamp\n2,desk\n")
    write("feed/b_1.csv", "id,name\n1,L\nid,name\n2,D\n")
    settings = init("--master", "master", "--feed", "feed")[1]
    assert (settings["key"], settings["header"]) == ("id", True)


def test_fields_of_avro_that_have_other_names_by_aliases():
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "ts", "type": "long"}]
    newer = [{"name": "cust_id", "type": "long", "aliases": ["id"]}, *fields[1:]]
    for path, form, count in (("master/m.avro", fields, 30), ("feed/f_1.avro", newer, 2)):
        rows = [{form[0]["name"]: n, "name": f"{path[0]}{n}", "ts": 1_700_000_000 + 9 * n} for n in range(count)]
        Path(path).parent.mkdir()
        with Path(path).open("wb") as stream:
            fastavro.writer(stream, fastavro.parse_schema({"type": "record", "name": "r", "fields": form}), rows)
    assert init("--master", "master", "--feed", "feed")[1]["key"] == "cust_id"


def test_first_rows_that_are_records():
    """The same record begins both sides: it is no header."""
    write("master/a.txt", numbered("{0},v{1},{2}"))
    write("feed/b.txt", numbered("{0},v{1},{2}", 3))
    assert "header" not in init("--master", "master", "--feed", "feed")[1]


@pytest.mark.parametrize("every", [1, 9])
@pytest.mark.parametrize("suffix", ["csv", "txt"])
def test_stray_quotes_are_text(every, suffix, capsys):
    """One inch sign does not make values quoted."""
    rows = "".join(f"k{n}|pipe {n % 5}{chr(34) * (n % every == 0)}|{1_700_000_000 + n}\n" for n in range(30))
    write(f"master/a.{suffix}", f"id|name|ts\n{rows}")
    write(f"feed/b.{suffix}", 'id|name|ts\nk3|pipe 9"|1710000000\n')
    code, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert (code, settings["key"], settings["order_by"]) == (0, "id", "ts"), text
    assert settings.get("input.format", "text") == "text"
    assert "delimited text, 30 rows read" in text
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0


@pytest.mark.parametrize("note", [r'"a 3\" bolt, red"', r'"C:\\parts, red"'])
def test_csv_of_spark(note, capsys):
    rows = "".join(f"k{n},{note if n % 2 else 'red'},{1_700_000_000 + n}\n" for n in range(30))
    write("master/a.csv", f"id,name,ts\n{rows}")
    write("feed/b.csv", f"id,name,ts\nk3,{note},1710000000\n")

    code, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert (code, settings["key"], settings["csv.escape"]) == (0, "id", "\\"), text
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0


def test_doubled_backslashes_are_a_warning(capsys):
    settings = ["--key", "id", "--order-by", "ts", "--dry-run"]
    write("master/a.csv", 'id,name,ts\nk1,"\\\\server\\x, red",1\n')
    write("feed/b.csv", 'id,name,ts\nk3,"C:\\\\parts, red",2\n')
    run = ["run", "--master", "master", "--feed", "feed", "--output", "merged", *settings]

    assert main(run) == 0
    warning = r"""each backslash within quotes in b.csv is doubled, in '"C:\\parts, red"' for example"""
    assert warning in capsys.readouterr().err
    for escape in ('"', "\\"):
        assert main([*run, "-D", f"csv.escape={escape}"]) == 0
        assert "is doubled" not in capsys.readouterr().err


def test_the_given_format_is_shown(capsys):
    make(csv)
    init("--master", "master", "--feed", "feed", "-D", "input.format=text")
    assert "1 file, delimited text, 120 rows read" in capsys.readouterr().out


def test_control_characters_in_values_of_a_given_format(capsys):
    """Only without a format does such a file count as binary, as in a run."""
    for side, first, time in (("master", 0, 1_700_000_000), ("feed", 30, 1_710_000_000)):
        Path(side).mkdir()
        values = (b"k%d,\x0e\x0f\x10\x11\xff,%d\n" % (number, time + number) for number in range(first, 60))
        Path(side, "a.txt").write_bytes(b"".join(values))
    words = ("--master", "master", "--feed", "feed", "--force")
    assert init(*words)[0] == 3
    assert "set input.format=text" in capsys.readouterr().err
    code, settings = init(*words, "-D", "input.format=text")
    assert (code, settings["key"], settings["order_by"]) == (0, 0, 2)
    code, _ = init(*words, "-D", "feed.format=text")
    assert code == 3
    assert "master/a.txt: is neither text nor" in capsys.readouterr().err


def test_a_given_delimiter_that_is_a_control_character():
    for side, first, time in (("master", 0, 1_700_000_000), ("feed", 30, 1_710_000_000)):
        Path(side).mkdir()
        values = (b"k%d\x0e\xff\x0e%d\n" % (number, time + number) for number in range(first, 60))
        Path(side, "a.txt").write_bytes(b"".join(values))
    code, settings = init("--master", "master", "--feed", "feed", "-D", "field.delim.regex=\\u000e")
    assert (code, settings["key"], settings["order_by"]) == (0, 0, 2)


@pytest.mark.thorough(keep=4)
@pytest.mark.parametrize("suffix", ["txt", "csv"])
@pytest.mark.parametrize("file_format", ["escaped", "csv", "text"])
@pytest.mark.parametrize("op", [(), ("--op", "op")], ids=["found", "given"])
def test_names_of_a_feed_row(op, file_format, suffix, capsys):
    """Rows of the master lack the op code, which field.names has."""
    delimiter = "\\x2c" if file_format == "escaped" else "x"
    write(f"master/a.{suffix}", numbered("k{0},v" + delimiter + "{1},{2}"))
    write(f"feed/b.{suffix}", f"U,k3,v{delimiter}9,1710000000\nD,k4,v,1710000001\n")
    words = ("-D", f"input.format={file_format}", "-D", "field.names=op,id,v,ts", *op)
    code, settings = init("--master", "master", "--feed", "feed", *words)
    text = capsys.readouterr().out
    assert code == 0, text
    assert (settings["key"], settings["order_by"], settings["op"]) == ("id", "ts", "op")
    assert main([*shlex.split(text.splitlines()[-1])[1:], "--runner", "local"]) == 0
    assert len([row for row in rows_of("merged") if row.startswith(b"k")]) == 39


def test_escaped_text_is_shown(capsys):
    """Quotes are a part of its values."""
    write("master/a.txt", numbered('k{0}|"a\\x7cb"|{2}'))
    write("feed/b.txt", 'k3|"c"|1710000000\n')
    words = ("--master", "master", "--feed", "feed", "--force", "-D", "master.format=escaped")
    code, settings = init(*words, "-D", "feed.format=escaped")
    text = capsys.readouterr().out
    assert (code, settings["key"], settings["order_by"]) == (0, 0, 2), text
    assert "1 file, escaped text, 40 rows read" in text


@pytest.mark.parametrize(
    ("form", "odd", "alternative"),
    [
        ("k{0}|v{1}|{2}", "k{0}|v|{1}|{2}", None),  # a damaged row
        ("k{0}|v{1}|{2}", "k{0};v{1}|{2}", "[|;]"),
        ("k{0}|v{1}, x|{2}", "k{0};v{1}, x|{2}", "[|;]"),  # each row has the comma
        ("k{0} | v{1} | {2}", "k{0} ^ v{1} | {2}", "\\s*[|\\^]\\s*"),
        ("k{0}\tv{1}\t{2}", "k{0}\tv{1},{2}", "[\\t,]"),
        ("k{0};v{1};{2}", "k{0};v{1},{2}", "[;,]"),
    ],
)
def test_another_delimiter_in_some_rows(form, odd, alternative, capsys):
    """It is derived from these rows: about one of eight."""
    rows = [(odd if number % 8 == 7 else form).format(number, "x", 1_700_000_000 + number) for number in range(80)]
    write("master/a.txt", "\n".join(rows) + "\n")
    write("feed/b.txt", form.format(3, "x", 1_710_000_000) + "\n")
    words = ("--master", "master", "--feed", "feed", "--json", "--force")
    init(*words)
    found = json.loads(capsys.readouterr().out)
    (delimiter,) = (one for one in found["settings"] if one["key"] == "delimiter")
    assert "10 rows of 81 then have another number of fields" in delimiter["question"]
    assert [one["value"] for one in delimiter["alternatives"]] == ([] if alternative is None else [alternative])
    if alternative is not None:
        assert init(*words[:-2], "--force", "--delimiter", alternative)[0] == 0
        assert "  rejected " not in capsys.readouterr().out


@pytest.mark.parametrize("odd_side", ["master", "feed"])
def test_first_row_of_another_width(odd_side, capsys):
    """It does not decide how many fields the rows have, nor which rows show the ID."""
    for side, path, time in (("master", "master/a.txt", 1_700_000_000), ("feed", "feed/b.txt", 1_710_000_000)):
        odd = range(0, 60, 6) if side == odd_side else ()
        rows = (f"k{n},{'v,' * (n in odd)}v{n % 4},{time + n}\n" for n in range(60))
        write(path, "".join(rows))
    policy = ("-D", "reject.policy=quarantine", "-D", "master.reject.policy=quarantine", "-D", "max.reject.fraction=1")
    code, settings = init("--master", "master", "--feed", "feed", *policy)
    text = capsys.readouterr().out
    assert code == 0, text
    assert (settings["key"], settings["order_by"], settings["field.count"]) == (0, 2, 3)
    name = "a.txt" if odd_side == "master" else "b.txt"
    assert f"the first row of {name} has 4 fields, and 50 of its first 60 rows have 3" in " ".join(text.split())
    assert "50 of 60 rows read" in text
    assert "rejected                        10" in text


def test_a_few_milliseconds_among_seconds(capsys):
    """The rule is that of a run: it counts all rows, and some numbers may be in place of times."""
    times = [0, *range(1_700_000_001, 1_700_000_300)]
    write("master/a.txt", "".join(f"k{n},{time}\n" for n, time in enumerate(times)))
    words = ("--master", "master", "--feed", "feed", "--force")
    write("feed/b.txt", "k3,1710000000\n")
    code, settings = init(*words)
    assert (code, settings["order_by"]) == (0, 1)
    assert "seconds since 1970" in capsys.readouterr().out
    write("master/a.txt", "k300,1700000300000\n")
    code, settings = init(*words)
    assert (code, settings.get("order_by")) == (3, None)
    assert "Field 1 has milliseconds and seconds, which cannot be compared" in capsys.readouterr().out


def test_large_numbers_that_are_no_times(capsys):
    """Several of them are beyond all times, so that no unit is wrong."""
    sizes = [1_700_000_000_000, *range(1_700_000_000, 1_700_000_210), *range(10**10, 10**10 + 20)]
    write("master/a.txt", "".join(f"k{n},{size}\n" for n, size in enumerate(sizes)))
    write("feed/b.txt", "k3,1710000000\n")
    init("--master", "master", "--feed", "feed")
    assert "which cannot be compared" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ids", "is_snapshot"),
    [
        (range(100), True),
        (range(10, 110), True),
        (range(20), False),  # changes
        ([*range(80), 3], False),  # an ID twice
        (range(400), False),  # the master is a part of it
    ],
)
def test_note_on_a_complete_snapshot(ids, is_snapshot, capsys):
    write("master/a.txt", "".join(f"k{n},{1_700_000_000 + n}\n" for n in range(100)))
    write("feed/b.txt", "".join(f"k{n},{1_710_000_000 + n}\n" for n in ids))
    assert init("--master", "master", "--feed", "feed")[0] == 0
    assert ("if each delivery is a complete snapshot" in " ".join(capsys.readouterr().out.split())) == is_snapshot


@pytest.mark.parametrize("form", [csv, tabs], ids=["csv", "tabs"])
@pytest.mark.parametrize("words", [("--op", "nope"), ("--key", "nope"), ("--order-by", "nope")], ids=" ".join)
def test_a_field_that_no_file_has(form, words, capsys):
    make(form)
    assert init("--master", "master", "--feed", "feed", *words) == (2, None)
    error_text = capsys.readouterr().err
    assert "no input has a field nope; they have" in error_text


@pytest.mark.parametrize("form", [csv, tabs], ids=["csv", "tabs"])
@pytest.mark.parametrize("by", ["nope", "date(nope)", "day=date(nope)"])
def test_a_partition_field_that_no_file_has(form, by, capsys):
    make(form)
    assert init("--master", "master", "--feed", "feed", "-D", f"partitioned.by={by}") == (2, None)
    error_text = capsys.readouterr().err
    assert "partitioned.by: no input has a field nope; they have" in error_text


def test_seconds_and_milliseconds_cannot_be_compared(capsys):
    write("master/a.txt", numbered("k{0},v{1},{2}"))
    write("feed/b.txt", numbered("k{0},v{1},{2}000", 9))
    code, settings = init("--master", "master", "--feed", "feed")
    assert (code, settings.get("order_by")) == (3, None)
    assert "Field 2 has milliseconds and seconds, which cannot be compared" in capsys.readouterr().out


# --- bad input: where, what, and the cure


def rows(count):
    return "".join(f"k{number},v{number},{1700000000 + number}\n" for number in range(count))


def make_bad(what):
    for side in ("master", "feed"):
        Path(side).mkdir()
    if what != "no rows":
        write("master/base.txt", rows(20))
    feed = Path("feed/ups.txt")
    if what == "binary":
        feed.write_bytes(random.Random(3).randbytes(5000))
    elif what == "other delimiter":
        write(feed, rows(20).replace(",", ";"))
    elif what == "not compressed":
        write("feed/ups.txt.gz", rows(20))
    elif what == "cut Parquet":
        Path("feed/ups.parquet").write_bytes(b"PAR1" + bytes(100))
    elif what == "header on one side":
        write(feed, "id,name,changed\n" + rows(20))
    elif what == "several formats":
        parquet("feed/a", MASTER)
        write(feed, rows(20))


@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("no rows", 2, "feed: has no rows, nor has the master, so nothing can be proposed; name a feed (--feed)"),
        (
            "binary",
            3,
            "feed/ups.txt: is neither text nor Avro, Parquet or ORC: its first bytes are binary; have",
        ),
        ("other delimiter", 3, "a semicolon separates its fields, and a comma those of the master; a run has one"),
        ("not compressed", 3, "feed/ups.txt.gz: the name says gzip, but the content is plain text; give"),
        ("cut Parquet", 3, "feed/ups.parquet: "),
        ("header on one side", 3, "master/base.txt: has no line with names of fields, as ups.txt has; a run has one"),
    ],
)
def test_bad_input(what, code, message, capsys):
    make_bad(what)
    assert init("--master", "master", "--feed", "feed") == (code, None)
    assert message in capsys.readouterr().err


def test_missing_paths(capsys):
    write("data/base.txt", rows(20))
    assert init("--master", "none", "--feed", "data")[0] == 2
    assert "none: there is no master; check the path, or leave out --master" in capsys.readouterr().err
    assert init("--master", "data", "--feed", "none")[0] == 2
    assert "none: there is no such feed file or directory; check the path" in capsys.readouterr().err
    assert init("--master", "data", "--feed", "data")[0] == 2
    assert "master and feed must have different paths" in capsys.readouterr().err


def test_files_of_one_row(capsys):
    write("master/base.txt", "a,1,1700000000\n")
    write("feed/ups.txt", "a,2,1700000001\n")
    code, settings = init("--master", "master", "--feed", "feed")
    text = capsys.readouterr().out
    assert (code, settings["key"], settings["order_by"]) == (0, 0, 2)
    assert "so few rows show little" in text
    assert "a,2,1700000001\n    an upsert in ups.txt -> updated" in text


def test_a_row_without_a_delimiter(capsys):
    write("master/base.txt", "alpha\nbeta\n")
    write("feed/ups_1.txt", "alpha\n")
    assert init("--master", "master", "--feed", "feed")[0] == 3
    assert "What separates the fields of base.txt?" in capsys.readouterr().out
    code, settings = init("--master", "master", "--feed", "feed", "--key", "0", "-D", "field.count=1", "--force")
    assert (code, settings) == (0, {"key": "0", "field.count": "1"})


@pytest.mark.parametrize("marks", [("true", "false"), ("1", "0"), ("Y", "")])
def test_a_field_that_marks_deletes(marks, capsys):
    yes, no = marks
    write(Path("master/m.csv"), "id,v,at\n1,a,100\n2,b,100\n3,c,100\n")
    write(Path("feed/f.csv"), f"id,v,at,is_deleted\n1,x,200,{no}\n2,b,200,{yes}\n4,d,200,{no}\n")
    code, settings = init("--master", "master", "--feed", "feed")
    assert code == 0
    assert (settings["op"], settings["delete_codes"]) == ("is_deleted", [yes])
    capsys.readouterr()
    assert main(["run", "--config", "mutator.toml", "--master", "master", "--feed", "feed", "--output", "new"]) == 0
    assert merged_ids("new") == {1, 3, 4}


def test_an_empty_op_code_beside_others_is_a_question(capsys):
    """A run stops at it."""
    write("master/m.csv", "id,at\na,1425931207\nb,1425931208\n")
    write("feed/f.csv", "id,at,op\na,1425932207,U\nb,1425932208,\nc,1425932209,D\n")
    assert init("--master", "master", "--feed", "feed")[0] == 3
    assert "Is '' (1) an op code of deletes?" in capsys.readouterr().out


def test_a_printed_configuration_says_why_it_is_not_ready(capsys):
    write(Path("master/m.csv"), "id,v,at\n1,a,100\n2,b,100\n3,c,100\n")
    write(Path("feed/f.csv"), "id,v,at\n1,x,soon\n")
    assert init("--master", "master", "--feed", "feed", "--key", "id", "--order-by", "at", "-o", "-") == (3, None)
    assert "the dry run stopped" in capsys.readouterr().err
