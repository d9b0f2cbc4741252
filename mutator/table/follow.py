"""Follow the versions that other writers committed since an apply began.

An apply decides against the version that it has read. If another writer was faster, the decisions stay what they are as
long as no version in between changed a record, or a tombstone, of one of its keys: then the apply is committed after
these versions, with their totals. In any other case it starts over. So the result is always that of the log's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mutator.dataset.versions.hidden_rows import read_index
from mutator.dataset.versions.snapshot import Snapshot, content_of, damaged
from mutator.dataset.versions.version import TableVersion
from mutator.engine.versions.apply_task import Written
from mutator.engine.versions.live_rows import LiveRows
from mutator.plan.rows.run_fields import SCHEMA_SEQUENCE
from mutator.plan.run_plan import Plan
from mutator.rules.key_hash import Hashes


def keeps_its_decisions(
    base: Snapshot, plan: Plan, version: TableVersion, written: Sequence[Written], winners: Sequence[TableVersion]
) -> bool:
    """Return whether an apply may be committed after versions that it has not seen, as it is.

    base: the snapshot that it has seen. version: that it would have become.
    """
    names, spec = {file.name for file in version.feed}, base.state.spec
    if plan.full or spec is None or not all(is_same(spec, one.spec) and not one.removed for one in (version, *winners)):
        return False
    if any(file.name in names for one in winners for file in one.feed):
        return False
    if version.transaction and any(one.transaction and one.transaction[0] == version.transaction[0] for one in winners):
        return False
    own = _own_hashes(written)
    return all(not len(one) or (own is not None and not np.isin(one, own).any()) for one in _changed(base, winners))


def is_same(spec: Mapping[str, Any], other: Mapping[str, Any] | None) -> bool:
    """Return whether rows have the same specification. other: of a later version; None if it is the one before."""
    return other is None or {**spec, SCHEMA_SEQUENCE: None} == {**other, SCHEMA_SEQUENCE: None}


def _own_hashes(written: Sequence[Written]) -> Hashes | None:
    """Return the hashes of the keys of an apply; None if they are not known."""
    parts = [np.zeros(0, np.uint64)]
    for one in written:
        if one.hashes is None:
            return None
        parts.append(np.frombuffer(one.hashes, np.uint64))
    return np.concatenate(parts)


def _changed(table: Snapshot, winners: Sequence[TableVersion]) -> Iterator[Hashes]:
    """Yield the hashes of the keys whose records or tombstones some versions changed."""
    live = LiveRows(table)
    for version in winners:
        for file in version.files:
            yield live.hashes(file)
        for index in version.index:
            try:
                yield read_index(content_of(table.table, index), ["hash"]).column("hash").to_numpy()
            except ValueError as fault:
                raise damaged(table.table, index, fault) from None
