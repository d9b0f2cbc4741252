"""Stop where ``op.code.field.ordinal`` names another field than that of the op codes, which a run would remove."""

from collections import Counter
from collections.abc import Sequence

from mutator.config import Config
from mutator.errors import error
from mutator.errors.display import counted, quoted
from mutator.plan.mistakes.samples import Sample
from mutator.plan.mistakes.value_forms import is_number_or_time

_WORDS = b"""i u d c a r n s m x ins upd del add mod new chg rem mrg rpl ups insert update delete upsert create change
remove replace modify merge append read snapshot inserted updated deleted created changed removed 0 1 2 3 4"""
_CODES = frozenset(_WORDS.split())
_MOST = 10  # different op codes
_ENOUGH = 20  # rows that show whether a field has op codes


def check_op_codes(config: Config, samples: Sequence[Sample]) -> None:
    """Raise ConfigError if the values of the op code field are no codes, or another field has the delete codes.

    With ``upsert.op.code`` the codes are known, and every other value is a reject.
    """
    feed = [sample for sample in samples if sample.side == "feed" and sample.positions.op is not None]
    values = Counter(value for sample in feed for value in sample.column(sample.positions.op))
    if not values or config.upsert_codes is not None or _are_codes(config, values):
        return
    setting = "op.code.field.ordinal"
    if (other := _field_of_codes(config, feed)) is not None:
        name, codes = other
        what = f"{_shown(values)}, and field {name} has {_shown(codes)}"
        raise error("width", where=f"{setting}={config.op_field}", what=what, cure=f"set {setting}={name}")
    if config.delete_codes & values.keys() and len(values) <= _ENOUGH:
        return
    if len(values) > _MOST or _are_distinct_numbers(values):
        rows = counted(values.total(), "row")
        what = (
            f"the field has {len(values)} different values in {rows} of the feed ({_shown(values)}), so they are "
            "probably no op codes, and the field would be removed from all rows"
        )
        cure = "name the field with the op codes; or, if these are op codes, set upsert.op.code to those of upserts"
        raise error("width", where=f"{setting}={config.op_field}", what=what, cure=cure)


def _are_codes(config: Config, values: Counter[bytes]) -> bool:
    """Return whether all values are usual words for operations, or configured codes."""
    return all(value in config.delete_codes or value.strip().lower() in _CODES for value in values)


def _are_distinct_numbers(values: Counter[bytes]) -> bool:
    """Return whether the values are several long numbers or times, each of which occurs once."""
    long = all(is_number_or_time(value) and len(value) > 2 for value in values)
    return long and len(values) > 2 and len(values) == values.total()


def _field_of_codes(config: Config, feed: Sequence[Sample]) -> tuple[str | int, Counter[bytes]] | None:
    """Return another field that has usual op codes in all rows, among them a delete code, and its values."""
    first = feed[0]
    for position in range(first.source.width or 0):
        if position in (first.positions.op, first.positions.order, *(first.positions.ids or ())):
            continue
        values = Counter(value for sample in feed for value in sample.column(position))
        if len(values) > 1 and config.delete_codes & values.keys() and _are_codes(config, values):
            schema = first.source.file_schema
            by_name = isinstance(config.op_field, str) and schema is not None
            return (schema.schema.names[position] if by_name and schema is not None else position), values
    return None


def _shown(values: Counter[bytes]) -> str:
    """Show the most frequent values."""
    shown = ", ".join(quoted(value) for value, _ in values.most_common(3))
    return shown + (", …" if len(values) > 3 else "")
