"""Which values of a run its report may show, by the roles that fields have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mutator.config.settings import RowSpec, TextSpec, WordingSpec
from mutator.config.sources import suggestion
from mutator.errors import error
from mutator.errors.display import OUT
from mutator.errors.parts import setting
from mutator.plan.rows.row_plan import RowPlan


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

    def order_text(self, text: str | None) -> str:
        """Return the text of an order value, or ``…`` if it may not be shown. None: it has no text."""
        return (text or "the lowest one") if self.order else OUT


def shown_values(rows: RowSpec, wording: WordingSpec, planned: RowPlan) -> ShownValues:
    """Return what the report of a run may show. Raises ConfigError for a field that rows do not have."""
    fields = wording.report_fields
    if fields.all:
        return ShownValues()
    layout = planned.layouts["feed"]
    names = _names(rows.text, layout)
    _check(fields.named, names, rows)

    def show(field: Any) -> bool:
        """Return whether a field may be shown, which has a name, or a position among the names."""
        name = names[field] if names and isinstance(field, int) and field < len(names) else field
        return fields.show([name] if names and not rows.text.names else [field, name])

    return ShownValues(
        ids=tuple(map(show, layout.id_fields)),
        order=rows.order.by_file_name or show(layout.order_field),
        partitions=tuple(show(one.source) for one in planned.partitioning.fields),
        rows=False,
        kept_out=f"report.fields keeps out the values of {fields.text}",
    )


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
