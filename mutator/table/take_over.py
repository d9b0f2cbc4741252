"""Version 1 of a table: the files of a dataset that mutator wrote, linked as they are, with key indexes.

Any other dataset is merged into one first, with an empty feed: so duplicates, rejects and limits are those of a run.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.config.feed_settings import keeps_history
from mutator.config.settings import Config, HistorySpec, OutputSpec
from mutator.dataset.commits import Commit, next_time, time_text
from mutator.dataset.directory import check_files, in_place_of_a_table, read_manifest
from mutator.dataset.file_entry import FileEntry
from mutator.dataset.partition_index import EARLIER, IN_PATH, by_partition, form_of
from mutator.dataset.state import State
from mutator.dataset.versions.log import DIRECTORY, TableLog
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot, first_snapshot
from mutator.engine.receipts import Receipts
from mutator.engine.runner import each_on
from mutator.engine.versions.delta_files import ApplyTarget, rows_directory
from mutator.engine.versions.index_files import Taken, event_path, events_taken_over, path_in_table, take_over
from mutator.errors import MutatorError, error
from mutator.errors.display import counted
from mutator.errors.parts import setting
from mutator.formats.blocks.column_rows import ColumnLayout
from mutator.pipeline import merge
from mutator.pipeline.report import shown_texts
from mutator.pipeline.runners import engine_of
from mutator.plan.inspect.managed import stored_schema
from mutator.plan.rows.row_plan import PATCHES
from mutator.plan.rows.storable_types import storable_schema
from mutator.plan.run_plan import Plan
from mutator.plan.spec_check import check_kept
from mutator.rules.file_names import new_run_id
from mutator.storage import located, located_to_write, storage_for
from mutator.storage.progress import expected
from mutator.table.apply import OpenRunner
from mutator.table.commit import committed, confirm, hinted, new_files
from mutator.table.create import BUCKETS, WORK, check_free, commit_first, first_version
from mutator.table.prepare import prepare

_FORMAT = "parquet"


def create_of(
    path: str,
    config: Config,
    settings: Mapping[str, str],
    dataset: str,
    buckets: int | None,
    open_runner: OpenRunner,
    warn: Callable[[Sequence[str]], None] = lambda warnings: None,
) -> Snapshot:
    """Create a table with the rows of a dataset; return its version 1.

    settings: that version 0 records. warn: takes the warnings of the merge of another program's dataset. Version 0 is
    committed when the dataset has been merged and planned, so nothing is left of a dataset that is refused. If it is
    killed, the same call goes on with the version 0 that it left.
    """
    storage, path = located_to_write(path)
    source = _source(dataset)
    parent = posixpath.join(path, DIRECTORY, WORK)
    known = read_manifest(storage_for(source), source)
    count = _buckets_of(source, known, buckets, config, parent)
    started = begun(path, settings, count)
    if started is None:
        check_free(path)
    first = started or first_version(settings, count)
    work = posixpath.join(parent, new_run_id(time.time()))
    try:
        if known is None or not _fits(known, config.output):
            in_buckets = replace(config, effort=replace(config.effort, num_reducer=count))
            known, source = _as_parquet(work, in_buckets, source, open_runner, warn), work
        plan = _plan(path, first, config, source, known)
        snapshot = open_snapshot(path, 0) if started else commit_first(path, first)
        created = _take_over_dataset(snapshot, plan, source, known, open_runner)
    finally:
        with suppress(MutatorError):
            storage.remove(work)
    with suppress(MutatorError):
        storage.remove(parent)  # with those of killed calls; other calls cannot commit version 1 any more
    return created


def was_taken_over(path: str, settings: Mapping[str, str]) -> bool:
    """Return whether a table with some settings has the rows of a dataset, and nothing else yet."""
    log = TableLog(located_to_write(path)[1])
    return log.newest() == 1 and log.read(1).action == "create" and log.read(0).settings == settings


def begun(path: str, settings: Mapping[str, str], buckets: int) -> Commit | None:
    """Return the version 0 that a killed call with the same settings left; None without one."""
    if TableLog(path).newest() != 0:
        return None
    snapshot = open_snapshot(path, 0)
    same = snapshot.state.settings == settings and snapshot.version.buckets == buckets
    return TableLog(path).read(0) if same else None


def _source(dataset: str) -> str:
    """Return the full path of a dataset."""
    storage, path = located(dataset)
    path = storage.resolve(path)
    entry = storage.stat(path)
    if entry is None or entry.type != "directory":
        raise error("path.missing", path=path, what="directory")
    return path


def _as_parquet(
    work: str, config: Config, path: str, open_runner: OpenRunner, warn: Callable[[Sequence[str]], None]
) -> State:
    """Make a dataset in the directory ``work`` that a table can take over; return its state. path: of the given one."""

    def merge_on(plan: Plan, staging: str | None) -> Receipts:
        with open_runner(plan.bytes_to_read) as (runner, choice):
            return engine_of(runner, choice)(plan, staging)

    prepared = merge.prepare(_merged(config), path, [], work)
    before = shown_texts(prepared.plan, prepared.plan.warnings)
    warn(before)  # which may say why the merge fails
    state, report = merge.carry_out(replace(prepared, plan=replace(prepared.plan, rewrites=True)), merge_on)
    warn([text for text in report.warnings if text not in before])
    return state


def _merged(config: Config) -> Config:
    """Return the configuration of the merge that makes a dataset which fits."""
    nanos = config.output.nanos or "reject"
    return replace(
        config,
        output=replace(config.output, format=_FORMAT, partition_columns="file", nanos=nanos),
        effort=replace(config.effort, master_unique=False),
        history=HistorySpec(),
    )


def _fits(known: State, output: OutputSpec) -> bool:
    forms = [known.spec, *known.spec.get(EARLIER, ())]
    has_buckets = known.bucket_count is not None or known.is_partitioned
    is_whole = all(form.get("format") == _FORMAT and IN_PATH not in form for form in forms)
    if not has_buckets or known.is_without_key or not is_whole:
        return False
    return output.nanos == "keep" or all(map(_in_micros, forms))


def _in_micros(form: Mapping[str, Any]) -> bool:
    schema: Any = stored_schema(form, "").schema
    return bool(schema.equals(storable_schema(schema, _FORMAT, in_micros=True)))


def _buckets_of(path: str, known: State | None, wanted: int | None, config: Config, work: str) -> int:
    """Return the number of buckets of a table with the rows of a dataset.

    known: its state, if mutator wrote it. wanted: by the user. work: path at which the dataset would be merged. The
    files of a dataset that is taken over as it is decide. Those of partitions have buckets of their own, so each
    partition of the table has one. Raises ConfigError if the user wants another number. Another dataset has as many as
    a run makes of its bytes, and at least those of an empty table.
    """
    if config.rows.key.partitions or (known is not None and known.is_partitioned):
        found, why = 1, "each partition of a table that begins with a dataset has one bucket; leave the number out"
    elif known is not None and _fits(known, config.output):
        found = known.bucket_count or 1
        why = (
            "its files are used as they are; leave the number out, or write the dataset again with "
            f"{setting('num.reducer')}"
        )
    elif wanted is not None:
        return wanted
    else:
        merged = replace(_merged(config), effort=replace(config.effort, num_reducer=None, master_unique=False))
        plan = merge.prepare(merged, path, [], posixpath.join(work, "planned")).plan
        return max(plan.strategy.buckets or 1, BUCKETS)
    if wanted not in (None, found):
        raise error("table.buckets", path=path, found=counted(found, "bucket"), wanted=wanted, why=why)
    return found


def _plan(table: str, first: Commit, config: Config, path: str, known: State) -> Plan:
    """Return the plan of a table that begins with a dataset. first: version 0. path, known: of the dataset.

    Raises the errors of the catalogue for settings that the dataset does not have, and for missing files.
    """
    if not known.is_partitioned:  # files of partitions are checked one by one
        check_files(storage_for(path), path, known.parts(), storage_for(path).entries(path))
    check_kept(config.rows.order, known, path)  # now, because there is no table yet
    if config.history.is_kept and PATCHES in known.spec:
        why = f"{path} has had patches, and does not know what its records were before them"
        raise error("table.history", why=why, cure="create a table without history, or from the feeds")
    if config.history.is_kept and known.absences:
        why = f"{path} has deletes by absence, and does not know since when the records are gone"
        raise error("table.history", why=why, cure="create a table without history, or from the feeds")
    created = first_snapshot(table, first).after(_commit_of(first, known))
    spec = {name: value for name, value in known.spec.items() if name != EARLIER}
    return prepare(replace(created, state=replace(created.state, spec=spec)), config, [])[1]


def _take_over_dataset(snapshot: Snapshot, plan: Plan, path: str, known: State, open_runner: OpenRunner) -> Snapshot:
    """Commit version 1 of a table with the files of a dataset. snapshot: version 0. path, known: of the dataset."""
    started = time.monotonic()
    target = ApplyTarget(snapshot.table, 1, 1, snapshot.state.buckets)
    tasks = list(_files(plan, known, path))
    with new_files(snapshot.table) as new:
        for task in tasks:
            own = path_in_table(task, plan)
            new += (own, target.index_path(own), target.sides_path(own))
            if plan.keeps_events:
                event = event_path(own)
                new += (event, target.index_path(event), target.sides_path(event))
        bytes_ = sum(task.part.bytes for task in tasks)
        with open_runner(bytes_) as (runner, _), expected(bytes_):
            taken: list[tuple[FileEntry, ...]] = each_on(runner)(tasks, partial(_take_over, plan, target))
        files = tuple(file for one in taken for file in one)
        seconds = round(time.monotonic() - started, 3)
        version = _commit_of(snapshot.version, known, run=plan.run, files=files, seconds=seconds)
        created = snapshot.after(version)
        if not committed(created, version):
            raise error("table.exists", path=snapshot.table, cure=in_place_of_a_table(snapshot.table))
        confirm(created, version, snapshot.version)
        return hinted(created, version)


def _take_over(plan: Plan, target: ApplyTarget, taken: Taken, number: int, attempt: int) -> tuple[FileEntry, ...]:
    file = take_over(plan, target, taken, attempt)
    return (file, events_taken_over(plan, target, taken, file)) if plan.keeps_events else (file,)


def _commit_of(first: Commit, known: State, run: str = "", **members: Any) -> Commit:
    """Return version 1, with what a manifest says of a dataset. first: version 0. members: others, as its files."""
    records, tombstones = known.commit.records, known.commit.tombstones
    return first.next(
        "create",
        run=run,
        committed=time_text(next_time(time.time(), first)),
        spec=dict(known.spec),
        horizon=known.commit.horizon,
        floor=known.commit.floor,
        snapshot=known.commit.snapshot,
        parts=known.commit.parts,
        records=records,
        tombstones=tombstones,
        counts={"master rows": records, "master kept": records, "output rows": records, "tombstones in": tombstones}
        | {"tombstones out": tombstones},
        feed=known.feed,
        absences=known.absences,
        truncates=(known.commit.floor,) if known.commit.floor is not None and keeps_history(first.settings) else (),
        **members,
    )


def _files(plan: Plan, known: State, path: str) -> Iterator[Taken]:
    """Yield the data and tombstone files of a dataset."""
    beside = {side.path: side for side in known.beside}
    partitioned = known.is_partitioned
    for directory, files in by_partition(known.parts()).items():
        partition = directory if partitioned else None
        for part in files.data:
            yield Taken(
                source=path,
                part=part,
                directory=rows_directory(partition, 1),
                partition=partition,
                bucket=0 if partitioned else part.bucket or 0,
                form=part.form or 1,
                layout=_layout(plan, known, part.form, path),
                order=beside.get(part.order or ""),
            )
        for side in files.tombstones:
            bucket = 0 if partitioned else side.bucket or 0
            directory = posixpath.dirname(f"{DIRECTORY}/tombstones/{side.path.split('/', 2)[2]}")
            yield Taken(path, side, directory, partition, bucket, 1)


def _layout(plan: Plan, known: State, form: int, path: str) -> ColumnLayout:
    """Return how the files of a form are read, with their own types."""
    layout: ColumnLayout = plan.rows.layouts["master"]
    schema = stored_schema(form_of(known.spec, form), path).schema
    names = layout.result.names
    ids = tuple(schema.get_field_index(names[position]) for position in layout.id_fields)
    return replace(layout, schema=schema, result=schema, id_fields=ids)
