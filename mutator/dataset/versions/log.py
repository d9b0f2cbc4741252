"""The log of a table: ``_mutator/table/log/<20 digits>.json``, one entry a version, and checkpoints of it.

Creating an entry is the one commit point of every operation on the table. A checkpoint spares reading the entries up to
its version. ``_mutator/table/hint.json`` names the newest checkpoint and a version that exists: with it a table is
opened without a listing. The hint and the checkpoints are derived; if they are lost or damaged, the log is read.

After a cleaning, the log begins with a *base*: a checkpoint that is not derived, because files of earlier versions are
gone. Earlier entries are in the archive (``archive``). They are only looked up there where the log has none.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mutator.dataset import checksummed_json, manifest
from mutator.dataset.commits import Commit, Left
from mutator.dataset.numbered_log import CommitLog
from mutator.dataset.state import State
from mutator.dataset.versions import checkpoint
from mutator.dataset.versions.archive import FIRST, LogArchive
from mutator.dataset.versions.checkpoint import BASE, CHECKPOINT, MASKS, is_kept, version_of_checkpoint
from mutator.dataset.versions.table_codec import members_of, version_of
from mutator.errors import MutatorError, error, suppressed
from mutator.errors.failpoints import failpoint
from mutator.errors.quick_dataclass import dataclass
from mutator.storage import entries_of, read_if_exists, storage_for

DIRECTORY = manifest.TABLE
FORMAT_VERSION = 8
_AT_ONCE = 8  # entries that are read at once
_FAULTS = ("table.log.damaged", "table.log.newer")
_HINT = ("mutator table hint", 4)


@dataclass(frozen=True)
class Hint:
    """A version that exists, and the newest checkpoint; None where the hint does not say it."""

    number: int | None = None
    checkpoint: str | None = None  # name
    id: str | None = None  # of the version
    earliest: int = 0  # version that is there
    kept: tuple[int, ...] = ()  # earlier versions that are there, too


class TableLog:
    """The versions of a table."""

    def __init__(self, table: str) -> None:
        self.path = posixpath.join(table, DIRECTORY)
        self._checkpoints = posixpath.join(self.path, "checkpoints")
        self.hint_path = posixpath.join(self.path, "hint.json")
        directory = posixpath.join(self.path, "log")
        self.archive = LogArchive(posixpath.join(self.path, "archive"))
        self._entries = CommitLog(directory, "mutator table", FORMAT_VERSION, version_of, members_of, *_FAULTS)

    def entry_path(self, number: int) -> str:
        """Return the path of an entry."""
        return self._entries.path(number)

    def has(self, version: Commit) -> bool:
        """Return whether the log has this version. Raises StateError if the entry of its number is damaged."""
        return self.id_and_parent(version.number)[0] == version.id

    def id_and_parent(self, number: int) -> tuple[str | None, str | None]:
        """Return the ID of a version, and that of the version before it; (None, None) if it has no entry.

        Raises StateError if the entry is damaged.
        """
        return self._entries.find_part(number, _id_and_parent) or (None, None)

    def content(self, version: Commit) -> bytes:
        """Return the bytes of an entry."""
        return self._entries.content(version)

    def parsed(self, number: int, content: bytes) -> Commit:
        """Return the version of the bytes of an entry. Raises StateError if they are damaged."""
        return self._entries.parsed(number, content)

    def read(self, number: int) -> Commit:
        """Return a version. Raises StateError if its entry is missing, damaged, or newer than this program."""
        found = self._entries.find(number)
        if found is None:
            content = self.archive.content(number)
            if content is None:
                raise self.missing(number)
            found = self.parsed(number, content)
        return found

    def missing(self, number: int) -> MutatorError:
        """Return the error of an entry that neither the log nor the archive has."""
        path = self._entries.path(number)
        return error("table.log.damaged", path=path, why="it is missing, and later versions exist")

    def chain(self, before: Commit | None, last: int) -> Iterator[Commit]:
        """Yield the versions after one, by default all, up to ``last``.

        Raises StateError if one is missing or damaged, or does not follow the one before it.
        """
        for version in self.after(-1 if before is None else before.number, last):
            if before is not None:
                self.check_parent(version, before)
            yield version
            before = version

    def check_parent(self, version: Commit, before: Commit) -> None:
        """Raise StateError if a version does not follow the one before it."""
        if version.parent is not None and version.parent != before.id:
            name = posixpath.basename(self.entry_path(before.number))
            why = f"it follows another version than that of {name}, so one of the two entries is not of this table"
            raise error("table.log.damaged", path=self.entry_path(version.number), why=why)

    def after(self, first: int, last: int) -> Iterator[Commit]:
        """Yield the versions after one, up to another one. Raises StateError if an entry is missing or damaged."""
        number = first + 1
        while number <= last:
            found = self._entries.find(number)
            if found is not None:
                yield found
                number += 1
                continue
            before = number
            for archived, content in self.archive.contents(number, last):
                if archived == number:
                    yield self.parsed(number, content)
                    number += 1
            if number == before:
                raise self.missing(number)

    def backwards(self, last: int, first: int) -> Iterator[Commit]:
        """Yield the versions from one back to an earlier one. Raises StateError if an entry is missing or damaged."""
        number = last
        while number >= first:
            found = self._entries.find(number)
            if found is not None:
                yield found
                number -= 1
                continue
            before = number
            for archived, content in self.archive.backwards(number):
                if archived == number:
                    yield self.parsed(number, content)
                    number -= 1
                if number < first:  # earlier archives are not read
                    return
            if number == before:
                raise self.missing(number)

    def following(self, number: int, known: int | None = None) -> Iterator[Commit]:
        """Yield the versions after one, as far as there are any. known: the number of a version that exists.

        Where reading is mostly waiting, entries are read at once: up to the one after ``known``, then more each time.
        """
        width = 1
        while True:
            ahead = 0 if known is None else known + 1 - number
            numbers = range(number + 1, number + 1 + min(max(width, ahead), _AT_ONCE))
            for found in self._entries.find_each(numbers):
                if found is None:
                    return
                yield found
            number, width = numbers[-1], 2 * width

    def all_after(self, number: int) -> Iterator[Commit]:
        """Yield the versions after one, as far as there are any, from the archive, too."""
        newest = self.newest()  # entries up to it may be archived meanwhile
        last = number if newest is None else max(number, newest)
        yield from self.after(number, last)
        yield from self.following(last)

    def newest(self) -> int | None:
        """Return the number of the newest version, found by a listing; None without versions."""
        return max(self.numbers(), default=None)

    def numbers(self) -> list[int]:
        """Return the numbers of all versions, found by a listing."""
        with suppressed("storage.missing"):
            return self._entries.numbers()
        return []

    def commit(self, version: Commit) -> bool:
        """Create the entry of a version; return False if another one has its number. ``confirm`` must follow.

        Raises StorageError of the kind ``commit.uncertain`` if it is unknown whether it exists.
        """
        return self._entries.commit(version)

    def confirm(self, version: Commit, known: Commit) -> None:
        """Make sure that an entry that was created just now had not existed before, and been archived.

        known: an earlier version that was in the log before. Raises StateError of the kind
        ``table.log.archived`` if a later version exists long since; then the entry is removed. Raises StorageError of
        the kind ``commit.uncertain`` if the storage does not answer.
        """
        for is_last in (False, True):
            try:
                self._check_is_new(version, known)
                break
            except MutatorError as fault:
                if fault.kind == "table.log.archived":
                    raise
                if is_last:  # it most probably exists, so its files must stay
                    path = self.entry_path(version.number)
                    raise error("commit.uncertain", path=path, version=version.number, why=fault) from None

    def _check_is_new(self, version: Commit, known: Commit) -> None:
        """Raise StateError if an entry had existed before, and was moved to the archive.

        Entries leave the log one by one, the earliest first, and none before the archive has it. So if an earlier entry
        is still there, this one never existed before. It must be that of the same version: a writer that was killed
        before it looked may have left another one. The archive decides otherwise: this writer may also be so slow that
        its own entry, once created, was archived.
        """
        number = version.number
        if number < FIRST or (FIRST <= known.number < number and self._has(known)):
            return
        content = self.archive.content(number)
        if content is not None and self.parsed(number, content).id != version.id:
            self._entries.remove(number)
            raise error("table.log.archived", path=self.path, version=number)

    def contents(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield (number, bytes) of the entries from one number to another. Raises StateError if one is damaged."""
        for number in range(first, last + 1):
            content = read_if_exists(self.entry_path(number))
            if content is None:
                content = self.archive.content(number)  # another cleaning has moved it just now
            if content is None:
                raise self.missing(number)
            self.parsed(number, content)
            yield number, content

    def _has(self, version: Commit) -> bool:
        """Return whether the log has this version, in an entry that is not damaged."""
        with suppressed("table.log.damaged"):
            return self.has(version)
        return False

    def remove_entry(self, number: int) -> None:
        """Remove an entry that the archive has; it may be missing."""
        self._entries.remove(number)

    def hinted(self) -> Hint:
        """Return the hint; an empty one if it cannot be read."""
        content = read_if_exists(self.hint_path)
        if content is None:
            return Hint()
        with suppress(ValueError, KeyError, TypeError):
            members = checksummed_json.parse(content, *_HINT)
            number, kept = int(members["number"]), tuple(members["kept"])
            return Hint(number, members["checkpoint"], members["id"], members["earliest"], kept)
        return Hint()

    def write_hint(self, version: Commit, name: str | None, left: Left | None = None) -> None:
        """Write a hint. version: that exists. name: of a checkpoint. left: what cleanings have left up to it."""
        left = left or Left()
        kept = [one for one in sorted(left.bases) if one < left.earliest]
        members: dict[str, Any] = {"number": version.number, "checkpoint": name, "id": version.id}
        members |= {"earliest": left.earliest, "kept": kept}
        storage_for(self.hint_path).replace(self.hint_path, checksummed_json.dump(*_HINT, members))
        failpoint("table.hint.written")

    def checkpoints(self) -> list[tuple[int, str]]:
        """Return (version, name) of all checkpoints, newest first, found by a listing."""
        with suppressed("storage.missing"):
            names = [entry.name for entry in entries_of(self._checkpoints)]
            found = ((version_of_checkpoint(name), name) for name in names)
            return sorted(((number, name) for number, name in found if number >= 0), reverse=True)
        return []

    def checkpoint_path(self, name: str) -> str:
        """Return the path of a checkpoint."""
        return posixpath.join(self._checkpoints, name)

    def checkpoint(self, name: str) -> tuple[Any, State, str | None] | None:
        """Return the files, the state and the name of the masks of a checkpoint; None if it is missing or damaged."""
        content = self._verified(name)
        if content is None:
            return None
        try:
            return checkpoint.read_files(content)
        except ValueError:  # also if it is newer than this program, which then reads the log
            return None

    def contents_of(self, name: str) -> Any | None:
        """Return the columns ``checkpoint.CONTENTS`` of a checkpoint; None if it is missing or damaged."""
        content = self._verified(name)
        if content is None or version_of_checkpoint(name) < 0:
            return None
        with suppress(ValueError):
            return checkpoint.read_contents(content)
        return None

    def masks(self, name: str) -> dict[str, Any] | None:
        """Return the masks of a checkpoint; None if they are missing or damaged."""
        content = self._verified(name)
        return None if content is None else checkpoint.read_masks(content)

    def pack(self, name: str) -> bytes | None:
        """Return the content of a pack; None if it is missing or damaged."""
        return self._verified(name)

    def write_pack(self, number: int, content: bytes) -> str:
        """Write a pack, and return its name. It may exist. number: of the version."""
        name = f"{number:020d}-{checkpoint.digest_of(content)}.pack"
        path = self.checkpoint_path(name)
        storage = storage_for(path)
        storage.make_directory(self._checkpoints)
        storage.replace(path, content)
        return name

    def write_base(self, columns: Any, state: State, masks: list[Any], run: str) -> str:
        """Write the checkpoint that the log begins with, and return its name. run: of the cleaning, in the name."""
        return self._write_checkpoint(columns, state, masks, f".{run}{BASE}")

    def write_checkpoint(self, columns: Any, state: State, masks: list[Any]) -> str:
        """Write a checkpoint, and return its name. It may exist."""
        return self._write_checkpoint(columns, state, masks, "")

    def _write_checkpoint(self, columns: Any, state: State, masks: list[Any], suffix: str) -> str:
        number = state.commit.number
        masks_name = None
        if masks:
            content = checkpoint.written_masks(masks)
            masks_name = f"{number:020d}-{checkpoint.digest_of(content)}{suffix}.masks"
            self._create(masks_name, content)
        content = checkpoint.written_files(columns, state, masks_name)
        name = f"{number:020d}-{checkpoint.digest_of(content)}{suffix}.files"
        self._create(name, content)
        failpoint("table.checkpoint.written")
        return name

    def remove_checkpoints(self, newest: int) -> None:
        """Remove those checkpoints that are not kept, given the version of the newest one. Raises StorageError.

        Packs stay, because later checkpoints name them.
        """
        storage, names = storage_for(self._checkpoints), [entry.name for entry in entries_of(self._checkpoints)]
        for pattern in (CHECKPOINT, MASKS):
            matches = [match for name in names if (match := pattern.fullmatch(name))]
            removed = [match[0] for match in matches if not is_kept(int(match[1]), newest)]
            for name in removed:
                storage.remove(posixpath.join(self._checkpoints, name))
                failpoint("table.checkpoint.removed")
            if removed:
                storage.sync(self._checkpoints)  # so that no checkpoint comes back without its masks

    def _create(self, name: str, content: bytes) -> None:
        storage = storage_for(self._checkpoints)
        storage.make_directory(self._checkpoints)
        with suppressed("storage.exists"), storage.create_new(posixpath.join(self._checkpoints, name)) as stream:
            stream.write(content)

    def _verified(self, name: str) -> bytes | None:
        try:
            content = read_if_exists(posixpath.join(self._checkpoints, name))
        except MutatorError:
            return None
        digest = name.partition("-")[2].partition(".")[0]
        return content if content is not None and checkpoint.digest_of(content) == digest else None


def _id_and_parent(members: dict[str, Any]) -> tuple[str, str | None]:
    return members["id"], members["parent"]
