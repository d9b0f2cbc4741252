"""What the op codes of the feed mean: codes that are no upserts stop a run, and so do unknown ones.

With ``upsert.op.code``, rows of other codes are rejects. Where all settings are those of the original job, in its
properties file, an unknown code is an upsert, as there, and the report has a warning.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from mutator.errors import error
from mutator.errors.display import counted, option
from mutator.pipeline.accounting import Result
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.op_codes import (
    MOST_CODES,
    SHOWN_BYTES,
    counted_codes,
    listed_codes,
    looks_like_delete,
    looks_like_upsert,
    meaning_of,
    most_frequent,
    upserts_beside,
)

_NO_UPSERTS = {"before": "op.before", "truncate": "op.truncate"}  # meaning of a code -> error


def check_op_codes(plan: Plan, result: Result) -> None:
    """Raise DataError for codes that are no upserts, for unknown codes, and for too many of them."""
    layout = plan.rows.layouts["feed"]
    if layout.upsert_codes is not None:
        return
    field, codes = layout.op_field, _not_ignored(plan, result)
    deletes = Counter({code: n for code, n in codes.items() if looks_like_delete(code, layout.delete_codes, field)})
    if deletes:
        raise error(
            "op.deletes",
            rows=counted(deletes.total(), "row"),
            codes=counted_codes(most_frequent(deletes)),
            known=listed_codes(layout.delete_codes),
            cure=_cure(layout.delete_codes, deletes),
        )
    for meaning, kind in _NO_UPSERTS.items():
        found = Counter({code: count for code, count in codes.items() if meaning_of(code, field) == meaning})
        if found:
            cure = _named("ignore.op.code", {*layout.ignore_codes, *found})
            shown, known = counted_codes(most_frequent(found)), listed_codes({*codes} - {*found})
            raise error(kind, field=field, codes=shown, cure=cure, upserts=known)
    if len(codes) > MOST_CODES:
        shown = counted_codes(most_frequent(codes)[:3])
        raise error("op.codes", field=field, most=MOST_CODES, codes=shown)
    unknown = _unknown(codes, field, layout.delete_codes)
    if unknown and not plan.limits.unknown_op_codes:
        upserts = _named("upsert.op.code", codes)
        raise error("op.unknown", field=field, codes=counted_codes(most_frequent(unknown)), upserts=upserts)


def op_code_warnings(plan: Reading, result: Result) -> Iterator[str]:
    """Yield a warning of unknown codes, where these are allowed."""
    layout = plan.rows.layouts["feed"]
    if layout.upsert_codes is not None:
        return
    codes, rows = _not_ignored(plan, result), result.counts["feed rows"] - result.counts["feed rejected"]
    unknown = _unknown(codes, layout.op_field, layout.delete_codes)
    if not unknown:
        return
    if any(looks_like_upsert(code, layout.op_field) for code in codes) or codes.total() < rows:
        are, they = ("are read as upserts", "they are deletes")
        if len(unknown) == 1:
            are, they = ("is read as an upsert", "it is a delete")
        yield (
            f"op codes that are not known: {counted_codes(most_frequent(unknown))} {are}: if {they}, set "
            "deleted.op.code, if not, name the codes of all upserts with upsert.op.code"
        )
    else:
        yield (
            f"no row of the feed has a delete code ({listed_codes(layout.delete_codes)}); field {layout.op_field} has "
            f"{counted_codes(most_frequent(codes))}: check op.code.field.ordinal, because that field is not written"
        )


def _not_ignored(plan: Reading, result: Result) -> Counter[bytes]:
    """Return the codes of the upserts of the feed."""
    ignored = plan.rows.layouts["feed"].ignore_codes
    return Counter({code: count for code, count in result.op_codes.items() if code not in ignored})


def _unknown(codes: Counter[bytes], field: object, delete_codes: Collection[bytes]) -> dict[bytes, int]:
    """Return the codes of which nothing is known; an empty one only beside others that are no deletes."""
    no_deletes = upserts_beside(delete_codes)
    return {
        code: count
        for code, count in codes.items()
        if code.strip().lower() not in no_deletes
        and not (
            len(codes) == 1 if not code.strip() and meaning_of(code, field) is None else looks_like_upsert(code, field)
        )
    }


def _named(key: str, codes: Collection[bytes]) -> str:
    """Return a setting of codes; a setting cannot have blanks around a code."""
    if any(code != code.strip() for code in codes):
        return f"{key}, once the feed is delivered without blanks in its op codes"
    return option(key, listed_codes(codes))


def _cure(known: Collection[bytes], found: Collection[bytes]) -> str:
    found = {code[:SHOWN_BYTES] for code in found}
    with_blanks = [code for code in found if code != code.strip()]
    cures = []
    if len(with_blanks) < len(found):
        cures.append(f"use {option('deleted.op.code', listed_codes({*known, *found} - {*with_blanks}))}")
    if with_blanks:
        cures.append("have the feed delivered without blanks in its op codes")
    return ", and ".join(cures)
