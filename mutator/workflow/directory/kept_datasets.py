"""The datasets of versions that a base still has."""

from mutator.dataset.commits import Commit
from mutator.dataset.version_log import NONE, Log
from mutator.errors import error
from mutator.workflow.directory.paths import Base, given_master, master_of, open_base


def dataset_of(place: str, number: int | None) -> str:
    """Return the path of the dataset of a version. number: None for the latest; 0 for the master before the first.

    Raises ConfigError where it is not kept any more.
    """
    base = open_base(place)
    log = Log(base.path)
    latest = log.latest()
    if number is None or number == latest.number:
        return master_of(base, latest)
    if number == 0:
        return given_master(base, log)
    version = log.read(number) if number in log.numbers() else NONE
    if version.dataset is not None and version.dataset == latest.dataset:
        return master_of(base, latest)
    found = base.find(version.dataset) if version.dataset is not None else None
    if found is None:
        kept = [one.number for one in log.all() if one.dataset is not None and _is_kept(base, one, latest)]
        kept = [0, *kept] if base.storage.stat(given_master(base, log)) is not None else kept
        what = f"version with a dataset that is still there; those are {', '.join(map(str, kept))}"
        raise error("path.missing", path=f"{place}@{number}", what=what)
    return found.path


def _is_kept(base: Base, version: Commit, latest: Commit) -> bool:
    return version.dataset is not None and (version.dataset == latest.dataset or base.find(version.dataset) is not None)
