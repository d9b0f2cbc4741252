"""The envelope of flat rows of the dialects in ``flat_dialects``.

A file may lack the field that says what a row does, if its dialect allows it: its rows are upserts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.errors.display import counted
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.dialects.flat_dialects import BEFORE, FLAT_DIALECTS, SEQUENCE, TRANSACTION, FlatDialect
from mutator.rules.dialects.messages import (
    SHOWN,
    MessageRows,
    is_rejected,
    is_text,
    of_other_table,
    other_table,
    rejected,
)
from mutator.rules.envelope import ANY_WIDTH, FirstOfFile, Unclear, Unwrapped
from mutator.rules.order_columns import flags

_KEYS = "keyColumns"
_WIDTH = "number of fields"  # of a row
_LSN = re.compile(rb"(?:0x)?([0-9a-f]{20})")
_MARK, _OF_WIDTH = re.compile(r"has '(\w)[|']"), re.compile(r"has \d+ fields? and should have \d+")
_BYTES = pa.large_binary()
_NONE = pa.scalar(None, _BYTES)


@dataclass(frozen=True, kw_only=True)
class FlatRows(MessageRows):
    """The envelope of the rows of such a dialect."""

    dialect: str
    names: tuple[tuple[str, str], ...] = ()  # of the dialect's fields that the file has, and how it spells them
    sequence: int | None = None  # of the file
    binary: tuple[str, ...] = ()  # fields of LSNs that are bytes
    unset: str | None = None  # the text of a value that was not sent, as the user says it
    width: int | None = None  # of the rows of the table, in text that may have rows of others

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

    @property
    def _not_sent(self) -> str | None:
        """The text of a value that was not sent; None if all are."""
        return self.unset if self.unset is not None else self._own.unset

    @property
    def leaves_unset(self) -> bool:
        """Whether a text says that a value was not sent."""
        return self._not_sent is not None

    def fields_of_tables(self, reason: str) -> tuple[str, ...]:
        """Return the first fields of a file of several tables, if that may be why a row is a reject; else none."""
        own, mark = self._own, _MARK.match(reason)
        is_mark = mark is not None and mark[1].lower() in own.marks
        return own.fields_of_tables if not self._says_table and (is_mark or _OF_WIDTH.match(reason)) else ()

    def note_on(self, codes: Mapping[bytes, int]) -> str:
        """Return a note on the updates that may have changed a key, where nothing says so."""
        count = codes.get(self._own.upserts[-1].encode(), 0) if self._own.hides_keys else 0
        if not count:
            return ""
        shown = f"{counted(count, 'update')} ({self._own.upserts[-1]})"
        return f"{shown} without the row before: where the key of a record changed, the old record stays"

    def for_file(self, schema: Any, first: FirstOfFile, keys: Sequence[Any]) -> FlatRows:
        """Return the envelope of a file, with its spelling of the dialect's fields."""
        own, names = self._own, setting("field.names")
        ordinal = next((key for key in keys if not isinstance(key, str)), None)
        if ordinal is not None:
            what = f"is read by the names of its fields, and the ID is field {ordinal}"
            raise Unclear(what, f"name the field of the ID; {names} names the fields of a file without a header")
        wanted = [own.field, *(one.name for one in own.order), *own.others]
        elements = own.elements(schema.names)
        spelled = {name: elements.get(name) if elements else _spelled(name, schema.names) for name in wanted} | elements
        if len(schema) and keys and not {*filter(None, spelled.values()), *keys} & {*schema.names}:
            what = f"has neither a field {own.field} nor the ID (it has {', '.join(schema.names)})"
            raise Unclear(
                what, f"if it has no header, set {names} to the names of its fields in order, with {own.field}"
            )
        lsns = [spelled[one.name] for one in own.order if one.is_lsn]
        found = replace(
            self,
            about=self.table,
            keys=tuple(keys),
            names=tuple((name, found) for name, found in spelled.items() if found is not None),
            sequence=first.sequence,
            binary=tuple(name for name in lsns if name is not None and _is_binary(schema.field(name).type)),
        )
        if found._says_table:
            found = replace(found, width=len(schema) if first.is_delimited else None)
            tables = found.tables(schema, first) if self.table is None else ()
            found = replace(found, about=next(iter(tables), self.table))
        return found

    def tables(self, schema: Any, first: FirstOfFile) -> Sequence[str]:
        """Return the tables in the fields that name them."""
        own = self if self.names else self.for_file(schema, first, ())
        names = own.file_fields(())
        batch = first.batch(own.file_schema(schema, ()), names) if own._says_table else None
        if batch is None:
            return ()
        columns = own._columns(batch)
        tables, numbers = own._tables(columns, own._codes(columns.get(own._own.field), len(batch), False))
        return [table for number in numbers.tolist() if (table := tables[number]) is not None]

    @property
    def _says_table(self) -> bool:
        """Whether rows say their table."""
        return bool(self._own.about) and {*self._own.about} <= {name for name, _ in self.names}

    def key_in(self, schema: Any, first: FirstOfFile) -> tuple[Sequence[str], str]:
        """Return the key in a file beside that describes the table."""
        file, found = self._own.traces.key_file, dict[str, Any]()
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

    def file_schema(self, schema: Any, records: Any) -> Any:
        """Return the schema of the file; rows of other tables in text may have more or fewer fields."""
        return schema if self.width is None else schema.with_metadata({ANY_WIDTH: _WIDTH.encode()})

    def file_fields(self, names: Sequence[str]) -> Sequence[str]:
        """Return the fields as the file spells them, with those that say what a row does, and of what."""
        own, found = self._own, dict(self.names)
        made = {own.field, own.rank, SEQUENCE}
        says = [found[name] for name in (own.field, *(own.about if self._says_table else ())) if name in found]
        wanted = [found.get(name, name) for name in names if name not in made]
        return [*dict.fromkeys((*wanted, *says, *([] if self.width is None else [_WIDTH])))]

    def unwrap(self, batch: Any, records: Any) -> Unwrapped:
        """Return a row for each row. Raises Unclear if they are of several tables."""
        own, columns = self._own, self._columns(batch)
        is_ranked = records.get_field_index(own.rank) >= 0
        says = own.field in columns
        codes = self._codes(columns.pop(own.field, None), len(batch), is_ranked)
        if self._says_table:
            codes = self._of_table(columns, codes)
        unset = self._unset(columns, codes, says)
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
            if codes[row] not in self.ignore_codes and not is_rejected(codes[row]) and other_table(codes[row]) is None:
                codes[row] = rejected(reason)
        columns[own.field] = pa.array(codes, _BYTES)
        found = {name: column for name, column in columns.items() if records.get_field_index(name) >= 0}
        unset = {name: one for name, one in unset.items() if name in found}
        return Unwrapped(pa.RecordBatch.from_arrays([*found.values()], [*found]), unset=unset)

    def _columns(self, batch: Any) -> dict[str, Any]:
        """Return the columns of rows, those of the dialect by its own names."""
        taken = {spelled: name for name, spelled in self.names}
        return dict(zip([taken.get(name, name) for name in batch.schema.names], batch.columns, strict=True))

    def _tables(self, columns: Mapping[str, Any], codes: Sequence[bytes]) -> tuple[list[str | None], Ints]:
        """Return names of tables, and for each row the number of its own; None is that of a row without a table."""
        has = np.array([code != TRANSACTION.encode() for code in codes], np.bool_)
        both = [_bytes(columns[name]) for name in self._own.about]
        found = pc.if_else(
            pa.array(has), pc.binary_join_element_wise(*both, pa.scalar(b"\0", _BYTES)), _NONE
        ).dictionary_encode()
        names = [b".".join(filter(None, one.split(b"\0"))) for one in found.dictionary.to_pylist()]
        return [*(name.decode("utf-8", "replace") for name in names), None], found.indices.fill_null(
            len(names)
        ).to_numpy()

    def _of_table(self, columns: dict[str, Any], codes: Sequence[bytes]) -> list[bytes]:
        """Return what each row does if it is of the table, else why it is none. Raises Unclear."""
        tables, numbers = self._tables(columns, codes)
        is_own = np.array([name is not None and self.is_own(name) for name in tables])[numbers]
        widths = np.full(len(codes), self.width or 0)
        if self.width is not None:
            widths = columns.pop(_WIDTH).cast(pa.string()).cast(pa.int64()).to_numpy()
        found, lacks = [*codes], " and ".join(self._own.about)
        for row in np.flatnonzero(~is_own | (widths != (self.width or 0))).tolist():
            if tables[numbers[row]] is None:
                if codes[row] != TRANSACTION.encode():
                    found[row] = rejected(f"has no value in {lacks}, so its table is not known")
            elif not is_own[row]:
                found[row] = of_other_table(tables[numbers[row]])
            elif codes[row] not in self.truncate_codes:
                found[row] = rejected(f"has {counted(int(widths[row]), 'field')} and should have {self.width}")
        return found

    def _codes(self, column: Any, count: int, is_ranked: bool) -> list[bytes]:
        """Return what each row does. is_ranked: upserts are ordered after deletes."""
        own = self._own
        if column is None:
            return [own.upserts[0].encode()] * count
        marks = own.marks if self._says_table else ()
        known = [*(self.upsert_codes or ()), *self.delete_codes, *self.truncate_codes]
        said = {code.decode().lower(): code for code in known}
        said |= {code.lower(): own.deletes[0].encode() if is_ranked else BEFORE.encode() for code in own.before}

        shown = ", ".join(own.codes if not own.settable else sorted(code.decode() for code in known))

        def code_of(value: str | bytes | None) -> bytes:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""
            code = said.get(text.strip().lower())
            if text.partition("|")[0].strip().lower() in marks:
                return TRANSACTION.encode()
            if code is None and text:
                code = rejected(f"has '{text[:SHOWN]}' in {own.field}, which is none of {shown}")
            return code or rejected(f"has no value in {own.field}, which says what the row does")

        texts = column.cast(_BYTES if _is_binary(column.type) else pa.string()).dictionary_encode()
        codes = [*map(code_of, texts.dictionary.to_pylist()), code_of(None)]
        return [codes[number] for number in texts.indices.fill_null(len(codes) - 1).to_pylist()]

    def _unset(self, columns: dict[str, Any], codes: Sequence[bytes], says: bool) -> dict[str, Flags]:
        """Return which rows leave a field unset, by name. An insert sets all, and has NULL where a value is not sent.

        columns: in which these values become NULL. says: rows say whether they are inserts.
        """
        own, found, insert = self._own, dict[str, Flags](), self._own.upserts[0].encode()
        text = self._not_sent
        if text is None:
            return found
        upserts = self.upsert_codes or ()
        updates = np.array([code in upserts and not (says and code[:1].upper() == insert) for code in codes], np.bool_)
        for name, column in columns.items():
            if name in (*own.others, *(one.name for one in own.order)) or not is_text(column.type):
                continue
            lacks = flags(pc.fill_null(pc.equal(column, pa.scalar(text.encode(), column.type)), False))
            if lacks.any():
                found[name] = lacks & updates
                columns[name] = pc.if_else(pa.array(lacks), pa.scalar(None, column.type), column)
        return found

    def _lsns(self, name: str, column: Any, wrong: dict[int, str]) -> Any:
        """Return LSNs in hexadecimal. wrong: to add the reasons of rejects to, by row."""
        is_bytes, found = dict(self.names)[name] in self.binary, list[str | None]()
        for row, value in enumerate(column.to_pylist()):
            text = value.encode() if isinstance(value, str) else value
            text = text.hex().encode() if is_bytes and text is not None else text
            match = None if text is None else _LSN.fullmatch(text.strip().lower())
            if text is not None and match is None:
                shown = text[:SHOWN].decode("utf-8", "replace")
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


def _bytes(column: Any) -> Any:
    """Return a column of text, or of another form of it, as bytes."""
    return column.cast(_BYTES) if _is_binary(column.type) else column.cast(pa.string()).cast(_BYTES)


def _is_binary(data_type: Any) -> bool:
    types = pa.types
    return bool(types.is_binary(data_type) or types.is_large_binary(data_type) or types.is_fixed_size_binary(data_type))
