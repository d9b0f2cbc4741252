"""The envelope of flat rows of the dialects in ``flat_dialects``.

A file may lack the field that says what a row does, if its dialect allows it: its rows are upserts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.errors.parts import setting
from mutator.rules.dialects.flat_dialects import BEFORE, FLAT_DIALECTS, SEQUENCE, FlatDialect
from mutator.rules.envelope import REJECTED, FirstOfFile, OpCodeField, Operation, Unclear, Unwrapped
from mutator.rules.order_columns import flags

_REJECT, _SHOWN = b"reject: ", 40
_KEYS = "keyColumns"
_LSN = re.compile(rb"(?:0x)?([0-9a-f]{20})")
_BYTES = pa.large_binary()


@dataclass(frozen=True, kw_only=True)
class FlatRows(OpCodeField):
    """The envelope of the rows of such a dialect."""

    unwraps = True
    dialect: str
    names: tuple[tuple[str, str], ...] = ()  # of the dialect's fields that the file has, and how it spells them
    sequence: int | None = None  # of the file
    binary: tuple[str, ...] = ()  # fields of LSNs that are bytes

    @property
    def _own(self) -> FlatDialect:
        return FLAT_DIALECTS[self.dialect]

    @property
    def beside(self) -> tuple[str, ...]:
        """The fields that are not the record's."""
        found = dict(self.names)
        made = [SEQUENCE] * self._own.by_sequence + [self._own.rank] * bool(self._own.order)
        return (*(name for name in found if name != self._own.field), *made)

    @property
    def order(self) -> tuple[tuple[str, str], ...]:
        """The fields that order rows; none where a file lacks one that is needed, or its name has no sequence."""
        own, found = self._own, dict(self.names)
        lacks = any(one.name not in found and not one.optional for one in own.order)
        if not own.order or lacks or (own.by_sequence and self.sequence is None):
            return ()
        first = [(SEQUENCE, "long")] * own.by_sequence
        return (*first, *((one.name, one.type) for one in own.order if one.name in found), (own.rank, "long"))

    def operation(self, value: bytes) -> Operation:
        """Look up an op code, or the reason of a reject."""
        if value.startswith(_REJECT):
            return Operation(REJECTED, None, value.removeprefix(_REJECT).decode())
        return super().operation(value)

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> FlatRows:
        """Return the envelope of a file, with its spelling of the dialect's fields."""
        own, names = self._own, setting("field.names")
        ordinal = next((key for key in keys if not isinstance(key, str)), None)
        if ordinal is not None:
            what = f"is read by the names of its fields, and the ID is field {ordinal}"
            raise Unclear(what, f"name the field of the ID; {names} names the fields of a file without a header")
        wanted = [own.field, *(one.name for one in own.order), *own.others]
        spelled = {name: _spelled(name, schema.names) for name in wanted}
        if len(schema) and keys and not {*filter(None, spelled.values()), *keys} & {*schema.names}:
            what = f"has neither a field {own.field} nor the ID (it has {', '.join(schema.names)})"
            raise Unclear(
                what, f"if it has no header, set {names} to the names of its fields in order, with {own.field}"
            )
        lsns = [spelled[one.name] for one in own.order if one.is_lsn]
        of_table = [name for name in (spelled[one] for one in own.about) if name is not None]
        batch = first.batch(schema, of_table) if of_table else None
        return replace(
            self,
            about=".".join(one[0].cast(pa.string()).as_py() or "" for one in batch.columns) if batch else None,
            names=tuple((name, found) for name, found in spelled.items() if found is not None),
            sequence=first.sequence,
            binary=tuple(name for name in lsns if name is not None and _is_binary(schema.field(name).type)),
        )

    def key_in(self, schema: Any, first: FirstOfFile) -> tuple[Sequence[str], str]:
        """Return the key in a file beside that describes the table."""
        file, found = self._own.key_file, dict[str, Any]()
        with suppress(ValueError, TypeError):
            found = dict(json.loads(first.beside(file))) if file else {}
        keys = found.get(_KEYS)
        known = isinstance(keys, list) and all(isinstance(key, str) and key in schema.names for key in keys)
        return (keys or [] if known else []), f"'{_KEYS}' of {file}"

    def record_schema(self, schema: Any) -> Any:
        """Return the fields of the record and those beside them. Raises ValueError for another file."""
        own, found = self._own, dict(self.names)
        if len(schema) and not own.optional and own.field not in found:
            raise ValueError(f"has no field {own.field}, which says what a row does (it has {', '.join(schema.names)})")
        taken = {spelled: name for name, spelled in self.names}
        lsns = {one.name for one in own.order if one.is_lsn}
        fields = []
        for one in schema:
            name = taken.get(one.name, one.name)
            if name != own.field:
                fields.append(pa.field(name, pa.string() if name in lsns else one.type, one.nullable))
        made = [pa.field(name, pa.int64()) for name in self.beside if name in (SEQUENCE, own.rank)]
        return pa.schema([*fields, pa.field(own.field, pa.string()), *made])

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the fields as the file spells them, with the one that says what a row does."""
        own, found = self._own, dict(self.names)
        made = {own.field, own.rank, SEQUENCE}
        wanted = [found.get(name, name) for name in names if name not in made]
        return [*dict.fromkeys((*wanted, *([found[own.field]] if own.field in found else [])))]

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return a row for each row."""
        own, taken = self._own, {spelled: name for name, spelled in self.names}
        columns = dict(zip([taken.get(name, name) for name in batch.schema.names], batch.columns, strict=True))
        is_ranked = records.get_field_index(own.rank) >= 0
        codes = self._codes(columns.pop(own.field, None), len(batch), is_ranked)
        columns[own.rank] = pa.array(np.array([code not in self.delete_codes for code in codes], np.int64))
        columns[SEQUENCE] = pa.array([self.sequence] * len(batch), pa.int64())
        wrong = dict[int, str]()
        for one in own.order:
            if one.is_lsn and one.name in columns:
                columns[one.name] = self._lsns(one.name, columns[one.name], wrong)
        needed = [flags(columns[name].is_valid()) for name in own.needed if name in columns] if is_ranked else []
        if needed:
            lacks = f"has no value in {' or '.join(own.needed)}, which orders the changes"
            wrong |= {row: wrong.get(row, lacks) for row in np.flatnonzero(~np.logical_or.reduce(needed)).tolist()}
        for row, reason in wrong.items():
            if not codes[row].startswith(_REJECT):
                codes[row] = _REJECT + reason.encode()
        columns[own.field] = pa.array(codes, _BYTES)
        found = {name: column for name, column in columns.items() if records.get_field_index(name) >= 0}
        return Unwrapped(pa.RecordBatch.from_arrays([*found.values()], [*found]))

    def _codes(self, column: Any, count: int, is_ranked: bool) -> list[bytes]:
        """Return what each row does. is_ranked: upserts are ordered after deletes."""
        own = self._own
        if column is None:
            return [own.upserts[0].encode()] * count
        said = {code.lower(): code.encode() for code in own.codes}
        said |= {code.lower(): own.deletes[0].encode() if is_ranked else BEFORE.encode() for code in own.before}

        def code_of(value: str | bytes | None) -> bytes:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
            code = said.get(text.strip().lower())
            if code is None and text:
                code = _REJECT
                code += f"has '{text[:_SHOWN]}' in {own.field}, which is none of {', '.join(own.codes)}".encode()
            return code or _REJECT + f"has no value in {own.field}, which says what the row does".encode()

        texts = column.cast(_BYTES if _is_binary(column.type) else pa.string()).dictionary_encode()
        codes = [*map(code_of, texts.dictionary.to_pylist()), code_of(None)]
        return [codes[number] for number in texts.indices.fill_null(len(codes) - 1).to_pylist()]

    def _lsns(self, name: str, column: Any, wrong: dict[int, str]) -> Any:
        """Return LSNs in hexadecimal. wrong: to add the reasons of rejects to, by row."""
        is_bytes, found = dict(self.names)[name] in self.binary, list[str | None]()
        for row, value in enumerate(column.to_pylist()):
            text = value.encode() if isinstance(value, str) else value
            text = text.hex().encode() if is_bytes and text is not None else text
            match = None if text is None else _LSN.fullmatch(text.strip().lower())
            if text is not None and match is None:
                shown = text[:_SHOWN].decode("utf-8", "replace")
                wrong[row] = f"has '{shown}' in {name}, which is no LSN of 20 hexadecimal digits"
            found.append(None if match is None else match[1].decode())
        return pa.array(found, pa.string())


def _spelled(name: str, names: Sequence[str]) -> str | None:
    """Return a name as a file spells it; None if it has none, or several in other cases.

    >>> _spelled("Op", ["op", "id"]), _spelled("Op", ["op", "Op"]), _spelled("Op", ["id"])
    ('op', 'Op', None)
    """
    same = [one for one in names if one.lower() == name.lower()]
    return name if name in same else same[0] if len(same) == 1 else None


def _is_binary(data_type: Any) -> bool:
    types = pa.types
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_fixed_size_binary(data_type))
