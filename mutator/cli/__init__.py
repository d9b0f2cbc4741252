"""The commands: the only room that prints and exits.

program              the parser, ``run``, ``verify``, ``sample``, and one function for each script in ``jobs/``
workflow_commands    ``mutator workflow …``
bridge_commands      ``mutator bridge …``
many_commands        ``mutator run-many``
partition_commands   ``mutator partition``
options              options that several commands share
sample               the generator of sample data
"""

from mutator.cli.program import bridge, bulk_mutate, entry, main, partition, partition_runs, run_many, workflow

__all__ = ["bridge", "bulk_mutate", "entry", "main", "partition", "partition_runs", "run_many", "workflow"]
