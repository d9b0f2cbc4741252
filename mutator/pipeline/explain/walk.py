"""The walk over the versions of a place, from the first one on: the mutations of a key in each, and what they decided.

Nothing is written and no lock is taken: a run may be at work meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from mutator.config import Config
from mutator.dataset.commits import COMPACT, OVERWRITES, REORDER, RUN, Commit
from mutator.dataset.state import State
from mutator.errors import MutatorError
from mutator.errors.display import counted
from mutator.errors.parts import PATH, plain, said
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import NO_ROWS, ChainStep, RunFeed, steps_of
from mutator.pipeline.explain.explained_feed import FeedRows, feed_rows, shown_content
from mutator.pipeline.explain.feed_reading import feed_reading
from mutator.pipeline.explain.field_origins import FieldOrigin, field_origins
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key_decisions import Held, KeyMutation
from mutator.pipeline.explain.key_rows import form_of, is_inside
from mutator.pipeline.explain.place import ExplainedPlace
from mutator.plan.inspect.snapshot_time import as_of
from mutator.plan.registers import register_of
from mutator.rules.epochs import UNNAMED
from mutator.rules.file_names import first_few
from mutator.rules.ignored_fields import inner_of
from mutator.rules.order_tuples import shown_text
from mutator.rules.order_values import order_value
from mutator.rules.patches import Patches
from mutator.rules.snapshot_times import TimeField

_MEMORY = "a table in memory"
_ABSENT = "master deleted by absence"


def explain(place: ExplainedPlace) -> Explanation:
    """Explain the key of a place."""
    return _Walk(place).explanation()


class _Walk:
    """The versions of a place, and its key."""

    def __init__(self, place: ExplainedPlace) -> None:
        self._place, self._key = place, place.key
        self._unknown: list[str] = []
        self._read_as_now: list[RunFeed] = []  # whose feed files are read with the settings of this call
        self._files_read = self._excluded = 0

    def explanation(self) -> Explanation:
        """Return the explanation."""
        place, key = self._place, self._key
        now, self._why_now = place.now()
        self._note(f"what the {'table' if place.kind == 'table' else 'master'} holds now", self._why_now)
        commits = place.commits()
        given, why_given = place.given(commits)
        found = map(self._run, commits, (None, *commits))
        runs = [run for run in found if run is not None]
        steps = steps_of(
            given,
            runs,
            by_partition=key.by_partition,
            is_partitioned=key.survey.partitioned is not None,
            absences=key.absences,
        )
        again = place.skipped(steps)
        if again:
            steps = [replace(one, feed=replace(one.feed, again=tuple(again.get(one.feed.run, ())))) for one in steps]
        unknown = [
            *self._unknown,
            *([] if why_given is None else [why_given]),
            *place.notes(),
            *_settings_note(self._read_as_now),
            *_versions_note(steps),
            *_horizon_note(key.known, key.order_type),
        ]
        values = [value.decode("utf-8", "backslashreplace") for value in key.wanted.values]
        return Explanation(
            place=place.path,
            kind=place.kind,
            key=dict(zip(key.names, values, strict=True)),
            version=place.latest,
            now=now,
            given=given,
            steps=[step for step in steps if step.touches],
            order_type=key.order_type,
            unknown=[*map(self._said, unknown)],
            fields=self._fields(now, given, steps),
            files_read=self._files_read,
            files_excluded=self._excluded,
            shows_rows=place.config.wording.report_fields.all,
            absences=key.absences,
            floor=order_value(key.order_type, commits[-1].floor) if commits else None,
        )

    def _fields(
        self, now: ByPartition | None, given: ByPartition | None, steps: Sequence[ChainStep]
    ) -> Mapping[str | None, Sequence[FieldOrigin]]:
        """Return what gave each field its value; empty for a place whose records get no patches."""
        register = inner_of(register_of(self._place.config, self._key.rows, full=False))
        if not isinstance(register, Patches):
            return {}
        return field_origins(now, given, steps, register.fields.names, self._key.order_type, register.merging)

    def _note(self, what: str, why: str | None) -> None:
        if why is not None:
            self._unknown.append(f"{what}: {why}")

    def _run(self, version: Commit, before: Commit | None) -> RunFeed | None:
        """Return a version with its mutations of the key; None if it has nothing to do with the key.

        before: the version before, whose horizon a run meets, and whose floor it may raise.
        """
        place, order_type = self._place, self._key.order_type
        horizon, known = (None, place.first_floor) if before is None else (place.horizon(before), before.floor)
        if not place.concerns(version):
            self._excluded += len(version.feed)
            return None
        held, why = place.held(version)
        if why != self._why_now:
            self._note(f"what version {version.number:,} holds", why)
        own = place.written(version)
        run = RunFeed(
            number=version.number or None,  # that of a manifest is 0
            run=version.run if version.claim is None else version.claim.run,
            committed=version.committed,
            register=register_of(place.config, self._key.rows, full=False),
            horizon=order_value(order_type, horizon),
            floor=order_value(order_type, version.floor),
            truncates=version.floor != known,
            known_floor=order_value(order_type, known),
            held=held,
            restored=None if version.restored is None else version.restored.version,
            action=version.action,
            moved=version.action == COMPACT and bool(own),
            shown=partial(shown_content, self._key.rows),
        )
        has_no_feed = run.restored is not None or version.action in (COMPACT, REORDER)
        return run if has_no_feed else self._with_feed(run, version, own)

    def _with_feed(self, run: RunFeed, version: Commit, own: Sequence[KeyMutation]) -> RunFeed:
        """Return a version with the rows of the key: those of its feed files, and those of its own files."""
        place, counts = self._place, version.counts
        paths, gone = list[str](), dict[str, str]()
        for part in version.feed:
            if place.excludes(version, part):
                self._excluded += 1
                continue
            path, why = place.find(version, part)
            if path is None:
                gone[part.name] = self._said(str(why))
            else:
                paths.append(path)
        if not version.feed and counts.get("feed rows"):
            gone[_MEMORY] = "it was not a file"
        config = place.config_of(version, paths)
        if config is None:
            config = place.config
            self._read_as_now += [run] if paths else []
        rows, at = self._rows(paths, config) if paths else (NO_ROWS, None)
        is_of_part = config.operation.full and bool(config.rows.ops.scope)
        self._files_read += len(paths)
        found = {(one.order, one.is_delete) for one in rows.mutations}
        if gone or rows.unread:
            also = [one for one in _of_feed(version, own) if (one.order, one.is_delete) not in found]
            rows = replace(rows, mutations=(*rows.mutations, *also))
        more = ("feed superseded", "feed combined", "feed rejected")
        may_have_more = not own or any(counts.get(name) for name in more)
        overwrites, is_full = version.action in OVERWRITES, bool(counts.get(_ABSENT))
        if version.action == RUN:  # a log that does not say what a run did
            overwrites, is_full = config.operation.overwrites, config.operation.full
        is_full = is_full and not overwrites and config.rows.ops.as_of is None
        if at is None and rows.mutations and config.rows.ops.as_of is not None:
            at = self._as_of(config, run, rows.mutations[0])
        now, retention = _moment(version), config.retention.tombstones
        return replace(
            run,
            rows=self._with_paths(rows),
            gone=gone if may_have_more else {},
            now=now,
            register=register_of(config, self._key.rows, full=is_full and not overwrites, now=now),
            as_of=at,
            inside=partial(self._inside, config, paths) if is_of_part else None,
            overwrites=overwrites,
            expire_before=None if retention is None else now - int(retention * 1000),
            is_winner_known=bool(own) and not counts.get("feed combined"),
        )

    def _with_paths(self, rows: FeedRows) -> FeedRows:
        """Return rows with the paths of their files as the user gives them."""
        shown = self._place.shown
        return FeedRows(
            tuple(replace(one, file=shown(one.file)) for one in rows.mutations),
            tuple(replace(one, file=shown(one.file)) for one in rows.rejected),
            tuple((shown(path), self._said(why)) for path, why in rows.unread),
        )

    def _said(self, text: str) -> str:
        """Return the text of a message for the user, with paths as they are given."""
        return plain(said(text, {**self._place.config.wording.audience.writers, PATH: self._place.shown}))

    def _inside(self, config: Config, paths: Sequence[str], held: Held) -> bool | None:
        """Return whether a record is in the part of a snapshot; None if that is not known. paths: of the snapshot."""
        try:
            plan = feed_reading(config, self._key.survey, paths)
        except MutatorError:
            return None
        return is_inside(plan, held.content) if held.form in ("", form_of(plan)) else None

    def _rows(self, paths: Sequence[str], config: Config) -> tuple[FeedRows, Any]:
        """Return the rows of the key in feed files, and the time of the snapshot that they are. config: how to read."""
        try:
            reading = feed_reading(config, self._key.survey, paths)
            return feed_rows(reading, self._key.wanted), reading.as_of
        except MutatorError as fault:
            why = fault.message
            if fault.kind == "manifest.spec" and fault.fields.get("name") == "order":
                why = f"the rows had another order: {fault.fields['now']}"
            return FeedRows((), (), tuple((path, why) for path in paths)), None

    def _as_of(self, config: Config, run: RunFeed, mutation: KeyMutation) -> Any:
        """Return the time of a snapshot whose files are gone; None if only they said it, and a later one had come."""
        ops = config.rows.ops
        if isinstance(ops.as_of, TimeField):
            return run.floor if run.truncates else None
        epoch = (config.rows.order.epoch or {}).get(UNNAMED, 0)
        return as_of(ops, self._key.order_type, mutation.place[1], epoch)


def _moment(version: Commit) -> int:
    """Return the commit time of the tombstones of a version, in ms; they are written before it is committed."""
    if version.absences:
        return version.absences[-1][0]
    committed = version.feed[0].committed if version.feed else version.committed
    return int(datetime.fromisoformat(committed).timestamp() * 1000)


def _of_feed(version: Commit, own: Sequence[KeyMutation]) -> Sequence[KeyMutation]:
    """Return the rows of a version that came from its feed, without tombstones of records that its feed lacked."""
    return [one for one in own if not one.is_delete] if version.counts.get(_ABSENT) else own


def _versions_note(steps: Sequence[ChainStep]) -> list[str]:
    """Return a line for each row of versions some of whose feed files are gone for one reason."""
    found: list[tuple[ChainStep, ChainStep, int, str]] = []  # first and last version, files, reason
    before = None
    for step in steps:
        reasons = Counter((*step.feed.gone.values(), *(why for _, why in step.feed.rows.unread)))
        for why, count in reasons.items():
            if found and found[-1][3] == why and found[-1][1] in (step, before):
                found[-1] = found[-1][0], step, found[-1][2] + count, why
            else:
                found.append((step, step, count, why))
        before = step
    return [_line(*one) for one in found]


def _line(first: ChainStep, last: ChainStep, files: int, why: str) -> str:
    what = _named(first.feed) if first is last else f"{_named(first.feed)} to {_named(last.feed)}"
    return f"mutations in {counted(files, 'feed file')} of {what}: {why}"


def _named(run: RunFeed) -> str:
    time = run.committed[:19]
    return f"the run of {time}" if run.number is None else f"version {run.number} ({time})"


def _horizon_note(known: State | None, order_type: str) -> list[str]:
    """Return a line if tombstones of a dataset have expired: a key without a record may have been deleted."""
    if known is None or known.commit.horizon is None:
        return []
    highest = shown_text(order_type, known.commit.horizon) or "the lowest"
    return [f"deletes with order values up to {highest}: their tombstones may have expired (tombstone.retention)"]


def _settings_note(runs: Sequence[RunFeed]) -> list[str]:
    """Return a line if the settings of runs whose feed files were read are not known."""
    if not runs:
        return []
    one, many = ("the run", "the runs") if runs[0].number is None else ("version", "versions")
    names = [run.committed[:19] if run.number is None else f"{run.number:,}" for run in runs]
    which = f"{one if len(runs) == 1 else many} {'of ' * (runs[0].number is None)}{first_few(names)}"
    return [f"by which settings the feed files of {which} were read: the present ones are used"]
