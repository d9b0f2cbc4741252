"""The form of the changed rows that a run writes."""

from collections.abc import Sequence

from mutator.config.settings import OutputSpec, RowSpec
from mutator.errors import error
from mutator.formats.blocks.changed_rows import ROW, ChangeForm
from mutator.plan.inspect.headers import HEADER
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.changes import FIELD_NAMES


def change_form(
    rows: RowSpec, output: OutputSpec, planned: RowPlan, now: int, version: int | None
) -> ChangeForm | None:
    """Return the form of changed rows; None if the run writes none.

    now: the commit time, milliseconds since 1970. version: of a workflow. Raises ConfigError where a field of the rows
    has the name of a field of changed rows.
    """
    if not output.changes:
        return None
    if planned.block_type != "text":
        schema = planned.output.schema
        _check([one["name"] for one in schema["fields"]] if planned.block_type == "avro" else schema.names, FIELD_NAMES)
        return ChangeForm(now, version)
    written = planned.layouts["written"]
    is_split = written.width is not None and written.delimiter.literal is not None
    names = _names_of_text(rows, planned, written.width) if is_split else ()
    _check(names, (*FIELD_NAMES, ROW))
    return ChangeForm(now, version, names=names)


def _names_of_text(rows: RowSpec, planned: RowPlan, width: int) -> tuple[str, ...]:
    """Return the names of the fields as they are written: those of the settings, or the header, or by position."""
    names = rows.text.names
    if len(names) == width + 1 and planned.layouts["feed"].cut_op:
        names = tuple(name for field, name in enumerate(names) if field != rows.ops.field)
    for found in (names, *planned.spec.get(HEADER, ())):
        if len(found) == width and len(set(found)) == width and all(found):
            return tuple(found)
    return tuple(f"field_{field}" for field in range(width))


def _check(names: Sequence[str], reserved: Sequence[str]) -> None:
    for name in names:
        if name in reserved:
            raise error("changes.field", name=name)
