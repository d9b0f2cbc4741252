"""The merge of a plan as steps over elements, by the engine that the plan names."""

from dataclasses import replace

from mutator.engine.blocks import block_steps as blocks
from mutator.engine.carried import held_in_files, with_carried, with_note
from mutator.engine.ledger import with_rejects
from mutator.engine.receipts import Receipts
from mutator.engine.runner import Runner
from mutator.plan.run_plan import Plan


def merge(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    """Run the merge of a plan; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    plan, note = with_carried(runner, plan, held_in_files(runner))
    return with_note(_settled(runner, plan, staging), note)


def _settled(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    if plan.replace_damaged and not plan.is_partitioned:
        from mutator.engine.lost_files import lost_files, without_files

        plan = without_files(plan, lost_files(runner, plan))
        return replace(with_rejects(plan, staging, _merged(runner, plan, staging)), lost=plan.lost)
    return with_rejects(plan, staging, _merged(runner, plan, staging))


def _merged(runner: Runner, plan: Plan, staging: str | None) -> Receipts:
    # The modules of the rarer merges are imported by the runs that need them.
    if plan.is_partitioned:
        from mutator.engine.partitions import partition_steps as partitions

        return partitions.merge(runner, plan, staging)
    if plan.strategy.engine == "records":
        from mutator.engine.records import record_steps as records

        return records.merge(runner, plan, staging)
    return blocks.merge(runner, plan, staging)
