"""A look at incr/ that can be repeated often: while nothing arrives, it is one listing."""

from mutator.config import Config
from mutator.storage import Entry, entries_of
from mutator.workflow.directory.arrivals import Arrivals, arrivals, arrived
from mutator.workflow.directory.bad_files import settled
from mutator.workflow.directory.paths import Base
from mutator.workflow.to_table.claims import Claims, claims, following
from mutator.workflow.to_table.target import TargetTable


class Look:
    """The feed files of a base, as the next run will find them."""

    def __init__(self, base: Base, config: Config, target: TargetTable) -> None:
        """Read nothing yet."""
        self._base, self._config, self._target = base, config, target
        self._claims: Claims | None = None

    def seconds(self) -> float | None:
        """Return the seconds until a run would claim a feed file: 0 for now; None while there is no feed file."""
        entries = [one for one in entries_of(self._base.at("incr")) if not self._is_claimed(one)]
        if not entries:
            return None
        found = self.arrivals()
        return 0.0 if found.ready else found.seconds

    def arrivals(self) -> Arrivals:
        """Return the feed files in incr/."""
        base, table = self._base, self._target.path
        if base.storage.renames:
            return arrivals(base, self._config, frozenset())
        self._claims = claims(base, table) if self._claims is None else following(table, self._claims)
        return arrivals(base, self._config, self._claims.files | settled(base))

    def _is_claimed(self, entry: Entry) -> bool:
        return self._claims is not None and arrived(entry) in self._claims.files
