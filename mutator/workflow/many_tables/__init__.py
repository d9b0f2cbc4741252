"""Many tables in one Spark application: for an operator with two hundred tables and thirty minutes.

tables_file      the tables file → ListedTable, each with a configuration of its own
path_conflicts   no table may write to a path that another one reads or writes
largest_first    the order in which tables are begun
attempt          one table being merged: its Spark jobs, its deadline, and how it is stopped
event_log        each event as a line of JSON, so that a killed run can be resumed
scheduler        a bounded number of tables at once; one that fails does not stop the others
summary          the state of each table, and of all

Each table is merged as by ``mutator run`` or ``mutator workflow run``, with the same commit point: whole or not at all,
even if other tables fail or the whole application is killed.
"""

from mutator.workflow.many_tables.scheduler import run
from mutator.workflow.many_tables.summary import Summary, TableResult
from mutator.workflow.many_tables.tables_file import ListedTable, Tables, load

__all__ = ["ListedTable", "Summary", "TableResult", "Tables", "load", "run"]
