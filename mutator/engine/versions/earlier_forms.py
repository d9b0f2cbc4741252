"""Rows of files that have an earlier form than the table, as a chain of runs would have rewritten them.

A field that was added since has the default of its version, or NULL; so has one that was left out and added again.
Wider types hold the same values. Only changes show rows of forms that a restore undid, with the fields and types of the
table since then: what does not fit is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mutator.dataset.state import DEFAULTS, State, defaults_of
from mutator.formats.content import NotReadable
from mutator.formats.values.convert import converted
from mutator.formats.values.nested import nulls
from mutator.plan.inspect.managed import stored_schema
from mutator.plan.rows.run_fields import DEFAULTS as DATASET_DEFAULTS
from mutator.plan.rows.run_fields import parse_default
from mutator.rules.typed_values import comparable

_NEVER = -1


class EarlierForms:
    """The forms of the files of a table up to a version."""

    def __init__(self, state: State, table: str) -> None:
        """Read nothing yet. table: path."""
        self._state, self._table = state, table
        self._schemas: dict[int, Any] = {}
        self._defaults: dict[int, dict[str, Any]] = {}
        self._added: dict[int, dict[str, list[Any] | None]] = {}
        self._beginnings: dict[tuple[int, str], int | None] = {}

    def schema(self, form: int | None = None) -> Any:
        """Return the pa.Schema of a form, by default of the present one; without fields before the first rows."""
        form = self._state.schema if form is None else form
        if form not in self._state.schemas:
            return pa.schema([])
        if form not in self._schemas:
            self._schemas[form] = stored_schema(self._state.schemas[form], self._table).schema
        return self._schemas[form]

    def stored(self, form: int, names: Sequence[str]) -> list[str]:
        """Return those of some present fields whose values are in the files of a form; at least one field to count."""
        return [name for name in names if self.has(form, name)] or self.schema(form).names[:1]

    def has(self, form: int, name: str) -> bool:
        """Return whether the files of a form have the values of a present field; they may have those of an older one.

        A field that was removed and added again is not the one of the same name in earlier files.
        """
        return self._begin(form, name) is None

    def added(self, form: int) -> dict[str, list[Any] | None]:
        """Return the present fields that the files of a form lack, and how their rows are filled; None for NULL."""
        if form not in self._added:
            lacking = (field for field in self.schema() if not self.has(form, field.name))
            values = {field.name: self.value(form, field) for field in lacking}
            self._added[form] = {
                name: None if value is None else comparable(value).to_pylist() for name, value in values.items()
            }
        return self._added[form]

    def evolved(self, rows: Any, form: int, wanted: Any) -> Any:
        """Return rows of a form with present fields and their types.

        rows: pa.Table with the columns ``stored(form, wanted.names)``. wanted: pa.Schema. Raises NotReadable.
        """
        if rows.schema.equals(wanted) and all(self.has(form, name) for name in wanted.names):
            return rows
        columns = []
        for field in wanted:
            if self.has(form, field.name):
                column = rows.column(field.name).combine_chunks()
                columns.append(_as_far_as(column, field) if form in self._state.undone else _as(column, field))
                continue
            value = self.value(form, field)
            if value is None:
                columns.append(nulls(rows.num_rows, field.type))
            else:
                columns.append(pa.repeat(_as(value, field)[0], rows.num_rows))
        return pa.table(columns, schema=wanted) if len(wanted) else rows

    def _begin(self, form: int, name: str) -> int | None:
        """Return the form since which all have a field, if it is later than a form; else None.

        A form that a restore undid may lack a field, and no form of the present table is later: then it is _NEVER.
        """
        if (form, name) not in self._beginnings:
            later = [form, *(one for one in self._state.forms if one > max(form, 0))]
            lacking = [at for at, one in enumerate(later) if self.schema(one).get_field_index(name) < 0]
            self._beginnings[form, name] = [*later[1:], _NEVER][lacking[-1]] if lacking else None
        return self._beginnings[form, name]

    def value(self, form: int, field: Any) -> Any:
        """Return the value, a pa.Array of one element, of a field that the files of a form lack; None for NULL."""
        begin = self._begin(form, field.name)
        assert begin is not None
        if begin == _NEVER:
            return None
        return self._default(begin, field) if form > 0 else self._default_of_dataset(field)

    def _default(self, form: int, field: Any) -> Any:
        """Return the value, a pa.Array of one element, that a field had in earlier rows when a form began; or None."""
        if form not in self._defaults:
            self._defaults[form] = defaults_of(self._state.schemas[form].get(DEFAULTS))
        return self._defaults[form].get(field.name)

    def _default_of_dataset(self, field: Any) -> Any:
        """Return the value of a field in partitions of a dataset that was taken over, and had not rewritten them."""
        text = self._state.spec.get(DATASET_DEFAULTS, {}).get(field.name)
        return None if text is None else pa.repeat(parse_default(field.name, text, field.type), 1)


def _as_far_as(column: Any, field: Any) -> Any:
    """Return a pa.Array with the type of a field, in which values that do not fit into it are NULL."""
    try:
        return converted(column, field.type, True)[0]
    except pa.ArrowNotImplementedError:  # no value of one type is one of the other
        return nulls(len(column), field.type)


def _as(column: Any, field: Any) -> Any:
    """Return a pa.Array with the type of a field."""
    found, bad, why = converted(column, field.type, True)
    if bad.any():
        raise NotReadable(f"a value of field {field.name} {why}")
    return found
