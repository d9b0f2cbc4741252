"""Warn of IDs in master and feed that are spelled in different ways (``rules.id_spellings``), and of other IDs.

A producer may state the ID in a file beside its feed files, as ``_metadata.json`` of open mirroring does. There is no
warning of spellings where two IDs of one side differ in nothing else: then such IDs are different records.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from unicodedata import is_normalized

from mutator.config.settings import KeySpec, RowSpec
from mutator.errors.display import key_text
from mutator.errors.parts import MASTER, setting, value_in_quotes
from mutator.plan.inspect.envelopes import key_in
from mutator.plan.inspect.first_rows import FILES
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.mistakes.samples import Row, Sample, typed_texts
from mutator.rules.envelopes import ENVELOPES
from mutator.rules.facts import is_fraction
from mutator.rules.id_spellings import INVISIBLE, have_spellings, plain_id

DIFFER = (
    f"IDs of the feed and {MASTER} differ in their spelling alone (blanks, quotes, case, zeros, the form of numbers "
    "or UUIDs, invisible characters or accents)"
)
_ENOUGH = 3  # IDs of a side that show its form
_EXPONENT = re.compile(rb"[+-]?[0-9.]+[eE][+-]?[0-9]+")
_DASHES = re.compile(rb"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TYPED_BYTES = 1 << 20  # of a typed file that is read for its first IDs


def _is_padded(value: bytes) -> bool:
    return value.isdigit() and value.startswith(b"0") and len(value) > 1


# What differs -> whether a value has it.
_TRAITS: Mapping[str, Callable[[bytes], bool]] = {
    "blanks around them": lambda value: value != value.strip(),
    "quotes around them": lambda value: len(value) > 1 and value[:1] == value[-1:] == b'"',
    "leading zeros": _is_padded,
    "capital letters alone": lambda value: value.isupper(),
    "a point, as floating-point numbers have": is_fraction,
    "an exponent": lambda value: _EXPONENT.fullmatch(value) is not None,
    "a plus sign": lambda value: value[:1] == b"+",
    "the dashes of UUIDs": lambda value: _DASHES.fullmatch(value) is not None,
    "invisible characters": lambda value: value != value.decode("utf-8", "replace").translate(INVISIBLE).encode(),
    "letters with separate accents": lambda value: not is_normalized("NFC", value.decode("utf-8", "replace")),
}


def id_warnings(key: KeySpec, survey: Survey, samples: Sequence[Sample]) -> Iterator[str]:
    """Yield a warning if IDs of the feed are probably those of the master in another form.

    IDs of other types than text have one form, to which those of the feed are converted.
    """
    known = survey.state
    if known is not None and not have_spellings(known.spec["key"]):
        return
    master, feed = (
        list(dict.fromkeys([*(row for sample in samples if sample.side == side for row in sample.ids), *typed]))
        for side, typed in (("master", _typed_ids(key, survey.master)), ("feed", _typed_ids(key, survey.feed)))
    )
    normal_in_master, normal_in_feed = _by_normal_form(master), _by_normal_form(feed)
    if normal_in_master is None or normal_in_feed is None:
        return
    for normal, row in normal_in_feed.items():
        other = normal_in_master.get(normal)
        if other is not None and other != row:
            yield (f"{DIFFER}: {_shown(row)} in the feed, {_shown(other)} in {MASTER}; they count as different records")
            return
    if set(master) & set(feed):
        return
    for number in range(len(master[0]) if master and feed else 0):
        yield from _trait_warnings([row[number] for row in master], [row[number] for row in feed])


def _typed_ids(key: KeySpec, sources: Sequence[Source]) -> Iterator[Row]:
    """Yield the first IDs of tables and of small typed files whose ID fields are all text."""
    small = [source for source in sources[:FILES] if source.bytes <= _TYPED_BYTES]
    for _, rows in typed_texts(small, key.ids):
        yield from rows


def _by_normal_form(rows: Sequence[Row]) -> dict[Row, Row] | None:
    """Return IDs by their normal form; None if two of them have the same."""
    found: dict[Row, Row] = {}
    for row in rows:
        if found.setdefault(tuple(map(plain_id, row)), row) != row:
            return None
    return found


def _trait_warnings(master: Sequence[bytes], feed: Sequence[bytes]) -> Iterator[str]:
    """Yield a warning on a trait that the values of one side have, and no value of the other side."""
    for trait, has in _TRAITS.items():
        for side, values, other_side, others in (("master", master, "feed", feed), ("feed", feed, "master", master)):
            if min(len(values), len(others)) < _ENOUGH or any(map(has, others)) or not _differs(has, values, others):
                continue
            example, other = next(filter(has, values)), others[0]
            yield (
                f"IDs of the {side} have {trait} ({_shown((example,))}), and none of the {other_side} "
                f"({_shown((other,))}), in the first rows: if they should be the same records, have them delivered "
                "in one form"
            )
            return


def _differs(has: Callable[[bytes], bool], values: Sequence[bytes], others: Sequence[bytes]) -> bool:
    """Return whether enough values have a trait, and those without it could have it."""
    if has is _is_padded:
        width = len(values[0])
        same_width = all(value.isdigit() and len(value) == width for value in values)
        shorter = all(value.isdigit() and len(value) <= width for value in others)
        return same_width and any(map(has, values)) and shorter and any(len(value) < width for value in others)
    if has is _TRAITS["capital letters alone"]:
        return all(map(has, values)) and all(value.islower() for value in others)
    return 2 * sum(map(has, values)) >= len(values)


def _shown(row: Row) -> str:
    return value_in_quotes(key_text(row))


def warnings_on_keys(rows: RowSpec, feed: Sequence[Source]) -> Iterator[str]:
    """Yield a warning if the ID is another than the one that is stated."""
    stating = map(key_in, feed if ENVELOPES[rows.ops.envelope].traces.key_file else ())
    names, where = next((one for one in stating if one[0]), ((), ""))
    if names and {*names} != {*map(str, rows.key.ids)}:
        shown, own = ", ".join(names), ", ".join(map(str, rows.key.ids))
        cure = f"if the rows have that one, set {setting(f'key={shown}')} in a new master"
        yield f"{where} says that {shown} is the ID of the rows, and {setting('key')} is {own}: {cure}"
