"""Many tables in one Spark application: for an operator with two hundred tables and thirty minutes.

tables_file  the tables file → ListedTable, each with a configuration and paths of its own
attempt      one table being merged: its Spark jobs, its deadline, and how it is stopped
scheduler    a bounded number of tables at once, the largest first; one that fails does not stop the others
summary      the state of each table, and of all; each event as a line of JSON, so that a killed run can be resumed

Each table is merged as by ``mutator run`` or ``mutator workflow run``, with the same commit point: whole or not at all,
even if other tables fail or the whole application is killed.
"""

from mutator.workflow.many_tables.scheduler import run
from mutator.workflow.many_tables.summary import Summary, TableResult
from mutator.workflow.many_tables.tables_file import ListedTable, Tables, load

__all__ = ["ListedTable", "Summary", "TableResult", "Tables", "load", "run"]
