"""The journal: what a run that has not ended has taken, so that somebody else can put it back."""

from __future__ import annotations

import posixpath
from dataclasses import asdict, dataclass, fields

from mutator.dataset import checksummed_json
from mutator.dataset.version_log import Arrived
from mutator.errors import MutatorError
from mutator.storage import blocks, entries_of
from mutator.workflow.directory.base import Base

__all__ = ["Journal", "begin", "end", "journals"]

_FORMAT = "mutator journal"


@dataclass(frozen=True)
class Journal:
    """A run that has begun."""

    run: str
    action: str  # run | restore
    since: int  # version that it started from: it can only become the next one
    started: str
    claimed: tuple[Arrived, ...] = ()


def begin(base: Base, journal: Journal) -> None:
    """Write down what a run is about to take."""
    path = base.journal(journal.run)
    base.storage.make_directory(posixpath.dirname(path))
    with base.storage.create_new(path) as stream:
        stream.write(checksummed_json.dump(_FORMAT, 1, asdict(journal, dict_factory=checksummed_json.json_members)))


def end(base: Base, run: str) -> None:
    """Forget a run: all it took is where it belongs."""
    base.storage.remove(base.journal(run))


def journals(base: Base) -> list[Journal]:
    """Return the runs that have not ended, by id; one whose journal cannot be read has taken what lies in working/."""
    found = []
    for entry in entries_of(base.at("_mutator", "runs")):
        run, suffix = posixpath.splitext(entry.name)
        if suffix != ".json" or run.startswith("."):
            continue
        try:
            with base.storage.open(entry.path) as stream:
                members = checksummed_json.parse(b"".join(blocks(stream)), _FORMAT, 1)
            members["action"] = members.pop("kind")
            if set(members) != {part.name for part in fields(Journal)}:
                raise ValueError("its members are not those of this format")
            members["claimed"] = tuple(Arrived(**part) for part in members["claimed"])
            found.append(Journal(**members))
        except (KeyError, ValueError, TypeError):
            found.append(Journal(run, "run", -1, ""))
        except MutatorError as fault:
            if fault.kind != "storage.missing":  # somebody else has ended it
                raise
    return found
