"""The key indexes that were used last. Their number and their memory are bounded, however many files a table has."""

from __future__ import annotations

from collections import OrderedDict

from mutator.dataset.versions.key_index import KeyIndex

_MOST = 1 << 14  # indexes: each may be a mapping, of which a process has at most 65,530 (vm.max_map_count)
_MEMORY = 1 << 28  # bytes


class KeptIndexes:
    """Key indexes by the paths of their files. One that is given up must be opened and verified again."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: OrderedDict[str, tuple[KeyIndex, int]] = OrderedDict()  # with its memory at its last use
        self._memory = self._left = 0

    def leave(self, memory: int) -> None:
        """Leave some of the memory to merged keys; indexes have the rest, or one of them does."""
        self._memory += memory - self._left
        self._left = memory

    def get(self, path: str) -> KeyIndex | None:
        """Return a key index; None if it is not kept."""
        if path not in self._kept:
            return None
        index, memory = self._kept.pop(path)
        self._memory -= memory
        self.keep(path, index)
        return index

    def keep(self, path: str, index: KeyIndex) -> None:
        """Keep a key index, and give up those that were not used for longest."""
        self._kept[path] = index, index.memory
        self._memory += index.memory
        while len(self._kept) > 1 and (len(self._kept) > _MOST or self._memory > _MEMORY):
            _, (_, memory) = self._kept.popitem(last=False)
            self._memory -= memory
