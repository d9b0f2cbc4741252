"""The merge of a workflow: ``mutator run`` on the claimed feed files, with any engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mutator.config import Config
from mutator.workflow.directory.report_paths import with_paths
from mutator.workflow.directory.run_phases import Merge, Merged, Task

if TYPE_CHECKING:
    from mutator.pipeline.runners import Engine


def merge_by(config: Config, merge_on: Engine, engine: str = "auto") -> Merge:
    """Return the merge for a configuration. engine: as in ``mutate``."""

    def merge(task: Task) -> Merged | tuple[str, ...]:
        # They load Arrow: most runs of a workflow find nothing to merge.
        from mutator.pipeline.merge import carry_out, prepare

        prepared = prepare(
            config, task.master, task.feed, task.output, run=task.run, version=task.version, engine=engine
        )
        skipped = tuple(source.name for source in prepared.survey.consumed)
        if not prepared.survey.feed:
            return skipped
        plan = replace(prepared.plan, filters=task.filters)
        made, report = carry_out(replace(prepared, plan=plan, given=task.paths), merge_on)
        return Merged(made, skipped, with_paths(report, task.moved))

    return merge
