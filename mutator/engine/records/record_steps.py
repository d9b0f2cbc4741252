"""The records engine as steps: MapReduce as in the textbook, one Python tuple a record.

map      split -> ((bucket, key, side, precedence), value)
shuffle  by bucket, then by key, side and precedence
reduce   walk each key's run, keep the last, meet the master
"""

from mutator.engine.receipts import Receipts
from mutator.engine.records.read_records import read_task
from mutator.engine.records.write import write_bucket
from mutator.engine.runner import Runner
from mutator.engine.tasks import merge_groups
from mutator.plan.reading import Reading


def merge(runner: Runner, plan: Reading, staging: str | None) -> Receipts:
    """Run the merge of a plan; return all receipts.

    staging: directory that the files go to, None for a dry run.
    """
    return merge_groups(runner, plan, staging, read_task, write_bucket)
