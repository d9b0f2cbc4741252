"""Small files that several processes create exclusively, and a log of numbered JSON entries made of them.

Creating a file exclusively decides which process was first. A file is never changed afterwards, so everybody who reads
it sees the same.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from mutator.dataset import checksummed_json
from mutator.dataset.commits import Commit
from mutator.errors import MutatorError, error
from mutator.storage import Entry, entries_of, read_each_if_exists, read_file, read_if_exists, storage_for
from mutator.storage.contract import CERTAIN


class Numbered(Protocol):
    """An entry of a log."""

    @property
    def number(self) -> int:
        """Its number, from 1."""


Item = TypeVar("Item", bound=Numbered)
_Parsed = TypeVar("_Parsed")


class ExclusiveFiles:
    """The files of one directory whose names match a pattern."""

    def __init__(self, directory: str, pattern: str) -> None:
        self.directory = directory
        self._name = re.compile(pattern)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return posixpath.join(self.directory, name)

    def create(self, name: str, content: bytes) -> None:
        """Create a file that must not exist. Raises StorageError; after a lost answer the file may exist."""
        storage = storage_for(self.directory)
        storage.make_directory(self.directory)
        with storage.create_new(self.path(name)) as stream:
            stream.write(content)

    def entries(self) -> list[tuple[re.Match[str], Entry]]:
        """Return the files whose names match, sorted by name, each with its match."""
        matches = ((self._name.fullmatch(entry.name), entry) for entry in entries_of(self.directory))
        return [(match, entry) for match, entry in matches if match]

    def remove(self, name: str) -> None:
        """Remove a file; it may be missing."""
        storage_for(self.directory).remove(self.path(name))


class NumberedLog(Generic[Item]):
    """Entries in checksummed JSON: a file ``<20 digits>.json`` for each number."""

    def __init__(
        self,
        directory: str,
        form: str,
        version: int,
        parse: Callable[[dict[str, Any]], Item],
        members: Callable[[Item], dict[str, Any]],
        damaged: str = "log.damaged",
        newer: str = "log.newer",
    ) -> None:
        """Describe a log; nothing is read yet.

        form, version: name and version of the format. parse: makes an entry of its JSON members; raises KeyError,
        TypeError or ValueError for other members. members: undoes it. damaged, newer: the kinds of its errors.
        """
        self._files = ExclusiveFiles(directory, r"([0-9]{20})\.json")
        self._form, self._version, self._damaged, self._newer = form, version, damaged, newer
        self._oldest = version
        self._parse, self._members = parse, members

    def path(self, number: int) -> str:
        """Return the path of an entry."""
        return self._files.path(_name(number))

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, ascending."""
        return [int(match[1]) for match, _ in self._files.entries()]

    def create(self, entry: Item) -> None:
        """Create an entry. Raises StorageError: ``storage.exists`` if its number is taken."""
        self._files.create(_name(entry.number), self.content(entry))

    def content(self, entry: Item) -> bytes:
        """Return the bytes of an entry."""
        return checksummed_json.dump(self._form, self._version_of(entry), self._members(entry))

    def _version_of(self, entry: Item) -> int:
        """Return the format version of an entry."""
        return self._version

    def read(self, number: int) -> Item:
        """Return an entry. Raises StateError if it is damaged or newer than this program."""
        return self.parsed(number, read_file(self.path(number)))

    def find(self, number: int) -> Item | None:
        """Return an entry, None if it does not exist. Raises StateError as ``read`` does."""
        data = read_if_exists(self.path(number))
        return None if data is None else self.parsed(number, data)

    def find_each(self, numbers: Sequence[int]) -> Iterator[Item | None]:
        """Yield some entries in turn, None for those that do not exist. Raises StateError as ``read`` does."""
        contents = read_each_if_exists([self.path(number) for number in numbers])
        for number, data in zip(numbers, contents, strict=True):
            yield None if data is None else self.parsed(number, data)

    def find_part(self, number: int, part: Callable[[dict[str, Any]], _Parsed]) -> _Parsed | None:
        """Return a part of an entry, None if it does not exist. Raises StateError as ``read`` does.

        part: makes it of the JSON members. To make the whole ``Item`` of a long entry takes several times as long.
        """
        data = read_if_exists(self.path(number))
        return None if data is None else self._parsed_by(part, number, data)

    def parsed(self, number: int, data: bytes) -> Item:
        """Return the entry of some bytes. Raises StateError if they are damaged, or newer than this program."""
        return self._parsed_by(self._parse, number, data)

    def _parsed_by(self, parse: Callable[[dict[str, Any]], _Parsed], number: int, data: bytes) -> _Parsed:
        path = self.path(number)
        try:
            members = checksummed_json.parse(data, self._form, self._version, oldest=self._oldest)
            if members["number"] != number:
                raise ValueError(f"it is the entry of version {members['number']}")
            return parse(members)
        except checksummed_json.Newer as fault:
            raise error(self._newer, path=path, version=fault.version, known=self._version) from None
        except (KeyError, TypeError, ValueError) as fault:
            raise error(self._damaged, path=path, why=fault) from None

    def remove(self, number: int) -> None:
        """Remove an entry; it may be missing."""
        self._files.remove(_name(number))


class CommitLog(NumberedLog[Commit]):
    """A log whose entries are commits. Those without the newest members have the format version before the newest."""

    def __init__(self, directory: str, form: str, version: int, *others: Any) -> None:
        super().__init__(directory, form, version, *others)
        self._oldest = version - 1

    def _version_of(self, entry: Commit) -> int:
        return self._version if entry.has_newest_members else self._oldest

    def commit(self, entry: Commit) -> bool:
        """Create an entry, and return whether it is there: False if another one has its number.

        If the answer of the creation is lost, the entry is read back. Raises StorageError of the kind
        ``commit.uncertain`` if it is unknown whether it was created.
        """
        try:
            self.create(entry)
        except MutatorError as fault:
            if fault.kind == "storage.exists":
                return False
            path = self.path(entry.number)
            try:
                there = self.find(entry.number)
                if there is not None and there.id == entry.id:
                    storage_for(path).sync(self._files.directory)
                    return True
            except MutatorError as second:
                raise error("commit.uncertain", path=path, version=entry.number, why=second) from None
            if there is not None:
                return False
            if fault.kind in CERTAIN:
                raise
            raise error("commit.uncertain", path=path, version=entry.number, why=fault) from None
        return True


def _name(number: int) -> str:
    return f"{number:020d}.json"
