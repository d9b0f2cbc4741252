"""Why a record of a master is what it is, by the feed files that its manifest lists, where they still are."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from mutator.config import Config
from mutator.dataset import checksum
from mutator.dataset.directory import read_manifest
from mutator.dataset.manifest import FeedFile, Manifest
from mutator.errors import MutatorError
from mutator.pipeline.explain.answer import Explanation
from mutator.pipeline.explain.chain import RunFeed, steps_of
from mutator.pipeline.explain.decisions import NOTHING
from mutator.pipeline.explain.feed_plan import feed_plan
from mutator.pipeline.explain.feed_rows import FeedRows, feed_rows
from mutator.pipeline.explain.held import ByPartition
from mutator.pipeline.explain.key import Key
from mutator.pipeline.explain.not_known import horizon_note, versions_note
from mutator.pipeline.explain.place import Place, held_or_why, place_of
from mutator.plan.inspect.feed_files import feed_entries
from mutator.storage import Entry, absolute, located

_NOT_FOUND = "not found: give the directory where it is with --feed"


def explain_master(
    path: str, key: Key, config: Config, feed: Sequence[str] = (), before: str | None = None
) -> Explanation:
    """Explain a key of a master.

    feed: paths where the feed files that were merged may still be. before: path of an earlier master, from which the
    runs are followed. Raises MutatorError for a master or a key that cannot be used.
    """
    entries, _ = feed_entries([absolute(one) for one in feed], config.control_suffix)
    found = list(entries.values())
    place = place_of(config, path, key, [entry.path for entry in found], path)
    unknown: list[str] = []
    samples = [entry.path for entry in found]
    now, why = held_or_why(config, place, place.survey.master_path, place.known, samples)
    if why is not None:
        unknown.append(f"what the master holds now: {why}")
    runs, given, files = list[RunFeed](), None, 0
    if place.known is None:
        unknown.append("how its records came: the master has no manifest, because mutator did not write it")
    else:
        earlier, given, why = _before(config, place, place.known, before)
        runs, files = _runs(config, place, place.known, found, earlier, now)
        if why is not None:
            unknown.append(why)
    steps = steps_of(given, runs, by_partition=place.by_partition, is_partitioned=place.survey.partitioned is not None)
    values = [value.decode("utf-8", "backslashreplace") for value in place.wanted.values]
    return Explanation(
        place=path,
        kind="master",
        key=dict(zip(place.names, values, strict=True)),
        version=None,
        now=now,
        given=given,
        steps=[step for step in steps if step.touches],
        order_type=place.order_type,
        unknown=[*unknown, *versions_note(steps), *horizon_note(place.known)],
        files_read=files,
        shows_rows=config.report_fields.all,
    )


def _before(
    config: Config, place: Place, known: Manifest, before: str | None
) -> tuple[Manifest | None, ByPartition | None, str | None]:
    """Return the manifest of the master before the runs, what it held, and why that is not known."""
    if before is not None:
        storage, path = located(before)
        earlier = read_manifest(storage, path)
        held, why = held_or_why(config, place, path, earlier, ())
        return earlier, held, why and f"what {before} held: {why}"
    runs = {part.committed for part in known.feed}
    is_first = known.parent is None and len(runs) <= 1
    if is_first and not known.counts.get("master rows", 1) and not known.counts.get("tombstones in", 0):
        return None, {None: NOTHING}, None
    since = f" of {min(runs)[:19]}" if runs else ""
    return None, None, f"what the master held before the run{since}: give the earlier master with --before"


def _runs(
    config: Config,
    place: Place,
    known: Manifest,
    found: Sequence[Entry],
    earlier: Manifest | None,
    now: ByPartition | None,
) -> tuple[list[RunFeed], int]:
    """Return the runs that merged the feed files of a manifest, and the number of files that were read."""
    runs, count = list[RunFeed](), 0
    ordered = sorted(known.feed, key=lambda part: part.committed)
    for committed, parts in groupby(ordered, key=lambda part: part.committed):
        if earlier is not None and committed <= earlier.committed:
            continue
        paths, gone = list[str](), dict[str, str]()
        for part in parts:
            path = _path_of(part, found)
            if path is None:
                gone[part.name] = _NOT_FOUND
            else:
                paths.append(path)
        count += len(paths)
        rows = FeedRows((), ())
        if paths:
            rows = feed_rows(feed_plan(config, place.survey, paths), place.wanted)
        is_last = committed == known.committed
        moment = int(datetime.fromisoformat(committed).timestamp() * 1000)
        retention = config.tombstone_retention
        runs.append(
            RunFeed(
                number=None,
                run=known.run if is_last else "",
                committed=committed,
                rows=rows,
                gone=gone,
                now=moment,
                full=config.full,
                overwrites=config.overwrites,
                expire_before=None if retention is None else moment - int(retention * 1000),
                held=now if is_last else None,
            )
        )
    return runs, count


def _path_of(part: FeedFile, found: Sequence[Entry]) -> str | None:
    """Return the path of a file that has the name, the size and the content of a merged one."""
    for entry in found:
        if entry.name == part.name and entry.bytes == part.bytes:
            try:
                if checksum.difference(entry.path, part.checksum) is None:
                    return entry.path
            except MutatorError:
                continue
    return None
