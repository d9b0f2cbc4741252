"""Directories of partitions, such as ``store_id=12/day=2026-01-31``, and the fields that have their values."""

from collections.abc import Callable, Sequence

from mutator.plan.proposal.choices import Choice
from mutator.plan.proposal.file_forms import NAMES, OUTPUT_FORMAT
from mutator.plan.proposal.tables import Inputs, SampleTable
from mutator.rules.facts import present
from mutator.rules.file_sequences import preset_of
from mutator.rules.partition_paths import values_of
from mutator.rules.timestamps import date_of, parse_timestamp

PARTITIONED_BY, KEY_SCOPE = "partitioned.by", "key.scope"


def partition_choice(inputs: Inputs) -> Choice | None:
    """Return the partition fields of a master, or of a feed without one; None if there are no partition directories."""
    side = "master" if inputs.has_master else "feed"
    inside = [table for table in (inputs.master if inputs.has_master else inputs.feed) if table.directory]
    own = {field for table in inside for field in table.fields}
    names = [name for name, _ in values_of(inside[0].directory)] if inside else []
    if side == "feed" and preset_of([table.file for table in inside]) == "connect-offset":
        return None  # sinks of Kafka Connect have directories of the time at which they wrote
    if not names or (side == "feed" and own >= {*names}):
        return None
    fed = {field for table in inputs.feed for field in table.fields}
    fed |= {name for table in inputs.feed if table.directory for name, _ in values_of(table.directory)}
    found: list[str] = []
    unknown = []
    for level, name in enumerate(names):
        # Fields with names may be in paths alone, and what the feed has is not derived from another field.
        alone = inputs.named and name in fed - own
        source = name if alone else _source(inside, level, name) or (name if inputs.named else None)
        if source is None:
            unknown.append(name)
        else:
            found.append(source if source == name else f"{name}={source}")
    why = f"the {side} has directories such as {min(table.directory for table in inside)}"
    if unknown:
        shown = ", ".join(unknown)
        question = (
            f"Which field has the values of the directories {shown}=…? No field of the rows has them: set "
            f"{{{PARTITIONED_BY}}}; or, if rows lack it, as in Hive, set {{{NAMES}}} to the names of all fields, and "
            f"{{{OUTPUT_FORMAT}}} to csv or escaped."
        )
        return Choice(
            PARTITIONED_BY, None, why, [(",".join(f"{name}=FIELD" for name in names), "the form")], question, True
        )
    return Choice(PARTITIONED_BY, ",".join(found), why)


def _source(tables: Sequence[SampleTable], level: int, name: str) -> str | None:
    """Return the field, or the transform of a field, that has the values of a level of directories."""
    transforms = {
        "{}": lambda value: value.decode("utf-8", "surrogateescape"),
        "date({})": lambda value: date_of(parse_timestamp(value)[0] // 86400).isoformat(),
        "year({})": lambda value: f"{date_of(parse_timestamp(value)[0] // 86400):%Y}",
        "month({})": lambda value: f"{date_of(parse_timestamp(value)[0] // 86400):%m}",
    }
    fields = list(dict.fromkeys(field for table in tables for field in table.fields))
    for form, transform in transforms.items():
        for field in sorted(fields, key=lambda field: field != name):
            if _fits(tables, level, field, transform):
                return form.format(field)
    return None


def _fits(tables: Sequence[SampleTable], level: int, field: str, transform: Callable[[bytes], str]) -> bool:
    seen = False
    for table in tables:
        expected = values_of(table.directory)[level][1]
        for value in present(table.columns.get(field, []))[:50]:
            try:
                if transform(value) != expected:
                    return False
            except ValueError:
                return False
            seen = True
    return seen
