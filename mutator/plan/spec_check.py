"""Compare the rows of a run with the specification in the manifest of its master."""

from collections.abc import Sequence
from typing import Any

from mutator.config.settings import OrderSpec
from mutator.dataset.partition_index import SPEC, stored_fields
from mutator.dataset.state import State
from mutator.errors import error
from mutator.errors.parts import place, setting
from mutator.formats.files.file_format import FileSchema
from mutator.plan.inspect.survey import Survey
from mutator.rules.key_hash import HASH_NAME
from mutator.rules.order_types import NO_ORDER, in_words, recorded_fields


def check_spec(survey: Survey, known: State, spec: dict[str, Any]) -> None:
    """Raise StateError for a run that has another key, order or form of rows than the manifest of its master."""
    kind = "table.spec" if survey.versioned else "manifest.spec"
    agreed = ("key", "order", "op code", SPEC, *(("delimiter", "width", "format") if "delimiter" in spec else ()))
    for name in () if known.is_without_key else agreed:
        before, now = known.spec.get(name), spec.get(name)
        if name == "order" and before and now and (before.get("type"), now.get("type")) == ("long", "decimal"):
            before = {**before, "type": "decimal"}  # the field was widened; every integer is a decimal
        if name == "order" and before and now == {**before, "null": "lowest"}:
            continue  # only rows change that were rejects before
        if (name == SPEC and before is None) or before == NO_ORDER:
            continue  # a master without partitions becomes a partitioned one
        if before != now and not (name == "width" and before is None):
            if name == SPEC and before and now and {**before, "types": None} == {**now, "types": None}:
                _check_types(survey, [one.source for one in stored_fields(known.spec)])
            shown = "partitioning" if survey.versioned and name == SPEC else name
            raise error(kind, path=survey.master_path, name=shown, before=_shown(before), now=_shown(now))
    if known.commit.hash not in ("", HASH_NAME):
        raise error(kind, path=survey.master_path, name="the key hash", before=known.commit.hash, now=HASH_NAME)


def check_kept(order: OrderSpec, known: State, path: str) -> None:
    """Raise ConfigError if rows would lose, or should have, the order fields that those of a dataset keep, or lack.

    known: of the dataset. path: of it.
    """
    recorded = {} if known.is_without_key else known.spec["order"]
    beside = bool(recorded.get("beside"))
    if not order.fields or not recorded_fields(recorded) or beside == (order.keep is False):
        return
    before = "false" if beside else "true"
    now = {None: "is not set", True: "true", False: "false"}[order.keep]
    where = "beside its rows" if beside else "a part of its rows"
    raise error(
        "config",
        where=setting("order.keep"),
        faults=f"{now}, but the order value of {place(path)}, {_shown({**recorded, 'beside': False})}, is {where}, and "
        f"stays there; set {setting(f'order.keep={before}')}",
    )


def _check_types(survey: Survey, names: Sequence[Any]) -> None:
    """Raise DataError for a partition field that has another type in a feed file, or in the schema of the user.

    names: of the partition fields.
    """
    feed = [(one.path, one.file_schema) for one in survey.feed if one.format.stores_schema]
    before = _types(survey.dataset_schema, names)
    for path, found in feed if survey.output_schema is None else [survey.output_schema]:
        for name, data_type in _types(found, names).items():
            if before.get(name, data_type) != data_type:
                raise error(
                    "schema.type",
                    field=name,
                    one=data_type,
                    path=path,
                    other_type=before[name],
                    other_path=survey.master_path,
                    why="the type of a partition field stays, because its text names the directories",
                )


def _types(found: FileSchema | None, names: Sequence[Any]) -> dict[Any, Any]:
    return {} if found is None else {one.name: one.type for one in found.schema if one.name in names}


def _pattern(text: str | None) -> str:
    return "no sequence.pattern" if text is None else f"sequence.pattern={text}"


def _shown(value: Any) -> str:
    """Return a part of a specification. Each field with a name is followed by its type."""
    if isinstance(value, dict) and "type" in value and not {"field", "fields"}.isdisjoint(value):
        return in_words(value)
    if isinstance(value, dict) and "fields" in value:
        return ", ".join(f"{name} ({kind})" for name, kind in zip(value["fields"], value["types"], strict=True))
    if isinstance(value, dict) and "pattern" in value:
        return f"by {value['by']}, with {_pattern(value['pattern'])}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
