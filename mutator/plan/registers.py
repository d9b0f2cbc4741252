"""Choose the register of a run, for merges and for explain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from mutator.config.settings import Config
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.display import nearest_word
from mutator.errors.parts import place, setting
from mutator.formats.blocks.block_types import BLOCK_TYPES
from mutator.plan.rows.row_plan import IGNORED, MERGES, PATCHES, RowPlan
from mutator.rules.ignored_fields import IgnoredFields
from mutator.rules.last_wins import LAST_WINS, SNAPSHOT
from mutator.rules.merge_functions import MergeChoice, parse_choice, refusal
from mutator.rules.merge_names import BEST, TYPES
from mutator.rules.merged_fields import MergedField, Merging
from mutator.rules.patches import Patches
from mutator.rules.register import Register, RowFields
from mutator.rules.unset_fields import whole_alone

ORDER = "order field"
_UNTYPED = ("csv", "escaped")  # formats whose values are text


def with_patches(config: Config, rows: RowPlan, known: State | None, path: str, *, versioned: bool) -> RowPlan:
    """Return a row plan whose specification says that records get patches, if they do or once did.

    The same of merge functions. path: of the master. versioned: it is a table. Raises ConfigError if its patches of
    unknown records have done something else so far, or a field had another function.
    """
    recorded = None if known is None or known.is_without_key else known.spec.get(PATCHES)
    ops = config.rows.ops
    if recorded is not None and ops.patch_unknown not in (None, recorded):
        raise error(
            "config",
            where=setting("patch.unknown"),
            faults=f"{ops.patch_unknown}, but the first run with patches of {place(path)} had {recorded}, and what "
            f"its records have beside them depends on it; set {setting(f'patch.unknown={recorded}')}",
        )
    rows = _with_ignored(config, rows, known)
    merges = _merges(config, rows, known, path)
    found = recorded or (ops.unknown if ops.has_patches or merges else None)
    why = ""
    if config.operation.overwrites:
        why = f"write.operation={config.operation.name} replaces whole records"
    elif config.operation.full:
        why = "with sync.mode=full, a row is a whole record"
    if merges and config.operation.full:
        cure = "leave the setting out; if the records have it already, replace them with write.operation"
        fault = f"{', '.join(merges)}: not here, because {why}; {cure}"
        raise error("config", where=setting("field.merge.FIELD"), faults=fault)
    if why:
        own = {name: one for name, one in rows.layouts.items() if one.unset is not None}
        whole = {name: replace(one, unset=whole_alone(one.unset, why)) for name, one in own.items()}
        rows = replace(rows, layouts={**rows.layouts, **whole})
    if found is None:
        return rows
    if not merges:
        return replace(rows, spec={**rows.spec, PATCHES: found})
    warnings = (*rows.warnings, *_on_totals(ops.dialect, merges))
    spec = {**rows.spec, PATCHES: found, MERGES: merges}
    layouts = _typed(config, rows, merges)
    if versioned:  # its rows are not read again as rows of a feed are; ``sure_values`` checks those that a merge meets
        layouts = {**layouts, "master": rows.layouts["master"]}
    return replace(rows, spec=spec, layouts=layouts, warnings=warnings)


def _on_totals(dialect: str | None, merges: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning on sums of messages, which have the values after each change."""
    names = [name for name, text in merges.items() if parse_choice(text).function.adds]
    if names and dialect is not None:
        said = setting(f"feed.dialect={dialect}")
        yield (
            f"{', '.join(names)}: sum adds up the values of all mutations, but a message of {said} has the value after "
            "the change, not what was added; sum only fields that are never updated"
        )


def _with_ignored(config: Config, rows: RowPlan, known: State | None) -> RowPlan:
    """Return a row plan whose specification has the fields that do not count. Raises ConfigError for a wrong one."""
    recorded = () if known is None or known.is_without_key else known.spec.get(IGNORED, ())
    given = config.rows.ops.uncounted
    if not (given or recorded):
        return rows
    fields, found = _fields(config, rows), []
    for field in given:
        number = _number(rows, fields, field)
        if number < 0 and str(field) in recorded:
            found.append(str(field))  # it was removed, and later runs have the same setting
            continue
        fault = _unknown(fields, field) if number < 0 else ""
        if not fault and (what := _needed(rows, fields).get(fields.names[number])) not in (None, ORDER):
            fault = f"{fields.names[number]} is the {what}, which always counts; leave it out"
        if fault:
            raise error("config", where=setting(f"noop.ignore={field}"), faults=fault)
        found.append(fields.names[number])
    return replace(rows, spec={**rows.spec, IGNORED: found or list(recorded)})


def _unknown(fields: RowFields, field: Any) -> str:
    near = nearest_word(str(field), fields.names)
    known = f"did you mean {near}?" if near else f"the fields are {', '.join(fields.names)}"
    return f"the rows have no such field; {known}"


def _merges(config: Config, rows: RowPlan, known: State | None, path: str) -> dict[str, str]:
    """Return the merge functions of a place, by the names of fields. Raises ConfigError for one that cannot be."""
    recorded = {} if known is None or known.is_without_key else known.spec.get(MERGES, {})
    given, found, chosen = config.rows.ops.merges, dict[str, str](recorded), dict[str, MergeChoice]()
    if not (given or recorded):
        return {}
    fields = _fields(config, rows)
    for name, text in recorded.items():
        number = fields.names.index(name) if name in fields.names else -1
        faults = iter(()) if number < 0 else _type_faults(rows, fields, number, parse_choice(text))
        if (fault := next(faults, None)) is not None:  # the field was removed, and added again with another type
            why = f"{fault}; {place(path)} has this function so far, so give the new field another name"
            raise error("config", where=setting(f"field.merge.{name}={text}"), faults=why)
    for field, text in given:
        number, choice = _number(rows, fields, field), parse_choice(text)
        if number < 0 and recorded.get(field) == text:
            continue  # the field was removed, and the settings of a table are those of all its applies
        faults = _faults(config, rows, fields, number, field, choice, recorded, path)
        if (fault := next(faults, None)) is not None:
            raise error("config", where=setting(f"field.merge.{field}={text}"), faults=fault)
        name = fields.names[number]
        if chosen.setdefault(name, choice) != choice:
            why = f"the field {name} has the function {chosen[name].text}, too; keep one of both"
            raise error("config", where=setting(f"field.merge.{field}={text}"), faults=why)
        if choice.function.name != "last":
            found[name] = text
    return found


def _typed(config: Config, rows: RowPlan, merges: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the layouts of rows, with the types that fields of text of the feed have for merge functions."""
    types = {name: choice.type for name, text in merges.items() if (choice := parse_choice(text)).has_type}
    if not types:
        return rows.layouts
    feeds = {name: one for name, one in rows.layouts.items() if name.partition(" ")[0] == "feed"}
    if rows.block_type != "text":
        return {**rows.layouts, **{name: replace(one, typed=types) for name, one in feeds.items()}}
    null, found = config.rows.text.csv_null, {**rows.layouts}
    for name, one in feeds.items():
        op = one.envelope.field if one.cut_op else None
        absent = (null,) if one.unset is None or one.unset.value is None else (null, one.unset.value)
        numbers = {int(field) + (op is not None and int(field) >= op): own for field, own in types.items()}
        found[name] = replace(one, typed=tuple((number, own, absent) for number, own in numbers.items()))
    return found


def _number(rows: RowPlan, fields: RowFields, field: Any) -> int:
    """Return the number of a field among those of written rows; -1 for another one. field: its ordinal, or name."""
    if isinstance(field, str):
        return fields.names.index(field) if field in fields.names else -1
    feed = rows.layouts.get("feed") if rows.block_type == "text" else None
    op = feed.envelope.field if feed is not None and feed.cut_op else None
    number: int = field - (op is not None and field > op)
    return number if number < len(fields.names) and field != op else -1


def _faults(
    config: Config,
    rows: RowPlan,
    fields: RowFields,
    number: int,
    field: Any,
    choice: MergeChoice,
    recorded: dict[str, str],
    path: str,
) -> Iterator[str]:
    """Yield why a field cannot have a merge function, and the cures."""
    if number < 0:
        yield _unknown(fields, field)
        return
    name = fields.names[number]
    if (what := _needed(rows, fields).get(name)) is not None and choice.function.name != "last":
        yield f"{name} is the {what}, which has the value of the last mutation; leave the setting out"
    before = recorded.get(name)
    if before is not None and before != choice.text and not choice.widens(parse_choice(before)):
        yield (
            f"the field {name} of {place(path)} had {before} so far, and what is kept beside the records depends on "
            "it; leave the setting out, or begin a new one"
        )
    yield from _type_faults(rows, fields, number, choice)


def _type_faults(rows: RowPlan, fields: RowFields, number: int, choice: MergeChoice) -> Iterator[str]:
    """Yield why the type of a field does not go with its function."""
    name, own = fields.names[number], fields.value_type(number)
    is_string = pa.types.is_string(own)  # a CSV file may come from typed rows
    is_text = rows.block_type == "text" or (is_string and rows.spec.get("format") in _UNTYPED)
    if choice.type is not None and not (is_text or is_string):
        yield f"{name} is of type {own}; leave {choice.text.removeprefix(choice.function.name).strip()} out"
    if choice.type is None and is_text and (choice.function.adds or choice.function.keeps == BEST):
        yield f"a field of text has no type; give one after the function: {TYPES}"
    if (why := refusal(choice.function, choice.type or own)) is not None:
        yield why if choice.type is None else why.replace(str(choice.type), "text")


def _needed(rows: RowPlan, fields: RowFields) -> dict[str, str]:
    """Return the fields that have the value of the last mutation in any case, and what they are."""
    layout, text = rows.layouts["written"], rows.block_type == "text"
    orders = [fields.names[one] for one in layout.order_fields] if text else layout.ordered_by
    sources = [fields.names[int(one.source)] if text else str(one.source) for one in rows.partitioning.fields]
    ids = [fields.names[one] for one in layout.id_fields]
    return {
        **dict.fromkeys(sources, "partition field"),
        **dict.fromkeys(orders, ORDER),
        **dict.fromkeys(ids, "ID"),
    }


def _fields(config: Config, rows: RowPlan, types: Mapping[int, Any] | None = None) -> RowFields:
    return BLOCK_TYPES[rows.block_type].fields(rows.layouts["written"], config.rows.text.csv_null, types)


def register_of(config: Config, rows: RowPlan, *, full: bool, now: int = 0) -> Register:
    """Return the register of a run. rows: where a register finds fields. full: the feed is a snapshot. now: in ms."""
    found = _register(config, rows, full=full, now=now)
    if IGNORED not in rows.spec:
        return found
    fields = _fields(config, rows)
    numbers = (number for number, name in enumerate(fields.names) if name in rows.spec[IGNORED])
    return IgnoredFields(found, fields, frozenset(numbers))


def _register(config: Config, rows: RowPlan, *, full: bool, now: int) -> Register:
    if PATCHES not in rows.spec:
        return SNAPSHOT if full else LAST_WINS
    fields, merging = _fields(config, rows), None
    if merges := rows.spec.get(MERGES):
        retention = config.retention.tombstones
        chosen = {number: parse_choice(merges[name]) for number, name in enumerate(fields.names) if name in merges}
        fields = _fields(config, rows, {number: one.type for number, one in chosen.items() if one.has_type})
        merged = [
            MergedField(number, fields.names[number], one.function, fields.value_type(number))
            for number, one in chosen.items()
        ]
        limit = None if retention is None else int(retention * 1000)
        merging = Merging(tuple(merged), rows.order_type, now, limit)
    return Patches(fields, rows.order_type, full, rows.spec[PATCHES], merging)
