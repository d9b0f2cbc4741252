"""JSON Lines: every value as its line has it, each fault as a reject, and merges into masters of all formats."""

from __future__ import annotations

import gzip
import io
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutator.cli import main
from mutator.errors import ConfigError, DataError
from mutator.formats.content import NotReadable, Window
from mutator.formats.files.file_format import Dialect
from mutator.formats.files.file_formats import FILE_FORMATS
from mutator.rules.json_paths import NULLS, OTHERS, field_in
from mutator.table.table import Table
from tests.support.effort import law
from tests.support.in_memory import InMemory
from tests.support.named_runs import ENGINES, Work
from tests.support.no_limits import NO_LIMITS

JSON, PLAIN = FILE_FORMATS["json"], Dialect()
MASTER = pa.table({"id": ["a", "b", "c"], "at": [1, 1, 1], "n": pa.array([1.5, None, 3.5])})


def found(data: bytes, names: list[str], cuts: tuple[int, ...] = ()) -> tuple[list[Any], list[Any], list[bytes]]:
    """Return the texts of rows, (offset, line, reason) of rejects, and the bytes of rows; of windows between cuts."""
    schema = pa.schema([(name, pa.string()) for name in names])
    rows, rejects, raw, lines = [], [], [], 0
    for start, end in zip((0, *cuts), (*cuts, None), strict=True):
        before = lines
        for one in JSON.read(InMemory(data, Window("lf", start, end)), schema, names, PLAIN):
            rows += [tuple(row.values()) for row in one.batch.to_pylist()]
            rejects += [(offset, before + line, reason) for offset, line, reason, _ in one.rejects]
            assert all(data[at:].startswith(row) for at, _, _, row in one.rejects)
            lines, counted = lines + one.lines, one.batch.num_rows + len(one.rejects) + one.ignored
            assert one.raw is not None
            assert (counted, len(one.offsets)) == (one.lines, len(one.numbers))
            here = one.raw().take().to_pylist()
            assert all(data[at:].startswith(row[:-1]) for at, row in zip(one.offsets, here, strict=True))
            raw += here
    return rows, rejects, raw


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
STYLES = [{"separators": (",", ":")}, {}, {"ensure_ascii": False}, {"separators": (" , ", " :  ")}]


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "é", "b c"]), VALUES), max_size=8),
    st.sampled_from(STYLES),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]),
    st.data(),
)
@law(60)
def test_any_objects_in_any_windows(rows: list[dict[str, Any]], style: Any, end: str, data: Any) -> None:
    body = "".join(json.dumps(row, **style) + end for row in rows).encode("utf-8", "surrogatepass")
    cuts = tuple(sorted(data.draw(st.lists(st.integers(1, max(len(body), 1)), max_size=3, unique=True))))
    names = ["é", "a", "b c"]
    read, rejects, raw = found(body, names, cuts)

    def text(value: Any) -> bytes | None:
        if value is None:
            return None
        return value.encode() if isinstance(value, str) else json.dumps(value, **style).encode()

    assert rejects == []
    assert [json.loads(line) for line in raw] == rows
    assert read == [tuple(text(row.get(name)) for name in names) for row in rows]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"a":1', "is not JSON: Input data was truncated"),
        (b'{"a":01}', "is not JSON: JSON is malformed: invalid number (byte 6)"),
        (b'{"a":NaN}', "is not JSON: JSON is malformed: invalid character (byte 5)"),
        (b'{"a":1}{"a":2}', "is not JSON: JSON is malformed: trailing characters (byte 8)"),
        (b'{"a":{"b":1},', "is not JSON: Input data was truncated"),
        (b"[1]", "is not a JSON object"),
        (b"null", "is not a JSON object"),
        (b"a,b", "is not JSON: JSON is malformed: invalid character (byte 0)"),
        (b'{"a":"\xff"}', "is not UTF-8"),
        (b'{"a":1,"b":2}', "has the member 'b', which none of the first rows has; name it in output.schema"),
        (b'{"a":1,"a":1}', "has the member 'a' twice"),
        (b'{"a": 1, "\\u0061": 1}', "has the member 'a' twice"),
        (b'{"a":1,"a":' + b"1" * 200 + b"}", "has the member 'a' twice"),
        (b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", "is nested too deep"),
        (b'{"a":"\\udc00"}', "is not JSON: JSON is malformed: invalid utf-16 surrogate pair (byte 12)"),
    ],
)
def test_a_bad_line_is_a_reject_among_others(line: bytes, why: str) -> None:
    rows, rejects, _ = found(b'{"a":1}\n \n%b\n{"a":2}' % line, ["a"])
    assert rows == [(b"1",), (b"2",)]
    assert rejects == [(10, 3, why)]


def test_a_repeated_member_as_long_as_the_blanks_of_another_style() -> None:
    rows, rejects, _ = found(b'{"a":1,"a":11,"b":2,"c":3,"d":4}\n{"a": 1, "b": 2, "c": 3, "d": " "}\n', [*"abcd"])
    assert rows == [(b"1", b"2", b"3", b" ")]
    assert rejects == [(0, 1, "has the member 'a' twice")]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_encoding(tmp_path: Any, engine: str) -> None:
    work = Work(tmp_path, engine)
    work.put("master/m", MASTER, "parquet")
    work.put("feed/f_1", b'{"id":"\xe9","at":2,"n":null}\n{"id":"\x81","at":2}\n{"id":"c","at":2}\n')
    report = work.run({"reject.policy": "quarantine", "encoding": "cp1252"})
    assert [row["id"] for row in work.rows()] == ["a", "b", "c", "é"]
    assert [(row["offset"], row["line"]) for row in report.rejects["feed"]] == [(28, 2)]

    work.put("feed/f_1", '{"id":"é","at":3,"n":7.5}\n'.encode("utf-16"))
    with pytest.raises(DataError, match="is UTF-16 text; set encoding=utf-16"):
        work.run()
    work.run({"encoding": "utf-16"})
    assert {"id": "é", "at": 3, "n": 7.5} in work.rows()


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        (["1", "-2", "null"], pa.int64()),
        (["1", "1.50"], pa.float64()),
        (["9223372036854775808"], pa.decimal128(38, 0)),
        (["true", "null"], pa.bool_()),
        (['"2026-01-31"'], pa.string()),
        (["1" * 5000], pa.string()),
        (["1", '"a"'], pa.string()),
        (["null"], pa.null()),
        (['["2026-01-31"]', "[]"], pa.list_(pa.string())),
        (['{"b":1,"c":null}', '{"b":2.5}'], pa.struct([("b", pa.float64()), ("c", pa.null())])),
        (["1", "[1]"], pa.string()),
    ],
)
def test_the_type_that_fits_the_first_values(values: list[str], data_type: Any) -> None:
    lines = "".join(f'{{"a":{value}}}\n' for value in values).encode()
    assert JSON.probe(io.BytesIO(lines), PLAIN).schema == pa.schema([("a", data_type)])


FEED = b'{"id":"b","at":2,"n":7}\nnothing\n\n{"at":3,"id":"d"}\n{"id":"c","at":"x","n":1}\n'


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("file_format", "pack"), [("parquet", bytes), ("csv", gzip.compress)])
def test_a_feed_for_a_master_of_another_format(tmp_path: Any, file_format: str, pack: Any, engine: str) -> None:
    work = Work(tmp_path, engine)
    work.put("master/m", MASTER, file_format)
    work.put("feed/f_1" + (".ndjson" if pack is bytes else ".json.gz"), pack(FEED))
    report = work.run({"reject.policy": "quarantine", "split.bytes": "30"})

    assert [(row["id"], row["n"] or None) for row in work.rows()] == [
        ("a", "1.5" if file_format == "csv" else 1.5),
        ("b", "7" if file_format == "csv" else 7.0),
        ("c", "3.5" if file_format == "csv" else 3.5),
        ("d", None),
    ]
    rejected = [(row["offset"], row["row"]) for row in report.rejects["feed"]]
    assert rejected == [(24, "nothing"), (51, '{"id":"c","at":"x","n":1}')]


@pytest.mark.parametrize("text", ["text", "csv"])
def test_a_nested_value_is_text_for_text(tmp_path: Any, text: str) -> None:
    """CSV quotes the JSON; delimited text, whose fields have no names, has no place for members."""
    work = Work(tmp_path)
    work.put("master/m.csv", b"id,at,n\na,1,x\n")
    work.put("feed/f_1.jsonl", b'{"id":"a","at":2,"n":{"x":[1, 2]}}\n')
    settings = {"master.format": text, "header.lines": "1"}
    if text == "text":
        with pytest.raises(ConfigError, match=r"text cannot store what other formats can; set field\.names"):
            work.run(settings)
        return
    work.run(settings)
    assert [row["n"] for row in work.rows()] == ['{"x":[1, 2]}']


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("f.json", b'[{"id":"a"}]', "is a JSON array; put each object of it on a line of its own"),
        ("f", b'[\n  {"id":"a"}\n]\n', "is a JSON array"),
        ("f.json", b'{"id":"a"}{"id":"b"}', "has several JSON objects in one line; have each written with a line end"),
        ("f.json", b'null\n{"id":{"a":1}} {"id":"b"}\n{"id":"c"}\n', "has several JSON objects in one line"),
        ("f.json", b'{"id":"a"}' * 500_000, "has several JSON objects in one line"),
        ("f.json", b'{\n  "id": "a"\n}\n', "has a JSON object over several lines"),
        ("f.csv", b'{\n  "id": "a"\n}\n', "has a JSON object over several lines"),
        ("f.json", b'{\n  "id": "a"\n}', "has a JSON object over several lines"),
        ("f.json", b'{"id":"a","at":\n', "has a JSON object over several lines"),
        ("f.json", b'{"id":"a","at":', "ends within its last line, which has no line end; have it delivered again"),
        ("f.json", b'null\n{"id":"a","a', "ends within its last line"),
        (
            "f.ndjson",
            b"id,at\na,2\n",
            "does not begin with a JSON object; have JSON Lines delivered, or set another feed.format",
        ),
        ("f.json", b'{"i\\"d":"a"}', "has a member 'i\"d'; rename it"),
    ],
)
def test_another_document_is_refused(tmp_path: Any, name: str, content: bytes, why: str) -> None:
    work = Work(tmp_path)
    work.put("master/m", MASTER, "parquet")
    work.put(f"feed/{name}", content)
    with pytest.raises(DataError, match=f"{name}.*{re.escape(why)}"):
        work.run()


@pytest.mark.parametrize(
    ("settings", "tags"), [({}, ["x"]), ({"output.format": "csv"}, '["x"]'), ({"output.format": "avro"}, ["x"])]
)
def test_a_first_run_writes_parquet_unless_another_format_is_set(tmp_path: Any, settings: Any, tags: Any) -> None:
    work = Work(tmp_path)
    deep = "[" * 40 + "]" * 40
    work.put("feed/f_1.jsonl", f'{{"id":"a","at":1,"tags":["x"],"deep":{deep}}}\n'.encode())
    (tmp_path / "master").mkdir()
    work.run({"allow.empty.master": "true", **settings})
    assert [(row["tags"], row["deep"]) for row in work.rows()] == [(tags, deep)]
    assert {path.suffix for path in work.files} == {f".{settings.get('output.format', 'parquet')}"}


def test_two_files_are_compared(tmp_path: Any, capsys: Any) -> None:
    work = Work(tmp_path)
    old, new = (str(work.put(f"{n}.jsonl", b'{"id":1,"n":%d}\n{"id":2,"n":2}\n' % n)) for n in (1, 3))
    assert main(["diff", old, new, "--key", "id"]) == 0
    assert capsys.readouterr().out.startswith("0 records added, 0 removed, 1 changed")


@pytest.mark.parametrize("mixed", [b"", b',"odd":1', b',"odd":"1"'])
def test_types_are_inferred_from_all_files_of_a_first_feed(tmp_path: Any, mixed: bytes) -> None:
    """A field that is NULL in all rows of a file has the type of another file, also where Arrow finds no types."""
    work = Work(tmp_path)
    (tmp_path / "master").mkdir()
    nothing = b'"v":null,"w":null,"o":{"x":null},"l":[]'
    work.put("feed/f_1", b'{"id":"a","at":1,"n":1,%b%b}\n{"id":"c","at":1,"odd":"x"}\n' % (nothing, mixed))
    work.put("feed/f_2.json", b'{"id":"b","at":2,"n":2.5,"tags":["x"],"v":7,"o":{"x":5},"l":[8]}\n')
    report = work.run({"allow.empty.master": "true", "output.format": "parquet"})

    a, b, _ = work.rows()
    assert (a["n"], a["tags"], a["v"], a["w"], a["o"], a["l"]) == (1.0, None, None, None, {"x": None}, [])
    assert (b["n"], b["tags"], b["v"], b["w"], b["o"], b["l"]) == (2.5, ["x"], 7, None, {"x": 5}, [8])
    (note,) = (note for note in report.notes if note.startswith("types are those of the first values: "))
    for said in ("n double", "v int64", "w string", "o struct<x: int64>", "tags list<item: string>"):
        assert f"{said}," in f"{note.partition(';')[0]},"


def test_a_table_and_init_read_it(tmp_path: Any, capsys: Any) -> None:
    work = Work(tmp_path)
    table = Table.create(str(tmp_path / "table"), {"key": "id", "order_by": "at", "op": "op", **NO_LIMITS})
    table.apply(str(work.put("f_1.jsonl", b'{"id":"a","at":1,"n":1.5,"op":"I"}\n{"id":"b","at":1,"op":"I"}\n')))
    table.apply(str(work.put("f_2.jsonl", b'{"op":"U","id":"a","at":2}\n{"op":"D","id":"b","at":2}\n')))
    assert table.scan().to_arrow().to_pylist() == [{"id": "a", "at": 2, "n": None}]

    work.put("master/m", MASTER, "parquet")
    assert main(["init", "--master", str(tmp_path / "master"), "--feed", str(tmp_path / "f_1.jsonl"), "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert "JSON Lines" in " ".join(out.replace("#", "").split())
    assert "output.format" not in out  # the master has one


@pytest.mark.parametrize("words", [[], ["-D", "output.format=csv"]])
def test_init_proposes_a_format_that_a_first_run_can_write(tmp_path: Any, monkeypatch: Any, words: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f_1.jsonl").write_text("".join(f'{{"id":"k{n}","at":{n},"n":1.5}}\n' for n in range(40)))

    assert main(["init", "--feed", "f_1.jsonl", *words]) == 0
    assert main(["run", "-q"]) == 0
    suffix = ".csv" if words else ".parquet"
    assert {one.suffix for one in (tmp_path / "merged").glob("part-*")} == {suffix}


NESTED = pa.schema(
    [
        ("id", pa.string()),
        ("after", pa.struct([("a", pa.string()), ("b.c", pa.string())])),
        pa.field("source", pa.struct([("lsn", pa.int64())]), metadata={OTHERS: b""}),
    ],
    metadata={NULLS: b""},
)
LEAVES = ("source.lsn", "after.b.c", "id", "after.a")


def leaves(data: bytes, names: tuple[str, ...] = LEAVES) -> tuple[list[Any], list[tuple[int, str]]]:
    """Return the texts of leaves, and (line, reason) of rejects."""
    found = list(JSON.read(InMemory(data, Window("lf")), NESTED, names, PLAIN))
    rows = [tuple(row.values()) for one in found for row in one.batch.to_pylist()]
    return rows, [(line, reason) for one in found for _, line, reason, _ in one.rejects]


OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "id": VALUES,
        "after": st.none() | st.fixed_dictionaries({}, optional={"a": VALUES, "b.c": VALUES}),
        "source": st.none() | st.fixed_dictionaries({}, optional={"lsn": VALUES, "db": VALUES}),
    },
)


@given(st.lists(st.none() | OBJECTS, max_size=8), st.sampled_from(STYLES))
@law(60)
def test_leaves_of_nested_objects(rows: list[Any], style: Any) -> None:
    body = "".join(json.dumps(row, **style) + "\n" for row in rows).encode("utf-8", "surrogatepass")

    def text(value: Any, *path: str) -> bytes | None:
        for name in path:
            value = None if value is None else value.get(name)
        if value is None:
            return None
        return value.encode() if isinstance(value, str) else json.dumps(value, **style).encode()

    paths = (("source", "lsn"), ("after", "b.c"), ("id",), ("after", "a"))
    assert leaves(body) == ([tuple(text(row, *path) for path in paths) for row in rows], [])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            b'{"after":{"a":1,"z":2}}',
            "has the member 'after.z', which none of the first rows has; name it in output.schema",
        ),
        (b'{"after":{"a":1,"a":1}}', "has the member 'after.a' twice"),
        (b'{"after":{"a":1},"after":{"a":1}}', "has the member 'after' twice"),
        (b'{"source":{"x":1,"x":1}}', "has the member 'source.x' twice"),
        (b'{"source":{"x":1},"id":1,"id": 1}', "has the member 'id' twice"),
        (b'{"after":[{"a":1}]}', "has no JSON object in 'after'"),
        (b'{"after":{"a":1}', "is not JSON: Input data was truncated"),
        (b'"x"', "is not a JSON object"),
    ],
)
def test_a_bad_object_within_a_line_is_a_reject(line: bytes, why: str) -> None:
    rows, rejects = leaves(b'{"id":1}\nnull\n%b\n{"source":{"lsn":2,"y":[0]}}' % line)
    assert rows == [(None, None, b"1", None), (None,) * 4, (b"2", None, None, None)]
    assert rejects == [(3, why)]


def test_an_object_and_a_member_of_it_are_both_read() -> None:
    rows, rejects = leaves(b'{"source":{"lsn":2,"y":"\\""}}\n{"source":"x"}\n{}\n', ("source.lsn", "source"))
    assert rows == [(b"2", b'{"lsn":2,"y":"\\""}'), (None, b"x"), (None, None)]
    assert rejects == []


def test_a_name_that_may_be_a_path_is_told() -> None:
    schema = pa.schema([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))])
    for name, why in (("a.b", r"field a\.b may be member 'a\.b', or member 'b' of a"), ("a.c", r"has no member a\.c")):
        with pytest.raises(NotReadable, match=why):
            list(JSON.read(InMemory(b"{}"), schema, [name], PLAIN))


def test_the_types_of_leaves_are_those_of_their_first_values() -> None:
    lines = b'{"a":{"b":1,"c":"x","d":null}}\n{"a":null}\n{"a":{"b":2.5,"c":1,"d":{"e":true}}}\n'
    found = JSON.probe(io.BytesIO(lines), PLAIN)
    assert found.schema.field("a").type == pa.string()
    types = {name: field_in(found.opened, name).type for name in ("a.b", "a.c", "a.d.e")}
    assert types == {"a.b": pa.float64(), "a.c": pa.string(), "a.d.e": pa.bool_()}
