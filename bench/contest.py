"""Rounds over all contenders, in turn, on the same bytes."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.columns import convert
from bench.contenders.catalogue import Entry
from bench.data import write_feed, write_master
from bench.dialects import write_change_files, write_master_of_changes
from bench.digest import Digest, data_files, digest
from bench.figures import Result, Run
from bench.histories import EVENTS, write_events_of_versions, write_feeds_of_versions
from bench.layout import FEED_FIELDS, MASTER_FIELDS, PARTITIONED_FEED_FIELDS, PARTITIONED_MASTER_FIELDS
from bench.machine import available_memory
from bench.participant import Out, Participant
from bench.partitioned import write_partitioned_feed, write_partitioned_master
from bench.patches import PATCHES, UPSERTS, write_master_of_patches, write_patches
from bench.tables import write_feeds, write_masters
from bench.workload import Workload

__all__ = ["compete"]

WARM_ROWS = 200_000
WARM_UPS = 2
# A heap of 4 GiB, and the memory outside it. If less is available, waiting contenders are stopped.
ROOM = 6 << 30


def compete(
    entries: Sequence[Entry],
    workloads: Sequence[Workload],
    scratch: Path,
    *,
    repeat: int,
    limit: float,
    seed: int,
    aside: Path | None = None,
) -> Iterator[list[Result]]:
    """Let the contenders merge each workload, round by round; yield the results, whose contents must all be equal.

    workloads: have the same master. Each contender has its own process. Before its first run it merges a small
    workload, unless its entry says otherwise. Only one contender runs at a time. aside: directory for the
    master and for Spark's files; None: with all other files.
    """
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        participants = [Participant(entry, scratch / "contenders", aside) for entry in entries]
        for participant in participants:
            stack.callback(participant.forget)
        for workload in workloads:
            _log(f"{workload.name} rows, {repeat} rounds")
            results = {entry.name: Result(entry.name) for entry in entries}
            for name, why in skipped.items():
                results[name].out, results[name].why = "skipped", why
            master, feed = _data(aside or scratch, workload, seed)
            warm = _data(scratch, workload.small(WARM_ROWS), seed + 1)
            for number in range(repeat):
                # The first contender changes from round to round.
                turn = number % len(participants)
                for participant in participants[turn:] + participants[:turn]:
                    result = results[participant.entry.name]
                    if result.out is not None:
                        continue
                    try:
                        if not participant.alive:
                            _make_room(participants, participant)
                            _warm_up(participant, warm, scratch)
                            state = participant.directory / f"state-{workload.rows}"
                            participant.ask("prepare", master=master, state=state)
                        _make_room(participants, participant)
                        result.versions = participant.versions
                        by_directory = bool(workload.parts)
                        result.runs.append(_run(participant, feed, scratch, limit, result, by_directory=by_directory))
                        _log(f"  {participant.entry.name:<20} {result.runs[-1].seconds:8.2f} s   {result.how}")
                    except Out as out:
                        result.out, result.why = out.status, str(out)
                        _log(f"  {participant.entry.name:<20} {out.status}: {out}")
            skipped = {name: result.why for name, result in results.items() if result.out == "skipped"}
            yield list(results.values())


def _run(
    participant: Participant, feed: Path, scratch: Path, limit: float, result: Result, *, by_directory: bool
) -> Run:
    output, text = scratch / "output", scratch / "text"
    try:
        answer = participant.run(feed, output, limit)
        result.how, result.more = answer["how"], answer["more"]
        made = participant.ask("export", output=output, to=text)["directory"]
        if made is not None:
            found = _content(Path(made), by_directory)
            if result.digest not in (None, found):
                raise Out("failed", f"its result changed from run to run: {result.digest}, then {found}")
            result.digest = found
    finally:
        shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(text, ignore_errors=True)
    return Run(answer["seconds"], answer["shuffled"], answer["memory"], answer["worker"], answer["steps"])


def _content(directory: Path, by_directory: bool) -> Digest:
    try:
        return digest(data_files(directory), directory if by_directory else None)
    except (ValueError, LookupError, OSError) as fault:
        raise Out("failed", f"its result cannot be read: {fault}") from None


def _warm_up(participant: Participant, warm: tuple[Path, Path], scratch: Path) -> None:
    participant.start()
    if not participant.entry.warm:
        return
    master, feed = warm
    participant.ask("prepare", master=master, state=participant.directory / "state-warm")
    output = scratch / "output"
    for _ in range(WARM_UPS):
        try:
            participant.ask("run", feed=feed, output=output)
        finally:
            shutil.rmtree(output, ignore_errors=True)


def _make_room(participants: Sequence[Participant], keep: Participant) -> None:
    """Stop the contenders that have waited longest until memory suffices; they start again for their next turn."""
    waiting = sorted((part for part in participants if part.alive and part is not keep), key=lambda part: part.used)
    for participant in waiting:
        if available_memory() >= ROOM:
            return
        participant.stop()


def _data(scratch: Path, workload: Workload, seed: int) -> tuple[Path, Path]:
    """Return master and feed of a workload; write them if they do not exist. All formats come from the same text."""
    rows, mutations, parts = workload.rows, workload.mutations, workload.parts
    if workload.changes:
        return _change_files(scratch, workload.changes, rows, mutations, seed)
    if workload.family == "patches":
        return _patches(scratch, workload, seed)
    if workload.family == "history":
        return _histories(scratch, workload, seed)
    kind = "" if not parts else f"{parts}-partitions-" if workload.partitioned else f"{parts}-tables-"
    master = scratch / f"master-{kind}{rows}-{seed}"
    if not master.exists():
        if not parts:
            write_master(master, rows, seed)
        else:
            (write_partitioned_master if workload.partitioned else write_masters)(master, parts, rows, seed)
    touched = f"{workload.touched}-touched-" if workload.partitioned else ""
    feed = scratch / f"feed-{kind}{touched}{rows}-{mutations}-{seed}"
    if not feed.exists():
        if not mutations:
            feed.mkdir()
        elif not parts:
            write_feed(feed, rows, mutations, seed)
        elif workload.partitioned:
            write_partitioned_feed(feed, parts, rows, mutations, seed, workload.touched)
        else:
            write_feeds(feed, parts, rows, mutations, seed)
    if workload.stored == "text":
        return master, feed
    fields = (
        (PARTITIONED_MASTER_FIELDS, PARTITIONED_FEED_FIELDS) if workload.partitioned else (MASTER_FIELDS, FEED_FIELDS)
    )
    converted = master.with_name(f"{master.name}.{workload.stored}"), feed.with_name(f"{feed.name}.{workload.stored}")
    for text, to, names in zip((master, feed), converted, fields, strict=True):
        if not to.exists():
            convert(text, to, names, workload.stored)
    return converted


def _change_files(scratch: Path, kind: str, rows: int, mutations: int, seed: int) -> tuple[Path, Path]:
    master, feed = scratch / f"master-of-changes-{rows}-{seed}", scratch / f"{kind}-{rows}-{mutations}-{seed}"
    if not master.exists():
        write_master_of_changes(master, rows, seed)
    if not feed.exists():
        write_change_files(feed, kind, rows, mutations, seed)
    return master, feed


def _patches(scratch: Path, workload: Workload, seed: int) -> tuple[Path, Path]:
    """Return a feed of patches; beside upserts, a directory of both."""
    rows, mutations = workload.rows, workload.mutations
    master, feeds = scratch / f"master-of-patches-{rows}-{seed}", scratch / f"patches-{rows}-{mutations}-{seed}"
    if not master.exists():
        write_master_of_patches(master, rows, seed)
        for kind in (PATCHES, UPSERTS):
            write_patches(feeds / kind, kind, rows, mutations, seed)
    return master, feeds / PATCHES if workload.form == workload.family else feeds


def _histories(scratch: Path, workload: Workload, seed: int) -> tuple[Path, Path]:
    """Return the events of records with 5 versions and a feed of 5 %; beside none, the directories of all."""
    rows = workload.rows
    events, feeds = scratch / f"events-{rows}-{seed}", scratch / f"feeds-of-events-{rows}-{seed}"
    of_all = workload.form != workload.family
    for kind in EVENTS if of_all else ("5",):
        if not (events / kind).exists():
            write_events_of_versions(events / kind, kind, rows, seed)
    if not feeds.exists():
        write_feeds_of_versions(feeds, rows, seed)
    return (events, feeds) if of_all else (events / "5", feeds / "5%")


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
