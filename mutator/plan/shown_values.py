"""Which values of a run its report may show, by the roles that fields have."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mutator.config.settings import RowSpec, TextSpec, WordingSpec
from mutator.config.sources import suggestion
from mutator.errors import error
from mutator.errors.display import OUT
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.rows.row_plan import RowPlan
from mutator.rules.order_tuples import shown_order
from mutator.rules.partition_fields import PartitionField
from mutator.rules.shown_fields import ShownFields


@dataclass(frozen=True)
class ShownValues:
    """Whether reports may show the values of ID fields, the order field and partition fields, and whole rows."""

    ids: tuple[bool, ...] = ()
    order: bool = True
    partitions: tuple[bool, ...] = ()
    rows: bool = True  # every field may be shown
    kept_out: str | None = None  # in words, what is kept out

    def key(self, key: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Return the values of a record ID, with ``…`` in place of those that may not be shown.

        >>> ShownValues(ids=(True, False), rows=False).key((b"7", b"Ann"))
        (b'7', b'\\xe2\\x80\\xa6')
        """
        if self.rows:
            return key
        shown = dict(enumerate(self.ids))
        return tuple(value if shown.get(number) else OUT.encode() for number, value in enumerate(key))

    def directory(self, directory: str) -> str:
        """Return the directory of a partition with ``…`` in place of the values that may not be shown.

        >>> ShownValues(partitions=(True, False), rows=False).directory("year=2026/shop=Cork")
        'year=2026/shop=…'
        """
        if self.rows:
            return directory
        shown = dict(enumerate(self.partitions))
        levels = directory.split("/") if directory else []
        return "/".join(
            level if shown.get(number) else f"{level.partition('=')[0]}={OUT}" for number, level in enumerate(levels)
        )

    def by_directory(self, rows: Mapping[str, int]) -> dict[str, int]:
        """Return the number of rows of each partition; those that differ only in values that are kept out are one.

        >>> ShownValues(partitions=(False,), rows=False).by_directory({"shop=Cork": 2, "shop=Bray": 3})
        {'shop=…': 5}
        """
        found: Counter[str] = Counter()
        for directory, count in rows.items():
            found[self.directory(directory)] += count
        return dict(found)

    def order_of(self, order_type: str, value: Any) -> str:
        """Return the text of an order value, or ``…`` if it may not be shown."""
        return (shown_order(order_type, value) or "the lowest one") if self.order else OUT


def shown_values(rows: RowSpec, wording: WordingSpec, planned: RowPlan) -> ShownValues:
    """Return what the report of a run may show. Raises ConfigError for a field that rows do not have."""
    fields = wording.report_fields
    if fields.all:
        return ShownValues()
    layout = planned.layouts["feed"]
    names = _names(rows.text, layout)
    _check(fields.named, names, rows)

    def show(field: Any) -> bool:
        return _is_shown(fields, field, names, rows.text)

    return ShownValues(
        ids=tuple(map(show, layout.id_fields)),
        order=all(map(show, layout.ordered_by)),
        partitions=tuple(show(one.source) for one in planned.partitioning.fields),
        rows=False,
        kept_out=f"report.fields keeps out the values of {fields.text}",
    )


def shown_of_split(
    rows: RowSpec, wording: WordingSpec, partitions: Sequence[PartitionField], layouts: Collection[Sequence[str]]
) -> ShownValues:
    """Return what the report of a split feed may show. layouts: the names of the fields of its files.

    A partition field may have several names, by its position in the rows: then each of them must be shown. Raises
    ConfigError for a field that rows do not have.
    """
    fields = wording.report_fields
    if fields.all:
        return ShownValues()
    _check(fields.named, list(dict.fromkeys(name for names in layouts for name in names)), rows)
    shown = [
        all(_is_shown(fields, _position(one.source, names), names, rows.text) for names in layouts)
        for one in partitions
    ]
    return ShownValues(order=False, partitions=tuple(shown), rows=False)


def shown_of_directories(wording: WordingSpec, names: Sequence[str], by: Sequence[PartitionField]) -> ShownValues:
    """Return what may be shown of the directories of a split feed. names: of their fields. by: empty if unknown.

    Without ``by`` a directory may be made of any field: then only those that report.fields names are shown.
    """
    fields = wording.report_fields
    if fields.all:
        return ShownValues()
    sources = {one.name: one.source for one in by}
    shown = [fields.show([sources.get(name, name)]) and (fields.only or name in sources) for name in names]
    return ShownValues(order=False, partitions=tuple(shown), rows=False)


def _position(field: str | int, names: Sequence[str]) -> str | int:
    return names.index(field) if field in names else field


def _is_shown(fields: ShownFields, field: Any, names: Sequence[str], text: TextSpec) -> bool:
    """Return whether a field may be shown, which has a name, or a position among the names."""
    name = names[field] if names and isinstance(field, int) and field < len(names) else field
    return fields.show([name] if names and not text.names else [field, name])


def _names(text: TextSpec, layout: Any) -> Sequence[str]:
    """Return the names of fields, in the order of the positions that a layout has; empty if they have none."""
    if hasattr(layout, "result"):
        return list(layout.result.names)
    if hasattr(layout, "fields"):
        return [one["name"] for one in layout.fields]
    return text.names


def _check(named: frozenset[str], names: Sequence[str], rows: RowSpec) -> None:
    """Raise ConfigError for a field that does not exist: a value that must not be shown would be."""
    known = {*names, *(["" if rows.ops.field is None else str(rows.ops.field)])}
    known |= {str(number) for number in range(len(names))} if rows.text.names else set()
    for name in sorted(named):
        if name in known or (not names and name.isdigit()):
            continue
        cure = f"give its ordinal (from 0), or set {setting('field.names')}"
        if names:
            cure = f"give the name of a field{suggestion(name, sorted(known))}"
        faults = f"there is no field '{name}' in the rows of this run: {cure}"
        raise error("config", where=setting("report.fields"), faults=faults)
