"""Write the stored datasets: small ones, with the answers of the commands that follow.

    PYTHONPATH=$PWD .ci/java.sh .venv/bin/python tests/stored/write_datasets.py tests/stored/datasets [CASE...]

They are written again only if a format or a report is meant to change: else the tests show that it does not. Only the
commands of mutator are called.

Each case is a directory:

    config.properties   the settings of all its runs
    master/             the output of the last of its runs
    run-N.json, .txt    the reports of these runs
    feed/               the feed of one more run
    next/               the result of master/ and feed/
    next.json, .txt     the reports of that run

The other directories hold a workflow base, a bridged table, a split feed and the record of a run of many tables, each
beside the answers to the commands that follow. `times.json` has the modification times that a checkout
loses. Inputs are fixed; run ids, commit ids, times and keys of caches differ from one call to the next.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc, parquet
from pyspark.sql import SparkSession

from mutator import cli

ROOT = Path("/tmp/mutator-compat")  # bridge entries contain the full path of their table, so it must be the same

Files = dict[str, Any]  # name -> rows of text, or rows as dicts, or bytes

BY_ID = {"id.field.ordinals": "0", "num.reducer": "2", "max.delete.fraction": "1"}
BY_FIELD = {**BY_ID, "temporal.ordering.field.ordinal": "1"}
QUARANTINE = {"reject.policy": "quarantine", "master.reject.policy": "quarantine"}
DELETES = {"deleted.record.file.prefix": "del"}
NAMED = {"id.field.ordinals": "id", "temporal.ordering.field.ordinal": "at", "num.reducer": "2"}
NAMED |= {"op.code.field.ordinal": "op", "op.code.in.master": "false", "max.delete.fraction": "1"}


@dataclass(frozen=True)
class Case:
    """A master, the feeds of its runs with the settings of each run, and the feed of the run that follows."""

    settings: dict[str, str]
    master: Files
    runs: tuple[tuple[Files, dict[str, str]], ...]
    following: Files
    types: dict[str, Any] = field(default_factory=dict)  # the fields of columns; later runs may have more


def letters(text: str, *more: str) -> list[str]:
    """Return a row for each letter: `letters("ab", "1", "x")` is `["a,1,x", "b,1,x"]`."""
    return [",".join((letter, *more)) for letter in text]


def records(text: str, shop: int, at: int, **more: Any) -> list[dict[str, Any]]:
    """Return a record for each letter."""
    return [{"id": letter, "shop": shop, "at": at, "note": f"{letter}{at}", **more} for letter in text]


TYPES = {"id": pa.string(), "shop": pa.int64(), "at": pa.int64(), "note": pa.string()}
FED = {**TYPES, "op": pa.string()}
WIDER = {**TYPES, "price": pa.decimal128(7, 2), "op": pa.string()}


def columns(suffix: str, **settings: str) -> Case:
    """Return a case whose files have typed fields, one of which is new in the second run."""
    return Case(
        {**NAMED, **QUARANTINE, **settings},
        {
            f"base-1.{suffix}": (TYPES, [*records("abcd", 1, 100), *records("efgh", 2, 100)]),
            f"base-2.{suffix}": (TYPES, [*records("ijk", 3, 100), *records("l", 4, 100)]),
        },
        (
            ({f"ups_1.{suffix}": (FED, [*records("ax", 1, 200, op="U"), *records("b", 1, 200, op="D")])}, {}),
            ({f"ups_2.{suffix}": (WIDER, records("cy", 2, 300, price=None, op="U"))}, {}),
        ),
        {
            f"ups_1.{suffix}": (FED, [*records("ax", 1, 200, op="U"), *records("b", 1, 200, op="D")]),
            f"ups_3.{suffix}": (
                WIDER,
                [
                    *records("cz", 2, 400, price=None, op="U"),
                    *records("b", 1, 150, price=None, op="U"),  # older than its tombstone
                    *records("e", 2, 400, price=None, op="D"),
                    *records("d", 1, 400, price=None, op="U"),
                    *records("i", 3, 400, price=None, op="U"),
                ],
            ),
        },
    )


def ordered(order_type: str, low: str, middle: str, same: str, high: str) -> Case:
    """Return a case whose order values have the given type; `same` is another spelling of `middle`."""
    return Case(
        {**BY_FIELD, **DELETES, "temporal.ordering.field.type": order_type},
        {"base.txt": letters("abcdef", middle, "base")},
        (({"ups_1.txt": letters("ax", high, "first"), "del_1.txt": letters("bc", same, "")}, {}),),
        {
            "ups_2.txt": [
                *letters("a", low, "late"),
                *letters("b", low, "late"),
                *letters("c", same, "revived"),
                *letters("d", same, "equal"),
                *letters("y", middle, "new"),
            ],
            "del_2.txt": letters("ez", high, ""),
        },
    )


def partitioned(scope: str) -> Case:
    """Return a case of a partitioned master; records of a table move from one partition to another."""
    return Case(
        {**BY_FIELD, **DELETES, **QUARANTINE, "partitioned.by": "shop=2", "key.scope": scope},
        {"base.txt": [*letters("abcd", "100", "1"), *letters("efgh", "100", "2"), *letters("ijk", "100", "3")]},
        (
            ({"ups_1.txt": [*letters("ax", "200", "1"), "broken"], "del_1.txt": letters("b", "200", "1")}, {}),
            ({"ups_2.txt": letters("y", "300", "2"), "del_2.txt": letters("e", "300", "2")}, {}),
        ),
        {
            "ups_3.txt": [*letters("c", "400", "2"), *letters("z", "400", "4"), *letters("b", "150", "1")],
            "del_3.txt": letters("f", "400", "2"),
        },
    )


# The feed of a text case starts with a file that its master has consumed.
FIRST = {"ups_1.txt": ["a,200,U,1", "x,200,U,1", "y,250,U,1"], "ups_2.txt": ["b,200,D,1", "c,210,D,1", "short,row"]}
OP_CODE = {**BY_FIELD, **QUARANTINE, "op.code.field.ordinal": "2", "op.code.in.master": "false"}

CASES = {
    "text_by_field": Case(
        OP_CODE,
        {"base.txt": [*letters("abcdefgh", "100", "0"), "no order value,,0"]},
        (
            (FIRST, {}),
            # The tombstones of the first run expire, and leave a horizon.
            ({"ups_3.txt": ["d,300,D,3", "e,300,U,3", "short"]}, {"tombstone.retention": "1s"}),
        ),
        {
            "ups_1.txt": FIRST["ups_1.txt"],
            "ups_4.txt": ["b,150,U,4", "d,250,U,4", "e,100,U,4", "f,400,D,4", "q,400,U,4", "q,400,U,5", "short,4"],
        },
    ),
    "text_with_header": Case(
        {**BY_FIELD, **DELETES, "header.lines": "1"},
        {"base.txt": ["id,at,note", *letters("abcd", "100", "base")]},
        (
            ({"ups_1.txt": ["id,at,note", *letters("ax", "200", "first")], "del_1.txt": ["id,at,note", "b,200,"]}, {}),
            ({"ups_2.txt": ["id,at,note", *letters("c", "300", "second")]}, {}),
        ),
        {"ups_3.txt": ["id,at,note", *letters("by", "400", "third"), *letters("d", "50", "late")]},
    ),
    "text_by_file_name": Case(
        {**BY_ID, **DELETES},
        {"base_1.txt": letters("abcd", "base"), "base_3.txt": letters("efgh", "base"), "base.txt": ["o,oldest"]},
        (
            ({"ups_5.txt": letters("ax", "five"), "del_6.txt": letters("b", "")}, {}),
            ({"ups_9.txt": letters("cy", "nine")}, {}),
        ),
        # Sequences older than those of the master's rows, too.
        {"ups_7.txt": letters("abcz", "seven"), "del_8.txt": letters("ey", ""), "ups_10.txt": letters("d", "ten")},
    ),
    "decimal_order": ordered("decimal", "-1.5", "0.25", "25e-2", "10"),
    "timestamp_order": ordered(
        "timestamp", "1969-12-31T23:59:59Z", "2026-01-31T10:00:00Z", "2026-01-31T12:00:00.0+02:00", "2026-02-01"
    ),
    "string_order": ordered("string", "10", "9", "9", "\udcff"),
    "full_snapshot": Case(
        {**BY_FIELD, "sync.mode": "full"},
        {"base.txt": letters("abcd", "100", "base")},
        (({"all_1.txt": [*letters("ab", "100", "base"), *letters("c", "200", "new")]}, {}),),
        {"all_2.txt": [*letters("ac", "200", "new"), *letters("x", "300", "new")]},
    ),
    "broadcast": Case(
        {**BY_FIELD, **DELETES, "master.unique": "true"},
        {"base-1.txt": letters("abcd", "100", "base"), "base-2.txt": letters("efgh", "100", "base")},
        (({"ups_1.txt": letters("ax", "200", "new"), "del_1.txt": letters("f", "200", "")}, {}),),
        {"ups_2.txt": letters("bfy", "300", "new"), "del_2.txt": letters("x", "300", "")},
    ),
    "regex_delimiter": Case(
        {**BY_FIELD, **DELETES, "id.field.ordinals": "0,2", "field.delim.regex": "[|;]", "field.delim": "|"},
        {"base.txt": ["a|100|1", "a;100|2", "b|100;1", "|100|"]},
        (({"ups_1.txt": ["a|200;1", "c|200|1"], "del_1.txt": ["b|200|1"]}, {}),),
        {"ups_2.txt": ["a;300|2", "b|100|1"], "del_2.txt": ["|300|"]},
    ),
    "csv": Case(
        {**NAMED, **QUARANTINE},
        {"base.csv": ["id,at,note", *letters("abcd", "100", '"with, comma"'), 'e,100,""', "f,100,"]},
        (({"ups_1.csv": ["id,at,note,op", "a,200,new,U", "b,200,x,D", '"x""y",200,"two\nlines",U', "short"]}, {}),),
        {"ups_2.csv": ["id,at,note,op", "c,300,,U", 'b,100,"late",U', '"x""y",300,x,D', "z,300,new,U"]},
    ),
    "escaped": Case(
        {**NAMED, "field.names": "id,at,note,op", "master.format": "escaped", "feed.format": "escaped"}
        | {"field.delim.regex": ","},
        {"base.txt": [*letters("abcd", "100", "back\\\\slash"), "e,100,\\N", "f,100,"]},
        (({"ups_1.txt": ["a,200,com\\x2cma,U", "b,200,x,D"]}, {}),),
        {"ups_2.txt": ["c,300,\\N,U", "b,100,late,U", "e,300,x,D", "z,300,new,U"]},
    ),
    "avro": columns("avro"),
    "parquet": columns("parquet"),
    "orc": columns("orc"),
    "partitioned_table": partitioned("table"),
    "partitioned_partition": partitioned("partition"),
    # Only the partitions that a run touches get the new field and the new format: the others keep the old ones.
    "partitioned_forms": columns("parquet", **{"partitioned.by": "shop", "partition.columns": "file"}),
    "partitioned_path": columns("parquet", **{"partitioned.by": "shop"}),
}


def write_files(directory: Path, files: Files) -> None:
    directory.mkdir(parents=True)
    for name, content in files.items():
        path = directory / name
        if isinstance(content, tuple):
            types, rows = content
            table = pa.Table.from_pylist(rows, pa.schema(list(types.items())))
            {".parquet": write_parquet, ".orc": write_orc, ".avro": write_avro}[path.suffix](table, path)
        else:
            path.write_bytes("".join(f"{row}\n" for row in content).encode("utf-8", "surrogateescape"))


def write_parquet(table: Any, path: Path) -> None:
    parquet.write_table(table, path)


def write_orc(table: Any, path: Path) -> None:
    orc.write_table(table, str(path))


def write_avro(table: Any, path: Path) -> None:
    import fastavro

    avro = {pa.string(): "string", pa.int64(): "long"}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 7, "scale": 2}
    fields = [
        {"name": field.name, "type": ["null", avro.get(field.type, price)]}
        | ({"default": None} if field.name == "price" else {})
        for field in table.schema
    ]
    with path.open("wb") as stream:
        fastavro.writer(
            stream, {"type": "record", "name": "row", "fields": fields}, table.to_pylist(), sync_marker=b"s" * 16
        )


def mutator(*words: str, code: int = 0) -> str:
    """Run a command in this process; return its output."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        found = cli.main(words)
    assert found == code, (words, found, out.getvalue())
    return out.getvalue()


def merge(master: str, feed: str, output: str, report: str, **more: str) -> None:
    """Run twice from the same state, to get a report as JSON and one as text."""
    words = ["run", "--config", "config.properties", "--master", master, "--feed", feed, "--output", output]
    words += [word for key, value in more.items() for word in ("-D", f"{key}={value}")]
    Path(f"{report}.txt").write_text(mutator("-v", *words))
    shutil.rmtree(output)
    Path(f"{report}.json").write_text(mutator(*words, "--json"))


def write_settings(settings: dict[str, str]) -> None:
    Path("config.properties").write_text("".join(f"{key}={value}\n" for key, value in sorted(settings.items())))


def write_case(case: Case) -> None:
    write_settings(case.settings)
    write_files(Path("given"), case.master)
    master = "given"
    for number, (feed, more) in enumerate(case.runs, 1):
        write_files(Path(f"feed-{number}"), feed)
        if "tombstone.retention" in more:
            time.sleep(1.5)
        merge(master, f"feed-{number}", f"master-{number}", f"run-{number}", **more)
        shutil.rmtree(master)
        shutil.rmtree(f"feed-{number}")
        master = f"master-{number}"
    os.rename(master, "master")
    write_files(Path("feed"), case.following)
    merge("master", "feed", "next", "next")


def write_workflow() -> None:
    """Write a base with versions, a restore, an abandoned run's journal and its lock."""
    write_settings({**BY_ID, **DELETES, "claim.min.age": "0s", "lock.timeout": "1s"})
    base = Path("base")
    write_files(base / "master", {"base_1.txt": letters("abcd", "base")})
    (base / "incr").mkdir()

    def arrive(name: str, rows: list[str]) -> None:
        (base / "incr" / name).write_text("".join(f"{row}\n" for row in rows))

    words = ["base", "--config", "config.properties"]
    for number, (name, rows) in enumerate(
        {"ups_2.txt": letters("ax", "two"), "del_3.txt": letters("b", ""), "ups_4.txt": letters("c", "four")}.items(), 1
    ):
        arrive(name, rows)
        Path(f"run-{number}.json").write_text(mutator("workflow", "run", *words, "--json"))
    Path("restore.json").write_text(mutator("workflow", "restore", *words, "--to", "2", "--json"))
    arrive("ups_5.txt", letters("dy", "five"))
    program = "import socket; socket.gethostname = lambda: 'writer'; from mutator import cli; cli.entry()"
    killed = subprocess.run(
        [sys.executable, "-c", program, "workflow", "run", *words],
        env={**os.environ, "MUTATOR_FAILPOINT": "merge.done"},
        check=False,
    )
    assert killed.returncode == -9
    keep_times(base)
    # The rest happens to a copy, when the lock is old enough to be stale.
    shutil.copytree(base, "following", symlinks=True)
    os.rename(base, "kept")
    os.rename("following", base)
    time.sleep(2)
    for name, more in {
        "status": ["status"],
        "history": ["history"],
        "next": ["run"],
        "next-history": ["history"],
        "next-restore": ["restore", "--to", "1"],
    }.items():
        Path(f"{name}.json").write_text(mutator("workflow", more[0], *words, *more[1:], "--json"))
        if name == "next":
            shutil.copytree(base / "master", "next")
    shutil.rmtree(base)
    os.rename("kept", base)


def write_bridge() -> None:
    """Write a table that was bridged twice, with its text copy and the bridge entries."""
    write_settings({**BY_ID, **DELETES, "temporal.ordering.field.ordinal": "2"})
    write_files(Path("table"), {"base.orc": (TYPES, [*records("abcd", 1, 100), *records("efgh", 2, 100)])})
    words = ["bridge", "run", "--from", "table", "--text", "copy", "--config", "config.properties", "--json"]
    for number, feed in enumerate(
        ({"ups_1.txt": ["a,1,200,new", "x,1,200,new"], "del_1.txt": ["b,1,200,"]}, {"ups_2.txt": ["c,1,300,new"]}), 1
    ):
        write_files(Path(f"feed-{number}"), feed)
        Path(f"run-{number}.json").write_text(mutator(*words, "--feed", f"feed-{number}"))
        shutil.rmtree(f"feed-{number}")
    keep_times(Path("table"))
    write_files(Path("feed"), {"ups_3.txt": ["b,1,150,late", "d,1,400,new", "y,2,400,new"], "del_3.txt": ["e,2,400,"]})
    shutil.copytree("table", "table-kept", copy_function=shutil.copy2)
    shutil.copytree("copy", "copy-kept", copy_function=shutil.copy2)
    Path("next.json").write_text(mutator(*words, "--feed", "feed"))
    os.rename("table", "next")
    for name in ("table", "copy"):
        shutil.rmtree(name, ignore_errors=True)
        os.rename(f"{name}-kept", name)


def write_split_feed() -> None:
    """Write a feed that was split by partitions, and a tree of masters with a run for each partition."""
    write_settings({**BY_FIELD, **DELETES})
    write_files(Path("given"), {"base.txt": [*letters("abc", "100", "1"), *letters("def", "100", "2")]})
    write_files(Path("whole"), {"ups_1.txt": [*letters("ax", "200", "1"), "y,200,3"], "del_1.txt": ["d,200,2"]})
    split = ["partition", "--config", "config.properties", "--partitioned-by", "shop=2", "--json"]
    mutator(*split, "--feed", "given", "--to", "master")
    Path("split.json").write_text(mutator(*split, "--feed", "whole", "--to", "feed"))
    words = ["--config", "config.properties", "--json", "--master", "master", "--feed", "feed", "--output", "next"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.job("partition_runs.py", words) == 0
    Path("next.json").write_text(out.getvalue())
    shutil.rmtree("given")
    shutil.rmtree("whole")


def write_many() -> None:
    """Write the record of a run of two tables, one of which failed."""
    Path("tables.toml").write_text(
        '[run]\nat-once = 1\nrecord = "tables.run"\n'
        '[defaults]\nmaster = "master/{table}"\nfeed = "feed/{table}"\noutput = "out/{table}"\n'
        '[defaults.settings]\nid.field.ordinals = "0"\ntemporal.ordering.field.ordinal = 1\nnum.reducer = 2\n'
        "[tables.done]\n[tables.failed]\n"
    )
    for name in ("done", "failed"):
        write_files(Path("master") / name, {"base.txt": letters("abcd", "100", name)})
        write_files(Path("feed") / name, {"ups_1.txt": [*letters("ax", "200", name), *["short"] * (name == "failed")]})
    Path("run-1.json").write_text(mutator("run-many", "tables.toml", "--json", code=3))
    shutil.copytree("out", "out-kept")
    shutil.copy("tables.run", "tables-kept.run")
    Path("next.json").write_text(
        mutator("run-many", "tables.toml", "--resume", "-D", "reject.policy=quarantine", "--json")
    )
    os.rename("out", "next")
    os.rename("out-kept", "out")
    os.rename("tables-kept.run", "tables.run")


def keep_times(directory: Path) -> None:
    """Record modification times and empty directories, which a checkout loses."""
    times = {path.as_posix(): path.stat().st_mtime_ns for path in sorted(directory.rglob("*")) if path.is_file()}
    empty = [path.as_posix() for path in sorted(directory.rglob("*")) if path.is_dir() and not any(path.iterdir())]
    Path("times.json").write_text(json.dumps({"files": times, "directories": empty}, indent=1) + "\n")


def main(target: str, *names: str) -> None:
    """Write all cases, or those with the given names."""
    found = Path(target).resolve()
    found.mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.scheduler.mode", "FAIR").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    work = {name: lambda case=case: write_case(case) for name, case in CASES.items()}
    work |= {"workflow": write_workflow, "bridge": write_bridge, "split_feed": write_split_feed, "many": write_many}
    for name, write in work.items():
        if names and name not in names:
            continue
        (ROOT / name).mkdir(parents=True)
        os.chdir(ROOT / name)
        write()
        os.chdir(ROOT)
        shutil.move(ROOT / name, found / name)
        sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {name}\n")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
