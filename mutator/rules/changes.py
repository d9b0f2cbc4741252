"""The changes of records, by the names that the change feeds of Spark and Delta have for them."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mutator.rules.truth_table import CLEARED, records_deleted

INSERT, BEFORE, AFTER, DELETE = range(4)
CHANGES = ("insert", "update_preimage", "update_postimage", "delete")  # by number; the names are on disk
CHANGE, VERSION, TIME = FIELD_NAMES = ("_change_type", "_commit_version", "_commit_timestamp")

Changes = npt.NDArray[np.int8]  # INSERT, BEFORE, AFTER or DELETE, one per row


def changed_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the number of changed rows of each kind that follow from the counts of a run.

    >>> changed_counts({"feed inserted": 2, "feed updated": 3, "feed deleted": 0, "master deleted by absence": 1})
    {'insert': 2, 'update_preimage': 3, 'update_postimage': 3, 'delete': 1}
    """
    updated = counts["feed updated"] + counts.get(CLEARED, 0)
    numbers = (counts["feed inserted"], updated, updated, records_deleted(counts))
    return dict(zip(CHANGES, numbers, strict=True))
