"""The configuration: ``.properties``, TOML and ``-D key=value`` to one frozen ``Config``.

Keys are those of the original MapReduce job, with or without its prefix ``rsbm.`` (which wins where both are given),
and new ones in the same style. Every fault is found at once. An empty value means unset.

>>> config = parse({"id.field.ordinals": "0", "temporal.ordering.field.ordinal": "5"})
>>> config.order_type
'long'
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mutator import delimiter
from mutator.delimiter import Delimiter
from mutator.errors import error

__all__ = ["Config", "load", "parse", "parse_override"]

PREFIX = "rsbm."
# Settings of the platform that ran the original job; they stand in its files and mean nothing here.
FOREIGN = re.compile(r"(mapreduce|mapred|hadoop|yarn|dfs|fs|io|debug|conf)\.")


@dataclass(frozen=True)
class Config:
    """A checked configuration. ``None`` means unset; ordinals count from 0 in the feed's layout."""

    # --- settings that change the result
    id_fields: tuple[int, ...]
    order_field: int | None = None  # None: order comes from file names
    order_type: str = "sequence"  # long | decimal | timestamp | string, or sequence
    op_field: int | None = None
    delete_codes: frozenset[bytes] = frozenset((b"D",))
    upsert_codes: frozenset[bytes] | None = None  # None: whatever is not a delete code
    op_keep: bool = False
    op_in_master: bool | None = None  # None: inferred from the master's width
    delete_prefix: str | None = None
    delimiter: Delimiter = field(default_factory=lambda: delimiter.parse(","))
    joint: bytes = b","  # between the fields of a row whose delimiter is a regex
    field_count: int | str = "auto"  # a number, "auto" or "any"
    field_names: tuple[str, ...] = ()
    header_lines: int = 0
    sync_mode: str = "partial"
    allow_older_snapshot: bool = False
    allow_empty_master: bool = False
    master_adopt: bool = False
    reject_policy: str = "fail"
    reject_limit: int = 1000
    master_reject_policy: str = "fail"
    max_delete_fraction: float = 0.5
    tombstone_retention: float | None = None  # seconds; None: for ever
    before_horizon: str = "insert"
    consumed_retention: float | None = None  # seconds; None: for ever
    consumed_files: str = "skip"
    # --- settings that change only the speed
    num_reducer: int | None = None
    split_bytes: int = 64 << 20
    bucket_bytes: int = 64 << 20
    # --- what the user should know
    warnings: tuple[str, ...] = ()

    @property
    def by_file_name(self) -> bool:
        """Tell whether the order value of a mutation is the sequence of its file."""
        return self.order_field is None

    @property
    def full(self) -> bool:
        """Tell whether the feed is one complete snapshot."""
        return self.sync_mode == "full"


def load(path: str | Path | None, overrides: Iterable[str] = ()) -> Config:
    """Read a configuration file and ``key=value`` overrides, which win.

    Raises ConfigError with every fault found.
    """
    settings: dict[str, str] = {}
    where = "the command line"
    if path is not None:
        where = str(path)
        settings.update(_read_file(Path(path)))
    for text in overrides:
        key, value = parse_override(text)
        bare = key.removeprefix(PREFIX)
        settings.pop(PREFIX + bare, None)
        settings[bare] = value
    return parse(settings, where)


def parse_override(text: str) -> tuple[str, str]:
    """Split one ``key=value`` of the command line.

    >>> parse_override("sync.mode=full")
    ('sync.mode', 'full')
    """
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise error("usage", what=f"-D {text}: expected key=value, for example -D num.reducer=8")
    return key.strip(), value


def parse(settings: Mapping[str, Any], where: str = "the configuration") -> Config:
    """Check settings and make a ``Config`` of them.

    settings: key to value as text (numbers, booleans and lists of TOML are taken as well).
    Raises ConfigError with every fault found, each with key, value, what was expected and the nearest known name.
    """
    given, faults, warnings = _normalise(settings)
    read = _Reader(given, faults)
    names = read("field.names", _texts, ())
    config = Config(
        id_fields=read("id.field.ordinals", lambda text: _ordinals(text, names), ()),
        order_field=read("temporal.ordering.field.ordinal", lambda text: _ordinal_or_unset(text, names), None),
        op_field=read("op.code.field.ordinal", lambda text: _ordinal_or_unset(text, names), None),
        delete_codes=frozenset(read("deleted.op.code", _codes, (b"D",))),
        upsert_codes=read("upsert.op.code", lambda text: frozenset(_codes(text)), None),
        op_keep=read("op.code.keep", _flag, False),
        op_in_master=read("op.code.in.master", _flag, None),
        delete_prefix=read("deleted.record.file.prefix", _text, None),
        delimiter=read("field.delim.regex", delimiter.parse, delimiter.parse(",")),
        joint=read("field.delim", _joint, b","),
        field_count=read("field.count", _field_count, "auto"),
        field_names=names,
        header_lines=read("header.lines", _whole, 0),
        sync_mode=read("sync.mode", _one_of("partial", "full"), "partial"),
        allow_older_snapshot=read("allow.older.snapshot", _flag, False),
        allow_empty_master=read("allow.empty.master", _flag, False),
        master_adopt=read("master.adopt", _flag, False),
        reject_policy=read("reject.policy", _one_of("fail", "quarantine"), "fail"),
        reject_limit=read("reject.limit", _whole, 1000),
        master_reject_policy=read("master.reject.policy", _one_of("fail", "quarantine"), "fail"),
        max_delete_fraction=read("max.delete.fraction", _fraction, 0.5),
        tombstone_retention=read("tombstone.retention", _duration, None),
        before_horizon=read("before.horizon", _one_of("insert", "fail"), "insert"),
        consumed_retention=read("consumed.retention", _duration, None),
        consumed_files=read("consumed.files", _one_of("skip", "merge"), "skip"),
        num_reducer=read("num.reducer", _positive, None),
        split_bytes=read("split.bytes", _size, 64 << 20),
        bucket_bytes=read("bucket.bytes", _size, 64 << 20),
    )
    numeric = read("temporal.ordering.field.numeric", _flag, None)
    kind = read("temporal.ordering.field.type", _one_of("long", "decimal", "timestamp", "string"), None)
    for key in given:
        if key not in read.known:
            near = difflib.get_close_matches(key, read.known, n=1)
            faults.append(f"{key}: is not a known setting" + (f"; did you mean {near[0]}?" if near else ""))
    if not faults:
        config = replace(config, order_type=_order_type(config, numeric, kind, faults))
        _check_together(config, given, faults, warnings)
    if faults:
        raise error("config", where=where, faults="\n  ".join(["the configuration cannot be used:", *faults]))
    return replace(config, warnings=tuple(warnings))


def _order_type(config: Config, numeric: bool | None, kind: str | None, faults: list[str]) -> str:
    if config.by_file_name:
        if kind is not None:
            faults.append(f"temporal.ordering.field.type: '{kind}', and no temporal.ordering.field.ordinal is set")
        return "sequence"
    if kind is None:
        return "string" if numeric is False else "long"
    if numeric is not None and numeric is not (kind in ("long", "decimal")):
        faults.append(
            f"temporal.ordering.field.numeric: '{str(numeric).lower()}' contradicts temporal.ordering.field.type = "
            f"{kind}; leave it out"
        )
    return kind


def _check_together(config: Config, given: Mapping[str, Any], faults: list[str], warnings: list[str]) -> None:
    """Find the settings that are right alone and wrong together."""
    ids, order, op = config.id_fields, config.order_field, config.op_field
    if not ids:
        faults.append("id.field.ordinals: is missing; name the fields of the record ID, for example 0 or 0,2")
    if len(set(ids)) != len(ids):
        faults.append(f"id.field.ordinals: '{given['id.field.ordinals']}' names a field twice")
    if op is not None and op in ids:
        faults.append(f"op.code.field.ordinal: field {op} is also a field of id.field.ordinals")
    if op is not None and op == order:
        faults.append(f"op.code.field.ordinal: field {op} is also the temporal.ordering.field.ordinal")
    if order is not None and order in ids:
        warnings.append(f"field {order} is both ID and order value: every version is then a record of its own")
    if isinstance(config.field_count, int):
        for key, ordinals in (
            ("id.field.ordinals", ids),
            ("temporal.ordering.field.ordinal", (order,)),
            ("op.code.field.ordinal", (op,)),
        ):
            for ordinal in ordinals:
                if ordinal is not None and ordinal >= config.field_count:
                    faults.append(f"{key}: field {ordinal} is beyond field.count = {config.field_count}")
    if config.field_names and isinstance(config.field_count, int) and len(config.field_names) != config.field_count:
        faults.append(f"field.names: {len(config.field_names)} names, and field.count = {config.field_count}")
    if config.upsert_codes and config.upsert_codes & config.delete_codes:
        both = b",".join(sorted(config.upsert_codes & config.delete_codes)).decode("utf-8", "surrogateescape")
        faults.append(f"upsert.op.code: '{both}' is also a deleted.op.code")
    if op is not None and config.delete_prefix is not None and not config.full:
        warnings.append("deleted.record.file.prefix is ignored, because op.code.field.ordinal says what is deleted")
    if op is None:
        for key in ("upsert.op.code", "op.code.keep", "op.code.in.master"):
            if key in given:
                faults.append(f"{key}: '{_shown(given[key])}' needs op.code.field.ordinal")
    if config.full:
        for key in ("op.code.field.ordinal", "deleted.op.code", "deleted.record.file.prefix"):
            if key in given and not (key == "op.code.field.ordinal" and op is None):
                faults.append(
                    f"{key}: '{_shown(given[key])}' stands beside sync.mode = full, where what is absent is deleted; "
                    "leave it out"
                )
        if config.reject_policy != "fail":
            faults.append(
                "reject.policy: 'quarantine' stands beside sync.mode = full, where a reject would be a delete"
            )
    literal = config.delimiter.literal
    if literal is not None and "field.delim" in given and config.joint != literal:
        warnings.append("field.delim is ignored: rows are rejoined with the delimiter that they were split by")


class _Reader:
    """Take settings one by one, collect the faults, and remember which keys are known."""

    def __init__(self, given: Mapping[str, Any], faults: list[str]) -> None:
        self.given = given
        self.faults = faults
        self.known: list[str] = []

    def __call__(self, key: str, convert: Callable[[str], Any], default: Any) -> Any:
        self.known.append(key)
        if key not in self.given:
            return default
        value = self.given[key]
        try:
            return convert(_shown(value))
        except ValueError as fault:
            self.faults.append(f"{key}: '{_shown(value)}' {fault}")
            return default


def _normalise(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str], list[str]]:
    """Strip the prefix, drop what is empty or foreign; return (settings, faults, warnings)."""
    given: dict[str, Any] = {}
    foreign = []
    for key in sorted(settings, key=lambda key: key.startswith(PREFIX)):  # the prefixed ones last: they win
        bare = key.removeprefix(PREFIX)
        if FOREIGN.match(bare):
            foreign.append(key)
        elif _shown(settings[key]) == "":
            given.pop(bare, None)
        else:
            given[bare] = settings[key]
    warnings = [f"settings of the platform are ignored: {', '.join(sorted(foreign))}"] if foreign else []
    return given, [], warnings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return _flatten(tomllib.loads(text)) if path.suffix == ".toml" else _read_properties(text)
    except OSError as fault:
        raise error("config.file", path=path, why=fault.strerror or fault) from None
    except UnicodeDecodeError as fault:
        raise error("config.file", path=path, why=f"byte {fault.start} is not UTF-8") from None
    except ValueError as fault:  # a TOML or \\u syntax error, or a duplicate key
        raise error("config.file", path=path, why=fault) from None


def _read_properties(text: str) -> dict[str, str]:
    import javaproperties  # here, because only the driver reads files, and workers need not have it

    found: dict[str, str] = {}
    line = 1
    for part in javaproperties.parse(text):
        if isinstance(part, javaproperties.KeyValue):
            if found.get(part.key, part.value) != part.value:
                raise ValueError(f"line {line}: '{part.key}' is set twice with different values; keep one of the lines")
            found[part.key] = part.value
        line += part.source.count("\n")
    return found


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested TOML tables into dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _shown(value: Any) -> str:
    """Write a value of TOML as the properties would."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(_shown(part) for part in value)
    return str(value)


def _text(text: str) -> str:
    return text


def _texts(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if "" in parts or len(set(parts)) != len(parts):
        raise ValueError("must be different names with commas between them")
    return parts


def _codes(text: str) -> tuple[bytes, ...]:
    return tuple(part.strip().encode("utf-8", "surrogateescape") for part in text.split(","))


def _joint(text: str) -> bytes:
    if "\n" in text:
        raise ValueError("holds a line feed, which ends a row")
    return text.encode("utf-8", "surrogateescape")


def _flag(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()):
        raise ValueError("must be a whole number, 0 or more")
    return int(text)


def _positive(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", text.strip()) or int(text) < 1:
        raise ValueError("must be a whole number from 1 to 999999")
    return int(text)


def _ordinal(text: str, names: tuple[str, ...]) -> int:
    text = text.strip()
    if text in names:
        return names.index(text)
    if not re.fullmatch(r"[0-9]{1,6}", text):
        near = difflib.get_close_matches(text, names, n=1)
        raise ValueError(
            "must be an ordinal counted from 0"
            + (f", or one of field.names{f' (did you mean {near[0]}?)' if near else ''}" if names else "")
        )
    return int(text)


def _ordinal_or_unset(text: str, names: tuple[str, ...]) -> int | None:
    return None if text.strip() == "-1" else _ordinal(text, names)  # the original job's way to say unset


def _ordinals(text: str, names: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(_ordinal(part, names) for part in text.split(","))


def _field_count(text: str) -> int | str:
    text = text.strip()
    if text in ("auto", "any"):
        return text
    if not re.fullmatch(r"[0-9]{1,6}", text) or int(text) < 1:
        raise ValueError("must be auto, any, or the number of fields of a feed row")
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


def _duration(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,9})\s*([smhdw])", text.strip())
    if not match:
        raise ValueError("must be a duration such as 90d, 12h, 30m or 45s")
    return int(match[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[match[2]]


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})\s*([kmg]?)(i?b)?", text.strip().lower())
    if not match or int(match[1]) < 1:
        raise ValueError("must be a size such as 67108864, 64m or 1g")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]


def _one_of(*values: str) -> Callable[[str], str]:
    def choose(text: str) -> str:
        if text.strip() not in values:
            raise ValueError(f"must be {' or '.join((', '.join(values[:-1]), values[-1]))}")
        return text.strip()

    return choose
