"""The ledger, a partition of its own: what was read of each split, rejected rows, damage (``engine.content``)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from mutator.dataset.commit.staged_file import StagedFile
from mutator.engine.split_content import DAMAGE, RECEIPT, TALLY, Receipt
from mutator.engine.task_files import create
from mutator.errors.failpoints import failpoint
from mutator.errors.redact import without_secrets
from mutator.plan.run_plan import SAMPLES, Plan

__all__ = ["write_ledger"]


def write_ledger(plan: Plan, staging: str | None, attempt: int, elements: Iterable[Any]) -> dict[str, Any]:
    """Collect what was read of each split, and write the rejected rows; return the receipt."""
    receipts: dict[tuple[int, int], Receipt] = {}
    lines_before: dict[tuple[int, int], int] = {}
    samples: dict[str, list[tuple[str, int, int, str, str, bytes]]] = {}
    damage: list[tuple[str, dict[str, Any]]] = []
    beside: list[dict[str, Any]] = []
    tallies: list[dict[str, Any]] = []
    path = f"_mutator/rejected/rejected-{plan.run}{f'-{attempt}' if attempt else ''}.tsv"
    rows = 0
    with ExitStack() as stack:
        stream: StagedFile | None = None
        for (_, _, kind, place), value in elements:
            if kind == RECEIPT:
                receipts[place] = Receipt(*value)
            elif kind == DAMAGE:
                damage.append(value)
            elif kind == TALLY:
                tallies.append(value)
                damage += value.get("damage", ())
            else:
                index, offset = place
                split, line, reason, row = value
                one = plan.inputs[index]
                # All receipts come before the first reject, so the lines of the splits before this one are known.
                if (index, split) not in lines_before:
                    lines_before[index, split] = sum(
                        receipts[index, n].lines for n in range(split) if (index, n) in receipts
                    )
                line += lines_before[index, split]
                rows += 1
                kept = samples.setdefault(one.side, [])
                if len(kept) < SAMPLES:
                    where = one.source.place(offset, line)
                    kept.append((without_secrets(one.source.path), offset, line, where, reason, row[:200]))
                if staging is not None:
                    if stream is None:
                        stream = stack.enter_context(create(plan, staging, path))
                    path_text = without_secrets(one.source.path)
                    path_text = path_text.replace("\t", "\\t").replace("\n", "\\n")  # a directory may be named so
                    place_text = f"{path_text}\t{offset}\t{line}\t{reason}\t".encode("utf-8", "surrogateescape")
                    stream.write(place_text + row + b"\n")
    if stream is not None:
        failpoint("task.rejected.written", attempt)
        beside.append(asdict(stream.side_file("rejected", rows)))
    return {
        "receipts": [(place, tuple(receipt)) for place, receipt in receipts.items()],
        "rejects": samples,
        "rejects met": rows,
        "damage": damage,
        "tallies": tallies,
        "beside": beside,
    }
