"""The lines that reports of all merges share: outcomes, remarks, rejected rows, warnings."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mutator.engine.lost_files import lost_parts
from mutator.engine.receipts import Key
from mutator.errors.display import counted, key_text, without_secrets
from mutator.pipeline.accounting import Result
from mutator.pipeline.late_feed import (
    empty_feed_warnings,
    late_warnings,
    spelling_warnings,
    superseded_warnings,
    tied_warnings,
)
from mutator.pipeline.op_codes import op_code_warnings
from mutator.pipeline.order_units import future_warnings
from mutator.pipeline.reject_hints import reject_hints
from mutator.pipeline.unmatched_deletes import unmatched_deletes
from mutator.plan.inspect.survey import Survey
from mutator.plan.reading import Reading
from mutator.plan.run_plan import Plan
from mutator.rules.order_values import order_text
from mutator.rules.truth_table import FEED_OUTCOMES, MASTER_OUTCOMES

REMARKS = {  # count -> noun, and the rest of a line
    "tied": ("tied key", ": mutations with the highest order value that differ"),
    "inserted and deleted": ("key", " inserted and deleted within this feed"),
    "revived": ("key", " inserted again after a remembered delete"),
    "duplicate IDs": ("ID", " with more than one row in the master, of which the last was kept"),
    "below horizon": ("insert", " older than the newest expired tombstone"),
}


def samples_of(samples: Mapping[str, Sequence[Key]]) -> dict[str, list[str]]:
    """Return the sample keys of each remark, as text."""
    return {name: [key_text(key) for key in keys] for name, keys in samples.items() if name in REMARKS}


def reject_members(path: str, offset: int, line: int, position: str, reason: str, row: bytes) -> Mapping[str, Any]:
    """Return a rejected row as the JSON of a report has it."""
    text = row.decode("utf-8", "backslashreplace")
    return {"path": path, "offset": offset, "line": line, "place": position, "reason": reason, "row": text}


def feed_files_of(result: Result) -> list[Mapping[str, Any]]:
    """Return the rows, bytes and outcomes of each feed file that was read, as the JSON of a report has them."""
    return [
        {
            "path": without_secrets(source.shown_path),
            "sequence": source.sequence,
            "bytes": source.bytes,
            "rows": rows,
            "rejected": rejected,
            "ignored": ignored,
            "outcomes": outcomes,
        }
        for source, rows, rejected, ignored, outcomes in result.read
    ]


def late_orders(plan: Reading, result: Result) -> dict[str, str | None] | None:
    """Return the bounds of the order values of late mutations, and of what is newer, as text; None without any."""
    if result.late is None:
        return None
    return {name: order_text(plan.rows.order_type, value) for name, value in result.late._asdict().items()}


def outcome_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the counts of all outcomes, in two columns."""
    left = [("feed rows", counts["feed rows"]), *((f"  {name}", counts[f"feed {name}"]) for name in FEED_OUTCOMES)]
    right = [("master rows", counts["master rows"])]
    right += [(f"  {name}", counts[f"master {name}"]) for name in MASTER_OUTCOMES]
    right += [("output rows", counts["output rows"]), ("tombstones", counts["tombstones out"])]
    for number in range(max(len(left), len(right))):
        pairs = [column[number] for column in (left, right) if number < len(column)]
        yield "    ".join(f"{name:<24}{count:>12,}" for name, count in pairs)


def remark_lines(counts: Mapping[str, int], samples: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each remark on keys. samples: keys for each, as text."""
    for name, (noun, rest) in REMARKS.items():
        if counts.get(name):
            yield f"{counted(counts[name], noun)}{rest}, for example {'; '.join(samples[name])}"


def reject_lines(rejects: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield a line for each of the first rejected rows. rejects: by side."""
    for side in ("master", "feed"):
        for reject in rejects.get(side, []):
            yield f"rejected: {reject['path']}: {reject['place']}: {reject['reason']}"


def ignored_lines(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a line on blank and header lines, and one on rows that are no mutations."""
    rows = counts.get("feed no mutations", 0)
    lines = counts["feed ignored"] + counts["master ignored"] - rows
    if lines:
        yield f"{counted(lines, 'blank or header line')} ignored"
    if rows:
        yield f"{counted(rows, 'row')} ignored for the op code"


def _lost_warnings(plan: Plan, result: Result) -> Iterator[str]:
    """Yield a warning for the damaged files that an overwrite replaced."""
    parts = lost_parts(plan, result.lost)
    if parts:
        rows = sum(part.rows for part in parts if part.is_data)
        first = f"{parts[0].path}: {result.lost[parts[0].path]}"
        others = "" if len(parts) == 1 else f"; and {counted(len(parts) - 1, 'other')}"
        yield (
            f"damaged files were replaced ({first}{others}): the IDs of their {counted(rows, 'record')} are unknown, "
            "so late mutations may insert them again"
        )


def merge_warnings(plan: Plan, survey: Survey, result: Result) -> Iterator[str]:
    """Yield the warnings that are known only after a merge."""
    yield from _lost_warnings(plan, result)
    yield from unmatched_deletes(plan, result)
    yield from op_code_warnings(plan, result)
    yield from empty_feed_warnings(plan, survey, result)
    yield from late_warnings(plan, result)
    yield from spelling_warnings(plan, result)
    yield from future_warnings(plan, result)
    yield from tied_warnings(plan, result)
    yield from superseded_warnings(plan, survey, result)
    for side, samples in result.rejects.items():
        yield from (f"rejected rows: {hint}" for hint in reject_hints(plan, survey, side, samples))
