"""What the op codes of the feed mean: codes that are not upserts stop a run, and so do unknown ones.

With ``upsert.op.code``, rows of other codes are rejects. Where all settings are those of the original job, in its
properties file, an unknown code is an upsert, as there, and the report has a warning.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from mutator.engine.split_content import SplitContent
from mutator.errors import MutatorError, error
from mutator.errors.display import counted, without_secrets
from mutator.errors.parts import place, setting
from mutator.formats.content import NotReadable, Reject
from mutator.pipeline.accounting import Result
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.dialects.messages import other_table
from mutator.rules.envelope import UNKNOWN_CODE, OpCodeField
from mutator.rules.envelopes import BESIDE, KEYS, NO_ROWS
from mutator.rules.op_codes import (
    MOST_CODES,
    SHOWN_BYTES,
    CodeFacts,
    codes_option,
    counted_codes,
    listed_codes,
    looks_like_upsert,
    most_frequent,
)
from mutator.storage.compression import CorruptStream

_MOST_TABLES = 20  # that a message names
_NO_UPSERTS = {"before": "op.before", "truncate": "op.truncate"}  # meaning of a code -> error


def check_op_codes(plan: Plan, result: Result) -> None:
    """Raise DataError for codes that are not upserts, for unknown codes, for too many of them, and for other tables."""
    envelope = plan.rows.layouts["feed"].envelope
    if (allowed := getattr(envelope, "others", None)) is not None:
        unknown = {name: rows for name, rows in other_tables(result).items() if name not in allowed}
        if unknown:
            raise error("op.tables", tables=shown_tables(unknown))
    if not isinstance(envelope, OpCodeField) or envelope.upsert_codes is not None:
        return
    field, codes = envelope.field, _of_upserts(plan, result)
    if codes.deletes:
        raise error(
            "op.deletes",
            rows=counted(sum(codes.deletes.values()), "row"),
            codes=_with_place(plan, result, codes.deletes),
            known=listed_codes(envelope.delete_codes),
            cure=_cure(envelope.delete_codes, codes.deletes),
        )
    for meaning, kind in _NO_UPSERTS.items():
        if found := codes.meaning(meaning):
            shown = _with_place(plan, result, found)
            ignored = _named("ignore.op.code", {*envelope.ignore_codes, *found})
            truncates = _named("truncate.op.code", {*envelope.truncate_codes, *found})
            raise error(kind, field=field, codes=shown, cure=ignored, truncates=truncates)
    if len(codes.counts) > MOST_CODES:
        shown = counted_codes(dict(most_frequent(codes.counts)[:3]))
        raise error("op.codes", field=field, most=MOST_CODES, codes=shown)
    if codes.unknown and not plan.accepts_op_codes:
        upserts = _named("upsert.op.code", codes.counts)
        raise error("op.unknown", field=field, codes=_with_place(plan, result, codes.unknown), upserts=upserts)


def _with_place(plan: Plan, result: Result, codes: Collection[bytes]) -> str:
    """Return codes with their counts, and the first row with one of them, for which its split is read again."""
    where, lines = min(result.op_code_places[code] for code in codes)
    file = plan.inputs[where[0]]
    split = next(one for one in plan.splits if (one.input, one.number) == where)
    others = frozenset(result.op_codes.keys() - codes)
    layout = plan.rows.layouts[file.layout]
    assert isinstance(layout.envelope, OpCodeField)
    layout = replace(layout, envelope=replace(layout.envelope, upsert_codes=others, ignore_codes=frozenset()))
    first = place(without_secrets(file.source.shown_path))
    with suppress(MutatorError, NotReadable, CorruptStream, pa.ArrowException):  # it has changed since
        for row in plan.block_type.records(SplitContent(plan, split, file), layout):
            if isinstance(row, Reject) and f"(op code) {UNKNOWN_CODE}" in row.reason:
                first += f": {file.source.position(row.offset, row.line + lines)}"
                break
    return f"{counted_codes({code: result.op_codes[code] for code in codes})}, first in {first}"


def op_code_warnings(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning of unknown codes, where these are allowed."""
    envelope = plan.rows.layouts["feed"].envelope
    if not isinstance(envelope, OpCodeField) or envelope.upsert_codes is not None:
        return
    codes, rows = _of_upserts(plan, result), result.counts["feed rows"] - result.counts["feed rejected"]
    if not codes.unknown:
        return
    if codes.where(lambda code: looks_like_upsert(code, codes.field)) or sum(codes.counts.values()) < rows:
        are, they = ("are read as upserts", "they are deletes")
        if len(codes.unknown) == 1:
            are, they = ("is read as an upsert", "it is a delete")
        yield (
            f"op codes that are not known: {counted_codes(codes.unknown)} {are}: if {they}, set "
            f"{setting('deleted.op.code')}, if not, name the codes of all upserts with {setting('upsert.op.code')}"
        )
    else:
        yield (
            f"no row of the feed has a delete code ({listed_codes(envelope.delete_codes)}); field {envelope.field} has "
            f"{counted_codes(codes.counts)}: check {setting('op.code.field.ordinal')}, because that field is not "
            "written"
        )


def lost_deletes(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning of deletes that do not say what they delete, unless other rows of the feed say deletes."""
    envelopes = [plan.rows.layouts[one.layout].envelope for one in plan.inputs if one.side == "feed"]
    codes = {one.keyless_delete if isinstance(one, OpCodeField) else None for one in envelopes}
    count = sum(result.op_codes.get(code, 0) for code in codes if code is not None)
    if (
        count
        and None not in codes
        and not any(result.counts[name] for name in ("feed deleted", "feed delete of unknown"))
    ):
        what = "is null, a delete that does not say of which record: the record stays"
        if count > 1:
            what = "are null, deletes that do not say of which records: the records stay"
        yield (
            f"{counted(count, 'row')} of the feed {what}. Have the sink write the keys (store.kafka.keys=true), and "
            f"set {setting(f'{KEYS}={BESIDE}')}; or have deletes written as rows (transforms.unwrap.delete.tombstone."
            "handling.mode=rewrite)"
        )


def notes_on_kinds(plan: Reading, result: Result) -> Iterator[str]:
    """Yield notes on rows of a dialect: on what they cannot say, and on those that say nothing of a record, by kind."""
    envelope = plan.rows.layouts["feed"].envelope
    if isinstance(envelope, OpCodeField) and envelope.unwraps:
        yield from filter(None, [envelope.note_on(result.op_codes)])
        kinds = {code: count for code, count in result.op_codes.items() if code in envelope.ignore_codes}
        found = [f"{count:,} {code.decode()}" for code, count in most_frequent(kinds)]
        if tables := other_tables(result):
            found.append(f"{sum(tables.values()):,} of other tables ({shown_tables(tables)})")
        yield from [f"{NO_ROWS}: {', '.join(found)}"] if found else []


def other_tables(result: Result) -> dict[str, int]:
    """Return how many rows of the feed each table has whose rows are not taken."""
    names = ((other_table(code), count) for code, count in result.op_codes.items())
    return {name: count for name, count in names if name is not None}


def shown_tables(tables: Mapping[str, int]) -> str:
    """Return the names of tables with their numbers of rows, those with most rows first.

    >>> shown_tables({"s.a": 1, "s.b": 2000})
    '2,000 s.b, 1 s.a'
    """
    found = [f"{count:,} {name}" for name, count in sorted(tables.items(), key=lambda one: (-one[1], one[0]))]
    more = [f"and {len(found) - _MOST_TABLES:,} more"] if len(found) > _MOST_TABLES else []
    return ", ".join([*found[:_MOST_TABLES], *more])


def _of_upserts(plan: Reading, result: Result) -> CodeFacts:
    """Return the facts of the codes of rows that were read as upserts."""
    envelope = plan.rows.layouts["feed"].envelope
    found = {code: count for code, count in result.op_codes.items() if code not in envelope.ignore_codes}
    return CodeFacts(found, envelope.field, envelope.delete_codes)


def _named(key: str, codes: Collection[bytes]) -> str:
    """Return a setting of codes; a setting cannot have blanks around a code."""
    if any(code != code.strip() for code in codes):
        return f"{key}, once the feed is delivered without blanks in its op codes"
    return codes_option(key, codes)


def _cure(known: Collection[bytes], found: Collection[bytes]) -> str:
    found = {code[:SHOWN_BYTES] for code in found}
    with_blanks = [code for code in found if code != code.strip()]
    cures = []
    if len(with_blanks) < len(found):
        cures.append(f"use {codes_option('deleted.op.code', {*known, *found} - {*with_blanks})}")
    if with_blanks:
        cures.append("have the feed delivered without blanks in its op codes")
    return ", and ".join(cures)
