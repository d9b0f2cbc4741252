"""Compare a checkpoint with what the log gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mutator.dataset.versions.checkpoint import FILES
from mutator.dataset.versions.log import TableLog
from mutator.dataset.versions.packs import packs_of, unpacked, without_packs
from mutator.dataset.versions.snapshot import Snapshot


def difference_of(own: Snapshot, name: str) -> str | None:
    """Return how a checkpoint differs from the snapshot of its version, in words; None if it does not.

    Raises StateError if a version index of the snapshot cannot be read.
    """
    log = TableLog(own.table)
    read = log.checkpoint(name)
    if read is None:
        return "it is damaged"
    files, state, masks = read
    unpacked_files = unpacked(own.table, files)
    if unpacked_files is None:
        return "a pack that it names is missing or damaged"
    own_files = without_packs(log, own.files, packs_of(own.files))
    rows = own.mask_rows()
    found = {} if masks is None else log.masks(masks)
    if found is None:
        return f"its file of masks {masks} is missing or damaged"
    same = unpacked_files.equals(own_files.cast(FILES)) and state == own.state
    same = same and found.keys() == {one[0] for one in rows}
    if not same or not all(equal_masks(found[one[0]], one[1:]) for one in rows):
        return "it is not what the log gives"
    return None


def equal_masks(found: Sequence[Any], own: Sequence[Any]) -> bool:
    """Return whether two masks of a file, each (hidden rows, touched rows, order values), are equal."""
    return bool(
        np.array_equal(found[0], own[0])
        and np.array_equal(found[1], own[1])
        and found[2].to_pylist() == own[2].to_pylist()
    )
