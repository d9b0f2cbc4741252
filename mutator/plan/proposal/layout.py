"""The first rows as the rules compare them: the fields of master and feed have the same numbers or names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mutator.plan.proposal.choice import Value
from mutator.plan.proposal.file_forms import FileForms
from mutator.plan.proposal.tables import Inputs, SampleRows, SampleTable


@dataclass(frozen=True)
class Layout:
    """The first rows, with the fields of a master numbered as in the feed, once the op code field is known."""

    master: tuple[SampleTable, ...]
    feed: tuple[SampleTable, ...]
    narrow: tuple[SampleTable, ...]  # feed files with fewer fields than the others
    widths: tuple[int, int]  # of whole rows of master and feed
    names: tuple[str, ...]  # of the feed's fields, where positions have names
    by_position: bool  # fields are ordinals
    is_named: bool  # all formats of the run have NULL and names

    @classmethod
    def of(cls, master: Sequence[SampleTable], feed: Sequence[SampleTable], forms: FileForms) -> Layout:
        """Return the layout of the first rows of all files."""
        by_position = all(name.isdigit() for table in (*master, *feed) for name in table.fields)
        if not by_position:
            whole = tuple(table for table in feed if table.columns)
            return cls(tuple(master), whole, (), (0, 0), forms.names, by_position=False, is_named=forms.named)
        master_width, feed_width = _width(master), _width(feed)
        most = max(feed_width, master_width)
        if feed_width < master_width and len({len(table.fields) for table in feed if table.count}) > 1:
            feed_width = max(len(table.fields) for table in feed)
        narrow = [table for table in feed if 0 < len(table.fields) < most]
        own = [table for table in feed if table not in narrow and table.columns]
        if not own:  # all feed files have IDs alone
            own, feed_width = [], master_width
        widths = master_width, feed_width
        return cls(
            tuple(master), tuple(own), tuple(narrow), widths, forms.names, by_position=True, is_named=forms.named
        )

    def inputs(self, op: str | None, *, has_master: bool) -> Inputs:
        """Return the first rows with the fields of a master numbered as in the feed. op: the op code field."""
        master_width, feed_width = self.widths
        master = self.master
        if op is not None and self.by_position and master_width == feed_width - 1:
            master = tuple(_renumbered(table, int(op)) for table in master)
        return Inputs(master, self.feed, self.narrow, has_master, named=not self.by_position)

    def label(self, field: str) -> Value:
        """Return a field as a setting has it."""
        if not self.by_position:
            # Settings have commas between names, and take digits for an ordinal.
            fields = list(SampleRows.of(self.feed or self.master).fields)
            return fields.index(field) if ("," in field or field.isdigit()) and field in fields else field
        return self.names[int(field)] if int(field) < len(self.names) else int(field)

    def field(self, label: Any) -> str:
        """Return the field that a setting names."""
        text = str(label)
        if not self.by_position and text.isdigit():
            fields = SampleRows.of(self.feed or self.master).fields
            return fields[int(text)] if text not in fields and int(text) < len(fields) else text
        return str(self.names.index(text)) if self.by_position and text in self.names else text


def _width(tables: Sequence[SampleTable]) -> int:
    widths: Counter[int] = Counter()
    for table in tables:
        widths[len(table.fields)] += table.count
    return widths.most_common(1)[0][0] if widths else 0


def _renumbered(table: SampleTable, op: int) -> SampleTable:
    """Return a table of a master without the op code, its fields numbered as in the feed."""
    columns = {str(int(name) + (int(name) >= op)): values for name, values in table.columns.items()}
    return replace(table, columns=columns)
