"""Warnings on deletes that found no record, where that is probably a mistake."""

from collections.abc import Iterator

from mutator.engine.tally import DELETE_WITHOUT_PARTITION
from mutator.errors.display import counted, key_text
from mutator.errors.parts import MASTER, setting
from mutator.pipeline.accounting import Result
from mutator.plan.run_plan import Plan
from mutator.rules.file_names import first_few

_FEW = 10
_MATCHED = ("updated", "no-op", "late")


def unmatched_deletes(plan: Plan, result: Result) -> Iterator[str]:
    """Yield the warnings of a run that are known only after its merge."""
    counts = result.counts
    unknown = counts["feed delete of unknown"] - counts["inserted and deleted"]
    live = counts["master rows"] - counts["master duplicate"] - counts["master rejected"]
    found_none = live and not counts["feed deleted"]
    if not plan.delete_files:  # deletes by op code are among rows that insert, update or delete
        found_none = found_none and unknown > _FEW and not any(counts[f"feed {name}"] for name in _MATCHED)
    if found_none and unknown > 0:
        yield (
            f"{first_few(plan.delete_files) or 'deletes by op code'}: no record was deleted, and {MASTER} does not "
            f"have {counted(unknown, 'ID')} of these deletes: compare them with {MASTER}'s (quotes, blanks, a header "
            "line, the order of the ID fields)"
        )
    if found := counts[DELETE_WITHOUT_PARTITION]:
        shown = "; ".join(map(key_text, result.samples[DELETE_WITHOUT_PARTITION]))
        yield (
            f"{counted(found, 'delete')} without a value of a partition field found no record, for example {shown}: "
            f"with {setting('key.scope=partition')}, a delete removes a record of its own partition only, so deletes "
            f"need their partition fields; {setting('key.scope=table')} finds records by their ID alone"
        )
