"""The rows and outcomes of each feed file, and the check that they add up to those of the run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mutator.engine.file_outcomes import joined_outcomes
from mutator.engine.receipts import MergeReceipt, SplitNumber, SplitReceipt
from mutator.plan.inspect.source import Source
from mutator.plan.reading import Reading
from mutator.rules.truth_table import FEED_OUTCOMES, RARE_OUTCOMES


class FileRows(NamedTuple):
    """The rows of a feed file."""

    source: Source
    rows: int
    rejected: int
    ignored: int  # blank lines and headers
    outcomes: Mapping[str, int] | None = None  # rows by outcome; None: not known


def feed_rows(
    plan: Reading,
    splits: Mapping[SplitNumber, SplitReceipt],
    tallies: Sequence[MergeReceipt],
    truncate: tuple[int, str] | None,
) -> list[FileRows]:
    """Return the rows and outcomes of each feed file, in the order of the plan.

    truncate: the file of the highest truncate, and its outcome; None without one.
    """
    found = {number: [0, 0, 0, 0] for number, one in enumerate(plan.inputs) if one.side == "feed"}
    for (index, _), receipt in splits.items():
        if index in found:
            more = (receipt.rows, receipt.rejected, receipt.ignored, receipt.halves)
            found[index] = [one + other for one, other in zip(found[index], more, strict=True)]
    won = joined_outcomes(receipt.won for receipt in tallies)
    if won is not None and truncate is not None:
        won.setdefault(truncate[0], Counter())[truncate[1]] += 1
    files = []
    for index, (rows, rejected, ignored, halves) in found.items():
        own: Mapping[str, int] = {} if won is None else won.get(index, {})
        rejected += own.get("rejected", 0)  # by the register
        outcomes = None if won is None else _outcomes(own, rows + halves, rejected)
        files.append(FileRows(plan.inputs[index].source, rows, rejected, ignored, outcomes))
    return files


def _outcomes(won: Mapping[str, int], rows: int, rejected: int) -> dict[str, int]:
    """Return the rows of a feed file by outcome. won: its winners; what else was not rejected is superseded."""
    known = {**won, "rejected": rejected}
    known["superseded"] = rows - sum(known.values())
    return {name: known.get(name, 0) for name in (*FEED_OUTCOMES, *(name for name in RARE_OUTCOMES if name in known))}


def check_files(counts: Mapping[str, int], files: Sequence[FileRows]) -> list[str]:
    """Return a message for each outcome whose rows are not those of all feed files, as far as these are known."""
    known = [file.outcomes for file in files if file.outcomes is not None]
    if len(known) < len(files):
        return []
    problems = []
    for name in (*FEED_OUTCOMES, *RARE_OUTCOMES):
        rows = [outcomes.get(name, 0) for outcomes in known]
        if sum(rows) != counts.get(f"feed {name}", 0) or min(rows, default=0) < 0:
            problems.append(f"feed {name} {counts.get(f'feed {name}', 0):,}, and by feed file {sum(rows):,}")
    return problems
