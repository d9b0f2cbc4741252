"""A key through a chain of runs: what each run found, decided and left behind."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from mutator.dataset.commits import COMPACT, REORDER, Commit
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.explain.carried_rows import with_carried
from mutator.pipeline.explain.explained_feed import FeedRows
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key_decisions import (
    NOTHING,
    Decided,
    Held,
    KeyMutation,
    absent,
    decide_key,
    decide_overwritten,
    refined,
)
from mutator.rules.file_names import first_few
from mutator.rules.last_wins import LAST_WINS
from mutator.rules.register import Register

_CREATION = "create"
NO_ROWS = FeedRows((), ())


@dataclass(frozen=True)
class RunFeed:
    """The part of a run's feed that can still be read, as far as it concerns a key."""

    number: int | None  # version; None: of a master without versions
    run: str
    committed: str
    register: Register
    rows: FeedRows = NO_ROWS
    gone: Mapping[str, str] = field(default_factory=dict)  # name of a feed file that may have the key -> why not read
    now: int = 0  # commit time in ms
    # Of a snapshot of a part: returns whether it decided about a record; None if that is not known.
    inside: Callable[[Held], bool | None] | None = None
    overwrites: bool = False  # the feed replaced partitions, or everything
    expire_before: int | None = None
    horizon: Any = None  # highest order value that had expired before the run
    floor: Any = None  # highest order value of a truncate, after the run
    truncates: bool = False  # the run raised it
    known_floor: Any = None  # before the run
    as_of: Any = None  # order value that a full snapshot is as of
    held: ByPartition | None = None  # the state of the key in the dataset of the run; None: it is not there any more
    restored: int | None = None  # version that was restored, in place of a merge
    action: str = "run"  # or what else a version of a table does; ``restored`` says of which version a restore is
    shown: Callable[[bytes], bytes] | None = None  # returns written content for people
    moved: bool = False  # a compaction wrote a row of the key again
    is_winner_known: bool = False  # a table has the row that won, whatever else was in files that are gone
    again: tuple[str, ...] = ()  # paths of files with mutations of the key that were delivered again, and skipped


@dataclass(frozen=True)
class ChainStep:
    """The decisions of a run about a key. decided: by the directory of the partition; None: the key has one record."""

    feed: RunFeed
    decided: Mapping[str | None, Decided]
    after: ByPartition | None  # None: not known
    is_other: bool = False  # a restore that brought another record back
    differs: bool = False  # the dataset of the run holds something else than its feed files give

    @property
    def decided_any(self) -> bool:
        """Return whether the run had a row of the key."""
        feed = self.feed.rows
        return bool(feed.mutations or feed.rejected)

    @property
    def touches(self) -> bool:
        """Return whether the run has anything to do with the key."""
        feed = self.feed
        changed = any(None not in (one.before, one.after) and one.before != one.after for one in self.decided.values())
        return bool(changed or self.is_other or self.differs or self.decided_any or feed.again or feed.moved)


def in_present_order(versions: Sequence[Commit], begins: Collection[int]) -> tuple[list[Commit], list[str]]:
    """Return the versions whose rows have the order of the newest one, and a note on the others.

    begins: the versions that changed the order; a restore brings that of its version back.
    """
    found: list[Commit] = []
    by_number = {0: found}
    for one in versions:
        if one.restored is not None:
            found = by_number.get(one.restored.version, [] if one.number in begins else found)
        elif one.number in begins:
            found = []
        found.append(one)
        by_number[one.number] = found
    others = [f"{one.number:,}" for one in versions if by_number[one.number] is not found]
    if not others:
        return found, []
    which = f"before {found[0].number:,}" if versions[len(others)] is found[0] else first_few(others)
    return found, [f"versions {which}: the rows had another order"]


def steps_of(
    given: ByPartition | None,
    runs: Sequence[RunFeed],
    *,
    by_partition: bool,
    is_partitioned: bool,
    absences: Mapping[int, Any],
) -> list[ChainStep]:
    """Return a step for each run, oldest first.

    given: the master's state of the key before the first run; None: not known. by_partition: a key has a record in each
    partition. absences: the highest order value of each full snapshot, by its commit time in ms.
    """
    steps: list[ChainStep] = []
    states: dict[int | None, ByPartition | None] = {0: given}
    state = given
    for number, run in enumerate(runs):
        later = next((one.held for one in runs[number:] if one.held is not None), None)
        mutations = with_carried(run.rows.mutations, later, run.register)
        run = replace(run, rows=replace(run.rows, mutations=tuple(mutations)))
        decided: dict[str | None, Decided] = {}
        if run.restored is not None:
            computed = states[max(number for number in states if number is not None and number <= run.restored)]
        elif run.action in (COMPACT, REORDER):
            computed = state if run.held is None else None  # it may let tombstones expire
        elif run.action == _CREATION and not run.rows.mutations:
            computed = run.held  # the rows of a dataset that another program wrote
        else:
            decided = _decided(state, run, by_partition, is_partitioned, absences)
            computed = _after(state, decided)
        differs = computed is not None and run.held is not None and not _alike(computed, run.held, run.floor)
        if run.held is not None:
            known = {name: (one, run.held.get(name, NOTHING)) for name, one in decided.items()}
            decided = {name: refined(*found, run.register) for name, found in known.items()}
            if run.overwrites:
                decided = {name: absent(decided[name], run.register) for name in decided}
        before, state = state, computed if run.held is None else run.held
        is_given = run.restored is not None or run.action in (COMPACT, REORDER, _CREATION)
        is_other = is_given and not decided and _differ(before, state)
        steps.append(ChainStep(run, decided, state, is_other, differs))
        states[run.number] = state
    return steps


def _decided(
    state: ByPartition | None, run: RunFeed, by_partition: bool, is_partitioned: bool, absences: Mapping[int, Any]
) -> dict[str | None, Decided]:
    groups: dict[str | None, list[KeyMutation]] = {}
    for one in run.rows.mutations:
        groups.setdefault(one.partition if by_partition else None, []).append(one)
    for name in state or {None: NOTHING}:
        groups.setdefault(name, [])
    if by_partition and len(groups) > 1:
        groups = {name: found for name, found in groups.items() if name is not None or found}
    is_complete = run.is_winner_known or not (run.gone or run.rows.unread)
    made = {}
    for name, mutations in groups.items():
        before = None if state is None else state.get(name, NOTHING)
        inside: bool | None = True
        if run.inside is not None and before is not None and before.kind == "record" and not mutations:
            inside = run.inside(before)
        if inside is None:
            decided = Decided((), None, None, before, None)
        elif run.overwrites and is_complete:
            decided = decide_overwritten(before, mutations, run.register, absences)
        else:
            decided = decide_key(
                before,
                mutations,
                run.register if inside else LAST_WINS,
                now=run.now,
                expire_before=run.expire_before,
                horizon=run.horizon,
                is_complete=is_complete,
                absences=absences,
                floor=run.floor,
                truncates=run.truncates,
                known_floor=run.known_floor,
                as_of=run.as_of,
                shown=run.shown,
            )
        everywhere = run.register.full or run.truncates
        if is_partitioned and not mutations and before != decided.after and not everywhere:
            decided = replace(decided, after=None)  # tombstones of a partition without mutations do not expire
        made[name] = decided
    return made


def _after(state: ByPartition | None, decided: Mapping[str | None, Decided]) -> ByPartition | None:
    found: dict[str | None, Held] = {}
    for name, one in decided.items():
        if one.after is None:
            return None
        found[name] = one.after
    return {**(state or {}), **found}


def _covered(held: Held, floor: Any) -> Held:
    return NOTHING if held.kind == "tombstone" and floor is not None and held.order <= floor else held


def _differ(one: ByPartition | None, other: ByPartition | None) -> bool:
    return one is not None and other is not None and not _alike(one, other)


def _alike(one: ByPartition, other: ByPartition, floor: Any = None) -> bool:
    """Return whether two states of a key are equal; contents of different forms cannot be compared.

    floor: stands for the tombstones that are not above it.
    """
    for name in {*one, *other}:
        mine, yours = (_covered(held.get(name, NOTHING), floor) for held in (one, other))
        if mine.kind != yours.kind or mine.order != yours.order:
            return False
        if mine.kind == "record" and mine.form == yours.form and mine.content != yours.content:
            return False
        if mine.waits != yours.waits:
            return False
    return True
