"""Propose a configuration for a master and a feed: one decision after the other, each from the ones before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator.config import Config, parse
from mutator.dataset.manifest import Manifest
from mutator.errors.display import counted
from mutator.plan.inspect.delete_files import named_like_deletes
from mutator.plan.proposal.choice import Choice, Proposal, Value
from mutator.plan.proposal.file_forms import COUNT, DELIMITER, Forms, file_forms, title
from mutator.plan.proposal.inputs import FILES, Given, Side, find_inputs, read_tables
from mutator.plan.proposal.operations import OP, op_choices, op_field, possible_prefix, prefix_choice
from mutator.plan.proposal.order_fields import OrderField, order_fields, repeats_the_sequence
from mutator.plan.proposal.partitions import KEY_SCOPE, partition_choice
from mutator.plan.proposal.record_ids import RecordId, record_id, repeated_in_other_partitions
from mutator.plan.proposal.tables import Inputs, Rows, Table
from mutator.rules.delimiter import field_delimiter
from mutator.rules.file_names import first_few

ID, ORDER, ORDER_TYPE = "id.field.ordinals", "temporal.ordering.field.ordinal", "temporal.ordering.field.type"
EMPTY_MASTER = "allow.empty.master"
_MOST_OF = 0.6  # of the master's IDs


@dataclass(frozen=True)
class Proposed:
    """A proposal, and what was read for it."""

    proposal: Proposal
    inputs: tuple[str, ...]  # a line on master and on feed


def propose(master: str | None, feed: Sequence[str], settings: Mapping[str, Any]) -> Proposed:
    """Look at the first rows of master and feed, and propose a configuration.

    master: None if there is none yet. settings: by published key, those that the user has decided.
    Raises ConfigError, DataError, StorageError or StateError with the path.
    """
    wanted = settings.get(DELIMITER)
    given = find_inputs(master, feed, field_delimiter.parse(str(wanted)).literal if wanted else None)
    forms = file_forms(given)
    if COUNT in settings:  # rows of one field need no delimiter
        forms = replace(
            forms,
            choices=tuple(one for one in forms.choices if one.key != DELIMITER or one.value is not None),
        )
    read = {choice.key: choice.value for choice in forms.choices if choice.value is not None} | dict(settings)
    config = parse({ID: "0", **{key: value for key, value in read.items() if key not in (ID, ORDER, OP)}})
    raw_master, raw_feed = read_tables(given, config, named=forms.named)
    layout = _Layout.of(raw_master, raw_feed, forms)
    # Without a delimiter, rows have no fields.
    known_fields = all(choice.value is not None or choice.key in settings for choice in forms.choices)
    choices, notes = _roles(layout, given, config, settings) if known_fields else ([], [])
    found = (*choices, *forms.choices)
    known = {choice.key for choice in found}
    decided = tuple(
        replace(choice, value=settings[choice.key], why="as you set it", alternatives=(), question=None)
        if choice.key in settings
        else choice
        for choice in found
    )
    others = tuple(Choice(key, value, "as you set it") for key, value in settings.items() if key not in known)
    proposal = Proposal((*decided, *others), (*notes, *forms.notes))
    return Proposed(proposal, _lines(given, raw_master, raw_feed, forms))


@dataclass(frozen=True)
class _Layout:
    """The first rows, with the fields of a master numbered as in the feed, once the op code field is known."""

    master: tuple[Table, ...]
    feed: tuple[Table, ...]
    narrow: tuple[Table, ...]  # feed files with fewer fields than the others
    widths: tuple[int, int]  # of whole rows of master and feed
    by_position: bool
    names: tuple[str, ...]  # of the feed's fields, where positions have names

    @classmethod
    def of(cls, master: Sequence[Table], feed: Sequence[Table], forms: Forms) -> _Layout:
        by_position = all(name.isdigit() for table in (*master, *feed) for name in table.fields)
        if not by_position:
            return cls(tuple(master), tuple(table for table in feed if table.columns), (), (0, 0), False, forms.names)
        master_width, feed_width = _width(master), _width(feed)
        whole = max(feed_width, master_width)
        if feed_width < master_width and len({len(table.fields) for table in feed if table.count}) > 1:
            feed_width = max(len(table.fields) for table in feed)
        narrow = [table for table in feed if 0 < len(table.fields) < min(whole, max(feed_width, master_width))]
        own = [table for table in feed if table not in narrow and table.columns]
        if not own:  # all feed files have IDs alone
            own, feed_width = [], master_width
        return cls(tuple(master), tuple(own), tuple(narrow), (master_width, feed_width), True, forms.names)

    def inputs(self, op: str | None, *, has_master: bool) -> Inputs:
        master_width, feed_width = self.widths
        master = self.master
        if op is not None and self.by_position and master_width == feed_width - 1:
            master = tuple(_renumbered(table, int(op)) for table in master)
        return Inputs(master, self.feed, self.narrow, has_master, named=not self.by_position)

    def label(self, field: str) -> Value:
        """Return a field as a setting has it."""
        if not self.by_position:
            return field
        return self.names[int(field)] if int(field) < len(self.names) else int(field)

    def field(self, label: Any) -> str:
        """Return the field that a setting names."""
        text = str(label)
        return str(self.names.index(text)) if self.by_position and text in self.names else text


def _width(tables: Sequence[Table]) -> int:
    widths: Counter[int] = Counter()
    for table in tables:
        widths[len(table.fields)] += table.count
    return widths.most_common(1)[0][0] if widths else 0


def _renumbered(table: Table, op: int) -> Table:
    """Return a table of a master without the op code, its fields numbered as in the feed."""
    columns = {str(int(name) + (int(name) >= op)): values for name, values in table.columns.items()}
    return replace(table, columns=columns)


def _roles(
    layout: _Layout, given: Given, config: Config, settings: Mapping[str, Any]
) -> tuple[list[Choice], list[str]]:
    """Return the settings that give fields and files a meaning, and notes."""
    has_master = given.master is not None
    raw = layout.inputs(None, has_master=has_master)
    op = layout.field(settings[OP]) if OP in settings else None
    if op is None and config.field_count != "any":
        op = op_field(raw, layout.widths)
    inputs = layout.inputs(op, has_master=has_master)
    operations = _operations(inputs, layout, given, config, op)
    key = _key(inputs, layout, given.manifest, settings, op)
    choices = [_key_choice(key, layout)]
    ids = key.fields if key is not None else ()
    if given.manifest is not None:
        choices += _recorded_order(given.manifest, inputs, layout, op)
    elif ORDER not in settings:
        choices += _order(inputs, layout, order_fields(inputs, ids, op), given)
    else:
        choices.append(Choice(ORDER, settings[ORDER], "as you set it"))
        field = layout.field(settings[ORDER])
        found = [one for one in order_fields(inputs, ids, op) if one.field == field]
        choices += [Choice(ORDER_TYPE, found[0].order_type, found[0].why)] if found else []
    choices += operations
    partitioned = partition_choice(inputs.master) if given.manifest is None else None
    if partitioned is not None:
        choices.append(partitioned)
        if ids and (repeated := repeated_in_other_partitions(inputs.master, ids)):
            why = f"{counted(repeated, 'ID')} of the first rows occur in several partitions"
            choices.append(Choice(KEY_SCOPE, "partition", why))
    if given.master is None or not any(source.bytes for source in given.master.sources):
        choices.append(Choice(EMPTY_MASTER, True, "there is no master yet; remove this line after the first run"))
    return choices, _notes(inputs, layout, given, ids, has_deletes=bool(operations))


def _operations(inputs: Inputs, layout: _Layout, given: Given, config: Config, op: str | None) -> list[Choice]:
    if op is not None:
        return op_choices(inputs, op, layout.label(op))
    config = replace(config, delete_prefix=None, op_field=None)
    master = given.master.sources if given.master is not None else ()
    named = named_like_deletes(config, given.feed.sources, [source.name for source in master])
    others = sorted({source.name for source in given.feed.sources} - named.keys())
    choice = prefix_choice(named, others) or possible_prefix(others)
    return [] if choice is None else [choice]


def _key(
    inputs: Inputs, layout: _Layout, known: Manifest | None, settings: Mapping[str, Any], op: str | None
) -> RecordId | None:
    if ID in settings:
        value = settings[ID]
        labels = value if isinstance(value, list) else str(value).split(",")
        return RecordId(tuple(layout.field(str(label).strip()) for label in labels), "as you set it")
    if known is not None:
        key = known.spec["key"]
        fields = key.get("fields") or [_recorded(at, known, op, inputs) for at in key["ordinals"]]
        return RecordId(tuple(fields), "the record ID in the master's manifest")
    return record_id(inputs, op)


def _recorded(ordinal: int, known: Manifest, op: str | None, inputs: Inputs) -> str:
    """Return the field of the feed at an ordinal of a managed master, whose rows may lack the op code."""
    lacks_op = op is not None and known.spec["op code"] is None
    if inputs.named:  # by a header of delimited text
        names = [name for name in Rows.of(inputs.feed).fields if not (lacks_op and name == op)]
        return names[ordinal] if ordinal < len(names) else str(ordinal)
    return str(ordinal + (lacks_op and ordinal >= int(op or 0)))


def _key_choice(key: RecordId | None, layout: _Layout) -> Choice:
    if key is None:
        why = "no field has different values in the rows"
        which = f"Which fields are the record ID? Set {{{ID}}}."
        return Choice(ID, None, why, [(0, "the first field")], which, needed=True)

    def value(fields: Sequence[str]) -> Value:
        labels = [layout.label(field) for field in fields]
        return labels if len(labels) > 1 else labels[0]

    question = None
    if not key.certain:
        rivals = [_and([str(layout.label(field)) for field in fields]) for fields, _ in key.others]
        shown = _and([str(layout.label(field)) for field in key.fields])
        noun = "field" if len(key.fields) == 1 else "fields"
        question = f"Is the record ID {noun} {shown}{f', or {rivals[0]}' if rivals else ''}? {key.why}."
        question += f" Set {{{ID}}} if it is not {shown}."
    return Choice(ID, value(key.fields), key.why, [(value(fields), why) for fields, why in key.others], question)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _recorded_order(known: Manifest, inputs: Inputs, layout: _Layout, op: str | None) -> list[Choice]:
    order = known.spec["order"]
    if order["by"] == "file name":
        return [Choice(ORDER, None, "order comes from file names, as in the master's manifest")]
    field = order.get("field")
    label = field if field is not None else layout.label(_recorded(order["ordinal"], known, op, inputs))
    why = "the order in the master's manifest"
    return [Choice(ORDER, label, why), Choice(ORDER_TYPE, order["type"], why)]


def _order(inputs: Inputs, layout: _Layout, found: Sequence[OrderField], given: Given) -> list[Choice]:
    feed = [source for source in given.feed.sources if source.bytes]
    numbered = bool(feed) and all(source.sequence is not None for source in feed)
    tables = [*inputs.feed, *inputs.master]
    repeated = [one for one in found if numbered and repeats_the_sequence(tables, one.field)]
    found = [one for one in found if one not in repeated]
    best = found[0] if found else None
    if numbered and (best is None or not best.strong or inputs.ids_alone):
        numbers = f"each feed file has a number after the last _ of its name, such as {feed[0].name}"
        why = f"order comes from file names: {numbers}"
        if repeated:
            why += f", and field {layout.label(repeated[0].field)} repeats it"
        others = [(layout.label(one.field), one.why) for one in found[:2]]
        question = None
        if best is not None and not inputs.ids_alone:
            field = layout.label(best.field)
            question = (
                f"Do mutations follow the numbers in file names, or field {field}? For the field, set {{{ORDER}}}."
            )
        return [Choice(ORDER, None, why, others, question)]
    if best is None:
        why = "no field has a number or a time in every row, and not every name of a feed file ends in _ and a number"
        question = (
            f"Which field shows the mutation that came last? Set {{{ORDER}}} and {{{ORDER_TYPE}}} (string compares "
            "bytes), or have the feed files numbered, as in ups_1.txt."
        )
        return [Choice(ORDER, None, why, (), question, needed=True)]
    rivals = [one for one in found[1:] if one.score >= best.score - 1]
    question = None
    if rivals or not best.strong:
        names = _and([str(layout.label(one.field)) for one in (best, *rivals)])
        question = f"Does field {names} show the mutation that came last? Otherwise set {{{ORDER}}}."
        if rivals:
            question = f"Which of the fields {names} shows the mutation that came last? Set {{{ORDER}}}."
    others = [(layout.label(one.field), one.why) for one in (rivals or found[1:2])[:3]]
    choices = [Choice(ORDER, layout.label(best.field), best.why, others, question)]
    why = "all values of the first rows have this type"
    choices.append(Choice(ORDER_TYPE, best.order_type, why))
    if numbered and len(feed) > 1:
        note = f"numbers in file names, such as {feed[0].name}, may give another order: then leave both settings out"
        choices[0] = replace(choices[0], why=f"{best.why}; {note}")
    return choices


def _notes(inputs: Inputs, layout: _Layout, given: Given, ids: Sequence[str], *, has_deletes: bool) -> list[str]:
    notes = []
    in_master, in_feed = set(Rows.of(inputs.master).keys(ids)), set(Rows.of(inputs.feed).keys(ids))
    if not has_deletes and len(in_master & in_feed) > _MOST_OF * len(in_master) > 0:
        notes.append(
            f"the feed has {len(in_master & in_feed):,} of the {counted(len(in_master), 'ID')} of the master: if each "
            "delivery is a complete snapshot, set {sync.mode} to full, which deletes the records that it lacks"
        )
    if inputs.ids_alone:
        names = first_few([table.file for table in inputs.ids_alone])
        notes.append(f"{names}: rows have fewer fields than those of the other files")
    if not any(table.count for table in (*inputs.feed, *inputs.ids_alone)):
        notes.append("the feed has no rows: nothing shows op codes or how deletes are marked")
    for name, side in (("master", given.master), ("feed", given.feed)):
        if side is not None and side.files > FILES:
            notes.append(f"{len(side.sources)} of the {side.files:,} files of the {name} were read")
    master_width, feed_width = layout.widths
    if layout.by_position and master_width and feed_width and feed_width not in (master_width, master_width + 1):
        notes.append(f"rows of the master have {counted(master_width, 'field')}, and those of the feed {feed_width}")
    return notes


def _lines(given: Given, master: Sequence[Table], feed: Sequence[Table], forms: Forms) -> tuple[str, ...]:
    def line(side: Side | None, tables: Sequence[Table]) -> str:
        if side is None:
            return "none yet"
        count = sum(table.count for table in tables)
        read = f"{counted(count, 'row')} read" if count else "no rows"
        formats = title(side.sources, csv=forms.csv)
        return ", ".join(filter(None, (f"{side.given}: {counted(side.files, 'file')}", formats, read)))

    return f"master  {line(given.master, master)}", f"feed    {line(given.feed, feed)}"
