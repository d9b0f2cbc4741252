"""Op codes of the feed that are probably wrong: deletes that would be upserts, and a field that is no op code.

With ``upsert.op.code``, rows of other codes are rejects.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from mutator.errors import error
from mutator.errors.display import counted, option
from mutator.pipeline.accounting import Result
from mutator.plan.run_plan import Plan
from mutator.rules.op_codes import (
    MOST_CODES,
    SHOWN_BYTES,
    counted_codes,
    looks_like_delete,
    looks_like_upsert,
    most_frequent,
)


def check_op_codes(plan: Plan, result: Result) -> None:
    """Raise DataError for upserts whose codes look like deletes, and for an op code field with too many codes."""
    layout, codes = plan.rows.layouts["feed"], result.op_codes
    if layout.upsert_codes is not None:
        return
    found = Counter({code: count for code, count in codes.items() if looks_like_delete(code, layout.delete_codes)})
    if found:
        raise error(
            "op.deletes",
            rows=counted(found.total(), "row"),
            codes=counted_codes(most_frequent(found)),
            known=_listed(layout.delete_codes),
            cure=_cure(layout.delete_codes, found),
        )
    if len(codes) > MOST_CODES:
        shown = counted_codes(most_frequent(codes)[:3])
        raise error("op.codes", field=layout.op_field, most=MOST_CODES, codes=shown)


def op_code_warnings(plan: Plan, result: Result) -> Iterator[str]:
    """Yield a warning if no row has a delete code, and some codes are no usual names of upserts.

    An empty code is unusual beside others.
    """
    layout, codes = plan.rows.layouts["feed"], Counter(result.op_codes)
    accepted = result.counts["feed rows"] - result.counts["feed rejected"]
    if layout.upsert_codes is not None or codes.total() != accepted:
        return
    unusual = {
        code: count
        for code, count in codes.items()
        if not looks_like_upsert(code) or (not code.strip() and count < accepted)
    }
    if not unusual:
        return
    if any(looks_like_upsert(code) for code in codes):
        are, they = ("are read as upserts", "they are deletes")
        if len(unusual) == 1:
            are, they = ("is read as an upsert", "it is a delete")
        yield (
            f"no row of the feed has a delete code ({_listed(layout.delete_codes)}), and "
            f"{counted_codes(most_frequent(unusual))} {are}: if {they}, set deleted.op.code, if not, name the codes "
            "of all upserts with upsert.op.code"
        )
    else:
        yield (
            f"no row of the feed has a delete code ({_listed(layout.delete_codes)}); field {layout.op_field} has "
            f"{counted_codes(most_frequent(codes))}: check op.code.field.ordinal, because that field is not written"
        )


def _cure(known: Collection[bytes], found: Collection[bytes]) -> str:
    found = {code[:SHOWN_BYTES] for code in found}
    with_blanks = [code for code in found if code != code.strip()]
    cures = []
    if len(with_blanks) < len(found):
        cures.append(f"use {option('deleted.op.code', _listed({*known, *found} - {*with_blanks}))}")
    if with_blanks:
        cures.append("have the feed delivered without blanks in its op codes")
    return ", and ".join(cures)


def _listed(codes: Collection[bytes]) -> str:
    return ",".join(sorted({code.decode("utf-8", "backslashreplace") for code in codes}))
