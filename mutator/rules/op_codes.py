"""Op codes of rows: what those of common tools mean, and ``CodeFacts``: what the codes of a field show.

>>> meaning_of(b"delete"), meaning_of(b"update_postimage"), meaning_of(b"update_preimage"), meaning_of(b"nokia")
('delete', 'upsert', 'before', None)
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from mutator.errors.parts import option, value_in_quotes, value_of_rows
from mutator.errors.quick_dataclass import dataclass

MOST_CODES = 24  # different ones in an op code field; more are values of another field
_KEPT = MOST_CODES + 8
_COUNTED = 1000
_SHORTEST_TIME = 8  # 20260131
PRESENT = b"not null"  # the code of a row with any value in a field that marks deletes
_NO_TIME = re.compile(  # times with which tools write that a record was not deleted
    rb"(?:0000|0001|9999)-\d\d-\d\d.*|(?:1900|1970)-01-01(?:[T ]00:00(?::00)?(?:\.0+)?(?:Z|[+-]00:?00)?)?"
)
_NULLS = {b"", b"null", b"none", b"nil", b"nan", b"nat", b"n/a", b"na", b"\\n", b"-", b"false", b"0"}
SHOWN_BYTES = 64  # of a code, in messages
_DELETE_NAMES = {b"d", b"del", b"delete", b"deleted", b"deletion", b"remove", b"removed", b"rm"}
_UPSERT_NAMES = {
    b"a", b"add", b"added", b"after", b"afterimage", b"ai", b"bootstrap-insert", b"c", b"change", b"changed", b"create",
    b"created", b"i", b"ins", b"insert", b"inserted", b"l", b"load", b"m", b"merge", b"modify", b"modified", b"n",
    b"new", b"postimage", b"pt", b"r", b"read", b"refresh", b"replace", b"rr", b"s", b"snapshot", b"u", b"ua", b"un",
    b"up", b"upd", b"update", b"update_after", b"update_postimage", b"updateafter", b"updated", b"ups", b"upsert",
}  # fmt: skip
_BEFORE_NAMES = {
    b"-u", b"b", b"before", b"before_image", b"beforeimage", b"bi", b"old", b"pre", b"pre_image", b"preimage", b"ub",
    b"uo", b"update_before", b"update_preimage", b"updatebefore", b"uu",
}  # fmt: skip
_COMMON_LETTERS = {b"b", b"l", b"t"}
_TRUNCATE_NAMES = {b"t", b"trunc", b"truncate", b"truncated", b"table-truncate"}
# Codes that only the field's name explains: of SQL Server, HVR and SAP
_OF_FIELDS: dict[str, dict[bytes, str]] = {
    "__$operation": {b"1": "delete", b"2": "upsert", b"3": "before", b"4": "upsert", b"5": "upsert"},
    "hvr_op": {b"0": "delete", b"1": "upsert", b"2": "upsert", b"3": "before", b"4": "before", b"5": "truncate"},
    **{
        name: {b"": "upsert", b"n": "upsert", b"x": "before", b"d": "delete", b"r": "delete"}
        for name in ("0recordmode", "recordmode", "rocancel")
    },
}
_NAME = re.compile(
    r"_*(?:(?:header|hvr|cdc|dbz|debezium|dms|ogg|odq|metadata)[_$]+)?"
    r"(?:op|opcode|op_?code|op_?type|operation|action|change_?type|change_?oper|change_operation_type|dml|cdc_?op"
    r"|rec_?type|row_?kind|change_?mode|0?recordmode|rocancel)_*|__\$operation|dtl__capxaction",
    re.IGNORECASE,
)
_PARTS_OF_NAMES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_DELETED = {"del", "delete", "deleted", "deletion", "isdeleted", "removed", "tombstone", "loekz", "loevm", "lvorm"}
_MARKS = {"flag", "flg", "ind", "indicator", "mark", "yn", "bool"}
_TIMES = {"at", "on", "date", "datetime", "dt", "time", "timestamp", "ts", "utc"}
_TRUE, _FALSE = {b"1", b"true", b"t", b"y", b"yes", b"x"}, {b"0", b"false", b"f", b"n", b"no", b""}
_AROUND = re.compile(rb"\A[\s\"']*[+-]?(?=[A-Za-z])|\A[\s\"']+|[\s\"']+\Z")


def meaning_of(code: bytes, field: Any = None) -> str | None:
    """Return what a code means in common tools: delete, upsert, before (an image before an update), or truncate.

    Return None for an unknown code. field: its name, which may explain a number; an ordinal explains none.

    >>> meaning_of(b"+I"), meaning_of(b"-U"), meaning_of(b"3"), meaning_of(b"3", "__$operation")
    ('upsert', 'before', None, 'before')
    """
    plain = _plain(code[:SHOWN_BYTES])
    by_field = _OF_FIELDS.get(str(field).lower().strip("/"))
    if by_field is not None and plain in by_field:
        return by_field[plain]
    if plain in _BEFORE_NAMES or code.strip(b" \t\"'").lower() in _BEFORE_NAMES:
        return "before"
    for meaning, names in (("delete", _DELETE_NAMES), ("upsert", _UPSERT_NAMES), ("truncate", _TRUNCATE_NAMES)):
        if plain in names:
            return meaning
    return None


@lru_cache(1024)
def is_truncate(code: bytes, field: Any = None) -> bool:
    """Return whether a code says that all records go. This row has no ID, and is not a mutation of a record.

    >>> is_truncate(b"TRUNCATE"), is_truncate(b"5"), is_truncate(b"5", "hvr_op")
    (True, False, True)
    """
    return meaning_of(code, field) == "truncate"


def looks_like_delete(code: bytes, delete_codes: Collection[bytes], field: Any = None) -> bool:
    """Return whether a code is a usual name of a delete, or a delete code in other case or with blanks or quotes.

    >>> looks_like_delete(b" x", {b"X"}), looks_like_delete(b"-D", {b"X"})
    (True, True)
    """
    meaning = meaning_of(code, field)
    return meaning == "delete" or (meaning is None and _plain(code[:SHOWN_BYTES]) in map(_plain, delete_codes))


def looks_like_upsert(code: bytes, field: Any = None) -> bool:
    """Return whether a code is a usual name of an insert or update, or empty.

    >>> looks_like_upsert(b"+I"), looks_like_upsert(b"nokia")
    (True, False)
    """
    return not _plain(code[:SHOWN_BYTES]) or meaning_of(code, field) == "upsert"


def is_op_code(code: bytes, field: Any = None) -> bool:
    """Return whether a code is one of common tools, or empty. field: its name, if it is that of an op code field.

    Some letters are too common in other fields.

    >>> is_op_code(b"-U"), is_op_code(b"B"), is_op_code(b"B", "op"), is_op_code(b"blue")
    (True, False, True, False)
    """
    plain = _plain(code[:SHOWN_BYTES])
    return not plain or (meaning_of(code, field) is not None and (field is not None or plain not in _COMMON_LETTERS))


def named_like_op_codes(name: str) -> bool:
    """Return whether a field has a usual name of an op code field.

    >>> named_like_op_codes("__op"), named_like_op_codes("option")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def presence(value: bytes) -> bytes:
    """Return the op code of a value in a field that marks a delete by any value: empty for what means NULL.

    >>> presence(b"2026-01-31"), presence(b"NULL"), presence(b"0000-00-00 00:00:00"), presence(b"9999-12-31")
    (b'not null', b'', b'', b'')
    """
    plain = value.strip().lower()
    return b"" if plain in _NULLS or _NO_TIME.fullmatch(plain.upper()) else PRESENT


def delete_marks(name: str, values: Collection[bytes]) -> set[bytes]:
    """Return the values of a field that mark deletes: true ones, in a field that is called so.

    >>> delete_marks("_fivetran_deleted", {b"true", b"false"}), delete_marks("active", {b"true"})
    ({b'true'}, set())
    """
    plain, parts = {value.strip().lower() for value in values}, _parts(name)
    if not (_says_deleted(parts) and (parts[-1] in _DELETED | _MARKS) and plain <= _TRUE | _FALSE):
        return set()
    return {value for value in values if value.strip().lower() in _TRUE}


def is_delete_time(name: str, values: Collection[bytes]) -> bool:
    """Return whether a field has the times of deletes, and no value, or one that means NULL, in the other rows.

    >>> is_delete_time("deletedAt", {b"null", b"2026-01-31T10:00:00Z"}), is_delete_time("deleted_at", {b""})
    (True, False)
    """
    parts, found = _parts(name), {value for value in values if presence(value)}
    is_named = _says_deleted(parts) and bool({parts[0], parts[-1]} & _TIMES)
    return is_named and bool(found) and all(value[:1].isdigit() and len(value) >= _SHORTEST_TIME for value in found)


def _parts(name: str) -> list[str]:
    return [part.lower() for part in _PARTS_OF_NAMES.findall(name)]


def _says_deleted(parts: Sequence[str]) -> bool:
    return not _DELETED.isdisjoint(parts) and "not" not in parts


def _plain(code: bytes) -> bytes:
    return _AROUND.sub(b"", code).lower()


def add_counts(total: dict[bytes, int], counts: Mapping[bytes, int]) -> None:
    """Add the counts of codes to a total, which does not grow without end.

    >>> total = {b"U": 1}
    >>> add_counts(total, {b"U": 1})
    >>> total
    {b'U': 2}
    """
    for code, count in counts.items():
        if code in total or len(total) < _COUNTED:
            total[code] = total.get(code, 0) + count


def most_frequent(counts: Mapping[bytes, int]) -> tuple[tuple[bytes, int], ...]:
    """Return the most frequent codes with their counts; all of them, unless they are more than an op code field has.

    >>> most_frequent({b"I": 1, b"U": 2})
    ((b'U', 2), (b'I', 1))
    """
    found = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(found[:_KEPT])


def abridged(counts: Mapping[bytes, int]) -> tuple[tuple[bytes, int], ...]:
    """Return the most frequent codes with their counts; a digest replaces all but the first bytes of a long code.

    Codes that differ stay different.

    >>> [(len(code), count) for code, count in abridged({b"x" * 5000: 2, b"U": 1})]
    [(80, 2), (1, 1)]
    """
    return tuple((_abridged(code), count) for code, count in most_frequent(counts))


def _abridged(code: bytes) -> bytes:
    if len(code) <= SHOWN_BYTES:
        return code
    return code[:SHOWN_BYTES] + hashlib.blake2b(code, digest_size=8).hexdigest().encode()


def counted_codes(counts: Mapping[bytes, int], most: int = 5) -> str:
    """Show the most frequent codes with their counts; of long codes the first bytes.

    >>> from mutator.errors.parts import plain
    >>> plain(counted_codes({b"I": 1, b"U": 2000}))
    "'U' (2,000), 'I' (1)"
    """
    found = most_frequent(counts)
    shown = [f"{value_in_quotes(_shown(code))} ({count:,})" for code, count in found[:most]]
    return ", ".join(shown) + (f" and {len(found) - most} more" if len(found) > most else "")


def listed_codes(codes: Iterable[bytes], errors: str = "backslashreplace") -> str:
    """Return codes as a setting has them; the empty one is two double quotes. errors: of bytes that are not UTF-8.

    >>> print(listed_codes([b"U", b"", b"I", b"a,b"]))
    "",I,U,a\\,b
    """
    return ",".join(sorted({code.decode("utf-8", errors).replace(",", "\\,") or '""' for code in codes}))


def codes_option(name: str, codes: Iterable[bytes]) -> str:
    """Write a setting of codes that rows have as a command line option.

    >>> from mutator.errors.parts import plain
    >>> print(plain(codes_option("upsert.op.code", [b"U", b"I"])))
    -D 'upsert.op.code=I,U'
    """
    return option(name, value_of_rows(listed_codes(codes, "surrogateescape")))


def _shown(code: bytes) -> str:
    return code[:SHOWN_BYTES].decode("utf-8", "backslashreplace") + ("..." if len(code) > SHOWN_BYTES else "")


@dataclass(frozen=True)
class CodeFacts:
    """The traits of the codes of a field.

    >>> facts = CodeFacts.of([b"U", b"-U", b"delete", b"x"])
    >>> facts.deletes, facts.meaning("before"), facts.unknown
    ({b'delete': 1}, {b'-U': 1}, {b'x': 1})
    """

    counts: Mapping[bytes, int]
    field: Any = None  # the name or the ordinal of the op code field; None if it is not known to be one
    delete_codes: Collection[bytes] = ()  # in the settings

    @classmethod
    def of(cls, values: Iterable[bytes | None], field: Any = None, delete_codes: Collection[bytes] = ()) -> "CodeFacts":
        """Return the facts of values; NULL is an empty code."""
        return cls(Counter(value or b"" for value in values), field, delete_codes)

    def where(self, wanted: Callable[[bytes], bool]) -> dict[bytes, int]:
        """Return the counts of the codes that are wanted."""
        return {code: count for code, count in self.counts.items() if wanted(code)}

    def meaning(self, meaning: str) -> dict[bytes, int]:
        """Return the counts of the codes with a meaning in common tools."""
        return self.where(lambda code: meaning_of(code, self.field) == meaning)

    @cached_property
    def deletes(self) -> dict[bytes, int]:
        """The counts of the codes that look like deletes."""
        return self.where(lambda code: looks_like_delete(code, self.delete_codes, self.field))

    @cached_property
    def are_usual(self) -> bool:
        """Whether all codes are those of common tools, or empty."""
        return all(is_op_code(code, self.field) for code in self.counts)

    @cached_property
    def unknown(self) -> dict[bytes, int]:
        """The counts of the codes of which nothing is known; an empty one only beside others that are not deletes."""
        marks = any(code == PRESENT or code.strip().lower() in _TRUE for code in self.delete_codes)
        no_upserts = {*self.deletes, *self.meaning("before"), *self.meaning("truncate")}
        others = self.where(lambda code: code not in no_upserts)
        return {
            code: count
            for code, count in others.items()
            if meaning_of(code, self.field) is None
            and not (marks and code.strip().lower() in _FALSE)
            and (len(others) > 1 if not code.strip() else bool(_plain(code[:SHOWN_BYTES])))
        }
