"""Propose a configuration for a master and a feed: one decision after the other, each from the ones before it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.config import parse
from mutator.config.settings import Config, KeySpec
from mutator.errors.display import counted, quoted
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.inspect.delete_files import check_delete_directories, named_like_deletes
from mutator.plan.proposal.choices import Choice, Proposal
from mutator.plan.proposal.file_forms import (
    COUNT,
    DELIMITER,
    FEED_FORMAT,
    FORMAT,
    HEADER,
    MASTER_FORMAT,
    NAMES,
    FileForms,
    file_forms,
    output_format,
    title,
)
from mutator.plan.proposal.guessed_encoding import ENCODING, MASTER_ENCODING
from mutator.plan.proposal.inputs import FILES, GivenInputs, Side, find_inputs, read_tables
from mutator.plan.proposal.key_and_order import (
    ID,
    ORDER,
    ORDER_TYPE,
    SEQUENCES,
    key_choice,
    key_of,
    order_beside,
    order_choices,
    recorded_order,
)
from mutator.plan.proposal.messages import Messages, messages_of
from mutator.plan.proposal.operations import (
    DELETE_CODES,
    IGNORE_CODES,
    KEEP_OP,
    OP,
    op_choices,
    op_field,
    possible_prefix,
    prefix_choice,
)
from mutator.plan.proposal.order_fields import order_fields
from mutator.plan.proposal.partitions import KEY_SCOPE, PARTITIONED_BY, partition_choice
from mutator.plan.proposal.record_ids import repeated_in_other_partitions
from mutator.plan.proposal.tables import Inputs, Layout, SampleRows, SampleTable
from mutator.plan.rows.setting_faults import raise_all
from mutator.rules.delimiter import field_delimiter
from mutator.rules.envelope_kind import DIALECT
from mutator.rules.envelopes import OF_MESSAGES
from mutator.rules.facts import present
from mutator.rules.file_names import first_few
from mutator.rules.partition_paths import values_of

_MOST_OF = 0.6  # of the IDs of each side
_FLAGS = frozenset((b"true", b"false", b"t", b"f", b"y", b"n", b"yes", b"no", b"0", b"1"))
EMPTY_MASTER = "allow.empty.master"


@dataclass(frozen=True)
class Proposed:
    """A proposal, and what was read for it."""

    proposal: Proposal
    inputs: tuple[str, ...]  # a line on master and on feed


def propose(master: str | None, feed: Sequence[str], settings: Mapping[str, Any]) -> Proposed:
    """Look at the first rows of master and feed, and propose a configuration.

    master: None before the first run. settings: by published key, those that the user has decided.
    Raises ConfigError, DataError, StorageError or StateError with the path.
    """
    wanted = settings.get(DELIMITER)
    formats = {
        side: settings.get(key, settings.get(FORMAT))
        for side, key in (("master", MASTER_FORMAT), ("feed", FEED_FORMAT))
    }
    encodings = {key: settings.get(key) for key in (ENCODING, MASTER_ENCODING)}
    delimiter = field_delimiter.parse(str(wanted)) if wanted else None
    given = find_inputs(master, feed, delimiter, formats, encodings, settings.get(DIALECT))
    forms = file_forms(given)
    if COUNT in settings:  # rows of one field need no delimiter
        forms = replace(
            forms,
            choices=tuple(one for one in forms.choices if one.key != DELIMITER or one.value is not None),
        )
    read = {choice.key: choice.value for choice in forms.choices if choice.value is not None} | dict(settings)
    if given.said is not None:
        read = {DIALECT: given.said.dialect} | read
    later = {ID, ORDER, OP, *(() if DIALECT in read else OF_MESSAGES)}  # what the messages decide
    config = parse({ID: "0", **{key: value for key, value in read.items() if key not in later}})
    if given.nameless:
        forms = replace(forms, names=config.rows.text.names)
    raw_master, raw_feed = read_tables(given, config, named=forms.named)
    messages = messages_of(raw_master, raw_feed, settings)
    if messages is not None and any(one.key == HEADER for one in forms.choices) and not forms.csv:
        by_name = Choice(FORMAT, "csv", "the fields of messages are known by name")
        forms = replace(forms, choices=(*(one for one in forms.choices if one.key != NAMES), by_name), csv=True)
    lines = _input_lines(given, raw_master, raw_feed, forms)
    if messages is not None:
        raw_feed = list(messages.tables)
    layout = Layout.of(raw_master, raw_feed, forms.names, is_named=forms.named)
    _check_fields(layout, settings, config.rows.key)
    # Without a delimiter, rows have no fields.
    known_fields = all(choice.value is not None or choice.key in settings for choice in forms.choices)
    roles, notes = _roles(layout, given, config, settings, messages) if known_fields else ([], [])
    found = [*(messages.choices if messages else ()), *roles, *forms.choices, *output_format(given)]
    if {MASTER_FORMAT, FEED_FORMAT} <= settings.keys():
        found = [one for one in found if one.key != FORMAT]
    known = {choice.key for choice in found}
    decided = tuple(
        replace(choice, value=settings[choice.key], why="as you set it", alternatives=(), question=None)
        if choice.key in settings
        else choice
        for choice in found
    )
    others = tuple(Choice(key, value, "as you set it") for key, value in settings.items() if key not in known)
    choices = tuple(choice.read_by(config.wording.audience) for choice in (*decided, *others))
    proposal = Proposal(choices, (*notes, *(messages.notes if messages else ()), *forms.notes))
    return Proposed(proposal, lines)


def _check_fields(layout: Layout, settings: Mapping[str, Any], key: KeySpec) -> None:
    """Raise ConfigError for a setting that names a field which no file has."""
    tables = (*layout.feed, *layout.narrow, *layout.master)
    known = list(SampleRows.of(tables).fields)
    if not known:
        return
    shown = [str(layout.label(field)) for field in known]
    if not layout.by_position:
        known += {name for one in tables if one.directory for name, _ in values_of(one.directory)}
    named = [
        (setting, str(label).strip())
        for setting in (ID, ORDER, OP)
        if setting in settings
        for label in (settings[setting] if isinstance(settings[setting], list) else str(settings[setting]).split(","))
    ]
    if PARTITIONED_BY in settings:
        named += [(PARTITIONED_BY, str(one.source)) for one in key.partitions]
    raise_all(
        (setting, f"no input has a field {label}", f"they have {', '.join(shown)}")
        for setting, label in named
        if layout.field(label) not in known
    )


def _roles(
    layout: Layout, given: GivenInputs, config: Config, settings: Mapping[str, Any], messages: Messages | None
) -> tuple[list[Choice], list[str]]:
    """Return the settings that give fields and files a meaning, and notes. messages: which the rows of the feed are."""
    has_master = given.master is not None
    raw = layout.inputs(None, has_master=has_master)
    op = layout.field(settings[OP]) if OP in settings else None
    if op is None and messages is None and config.rows.text.count != "any":
        op = op_field(raw, layout.widths)
    inputs = layout.inputs(op, has_master=has_master)
    operations = _operations(inputs, layout, given, config, op) if messages is None else []
    # A bridge leaves the key to the first run.
    recorded = None if given.state is None or given.state.is_without_key else given.state
    key = messages.key if messages is not None and recorded is None and ID not in settings else None
    key = key or key_of(inputs, layout, recorded, settings, op)
    choices = [key_choice(key, layout)]
    ids = key.fields if key is not None else ()
    if messages is not None and messages.order and not {ORDER, SEQUENCES} & settings.keys():
        choices += messages.order
    elif recorded is not None:
        choices += recorded_order(recorded, inputs, layout, op)
    else:
        fields = order_fields(inputs, ids, op)
        if messages is not None and ORDER not in settings:
            # A delete may have old values, or none, in the columns of the record.
            fields = [one for one in fields if one.field in messages.beside]
            choices += order_beside(inputs, layout, fields, given.feed.sources, ids)
        elif ORDER not in settings:
            codes = next((one.value for one in operations if one.key == IGNORE_CODES), None)
            ignored = codes if isinstance(codes, list) else []
            choices += order_choices(inputs, layout, fields, given.feed.sources, ids, op, ignored)
        else:
            choices.append(Choice(ORDER, settings[ORDER], "as you set it"))
            field = layout.field(settings[ORDER])
            found = [one for one in fields if one.field == field]
            choices += [Choice(ORDER_TYPE, one.order_type, one.why) for one in found if not one.typed]
    choices += operations
    partitioned = partition_choice(inputs) if given.state is None else None
    if partitioned is not None:
        choices.append(partitioned)
        if ids and (repeated := repeated_in_other_partitions(inputs.master, ids)):
            why = f"{counted(repeated, 'ID')} of the first rows occur in several partitions"
            choices.append(Choice(KEY_SCOPE, "partition", why))
    if given.master is None or not any(source.bytes for source in given.master.sources):
        choices.append(Choice(EMPTY_MASTER, True, "there is no master yet; remove this line after the first run"))
    return choices, _notes_on(inputs, layout, given, ids, has_deletes=bool(operations or messages))


def _operations(inputs: Inputs, layout: Layout, given: GivenInputs, config: Config, op: str | None) -> list[Choice]:
    if op is not None:
        return op_choices(inputs, op, layout.label(op))
    without_op, operation = replace(config.rows.ops, field=None), config.operation
    check_delete_directories(without_op, operation, given.feed.sources)
    by_nothing = replace(without_op, delete_prefix=None, delete_pattern=None)
    master = given.master.sources if given.master is not None else ()
    named = named_like_deletes(by_nothing, operation, given.feed.sources, [source.name for source in master])
    others = sorted({source.name for source in given.feed.sources} - named.keys())
    choice = prefix_choice(named, others) or possible_prefix(others)
    return [] if choice is None else [choice]


def _notes_on(
    inputs: Inputs, layout: Layout, given: GivenInputs, ids: Sequence[str], *, has_deletes: bool
) -> list[str]:
    """Return notes. ids: the fields of the record ID. has_deletes: the feed has op codes or delete files."""
    notes = [] if has_deletes else _snapshot_notes(inputs, ids)
    if inputs.ids_alone:
        names = first_few([table.file for table in inputs.ids_alone])
        notes.append(f"{names}: rows have fewer fields than those of the other files")
    if not any(table.count for table in (*inputs.feed, *inputs.ids_alone)):
        notes.append("the feed has no rows: nothing shows op codes or how deletes are marked")
    notes += [] if has_deletes else _flag_notes(inputs, layout)
    for name, side in (("master", given.master), ("feed", given.feed)):
        if side is not None and side.files > FILES:
            notes.append(f"{len(side.sources)} of the {side.files:,} files of the {name} were read")
    master_width, feed_width = layout.widths
    if layout.by_position and master_width and feed_width and feed_width not in (master_width, master_width + 1):
        notes.append(f"rows of the master have {counted(master_width, 'field')}, and those of the feed {feed_width}")
    return notes


def _snapshot_notes(inputs: Inputs, ids: Sequence[str]) -> list[str]:
    """Return a note on a feed that may be a complete snapshot: about the master's records, each of them once."""
    master, feed = SampleRows.of(inputs.master).keys(ids), SampleRows.of(inputs.feed).keys(ids)
    in_master, in_feed = set(master), set(feed)
    both = len(in_master & in_feed)
    if not in_master or len(feed) > len(in_feed) or both <= _MOST_OF * max(len(in_master), len(in_feed)):
        return []
    found = f"the feed has {both:,} of the {counted(len(in_master), 'ID')} of the master, each of them once"
    snapshot = (
        "if each delivery is a complete snapshot, set {sync.mode} to full, which deletes the records that it lacks"
    )
    return [f"{found}: {snapshot}"]


def _flag_notes(inputs: Inputs, layout: Layout) -> list[str]:
    """Return a note on a field that may mark deletes by a flag."""
    feed = SampleRows.of(inputs.feed)
    for name, values in feed.columns.items():
        codes = {value.lower() for value in present(values)}
        if "delete" in name.lower() and codes and codes <= _FLAGS:
            shown = " or ".join(quoted(code) for code in sorted(codes))
            names = f"set {{{OP}}} to it, {{{DELETE_CODES}}} to the value of deletes"
            keep = f"{{{KEEP_OP}}} to true if the result keeps the field"
            return [f"field {layout.label(name)} has {shown}: if it marks deletes, {names}, and {keep}"]
    return []


def _input_lines(
    given: GivenInputs, master: Sequence[SampleTable], feed: Sequence[SampleTable], forms: FileForms
) -> tuple[str, ...]:
    """Return a line on what was read of the master, and one of the feed."""

    def line(side: Side | None, tables: Sequence[SampleTable]) -> str:
        if side is None:
            return "none yet"
        count = sum(table.count for table in tables)
        others = sum(table.others for table in tables)
        rows = f"{count:,} of {count + others:,} rows" if others else counted(count, "row")
        read = f"{rows} read" if count else "no rows"
        formats = title(side, csv=forms.csv)
        return ", ".join(filter(None, (f"{side.given}: {counted(side.files, 'file')}", formats, read)))

    return f"master  {line(given.master, master)}", f"feed    {line(given.feed, feed)}"
