"""The directory workflow with a versioned table as its target: feed files that arrive are applied to the table.

target          the table, as functions that the caller passes in; a look whether anything has arrived
table_run       the phases of a run: claim, apply, archive; recovery of one that was killed
table_commands  run and status; compactions while nothing arrives
table_results   the outcome of a run and the status of a base, as text and as JSON

A version exists when its entry is in the log of the table. The entry names the run and the files that it claimed, so
the base has no log of its own: everything else in it can be done again, or undone, by any run.
"""

from mutator.workflow.to_table.table_commands import Upkeep, kept, opened, run, status
from mutator.workflow.to_table.target import AppliedFeed, ApplyTask, Kept, Look, TargetTable

__all__ = ["AppliedFeed", "ApplyTask", "Kept", "Look", "TargetTable", "Upkeep", "kept", "opened", "run", "status"]
