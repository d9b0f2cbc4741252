"""The settings of the record ID and the order, with the questions that the first rows leave."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.dataset.state import State
from mutator.errors.display import counted
from mutator.errors.parts import quoted_value
from mutator.plan.inspect.source import Source
from mutator.plan.proposal.choices import Choice, Value
from mutator.plan.proposal.order_fields import SOME_REASON, OrderField, Ties, local_dates, repeats_the_sequence, ties_of
from mutator.plan.proposal.record_ids import RecordId, record_id
from mutator.plan.proposal.tables import Inputs, Layout, SampleRows
from mutator.rules.file_sequences import contradiction, preset_of
from mutator.rules.order_types import POSITION, has_position, recorded_fields, type_of_fields

SEQUENCES = "sequence.pattern"
ID, ORDER, ORDER_TYPE = "id.field.ordinals", "temporal.ordering.field.ordinal", "temporal.ordering.field.type"
NULL_ORDER = "null.order"
_BY_FILE = "no other field tells these apart: the last one wins, by the number and name of its file, and its row"


def key_of(
    inputs: Inputs, layout: Layout, known: State | None, settings: Mapping[str, Any], op: str | None
) -> RecordId | None:
    """Return the record ID: that of the user, of the master's manifest, or of the first rows. op: the op code field."""
    if ID in settings:
        value = settings[ID]
        labels = value if isinstance(value, list) else str(value).split(",")
        return RecordId(tuple(layout.field(str(label).strip()) for label in labels), "as you set it")
    if known is not None:
        key = known.spec["key"]
        fields = key.get("fields") or [_recorded(at, known, op, inputs) for at in key["ordinals"]]
        return RecordId(tuple(fields), "the record ID in the master's manifest")
    return record_id(inputs, op)


def _recorded(ordinal: int, known: State, op: str | None, inputs: Inputs) -> str:
    """Return the field of the feed at an ordinal of a managed master, whose rows may lack the op code."""
    lacks_op = op is not None and known.spec["op code"] is None
    if inputs.named:  # by a header of delimited text
        names = [name for name in SampleRows.of(inputs.feed).fields if not (lacks_op and name == op)]
        return names[ordinal] if ordinal < len(names) else str(ordinal)
    return str(ordinal + (lacks_op and ordinal >= int(op or 0)))


def key_choice(key: RecordId | None, layout: Layout) -> Choice:
    """Return the setting of the record ID."""
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


def recorded_order(known: State, inputs: Inputs, layout: Layout, op: str | None) -> list[Choice]:
    """Return the settings of the order in a manifest."""
    order = known.spec["order"]
    if order["by"] == "file name":
        found = [Choice(ORDER, None, "order comes from file names, as in the master's manifest")]
        if order.get("pattern") is not None:
            found.append(Choice(SEQUENCES, order["pattern"], "the pattern in the master's manifest"))
        return found
    fields = recorded_fields(order)
    if "fields" not in known.spec["key"]:
        fields = tuple(layout.label(_recorded(one, known, op, inputs)) for one in fields)
    fields = (*fields, POSITION) if has_position(order["type"]) else fields
    label = fields[0] if len(fields) == 1 else list(fields)
    why = "the order in the master's manifest"
    return [Choice(ORDER, label, why), Choice(ORDER_TYPE, type_of_fields(order["type"]) or None, why)]


def order_choices(
    inputs: Inputs,
    layout: Layout,
    found: Sequence[OrderField],
    feed: Sequence[Source],
    ids: Sequence[str],
    op: str | None,
    ignored: Collection[Value],
) -> list[Choice]:
    """Return the settings of the order.

    found: fields that may have the order value, the best first. feed: its files. ids: the fields of the record ID.
    ignored: codes of the op code field whose rows are no mutations.
    """
    names = [source.name for source in feed]
    preset, against = preset_of(names), contradiction(names)
    numbered = bool(feed) and (preset is not None or all(source.sequence is not None for source in feed))
    tables = [*inputs.feed, *inputs.master]
    repeated = [one for one in found if numbered and repeats_the_sequence(tables, one.field)]
    found = [one for one in found if one not in repeated]
    if numbered and (not found or not found[0].strong or inputs.ids_alone):
        choice = _by_file_names(inputs, layout, found, repeated, names[0], preset)
        return [choice, *_sequence_choice(preset, against)]
    if not found:
        return [_without_order(inputs, layout)]
    rows = SampleRows.of(inputs.feed)
    codes = rows.columns.get(op or "", [None] * rows.count)
    no_mutations = {str(code).encode() for code in ignored}
    mutations = [row for row, code in enumerate(codes) if code not in no_mutations] if rows.keys(ids) else []
    choices = _by_field(inputs, layout, found, ties_of(rows, SampleRows.of(inputs.master), ids, found, mutations))
    if numbered and len(feed) > 1:
        shown = f"numbers in file names, such as {feed[0].name}, may give another order"
        choices[0] = replace(choices[0], why=f"{choices[0].why}; {shown}: then leave both settings out")
    return choices


def order_beside(
    inputs: Inputs, layout: Layout, found: Sequence[OrderField], feed: Sequence[Source], ids: Sequence[str]
) -> list[Choice]:
    """Return the settings of the order of rows whose dialect says none: fields beside the records, or names of files.

    found: the fields, the best first.
    """
    names, rows = [source.name for source in feed], SampleRows.of(inputs.feed)
    preset, against = preset_of(names), contradiction(names)
    numbered = preset is not None or all(source.sequence is not None for source in feed)
    ties = Ties(0)
    if found:
        ties = ties_of(rows, SampleRows.of(()), ids, found, range(rows.count) if rows.keys(ids) else ())
        if ties.better or not ties.ids or not numbered:
            return _by_field(inputs, layout, found, ties)
    if not numbered:
        why = "nothing in the rows orders them, and not every name of a feed file ends in _ and a number"
        question = (
            f"What orders the files? Have them numbered, as in ups_1.json, or set {{{SEQUENCES}}} or {{{ORDER}}}."
        )
        return [Choice(ORDER, None, why, (), question, needed=True)]
    choice = _by_file_names(inputs, layout, (), (), names[0], preset)
    if found:
        why = f"{choice.why}; {_tied(ties.ids)} one value of {layout.label(found[0].field)}"
        choice = replace(choice, why=why, alternatives=[(layout.label(found[0].field), found[0].why)])
    last = Choice(SEQUENCES, "last", "the numbers at the ends of the names are the order")
    return [choice, *(_sequence_choice(preset, against) or [last])]


def _by_file_names(
    inputs: Inputs,
    layout: Layout,
    found: Sequence[OrderField],
    repeated: Sequence[OrderField],
    name: str,
    preset: str | None,
) -> Choice:
    """Return the choice of no field. repeated: fields with the numbers of the file names. name: of a feed file."""
    has = "a number after the last _ of its name" if preset is None else "a name with its place in the order"
    why = f"order comes from file names: each feed file has {has}, such as {name}"
    if repeated:
        why += f", and field {layout.label(repeated[0].field)} repeats it"
    others = [(layout.label(one.field), one.why) for one in found[:2]]
    question = None
    if found and found[0].score >= SOME_REASON and not inputs.ids_alone:
        field = layout.label(found[0].field)
        question = f"Do mutations follow the numbers in file names, or field {field}? For the field, set {{{ORDER}}}."
    return Choice(ORDER, None, why, others, question)


def _sequence_choice(preset: str | None, against: tuple[str, str | None] | None) -> list[Choice]:
    """Return the choice of where names have the sequence, if it is not the last number. against: the contradiction."""
    if preset is not None:
        return [Choice(SEQUENCES, preset, "the names of all feed files have this form")]
    if against is None:
        return []
    why, pattern = against
    question = None
    if pattern is None:
        question = f"Where is the sequence in the names of feed files? {why}. Set {{{SEQUENCES}}}."
    return [Choice(SEQUENCES, pattern, why, [("last", "if the last number is the order")], question)]


def _without_order(inputs: Inputs, layout: Layout) -> Choice:
    """Return the question on an order that nothing shows."""
    why = "no field has a number or a time in every row, and not every name of a feed file ends in _ and a number"
    question = (
        f"Which field shows the mutation that came last? Set {{{ORDER}}} and {{{ORDER_TYPE}}} (string compares "
        "bytes), or have the feed files numbered, as in ups_1.txt."
    )
    if dates := local_dates(inputs):
        field, value = dates[0]
        why += f"; field {layout.label(field)} has dates such as {quoted_value(value)}, which are not ISO 8601"
        question = (
            f"Can field {layout.label(field)} be delivered in ISO 8601, as in 2026-01-31? Its dates, such as "
            f"{quoted_value(value)}, cannot be compared. Otherwise have the feed files numbered, as in ups_1.txt."
        )
    return Choice(ORDER, None, why, (), question, needed=True)


def _tied(ids: int) -> str:
    return f"{counted(ids, 'ID')} of the first rows {'has' if ids == 1 else 'have'} different rows with"


def _by_field(inputs: Inputs, layout: Layout, found: Sequence[OrderField], ties: Ties) -> list[Choice]:
    """Return the settings for the best field, or for fields without its ties. found: the best first."""
    best = found[0]
    rivals = [one for one in found[1:] if one.score >= best.score - 1]
    question = None
    if len(best.units) > 1:
        label = layout.label(best.field)
        question = (
            f"Field {label} has {' and '.join(best.units)}, which cannot be compared: have all files delivered with "
            f"one unit, or set {{{ORDER}}} to another field."
        )
        return [Choice(ORDER, None, best.why, [(label, "after all values have one unit")], question, needed=True)]
    if rivals:
        names = _and([str(layout.label(one.field)) for one in (best, *rivals)])
        question = f"Which of the fields {names} shows the mutation that came last? Set {{{ORDER}}}."
    elif not best.strong:
        label = layout.label(best.field)
        question = f"Does field {label} show the mutation that came last? Otherwise set {{{ORDER}}}."
    chosen, why = ties.better or (best,), best.why
    labels = [layout.label(one.field) for one in chosen]
    rest = [best] * bool(ties.better)
    rest += [one for one in (rivals or found[1:2])[:3] if one not in chosen]
    others = [(layout.label(one.field), one.why) for one in rest]
    if ties.ids:
        why = f"{chosen[-1].why}; {_tied(ties.ids)} one value of {layout.label(best.field)}"
        why += f", and {labels[-1]} tells these apart" if ties.better else f", and {_BY_FILE}"
    question = None if ties.better and {*rivals} <= {*chosen, best} else question
    choices = [Choice(ORDER, labels if len(labels) > 1 else labels[0], why, others, question)]
    if not all(one.typed for one in chosen):
        invalid = sum(one.invalid for one in chosen)
        which = f"all but {invalid:,} of the values" if invalid else "all values"
        which += " of the first rows have this type" if len(chosen) == 1 else " of the first rows have these types"
        choices.append(Choice(ORDER_TYPE, ", ".join(one.order_type for one in chosen), which))
    master = SampleRows.of(inputs.master)
    values = zip(*(master.columns.get(one.field, [None] * master.count) for one in chosen), strict=True)
    if layout.is_named and (empty := sum(not all(row) for row in values)):
        why = f"{counted(empty, 'row')} of the master without a value there count as older than all others"
        why += f" with their {labels[0]}" if len(chosen) > 1 and all(master.columns.get(best.field, ())) else ""
        choices.append(Choice(NULL_ORDER, "lowest", why))
    return choices
