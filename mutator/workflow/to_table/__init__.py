"""The directory workflow with a versioned table as its target: feed files that arrive are applied to the table.

table_target  the table as a target, by functions that the caller passes in
upkeep        compactions while nothing arrives

A version exists when its entry is in the log of the table. The entry names the run and the files that it claimed, so
the base has no log of its own: everything else in it can be done again, or undone, by any run.
"""

from mutator.workflow.to_table.table_target import (
    ApplyTask,
    Kept,
    TableTarget,
    WorkflowTable,
    archive_differences,
    opened,
)
from mutator.workflow.to_table.upkeep import Upkeep

__all__ = ["ApplyTask", "Kept", "TableTarget", "Upkeep", "WorkflowTable", "archive_differences", "opened"]
