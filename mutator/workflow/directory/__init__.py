"""The directory workflow: feed files that arrive in a directory are merged into the master beside it, over and over.

paths           the directories of a base, and which dataset each one has
arrivals        which feed files have arrived whole, and why the others wait
claim           feed files moved: claimed, given back, archived
claimed_feed    the feed files of one run
bad_files       feed files that are set aside, because they cannot be merged
merged_content  claimed files compared with what was merged
sightings       notes of runs on files in incr/
failed_run      the last run, if it failed, and why
target_note     the table that the feed files of a base go into, if it is not the master
journal         the files that a run has claimed and not yet merged
lock            one run at a time, as a courtesy
versions        which dataset is the master: publish, back up, remove
run_phases      the six phases of a run
recovery        finish, or put back, the work of a run that was killed
commands        run, history, restore
base_status     status
merge           ``mutator run`` as the merge of a run
verification    a whole base compared with its log
report_paths    the report of a run, with the paths after it
results         the outcome of a run and the status of a base, as text and as JSON

A version exists when its entry is in the log (``dataset.version_log``). Everything before is litter; everything after
can be done again by any run.
"""

from mutator.workflow.directory.base_status import status
from mutator.workflow.directory.commands import history, restore, run
from mutator.workflow.directory.merge import merge_by

__all__ = ["history", "merge_by", "restore", "run", "status"]
