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
        for since, added in reversed(self.later):
            for file in reversed(added):
                seen = again.setdefault(file.name, set())
                if (file.bytes, file.checksum) in seen:
                    continue
                seen.add((file.bytes, file.checksum))
                if file.committed >= earliest:
                    kept.append(file)
            earliest = max(earliest, since)
        # The first files may be many, and nearly all of them stay.
        first = self.base if earliest == "" else [file for file in self.base if file.committed >= earliest]
        kept.reverse()
        if not again.keys().isdisjoint([file.name for file in first]):
            first = [file for file in first if (file.bytes, file.checksum) not in again.get(file.name, ())]
        return (*first, *kept)

    def __eq__(self, other: object) -> bool:
        """Return whether the files are equal."""
        return isinstance(other, KnownFeed) and self.files == other.files

    def __hash__(self) -> int:
        """Return a hash of the files."""
        return hash(self.files)
