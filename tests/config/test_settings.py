"""Settings: every key with its default, values and faults; the sources of settings; and all faults at once."""

from operator import attrgetter
from re import split

import pytest

from mutator.cli import main
from mutator.config import load, parse
from mutator.config.definitions import OpSpec
from mutator.config.sources import parse_override
from mutator.errors import ConfigError
from mutator.errors.display import one_line
from mutator.rules.envelopes import ENVELOPES

KEY = "id.field.ordinals"
BY = "temporal.ordering.field.ordinal"
TYPES = "must be long, decimal, timestamp or string, with desc after it where the lowest value wins"
OP = "op.code.field.ordinal"
CONTRADICTS = "contradicts temporal.ordering.field.type ="
BESIDE_OVERWRITE = "conflicts with sync.mode = full, which compares a snapshot with all records; keep one"
REJECTS_OF_OVERWRITE = "conflicts with write.operation = insert_overwrite_table, where a reject would be a delete"
DAMAGED_CHANGES = "conflicts with changes = true: deleted rows that cannot be read are not changes"
BESIDE_AS_OF = (
    "conflicts with snapshot.as.of, before which every record of the place counts as deleted, also those outside of "
    "the part; leave one of them out"
)
BESIDE_FULL = "conflicts with sync.mode = full, which deletes the records that the feed lacks; leave it out"


def faults(settings):
    """Return the lines of the message, one per fault."""
    with pytest.raises(ConfigError) as caught:
        parse(settings)
    assert caught.value.exit_code == 2
    first, *lines = str(caught.value).split("\n")
    assert first == "the configuration: these settings cannot be used:"
    return [line.strip() for line in lines]


# --- every key: its attribute, its default, valid values and their meaning, and invalid values

NO_FLAGS = [(text, "must be true or false") for text in ("yes", "1", "on", "t", "maybe")]
OPS = {OP: "4"}
# (key, attribute, default, [(text, value)], [(invalid text, a part of the message)], the settings that it needs)
SETTINGS = [
    (
        "temporal.ordering.field.ordinal",
        "rows.order.fields",
        (),
        [("5", (5,)), (" 5 ", (5,)), ("-1", ()), ("007", (7,)), ("changed", ("changed",)), (" x, 2 ", ("x", 2))],
        [("-2", "must be an ordinal counted from 0, or a name"), ("1.0", "must be an ordinal"), ("+1", "or a name")],
        {},
    ),
    (
        "op.code.field.ordinal",
        "rows.ops.field",
        None,
        [("4", 4), ("-1", None), ("op", "op"), ("٤", "٤")],
        [("4.5", "must be an ordinal counted from 0, or a name"), ("+4", "must be an ordinal"), ("-2", "or a name")],
        {},
    ),
    (
        "deleted.op.code",
        "rows.ops.deletes",
        frozenset({b"D"}),
        [("D", {b"D"}), ("D,X", {b"D", b"X"}), (" D , DEL", {b"D", b"DEL"}), ("é", {b"\xc3\xa9"})],
        [],
        {OP: "4"},
    ),
    ("upsert.op.code", "rows.ops.upserts", None, [("I,U", {b"I", b"U"}), ("I", {b"I"})], [], {OP: "4"}),
    ("deleted.record.file.prefix", "rows.ops.delete_prefix", None, [("del", "del"), ("é_", "é_")], [], {}),
    ("field.delim", "rows.text.joint", b",", [(";", b";"), ("é", b"\xc3\xa9")], [("a\nb", "contains a line feed")], {}),
    (
        "field.count",
        "rows.text.count",
        "auto",
        [("auto", "auto"), ("any", "any"), ("12", 12)],
        [("0", "must be auto, any, or the number"), ("-1", "must be auto, any"), ("all", "must be auto, any")],
        {},
    ),
    (
        "field.names",
        "rows.text.names",
        (),
        [("a,b", ("a", "b")), (" id , ts ", ("id", "ts"))],
        [("a,a", "must be different names"), ("a,,b", "must be different names")],
        {},
    ),
    (
        "header.lines",
        "rows.text.header_lines",
        0,
        [("1", 1), ("0", 0), ("true", 1), ("False", 0)],
        [("-1", "must be true, false, or a"), ("x", "whole")],
        {},
    ),
    (
        "reject.limit",
        "limits.reject_limit",
        1000,
        [("0", 0), ("5", 5)],
        [("-5", "must be a whole number, 0 or more")],
        {},
    ),
    (
        "max.delete.fraction",
        "limits.max_delete_fraction",
        0.5,
        [("0", 0), ("1", 1), ("0.05", 0.05)],
        [("1.1", "must be a number from 0 to 1"), ("-0.1", "from 0 to 1"), ("nan", "from 0 to 1"), ("half", "from 0")],
        {},
    ),
    (
        "tombstone.retention",
        "retention.tombstones",
        None,
        [("45s", 45), ("30m", 1800), ("12h", 43200), ("90d", 7776000), ("2w", 1209600)],
        [("90", "must be a duration such as 90d"), ("1y", "must be a duration"), ("-1d", "must be a duration")],
        {},
    ),
    ("consumed.retention", "retention.consumed", None, [("1d", 86400)], [("day", "must be a duration")], {}),
    (
        "num.reducer",
        "effort.num_reducer",
        None,
        [("1", 1), ("64", 64)],
        [("0", "must be a whole number from 1 to 999999"), ("-1", "from 1"), ("1e3", "from 1")],
        {},
    ),
    (
        "split.bytes",
        "effort.split_bytes",
        64 << 20,
        [("1", 1), ("4k", 4096), ("64m", 64 << 20), ("1 GB", 1 << 30), ("2KiB", 2048)],
        [("0", "must be a size such as 67108864, 64m or 1g"), ("-1", "must be a size"), ("1t", "must be a size")],
        {},
    ),
    ("bucket.bytes", "effort.bucket_bytes", 64 << 20, [("1m", 1 << 20)], [("big", "must be a size")], {}),
    (
        "memory.bytes",
        "effort.memory_bytes",
        128 << 20,
        [("1", 1), ("8k", 8192), ("1 GiB", 1 << 30), ("8g", 1 << 30)],
        [("0", "must be a size such as"), ("-1", "must be a size"), ("half", "must be a size")],
        {},
    ),
    (
        "input.format",
        "inputs.master_format",
        None,
        [("auto", None), ("text", "text")],
        [("xml", "must be auto, text, ")],
        {},
    ),
    (
        "master.format",
        "inputs.master_format",
        None,
        [("auto", None), ("orc", "orc")],
        [("xml", ", parquet or orc")],
        {},
    ),
    (
        "feed.format",
        "inputs.feed_format",
        None,
        [("auto", None), ("csv", "csv")],
        [("xml", "must be auto, text, csv")],
        {},
    ),
    ("output.format", "output.format", None, [("auto", None), ("avro", "avro")], [("Avro", "must be auto, text")], {}),
    ("output.codec", "output.codec", None, [("none", "none"), ("zstd", "zstd")], [("lzo", "must be none, snappy")], {}),
    ("output.schema", "output.schema", None, [("s3://b/row.avsc", "s3://b/row.avsc")], [], {}),
    (
        "csv.null",
        "rows.text.csv_null",
        b"",
        [("\\N", b"\\N"), ("é", b"\xc3\xa9")],
        [("a\nb", "contains a quote or a line end")],
        {},
    ),
    ("default.price", "output.defaults", {}, [("0", {"price": "0"}), (" x", {"price": " x"})], [], {}),
]
FLAGS = {
    "op.code.keep": "rows.ops.keep",
    "op.code.in.master": "rows.ops.in_master",
    "allow.empty.feed": "limits.allow_empty_feed",
    "replace.damaged": "operation.replace_damaged",
    "allow.older.snapshot": "limits.allow_older_snapshot",
    "allow.empty.master": "inputs.allow_empty_master",
    "master.adopt": "inputs.master_adopt",
    "master.unique": "effort.master_unique",
}
SETTINGS += [
    (key, attribute, None if key == "op.code.in.master" else False, [("true", True), ("FALSE", False)], NO_FLAGS, OPS)
    for key, attribute in FLAGS.items()
]
CHOICES = {  # the default first, as messages have them
    "sync.mode": ("operation.sync_mode", "partial or full"),
    "write.operation": ("operation.name", "apply, insert_overwrite or insert_overwrite_table"),
    "reject.policy": ("limits.reject_policy", "fail or quarantine"),
    "master.reject.policy": ("limits.master_reject_policy", "fail or quarantine"),
    "before.horizon": ("limits.before_horizon", "insert or fail"),
    "consumed.files": ("inputs.consumed_files", "skip or merge"),
    "null.order": ("rows.order.null", "reject or lowest"),
}
SETTINGS += [
    (
        key,
        attribute,
        split(", | or ", words)[0],
        [(word, word) for word in split(", | or ", words)],
        [(text, f"must be {words}") for text in (words, words.upper())],
        {},
    )
    for key, (attribute, words) in CHOICES.items()
]
# Keys that depend on each other, or are mandatory: tested one by one below.
OTHERS = {KEY, "temporal.ordering.field.numeric", "temporal.ordering.field.type", "field.delim.regex"}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting[0])
def test_setting(setting):
    key, attribute, default, values, none, beside = setting

    assert attrgetter(attribute)(parse({KEY: "0"})) == default
    for text, value in values:
        assert attrgetter(attribute)(parse({KEY: "0", **beside, key: text})) == value
    for text, expected in none:
        fault = "\n".join(faults({KEY: "0", **beside, key: text}))
        assert fault.startswith(f"{key}: '{one_line(text)}' ")
        assert expected in fault


def test_no_setting_is_forgotten():
    known = {key for key, *_ in SETTINGS if not key.startswith("default.")} | OTHERS  # any field may follow that
    message = faults({KEY: "0", **{f"{key}x": "1" for key in known}})

    assert sorted(message) == sorted(f"{key}x: is not a known setting; did you mean {key}?" for key in known)


def test_a_configuration_is_frozen():
    config = parse({KEY: "0"})
    with pytest.raises(AttributeError):
        config.rows.key.ids = (1,)


# --- the record ID


def test_id_fields():
    assert parse({KEY: "0"}).rows.key.ids == (0,)
    assert parse({KEY: "2, 0,1"}).rows.key.ids == (2, 0, 1)
    assert parse({KEY: "ts,id", "field.names": "id,price,ts"}).rows.key.ids == (2, 0)
    assert parse({KEY: "2,id", "field.names": "id,price,ts"}).rows.key.ids == (2, 0)
    # Only the files have the field names, so an unknown name is found when the run is planned.
    assert parse({KEY: "ts, id,2"}).rows.key.ids == ("ts", "id", 2)
    assert parse({KEY: "0;1"}).rows.key.ids == ("0;1",)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("0,0", "id.field.ordinals: '0,0' names a field twice"),
        ("a,a", "id.field.ordinals: 'a,a' names a field twice"),
        ("-1", "id.field.ordinals: '-1' must be an ordinal counted from 0, or a name"),
        ("0,", "id.field.ordinals: '0,' must be an ordinal counted from 0, or a name"),
        ("a,,b", "id.field.ordinals: 'a,,b' must be an ordinal counted from 0, or a name"),
    ],
)
def test_invalid_id_fields(value, fault):
    assert faults({KEY: value}) == [fault]


def test_a_list_keeps_its_elements():
    assert parse({KEY: ["a,b", 0, "1", " x"]}).rows.key.ids == ("a,b", 0, "1", " x")
    assert parse({KEY: ["a,b", 2], "field.names": ["ts", "a,b", "c"]}).rows.key.ids == (1, 2)
    assert parse({KEY: 0, BY: ["7"]}).rows.order.fields == ("7",)
    assert parse({KEY: 0, OP: 1, "delete_codes": "D\\,R, D"}).rows.ops.deletes == {b"D,R", b"D"}
    assert parse({KEY: 0, OP: 1, "delete_codes": ["D,R", "D "]}).rows.ops.deletes == {b"D,R", b"D "}
    assert parse({KEY: 0, "partitioned.by": ["store", "day=date(at)"]}).rows.key.partitions[1].transform == "date"
    with pytest.raises(ConfigError, match="'a,b' is not a partition field"):
        parse({KEY: 0, "partitioned.by": ["a,b"]})


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({KEY: ["a", "a"]}, "id.field.ordinals: 'a,a' names a field twice"),
        ({KEY: [""]}, "id.field.ordinals: '' must be names that are not empty, or ordinals as numbers"),
        ({KEY: [-1]}, "id.field.ordinals: '-1' must be an ordinal counted from 0, or a name"),
        ({KEY: [True]}, "id.field.ordinals: 'true' must be a list of texts or whole numbers"),
        (
            {KEY: ["idd"], "field.names": ["id", "ts"]},
            "id.field.ordinals: 'idd' must be names of field.names, or ordinals as numbers (did you mean id?)",
        ),
        ({KEY: 0, BY: ["file.position", "a"]}, f"{BY}: file.position must be the last field"),
        ({KEY: 0, BY: ["a", "a"]}, f"{BY}: 'a,a' names a field twice"),
        ({KEY: 0, BY: ["a", "b"], "order_type": "long"}, f"order_type: 1 type, but 2 fields in {BY}"),
        ({KEY: 0, BY: ["a", "b"], "order.max": "7"}, f"order.max: '7' needs one field in {BY}, in ascending order"),
        ({KEY: 0, "sync.mode": ["full"]}, "sync.mode: 'full' must be one value, not a list"),
    ],
)
def test_invalid_lists(settings, fault):
    assert faults(settings) == [fault]


@pytest.mark.parametrize("settings", [{}, {KEY: ""}, {KEY: []}, {KEY: None}])
def test_the_id_must_be_set(settings):
    assert faults(settings) == ["key: is missing; name the fields of the record ID, for example 0, 0,2 or id"]


def test_misspelled_field_names_get_a_suggestion():
    (fault,) = faults({KEY: "product_id", "field.names": "prod_id,price"})
    assert fault.startswith("id.field.ordinals: 'product_id' must be an ordinal counted from 0, or one of field.names ")
    assert fault.endswith("(did you mean prod_id?)")
    assert "did you mean" not in faults({KEY: "zzz", "field.names": "prod_id,price"})[0]


def test_the_format_of_both_sides():
    both = parse({KEY: "0", "input.format": "avro"})
    assert (both.inputs.master_format, both.inputs.feed_format, both.output.format) == ("avro", "avro", None)
    one = parse({KEY: "0", "input.format": "avro", "feed.format": "csv"})
    assert (one.inputs.master_format, one.inputs.feed_format) == ("avro", "csv")
    assert parse({KEY: "0", "input.format": "avro", "feed.format": "auto"}).inputs.feed_format is None


# --- the order value


@pytest.mark.parametrize(
    ("settings", "order_type"),
    [
        ({}, "sequence"),
        ({BY: "-1"}, "sequence"),
        ({BY: "5"}, "long"),
        ({BY: "5", "temporal.ordering.field.numeric": "true"}, "long"),
        ({BY: "5", "temporal.ordering.field.numeric": "false"}, "string"),
        ({BY: "5", "temporal.ordering.field.type": "timestamp"}, "timestamp"),
        (
            {BY: "5", "temporal.ordering.field.type": "timestamp", "temporal.ordering.field.numeric": "false"},
            "timestamp",
        ),
        ({BY: "5", "temporal.ordering.field.type": "decimal", "temporal.ordering.field.numeric": "true"}, "decimal"),
        ({BY: "5", "temporal.ordering.field.type": "long"}, "long"),
        ({BY: "5", "temporal.ordering.field.type": "desc"}, "long desc"),
        ({BY: "5,a", "temporal.ordering.field.numeric": "false"}, "string, string"),
        ({BY: "5,file.position", "temporal.ordering.field.type": "string"}, "string, position"),
        ({BY: ["file.position"], "field.names": "a,b"}, "position"),
        ({BY: ["a,b", 5], "temporal.ordering.field.type": "text desc, asc"}, "string desc, long"),
        ({BY: "5", "temporal.ordering.field.type": "string"}, "string"),
        ({"temporal.ordering.field.numeric": "true"}, "sequence"),  # as in chombo's files
    ],
)
def test_order_type(settings, order_type):
    config = parse({KEY: "0", **settings})

    assert config.rows.order.type == order_type
    assert config.rows.order.by_file_name == (order_type == "sequence")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        (
            {BY: "5", "temporal.ordering.field.type": "timestamp", "temporal.ordering.field.numeric": "true"},
            f"temporal.ordering.field.numeric: 'true' {CONTRADICTS} timestamp; leave it out",
        ),
        (
            {BY: "5", "temporal.ordering.field.type": "decimal", "temporal.ordering.field.numeric": "false"},
            f"temporal.ordering.field.numeric: 'false' {CONTRADICTS} decimal; leave it out",
        ),
        (
            {"temporal.ordering.field.type": "long"},
            "temporal.ordering.field.type: 'long', but temporal.ordering.field.ordinal is not set",
        ),
        (
            {BY: "5", "temporal.ordering.field.type": "date"},
            f"temporal.ordering.field.type: 'date' {TYPES}",
        ),
        (
            {BY: "5", "temporal.ordering.field.numeric": "no"},
            "temporal.ordering.field.numeric: 'no' must be true or false",
        ),
    ],
)
def test_invalid_order_types(settings, fault):
    assert faults({KEY: "0", **settings}) == [fault]


# --- the delimiter (the meaning of a regex: tests/rules/test_field_delimiter.py)


def test_delimiter():
    assert parse({KEY: "0"}).rows.text.delimiter.literal == b","
    assert parse({KEY: "0", "field.delim.regex": "|"}).rows.text.delimiter.literal == b"|"
    assert parse({KEY: "0", "field.delim.regex": r"\t"}).rows.text.delimiter.literal == b"\t"
    assert parse({KEY: "0", "field.delim.regex": "[,;]"}).rows.text.delimiter.literal is None
    (fault,) = faults({KEY: "0", "field.delim.regex": "a*"})
    assert fault.startswith("field.delim.regex: 'a*' the regex `a*` can match the empty string")


def test_field_delim_of_a_literal_is_ignored_with_a_warning():
    assert parse({KEY: "0", "field.delim.regex": "|", "field.delim": ","}).wording.warnings == (
        "field.delim is ignored: rows are rejoined with the delimiter that split them",
    )
    assert parse({KEY: "0", "field.delim.regex": ",", "field.delim": ","}).wording.warnings == ()
    assert parse({KEY: "0", "field.delim.regex": "[,;]", "field.delim": ";"}).wording.warnings == ()


# --- names of keys


def test_prefix():
    assert parse({"rsbm.id.field.ordinals": "3"}).rows.key.ids == (3,)
    assert parse({KEY: "1", "rsbm.id.field.ordinals": "3"}).rows.key.ids == (3,)
    assert parse({"rsbm.id.field.ordinals": "3", KEY: "1"}).rows.key.ids == (3,)
    # An empty value means unset, so this unsets the key.
    assert parse({KEY: "0", "num.reducer": "8", "rsbm.num.reducer": ""}).effort.num_reducer is None
    assert faults({KEY: "0", "rsbm.rsbm.num.reducer": "8"}) != []


def test_keys_of_the_platform_are_ignored_with_a_warning():
    settings = {
        "mapreduce.map.maxattempts": "2",
        "mapred.reduce.tasks": "3",
        "debug.on": "true",
        "hadoop.x": "",
        "yarn.a": "1",
        "dfs.b": "1",
        "fs.defaultFS": "hdfs://x",
        "io.sort.mb": "5",
        "conf.path": "x",
        "rsbm.debug.on": "false",
    }
    (warning,) = parse({KEY: "0", **settings}).wording.warnings

    assert warning == "settings of the platform are ignored: " + ", ".join(sorted(settings))


BUCKETS = (
    "; of a directory it is num.reducer; of a table, an option of the command that creates it: mutator table create "
    "--buckets"
)


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("id.field.ordinal", "; did you mean id.field.ordinals?"),
        ("num.reducers", "; did you mean num.reducer?"),
        ("Sync.Mode", "; did you mean sync.mode?"),
        ("rsbm.deleted.opcode", "; did you mean deleted.op.code?"),
        ("buckets", BUCKETS),
        ("zzz", ""),
    ],
)
def test_unknown_key(key, shown):
    assert faults({KEY: "0", key: "1"}) == [f"{key.removeprefix('rsbm.')}: is not a known setting{shown}"]


# --- several faults


def test_all_faults_are_found_at_once():
    found = faults(
        {
            "id.field.ordinal": "0",
            BY: "5.0",
            "num.reducer": "0",
            "field.delim.regex": "[,",
            "sync.mode": "ful",
            "split.bytes": "",
        }
    )

    assert [fault.split(":")[0] for fault in found] == [
        BY,
        "field.delim.regex",
        "sync.mode",
        "num.reducer",
        "id.field.ordinal",
        "id.field.ordinals",
    ]


def test_faults_of_one_key_and_of_several_are_found_together():
    found = faults({KEY: "0,0", OP: "0", "op.code.keep": "perhaps", "num.reducer": "x"})

    assert [fault.split(":")[0] for fault in found] == ["op.code.keep", "num.reducer", KEY, OP]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({OP: "0"}, ["op.code.field.ordinal: field 0 is also a field of id.field.ordinals"]),
        ({OP: "5", BY: "5"}, ["op.code.field.ordinal: field 5 is also the temporal.ordering.field.ordinal"]),
        (
            {"field.count": "4", BY: "4", OP: "9"},
            [
                "temporal.ordering.field.ordinal: field 4 is beyond field.count = 4",
                "op.code.field.ordinal: field 9 is beyond field.count = 4",
            ],
        ),
        ({"field.count": "3", "field.names": "a,b"}, ["field.names: 2 names, but field.count = 3"]),
        (
            {OP: "4", "upsert.op.code": "I,D"},
            ["upsert.op.code: 'D' is also of deleted.op.code: name each code in one of them"],
        ),
        (
            {OP: "4", "truncate.op.code": "D,I,B", "upsert.op.code": "I", "ignore.op.code": "B"},
            [
                f"truncate.op.code: '{code}' is also of {other}: name each code in one of them"
                for code, other in (("D", "deleted.op.code"), ("I", "upsert.op.code"), ("B", "ignore.op.code"))
            ],
        ),
        ({"truncate.op.code": "T"}, ["truncate.op.code: 'T' needs op.code.field.ordinal"]),
        ({"sync.mode": "full", "truncate.op.code": "T"}, [f"truncate.op.code: 'T' {BESIDE_FULL}"]),
        ({"snapshot.as.of": "9"}, ["snapshot.as.of: '9' needs sync.mode = full"]),
        ({"upsert.op.code": "I"}, ["upsert.op.code: 'I' needs op.code.field.ordinal"]),
        ({"op.code.keep": "true"}, ["op.code.keep: 'true' needs op.code.field.ordinal"]),
        ({"op.code.in.master": "false"}, ["op.code.in.master: 'false' needs op.code.field.ordinal"]),
        (
            {"sync.mode": "full", "deleted.record.file.prefix": "del"},
            [f"deleted.record.file.prefix: 'del' {BESIDE_FULL}"],
        ),
        (
            {"sync.mode": "full", OP: "4", "deleted.op.code": "D"},
            [f"op.code.field.ordinal: '4' {BESIDE_FULL}", f"deleted.op.code: 'D' {BESIDE_FULL}"],
        ),
        (
            {"field.names": "id,a", "id.field.ordinals": "2", BY: "3", "partitioned.by": "4"},
            [
                "id.field.ordinals: field 2 is beyond the 2 names of field.names",
                "temporal.ordering.field.ordinal: field 3 is beyond the 2 names of field.names",
                "partitioned.by: field 4 is beyond the 2 names of field.names",
            ],
        ),
        (
            {"sync.mode": "full", "reject.policy": "quarantine"},
            ["reject.policy: 'quarantine' conflicts with sync.mode = full, where a reject would be a delete"],
        ),
        (
            {"sync.mode": "full", "sync.scope": "office = 'Rome'", "snapshot.as.of": "7"},
            [f"sync.scope: 'office = 'Rome'' {BESIDE_AS_OF}"],
        ),
        (
            {"write.operation": "insert_overwrite", "sync.mode": "full"},
            [f"write.operation: 'insert_overwrite' {BESIDE_OVERWRITE}"],
        ),
        (
            {"write.operation": "insert_overwrite_table", "reject.policy": "quarantine"},
            [f"reject.policy: 'quarantine' {REJECTS_OF_OVERWRITE}"],
        ),
        (
            {"write.operation": "insert_overwrite", "replace.damaged": "true", "changes": "true"},
            [f"replace.damaged: 'true' {DAMAGED_CHANGES}"],
        ),
    ],
)
def test_contradictions(settings, expected):
    assert faults({KEY: "0", **settings}) == expected


def test_settings_without_a_contradiction():
    assert parse({KEY: "0", "sync.mode": "full", OP: "-1", "deleted.record.file.prefix": ""}).operation.full
    assert parse({KEY: "0", "deleted.op.code": "D"}).rows.ops.field is None  # as in chombo's bumu.properties


def test_warnings():
    config = parse({KEY: "0,5", BY: "5", OP: "4", "deleted.record.file.prefix": "del"})

    assert config.wording.warnings == (
        "field 5 is both ID and order value: every version is then a record of its own",
        "deleted.record.file.prefix is ignored, because op.code.field.ordinal says which rows are deletes",
    )


def test_an_overwrite_has_no_limit_of_deletes_unless_it_is_set():
    overwrite = {KEY: "0", "write.operation": "insert_overwrite"}

    assert parse(overwrite).limits.max_delete_fraction == 1
    assert parse({**overwrite, "max.delete.fraction": "0.5"}).limits.max_delete_fraction == 0.5
    assert parse({**overwrite, "write.operation": "apply"}).limits.max_delete_fraction == 0.5


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"replace.damaged": "true"}, "replace.damaged is ignored: write.operation = apply replaces no partition"),
        (
            {"allow.empty.feed": "true", "write.operation": "insert_overwrite"},
            "allow.empty.feed is ignored: only write.operation = insert_overwrite_table needs it",
        ),
        (
            {"consumed.files": "skip", "write.operation": "insert_overwrite_table"},
            "consumed.files = skip is ignored: insert_overwrite_table merges every file of its feed",
        ),
    ],
)
def test_a_setting_without_effect_beside_the_operation_is_a_warning(settings, expected):
    assert parse({KEY: "0", **settings}).wording.warnings == (expected,)


def test_empty_values_mean_unset():
    config = parse({KEY: "0", **{key: "" for key, *_ in SETTINGS}, "field.delim.regex": ""})

    assert config == parse({KEY: "0"})


# --- .properties


@pytest.fixture
def read(tmp_path):
    def read(content, *overrides, name="bumu.properties"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(path, overrides)

    return read


@pytest.mark.parametrize(
    "line",
    [
        "id.field.ordinals=1,2",
        "id.field.ordinals = 1,2",
        "  id.field.ordinals:1,2",
        "id.field.ordinals 1,2",
        "id.field.ordinals\t:\t1,2",
        "id.field.ordinals=1,\\\n      2",
        "id.field.ordin\\\n  als=1,2",
        "id\\.field.ordinals=1\\,2",
        "id.field.ordinals=\\u0031,2",
        "\\u0069d.field.ordinals=1,2",
        "# a comment = x\n! another\n\nid.field.ordinals=1,2",
        "id.field.ordinals=1,2\r\n#x\r",
        "\ufeffid.field.ordinals=1,2",
        "id.field.ordinals=1,2\nid.field.ordinals=1,2",  # the same line twice is not a contradiction
    ],
)
def test_properties_syntax(read, line):
    assert read(line).rows.key.ids == (1, 2)


def test_properties_values(read):
    assert read("id.field.ordinals=0\nfield.delim.regex=\\\\|").rows.text.delimiter.literal == b"|"
    assert read("id.field.ordinals=0\nfield.delim.regex=\\t").rows.text.delimiter.literal == b"\t"
    assert read("id.field.ordinals=0\nfield.delim.regex=\\u0001").rows.text.delimiter.literal == b"\x01"
    assert read("id.field.ordinals=0\nfield.delim.regex=\\\\u0001").rows.text.delimiter.literal == b"\x01"
    assert read("id.field.ordinals=0\ndeleted.record.file.prefix=gelöscht").rows.ops.delete_prefix == "gelöscht"
    assert (
        read("id.field.ordinals=0\ndeleted.record.file.prefix=del # no comment").rows.ops.delete_prefix
        == "del # no comment"
    )
    assert read("id.field.ordinals=0\ndeleted.record.file.prefix=").rows.ops.delete_prefix is None
    assert read("id.field.ordinals=0\ndeleted.record.file.prefix").rows.ops.delete_prefix is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"id.field.ordinals=0\nx=\xff", "byte 22 is not UTF-8"),
        (b"id.field.ordinals=0\nx=\\u00g1", "u00g1"),
        (
            b"a=1\nnum.reducer=1\n\nnum.reducer=2",
            "line 4: 'num.reducer' is set twice with different values; keep one of",
        ),
    ],
)
def test_invalid_properties(read, content, why):
    with pytest.raises(ConfigError) as caught:
        read(content)

    assert str(caught.value).startswith(
        f"{read.__closure__[0].cell_contents}/bumu.properties: cannot be read as a configuration: "
    )
    assert why in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.properties: cannot be read as a configuration: No such file"):
        load(tmp_path / "none.properties")
    with pytest.raises(ConfigError, match="cannot be read as a configuration: Is a directory"):
        load(tmp_path)


def test_faults_name_the_file(read):
    with pytest.raises(ConfigError, match=r"bumu\.properties: these settings cannot be used:\n  num\.reducer"):
        read("id.field.ordinals=0\nnum.reducer=x")


# --- TOML


@pytest.mark.parametrize(
    "content",
    [
        '"id.field.ordinals" = "0,2"\n"op.code.field.ordinal" = 4\n"op.code.keep" = true\n"max.delete.fraction" = 0.25',
        "id.field.ordinals = [0, 2]\nop.code.field.ordinal = 4\nop.code.keep = true\nmax.delete.fraction = 0.25",
        "[id.field]\nordinals=[0, 2]\n[op.code]\nkeep=true\n[op.code.field]\nordinal = 4\n[max.delete]\nfraction=0.25",
        "[rsbm]\nid.field.ordinals = [0, 2]\nop.code = { keep = true, field.ordinal = 4 }\nmax.delete.fraction = 0.25",
        "\ufeff[rsbm]\nid.field.ordinals='0,2'\nop.code.keep=true\nop.code.field.ordinal=4\nmax.delete.fraction=0.25",
    ],
)
def test_toml(read, content):
    config = read(content, name="bumu.toml")

    assert (config.rows.key.ids, config.rows.ops.field, config.rows.ops.keep, config.limits.max_delete_fraction) == (
        (0, 2),
        4,
        True,
        0.25,
    )


def test_toml_names(read):
    config = read('id.field.ordinals = "id"\nfield.names = ["ts", "id"]\nfield.delim.regex = "[,;]"', name="a.toml")

    assert config.rows.key.ids == (1,)
    assert config.rows.text.names == ("ts", "id")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("id.field.ordinals = ", "Invalid value"),
        ("a = 1\na = 2", "Cannot overwrite a value"),
        ("field.delim = ','\nfield.delim.regex = ','", "Cannot"),  # a key with a value and a table at once: quote them
    ],
)
def test_invalid_toml(read, content, why):
    with pytest.raises(ConfigError, match=why):
        read(content, name="bumu.toml")


def test_toml_values_of_a_wrong_type(read):
    with pytest.raises(ConfigError, match=r"op\.code\.keep: '1' must be true or false"):
        read('"id.field.ordinals" = 0\nop.code.keep = 1\n"op.code.field.ordinal" = 4', name="a.toml")


# --- the command line


def test_the_command_line_wins(read):
    content = "id.field.ordinals=0\nrsbm.num.reducer=4\nreject.limit=7"

    assert read(content).effort.num_reducer == 4
    assert read(content, "num.reducer=8").effort.num_reducer == 8
    assert read(content, "rsbm.num.reducer=8").effort.num_reducer == 8
    assert read(content, "rsbm.num.reducer=8", "num.reducer=8").effort.num_reducer == 8
    assert read(content, "num.reducer=").effort.num_reducer is None
    assert read(content, "num.reducer=8").limits.reject_limit == 7
    assert load(None, ["id.field.ordinals=1,2"]).rows.key.ids == (1, 2)


def test_overrides():
    assert parse_override("a.b = c=d ") == ("a.b", " c=d ")
    for wrong in ("num.reducer", "=8", " =8"):
        with pytest.raises(ConfigError, match=f"-D {wrong}: expected key=value, for example -D num.reducer=8"):
            parse_override(wrong)


@pytest.mark.parametrize(
    ("first", "second"), [("num.reducer=2", "num.reducer=3"), ("rsbm.num.reducer=2", "num.reducer=3")]
)
def test_different_values_on_the_command_line(first, second):
    (key, one), (other, two) = parse_override(first), parse_override(second)
    with pytest.raises(ConfigError) as caught:
        load(None, ["id.field.ordinals=0", first, "num.reducer=2", second])
    assert str(caught.value) == f"the command line sets {key} to '2', and {other} to '{two}': keep one of them"
    assert load(None, ["id.field.ordinals=0", first, f"{key}={one}"]).effort.num_reducer == 2


def test_faults_of_the_command_line_alone():
    with pytest.raises(
        ConfigError, match=r"^the command line: these settings cannot be used:\n  -D num\.reducer: '-1'"
    ):
        load(None, ["id.field.ordinals=1", "num.reducer=-1"])


def test_faults_name_the_command_line_or_the_file(read):
    with pytest.raises(ConfigError, match=r"^the command line: these .*:\n  -D num\.reducer: 'x' must"):
        read("id.field.ordinals=0\nnum.reducer=2", "rsbm.num.reducer=x")
    with pytest.raises(ConfigError) as caught:
        read("id.field.ordinals=0\nreject.limit=x", "num.reduce=2", "op.code.keep=true")
    first, *more = str(caught.value).split("\n  ")
    assert first.endswith("bumu.properties: these settings cannot be used:")
    assert [fault.partition(":")[0] for fault in more] == ["reject.limit", "-D num.reduce", "-D op.code.keep"]


def test_a_misspelled_key_without_a_value(read):
    with pytest.raises(ConfigError, match=r"num\.reduce: is not a known setting; did you mean num\.reducer\?"):
        read("id.field.ordinals=0\nrsbm.num.reduce=\n")
    assert read("id.field.ordinals=0\nnum.reducer=\nmapreduce.job.name=\ndefault.x=\n").effort.num_reducer is None
    assert read("id.field.ordinals=0\nnum.reducer=\nrsbm.num.reducer=3").effort.num_reducer == 3


def test_a_faulty_configuration_ends_before_spark_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mutator.engine.spark.session.spark_context", None)  # the caller gets an error
    path = tmp_path / "bumu.properties"
    path.write_text("id.field.ordinals=0\nnum.reducer=0\n")
    places = ["--master", "m", "--feed", "f", "--output", str(tmp_path / "o")]

    assert main(["run", "--config", str(path), *places]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"mutator: error: {path}: these settings cannot be used:\n"
        "  num.reducer: '0' must be a whole number from 1 to 999999\n"
    )
    assert main(["run", "--config", str(path), *places, "-D", "num.reducer"]) == 2
    assert capsys.readouterr().err.startswith(
        "mutator run: error: -D: 'num.reducer' is not KEY=VALUE; write -D num.reducer=VALUE"
    )


# --- short names


SHORT = {"key": "1", "order_by": "5", "order_type": "string", "op": "4", "delete_codes": "X", "delimiter": "|"}


def test_short_names():
    published = {KEY: "1", BY: "5", "temporal.ordering.field.type": "string", OP: "4", "deleted.op.code": "X"}
    published |= {"field.delim.regex": "|", "header.lines": "1"}

    assert parse({**SHORT, "header": True}) == parse(published)
    assert load(None, [f"--{key.replace('_', '-')}={value}" for key, value in SHORT.items()]) == parse(SHORT)


def test_short_names_in_files(read):
    assert read("key=id\norder_by=at").rows.order.fields == ("at",)
    assert read('key = ["id", "line"]\nheader = true', name="a.toml").rows.key.ids == ("id", "line")
    assert read(
        "rsbm.id.field.ordinals=0\ntemporal.ordering.field.ordinal=3", "--key=id", "order_by=1"
    ).rows.key.ids == ("id",)
    assert read("key=id", "id.field.ordinals=0").rows.key.ids == (0,)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"key": "id", "op": "id"}, "op: field id is also a field of key"),
        (
            {"key": "0", "order_type": "log", "order_by": "1"},
            f"order_type: 'log' {TYPES}",
        ),
        ({KEY: "0", "order_type": "long"}, "order_type: 'long', but order_by is not set"),
        ({"key": "0", "header": "x"}, "header: 'x' must be true, false, or a whole number of lines"),
        ({"kye": "0", "key": "0"}, "kye: is not a known setting; did you mean key?"),
        ({"key": "0", KEY: "1"}, "key is '0' and id.field.ordinals is '1', two names of one setting; keep one of them"),
    ],
)
def test_messages_have_the_names_that_were_given(settings, expected):
    assert faults(settings) == [expected]


def test_messages_have_the_options_that_were_given(read):
    with pytest.raises(ConfigError, match=r"^the command line: .*:\n  --op: field id is also a field of --key"):
        load(None, ["--key=id", "--op=id"])
    with pytest.raises(ConfigError, match=r"sets --key to 'id', and id\.field\.ordinals to '0': keep one"):
        load(None, ["id.field.ordinals=0", "--key=id"][::-1])


@pytest.mark.parametrize("plain", ["key", KEY])
@pytest.mark.parametrize("prefixed", ["rsbm.key", f"rsbm.{KEY}"])
def test_the_prefixed_name_wins_with_a_warning(plain, prefixed):
    config = parse({plain: "0", prefixed: "1"})
    assert config.rows.key.ids == (1,)
    assert config.wording.warnings == (f"{plain} is '0' and {prefixed} is '1'; the one with the prefix rsbm. wins",)
    assert parse({plain: "1", prefixed: "1"}).wording.warnings == ()


def test_two_names_with_the_same_value():
    assert parse({"key": "0", KEY: 0}).rows.key.ids == (0,)


def test_a_short_name_beside_a_table_of_toml(read):
    with pytest.raises(ConfigError, match=r"Cannot overwrite a value .*; a key is given twice, or one with dots needs"):
        read("key = 0\nop = 4\nop.code.keep = true", name="a.toml")
    assert read('key = 0\nop = 4\n"op.code.keep" = true', name="a.toml").rows.ops.keep


def test_any_setting_can_choose_an_envelope(monkeypatch):
    monkeypatch.setitem(ENVELOPES, "events", ENVELOPES["code"]._replace(setting="deleted.record.file.prefix"))

    assert OpSpec().envelope == "code"
    assert OpSpec(delete_when="not null").envelope == "not null"
    assert OpSpec(delete_prefix="events").envelope == "events"


def test_a_fault_of_a_setting_that_is_read_twice_is_said_once() -> None:
    with pytest.raises(ConfigError) as found:
        parse({"key": "id", "feed.dialect": "debezium"})
    assert str(found.value).count("'debezium' must be debezium-json, ") == 1
