"""The answer to "why is this record what it is?", as text for a terminal and as JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.pipeline.explain.chain import ChainStep
from mutator.pipeline.explain.explained_feed import RejectedRow
from mutator.pipeline.explain.field_origins import FieldOrigin, waiting_fields, waiting_since
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key_decisions import Decided, Held, KeyMutation, Outcome, order_met
from mutator.pipeline.reports.printed import WarningReport
from mutator.pipeline.reports.sections import ReportSection, said
from mutator.rules.order_tuples import shown_order
from mutator.rules.order_values import lowest_order

_MOST = 300  # characters of a row in the text
_LEFT_OUT = "(left out)"


@dataclass(frozen=True)
class ValidVersion:
    """The version that held at a time, of a table with history."""

    at: str  # as the user gives it
    partition: str | None = None  # of the record, where keys are unique only within one
    since: str | None = None
    until: str | None = None  # None: it is open
    ended: str = ""  # without a record: how its last version had ended; "": it had none
    row: bytes | None = None  # None: there was no record
    began: Any = None  # order value of the mutation with which it began
    decisive: Any = None  # of the last mutation of it up to the time; without a record, of the one that ended the last
    end: Any = None  # of the mutation that ended it; None: it is open


@dataclass(frozen=True)
class Explanation(WarningReport):
    """What is known of a key: what the place holds now, the runs that touched the key, and what is not known.

    ``print`` shows what ``mutator explain`` prints.
    """

    place: str
    kind: str  # base | master | table
    key: Mapping[str, str]
    version: int | None  # the latest
    now: ByPartition | None  # None: it cannot be read
    given: ByPartition | None  # the master's state of the key before the first run; None: not known
    steps: Sequence[ChainStep]  # of the runs that have to do with the key, oldest first
    order_type: str
    unknown: Sequence[str] = ()  # what cannot be said any more, and why
    files_read: int = 0
    files_excluded: int = 0  # feed files that were not read, because filters or key indexes exclude the key
    shows_rows: bool = True
    warnings: Sequence[str] = ()  # of the settings
    absences: Mapping[int, Any] = field(default_factory=dict)  # time of a full snapshot -> its highest order value
    floor: Any = None  # all that is older was deleted
    # What gave each field of the record its value; empty for a place whose records get no patches
    fields: Mapping[str | None, Sequence[FieldOrigin]] = field(default_factory=dict)
    valid: Sequence[ValidVersion] = ()  # what held at the time that the user asks for

    @property
    def is_known(self) -> bool:
        """Return whether anything is known of the key."""
        held = [one for state in (self.now, self.given) for one in (state or {}).values() if one.kind != "nothing"]
        return bool(held) or any(step.decided_any for step in self.steps)

    def members(self) -> dict[str, Any]:
        """Return the members of the JSON."""
        return {
            "place": self.place,
            "kind": self.kind,
            "key": dict(self.key),
            "version": self.version,
            "now": None if self.now is None else [self._held(name, one) for name, one in self.now.items()],
            "fields": [self._field(name, one) for name, found in self.fields.items() for one in found],
            "valid": [self._valid(one) for one in self.valid],
            "floor": self._order(self.floor),
            "given": None if self.given is None else [self._held(name, one) for name, one in self.given.items()],
            "versions": [self._step(step) for step in self.steps],
            "unknown": list(self.unknown),
            "files": {"read": self.files_read, "excluded": self.files_excluded},
        }

    def _held(self, directory: str | None, one: Held | None) -> dict[str, Any] | None:
        if one is None:
            return None
        is_record = one.kind == "record"
        return {
            "kind": one.kind,
            "order": self._order(one.order),
            "raised": self._raised(one),
            "partition": one.partition if directory is None else directory,
            "waiting": _text(waiting_fields(one)) if one.waits and self.shows_rows else None,
            "row": _text(one.row) if is_record and self.shows_rows else None,
        }

    def _field(self, name: str | None, one: FieldOrigin) -> dict[str, Any]:
        place = None
        if one.mutation is not None:
            place = {"file": one.mutation.file, "offset": one.mutation.offset, "line": one.mutation.line}
        found = {"partition": name, "name": one.name, "order": self._order(one.order), "from": one.what}
        return {**found, "version": one.version, "mutation": place}

    def _valid(self, one: ValidVersion) -> dict[str, Any]:
        row = None if one.row is None or not self.shows_rows else _text(one.row)
        orders = {name: self._order(getattr(one, name)) for name in ("began", "decisive", "end")}
        times = {"valid_from": one.since, "valid_to": one.until, "ended": one.ended or None}
        found = {"at": one.at, "partition": one.partition, "row": row, "is_record": one.row is not None}
        return {**found, **times, **orders}

    def _valid_lines(self, one: ValidVersion) -> Iterator[str]:
        """Yield the version that held at a time, and the mutations that made it."""
        where = f", in {one.partition}" if one.partition else ""
        if one.row is None:
            what = one.ended or (
                "it had no mutation yet" if one.decisive is None else "it had no row with all fields yet"
            )
            yield f"at       {one.at}{where}: no record: {what}"
        else:
            until = "open" if one.until is None else f"until {one.until}, then {one.ended}"
            yield f"at       {one.at}{where}: valid from {one.since or 'the beginning'}, {until}"
            yield f"         {self._row(one.row)}"
        found = {"began with": one.began, "decided by" if one.row else "ended by": one.decisive}
        found |= {"ended by": one.end} if one.row else {}
        for what, order in found.items():
            if order is not None and not (what == "decided by" and order == one.began):
                yield f"  {what} order value {self._order(order) or 'lowest'}{self._mutations_of(order)}"

    def _mutations_of(self, order: Any) -> str:
        """Return the places of the mutations with an order value, as far as they are known."""
        found = dict[str, None]()
        for step in self.steps:
            outcomes = (outcome for one in step.decided.values() for outcome in one.outcomes)
            version = "" if step.feed.number is None else f"version {step.feed.number}, "
            for outcome in outcomes:
                is_event = outcome.outcome != "superseded" or outcome.part == "order value"
                if outcome.mutation.order == order and is_event:
                    found[f"{version}{self._path(outcome.mutation.file)}, {outcome.mutation.position}"] = None
        for step in self.steps:
            if step.feed.as_of == order and step.feed.number is not None:
                found.setdefault(f"version {step.feed.number}, a snapshot as of this value")
        return "".join(f"; {one}" for one in found)

    def _raised(self, one: Held) -> str | None:
        """Return the order value that rows of deltas meet, if a full snapshot made it higher than the tombstone's."""
        found = order_met(one, False, self.absences)
        return None if found == one.order else self._order(found)

    def _order(self, value: Any) -> str | None:
        return None if value is None else shown_order(self.order_type, value)

    def _step(self, step: ChainStep) -> dict[str, Any]:
        feed = step.feed
        return {
            "version": feed.number,
            "run": feed.run,
            "action": feed.action,
            "committed": feed.committed,
            "restored": feed.restored,
            "decided": [self._decided(name, one) for name, one in step.decided.items()],
            "after": None if step.after is None else [self._held(name, one) for name, one in step.after.items()],
            "differs": step.differs,
            "rejected": [
                {
                    "file": one.file,
                    "offset": one.offset,
                    "position": one.position,
                    "reason": one.reason if self.shows_rows else None,
                    "row": _text(one.row) if self.shows_rows else None,
                }
                for one in feed.rows.rejected
            ],
            "skipped": list(feed.again),
            "gone": [{"file": name, "why": why} for name, why in _gone(step)],
        }

    def _decided(self, name: str | None, one: Decided) -> dict[str, Any]:
        return {
            "partition": name,
            "before": self._held(name, one.before),
            "line": one.line,
            "master": one.master,
            "notes": list(one.notes),
            "mutations": [self._outcome(outcome) for outcome in one.outcomes],
        }

    def _outcome(self, one: Outcome) -> dict[str, Any]:
        mutation = one.mutation
        by = None if one.winner is None else {"file": one.winner.file, "offset": one.winner.offset}
        return {
            "file": mutation.file,
            "offset": mutation.offset,
            "line": mutation.line,
            "position": mutation.position,
            "order": self._order(mutation.order),
            "op": _op(mutation),
            "partition": mutation.partition,
            "carried": list(mutation.carried),
            "row": _text(mutation.row) if self.shows_rows else None,
            "outcome": one.outcome,
            "possible": list(one.possible),
            "superseded_by": by,
            "decided_by": one.part,
        }

    def sections(self) -> Iterable[ReportSection]:
        """Yield the states of the key now and at first, each run, and the gaps of the answer."""
        key = ", ".join(f"{name} {value}" for name, value in self.key.items())
        version = "" if self.version is None else f", version {self.version}"
        yield said(f"key      {key}", f"in       {self.place}{version}")
        if self.now is None:
            yield said("now      cannot be read, see below")
        for name, one in (self.now or {}).items():
            origins = self.fields.get(name, ())
            yield said(*self._held_lines(name, one, "now      ", origins), *self._field_lines(origins))
        for valid in self.valid:
            yield said(*self._valid_lines(valid))
        if self.floor is not None:
            yield said(f"floor    {self._order(self.floor)}: all that is older was deleted")
        for name, one in (self.given or {}).items():
            if one.kind != "nothing":
                yield said("", "before the first run, in the given master", *self._held_lines(name, one, "  "))
        for step in self.steps:
            yield said("", *self._step_lines(step))
        if not self.is_known:
            yield said("", "nothing is known of this key")
        if self.unknown:
            yield said("", "not known", *(f"  {one}" for one in self.unknown))
        why = "the key indexes of the table" if self.kind == "table" else "their filters"
        excluded = f", {self.files_excluded:,} excluded by {why}" if self.files_excluded else ""
        yield said("", f"{counted(self.files_read, 'feed file')} read{excluded}")

    def _held_lines(
        self, name: str | None, one: Held, indent: str, origins: Sequence[FieldOrigin] = ()
    ) -> Iterator[str]:
        where = one.partition if name is None else name
        since = waiting_since(origins) if one.waits else None
        waits = "" if since is None else f", since {since[:19]}"
        yield f"{indent}{self._described(one)}{waits}{f', in {where}' if where else ''}"
        if one.kind == "record" or one.waits:
            yield f"{' ' * len(indent)}{self._row(waiting_fields(one))}"

    def _field_lines(self, origins: Sequence[FieldOrigin]) -> Iterator[str]:
        """Yield a line for each mutation that gave fields their values, by their order values, the newest first."""
        found: dict[tuple[str, Any], list[FieldOrigin]] = {}
        for one in origins:  # of those that are not known, each has its own order value
            found.setdefault((self._origin(one), one.order), []).append(one)
        for (origin, _), own in found.items():
            names = ", ".join(f"field {one.name}" if one.name.isdigit() else one.name for one in own)
            order = "" if own[0].order is None else f"order value {self._order(own[0].order) or 'lowest'}, "
            yield f"  {names}: {order}{origin}"

    def _origin(self, one: FieldOrigin) -> str:
        if one.mutation is None:
            return one.what
        version = "" if one.version is None else f"version {one.version}, "
        cleared = "cleared by the delete of " if one.what == "delete" else ""
        return f"{cleared}{version}{self._path(one.mutation.file)}, {one.mutation.position}"

    def _described(self, one: Held) -> str:
        if one.kind == "nothing":
            return "no record and no tombstone"
        if one.waits:
            deleted = "" if one.order == lowest_order(self.order_type) else f" above {self._order(one.order)}"
            return f"no record: patches wait for a row with all fields{deleted}"
        kind = "a record" if one.kind == "record" else "deleted: a tombstone"
        raised = self._raised(one)
        for_deltas = "" if raised is None else f", but {raised} for deltas, of the full snapshot that lacked it"
        return f"{kind}, order value {self._order(one.order) or 'lowest'}{for_deltas}"

    def _row(self, row: bytes) -> str:
        if not self.shows_rows:
            return _LEFT_OUT
        text = _text(row)
        return text if len(text) <= _MOST else f"{text[:_MOST]}... ({len(row):,} bytes)"

    def _step_lines(self, step: ChainStep) -> Iterator[str]:
        feed = step.feed
        title = "run" if feed.number is None else f"version {feed.number}"
        what = "" if feed.restored is None else f", version {feed.restored} again"
        action = "" if self.kind != "table" else f", {feed.action.replace('_', ' ')}"
        yield f"{title}, {feed.committed[:19]}{action}{what}"
        for name, one in () if step.differs and not step.decided_any else step.decided.items():
            yield from self._decided_lines(name, one, feed.as_of)
        for row in feed.rows.rejected:
            yield from self._rejected_lines(row)
        yield from (f"  {self._path(path)}: delivered again, skipped" for path in feed.again)
        yield from (f"  {name}: not known: {why}" for name, why in _gone(step))
        if step.differs:
            yield "  the dataset of this version has something else than these mutations give"
        if feed.moved:
            yield "  wrote it again, as it was"
        if feed.restored is not None or step.differs or step.is_other:
            yield from (f"  then {self._described(held)}" for held in (step.after or {}).values())

    def _rejected_lines(self, one: RejectedRow) -> Iterator[str]:
        yield f"  {self._path(one.file)}, {one.position}"
        yield f"    {self._row(one.row)}"
        yield f"    rejected{f': {one.reason}' if self.shows_rows else ''}"

    def _decided_lines(self, name: str | None, one: Decided, as_of: Any) -> Iterator[str]:
        if name and one.outcomes:
            yield f"  in {name}"
        for outcome in reversed(one.outcomes):
            mutation = outcome.mutation
            moved = f", {mutation.partition}" if mutation.partition and name is None else ""
            yield f"  {self._path(mutation.file)}, {mutation.position}"
            if mutation.row:  # a tombstone has none
                yield f"    {self._row(mutation.row)}"
            at = "" if as_of is None or mutation.order >= as_of else f", in a snapshot as of {self._order(as_of)}"
            what = f"{_op(mutation)}, order value {self._order(mutation.order) or 'lowest'}{at}{moved}"
            what += f", with {', '.join(mutation.carried)} of the old key" if mutation.carried else ""
            yield f"    {what}: {self._why(outcome, one)}"
        is_truncated = one.master == "truncated"
        if one.before is None or one.after is None or one.before.kind == one.after.kind:
            return
        if one.outcomes and not is_truncated:  # they say what became of the record
            return
        if is_truncated or one.master == "deleted by absence":
            yield f"  {f'in {name}: ' if name else ''}{one.master}{f' ({one.line})' if one.line else ''}"
        elif one.before.kind == "tombstone" and one.after.kind == "nothing":
            yield "  its tombstone expired"

    def _why(self, outcome: Outcome, one: Decided) -> str:
        if outcome.winner is not None:
            winner = outcome.winner
            where = winner.position
            if winner.file != outcome.mutation.file:
                where = f"{self._path(winner.file)}, {where}"
            if outcome.outcome == "combined":
                return f"combined with {where}"
            return f"superseded by {where}: decided by the {outcome.part or 'position'}"
        if outcome.outcome is None:
            return f"{' or '.join(outcome.possible)} (not known, see below)"
        notes = "".join(f", {note}" for note in one.notes if outcome is one.outcomes[-1])
        return f"{outcome.outcome}{f' ({one.line})' if one.line else ''}{notes}"

    def _path(self, path: str) -> str:
        """Return a path as it is shown: relative to the place, if it is below it."""
        return path.removeprefix(f"{self.place}/")


def _op(mutation: KeyMutation) -> str:
    return "delete" if mutation.is_delete else "upsert" if mutation.unset is None else "patch"


def _gone(step: ChainStep) -> list[tuple[str, str]]:
    return [*step.feed.gone.items(), *step.feed.rows.unread]


def _text(row: bytes) -> str:
    return row.decode("utf-8", "backslashreplace")
