"""Compare the filters of keys with the keys of their files: runs do not look for a key where a filter excludes it."""

import posixpath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mutator.dataset.filter_packs import KeyFilter, read_row_group, row_groups
from mutator.engine.split_content import damage
from mutator.plan.splits import Input
from mutator.rules.bloom_filter import may_contain
from mutator.rules.byte_columns import Flags
from mutator.rules.order_columns import flags
from mutator.storage import storage_for


class FileFilters:
    """The filters of the files that a task reads. Files that were written together have theirs in one row group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, int]] = {}  # path of a pack -> path of a file -> number of its row group
        self._read: tuple[str, int] | None = None
        self._filters: dict[str, KeyFilter] = {}  # of the row group that was read last

    def excluded(self, file: Input, hashes: Any, first: Any) -> Flags:
        """Return a bool array: whether the filter of a file, or its bounds, exclude each key.

        hashes: of the keys. first: pa.Array of the first ID value of each key. Raises Damage where a pack cannot be
        read.
        """
        part = file.source.part
        if part is None or part.filter is None:
            return np.zeros(len(hashes), np.bool_)
        pack = posixpath.join(file.source.path.removesuffix(f"/{part.path}"), part.filter)
        try:
            found = self._of(pack, part.path)
        except (pa.ArrowException, OSError, ValueError, LookupError) as fault:
            raise damage(pack, f"a pack of filters: {fault}") from None
        if found is None:  # a run stops that looks for a key in this file
            return np.ones(len(hashes), np.bool_)
        excluded = ~may_contain(found.words, hashes) | flags(pc.less(first, pa.scalar(found.low, first.type)))
        if found.high is not None:
            excluded |= flags(pc.greater(first, pa.scalar(found.high, first.type)))
        return excluded

    def _of(self, pack: str, path: str) -> KeyFilter | None:
        if pack not in self._groups:
            with storage_for(pack).open(pack) as stream:
                self._groups[pack] = row_groups(stream)
        number = self._groups[pack].get(path)
        if number is None:
            return None
        if self._read != (pack, number):
            with storage_for(pack).open(pack) as stream:
                self._filters = {found.path: found for found in read_row_group(stream, number)}
            self._read = pack, number
        return self._filters.get(path)
