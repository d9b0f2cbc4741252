"""Small files that several processes create exclusively, and a log of numbered JSON entries made of them.

Creating a file exclusively decides which process was first. A file is never changed afterwards, so everybody who reads
it sees the same.
"""

import posixpath
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from mutator.dataset import checksummed_json
from mutator.errors import error
from mutator.storage import Entry, entries_of, read_file, storage_for

Item = TypeVar("Item")


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
    """Entries in checksummed JSON: a file ``<20 digits>.json`` for each number.

    form, version: name and version of the format. parse: makes an entry, which has a ``number``, of its JSON members;
    raises KeyError, TypeError or ValueError for other members.
    """

    def __init__(self, directory: str, form: str, version: int, parse: Callable[[dict[str, Any]], Item]) -> None:
        self._files = ExclusiveFiles(directory, r"([0-9]{20})\.json")
        self._form, self._version, self._parse = form, version, parse

    def path(self, number: int) -> str:
        """Return the path of an entry."""
        return self._files.path(_name(number))

    def numbers(self) -> list[int]:
        """Return the numbers of all entries, ascending."""
        return [int(match[1]) for match, _ in self._files.entries()]

    def create(self, number: int, entry: Any) -> None:
        """Create an entry, a dataclass. Raises StorageError: ``storage.exists`` if the number is taken."""
        self._files.create(_name(number), checksummed_json.dump_record(self._form, self._version, entry))

    def read(self, number: int) -> Item:
        """Return an entry. Raises StateError if it is damaged or newer than this program."""
        path = self.path(number)
        data = read_file(path)
        try:
            members = checksummed_json.parse(data, self._form, self._version)
            if members["number"] != number:
                raise ValueError(f"it is the entry of version {members['number']}")
            return self._parse(members)
        except checksummed_json.Newer as fault:
            raise error("log.newer", path=path, version=fault.version, known=self._version) from None
        except (KeyError, TypeError, ValueError) as fault:
            raise error("log.damaged", path=path, why=fault) from None

    def remove(self, number: int) -> None:
        """Remove an entry; it may be missing."""
        self._files.remove(_name(number))


def _name(number: int) -> str:
    return f"{number:020d}.json"
