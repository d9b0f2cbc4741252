"""A whole merge in one process, with a sort in place of a shuffle."""

from mutator.engine import steps
from mutator.engine.local.local_runner import local_runner
from mutator.engine.receipts import Receipts
from mutator.engine.runner import Watch, unwatched
from mutator.plan.run_plan import Plan


def merge_alone(plan: Plan, staging: str | None, attempt: int = 0, watch: Watch = unwatched) -> Receipts:
    """Merge a plan in this process; return the receipts that every other runner would return.

    staging: directory that the files go to, None for a dry run. attempt: of the task that this is. watch: called
    between the tasks of the plan; an exception of it stops the merge.
    """
    with local_runner(attempt=attempt, watch=watch) as runner:
        return steps.merge(runner, plan, staging)
