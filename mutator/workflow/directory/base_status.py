"""The status of a base: what can be seen of it, and, as problems, what cannot, and why."""

from contextlib import ExitStack

from mutator.errors import MutatorError, StorageError
from mutator.errors.exceptions import BUSY
from mutator.workflow.directory import bad_files
from mutator.workflow.directory.failed_run import failed_run
from mutator.workflow.directory.lock import holder
from mutator.workflow.directory.recovery import locked_with_room, recover
from mutator.workflow.directory.results import BaseStatus
from mutator.workflow.directory.run_phases import Target
from mutator.workflow.directory.view import Recovered, View


def status(target: Target) -> BaseStatus:
    """Return the status of a base."""
    base, view = target.base, View(target.base)
    with ExitStack() as stack:
        recovered = _recovered(target, view, stack)
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


def _recovered(target: Target, view: View, stack: ExitStack) -> Recovered | None:
    """Take the lock and recover; None if another process is at work, or the lock cannot be taken."""
    try:
        stack.enter_context(locked_with_room(target, "look"))
    except StorageError as fault:
        view.add(f"nothing was recovered, because the lock cannot be taken: {fault.message}")
        return None
    except MutatorError as fault:
        if fault.kind not in BUSY:
            raise
        return None
    recovered = recover(target)
    for problem in recovered.problems:
        last = recovered.stopped and problem is recovered.problems[-1]
        view.add(f"the recovery stopped: {problem.message}" if last else problem.message)
    for warning in target.warnings:
        view.add(warning)
    return recovered
