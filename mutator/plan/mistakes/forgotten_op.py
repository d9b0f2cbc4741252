"""Stop where no op code field is set, and a field that only the feed has shows deletes.

The run would add the field to all records, and its deletes would be upserts.
"""

from collections import Counter

from mutator.config import Config
from mutator.errors import error
from mutator.plan.inspect.first_rows import first_rows
from mutator.plan.inspect.heads import FILES
from mutator.plan.inspect.survey import Survey
from mutator.rules.op_codes import (
    counted_codes,
    delete_marks,
    is_delete_time,
    is_op_code,
    looks_like_delete,
    most_frequent,
    named_like_op_codes,
)


def check_forgotten_op(config: Config, survey: Survey) -> None:
    """Raise ConfigError for a new field with op codes or delete marks. Only rows of files with new fields are read."""
    if config.op_field is not None or config.full or config.output_schema is not None:
        return
    known = _fields_of_master(survey)
    expected = {*known, *config.removed_fields, *config.defaults}
    for source in survey.feed[:FILES] if known else ():
        schema = source.file_schema
        if schema is None or not schema.named or expected >= set(schema.schema.names):
            continue
        for name, column in first_rows(source, None).columns.items():
            if name in expected:
                continue
            codes = Counter(value or b"" for value in column)
            shown = counted_codes(most_frequent(codes))
            if is_delete_time(name, codes):
                cure = f"set op={name} and delete.when='not null'"
                raise error("op.forgotten", path=source.shown_path, field=name, codes=shown, cure=cure)
            deletes = delete_marks(name, codes) or _deletes_of(name, codes)
            if deletes:
                cure = f"set op={name}"
                if not deletes <= config.delete_codes:
                    shown_deletes = sorted(code.decode("utf-8", "backslashreplace") for code in deletes)
                    cure += f" and delete_codes={','.join(shown_deletes)}"
                raise error("op.forgotten", path=source.shown_path, field=name, codes=shown, cure=cure)


def _deletes_of(name: str, codes: Counter[bytes]) -> set[bytes]:
    """Return the codes of deletes, if all values are usual op codes; with deletes alone, the name decides."""
    deletes = {code for code in codes if looks_like_delete(code, ())}
    upserts = {code for code in codes if code not in deletes and code.strip()}
    known = name if named_like_op_codes(name) else None
    if not all(is_op_code(code, known) for code in upserts) or not (upserts or named_like_op_codes(name)):
        return set()
    return deletes


def _fields_of_master(survey: Survey) -> set[str]:
    """Return the names of the master's fields; none if it has no rows, or fields without names."""
    schemas = [survey.dataset_schema, *(source.file_schema for source in survey.master)]
    return {name for found in schemas if found is not None and found.named for name in found.schema.names}
