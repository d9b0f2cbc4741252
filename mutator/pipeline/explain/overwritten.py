"""What an insert overwrite decided about a key, by the table of replaced partitions.

Whether a partition was replaced follows from all of its mutations. Of a key without one, and of a record in another
partition than the winner's, it is only known what the dataset of the run holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.pipeline.explain.key_decisions import Decided, Held, Mutation, Outcome, kind_of, order_met, superseded
from mutator.rules.truth_table import FEED_OUTCOMES, REPLACED_TABLE, TRUTH_TABLE, decide_replaced


def decide_overwritten(before: Held | None, mutations: Sequence[Mutation], absences: Mapping[int, Any]) -> Decided:
    """Decide about a key as the run did. before: what the master held; None: not known. absences: of snapshots."""
    ordered = sorted(mutations, key=lambda one: one.place)
    if not ordered:
        return Decided((), None, None, before, None)
    winner = ordered[-1]
    lost = [superseded(one, winner) for one in ordered[:-1]]
    if before is None or (before.kind != "nothing" and before.partition != winner.partition):
        return Decided((*lost, Outcome(winner, None, _possible(winner))), None, None, before, None)
    older = before.kind != "nothing" and order_met(before, False, absences) > winner.order
    same = before.kind == "record" and not winner.is_delete and before.content == winner.content
    decision = decide_replaced(before.kind, kind_of(winner), older=older, same=same)
    content = "" if before.kind != "record" or winner.is_delete else ", same bytes" if same else ", other bytes"
    line = f"replaced partition: {before.kind}, {kind_of(winner)}{content}"
    outcomes = (*lost, Outcome(winner, decision.winner))
    return Decided(outcomes, line, decision.master, before, _after(decision.result, before, winner))


def absent(decided: Decided) -> Decided:
    """Return what was decided about a key; one without mutations whose record is gone was deleted by absence."""
    before, after = decided.before, decided.after
    if decided.outcomes or before is None or after is None or (before.kind, after.kind) != ("record", "tombstone"):
        return decided
    return replace(decided, line="replaced partition: record, none", master="deleted by absence")


def _after(result: str, before: Held, winner: Mutation) -> Held:
    """Return what the master has after a result of the table."""
    if result == "write":
        shown = winner.row if winner.form else winner.content
        return Held("record", winner.order, shown, winner.content, winner.form, winner.partition)
    if result in ("touch", "touch tombstone"):
        return replace(before, order=winner.order, duplicates=0)
    if result in ("keep", "keep tombstone"):
        return before
    order = before.order if result == "bury record" else winner.order
    return Held("tombstone", order, partition=before.partition)


def _possible(winner: Mutation) -> tuple[str, ...]:
    tables = (*TRUTH_TABLE.items(), *REPLACED_TABLE.items())
    found = {decision.winner for (_, kind, _, _), decision in tables if kind == kind_of(winner)}
    return tuple(name for name in FEED_OUTCOMES if name in found)
