"""Change the order of a table: every row gets an order value of the new order, in a version with the same rows.

It is a compaction of all buckets. The rows take the values of their own fields, or become older than every mutation.
Order values of two orders cannot be compared, so nothing of the old order is left: neither deletes, nor horizon and
floor, nor the highest value of the last snapshot. Earlier versions keep theirs, and a restore brings them back.
"""

from __future__ import annotations

from dataclasses import replace

from mutator.config import Config
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import error
from mutator.errors.display import without_secrets
from mutator.pipeline.reordered import OrderChange, check_fields, check_other, with_room
from mutator.plan.rows.row_plan import PATCHES
from mutator.plan.run_plan import Plan
from mutator.rules.order_types import order_in_words
from mutator.table.apply import OpenRunner
from mutator.table.compact import compact_table
from mutator.table.compact_choice import Need
from mutator.table.prepare import plan_without_feed
from mutator.table.recorded import config_of_snapshot


def reorder_table(
    snapshot: Snapshot, config: Config, open_runner: OpenRunner, *, dry_run: bool = False
) -> tuple[Snapshot, OrderChange]:
    """Give a table the order of a configuration; return the newest snapshot and what was done.

    snapshot: the newest one. Raises ConfigError for an order that its rows cannot have, DataError for a row without an
    order value; then there is no new version.
    """
    if not snapshot.state.spec:
        raise error("order.none", path=snapshot.table)
    config = with_room(config)
    plans = list[Plan]()

    def plan(newest: Snapshot) -> Plan:
        check_fields(config.rows.order, newest.state, newest.table)
        found = plan_without_feed(replace(newest, state=newest.state.without_order()), config)
        check_other(newest.state.spec["order"], found.rows.spec["order"], newest.table)
        plans.append(found)
        return found

    need = Need(everything=True, anew=True)
    done = compact_table(snapshot, config_of_snapshot(snapshot), need, open_runner, dry_run=dry_run, order=plan)
    report = OrderChange(
        place=without_secrets(snapshot.table),
        before=order_in_words(snapshot.state.spec["order"]),
        after=order_in_words(plans[-1].rows.spec["order"]),
        lowest=plans[-1].keeps_orders,
        rows=done.moves.rows,
        forgotten=snapshot.version.tombstones,
        waiting=snapshot.state.spec.get(PATCHES) == "wait",
        version=done.snapshot.version.number,
        dry_run=dry_run,
        seconds=round(done.seconds, 3),
    )
    return done.snapshot, report
