"""Compare a restore with the version that it restored, and with what versions before it have hidden."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from mutator.dataset.commits import Commit
from mutator.dataset.versions.masks import restored_masks
from mutator.dataset.versions.opening import open_snapshot
from mutator.dataset.versions.snapshot import Snapshot
from mutator.errors import MutatorError
from mutator.rules.byte_columns import Ints
from mutator.table.verify_checkpoint import equal_masks

Rows = list[tuple[Ints, Any]]  # positions of hidden rows of a file, and their encoded keys; None: not known
_Masks = Mapping[str, tuple[Ints, Ints, Any]]  # file -> hidden rows, touched rows, order values of these
_NONE = np.zeros(0, np.int64)


def followed(
    own: Snapshot, version: Commit, ever: Mapping[str, Rows], *, has_base: bool
) -> tuple[dict[str, Rows] | None, list[str]]:
    """Return the rows that a restore hides, by file, and how it differs from what it should be, in words.

    own: the snapshot after it. ever: the rows that all versions have hidden. has_base: the first of these are not
    known, because their entries were cleaned. The rows are None if the file of the masks is lost or damaged.
    """
    assert version.restored is not None
    try:
        masks = restored_masks(own.table, version.restored.masks)
    except MutatorError as fault:
        return None, [str(fault)]
    found, differences = dict[str, Rows](), list[str]()
    for path, (positions, _, _) in masks.items():
        found[path], unknown = _hidden(positions, ever.get(path, []))
        if len(unknown) and has_base:
            found[path].append((unknown, None))
        elif len(unknown):
            differences.append(f"it hides rows of {path} that no earlier version has hidden")
    return found, [*differences, *_of_version(own, masks, version.restored.version)]


def _hidden(positions: Ints, ever: Rows) -> tuple[Rows, Ints]:
    """Return some rows with their keys, and those of them that were never hidden. positions: of the rows."""
    keyed = [(one, keys.cast(pa.large_binary())) for one, keys in ever if keys is not None]
    known, first = np.unique(np.concatenate([_NONE, *(one for one, _ in keyed)]), return_index=True)
    keys = pa.concat_arrays([pa.array([], pa.large_binary()), *(one for _, one in keyed)])
    chosen = np.isin(known, positions)
    left = np.setdiff1d(positions, known)
    others = np.intersect1d(left, np.concatenate([_NONE, *(one for one, keys in ever if keys is None)]))
    found: Rows = [(known[chosen], keys.take(pa.array(first[chosen])))]
    return [*found, *([(others, None)] if len(others) else [])], np.setdiff1d(left, others)


def _of_version(own: Snapshot, masks: _Masks, number: int) -> Iterator[str]:
    with suppress(MutatorError):  # that version was cleaned, or its damage is a difference already
        earlier = open_snapshot(own.table, number)
        rows: dict[str, Sequence[Any]] = {path: rest for path, *rest in earlier.mask_rows()}
        is_same = _paths(own) == _paths(earlier) and rows.keys() == masks.keys()
        if not is_same or not all(equal_masks(masks[path], rest) for path, rest in rows.items()):
            yield f"it does not have the rows of version {number}, which it restores"


def _paths(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files.column("path").to_pylist())
