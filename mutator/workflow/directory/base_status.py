"""The status of a base: what can be seen of it, and, as problems, what cannot, and why."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from mutator.errors import MutatorError, StateError, StorageError
from mutator.errors.exceptions import BUSY
from mutator.workflow.directory import bad_files
from mutator.workflow.directory.arrivals import Arrivals, sightings
from mutator.workflow.directory.failed_run import failed_run
from mutator.workflow.directory.lock import holder
from mutator.workflow.directory.recovery import Recovered, locked_with_room, recover
from mutator.workflow.directory.results import BaseStatus
from mutator.workflow.directory.run_phases import Target

Seen = TypeVar("Seen")


class View:
    """A base, and the problems met while it is looked at."""

    def __init__(self, target: Target) -> None:
        """See nothing yet."""
        self.target, self.base = target, target.base
        self.problems: list[str] = []

    def see(self, act: Callable[[], Seen]) -> Seen | None:
        """Return the result of a function; None, with a problem, if the storage fails or what it reads is damaged."""
        try:
            return act()
        except (StorageError, StateError) as fault:
            self.add(str(fault))
            return None

    def add(self, problem: str) -> None:
        """Add a problem, unless it is there already."""
        shown = self.base.shown(problem)
        if not any(one.endswith(shown) for one in self.problems):
            self.problems.append(shown)

    def recover(self, stack: ExitStack) -> Recovered | None:
        """Take the lock and recover; None if another process is at work, or the lock cannot be taken."""
        try:
            stack.enter_context(locked_with_room(self.target, "look"))
        except StorageError as fault:
            self.add(f"nothing was recovered, because the lock cannot be taken: {fault}")
            return None
        except MutatorError as fault:
            if fault.kind not in BUSY:
                raise
            return None
        recovered = recover(self.target)
        for problem in recovered.problems:
            last = recovered.stopped and problem is recovered.problems[-1]
            self.add(f"the recovery stopped: {problem}" if last else str(problem))
        return recovered

    def stuck(self, found: Arrivals) -> set[str]:
        """Return the names of the files that the last run could not move; each is a problem."""
        notes = sightings(self.base).stuck
        stuck = [ready.feed for ready in found.ready if ready.feed.path in notes]
        for entry in stuck:
            self.add(f"{entry.path}: {notes[entry.path]}")
        return {entry.name for entry in stuck}


def status(target: Target) -> BaseStatus:
    """Return the status of a base."""
    base, view = target.base, View(target)
    with ExitStack() as stack:
        recovered = view.recover(stack)
        state = target.state(view, recovered=recovered is not None and not recovered.stopped)
        found = view.see(target.arrivals)
        stuck = (view.see(lambda: view.stuck(found)) if found is not None else None) or set()
        failed = view.see(lambda: failed_run(base))
        if failed is not None:
            view.add(failed.problem())
        aside = view.see(lambda: bad_files.failed_files(base, target.merged_after)) or ()
        for problem in bad_files.problems(base, aside):
            view.add(problem)
        return BaseStatus(
            base=base.given,
            target=state,
            running=view.see(lambda: holder(base)) if recovered is None else None,
            ready=None if found is None else tuple(one.feed.name for one in found.ready if one.feed.name not in stuck),
            waiting=None if found is None else found.waiting,
            recovered=tuple(recovered.actions) if recovered else (),
            problems=tuple(view.problems),
            failed=failed,
            failed_files=aside,
        )
