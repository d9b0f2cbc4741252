"""What a command sees of a base: the problems met while it is looked at, and the actions and problems of a recovery."""

from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

from mutator.errors import MutatorError, StateError, StorageError
from mutator.errors.parts import place
from mutator.errors.quick_dataclass import dataclass
from mutator.workflow.directory.arrivals import Arrivals, sightings
from mutator.workflow.directory.paths import Base

Seen = TypeVar("Seen")


@dataclass
class Recovered:
    """The actions and problems of a recovery."""

    actions: list[str] = field(default_factory=list)
    problems: list[MutatorError] = field(default_factory=list)
    stopped: bool = False  # by the last problem


class View:
    """A base, and the problems met while it is looked at."""

    def __init__(self, base: Base) -> None:
        """See nothing yet."""
        self.base = base
        self.problems: list[str] = []

    def see(self, act: Callable[[], Seen]) -> Seen | None:
        """Return the result of a function; None, with a problem, if the storage fails or what it reads is damaged."""
        try:
            return act()
        except (StorageError, StateError) as fault:
            self.add(fault.message)
            return None

    def add(self, problem: str) -> None:
        """Add a problem, unless it is there already."""
        shown = self.base.said(problem)
        if not any(one.endswith(shown) for one in self.problems):
            self.problems.append(shown)

    def stuck(self, found: Arrivals) -> set[str]:
        """Return the names of the files that the last run could not move; each is a problem."""
        notes = sightings(self.base).stuck
        stuck = [ready.feed for ready in found.ready if ready.feed.path in notes]
        for entry in stuck:
            self.add(f"{place(entry.path)}: {notes[entry.path]}")
        return {entry.name for entry in stuck}
