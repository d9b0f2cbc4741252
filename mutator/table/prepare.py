"""Survey a feed, and plan its merge into a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from mutator.config.definitions import published
from mutator.config.settings import Config, KeySpec, OperationSpec
from mutator.config.sources import shown
from mutator.dataset.commits import next_time
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.errors.display import counted
from mutator.errors.exceptions import said_to
from mutator.errors.parts import place, setting
from mutator.plan.inspect.managed import PartitionedMaster, dataset_schema
from mutator.plan.inspect.survey import Survey, survey_feed
from mutator.plan.inspect.table_inputs import TableInput
from mutator.plan.run_plan import Plan, make_plan
from mutator.rules.file_names import new_run_id
from mutator.table.agreement import check_settings

OF_HISTORY = ("history.track", "history.valid.from", "history.columns")  # fixed when a table is created
_GROUP = 8 << 20  # bytes of a feed that one task merges at least
_GROUPS = 8  # tasks that merge at most, unless the table has more buckets, or each would merge more than split.bytes
_MOST_GROUPS = 1024


def prepare(
    snapshot: Snapshot, config: Config, feed: Sequence[str], tables: Sequence[TableInput] = ()
) -> tuple[Survey, Plan]:
    """Survey a feed and plan its merge into a table; raise every error that can be found without an engine."""
    retention = config.retention
    config = for_tables(config, snapshot)
    if not snapshot.state.spec:
        check_settings(snapshot, config.rows)
    survey = survey_feed(config, survey_of_table(config.rows.key, snapshot), feed, tables)
    now = next_time(time.time(), snapshot.version)
    if "tombstone.retention" in map(published, snapshot.state.settings):
        config = replace(config, retention=retention)  # entries of merge functions are sealed; deletes are kept
    with said_to(config.wording.audience.writers):
        plan = replace(make_plan(config, survey, new_run_id(now / 1000), now, "blocks"), expire_before=None)
    given, own = config.given, snapshot.state.settings
    is_other = "history" in given and config.history.is_kept != snapshot.has_history
    if is_other or any(shown(given.get(one, own.get(one, ""))) != shown(own.get(one, "")) for one in OF_HISTORY):
        said = {True: "with", False: "without"}[snapshot.has_history]
        why = f"{place(snapshot.table)} was created {said} it, and its settings stay"
        raise error("table.history", why=why, cure=f"leave {', '.join(map(setting, ('history', *OF_HISTORY)))} out")
    if snapshot.has_history:
        from mutator.table.history_settings import check_history  # which other applies need not load

        check_history(plan, config)
        plan = replace(plan, keeps_events=True)
    many = min(plan.bytes_to_read // config.effort.split_bytes, _MOST_GROUPS)
    groups = max(min(plan.bytes_to_read // _GROUP, max(plan.groups, _GROUPS, many)), 1)
    groups = _of_whole_buckets(groups, snapshot.version.buckets)
    if plan.register.reads_rows and not plan.is_partitioned:  # each task of a bucket decodes all of its rows
        groups = min(groups, snapshot.state.buckets.most)
    return survey, replace(plan, groups=groups)


def _of_whole_buckets(groups: int, buckets: int) -> int:
    """Return about as many groups, so that each file has rows of few buckets: whoever reads one needs few files.

    >>> _of_whole_buckets(7, 8), _of_whole_buckets(20, 8), _of_whole_buckets(2, 7)
    (8, 24, 2)
    """
    if groups >= buckets:
        return -(-groups // buckets) * buckets
    found = next(count for count in range(groups, buckets + 1) if buckets % count == 0)
    return found if found <= 2 * groups else groups


def plan_without_feed(snapshot: Snapshot, config: Config) -> Plan:
    """Return the plan of a table whose rows are read or written anew, whatever feeds do to it."""
    return prepare(snapshot, replace(config, operation=OperationSpec()), [])[1]


def survey_of_table(key: KeySpec, snapshot: Snapshot) -> Survey:
    """Return the survey of a table, in place of that of a master."""
    state, partitioned = snapshot.state if snapshot.state.spec else None, None
    if key.partitions or snapshot.state.is_partitioned:
        partitioned = PartitionedMaster(snapshot.table, snapshot.state.spec or {"format": "parquet"}, {}, (), ())
    schema = None if state is None else dataset_schema(state, snapshot.table)
    return Survey(snapshot.table, state, (), dataset_schema=schema, partitioned=partitioned, versioned=True)


def for_tables(config: Config, snapshot: Snapshot) -> Config:
    """Return a configuration without settings that a table decides itself. Raises ConfigError for another format."""
    if "output.format" in config.given and config.output.format not in (None, "parquet"):
        raise error("table.format", format=config.output.format)
    warned, buckets = list(config.wording.warned), snapshot.version.buckets
    given = config.given.keys() - set(map(published, snapshot.state.settings))
    if "tombstone.retention" in given and config.retention.tombstones is not None:
        warned.append(
            f"{setting('tombstone.retention')} has no effect here: only a compaction forgets deletes of a table"
        )
    if "num.reducer" in config.given and config.effort.num_reducer not in (None, buckets):
        warned.append(
            f"{setting('num.reducer')} has no effect: the table was created with {counted(buckets, 'bucket')}, and "
            f"compactions split buckets that outgrow {setting('bucket.bytes')}"
        )
    return replace(
        config,
        output=replace(config.output, format="parquet"),
        effort=replace(config.effort, num_reducer=buckets),
        retention=replace(config.retention, tombstones=None),
        inputs=replace(config.inputs, master_adopt=False, master_format=None),
        wording=replace(
            config.wording, warned=tuple(warned), audience=replace(config.wording.audience, merged="the table")
        ),
    )
