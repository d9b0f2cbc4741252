"""Directories of partitions, such as ``store_id=12/day=2026-01-31``, and the fields that have their values."""

from collections.abc import Callable, Sequence

from mutator.plan.proposal.choices import Choice
from mutator.plan.proposal.tables import SampleTable
from mutator.rules.facts import present
from mutator.rules.partition_paths import values_of
from mutator.rules.timestamps import date_of, parse_timestamp

PARTITIONED_BY, KEY_SCOPE = "partitioned.by", "key.scope"


def partition_choice(tables: Sequence[SampleTable], feed: Sequence[SampleTable]) -> Choice | None:
    """Return the partition fields of a master; None if it has no partition directories. feed: its first rows."""
    inside = [table for table in tables if table.directory]
    if not inside:
        return None
    names = [name for name, _ in values_of(inside[0].directory)]
    own, fed = ({field for table in some for field in table.fields} for some in (inside, feed))
    typed = all(table.order_types for table in inside)  # of files that may have fields in their paths alone
    alone = [name for name in names if name in fed - own]
    found: list[str] = []
    unknown = []
    for level, name in enumerate(names):
        source = name if name in alone else _source(inside, level, name) or (name if typed else None)
        if source is None:
            unknown.append(name)
        else:
            found.append(source if source == name else f"{name}={source}")
    if alone and not typed:
        why = f"the feed has {', '.join(alone)}, and the master has it in the names of its directories alone"
        question = (
            f"Are the values of {', '.join(alone)} those in the names of the master's directories, as Hive and Spark "
            "write them? Then write the master as Parquet, ORC or Avro, or anew, with these fields in its rows. A run "
            "of this configuration stops."
        )
        return Choice(PARTITIONED_BY, None, why, [(",".join(names), "the fields")], question, True)
    directories = {table.directory for table in inside}
    why = f"the master has directories such as {min(directories)}"
    if unknown:
        shown = ", ".join(unknown)
        question = (
            f"Which field has the values of the directories {shown}=…? No field of the rows has them: set "
            f"{{{PARTITIONED_BY}}}."
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
