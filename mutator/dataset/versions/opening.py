"""Open a version of a table: from the hint, a checkpoint, and the log; write the hint and checkpoints.

Nothing depends on the hint and the checkpoints: where they are lost or damaged, the log is read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from mutator.dataset.commits import Commit
from mutator.dataset.directory import not_a_table
from mutator.dataset.state import State
from mutator.dataset.versions.checkpoint import is_base, owner_of_base, version_of_checkpoint
from mutator.dataset.versions.log import Hint, TableLog
from mutator.dataset.versions.masks import Masks
from mutator.dataset.versions.nearby import NearbyEntries
from mutator.dataset.versions.packs import RESTORE, bytes_apart, packed, stays_from
from mutator.dataset.versions.snapshot import Snapshot, first_snapshot
from mutator.errors import MutatorError, error
from mutator.rules.byte_columns import Ints

_BUT_FOR = " (and earlier ones with tags: {})"
_EVERY = 8  # a version whose number is a multiple of this writes a checkpoint
_LONG = 512  # extents and removed files from which on an entry takes longer to read than the rest of opening
_MOST_APART = 4 << 20  # bytes of contents that a refreshed snapshot may keep in memory though packs have them
_MANY = 200_000  # files, above which checkpoints are a quarter as frequent, because each has all of them


def open_snapshot(table: str, number: int | None = None) -> Snapshot:
    """Return the snapshot of a version, by default the newest. Raises StateError, ConfigError for an unknown version.

    The hint names a checkpoint, and the entries after it are read one by one, up to the first that does not exist.
    """
    log = TableLog(table)
    hint = log.hinted()
    if number is not None and number < hint.earliest and number not in hint.kept:
        check_version(open_snapshot(table), number)  # a later cleaning may have taken back what the hint says
    return _opened(log, table, hint, number)


def snapshot_of(table: str, number: int) -> Snapshot:
    """Return the snapshot of a version, also of one that is gone, as long as nothing was removed. Raises StateError."""
    log = TableLog(table)
    return _opened(log, table, log.hinted(), number)


def _opened(log: TableLog, table: str, hint: Hint, number: int | None) -> Snapshot:
    found = None if hint.checkpoint is None else _from_checkpoint(log, table, hint.checkpoint, number)
    if found is None:
        found = _from_listed(log, table, number)
    found = forward(log, found, number, hint.number if number is None else number - 1)
    return _newest_of(log, found, hint) if number is None else found


def refreshed(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of the newest version, given an earlier one. Raises StateError if an entry is missing."""
    log = TableLog(snapshot.table)
    hint = log.hinted()
    if snapshot.version.number < hint.earliest:
        return open_snapshot(snapshot.table)  # the entries that follow it may be in the archive
    found = _newest_of(log, _newest(log, snapshot, hint), hint)
    number = found.version.number
    if number // _EVERY == snapshot.version.number // _EVERY:
        return found
    # A checkpoint names packs, so the contents that they have need not stay in memory. If that of the present version
    # is being written just now, the one before it serves.
    if bytes_apart(found.files) <= _MOST_APART:
        return found.folded()
    if hint.checkpoint is not None and version_of_checkpoint(hint.checkpoint) > snapshot.version.number - _EVERY:
        begin = _from_checkpoint(log, snapshot.table, hint.checkpoint, number)
        if begin is not None:
            return replace(forward(log, begin, number), keys=found.keys)
    return found.folded()


def _newest(log: TableLog, snapshot: Snapshot, hint: Hint) -> Snapshot:
    """Return the snapshot of the newest version, given an earlier one, which the log may not have any more."""
    found = snapshot
    for version in NearbyEntries(log).after(snapshot.version).versions:
        found = found.after(version)
    number = found.version.number
    if found is snapshot and hint.number is not None and number <= hint.number:
        found = forward(log, found, known=hint.number)
        if found.version.number < hint.number and _is_archived(log, snapshot.version):
            return open_snapshot(snapshot.table)  # a cleaning that wrote no hint took the entries away
        return found
    versions = list(log.following(number - 1, max(hint.number or 0, number)))
    if not versions or versions[0].id != found.version.id:
        if _is_archived(log, snapshot.version):
            return open_snapshot(snapshot.table)
        _check_is_there(log, snapshot.version)  # perhaps there is another table by now
        return forward(log, snapshot, known=hint.number)
    for version in versions[1:]:
        found = found.after(version)
    return found


def _newest_of(log: TableLog, found: Snapshot, hint: Hint) -> Snapshot:
    """Return the snapshot of the newest version, given the last one whose entry the log seems to have.

    Raises StateError if the next entry is lost, or if the last one is not that of the hint.
    """
    number = found.version.number
    if number == hint.number and hint.id not in (None, found.version.id):
        raise error("table.log.other", path=log.entry_path(number), witness=log.hint_path)
    if hint.number is not None and (number >= hint.number or next(log.following(number), None) is not None):
        return found  # in the second case, another process has just committed the next one
    newest = log.newest()
    # A cleaning may have moved the next entries to the archive meanwhile.
    for version in log.after(number, newest) if newest is not None else ():
        found = found.after(version)
    if hint.number is not None and found.version.number < hint.number:
        raise lost(log, number + 1, log.hint_path)
    return found


def _is_archived(log: TableLog, version: Commit) -> bool:
    """Return whether the archive has a version. Raises StateError if it is damaged."""
    content = log.archive.content(version.number)
    return content is not None and log.parsed(version.number, content).id == version.id


def _check_is_there(log: TableLog, version: Commit) -> None:
    """Raise StateError if the log has no version any more that it had before, or another one in its place."""
    path = log.entry_path(version.number)
    if version.number not in log.numbers():
        raise error("table.log.replaced", path=path, what="was removed")
    if log.read(version.number).id != version.id:
        raise error("table.log.replaced", path=path, what="became another one")


def lost(log: TableLog, number: int, witness: str) -> MutatorError:
    """Return the error of an entry that is missing. witness: path of a file that shows that it existed."""
    return error("table.log.lost", path=log.entry_path(number), version=number, witness=witness)


def forward(log: TableLog, snapshot: Snapshot, number: int | None = None, known: int | None = None) -> Snapshot:
    """Return the snapshot of a later version, by default the newest, given an earlier one.

    known: the number of a version that exists.
    """
    for version in log.following(snapshot.version.number, known) if number != snapshot.version.number else ():
        snapshot = snapshot.after(version)
        if version.number == number:
            break
    if number is not None and snapshot.version.number != number:
        newest = log.newest()
        if newest is None or not snapshot.version.number < number <= newest:
            raise unknown(log, snapshot.table, number)
        check_version(open_snapshot(snapshot.table), number)
        # An entry is missing, or a cleaning has just moved it to the archive.
        for version in log.after(snapshot.version.number, number):
            snapshot = snapshot.after(version)
    return snapshot


def check_version(snapshot: Snapshot, number: int) -> None:
    """Raise ConfigError if a version does not exist up to that of a snapshot, or is gone."""
    newest, left = snapshot.version.number, snapshot.state.cleaning.left
    if not 0 <= number <= newest:
        raise error("table.version", path=snapshot.table, version=number, earliest=left.earliest, newest=newest)
    if not left.has(number):
        raise gone(snapshot, number)


def gone(snapshot: Snapshot, number: int) -> MutatorError:
    """Return the error of a version that was cleaned. snapshot: the newest one."""
    left = snapshot.state.cleaning.left
    tags = sorted(name for name, tagged in snapshot.state.tags.items() if tagged < left.earliest)
    earliest = f"{left.earliest}{_BUT_FOR.format(', '.join(tags)) if tags else ''}"
    return error(
        "table.version.gone", path=snapshot.table, version=number, earliest=earliest, newest=snapshot.version.number
    )


def unknown(log: TableLog, table: str, number: int) -> MutatorError:
    """Return the error of a version that does not exist, or is gone."""
    newest = open_snapshot(table)
    if 0 <= number <= newest.version.number:
        return gone(newest, number)
    earliest = newest.state.cleaning.earliest
    return error("table.version", path=table, version=number, earliest=earliest, newest=newest.version.number)


def add_hint(log: TableLog, snapshot: Snapshot, checkpoint: str | None, listed: int) -> Snapshot:
    """Write a hint, and a checkpoint if one is due; return the snapshot to go on with.

    checkpoint: name of the newest one. listed: ``Commit.listed`` of the version. Nothing depends on the hint and
    the checkpoint. With a new checkpoint, some earlier ones are removed.
    """
    number = snapshot.version.number
    # Else each opening would read the long entry, until a later version writes a checkpoint. A checkpoint has all
    # extents and masks of the table, so it is only written at once for a version that is a good part of these.
    is_long = listed >= _LONG and _EVERY * listed >= snapshot.extent_count
    is_due = is_long or number % (_EVERY if len(snapshot.files) <= _MANY else 4 * _EVERY) == 0
    if is_due:
        snapshot = snapshot.folded()
        stays = stays_from(snapshot.state.cleaning.earliest)
        snapshot = replace(snapshot, files=packed(log, number, snapshot.files, stays))
        checkpoint = log.write_checkpoint(snapshot.files, snapshot.state, snapshot.mask_rows())
    left = snapshot.state.cleaning.left
    if checkpoint is not None and version_of_checkpoint(checkpoint) < left.earliest:  # it will be removed
        checkpoint = left.bases[left.earliest]
    log.write_hint(snapshot.version, checkpoint, left)
    if is_due:
        with suppress(MutatorError):  # the next checkpoint tries it again
            log.remove_checkpoints(number)
    return snapshot


def _from_checkpoint(log: TableLog, table: str, name: str, number: int | None) -> Snapshot | None:
    """Return the snapshot of a checkpoint; None if it cannot be read, or is of a later version than a wanted one.

    Nor is it used if it is of another table. Raises StateError if its version has no entry, and none follows it.
    """
    if number is not None and version_of_checkpoint(name) > number:
        return None
    read = log.checkpoint(name)
    if read is None:
        return None
    return _snapshot_of(log, table, read) if _is_of(log, table, read[1].commit, name, number) else None


def base_of(log: TableLog, table: str, name: str) -> Snapshot | None:
    """Return the snapshot of a checkpoint that the log begins with; None if it is lost or damaged."""
    read = log.checkpoint(name)
    if read is None or (read[2] is not None and log.masks(read[2]) is None):
        return None
    return _snapshot_of(log, table, read)


def _snapshot_of(log: TableLog, table: str, read: tuple[Any, State, str | None]) -> Snapshot:
    files, state, masks = read
    number = state.commit.number
    if masks is None:
        return Snapshot(table, state, files, Masks(table, since=number, until=number))
    base = partial(_masks_of, log, table, number, masks)
    return Snapshot(table, state, files, Masks(table, base, since=number, until=number))


def _is_of(log: TableLog, table: str, version: Commit, name: str, wanted: int | None) -> bool:
    """Return whether the version of a checkpoint is one of the log: the next entry follows it, or it has an entry.

    The newest cleaning names the checkpoint of a tagged version, which serves no other one. The entry of that version
    is in the archive, which may be damaged. wanted: number of a version.
    """
    damage: MutatorError | None = None
    for number, is_next in ((version.number + 1, True), (version.number, False)):
        try:
            own, parent = log.id_and_parent(number)
        except MutatorError as fault:
            damage = damage or fault
            continue
        if own is not None:
            return parent in (None, version.id) if is_next else own == version.id
    if damage is None and log.archive.last() >= version.number:
        # Another checkpoint is of no use, because entries that follow it are in the archive: a slow writer has just
        # written it, or named it in the hint.
        if not is_base(name) or wanted != version.number:
            return False
        return open_snapshot(table).state.cleaning.left.bases.get(wanted) == name or _is_archived(log, version)
    raise damage or lost(log, version.number, log.checkpoint_path(name))


def _masks_of(log: TableLog, table: str, number: int, name: str) -> dict[str, tuple[Ints, Ints, Any]]:
    found = log.masks(name)
    if found is not None:
        return found
    # The file was removed with its checkpoint, or is lost. A cleaning that kept the version wrote another checkpoint of
    # it; else the checkpoints before it and the log have all that it had.
    base = open_snapshot(table).state.cleaning.left.bases.get(number)
    if base is not None and owner_of_base(base) == owner_of_base(name):
        raise error("table.file", path=log.checkpoint_path(name), why="it is missing or damaged", cure=RESTORE)
    snapshot = None if base is None else base_of(log, table, base)
    if snapshot is None:
        snapshot = forward(log, _from_listed(log, table, number - 1), number)
    return {path: (hidden, touched, orders) for path, hidden, touched, orders in snapshot.mask_rows()}


def _from_listed(log: TableLog, table: str, number: int | None) -> Snapshot:
    """Return the snapshot of the newest checkpoint that can be read, else of version 0."""
    listed, names = None, log.checkpoints()
    while listed != names:
        for _, name in names:
            found = _from_checkpoint(log, table, name, number)
            if found is not None:
                return found
        if not log.archive.last():
            return _replayed(log, table, 0)
        listed, names = names, log.checkpoints()  # a cleaning may have replaced them meanwhile
    # Files of earlier versions are gone, so to read all entries is of no use.
    if number is not None:
        check_version(open_snapshot(table), number)
    raise error("table.base", path=log.checkpoint_path(""))


def _replayed(log: TableLog, table: str, number: int) -> Snapshot:
    """Return the snapshot of a version by reading all entries up to it."""
    first = next(log.following(-1), None)
    if first is None:
        if log.newest() is not None:
            log.read(0)  # raises the error of the missing entry
        raise error("table.missing", path=table, cure=not_a_table(table))
    snapshot = first_snapshot(table, first)
    for later in range(1, number + 1):
        snapshot = snapshot.after(log.read(later))
    return snapshot
