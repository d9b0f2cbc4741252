"""What a run decided about one key: the outcome of each of its mutations, and what the master had before and after.

Nothing is decided here. The mutations of the key, and the record or tombstone of the master, go through the merge of
one bucket (``engine.records.record_merge``), as they did in the run; its counts and its rows are the answer. Where
the master's part is not known, the possible outcomes are listed.

>>> place = precedence(5, 1, b"ups_1.txt", 0, b"k,5")
>>> one = KeyMutation("ups_1.txt", 0, 1, "line 1, byte 0", place, False, b"k,5", b"k,5")
>>> from mutator.rules.last_wins import LAST_WINS
>>> found = decide_key(NOTHING, [one], LAST_WINS)
>>> found.outcomes[0].outcome, found.line, found.after.order
('inserted', 'nothing, upsert', 5)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from mutator.engine.records.read_records import FEED, MASTER, TOMBSTONE, Element
from mutator.engine.records.record_merge import Tombstone, merge_bucket, raised
from mutator.engine.tally import Tally
from mutator.errors.quick_dataclass import dataclass
from mutator.rules import register as rules
from mutator.rules.absences import met_order
from mutator.rules.order_columns import to_value
from mutator.rules.order_values import decisive_part, precedence
from mutator.rules.patched_key import sets
from mutator.rules.register import Mutation, Register
from mutator.rules.truth_table import (
    FEED_OUTCOMES,
    MASTER_OUTCOMES,
    MOVED_ONTO,
    NOTES,
    RARE_OUTCOMES,
    SEALED,
    WAITED,
)

_KEY = (b"",)  # all elements have the same key


@dataclass(frozen=True)
class KeyMutation:
    """A row of the feed that has the key."""

    file: str  # path
    offset: int
    line: int | None  # from 1: of text its line, of Parquet its row; None where the position has it in words
    position: str
    place: tuple[Any, ...]  # precedence
    is_delete: bool
    row: bytes  # as it was read, for people
    content: bytes  # as it would be written, to be compared
    form: str = ""  # of the content: contents of different forms cannot be compared
    partition: str | None = None  # directory; None without partitions, and for a delete that names none
    arrives: bool = False  # from another key
    unset: bytes | None = None  # the mask of the fields that it leaves unset
    may_carry: bool = False  # it has a new key, so it may have these from the row of the old one
    carried: tuple[str, ...] = ()  # those that it has from there

    @property
    def order(self) -> Any:
        """The order value."""
        return self.place[0]


@dataclass(frozen=True)
class Held:
    """The record or tombstone of a key in a master."""

    kind: str  # record | tombstone | nothing
    order: Any = None
    row: bytes = b""  # for people
    content: bytes = b""
    form: str = ""
    # The values of the register's side columns: of a record, or of the row that waits beside a tombstone
    sides: tuple[Any, ...] = ()
    partition: str | None = None
    committed: int | None = None  # of a tombstone: commit time in ms of the run that wrote it
    duplicates: int = 0  # further rows of the key, in a master that this program did not write

    @property
    def waits(self) -> bool:
        """Whether a row waits beside a tombstone: patches of a record that is not there."""
        return self.kind == "tombstone" and bool(self.content)


NOTHING = Held("nothing")


def field_orders(order_type: str, held: Held) -> dict[str | None, Any]:
    """Return the order values that fields have of their own; that of NULL is the last upsert's."""
    found = held.sides[0] if held.sides and held.sides[0] else ()
    return {one["field"]: None if one["order"] is None else to_value(order_type, one["order"]) for one in found}


def sends(mutation: KeyMutation, number: int) -> bool:
    """Return whether a mutation sets a field, or clears it."""
    return sets(Mutation(mutation.place, mutation.is_delete, mutation.content, mutation.unset), number)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a mutation."""

    mutation: KeyMutation
    outcome: str | None  # None: not known, and ``possible`` has what it may have been
    possible: tuple[str, ...] = ()
    winner: KeyMutation | None = None  # of a superseded mutation: the one that superseded it
    part: str | None = None  # of the precedence, that decided between the two


@dataclass(frozen=True)
class Decided:
    """The decisions of a run about a key. ``after`` is None where it is not known what the master had afterwards."""

    outcomes: tuple[Outcome, ...]  # by precedence, the winner last
    line: str | None  # of the truth table; None: not known
    master: str | None  # outcome of the master's record
    before: Held | None
    after: Held | None
    notes: tuple[str, ...] = ()


def decide_key(
    before: Held | None,
    mutations: Sequence[KeyMutation],
    register: Register,
    *,
    now: int = 0,
    expire_before: int | None = None,
    horizon: Any = None,
    is_complete: bool = True,
    absences: Mapping[int, Any] = MappingProxyType({}),
    floor: Any = None,
    truncates: bool = False,
    known_floor: Any = None,
    as_of: Any = None,
    shown: Callable[[bytes], bytes] | None = None,
) -> Decided:
    """Decide about a key as the run did.

    before: what the master held; None: not known. register: of the run. now, expire_before: commit times in ms.
    horizon, absences, floor, truncates, known_floor, as_of: as in ``merge_bucket``. is_complete: no other mutation of
    the run can have had the key. shown: returns written content for people; None: as it is.
    """
    ordered = sorted(mutations, key=lambda one: one.place)
    if not is_complete:
        return Decided(tuple(_unknown(register, one, ordered[-1]) for one in ordered), None, None, before, None)
    if before is None:
        return _without_before(register, ordered)
    tally, buried = Tally(), list[Tombstone]()
    rows = list(
        merge_bucket(
            _elements(before, ordered),
            tally,
            buried.append,
            now=now,
            register=register,
            horizon=horizon,
            expire_before=expire_before,
            absences=absences,
            floor=floor,
            truncates=truncates,
            known_floor=known_floor,
            as_of=as_of,
        )
    )
    counts = tally.counts
    names = (name for name in (*FEED_OUTCOMES, *RARE_OUTCOMES) if name not in ("superseded", "combined"))
    outcome = next((name for name in names if counts[f"feed {name}"]), None)
    removed = (*(name for name in MASTER_OUTCOMES if name != "duplicate"), "truncated")
    master = next((name for name in removed if counts[f"master {name}"]), None)
    winner = ordered[-1] if ordered else None
    after = _after(before, winner, rows, buried, shown or bytes)
    remarks = (*NOTES, WAITED, "out of order", "partly cleared", MOVED_ONTO, SEALED)
    notes = tuple(name for name in remarks if counts[name])
    possible: tuple[str, ...] = ()
    met_floor = floor if truncates or before.kind != "record" or ordered else None
    folded, old = _met_by(register, before, ordered, absences, known_floor)
    left = _left(folded)
    if folded is not None and as_of is not None:
        folded = raised(folded, as_of)
    line: str | None = register.line(folded, old, met_floor)
    if outcome == "updated" and winner is not None and winner.form != before.form:
        outcome, possible, line, notes = None, ("updated", "no-op"), None, ()
    outcomes = [
        _combined(one, ordered[-1], outcome) if one.place in left else _superseded(one, ordered[-1])
        for one in ordered[:-1]
    ]
    if winner is not None:
        outcomes.append(Outcome(winner, outcome, possible))
    return Decided(tuple(outcomes), line, master, before, after, notes)


def decide_overwritten(
    before: Held | None, mutations: Sequence[KeyMutation], register: Register, absences: Mapping[int, Any]
) -> Decided:
    """Decide about a key as an insert overwrite did, by the register of replaced partitions.

    Whether a partition was replaced follows from all of its mutations. Of a key without one, and of a record in another
    partition than the winner's, only the dataset of the run shows the state. Arguments as for ``decide_key``.
    """
    ordered = sorted(mutations, key=lambda one: one.place)
    if not ordered:
        return Decided((), None, None, before, None)
    winner = ordered[-1]
    lost = [_superseded(one, winner) for one in ordered[:-1]]
    if before is None or (before.kind != "nothing" and before.partition != winner.partition):
        possible = _possible_outcomes(winner, register, register.replacing)
        return Decided((*lost, Outcome(winner, None, possible)), None, None, before, None)
    met = _met_by(register.replacing, before, ordered, absences)
    decision, line = register.replacing.meet_key(*met).decision, register.replacing.line(*met)
    outcomes = (*lost, Outcome(winner, decision.winner))
    return Decided(outcomes, line, decision.master, before, _after_overwrite(decision.result, before, winner))


def absent(decided: Decided, register: Register) -> Decided:
    """Return what was decided about a key; one without mutations whose record is gone was deleted by absence."""
    before, after = decided.before, decided.after
    if decided.outcomes or before is None or after is None or (before.kind, after.kind) != ("record", "tombstone"):
        return decided
    return replace(decided, line=register.replacing.line(None, rules.Old(rules.RECORD)), master="deleted by absence")


def _after_overwrite(result: str, before: Held, winner: KeyMutation) -> Held:
    """Return what the master has after a result of the table."""
    if result in ("write", "rewrite"):
        shown = winner.row if winner.form else winner.content
        return Held("record", winner.order, shown, winner.content, winner.form, partition=winner.partition)
    if result in ("touch", "touch tombstone"):
        return replace(before, order=winner.order, duplicates=0)
    if result in ("keep", "keep tombstone"):
        return before
    order = before.order if result == "bury record" else winner.order
    return Held("tombstone", order, partition=before.partition)


def refined(decided: Decided, after: Held, register: Register) -> Decided:
    """Return what was decided, with what the master is known to have had afterwards: fewer outcomes are possible."""
    *others, last = decided.outcomes or (None,)
    if last is None or last.outcome is not None or "superseded" in last.possible:
        return decided if decided.after is not None else replace(decided, after=after)
    results = _results(after, last.mutation, register)
    found = {
        decision.winner
        for decision in register.decisions(kind_of(last.mutation))
        if decision.result in results and decision.winner in last.possible
    }
    possible = tuple(name for name in last.possible if name in found) or last.possible
    only = possible[0] if len(possible) == 1 else None
    outcome = replace(last, outcome=only, possible=() if only else possible)
    return replace(decided, outcomes=(*(one for one in others if one is not None), outcome), after=after)


def _results(after: Held, winner: KeyMutation, register: Register) -> tuple[str, ...]:
    """Return the results of lines of the truth table that leave a record or tombstone behind."""
    is_winner = after.order == winner.order
    if after.kind == "record":
        changing = ("write", "touch", "rewrite")
        if not is_winner and not register.one_decides:  # an older mutation may set a field of the record
            return (*changing, "keep")
        return changing if is_winner else ("keep",)
    if after.waits:
        return ("bury", "wait", "keep tombstone")
    if after.kind == "tombstone":
        return ("bury", "touch tombstone") if is_winner else ("keep tombstone",)
    return ("bury", "touch tombstone", "keep tombstone")  # a tombstone, which has expired


def _combined(one: KeyMutation, winner: KeyMutation, outcome: str | None) -> Outcome:
    """Return the outcome of a mutation that sets fields which no later one of the run sets. outcome: the last one's."""
    return Outcome(one, outcome) if outcome == "rejected" else Outcome(one, "combined", (), winner)


def _superseded(one: KeyMutation, winner: KeyMutation) -> Outcome:
    """Return the outcome of a mutation that lost against the winner."""
    return Outcome(one, "superseded", (), winner, decisive_part(winner.place, one.place))


def _elements(before: Held, ordered: Sequence[KeyMutation]) -> list[Element]:
    """Return the elements that the merge of a bucket takes, in its order."""
    found: list[Element] = []
    if before.kind == "tombstone":
        beside = (before.content, *before.sides) if before.content else ()
        found.append(((0, _KEY, TOMBSTONE, ()), (before.order, before.committed or 0, *beside)))
    if before.kind == "record":
        place = precedence(before.order, 0, 0, 0, before.content)
        found += [((0, _KEY, MASTER, place), (False, before.content, *before.sides))] * (1 + before.duplicates)
    return found + [
        ((0, _KEY, FEED, one.place), (one.is_delete, one.content, one.unset, one.arrives)) for one in ordered
    ]


def _after(
    before: Held,
    winner: KeyMutation | None,
    rows: Sequence[Any],
    buried: Sequence[Tombstone],
    shown: Callable[[bytes], bytes],
) -> Held:
    """Return what the master has after a merge. rows, buried: its records and its tombstones."""
    if buried:
        _, order, committed, waiting = buried[0]
        row, *sides = waiting or (b"",)
        return Held("tombstone", order, shown(row) if row else b"", row, committed=committed, sides=tuple(sides))
    if not rows:
        return NOTHING
    _, (content, order, *sides) = rows[0]
    if before.kind == "record" and content == before.content:
        return replace(before, order=order, sides=tuple(sides), duplicates=0)
    if winner is None:  # a truncate cleared some fields
        return replace(before, order=order, row=shown(content), content=content, sides=tuple(sides), duplicates=0)
    row = winner.row if winner.form and content == winner.content else shown(content)
    return Held("record", order, row, content, winner.form, tuple(sides), winner.partition)


def order_met(before: Held, full: bool, absences: Mapping[int, Any]) -> Any:
    """Return the order value that a winner is compared with."""
    if before.kind != "tombstone" or before.committed is None or full:
        return before.order
    return met_order(before.order, before.committed, absences)


def _met_by(
    register: Register,
    before: Held,
    mutations: Sequence[KeyMutation],
    absences: Mapping[int, Any],
    known_floor: Any = None,
) -> tuple[rules.Folded | None, rules.Old]:
    """Return a key's mutations and what the master held, as a register meets them. mutations: by their precedence."""
    old = rules.Old(before.kind, order_met(before, register.full, absences), before.content, before.sides, known_floor)
    return _folded_by(register, mutations), old


def _folded_by(register: Register, mutations: Sequence[KeyMutation]) -> rules.Folded | None:
    """Return what a fold leaves of a key's mutations, by their precedence; None without any."""
    rows = [(one.place, (one.is_delete, one.content, one.unset)) for one in mutations]
    return register.fold_key(rows) if rows else None


def _left(folded: rules.Folded | None) -> set[tuple[Any, ...]]:
    """Return the precedence of the mutations that a fold left; empty if only the last one is."""
    return set() if folded is None else {one.place for one in folded.left}


def kind_of(mutation: KeyMutation) -> str:
    """Return the kind of a mutation, as registers name it."""
    return "delete" if mutation.is_delete else "upsert"


def _without_before(register: Register, ordered: Sequence[KeyMutation]) -> Decided:
    """Return what is known without what the master held."""
    if not ordered:
        return Decided((), None, None, None, None)
    winner = ordered[-1]
    left = _left(_folded_by(register, ordered))
    outcomes = [_combined(one, winner, None) if one.place in left else _superseded(one, winner) for one in ordered[:-1]]
    return Decided((*outcomes, Outcome(winner, None, _possible_outcomes(winner, register))), None, None, None, None)


def _unknown(register: Register, one: KeyMutation, highest: KeyMutation) -> Outcome:
    """Return the outcome of a mutation of a run whose other mutations are not all known."""
    if one is not highest:
        return _superseded(one, highest)
    return Outcome(one, None, (*_possible_outcomes(one, register), "superseded"))


def _possible_outcomes(winner: KeyMutation, *registers: Register) -> tuple[str, ...]:
    """Return the outcomes that a winner can have, by ``FEED_OUTCOMES``. registers: that may have decided."""
    found = {decision.winner for register in registers for decision in register.decisions(kind_of(winner))}
    return tuple(name for name in (*FEED_OUTCOMES, *RARE_OUTCOMES) if name in found)
