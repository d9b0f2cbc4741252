"""What an insert overwrite decided about a key, by the table of replaced partitions.

Whether a partition was replaced follows from all of its mutations. Of a key without one, and of a record in another
partition than the winner's, it is only known what the dataset of the run holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mutator.pipeline.explain.key_decisions import (
    Decided,
    Held,
    KeyMutation,
    Outcome,
    met_by,
    possible_outcomes,
    superseded,
)
from mutator.rules.last_wins import LAST_WINS, REPLACED
from mutator.rules.register import RECORD, Old


def decide_overwritten(before: Held | None, mutations: Sequence[KeyMutation], absences: Mapping[int, Any]) -> Decided:
    """Decide about a key as the run did. before: what the master held; None: not known. absences: of snapshots."""
    ordered = sorted(mutations, key=lambda one: one.place)
    if not ordered:
        return Decided((), None, None, before, None)
    winner = ordered[-1]
    lost = [superseded(one, winner) for one in ordered[:-1]]
    if before is None or (before.kind != "nothing" and before.partition != winner.partition):
        return Decided(
            (*lost, Outcome(winner, None, possible_outcomes(winner, LAST_WINS, REPLACED))), None, None, before, None
        )
    met = met_by(REPLACED, before, ordered, absences)
    decision, line = REPLACED.meet_key(*met).decision, REPLACED.line(*met)
    outcomes = (*lost, Outcome(winner, decision.winner))
    return Decided(outcomes, line, decision.master, before, _after(decision.result, before, winner))


def absent(decided: Decided) -> Decided:
    """Return what was decided about a key; one without mutations whose record is gone was deleted by absence."""
    before, after = decided.before, decided.after
    if decided.outcomes or before is None or after is None or (before.kind, after.kind) != ("record", "tombstone"):
        return decided
    return replace(decided, line=REPLACED.line(None, Old(RECORD)), master="deleted by absence")


def _after(result: str, before: Held, winner: KeyMutation) -> Held:
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
