"""Fields that do not count: an update that changes only these is a no-op.

The record gets the values of the mutation all the same, so that it does not depend on how mutations are spread over
runs. Only the outcome differs, and what depends on it: the counts, the changed rows, and the remark *tied*.

>>> from mutator.rules.last_wins import LAST_WINS
>>> IgnoredFields(LAST_WINS, fields=None, ignored=frozenset({2})).leaves_one
True
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.byte_columns import Flags, Ints
from mutator.rules.register import RECORD, Bag, Events, Folded, KeyMet, Met, Old, Olds, Register, RowFields
from mutator.rules.truth_table import Decision
from mutator.rules.typed_values import unequal


def as_no_op(decision: Decision, *, older: bool) -> Decision:
    """Return the decision about an update that changes only fields that do not count."""
    return Decision("rewrite", "late" if older else "no-op", "kept")


@dataclass(frozen=True, eq=False)
class IgnoredFields(Register):
    """Another register, and the numbers of the fields that do not count."""

    inner: Register
    fields: RowFields
    ignored: frozenset[int]

    reads_rows = True

    @property
    def full(self) -> bool:  # type: ignore[override]
        """As the other register has it."""
        return self.inner.full

    @property
    def leaves_one(self) -> bool:  # type: ignore[override]
        """As the other register has it."""
        return self.inner.leaves_one

    @property
    def by_order(self) -> bool:  # type: ignore[override]
        """As the other register has it."""
        return self.inner.by_order

    @property
    def side_columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        """Those of the other register."""
        return self.inner.side_columns

    @property
    def buries_rows(self) -> bool:  # type: ignore[override]
        """As the other register has it."""
        return self.inner.buries_rows

    @property
    def replacing(self) -> Register:
        """That of the other register, with the same fields."""
        return replace(self, inner=self.inner.replacing)

    @property
    def buries_absent(self) -> bool:
        """As the other register has it."""
        return self.inner.buries_absent

    def fold(self, bag: Bag) -> tuple[Ints, dict[str, Any]]:
        """Fold as the other register does."""
        return self.inner.fold(bag)

    def settled(self, beside: Any) -> Any:
        """Settle side columns as the other register does."""
        return self.inner.settled(beside)

    def truncated(self, olds: Olds, floor: Any) -> Iterator[Met]:
        """Decide as the other register does."""
        return self.inner.truncated(olds, floor)

    def reads(self, events: Events, beside: Flags, newer: Flags) -> Flags:
        """Return which records may be updated, and those that the other register must see."""
        found = ~events.deletes
        return found | self.inner.reads(events, beside, newer) if self.inner.reads_rows else found

    def moves_by_record(self, events: Events) -> Flags:
        """Return those of the other register: partition fields count."""
        return self.inner.moves_by_record(events)

    def meet(self, events: Events, olds: Olds, floor: Any = None) -> Iterator[Met]:
        """Decide as the other register does, but for updates that change only fields that do not count."""
        if olds.kind == RECORD and olds.rows is not None:  # a table has not compared rows that a register sees
            olds = olds._replace(same=~events.deletes & ~unequal(olds.rows, events.bag.rows("written", events.last)))
        for met in self.inner.meet(events, olds, floor):
            if olds.kind != RECORD or met.decision.winner != "updated" or olds.rows is None or not len(met.keys):
                is_same = met.decision.winner == "no-op" and met.tied is None
                yield met._replace(tied=np.zeros(len(met.keys), np.bool_)) if is_same else met
                continue
            rows = events.bag.rows("written", events.last[met.keys]) if met.rows is None else met.rows
            pairs = zip(self.fields.columns(rows), self.fields.columns(olds.rows.take(met.keys)), strict=True)
            counts = np.zeros(len(met.keys), np.bool_)
            for number, (new, old) in enumerate(pairs):
                if number not in self.ignored:
                    counts |= unequal(new, old)
            yield _chosen(met, np.flatnonzero(counts))
            for older in (True, False):
                own = np.flatnonzero(~counts & (olds.older[met.keys] == older))
                found = _chosen(met, own)
                yield found._replace(decision=as_no_op(met.decision, older=older), tied=np.zeros(len(own), np.bool_))

    def fold_key(self, mutations: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> Folded:
        """Fold as the other register does."""
        return self.inner.fold_key(mutations)

    def meet_key(self, folded: Folded | None, old: Old, floor: Any = None) -> KeyMet:
        """Decide about one key, as ``meet`` does."""
        met = self.inner.meet_key(folded, old, floor)
        if folded is None or old.kind != RECORD or met.decision.winner != "updated":
            return met
        row = folded.last.row if met.row is None else met.row
        pairs = zip(self.fields.parts(row), self.fields.parts(old.row), strict=True)
        if any(new != other for number, (new, other) in enumerate(pairs) if number not in self.ignored):
            return met
        return met._replace(decision=as_no_op(met.decision, older=folded.last.order < old.order), tied=False)

    def line(self, folded: Folded | None, old: Old, floor: Any = None) -> str:
        """Return the rule of the other register, and whether only fields that do not count differ."""
        alike = self.meet_key(folded, old, floor).decision.result == "rewrite"
        return self.inner.line(folded, old, floor) + (", in fields that do not count" if alike else "")

    def decisions(self, kind: str) -> Iterator[Decision]:
        """Yield the decisions of the other register, and those that it does not have."""
        for one in self.inner.decisions(kind):
            yield one
            if one.winner == "updated":
                yield from (as_no_op(one, older=older) for older in (True, False))


def _chosen(met: Met, rows: Ints) -> Met:
    """Return some of the keys of a decision. rows: their places in it."""
    seen = (None if column is None else column.take(rows) for column in (met.rows, met.orders, met.sides))
    flags = (None if column is None else column[rows] for column in (met.tied, met.late, met.clash))
    return Met(met.decision, met.keys[rows], *seen, *flags)


def inner_of(register: Register) -> Register:
    """Return the register that decides, without the fields that do not count."""
    return register.inner if isinstance(register, IgnoredFields) else register
