"""The benchmark is correct: its data, its digest, its report, and one small run of each workload."""

import doctest
import json
import random
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bench.storage
import bench.workload
from bench.__main__ import conclude
from bench.columns import convert
from bench.contenders.catalogue import SERVERS, everyone, find
from bench.contenders.fastavro_read import read as read_with_fastavro
from bench.data import write_feed, write_master
from bench.digest import Digest, data_files, digest
from bench.figures import TABLE_FORMATS, Outcome, Result, Run, remarks, targets, unequal
from bench.layout import FEED_FIELDS, MASTER_FIELDS, TYPES, format_of
from bench.memory import Sampler
from bench.report import as_json, markdown, table, traffic_table
from bench.storage import exchange
from bench.traffic import Moved, Traffic, traffic_targets
from bench.workload import Workload, workloads
from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


def rows_of(directory):
    return [line.split(",") for path in data_files(directory) for line in path.read_text(encoding="ascii").splitlines()]


def contents(directory):
    return {path.name: path.read_bytes() for path in data_files(directory)}


# --- data


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    directory = tmp_path_factory.mktemp("data")
    write_master(directory / "master", 5000)
    write_feed(directory / "feed", 5000, 1000)
    return directory


def test_a_seed_gives_the_same_bytes(data, tmp_path):
    write_master(tmp_path / "master", 5000)
    write_feed(tmp_path / "feed", 5000, 1000)
    write_feed(tmp_path / "other", 5000, 1000, seed=2)

    assert contents(tmp_path / "master") == contents(data / "master")
    assert contents(tmp_path / "feed") == contents(data / "feed")
    assert contents(tmp_path / "other") != contents(data / "feed")


def test_a_feed_has_the_promised_shares(data):
    master = {row[0]: int(row[4]) for row in rows_of(data / "master")}
    feed = rows_of(data / "feed")
    known = [row for row in feed if row[0] in master]
    late = [row for row in known if int(row[4]) < master[row[0]]]

    assert len(master) == 5000
    assert len(feed) == 1000
    assert sum(row[5] == "D" for row in feed) == 100
    assert len(feed) - len(known) == 100
    assert 20 <= len(late) <= 60, "about 50, of which some are late inserts"
    assert len({row[0] for row in known}) <= 900 - 90, "keys are mutated several times"
    assert not {int(row[4]) for row in feed} & set(master.values())
    assert len({row[4] for row in feed}) == 1000, "no two mutations have the same time"


def test_rows_have_the_promised_size(data):
    size = sum(map(len, contents(data / "master").values()))

    assert 44 <= size / 5000 <= 48


# --- the same rows as columns


@pytest.fixture(scope="module", params=["parquet", "orc", "avro"])
def columns(request, data, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    convert(data / "master", directory / "master", MASTER_FIELDS, request.param)
    convert(data / "feed", directory / "feed", FEED_FIELDS, request.param)
    return directory


@pytest.mark.parametrize("which", ["master", "feed"])
def test_columns_have_the_rows_of_the_text(data, columns, which):
    assert digest(data_files(columns / which)) == digest(data_files(data / which))
    assert len(data_files(columns / which)) >= 4
    assert format_of(data / which) == "text"
    assert format_of(columns / which) in ("parquet", "orc", "avro")


def test_columns_have_types(data, tmp_path):
    convert(data / "feed", tmp_path / "feed", FEED_FIELDS, "parquet")
    file = pq.ParquetFile(data_files(tmp_path / "feed")[0])

    names = {"string": "string", "long": "int64", "decimal(9,2)": "decimal128(9, 2)"}
    assert {field.name: str(field.type) for field in file.schema_arrow} == {n: names[TYPES[n]] for n in FEED_FIELDS}
    assert file.metadata.row_group(0).column(0).compression == "SNAPPY"


ROW = {"id": ["P1"], "name": ["a"], "stock": [7], "price": pa.array(["1.50"]).cast(pa.decimal128(9, 2)), "time": [5]}


def written(path, **changed):
    pq.write_table(pa.table(ROW | changed), path)
    return path


def test_the_digest_of_columns_is_that_of_their_lines(tmp_path):
    (tmp_path / "text").write_text("P1,a,7,1.50,5\n", encoding="ascii")
    other_types = {"stock": pa.array([7], pa.int32()), "price": ROW["price"].cast(pa.decimal128(38, 4))}

    assert digest([written(tmp_path / "one")]) == digest([tmp_path / "text"])
    assert digest([written(tmp_path / "other", **other_types)]) == digest([tmp_path / "text"])


@pytest.mark.parametrize(
    "changed", [{"stock": [8]}, {"name": [""]}, {"name": pa.array([None], "string")}, {"op": ["U"]}]
)
def test_the_digest_notices_a_change_of_a_column(tmp_path, changed):
    assert digest([written(tmp_path / "one")]) != digest([written(tmp_path / "other", **changed)])


def test_a_file_without_these_rows_has_no_digest(tmp_path):
    (tmp_path / "cut").write_bytes(written(tmp_path / "one").read_bytes()[:-9])
    pq.write_table(pa.table(ROW).drop_columns("stock"), tmp_path / "narrow")

    for name, fault in (("cut", ValueError), ("narrow", LookupError)):
        with pytest.raises(fault):
            digest([tmp_path / name])


def test_fastavro_reads_every_record(data, tmp_path):
    convert(data / "feed", tmp_path / "feed", FEED_FIELDS, "avro")

    assert sum(read_with_fastavro(path) for path in data_files(tmp_path / "feed")) == 1000


def test_a_contender_is_found_by_name_and_format():
    assert all(find(entry.name, entry.form) is entry for entry in everyone())


# --- digest


def test_the_digest_ignores_order_and_files(tmp_path):
    lines = [f"row {number},{number * 7}\n" for number in range(1000)]
    (tmp_path / "one").write_text("".join(lines), encoding="ascii")
    random.Random(1).shuffle(lines)
    (tmp_path / "a").write_text("".join(lines[:400]), encoding="ascii")
    (tmp_path / "b").write_text("".join(lines[400:]).removesuffix("\n"), encoding="ascii")

    assert digest([tmp_path / "one"]) == digest([tmp_path / "a", tmp_path / "b"])
    assert digest([tmp_path / "one"]).rows == 1000


@pytest.mark.parametrize(
    "changed", ["ab\ncd\nef\n", "ba\ncd\n", "ab\n", "ab\nab\n", "abc\nd\n", "ad\ncb\n", "ab\ncd\n\n", "abcd\n\n"]
)
def test_the_digest_notices_a_change(tmp_path, changed):
    (tmp_path / "one").write_text("ab\ncd\n", encoding="ascii")
    (tmp_path / "other").write_text(changed, encoding="ascii")

    assert digest([tmp_path / "one"]) != digest([tmp_path / "other"])


def test_lines_may_cross_blocks(tmp_path, monkeypatch):
    (tmp_path / "one").write_text("".join(f"{number}\n" for number in range(500)), encoding="ascii")
    whole = digest([tmp_path / "one"])
    monkeypatch.setattr("bench.digest.BLOCK", 7)

    assert digest([tmp_path / "one"]) == whole


def test_hidden_files_are_not_data(tmp_path):
    for name in ("part-0", "_SUCCESS", ".part-0.crc", "_mutator/manifest.json", "deep/part-1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert [path.name for path in data_files(tmp_path)] == ["part-1", "part-0"]


# --- figures


def made_up(work, seconds, rows=4_000_000, worker=100 << 20, only=None):
    results = [Result(name, [Run(time, 1 << 20, 1 << 30, worker)], "somehow") for name, time in seconds.items()]
    return Outcome(Workload(work, f"{work} into {rows:,}", rows, rows // 20, only), tuple(results))


SECONDS = {
    "mutator aligned": 1.0,
    "mutator shuffle": 3.0,
    "spark sql max_by": 6.0,
    "spark sql full join": 4.5,
    "polars": 0.9,
}


def test_the_targets_of_parquet_follow_from_the_figures():
    seconds = SECONDS | dict(zip(TABLE_FORMATS, (4.9, 5.0, 50.0, 7.0), strict=False))

    found = {target.text: target.reached for target in targets([made_up("parquet", seconds)])}

    parquet = [reached for text, reached in found.items() if text.startswith("Parquet")]
    assert parquet == [True, False, True, True, True, None], "Spark SQL 4.5 times, the last table not measured"
    assert all(reached is None for text, reached in found.items() if not text.startswith("Parquet"))


def test_the_report_has_the_share_of_fastavro():
    workload = Workload("avro", "Avro", 100_000, 5_000, form="avro")
    seconds = {"mutator aligned": 2.0, "mutator shuffle": 4.0, "fastavro alone": 1.5}
    outcome = Outcome(workload, tuple(Result(name, [Run(time, 0, 0, 0)]) for name, time in seconds.items()))

    lines = remarks(outcome)

    assert lines[0] == "mutator aligned: 52,500 rows/s, 75% of the time in fastavro (1.50 s of 2.00 s)"
    assert [line.partition(":")[0] for line in lines] == ["mutator aligned", "mutator shuffle"]
    assert lines[1] in table(outcome)
    assert f"- {lines[0]}" in markdown([outcome], {})
    assert remarks(made_up("5%", SECONDS)) == []


def test_the_report_has_the_speed_of_the_bridge():
    workload = next(workload for workload in workloads(4_000_000, "bridge") if workload.form == "export")
    seconds = {"bridge export": 2.0, "spark sql text": 3.0}
    results = [Result(name, [Run(time, 0, 0, 0)], more={"text bytes": 180e6}) for name, time in seconds.items()]
    outcome = Outcome(workload, tuple(results))

    assert remarks(outcome) == [
        "bridge export: 2,000,000 rows/s, 90 MB/s of text, 1.50 times as fast as spark sql text",
        "spark sql text: 1,333,333 rows/s, 60 MB/s of text",
    ]
    assert [target.reached for target in targets([outcome]) if target.text.startswith("bridge")] == [True, None]


def test_the_targets_follow_from_the_figures():
    aligned = ("mutator aligned",)
    scaling = [
        made_up("scaling", {"mutator aligned": time}, rows, worker, aligned)
        for rows, time, worker in ((3_000_000, 1.0, 100), (12_000_000, 4.1, 120))
    ]

    reached = {target.text: target.reached for target in targets([made_up("5%", SECONDS), *scaling])}

    assert list(reached.values())[:17] == [True, False, True, None, None, *[None] * 8, True, False, None, None]


def test_the_table_has_medians_and_ratios():
    outcome = made_up("5%", SECONDS)
    outcome.results[0].runs += [Run(0.5, 0, 0, 0), Run(2.0, 0, 0, 0)]
    outcome.results[-1].out, outcome.results[-1].why = "stopped", "took too long"

    lines = table(outcome).splitlines()

    assert lines[2].split()[:6] == ["mutator", "aligned", "1.00", "1.00", "0.33", "4,200,000"]
    assert lines[4].split()[3:6] == ["6.00", "6.00", "2.00"]
    assert "took too long" in lines[-1]


def test_a_contender_that_did_not_run_is_named_with_the_reason():
    outcome = Outcome(workloads(4_000_000, "5%")[0], (Result("polars", out="skipped", why="polars is not installed"),))

    assert "skipped: polars is not installed" in table(outcome)
    assert "| polars | - |" in markdown([outcome], {"cores": "2"})


def test_the_report_names_the_differences_and_keeps_the_raw_figures():
    outcome = made_up("5%", SECONDS)

    text = markdown([outcome], {"cores": "2", "date": "2026-11-21"})

    assert "- cores: 2" in text
    assert all(f"| {name} | {seconds:.2f} |" in text for name, seconds in SECONDS.items())
    assert "no counts, checksums, tombstones" in text
    assert json.loads(as_json([outcome], {}))["outcomes"][0]["results"][1]["runs"][0]["seconds"] == 3.0


def test_unequal_contents_differ(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).write_text(name, encoding="ascii")
    one, other = (digest([tmp_path / name]) for name in ("one", "other"))
    results = [Result("a", digest=one), Result("b", digest=other), Result("c", digest=one), Result("d")]

    assert unequal(results) == {one: ["a", "c"], other: ["b"]}
    assert unequal(results[:1] + results[2:]) == {}


def test_unequal_contents_and_failures_end_with_1(tmp_path, capsys):
    write_master(tmp_path / "master", 1000)
    whole = digest(data_files(tmp_path / "master"))
    equal, other = Result("polars", digest=whole), Result("duckdb", digest=Digest(whole.rows, whole.total + 1, 0))
    workload = workloads(1000, "5%")[0]

    assert conclude([Outcome(workload, (equal, Result("duckdb", out="skipped")))], tmp_path) == 0
    assert conclude([Outcome(workload, (equal, Result("duckdb", out="failed", why="no reason")))], tmp_path) == 1
    assert "FAILED, 5 % into 1,000: duckdb: no reason" in capsys.readouterr().err
    assert conclude([Outcome(workload, (equal, other))], tmp_path) == 1
    assert "UNEQUAL, 5 % into 1,000: 1,000 rows" in capsys.readouterr().err


def test_the_examples_of_the_docstrings_are_correct():
    assert doctest.testmod(bench.workload).failed == 0
    assert doctest.testmod(bench.storage).failed == 0


def test_the_sampler_sees_the_children_of_a_process():
    inner = "held = bytearray(64 << 20); print(flush=True); input()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with Sampler(process.pid) as sampler:
            pass
        process.stdin.write(b"\n")

    assert sampler.tree >= 64 << 20
    assert sampler.worker == 0


@pytest.mark.parametrize(
    ("argument", "is_worker"),
    [("mutator.engine.spark.daemon", True), ("spark.python.daemon.module=mutator.engine.spark.daemon", False)],
)
def test_a_jvm_with_the_daemon_in_its_settings_is_not_a_worker(argument, is_worker):
    command = [sys.executable, "-c", "print(flush=True); input()", argument]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with Sampler(process.pid) as sampler:
            pass
        process.stdin.write(b"\n")

    assert (sampler.worker > 0) == is_worker


# --- storage


def traffic(*writes):
    names = ("mutator on s3", "boto3 transfers", "boto3 request")
    results = [Moved(name, write, [1.0]) for name, write in zip(names, writes, strict=False)]
    return Traffic("s3", 100 << 20, tuple(results))


def test_a_share_is_computed_for_each_round():
    found = traffic([1.0, 2.0, 4.0], [1.0, 1.8, 2.0])

    assert found.speed(found.results[0], "write") == 50
    assert found.share(found.results[1], "write") == 0.9


def test_mutator_is_compared_with_each_client():
    found = traffic_targets([traffic([1.0], [1.0], [0.5])])

    assert [target.reached for target in found] == [True, True, False, True]
    assert found[2].text == "s3: mutator writes at 80% of the speed of boto3 request"
    assert found[2].measured == "50% (100 MiB/s against 200 MiB/s)"


def test_a_server_that_cannot_start_is_named_with_the_reason():
    found = Traffic("hdfs", 1 << 20, (Moved("hdfs-native", out="skipped", why="no jar"),))

    assert "skipped: no jar" in traffic_table(found)
    assert "| hdfs-native | - | - | - | - | skipped: no jar |" in markdown([], {}, [found])
    assert [target.reached for target in traffic_targets([found])] == [None, None]


def test_a_client_that_failed_ends_with_1(tmp_path, capsys):
    found = Traffic("s3", 1 << 20, (Moved("boto3 request", out="failed", why="no reason"),))

    assert conclude([], tmp_path, [found]) == 1
    assert "FAILED, s3: boto3 request: no reason" in capsys.readouterr().err


def test_reading_other_bytes_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.storage.hash_of", lambda parts: "another")
    monkeypatch.setattr("bench.storage._STARTERS", {"s3": lambda scratch: nullcontext(f"{scratch}/served")})

    found = exchange("s3", SERVERS["s3"][:1], tmp_path, size=1000, repeat=1, limit=60, seed=1)

    assert found.results[0].out == "failed"
    assert "it read other bytes than mutator on s3 wrote" in found.results[0].why


# --- everything


@pytest.mark.thorough(keep=0)
@pytest.mark.jvm
def test_a_small_run_with_the_installed_systems(tmp_path):
    command = [sys.executable, "-m", "bench", "--size", "5000", "--work", "5%", "--repeat", "1", "--out", tmp_path]
    command += ["--only", "mutator shuffle,spark sql max_by,spark sql full join"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    ours, *theirs = outcome["results"]
    assert [len(result["runs"]) for result in (ours, *theirs)] == [1, 1, 1]
    assert all(result["digest"] == ours["digest"] for result in theirs)
    assert ours["digest"]["rows"] == ours["more"]["counts"]["output rows"]
    assert all(result["runs"][0]["shuffled"] > 0 for result in (ours, *theirs))
    assert ours["runs"][0]["worker"] > 0


def small_run(work, only, out):
    command = [sys.executable, "-m", "bench", "--size", "20000", "--work", work, "--repeat", "1", "--out", out]
    done = subprocess.run(
        [*command, "--only", only], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads((out / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    results = {result["name"]: result for result in outcome["results"]}
    assert [len(result["runs"]) for result in results.values()] == [1] * len(results)
    return results, done.stdout


@pytest.mark.parametrize(
    ("only", "count"),
    [
        pytest.param("mutator aligned,spark sql full join", 2, marks=pytest.mark.soak),
        pytest.param(
            "mutator,spark sql", 7, marks=pytest.mark.soak
        ),  # all plans, whose results only this test compares
    ],
)
def test_a_small_run_on_parquet(only, count, tmp_path):
    """The result of mutator must equal those of the others."""
    results, printed = small_run("parquet", only, tmp_path)

    assert len(results) == count
    whole = results["mutator aligned"]["digest"]
    assert all(result["digest"] == whole for result in results.values())
    assert whole["rows"] == results["mutator aligned"]["more"]["counts"]["output rows"]
    assert "Parquet, 5 %: aligned 3 times as fast as the best Spark SQL plan on Parquet: " in printed


@pytest.mark.soak
def test_a_small_run_on_avro(tmp_path):
    results, printed = small_run("avro", "mutator aligned,fastavro", tmp_path)

    whole = results["mutator aligned"]["digest"]
    assert whole["rows"] == results["mutator aligned"]["more"]["counts"]["output rows"]
    assert results["fastavro alone"]["digest"] is None
    assert results["fastavro alone"]["more"]["rows"] == 2000 + 100
    assert "of the time in fastavro" in printed


@pytest.mark.parametrize(
    ("only", "count"),
    [
        pytest.param("bridge again,bridge export,spark sql orc", 3, marks=pytest.mark.soak),
        pytest.param("mutator,bridge,spark sql", 8, marks=pytest.mark.soak),
    ],
)
def test_a_small_run_of_the_bridge(only, count, tmp_path):
    """An import restores the exported rows, and the bridge merges to the same rows as a merge without it."""
    command = [sys.executable, "-m", "bench", "--size", "5000", "--work", "bridge", "--repeat", "1", "--out", tmp_path]

    done = subprocess.run(
        [*command, "--only", only], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 0, done.stderr
    merge, *moves = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["outcomes"]
    results = {result["name"]: result for outcome in (merge, *moves) for result in outcome["results"]}
    assert [len(result["runs"]) for result in results.values()] == [1] * count
    again = results["bridge again"]
    assert again["how"] == "export skipped; blocks engine, aligned join"
    assert all(result["digest"] == again["digest"] for result in merge["results"])
    assert again["digest"]["rows"] == again["more"]["counts"]["output rows"]
    moved = [result for outcome in moves for result in outcome["results"]]
    assert all(result["digest"] == moved[0]["digest"] for result in moved)
    assert moved[0]["digest"]["rows"] == 5000
    assert len({result["more"]["text bytes"] for result in moved}) == 1


@pytest.mark.soak
@pytest.mark.jvm
@pytest.mark.parametrize("server", ["s3", "hdfs"])
def test_a_small_file_to_a_server_and_back(server, tmp_path):
    command = [sys.executable, "-m", "bench", "--size", "smoke", "--work", server, "--repeat", "2", "--out", tmp_path]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["traffic"]
    if server == "hdfs" and not list((ROOT / "build" / "hadoop").glob("*.jar")):
        pytest.skip("Hadoop's jars are not here: make hadoop")
    assert [result["name"] for result in found["results"]] == [entry.name for entry in SERVERS[server]]
    assert [result["out"] for result in found["results"]] == [None] * len(found["results"]), done.stderr
    assert all(len(result[way]) == 2 for result in found["results"] for way in ("write", "read"))


def test_an_unknown_name_is_a_usage_error():
    command = [sys.executable, "-m", "bench", "--only", "nobody"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 2
    assert "nobody: no contender begins like this" in done.stderr
    assert all(entry.name in done.stderr for entry in everyone())
