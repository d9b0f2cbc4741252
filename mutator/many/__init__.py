"""Many tables in one Spark application: an operator with two hundred tables and thirty minutes.

    places        none may write where another one reads or writes
    tables        the tables file -> Table, each with a configuration of its own
    order         the largest first
    record        what became of each table, line by line, so that a run that was killed is resumed
    result        a table's state, and the summary
    attempt       one table under way: its Spark jobs, its deadline, and how it is stopped
    run           a bounded number of tables at once; one that fails does not stop the others

Each table is a run as ``mutator run`` or ``mutator workflow run`` does it, with the same commit point: whatever happens
to the others, and whenever everything is killed, it is merged whole or not at all.
"""

from mutator.many.result import Result, Summary
from mutator.many.run import run
from mutator.many.tables import Table, Tables, load

__all__ = ["Result", "Summary", "Table", "Tables", "load", "run"]
