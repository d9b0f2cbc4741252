"""Names of files: the sequence, the compression, delete files, and the names that runs give.

>>> sequence("ups_prod_1427761080.txt.gz")
1427761080
"""

import os
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache

# suffix -> name of the compression, as magic bytes name it too (formats read nothing else)
COMPRESSIONS = {".gz": "gzip", ".bz2": "bzip2", ".zst": "zstd", ".xz": "xz"}

_DIGITS = re.compile(r"[0-9]+\Z")
_DATA_FILE = re.compile(r"part-\d{5,}-\d{8}T\d{6}Z-[0-9a-f]{8}(-\d+)?(_\d+)?(\.[a-z]+)*\Z")
_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
_WORD = re.compile(r"(?<![^\W_])[^\W\d_]+")  # letters that do not follow a digit, such as T in 20260131T101500
_NOUNS, _PAST = r"deletes?|deleted|deletions?|removals?|tombstones?", "removed|erased|purged"
_WORDS_FOR_DELETES = f"{_NOUNS}|{_PAST}"
_CAPITALIZED = "|".join(word.capitalize() for word in _WORDS_FOR_DELETES.split("|"))
_DELETES = re.compile(rf"(?:del|removes?|erase|purge|{_WORDS_FOR_DELETES})(?![a-z])", re.IGNORECASE)
_DELETES_WITHIN = re.compile(  # "del" alone is a word of Spanish, too, so it must be the last word
    rf"(?<!not[_-])(?<!non[_-])(?<![^\W_])(?i:removes|{_WORDS_FOR_DELETES}|del(?=[\W_\d]*(?:\.\w+)*$))(?![^\W\d_])"
    rf"|(?<=[a-z])(?:{_CAPITALIZED})(?![a-z])"
)
_DELETE_DIRECTORY = re.compile(rf"(?:(?:.*[-_. ])?(?:del|{_NOUNS})|{_PAST})(?:[-_. ]\d+)*", re.IGNORECASE)
_NEGATIONS = {"no", "non", "not", "without", "excluding", "except", "is", "un"}
_UPSERTS = {(word,) for word in ("ups", "upsert", "upserts", "upd", "update", "updates", "ins", "insert", "inserts")}
_UNFINISHED = re.compile(  # hdfs dfs -put, WinSCP, Flink, browsers, editors, and many programs for transfer
    r"\.(?:tmp|temp|part|partial|filepart|in-?progress|crdownload|download|swp|_copying_)$|\.in-?progress\.",
    re.IGNORECASE,
)
_MAX_SEQUENCE = 2**63 - 1
_NAMES = 1 << 14  # whose sequences are kept: those of all known feed files are compared with each new one
_KEY_FILE = re.compile(r".+\.(?:keys|headers)\.[a-z]+(?:\.[a-z0-9]+)?")


def base_name(path: str) -> str:
    """Return the last part of a path.

    >>> base_name("/data/incr/ups_1.txt")
    'ups_1.txt'
    """
    return path.rsplit("/", 1)[-1]


def in_directory(path: str, old: str, new: str) -> str:
    """Return a path with another directory; that of a file elsewhere stays.

    >>> in_directory("/data/incr/ups_1.txt", "/data", "data"), in_directory("/data2/ups_1.txt", "/data", "data")
    ('data/incr/ups_1.txt', '/data2/ups_1.txt')
    """
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path


def is_hidden(name: str) -> bool:
    """Return whether Hive, Spark and Hadoop readers, and this program, ignore a file of this name.

    The last kind marks a directory on object stores, where old versions of Hadoop and EMR leave such objects.

    >>> is_hidden("_SUCCESS"), is_hidden("part-0.txt"), is_hidden("incr_$folder$")
    (True, False, True)
    """
    return name.startswith(("_", ".")) or name.endswith("_$folder$")


def is_unfinished(name: str) -> bool:
    """Return whether a copy or a download gives a file this name until the file is whole.

    >>> is_unfinished("ups_7.txt._COPYING_"), is_unfinished("part-0.inprogress.1"), is_unfinished("ups_7.txt")
    (True, True, False)
    """
    return bool(_UNFINISHED.search(name))


def compression(name: str) -> str | None:
    """Return the compression that a file's suffix promises, or None.

    >>> compression("ups_7.csv.zst")
    'zstd'
    """
    return COMPRESSIONS.get(os.path.splitext(name)[1].lower())


@lru_cache(_NAMES)
def sequence(name: str) -> int | None:
    """Return the integer after the last ``_`` of a file's stem, or None without one.

    The stem is the name without a compression suffix and without one extension. Only ASCII digits count, up to 2^63-1.

    >>> sequence("ups_7.csv.gz"), sequence("ups_7"), sequence("part-r-00000"), sequence("ups_x.txt")
    (7, 7, None, None)
    """
    stem = os.path.splitext(name)[0] if compression(name) else name
    bare, extension = os.path.splitext(stem)
    _, mark, last = (stem if "_" in extension else bare).rpartition("_")
    if not mark or not _DIGITS.match(last) or len(last.lstrip("0")) > 19:
        return None
    value = int(last)
    return value if value <= _MAX_SEQUENCE else None


def new_run_id(now: float) -> str:
    """Return an id that no other run has. now: seconds since 1970; ids sort by it."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"


def is_run_id(text: str) -> bool:
    """Return whether a text has the form of a run's id.

    >>> is_run_id("20261121T024702Z-23d57ff1"), is_run_id("mine")
    (True, False)
    """
    return _RUN_ID.fullmatch(text) is not None


def is_data_file(name: str) -> bool:
    """Return whether a file is named as runs name data files.

    >>> is_data_file("part-00003-20261121T024702Z-23d57ff1_7.txt"), is_data_file("part-00003")
    (True, False)
    """
    return _DATA_FILE.match(name) is not None


def has_run_id(name: str) -> bool:
    """Return whether a name contains the id of a run, as the names of all files that runs write do.

    >>> has_run_id("rejected-20261121T024702Z-23d57ff1-1.tsv"), has_run_id("part-00003")
    (True, False)
    """
    return _RUN_ID.search(name) is not None


def run_of(path: str) -> str | None:
    """Return the id of the run that wrote a file, which its name contains; None without one.

    >>> run_of("version_id=5/part-00003-20261121T024702Z-23d57ff1-1.parquet")
    '20261121T024702Z-23d57ff1'
    """
    found = _RUN_ID.findall(path)
    return found[-1] if found else None


def has_control(name: str) -> bool:
    """Return whether a name contains a control character, which no listing or report can show safely.

    >>> has_control("a\\nb.txt")
    True
    """
    return any(ord(char) < 32 or ord(char) == 127 for char in name)


def feed_name(name: str, suffix: str) -> str | None:
    """Return the name of a control file's feed file; None if the name is not that of a control file.

    >>> feed_name("ups_7.txt.ctl", ".ctl"), feed_name("ups_7.txt", ".ctl")
    ('ups_7.txt', None)
    """
    return name.removesuffix(suffix) or None if name.endswith(suffix) else None


def is_key_file(name: str) -> bool:
    """Return whether a file has the name of one with the keys or headers of messages, as Kafka Connect writes them.

    >>> is_key_file("t+0+0000000000.keys.avro"), is_key_file("t.headers.json.gz"), is_key_file("keys.json")
    (True, True, False)
    """
    return _KEY_FILE.fullmatch(name) is not None


def delete_word(name: str) -> str | None:
    """Return the usual word for deletes with which a file's name begins, as it is written there; None without one.

    >>> delete_word("Delete_7.txt"), delete_word("delaware.txt")
    ('Delete', None)
    """
    found = _DELETES.match(name)
    return found[0] if found else None


def delete_word_within(name: str) -> str | None:
    """Return the usual word for deletes anywhere in a file's name, with the signs around it; None without one.

    >>> delete_word_within("orders_deletes.csv"), delete_word_within("products_del_7.csv")
    ('_deletes.', '_del_')
    >>> [delete_word_within(name) for name in ("ventas_del_mes_7.csv", "non_deleted_7.csv", "ups_del_7.csv")]
    [None, None, None]
    """
    found = None if is_named_like_upserts(name) else _DELETES_WITHIN.search(name)
    return name[max(found.start() - 1, 0) : found.end() + 1] if found else None


def is_delete_directory(name: str) -> bool:
    """Return whether a directory has the name of one for deletes.

    >>> [is_delete_directory(name) for name in ("deletes", "orders_deleted_2026", "del_rio", "no_deletes")]
    [True, True, False, False]
    """
    return _DELETE_DIRECTORY.fullmatch(name) is not None and _NEGATIONS.isdisjoint(words(name))


def is_named_like_upserts(name: str) -> bool:
    """Return whether a usual word for upserts begins a file's name.

    >>> is_named_like_upserts("ups_7.csv"), is_named_like_upserts("upstream_7.csv")
    (True, False)
    """
    return words(name)[:1] in _UPSERTS


def may_be_place(name: str) -> bool:
    """Return whether ``del`` at the start of a name may be part of a longer name, because other words follow.

    >>> may_be_place("del_rio_7.txt"), may_be_place("del_7.txt"), may_be_place("delete_rio_7.txt")
    (True, False, False)
    """
    found = words(name)
    return found[:1] == ("del",) and len(found) > 1


def words(name: str) -> tuple[str, ...]:
    """Return the words of a file's stem in lower case, without numbers.

    >>> words("ups_Prod_eu_20260131T101500.txt.gz")
    ('ups', 'prod', 'eu')
    """
    stem = os.path.splitext(name)[0] if compression(name) else name
    return tuple(_WORD.findall(os.path.splitext(stem)[0].lower()))


def first_few(names: Sequence[str], most: int = 5) -> str:
    """Write the first few names, and how many more there are.

    >>> first_few(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def ends_in_word(name: str, prefix: str) -> bool:
    """Return whether a prefix ends within a word of a name, which begins with it.

    >>> ends_in_word("delta_1.txt", "del"), ends_in_word("del_1.txt", "del"), ends_in_word("delProd_1.txt", "del")
    (True, False, False)
    """
    last, rest = prefix[-1:], name[len(prefix) : len(prefix) + 1]
    return last.isalpha() and rest.isalpha() and not (last.islower() and rest.isupper())


def is_delete_file(name: str, prefix: str | None, pattern: re.Pattern[str] | None = None) -> bool:
    """Return whether every row of a feed file is a delete.

    >>> is_delete_file("del_prod_7.txt", "del"), is_delete_file("prod_del_7.txt", None, re.compile("_del_"))
    (True, True)
    """
    by_prefix = prefix is not None and name.startswith(prefix)
    return by_prefix or (pattern is not None and pattern.search(name) is not None)
