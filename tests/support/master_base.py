"""The commands run and status on a base with a master."""

from __future__ import annotations

from typing import Any

from mutator.config import Config
from mutator.workflow import directory
from mutator.workflow.directory.master_target import MasterTarget, Merge
from mutator.workflow.directory.paths import open_base
from mutator.workflow.directory.results import BaseStatus, RunOutcome


def run_workflow(path: str, config: Config, merge: Merge, **more: Any) -> RunOutcome:
    return directory.run(MasterTarget(open_base(path), config, merge), **more)


def status_of(path: str, config: Config) -> BaseStatus:
    return directory.status(MasterTarget(open_base(path), config))
