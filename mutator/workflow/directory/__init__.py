"""The directory workflow: feed files that arrive in a directory are merged into the master beside it, over and over.

paths           the directories of a base, and which dataset each one has
arrivals        which feed files have arrived whole, and why the others wait
claim           feed files moved: claimed, given back, archived
claimed_feed    the feed files of one run
bad_files       feed files that are set aside, because they cannot be merged
merged_content  claimed files compared with what was merged
failed_run      the last run, if it failed, and why
lock            one run at a time, as a courtesy; the journal of the files that a run has claimed
versions        the list of versions; which dataset is the master: publish, back up, remove
cures           damaged files, and the cures of a damaged master
changed_rows    the changed rows of the versions
view            the problems that a command sees in a base
run_phases      a run, phase by phase, and what it needs of its target: a master or a table
recovery        finish, or put back, the work of a run that was killed
commands        run; history, restore and another order of a master
base_status     status
master_target   the master as a target, whose merge is that of ``mutator run``
master_state    the status of a master
verification    a whole base compared with its log
results         the outcome of a run and the status of a base, as text and as JSON

A version exists when its entry is in the log (``dataset.version_log``). Everything before is litter; everything after
can be done again by any run.
"""

from mutator.workflow.directory.base_status import status
from mutator.workflow.directory.commands import do_phases, history, reorder, restore, run
from mutator.workflow.directory.master_target import MasterTarget, merge_by
from mutator.workflow.directory.paths import open_base
from mutator.workflow.directory.versions import chained_settings_of

__all__ = [
    "MasterTarget",
    "chained_settings_of",
    "do_phases",
    "history",
    "merge_by",
    "open_base",
    "reorder",
    "restore",
    "run",
    "status",
]
