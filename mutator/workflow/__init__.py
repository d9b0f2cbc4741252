"""The directory workflow: feed files that arrive in a directory are merged into the master beside it, over and over.

    base          the places of a base, and which dataset lies where
    claim         feed files: which have arrived whole; taken, given back, put away
    journal       what a run that has not ended has taken
    lock          one at a time, as a courtesy
    masters       which dataset is the master: published, backed up, removed
    run           the six phases of a run
    recovery      finish, or put back, what others have left
    operations    run, status, history, restore
    merging       ``mutator run`` as the merge of a run
    verification  a whole base against its log
    outcome       what is said of it

A version exists when its entry is in the log (``mutator.log``). Everything before is litter, everything after can be
done again by anybody.
"""

from mutator.workflow.merging import merge_by
from mutator.workflow.operations import history, restore, run, status

__all__ = ["history", "merge_by", "restore", "run", "status"]
