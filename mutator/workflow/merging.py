"""The merge of a workflow: ``mutator run`` on what a run has claimed, on any engine."""

from __future__ import annotations

from mutator.config import Config
from mutator.pipeline import Engine, carry_out, prepare
from mutator.workflow.run import Merge, Merged, Task

__all__ = ["merge_by"]


def merge_by(config: Config, merge_on: Engine, engine: str = "auto") -> Merge:
    """Make the merge of a configuration. engine: as ``mutate`` has it."""

    def merge(task: Task) -> Merged | tuple[str, ...]:
        prepared = prepare(config, task.master, task.feed, task.output, run=task.run, engine=engine)
        skipped = tuple(source.name for source in prepared.survey.consumed)
        if not prepared.survey.feed:
            return skipped
        made, report = carry_out(prepared, merge_on)
        return Merged(made, skipped, report)

    return merge
