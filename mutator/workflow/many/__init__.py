"""Many tables in one Spark application: an operator with two hundred tables and thirty minutes.

tables_file      the tables file → Table, each with a configuration of its own
path_conflicts   no table may write where another one reads or writes
largest_first    the order in which tables are begun
attempt          one table being merged: its Spark jobs, its deadline, and how it is stopped
event_log        each event as a line of JSON, so that a run that was killed is resumed
scheduler        a bounded number of tables at once; one that fails does not stop the others
summary          the state of each table, and of all

Each table is a run as ``mutator run`` or ``mutator workflow run`` does it, with the same commit point: whatever happens
to the others, and whenever everything is killed, it is merged whole or not at all.
"""

from mutator.workflow.many.scheduler import run
from mutator.workflow.many.summary import Result, Summary
from mutator.workflow.many.tables_file import Table, Tables, load

__all__ = ["Result", "Summary", "Table", "Tables", "load", "run"]
