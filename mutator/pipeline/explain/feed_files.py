"""Feed files that were merged, found again where a user says that they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from mutator.config import Config
from mutator.dataset import checksum
from mutator.dataset.commits import FeedFile
from mutator.errors import MutatorError
from mutator.plan.inspect.feed_files import feed_entries
from mutator.storage import Entry, absolute

NOT_FOUND = "not found: give the directory where it is with --feed"


@dataclass(frozen=True)
class GivenFiles:
    """The files that a user names."""

    entries: Sequence[Entry]

    def path_of(self, part: FeedFile) -> str | None:
        """Return the path of a file that has the name, the size and the content of a merged one."""
        for entry in self.entries:
            if entry.name == part.name and entry.bytes == part.bytes:
                try:
                    if checksum.difference(entry.path, part.checksum) is None:
                        return entry.path
                except MutatorError:
                    continue
        return None


def files_at(feed: Sequence[str], config: Config) -> GivenFiles:
    """Return the files at some paths. Raises MutatorError for paths that cannot be used."""
    entries, _ = feed_entries([absolute(one) for one in feed], config.inputs.control_suffix)
    return GivenFiles(list(entries.values()))
