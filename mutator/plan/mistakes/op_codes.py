"""Stop where ``op.code.field.ordinal`` names a field without op codes, which a run would cut from each row.

Whether the op codes of all rows are plausible is checked after the merge (``pipeline.op_codes``); here, another field
with op codes shows the mistake and its cure.
"""

from collections import Counter
from collections.abc import Sequence

from mutator.config import Config
from mutator.errors import error
from mutator.plan.mistakes.samples import Sample
from mutator.rules.op_codes import counted_codes, is_op_code, most_frequent


def check_op_codes(config: Config, samples: Sequence[Sample]) -> None:
    """Raise ConfigError if another field has the delete codes, and the op code field has neither them nor usual codes.

    With ``upsert.op.code`` the codes are known, and every other value is a reject.
    """
    feed = [sample for sample in samples if sample.side == "feed" and sample.positions.op is not None]
    values = Counter(value for sample in feed for value in sample.column(sample.positions.op))
    if config.upsert_codes is not None or config.delete_codes & values.keys() or all(map(is_op_code, values)):
        return
    first = feed[0]
    for position in range(first.source.width or 0):
        if position in (first.positions.op, first.positions.order, *(first.positions.ids or ())):
            continue
        codes = Counter(value for sample in feed for value in sample.column(position))
        if config.delete_codes & codes.keys() and len(codes) > 1 and _are_codes(config, codes):
            schema = first.source.file_schema
            is_name = isinstance(config.op_field, str) and schema is not None
            name = schema.schema.names[position] if is_name and schema is not None else position
            what = f"the field has {_shown(values)} in the first rows, and field {name} has {_shown(codes)}"
            setting = "op.code.field.ordinal"
            raise error("width", where=f"{setting}={config.op_field}", what=what, cure=f"set {setting}={name}")


def _are_codes(config: Config, values: Counter[bytes]) -> bool:
    return all(value in config.delete_codes or is_op_code(value) for value in values)


def _shown(values: Counter[bytes]) -> str:
    return counted_codes(most_frequent(values))
