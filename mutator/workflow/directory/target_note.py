"""A note in a base: the table that its feed files go into. Without it, a command could take them for another target."""

from mutator.dataset import checksummed_json, manifest
from mutator.errors import error
from mutator.storage import entries_of, located, read_if_exists
from mutator.workflow.directory.paths import Base

_FORMAT = "mutator target"
_BESIDE = "table"  # directory of the table in a base, unless another one is given


def target_path(base: Base, given: str | None = None) -> str | None:
    """Return the path of the table that is the target of a base; None if its target is a master.

    given: by the user, for a base without a note, or after the table has moved. Raises StateError for another one, and
    if the table is not where the note says.
    """
    noted = _noted(base)
    if given is None:
        if noted is not None and not is_table(noted):
            raise error("base.target.lost", path=base.given, target=noted, note=_path(base))
        return noted or (base.at(_BESIDE) if is_table(base.at(_BESIDE)) else None)
    storage, path = located(given)
    path = storage.resolve(path)
    if noted not in (None, path) and is_table(str(noted)):
        raise error("base.target", path=base.given, target=noted, given=given, note=_path(base))
    return path


def note_target(base: Base, table: str) -> None:
    """Note the table of a base. A table in the base may move with it."""
    if _noted(base) != table:
        own = base.at("")
        members = {"inside": table.startswith(own), "table": table.removeprefix(own)}
        base.storage.replace(_path(base), checksummed_json.dump(_FORMAT, 1, members))


def is_table(path: str) -> bool:
    """Return whether a path has a table."""
    return bool(entries_of(f"{path}/{manifest.TABLE}"))


def _noted(base: Base) -> str | None:
    data = read_if_exists(_path(base))
    if data is None:
        return None
    try:
        members = checksummed_json.parse(data, _FORMAT, 1)
        return base.at(members["table"]) if members["inside"] else str(members["table"])
    except (KeyError, TypeError, ValueError):
        raise error("base.target.damaged", path=_path(base)) from None


def _path(base: Base) -> str:
    return base.at("_mutator", "target.json")
