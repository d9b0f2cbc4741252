"""The command line: the only room that prints and exits.

program              assembles the parsers, prints, and ends the process; runs the scripts in ``jobs/``
parser               argparse with options that every command has
usage                errors in the words of a command line, with suggestions
messages             the lines on stderr, with colours; ``progress_line`` is the one that is rewritten
command              the form of a command, and its answer
options              the options that several commands share
init_commands        ``mutator init``
stdin_feed           ``--feed -``
run_commands         ``mutator run``, ``mutator verify``
workflow_commands    ``mutator workflow …``
table_commands       ``mutator table …``; its operations are in ``table_*_commands``
explain_commands     ``mutator explain``; ``diff_commands`` and ``changes_commands`` likewise
workflow_runs        ``mutator workflow run`` and ``watch``
bridge_commands      ``mutator bridge …``
partition_commands   ``mutator partition``
many_commands        ``mutator run-many``
settings_commands    ``mutator settings``, ``mutator completion``, ``mutator help``
sample_commands      ``mutator sample …``, ``mutator demo``
sample               the generator of sample data; ``sample/data`` is a link to the sample data themselves
"""

from mutator.cli.program import entry, job, job_entry, main

__all__ = ["entry", "job", "job_entry", "main"]
