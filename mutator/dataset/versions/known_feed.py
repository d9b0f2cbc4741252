"""The feed files that a table knows to be merged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mutator.dataset.manifest import FeedFile


@dataclass(frozen=True, eq=False)
class KnownFeed:
    """Feed files, and what later versions add and forget: a version costs no more if many files are known."""

    base: tuple[FeedFile, ...] = ()
    later: tuple[tuple[str, tuple[FeedFile, ...]], ...] = ()  # of each version, as the arguments of ``after``

    def after(self, since: str, added: tuple[FeedFile, ...]) -> KnownFeed:
        """Return the files after a version. since: earlier files are forgotten. added: by the version."""
        if not since and not added:
            return self
        if "files" in vars(self):
            return KnownFeed(self.files, ((since, added),))
        return KnownFeed(self.base, (*self.later, (since, added)))

    @cached_property
    def files(self) -> tuple[FeedFile, ...]:
        """All files, in the order in which they were added last."""
        kept, again = list[FeedFile](), dict[str, set[tuple[int, str]]]()
        earliest = ""
        for since, added in (*self.later[::-1], ("", self.base)):
            found = list[FeedFile]()
            for file in reversed(added):
                seen = again.get(file.name)
                if seen is not None and (file.bytes, file.checksum) in seen:
                    continue
                if added is not self.base:
                    again.setdefault(file.name, set()).add((file.bytes, file.checksum))
                if file.committed >= earliest:
                    found.append(file)
            kept += found
            earliest = max(earliest, since)
        return tuple(kept[::-1])

    def __eq__(self, other: object) -> bool:
        """Return whether the files are equal."""
        return isinstance(other, KnownFeed) and self.files == other.files

    def __hash__(self) -> int:
        """Return a hash of the files."""
        return hash(self.files)
