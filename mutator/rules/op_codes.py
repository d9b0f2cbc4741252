"""Op codes of rows: how often each one occurs, and which of them probably mean a delete.

>>> looks_like_delete(b"delete", {b"D"}), looks_like_delete(b"U", {b"D"})
(True, False)
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

from mutator.errors.display import value_in_quotes

MOST_CODES = 24  # different ones in an op code field; more are values of another field
_KEPT = MOST_CODES + 8
_COUNTED = 1000
SHOWN_BYTES = 64  # of a code, in messages
_DELETE_NAMES = {b"d", b"del", b"delete", b"deleted", b"deletion", b"remove", b"removed", b"rm"}
_UPSERT_NAMES = {
    b"a", b"add", b"added", b"c", b"change", b"changed", b"create", b"created", b"i", b"ins", b"insert", b"inserted",
    b"m", b"modify", b"modified", b"n", b"new", b"r", b"read", b"replace", b"s", b"u", b"upd", b"update", b"updated",
    b"ups", b"upsert",
}  # fmt: skip
_NAME = re.compile(
    r"_*(?:op|opcode|op_?code|op_?type|operation|action|change_?type|dml|cdc_?op|rec_?type)_*", re.IGNORECASE
)
_MARK = re.compile(
    r"_*(?:is_?|was_?)?(?:deleted?|deletion|removed?|tombstone)_?(?:flag|ind|indicator|mark)?_*", re.IGNORECASE
)
_TRUE, _FALSE = {b"1", b"true", b"t", b"y", b"yes"}, {b"0", b"false", b"f", b"n", b"no", b""}
_AROUND = re.compile(rb"\A[\s\"']*[+-]?(?=[A-Za-z])|\A[\s\"']+|[\s\"']+\Z")


def looks_like_delete(code: bytes, delete_codes: Collection[bytes]) -> bool:
    """Return whether a code is a usual name of a delete, or a delete code in other case or with blanks or quotes.

    >>> looks_like_delete(b" x", {b"X"}), looks_like_delete(b"-D", {b"X"})
    (True, True)
    """
    plain = _plain(code[:SHOWN_BYTES])
    return plain in _DELETE_NAMES or plain in map(_plain, delete_codes)


def looks_like_upsert(code: bytes) -> bool:
    """Return whether a code is a usual name of an insert or update, or empty.

    >>> looks_like_upsert(b"+I"), looks_like_upsert(b"nokia")
    (True, False)
    """
    plain = _plain(code[:SHOWN_BYTES])
    return not plain or plain in _UPSERT_NAMES


def named_like_op_codes(name: str) -> bool:
    """Return whether a field has a usual name of an op code field.

    >>> named_like_op_codes("__op"), named_like_op_codes("option")
    (True, False)
    """
    return _NAME.fullmatch(name) is not None


def delete_marks(name: str, values: Collection[bytes]) -> set[bytes]:
    """Return the values of a field that mark deletes: true ones, in a field that is called so.

    >>> delete_marks("is_deleted", {b"true", b"false"}), delete_marks("active", {b"true"})
    ({b'true'}, set())
    """
    plain = {value.strip().lower() for value in values}
    if not _MARK.fullmatch(name) or not plain <= _TRUE | _FALSE:
        return set()
    return {value for value in values if value.strip().lower() in _TRUE}


def _plain(code: bytes) -> bytes:
    return _AROUND.sub(b"", code).lower()


def add_counts(total: dict[bytes, int], counts: Mapping[bytes, int], leave_out: Collection[bytes]) -> None:
    """Add the counts of codes to a total, which does not grow without end. leave_out: codes that are not counted.

    >>> total = {b"U": 1}
    >>> add_counts(total, {b"U": 1, b"D": 1}, {b"D"})
    >>> total
    {b'U': 2}
    """
    for code, count in counts.items():
        if code not in leave_out and (code in total or len(total) < _COUNTED):
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


def counted_codes(counts: Iterable[tuple[bytes, int]], most: int = 5) -> str:
    """Show codes with their counts; of long codes the first bytes.

    >>> counted_codes([(b"U", 2000), (b"I", 1)])
    "'U' (2,000), 'I' (1)"
    """
    found = list(counts)
    shown = [f"{value_in_quotes(_shown(code))} ({count:,})" for code, count in found[:most]]
    return ", ".join(shown) + (f" and {len(found) - most} more" if len(found) > most else "")


def _shown(code: bytes) -> str:
    return code[:SHOWN_BYTES].decode("utf-8", "backslashreplace") + ("..." if len(code) > SHOWN_BYTES else "")
