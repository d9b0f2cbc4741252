"""Split the files of a feed by partition, to a directory that appears complete or not at all.

find    the feed files, and the positions of the partition fields in their rows
split   in tasks, one for each feed file: rows -> a file of the same name in each partition
check   every row is in a partition or rejected, and the rejects are within the limit
publish the files of all partitions, in one step
"""

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mutator.config.settings import Config, OpSpec
from mutator.dataset.commit.publish import check_apart, check_output, publish
from mutator.dataset.commit.staging import StagedFile
from mutator.dataset.commits import RUN, Commit
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.split_record import SplitFile, SplitRecord
from mutator.engine.each import Each, checked, guarded
from mutator.engine.ledger import rejected_line
from mutator.engine.receipts import RejectSample
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.interrupts import check_signals
from mutator.errors.parts import setting
from mutator.errors.quick_dataclass import dataclass
from mutator.formats.content import Reject
from mutator.pipeline.kept_out import shown_samples
from mutator.pipeline.limits import check_rejects, shown_rejects
from mutator.plan.inspect.source import Source
from mutator.plan.reading import SAMPLES
from mutator.plan.run_plan import rejects_of
from mutator.plan.shown_values import ShownValues, shown_of_split
from mutator.rules.dialects.flat_dialects import FLAT_DIALECTS
from mutator.rules.encodings import readable, restored
from mutator.rules.envelopes import ENVELOPES
from mutator.rules.file_names import first_few, new_run_id
from mutator.rules.partition_fields import PartitionField, text_of
from mutator.rules.partition_paths import lacks_value
from mutator.storage import located, located_to_write, storage_for
from mutator.workflow.partitions.split.files import UnsplitFile, feed_files
from mutator.workflow.partitions.split.write import split_file

_log = logging.getLogger(__name__)
_Done = tuple[SplitFile, list[Reject]]


@dataclass(frozen=True)
class SplitFeed:
    """A split feed, with what its report says."""

    record: SplitRecord
    partitions: Mapping[str, int]  # the rows of each, by directory, without the values that must not be shown
    rejects: tuple[RejectSample, ...]  # the first ones
    ignored: tuple[str, ...]  # files whose names start with _ or .
    litter: tuple[str, ...]  # directories of killed runs that were removed
    warnings: tuple[str, ...]
    seconds: float


def split_feed(config: Config, fields: Sequence[PartitionField], feed: Sequence[str], to: str, each: Each) -> SplitFeed:
    """Split feed files into Hive-style directories below a directory that must not exist.

    feed: directories, files or patterns. each: applies a function to tasks. Raises MutatorError; then nothing is
    published and no feed file has changed.
    """
    started = time.monotonic()
    check_operations(config.rows.ops)
    _, to = located_to_write(to)
    check_output(to)
    for path in feed:
        check_apart(to, located(path)[1], role="split feed", other_role="feed")
    files, ignored = feed_files(config, fields, feed)
    layouts = {config.rows.text.names or _names(file.source) for file in files}
    shown = shown_of_split(config.rows, config.wording, fields, layouts)
    run, allowed = new_run_id(time.time()), rejects_of(config.limits)["feed"]
    rejects_delete = config.operation.full or config.operation.overwrites
    samples: list[RejectSample] = []

    def write(staging: str) -> SplitRecord:
        split = partial(_task, staging, tuple(fields), allowed + SAMPLES)
        done: list[_Done] = checked(each(files, split))
        check_signals()  # Spark may have swallowed the exception of a signal
        samples.extend(shown_samples(_samples(files, done), are_shown=shown.rows))
        rows, rejected = sum(file.rows for file, _ in done), sum(file.rejected for file, _ in done)
        _log.info("split %s of %s", counted(rows, "row"), counted(len(files), "feed file"))
        if rows and rejected == rows and rejected <= allowed:
            raise error("split.none", count=f"{rows:,}", rows=shown_rejects(samples))
        check_rejects("feed", allowed, config.limits, rejected, rows, samples, (), rejects_delete)
        _check_rows(done)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return SplitRecord(
            commit=Commit(number=0, id=str(uuid.uuid4()), action=RUN, run=run, committed=now),
            by=text_of(fields),
            files=tuple(file for file, _ in done),
            beside=_write_rejected(staging, run, files, done),
        )

    published = publish(to, run, write)
    _log.info("published %s", to)
    seconds = round(time.monotonic() - started, 3)
    by_directory = published.made.rows_by_partition()
    warnings = (*config.wording.warnings, *_warnings(config.rows.ops, by_directory, shown))
    partitions = shown.by_directory(by_directory)
    return SplitFeed(published.made, partitions, tuple(samples), ignored, published.litter, warnings, seconds)


def check_operations(ops: OpSpec) -> None:
    """Raise ConfigError for rows that do not belong to one partition, or whose partition fields are within them."""
    where, why, kind = "", "", ENVELOPES[ops.envelope]
    dialect = setting(f"{kind.setting}={ops.envelope}")
    if kind.formats and ops.envelope not in FLAT_DIALECTS:
        where, why = dialect, "the fields of a record are within the messages"
    elif ops.truncates:
        where = dialect if ops.envelope in FLAT_DIALECTS else setting("truncate.op.code")
        why = "a truncate deletes the records of all partitions, and would be in one"
    elif ops.table is not None:
        where = setting(f"feed.table={ops.table}")
        why = "rows of other tables have other fields, and belong to no partition"
    if where:
        cure = "split nothing, and merge the feed with mutator run --partitioned-by"
        raise error("config", where=where, faults=f"{why}; {cure}")


def _names(source: Source) -> tuple[str, ...]:
    return () if source.file_schema is None else tuple(source.file_schema.schema.names)


def _warnings(ops: OpSpec, partitions: Mapping[str, int], shown: ShownValues) -> Iterator[str]:
    if ops.field is None and not ops.has_delete_files:
        return  # the feed has no deletes
    found = {name: rows for name, rows in partitions.items() if lacks_value(name)}
    if found:
        rows = counted(sum(found.values()), "row")
        yield (
            f"{rows} without the value of a partition field, in {first_few(sorted(shown.by_directory(found)))}: "
            "a delete among them removes a record of that partition only; if its record may be in another one, merge "
            "the feed with mutator run --partitioned-by, which finds records by their ID"
        )


def _task(
    staging: str, fields: tuple[PartitionField, ...], most: int, file: UnsplitFile, number: int, attempt: int
) -> Any:
    return guarded(split_file, staging, fields, file, most)


def _samples(files: Sequence[UnsplitFile], done: Sequence[_Done]) -> list[RejectSample]:
    """Return the first rejects."""
    found = [
        RejectSample(
            made.source,
            one.offset,
            one.line,
            file.source.position(one.offset, one.line),
            one.reason,
            readable(one.row[:200], file.source.encoding),
        )
        for file, (made, rejects) in zip(files, done, strict=True)
        for one in rejects
    ]
    return found[:SAMPLES]


def _check_rows(done: Sequence[_Done]) -> None:
    """Raise StorageError if rows are missing."""
    for file, _ in done:
        written = sum(part.rows for part in file.parts)
        if file.rows != written + file.rejected:
            what = f"{file.source}: rows read: {file.rows:,}, written: {written:,}, rejected: {file.rejected:,}"
            raise error("sums", problems=what)


def _write_rejected(
    staging: str, run: str, files: Sequence[UnsplitFile], done: Sequence[_Done]
) -> tuple[FileEntry, ...]:
    """Write the rejected rows in the format of a run."""
    rejects = [
        (made.source, one._replace(row=restored(one.row, file.source.encoding)))
        for file, (made, found) in zip(files, done, strict=True)
        for one in found
    ]
    if not rejects:
        return ()
    path = f"_mutator/rejected/rejected-{run}.tsv"
    with storage_for(staging).create_new(f"{staging}/{path}") as stream:
        staged = StagedFile(stream, path, 1 << 62)
        for source, one in rejects:
            staged.write(rejected_line(source, one.offset, one.line, one.reason, one.row))
    return (staged.entry(len(rejects), "rejected"),)
