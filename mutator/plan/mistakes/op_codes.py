"""Stop where ``op.code.field.ordinal`` names a field without op codes, and where it is not set, and a field has them.

A run would cut the named field from each row, and read deletes as upserts. Whether the op codes of all rows are
plausible is checked after the merge (``pipeline.op_codes``); here, another field with op codes shows the mistake and
its cure. A feed of messages whose ``feed.dialect`` is not set is the same mistake.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from mutator.config.settings import OperationSpec, OpSpec, OutputSpec, RowSpec
from mutator.errors import error
from mutator.errors.parts import place, setting, value_of_rows
from mutator.plan.inspect.envelopes import dialect_of
from mutator.plan.inspect.first_rows import FILES, first_rows
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.samples import Sample
from mutator.rules.envelopes import ENVELOPES
from mutator.rules.op_codes import (
    CodeFacts,
    counted_codes,
    delete_marks,
    is_delete_time,
    is_op_code,
    listed_codes,
    named_like_op_codes,
)


def check_op_codes(ops: OpSpec, samples: Sequence[Sample]) -> None:
    """Raise ConfigError if another field has the delete codes, and the op code field has neither them nor usual codes.

    With ``upsert.op.code`` the codes are known, and every other value is a reject.
    """
    feed = [sample for sample in samples if sample.side == "feed" and sample.positions.op is not None]
    field = ops.field if named_like_op_codes(str(ops.field)) else None
    values = CodeFacts.of((value for sample in feed for value in sample.column(sample.positions.op)), field)
    if ops.upserts is not None or ops.deletes & values.counts.keys() or values.are_usual:
        return
    first = feed[0]
    for position in range(first.source.width or 0):
        if position in (first.positions.op, first.positions.order, *(first.positions.ids or ())):
            continue
        codes = Counter(value for sample in feed for value in sample.column(position))
        if ops.deletes & codes.keys() and len(codes) > 1 and all(map(is_op_code, codes.keys() - ops.deletes)):
            schema = first.source.file_schema
            is_name = isinstance(ops.field, str) and schema is not None
            name = schema.schema.names[position] if is_name and schema is not None else position
            shown = counted_codes(values.counts), counted_codes(codes)
            what = f"the field has {shown[0]} in the first rows, and field {name} has {shown[1]}"
            now, wanted = (setting(f"op.code.field.ordinal={one}") for one in (ops.field, name))
            raise error("width", where=now, what=what, cure=f"set {wanted}")


def check_forgotten_op(ops: OpSpec, operation: OperationSpec, output: OutputSpec, survey: Survey) -> None:
    """Raise ConfigError for a new field with op codes or delete marks. Only rows of files with new fields are read.

    A full snapshot has neither: a feed with them is a delta, and all records that it does not change would be deleted.
    """
    if ops.field is not None or output.schema is not None or survey.compares:
        return
    known = _fields_of_master(survey)
    expected = {*known, *output.removed_fields, *output.defaults}
    for source in survey.feed[:FILES] if known else ():
        schema = source.file_schema
        if schema is None or not schema.named or expected >= set(schema.schema.names):
            continue
        for name, column in first_rows(source, None).columns.items():
            if name in expected:
                continue
            codes = CodeFacts.of(column, name if named_like_op_codes(name) else None)
            deletes = delete_marks(name, codes.counts) or _deletes_of(codes)
            cure, dialect = f"set {setting(f'op={name}')}", dialect_of(source)
            if dialect is not None:
                cure = f"set {setting(f'feed.dialect={dialect}')}"
            elif is_delete_time(name, codes.counts):
                cure += " and " + setting("delete.when='not null'")
            elif not deletes:
                continue
            elif not deletes <= ops.deletes:
                cure += f" and {setting(f'delete_codes={value_of_rows(listed_codes(deletes))}')}"
            if operation.full:
                cure = f"a file of changes is no snapshot, so leave {setting('sync.mode=full')} out, and {cure}"
            shown = counted_codes(codes.counts)
            raise error("op.forgotten", path=source.shown_path, field=name, codes=shown, cure=cure)


def check_forgotten_dialect(rows: RowSpec, survey: Survey) -> None:
    """Raise ConfigError for messages around rows, whose fields do not include those of the key."""
    for source in survey.feed[:FILES] if rows.ops.dialect is None and not survey.compares else ():
        dialect = dialect_of(source)
        around = () if dialect is None else ENVELOPES[dialect].traces.around
        if around and source.file_schema is not None:
            names = source.file_schema.schema.names
            ids = {names[one] if isinstance(one, int) and one < len(names) else one for one in rows.key.ids}
            if not ids & {*names} - {*around}:
                raise error("dialect.forgotten", path=source.shown_path, dialect=dialect)


def dialect_warnings(rows: RowSpec, output: OutputSpec, survey: Survey) -> Iterator[str]:
    """Yield a warning on rows that say what they do, and that are merged as plain records."""
    if rows.ops.dialect is not None or rows.ops.field is not None or output.schema is not None or survey.compares:
        return
    known = _fields_of_master(survey)
    for source in survey.feed[:FILES]:
        if source.file_schema is not None and not known >= {*source.file_schema.schema.names}:
            dialect = dialect_of(source)
            if dialect is not None:
                yield (
                    f"{place(source.shown_path)}: its rows say what they do ({ENVELOPES[dialect].why}), and are merged "
                    f"as plain records, so deletes are upserts: set {setting(f'feed.dialect={dialect}')}"
                )
                return


def _deletes_of(codes: CodeFacts) -> set[bytes]:
    """Return the codes of deletes, if all values are usual op codes; with deletes alone, the name decides."""
    upserts = codes.where(lambda code: code not in codes.deletes and bool(code.strip()))
    are_usual = all(is_op_code(code, codes.field) for code in upserts)
    return {*codes.deletes} if are_usual and (upserts or codes.field is not None) else set()


def _fields_of_master(survey: Survey) -> set[str]:
    """Return the names of the master's fields; none if it has no rows, or fields without names."""
    schemas = [survey.dataset_schema, *(source.file_schema for source in survey.master)]
    return {name for found in schemas if found is not None and found.named for name in found.schema.names}
