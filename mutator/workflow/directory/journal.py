"""The journal: the files that a run has claimed and not yet released, so that another process can put them back."""

from dataclasses import dataclass

from mutator.dataset import checksummed_json
from mutator.dataset.commit.process import Owner
from mutator.dataset.commits import Arrived
from mutator.dataset.numbered_log import ExclusiveFiles
from mutator.storage import read_if_exists
from mutator.workflow.directory.bad_files import BadFile, parsed
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator journal"
_VERSION = 3  # 1 had no owner, 2 no bad files


@dataclass(frozen=True)
class Journal:
    """A run that has begun."""

    run: str
    action: str  # run | restore; in JSON its name is "kind"
    since: int  # version that the run started from: where it is one of the base, the run can only become the next one
    started: str
    claimed: tuple[Arrived, ...] = ()
    owner: Owner | None = None  # the process; None in journals of format version 1
    bad: tuple[BadFile, ...] = ()  # of the claimed files, those that are set aside if the run commits


def begin(base: Base, journal: Journal) -> None:
    """Note which files a run is about to claim."""
    _files(base).create(f"{journal.run}.json", _content(journal))


def rewrite(base: Base, journal: Journal) -> None:
    """Note more about a run: before its commit, which files it sets aside."""
    base.storage.replace(base.at("_mutator", "runs", f"{journal.run}.json"), _content(journal))


def end(base: Base, run: str) -> None:
    """Forget a run: every file that it claimed is where it belongs."""
    _files(base).remove(f"{run}.json")


def journals(base: Base) -> list[Journal]:
    """Return the runs that have not ended, by ID. A run with a damaged journal claimed the files in working/<run>."""
    contents = ((match[1], read_if_exists(entry.path)) for match, entry in _files(base).entries())
    return [_journal(run, data) for run, data in contents if data is not None]  # None: it has just ended


def _content(journal: Journal) -> bytes:
    return checksummed_json.dump_record(_FORMAT, _VERSION, journal)


def _journal(run: str, data: bytes) -> Journal:
    try:
        found = {"owner": None, "bad": (), **checksummed_json.parse(data, _FORMAT, _VERSION)}
        members = checksummed_json.attributes(Journal, found)
        owner = members["owner"] and Owner(**members["owner"])
        claimed, bad = tuple(Arrived(**file) for file in members["claimed"]), parsed(members["bad"])
        return Journal(**members | {"claimed": claimed, "owner": owner, "bad": bad})
    except (TypeError, ValueError):
        return Journal(run, "run", -1, "")


def _files(base: Base) -> ExclusiveFiles:
    return ExclusiveFiles(base.at("_mutator", "runs"), r"([^.].*)\.json")
