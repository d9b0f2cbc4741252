"""Fields of the master that a result would lose, or have in another order, because the newest feed file decides them.

In CSV and text, a column that is missing from the header is more often a mistake than a change of the schema, so
``removed.fields`` must name each field that a result may lose; likewise in a table in memory, which often has only some
columns of its records. The schema of an Avro, Parquet or ORC file states the fields of all records: there the change
takes place, with a warning.
"""

from collections.abc import Collection, Sequence

from mutator.config import Config
from mutator.errors import error
from mutator.errors.parts import MASTER, setting
from mutator.rules.file_names import base_name, first_few
from mutator.rules.schema_evolution import SchemaVersion


def changed_fields(
    config: Config, base: SchemaVersion, master: Sequence[SchemaVersion], op: str | None, is_table: bool
) -> tuple[str, ...]:
    """Return warnings on fields of the master that the result lacks or moves.

    base: the version that gives the result its fields, a feed file's. master: its versions, the decisive one first.
    op: the name of the op code. is_table: the version is that of a table in memory. Raises DataError for fields that a
    CSV file or a table lacks.
    """
    before = [name for name in master[0].schema.names if name != op]
    after = [name for name in base.schema.names if name != op]
    remaining = set(after)
    lost = [name for name in before if name not in remaining and name not in config.removed_fields]
    if lost and is_table:
        raise error("table.lost", table=base.path, fields=_listed(lost), names=lost)
    if lost and not base.typed:
        removed = setting(f"removed.fields={','.join(lost)}")
        cure = (
            f"have the file delivered with them; or set {setting('output.schema')} to an Avro schema of all fields, so "
            f"that rows of the file get NULL there; or, if they should be removed, set {removed}"
        )
        raise error("schema.lost", path=base.path, fields=_listed(lost), cure=cure)
    warnings = []
    if lost:
        warnings.append(
            f"{_listed(lost)} of {MASTER}: removed from all records, because {base_name(base.path)} has no such "
            f"{'field' if len(lost) == 1 else 'fields'}; {setting('output.schema')} keeps "
            f"{'it' if len(lost) == 1 else 'them'}, and {setting('removed.fields')} confirms the change"
        )
    kept, earlier = [name for name in before if name in remaining], set(before)
    if kept != (moved := [name for name in after if name in earlier]):
        warnings.append(
            f"the result has its fields in the order of {base_name(base.path)} ({', '.join(moved)}), {MASTER} has "
            f"them in another ({', '.join(kept)}): programs that read fields by position would confuse them"
        )
    return tuple(warnings)


def left_out_fields(
    config: Config, base: SchemaVersion, feed: Sequence[SchemaVersion], op: str | None
) -> tuple[str, ...]:
    """Return a warning on fields of CSV feed files that the newest one lacks, so that their values are left out."""
    if base.typed:
        return ()
    known = {*base.schema.names, *config.removed_fields, op}
    counted = [one for one in feed if not one.typed and not one.partial]
    files = {one.path: [name for name in one.schema.names if name not in known] for one in counted}
    names = list(dict.fromkeys(name for lost in files.values() for name in lost))
    if not names:
        return ()
    having = first_few([base_name(path) for path, lost in files.items() if lost])
    why = f"left out, because {base_name(base.path)}, the newest feed file, has no such "
    one = len(names) == 1
    kept = f"{'field' if one else 'fields'}; {setting('output.schema')} keeps {'it' if one else 'them'}"
    return (f"{_listed(names)} of {having}: {why}{kept}",)


def _listed(names: Collection[str]) -> str:
    return f"{'field' if len(names) == 1 else 'fields'} {', '.join(names)}"
