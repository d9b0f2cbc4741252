"""The command line: the only room that prints and exits.

program              assembles the parsers, prints and exits; one function for each script in ``jobs/``
options              the form of a command, and the options that several commands share
run_commands         ``mutator run``, ``mutator verify``
workflow_commands    ``mutator workflow …``
bridge_commands      ``mutator bridge …``
partition_commands   ``mutator partition``
many_commands        ``mutator run-many``
sample_commands      ``mutator sample …``
sample               the generator of sample data
"""

from mutator.cli.program import bridge, bulk_mutate, entry, main, partition, partition_runs, run_many, workflow

__all__ = ["bridge", "bulk_mutate", "entry", "main", "partition", "partition_runs", "run_many", "workflow"]
